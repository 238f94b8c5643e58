// Trying: a request by the policy in force, by a version and by the draft, now and at another time; and a trace.
'use strict';

module.exports = async ({ browser, base, settings, assert, decide, eventually, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  const side = (title) => page.locator('.card', { has: page.getByRole('heading', { name: title, exact: true }) });
  await signIn(page, base, settings.tokens.editor, 'try');
  await page.getByText('What would happen to a request?').waitFor();
  await look(page, 'try-empty');

  // The policy in force is asked with its live buckets, and nothing is charged.
  await decide({ user: 'u1' });
  await page.getByLabel('Whom').fill('u1');
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  await side('By the policy in force').getByText('holds 9 of 10').waitFor();
  assert.equal((await decide({ user: 'u1' }, 'peek')).body.remaining, 9);
  assert.ok(page.url().endsWith('/console/try?user=u1'), page.url());

  // Beside it the draft of the editor, which denies it.
  await page.goto(`${base}/console/policy`);
  const editor = page.getByRole('textbox', { name: 'The policy' });
  await editor.fill(`${await editor.inputValue()}block:\n  - { user: u1, reason: "<b>no</b>", until: 2035-01-01T00:00:00Z }\n`);
  await page.getByText('Valid', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  await page.getByLabel('Whom').fill('u1');
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  await side('By the draft').getByText('Denied').waitFor();
  await side('By the draft').getByText('<b>no</b>').waitFor();
  await side('By the policy in force').getByText('Admitted').waitFor();
  await look(page, 'try');

  // At a time when the block has ended.
  await page.getByLabel('At', { exact: true }).fill('2035-01-01T12:00:00');
  await side('By the draft').getByText('Admitted').waitFor();
  await page.getByText('2035-01-01 11:00:00 UTC; every bucket is full then.').waitFor();
  assert.ok(page.url().includes('at=2035-01-01T11%3A00%3A00.000Z'), 'a link means the same in every zone');
  assert.equal(await page.getByLabel('At', { exact: true }).inputValue(), '2035-01-01T12:00');
  await page.getByLabel('At', { exact: true }).fill('');
  await side('By the draft').getByText('Denied').waitFor();

  // A version, and a request as JSON.
  await page.getByLabel('Beside it').selectOption('version:1');
  await side('By version 1').getByText('50 of 50').first().waitFor();
  await page.getByLabel('What').selectOption('request');
  await page.getByLabel('Request', { exact: true }).fill('{"user":"u2","cost":100}');
  await page.getByRole('button', { name: 'Try', exact: true }).click();
  await side('By version 1').getByText('cost exceeds capacity').first().waitFor();

  // A trace that is dropped: who is denied when, by both policies.
  await page.getByLabel('Beside it').selectOption('draft');
  const lines = [];
  for (let at = 0; at < 300; at += 1) lines.push({ at_ms: at * 10, user: at % 3 === 0 ? 'u1' : at % 3 === 1 ? 'greedy' : `guest-${at}` });
  await page.getByLabel('Drop a trace here').setInputFiles({ name: 'trace.jsonl', mimeType: 'text/plain', buffer: Buffer.from(lines.map((one) => JSON.stringify(one)).join('\n')) });
  const [live, draft] = [page.locator('.lanes').nth(0), page.locator('.lanes').nth(1)];
  await draft.getByText('of 300 requests denied').waitFor();
  const denied = async (lanes, name) => Number(await lanes.locator('.lane', { has: page.locator(`span[title="${name}"]`) }).locator('.number').innerText());
  // Of 100 requests in three seconds, ten are in the bucket.
  assert.deepEqual([await denied(live, 'u1'), await denied(live, 'greedy')], [90, 90]);
  assert.deepEqual([await denied(draft, 'u1'), await denied(draft, 'greedy')], [100, 90]);
  await look(page, 'try-trace');

  // Dropped with the mouse, and one with a wrong line.
  const transfer = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(['{"at_ms":0,"user":"a"}\nnot json\n'], 'wrong.jsonl'));
    return data;
  });
  await page.dispatchEvent('.drop', 'drop', { dataTransfer: transfer });
  await page.getByText(/line 2, column/).first().waitFor();

  // The request above, repeated.
  await page.getByLabel('Or repeat the request').fill('20');
  await page.getByLabel('One each').fill('1');
  await page.getByRole('button', { name: 'Replay' }).click();
  await page.getByText('20 of 20 requests denied').first().waitFor();

  // Somebody with a tenant tries with the policy in force only.
  const partner = await openPage(browser, base);
  await signIn(partner.page, base, settings.tokens.partner, 'try');
  await partner.page.getByLabel('What').selectOption('tenant');
  await partner.page.getByLabel('Whom').fill('acme');
  await partner.page.getByRole('button', { name: 'Try', exact: true }).click();
  await eventually(async () => assert.ok(await partner.page.getByText('Admitted').first().isVisible()));
  assert.equal(await partner.page.getByLabel('Beside it').count(), 0);
  assert.equal(await partner.page.getByRole('link', { name: 'Policy' }).count(), 0);
  partner.check();
  check();
};
