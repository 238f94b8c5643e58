// A policy of thousands of limits is read, changed and published as a short one is.
'use strict';

module.exports = async ({ browser, base, settings, assert, decide, eventually, openPage, signIn }) => {
  const { page, check } = await openPage(browser, base);
  const policy = await (await fetch(`${base}/api/v1/policy`, { headers: { authorization: `Bearer ${settings.token}`, accept: 'application/yaml' } })).text();
  await signIn(page, base, settings.token, 'policy');
  // The first lines are there before the text field has the text.
  await page.locator('.ink').getByText('limit-0000').waitFor();
  const editor = page.getByRole('textbox', { name: 'The policy' });
  await eventually(async () => assert.equal(await editor.inputValue(), policy));
  await page.getByText('Valid', { exact: true }).waitFor();
  assert.ok(await page.locator('.ink > div').count() < 200, 'only lines that can be seen are drawn');

  await editor.press('Control+End');
  const last = policy.trimEnd().split('\n').length;
  await page.locator('.gutter').getByText(String(last), { exact: true }).waitFor();
  await page.keyboard.type('  - { name: closed, key: [], sustained: { rate: zero } }');
  await page.getByRole('button', { name: new RegExp(`Line ${last + 1}`) }).waitFor();
  // From elsewhere, the problem leads to its line.
  await editor.press('Control+Home');
  await page.locator('.gutter').getByText('1', { exact: true }).waitFor();
  await page.getByRole('button', { name: new RegExp(`Line ${last + 1}`) }).click();
  await page.locator('.gutter .bad').getByText(String(last + 1), { exact: true }).waitFor();
  await editor.press('Control+End');
  for (let letter = 0; letter < 'zero } }'.length; letter += 1) await page.keyboard.press('Backspace');
  await page.keyboard.type('1, window: day } }');
  await page.getByText('Valid', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Review and publish' }).click();
  await page.locator('.diff .added').getByText('name: closed').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click();
  await page.getByText('is in force.').waitFor();
  await eventually(async () => {
    await decide({ user: '1' });
    assert.equal((await decide({ user: '1' })).body.violated_rule, 'closed');
  });
  check();
};
