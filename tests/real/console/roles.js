// Everybody sees and may do what the role says, and nothing more.
'use strict';

const SEEN = {
  viewer: ['Now', 'Key', 'Try', 'Policy', 'Tenants', 'Audit', 'Nodes', 'Who am I'],
  operator: ['Now', 'Key', 'Try', 'Policy', 'Tenants', 'Audit', 'Nodes', 'Who am I'],
  editor: ['Now', 'Key', 'Try', 'Policy', 'Tenants', 'Audit', 'Nodes', 'Who am I'],
  admin: ['Now', 'Key', 'Try', 'Policy', 'Tenants', 'Audit', 'Nodes', 'Tokens', 'Who am I'],
  partner: ['Now', 'Key', 'Try', 'Tenants', 'Audit', 'Who am I'],
};

module.exports = async ({ browser, base, settings, assert, openPage, signIn, eventually, look }) => {
  for (const [role, screens] of Object.entries(SEEN)) {
    const { page, check, context } = await openPage(browser, base);
    await signIn(page, base, settings.tokens[role]);
    const links = await page.getByRole('navigation', { name: 'Screens' }).getByRole('link').allTextContents();
    for (const screen of screens) assert.ok(links.includes(screen), `${role} sees ${screen}`);
    for (const screen of ['Policy', 'Nodes', 'Tokens'].filter((one) => !screens.includes(one))) assert.ok(!links.includes(screen), `${role} does not see ${screen}`);
    // An address that somebody was sent leads nowhere.
    if (!screens.includes('Tokens')) {
      await page.goto(`${base}/console/tokens`);
      await page.getByText('There is no such screen').waitFor();
    }
    await page.goto(`${base}/console/account`);
    await page.locator('.facts').getByText(role === 'partner' ? 'operator' : role, { exact: true }).waitFor();
    if (role === 'partner') {
      await page.getByText('and those below it').waitFor();
      await page.goto(`${base}/console/now`);
      await eventually(async () => assert.ok((await page.getByRole('main').textContent()).includes('tenant:acme')));
      const text = await page.getByRole('main').textContent();
      assert.ok(!text.includes('per-user') && !text.includes('tenant:other'), 'a partner sees its subtree only');
      await look(page, 'now-partner');
    }
    check();
    await context.close();
  }
};
