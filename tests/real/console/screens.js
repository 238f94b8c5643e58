// The screens under load, with names that are markup.
'use strict';

const MARKUP = '<img src=x onerror=alert(1)>"\'&amp;';

module.exports = async ({ browser, base, settings, assert, decide, eventually, ask, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  await signIn(page, base, settings.admin_token);

  // Live figures move under load.
  const value = () => page.locator('.figure .value').first().textContent();
  await eventually(async () => assert.notEqual(await value(), '0/s'));
  const seen = new Set();
  await eventually(async () => assert.ok(seen.add(await value()).size > 2, [...seen].join()));
  await page.getByText('Live', { exact: true }).waitFor();

  // What was counted is what is shown.
  await page.getByRole('heading', { name: 'Most denied keys' }).waitFor();
  const limits = page.getByRole('region', { name: 'What the limits decided in the last second' });
  await limits.getByText('per-user').waitFor();
  await page.locator('tg-chart svg path').first().waitFor();
  await page.locator('tg-chart .plot').first().hover();
  await page.locator('tg-chart .legend b').first().waitFor();
  await page.mouse.move(0, 0);
  // By the keyboard too, and what is pointed at stays while new figures arrive.
  await page.locator('tg-chart .plot').first().focus();
  await page.keyboard.press('ArrowLeft');
  await page.locator('tg-chart .pointer').waitFor({ state: 'attached' });
  const drawn = await value();
  await eventually(async () => assert.notEqual(await value(), drawn));
  assert.equal(await page.locator('tg-chart .pointer').count(), 1);
  assert.equal(await page.evaluate(() => document.activeElement?.className), 'plot', 'the focus stays');

  // A name with markup is text, here and where its link leads. It asks so often that it is denied: fewer keys are denied than
  // are shown, while the keys that take more become ever more.
  const beDenied = () => Promise.all(Array.from({ length: 20 }, () => decide({ user: MARKUP })));
  await eventually(async () => {
    await beDenied();
    assert.ok(await page.getByRole('link', { name: MARKUP }).count() > 0);
  });
  assert.equal(await page.locator('img').count(), 0);
  await look(page, 'now');
  await eventually(async () => {
    await beDenied();
    await page.getByRole('link', { name: MARKUP }).first().click({ timeout: 2_000 });
  });
  await eventually(() => assert.ok(page.url().includes('/console/key?user='), page.url()));
  assert.equal(await page.getByLabel('Whom').inputValue(), MARKUP);
  assert.equal(await page.locator('img').count(), 0);

  // The kill switch: everybody is admitted, everybody sees it, and it is taken back.
  await page.getByRole('link', { name: 'Now', exact: true }).click();
  const drained = async () => (await decide({ user: 'drained', cost: 100_000 })).body.allowed;
  assert.equal(await drained(), false);
  await page.getByRole('button', { name: 'Switch all limits off' }).click();
  await page.getByRole('textbox', { name: 'Reason' }).fill('<i>an incident</i>');
  await page.getByRole('button', { name: 'Switch off', exact: true }).click();
  await eventually(async () => assert.equal(await drained(), true));
  await page.getByText('The kill switch is on').waitFor();
  await page.getByText('<i>an incident</i>').waitFor();
  await look(page, 'now-kill-switch');
  await page.getByRole('button', { name: 'Switch limits on' }).click();
  await page.getByRole('button', { name: 'Switch on', exact: true }).click();
  await eventually(async () => assert.equal(await drained(), false));
  await page.getByText('The kill switch is on').waitFor({ state: 'detached' });

  // Tokens: made, used, revoked.
  await page.getByRole('link', { name: 'Tokens', exact: true }).click();
  await page.getByRole('button', { name: 'New token' }).click();
  await page.getByLabel('For whom or what').fill(MARKUP);
  await page.getByLabel('Role').selectOption('operator');
  await look(page, 'tokens-new');
  await page.getByRole('button', { name: 'Make it' }).click();
  const made = await page.getByRole('dialog', { name: 'The new token' }).locator('.command code').textContent();
  const whoami = async () => (await fetch(`${base}/api/v1/whoami`, { headers: { authorization: `Bearer ${made}` } }));
  assert.equal((await (await whoami()).json()).role, 'operator');
  await page.getByRole('button', { name: 'Close', exact: true }).click();
  await page.getByRole('rowheader', { name: MARKUP }).waitFor();
  assert.equal(await page.locator('img').count(), 0);
  await look(page, 'tokens');
  await page.getByRole('button', { name: `Revoke ${MARKUP}` }).click();
  await page.getByLabel('Reason').fill('the test is over');
  await page.getByRole('button', { name: 'Revoke', exact: true }).last().click();
  await page.getByText('The token is revoked.').waitFor();
  await eventually(async () => assert.equal((await whoami()).status, 401));

  // Nodes: another one comes and goes.
  await ask('start_other');
  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  const rows = page.getByRole('region', { name: 'Nodes' }).locator('tbody tr');
  await eventually(async () => assert.equal(await rows.count(), 2));
  await look(page, 'nodes');
  await page.getByRole('link', { name: 'Now', exact: true }).click();
  await page.getByRole('heading', { name: '2 nodes' }).waitFor();
  await ask('kill_other');
  await page.getByRole('heading', { name: '1 node' }).waitFor();
  await page.getByText(/ is gone$/).waitFor();
  await look(page, 'now-node-gone');
  await page.getByRole('button', { name: 'That is intended' }).click();
  await page.getByText(/ is gone$/).waitFor({ state: 'detached' });
  check();
};
