// The first minutes: the server was started without anything, and its token is copied from its output.
'use strict';

module.exports = async ({ browser, base, settings, assert, ask, eventually, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  await page.goto(`${base}/console`);
  assert.equal(page.url(), `${base}/console/`, 'the address without the slash leads there');
  await page.getByRole('heading', { name: 'Tidegate' }).waitFor();
  await look(page, 'sign-in');

  await page.getByLabel('Token').fill('tga_wrong');
  await page.getByLabel('Token').press('Enter');
  await page.getByRole('alert').getByText('Sign in again').waitFor();
  await signIn(page, base, settings.token);

  await page.getByText('Nothing was decided in the last hour').waitFor();
  const commands = await page.locator('.command code').allTextContents();
  assert.deepEqual(commands.slice(0, 2), settings.commands, 'those that the server has printed');
  await look(page, 'now-quick-start');

  // Typed as it is shown, the first command asks this server, and the page comes alive.
  const answer = await ask('type', { text: commands[0] });
  assert.equal(JSON.parse(answer).allowed, true, answer);
  await page.getByText('Nothing was decided in the last hour').waitFor({ state: 'detached' });
  await page.getByRole('heading', { name: 'Decisions', exact: true }).waitFor();
  await page.getByRole('region', { name: 'Busiest keys' }).getByText('42').first().waitFor();

  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  await page.getByRole('region', { name: 'Nodes' }).getByText('seen', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Tokens', exact: true }).click();
  await page.getByRole('heading', { name: 'This needs a database' }).waitFor();
  await page.getByText('tidegate serve --data').waitFor();
  await look(page, 'tokens-quick-start');
  await page.getByRole('link', { name: 'Who am I' }).click();
  await page.getByText('may also give tokens to others').waitFor();
  await look(page, 'who-am-i');

  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await look(page, 'keyboard');
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await eventually(() => assert.equal(page.url(), `${base}/console/key`));
  await look(page, 'key-empty');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'INPUT', 'it goes to the first field');

  await page.getByRole('button', { name: 'Sign out' }).first().click();
  await page.getByLabel('Token').waitFor();
  await page.goto(`${base}/console/now`);
  await page.getByLabel('Token').waitFor();
  check();
};
