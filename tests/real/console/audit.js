// Audit: who changed what, who was denied, the state of the chain, and an export that is the same as the API's.
'use strict';

const fs = require('node:fs');

const MARKUP = '<img src=x onerror=alert(1)>';

module.exports = async ({ browser, base, settings, assert, eventually, openPage, signIn, look }) => {
  const { page, check, context } = await openPage(browser, base);
  const headers = { authorization: `Bearer ${settings.admin_token}` };
  const api = async (path, accept = 'application/json') => (await fetch(`${base}/api/v1${path}`, { headers: { ...headers, accept } })).text();
  await signIn(page, base, settings.tokens.viewer, 'audit?list=changes');
  const rows = page.locator('tbody tr');
  const lists = page.getByRole('navigation', { name: 'Lists' });

  // The chain.
  await page.getByText('The audit is as it was written').waitFor();
  assert.equal(await page.locator('.notice code').textContent(), JSON.parse(await api('/audit/verify')).hash);

  // A change, its reason, and its difference.
  const change = rows.filter({ hasText: 'a quiet month' });
  await change.getByText('1 change').click();
  await change.getByText('rate_limit.sustained.rate').waitFor();
  assert.equal(await change.locator('del').textContent(), '600');
  assert.equal(await change.locator('ins').textContent(), '500');
  await rows.filter({ hasText: MARKUP }).waitFor();
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await rows.filter({ hasText: 'invalid credentials' }).count(), 0);
  await look(page, 'audit');

  // Security events, and denials, which arrive after ten seconds.
  await lists.getByRole('link', { name: 'Security' }).click();
  await eventually(async () => {
    await page.getByRole('button', { name: 'Load again' }).click();
    assert.ok(await rows.filter({ hasText: 'invalid credentials' }).count() > 0);
  }, 30);
  await lists.getByRole('link', { name: 'Denials' }).click();
  await eventually(async () => {
    await page.getByRole('button', { name: 'Load again' }).click();
    assert.ok(await rows.filter({ hasText: 'tenant:partner-a' }).filter({ hasText: 'tenant-a1' }).count() > 0);
  }, 30);
  await rows.getByText(MARKUP).first().waitFor();
  assert.equal(await page.locator('img').count(), 0);

  // Filters are part of the address.
  await page.getByLabel('Limit').fill('tenant:partner-a');
  await page.getByLabel('Tenant').fill('tenant-a1');
  const isFiltered = async () => {
    const texts = await rows.allTextContents();
    assert.ok(texts.length > 0 && texts.every((text) => text.includes('tenant:partner-a') && text.includes('tenant-a1')), texts.join('\n'));
  };
  await eventually(isFiltered);
  assert.ok(page.url().includes('list=violations') && page.url().includes('limit_name=tenant%3Apartner-a') && page.url().includes('tenant=tenant-a1'), page.url());
  await page.reload();
  await rows.first().waitFor();
  await eventually(isFiltered);
  await look(page, 'audit-denials');
  await page.getByLabel('User').fill('nobody');
  await page.getByText('Nothing matches the filters').waitFor();
  await page.goBack();

  // What is exported is what the API has.
  await page.goto(`${base}/console/audit?list=changes&kind=rate_limit_config_updated`);
  await rows.first().waitFor();
  for (const [name, ending, accept] of [['CSV', 'csv', 'text/csv'], ['NDJSON', 'ndjson', 'application/x-ndjson']]) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name, exact: true }).click()]);
    assert.equal(download.suggestedFilename(), `tidegate-audit.${ending}`);
    assert.equal(fs.readFileSync(await download.path(), 'utf8'), await api('/audit?kind=rate_limit_config_updated&limit=1000', accept));
  }
  // Of the lists that are a part of the audit, it is what they show.
  for (const [list, isMeant] of [['changes', (event) => !/^(burst|unknown|invalid)_/.test(event)], ['security', (event) => /^(burst|unknown|invalid)_/.test(event)]]) {
    await page.goto(`${base}/console/audit?list=${list}`);
    await rows.first().waitFor();
    const save = async (name) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name, exact: true }).click()]);
      return fs.readFileSync(await download.path(), 'utf8').trimEnd();
    };
    const events = (await save('NDJSON')).split('\n').map((line) => JSON.parse(line));
    assert.ok(events.length > 0 && events.every(({ event }) => isMeant(event)), list);
    const ours = (await api('/audit?limit=1000', 'application/x-ndjson')).trimEnd().split('\n').map((line) => JSON.parse(line)).filter(({ event }) => isMeant(event));
    assert.ok(ours.length >= events.length);
    // Security events may come at any time; changes do not.
    if (list === 'changes') assert.deepEqual(events, ours);
    const csv = (await save('CSV')).match(/(?:"(?:[^"]|"")*"|[^"\n])+/g);
    assert.ok(csv[0].startsWith('actor,') && csv.length - 1 >= events.length && csv.length - 1 <= events.length + 5, csv.join('\n'));
    assert.ok(csv.slice(1).every((line) => /\b(burst|unknown|invalid)_\w+,\d{4}-/.test(line) === (list === 'security')), csv.join('\n'));
  }
  check();
  await context.close();

  // A partner sees what is about its tenants, and nothing of the chain or of changes of the policy.
  const partner = await openPage(browser, base);
  await signIn(partner.page, base, settings.tokens.partner, 'audit');
  await partner.page.locator('tbody tr').first().waitFor();
  const text = await partner.page.getByRole('main').textContent();
  assert.ok(text.includes('tenant-a1') && !text.includes('tenant-b1') && !text.includes('quiet month') && !text.includes('as it was written'), text);
  await look(partner.page, 'audit-partner');
  partner.check();
};
