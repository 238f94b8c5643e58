// The screen Tenants while there is none: it teaches, and the first one is added here.
'use strict';

module.exports = async ({ browser, base, settings, decide, eventually, assert, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  await signIn(page, base, settings.admin_token, 'tenants');
  await page.getByText('tidegate admin tenants create').waitFor();
  await look(page, 'tenants-none');
  await page.getByRole('button', { name: 'Add the first tenant' }).click();
  await page.getByLabel('Id').fill('not a name');
  await page.getByText('is not a name').waitFor();
  await page.getByLabel('Id').fill('acme');
  await page.getByLabel('Rate', { exact: true }).fill('7');
  await page.getByText('The server would accept this').waitFor();
  // Somebody else changes the policy meanwhile: what was tried is not what would be sent, so it is tried again.
  const headers = { authorization: `Bearer ${settings.admin_token}`, 'content-type': 'application/json' };
  const created = await fetch(`${base}/api/v1/tenants`, { method: 'POST', headers, body: '{"id":"of-another"}' });
  assert.equal(created.status, 201);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('Somebody else has changed it meanwhile').waitFor();
  await page.getByText('The server would accept this').waitFor();
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.locator('.tenant-row').getByRole('link', { name: 'acme' }).waitFor();
  await eventually(async () => assert.equal((await decide({ tenant: 'acme' }, 'peek')).body.limits.find((one) => one.name === 'tenant:acme')?.limit, 7));
  check();
};
