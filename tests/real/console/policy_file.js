// A policy in a file is shown, with the reason why it cannot be changed here.
'use strict';

module.exports = async ({ browser, base, settings, assert, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  await signIn(page, base, settings.token, 'policy');
  await page.getByText('The policy comes from the file').waitFor();
  const editor = page.getByRole('textbox', { name: 'The policy' });
  assert.equal(await editor.inputValue(), settings.policy);
  assert.ok(!(await editor.isEditable()));
  for (const name of ['Change a limit', 'Add a limit', 'Block', 'Allow', 'Review and publish']) {
    assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
  }
  await look(page, 'policy-file');
  await page.goto(`${base}/console/policy?view=versions`);
  await page.getByText('This needs a database').waitFor();
  await page.goto(`${base}/console/try?user=42`);
  await page.getByText('50 of 50 left').first().waitFor();
  check();
};
