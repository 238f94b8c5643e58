// A draft runs beside the policy in force: who it would deny is seen, nobody is denied by it, and then it is promoted.
'use strict';

module.exports = async ({ browser, base, settings, assert, decide, eventually, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  const dialog = page.getByRole('dialog');
  await signIn(page, base, settings.tokens.editor, 'policy?view=candidates');
  await page.goto(`${base}/console/policy?view=candidates`);
  await page.getByText('Who would be denied, if this were the policy?').waitFor();
  await page.getByRole('link', { name: 'Document', exact: true }).click();
  const editor = page.getByRole('textbox', { name: 'The policy' });
  await editor.fill((await editor.inputValue()).replace('capacity: 10', 'capacity: 3'));
  await page.getByText('Valid', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Run as candidate' }).click();
  await dialog.getByLabel('Name').fill('<b>tight</b>');
  await look(page, 'candidate-start');
  await dialog.getByRole('button', { name: 'Start' }).click();
  await page.getByText('No request has come since it began').waitFor();

  for (let sent = 0; sent < 8; sent += 1) assert.equal((await decide({ user: 'greedy' })).body.allowed, true, 'the candidate denies nobody');
  const denied = page.locator('.facts div', { hasText: 'Newly denied' });
  await denied.getByText('5 62.5%').waitFor();
  await page.getByText('greedy').first().waitFor();
  await page.getByText('What <b>tight</b> would decide otherwise').waitFor();
  await look(page, 'candidate-report');

  // The draft is what was tried: its report is there before it is published.
  await page.getByRole('link', { name: 'Document', exact: true }).click();
  await page.getByRole('button', { name: 'Review and publish' }).click();
  await dialog.getByText('As a candidate it has newly denied 5 and newly admitted 0 of 8 requests.').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();

  // It can be tried with a request, and promoted.
  await page.getByRole('link', { name: 'Candidates', exact: true }).click();
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  await page.getByLabel('Whom').fill('greedy');
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  await page.getByRole('heading', { name: 'By candidate <b>tight</b>' }).waitFor();
  await page.getByText('Denied').first().waitFor();
  await page.goBack();
  await page.goto(`${base}/console/policy?view=candidates`);
  await page.getByRole('button', { name: 'Promote' }).click();
  await dialog.getByRole('button', { name: 'Publish' }).click();
  await eventually(async () => assert.equal((await decide({ user: 'other' }, 'peek')).body.limit, 3));
  await page.getByText('became version 3').waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('Who would be denied, if this were the policy?').waitFor();
  check();
};
