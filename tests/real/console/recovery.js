// The server goes away and comes back, and a session ends: the page says so, and nothing is lost.
'use strict';

module.exports = async ({ browser, base, settings, assert, ask, eventually, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  await signIn(page, base, settings.tokens.operator);
  await page.getByText('Live', { exact: true }).waitFor();

  await ask('stop');
  await page.getByText('The figures below are old').waitFor();
  await page.getByText('No connection').waitFor();
  await look(page, 'now-no-connection');
  await ask('start');
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByText('The figures below are old').waitFor({ state: 'detached' });

  // The session ends while somebody types.
  await page.getByRole('link', { name: 'Key', exact: true }).click();
  await page.getByLabel('Whom').fill('somebody-half-typed');
  await ask('revoke');
  // It is refused within a second.
  const refused = { headers: { authorization: `Bearer ${settings.tokens.operator}` } };
  await eventually(async () => assert.equal((await fetch(`${base}/api/v1/whoami`, refused)).status, 401));
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' });
  await eventually(async () => {
    await page.getByLabel('Whom').press('Enter', { timeout: 1_000 }).catch(() => {});
    assert.ok(await dialog.isVisible());
  });
  await look(page, 'session-ended');
  await page.keyboard.press('Escape');
  assert.ok(await dialog.isVisible(), 'nothing behind it works, so it cannot be closed');
  const token = await ask('token');
  await dialog.getByLabel('Token').fill(token);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  // Another token is another person, for whom the page starts anew; the address still says what was looked at.
  await eventually(() => assert.ok(page.url().endsWith('user=somebody-half-typed'), page.url()));
  await dialog.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await page.getByLabel('Whom').inputValue(), 'somebody-half-typed'));
  check();
};
