// Tenants: the tree with its budgets; a tenant is added after the server has said what it would answer; who sees and may do what.
'use strict';

const MARKUP = '<img src=x onerror=alert(1)>';

module.exports = async ({ browser, base, settings, assert, decide, eventually, openPage, signIn, look }) => {
  const { page, check, context } = await openPage(browser, base);
  const api = async (path) => (await fetch(`${base}/api/v1${path}`, { headers: { authorization: `Bearer ${settings.admin_token}` } })).json();
  await signIn(page, base, settings.tokens.editor, 'tenants');
  const row = (id) => page.locator('.tenant-row', { has: page.getByRole('link', { name: id, exact: true }) });

  // The tree, and what is used now.
  await row('tenant-b1').waitFor();
  assert.equal(await page.locator('.tenant-row').count(), 7);
  await row('partner-a').getByText('refused').waitFor();
  await row('tenant-a1').locator('.budget-used').waitFor();
  const width = async (id) => Number.parseFloat(await row(id).locator('.budget-bar').evaluate((element) => element.style.width));
  assert.equal(await width('partner-a'), 50);
  assert.equal(await width('partner-b'), 25);
  await page.getByRole('button', { name: '2 tenants below partner-a' }).click();
  await eventually(async () => assert.equal(await page.locator('.tenant-row').count(), 5));
  await page.getByRole('button', { name: '2 tenants below partner-a' }).click();
  await row('tenant-a1').waitFor();

  // One tenant: where its numbers come from, what is left, and who is refused by it.
  await row('trials').getByRole('link').click();
  const numbers = page.getByRole('region', { name: 'The numbers that apply' });
  await numbers.getByText('system').waitFor();
  assert.ok(page.url().endsWith('/console/tenants?tenant=trials'), page.url());
  await row('partner-a').getByRole('link').click();
  await numbers.getByText('itself').waitFor();
  await page.getByText('1,000 more may be').waitFor();
  assert.equal(await page.getByText(MARKUP).count(), 1);
  assert.equal(await page.locator('img').count(), 0);
  const contention = page.getByRole('region', { name: 'Contention' });
  await eventually(async () => assert.ok((await contention.textContent()).includes('tenant-a1partner-a')), 40);
  await look(page, 'tenants');

  // What the server would say, before anything is sent.
  const add = page.getByRole('dialog', { name: 'Add a tenant below partner-a' });
  await page.getByRole('button', { name: 'Add below' }).click();
  await add.getByLabel('Id').fill('tenant-a3');
  await add.getByLabel('Rate', { exact: true }).fill('400');
  await add.getByLabel('Burst').fill('50');
  await add.getByText('The server would accept this').waitFor();
  await add.getByText('3,000 of 3,000 would be allotted').waitFor();
  await look(page, 'tenants-accept');
  await add.getByLabel('Rate', { exact: true }).fill('5000');
  await add.getByText('The server would refuse this').waitFor();
  await look(page, 'tenants-refuse');
  await add.getByRole('button', { name: 'Add' }).click();
  await add.getByText('see above').waitFor();
  await add.getByLabel('Rate', { exact: true }).fill('900');
  await add.getByText('The server would warn').waitFor();
  await look(page, 'tenants-warn');
  assert.deepEqual((await api('/tenants?parent=partner-a')).items.map((one) => one.id), ['tenant-a1', 'tenant-a2']);

  // What is typed stays when the dialog is closed; then it is sent, and decisions follow.
  await add.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Add below' }).click();
  assert.equal(await add.getByLabel('Rate', { exact: true }).inputValue(), '900');
  await add.getByText('The server would warn').waitFor();
  await add.getByLabel('Reason').fill('a new customer');
  await add.getByRole('button', { name: 'Add' }).click();
  await row('tenant-a3').waitFor();
  await row('partner-a').locator('.over').waitFor();
  await page.getByRole('region', { name: 'The numbers that apply' }).getByText('900 / min').first().waitFor();
  await eventually(async () => {
    const limit = (await decide({ tenant: 'tenant-a3' }, 'peek')).body.limits.find((one) => one.name === 'tenant:tenant-a3');
    assert.equal(limit?.limit, 50);
  });
  assert.equal((await api('/audit?limit=1')).items[0].reason, 'a new customer');
  await look(page, 'tenants-overcommitted');

  // Changed, undone, removed.
  await page.getByRole('button', { name: 'Change' }).click();
  await page.getByRole('dialog').getByLabel('Rate', { exact: true }).fill('300');
  await page.getByText('The server would accept this').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Change' }).click();
  await page.getByText('tenant-a3 is changed.').waitFor();
  assert.deepEqual((await api('/tenants/tenant-a3')).rate_limit, { sustained: { rate: 300, window: 'minute' }, burst: { capacity: 50 } });
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await eventually(async () => assert.equal((await api('/tenants/tenant-a3')).rate_limit.sustained.rate, 900));
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await eventually(async () => assert.equal((await api('/tenants?parent=partner-a')).items.length, 2));
  await eventually(async () => assert.equal(await row('tenant-a3').count(), 0));

  // The search is part of the address.
  await page.getByLabel('Find a tenant').fill('b1');
  await eventually(async () => assert.equal(await page.locator('.tenant-row').count(), 1));
  await page.reload();
  await row('tenant-b1').waitFor();
  assert.equal(await page.locator('.tenant-row').count(), 1);
  check();
  await context.close();
  await others({ browser, base, settings, assert, openPage, signIn, look, api });
};

/** A viewer sees everything and changes nothing; a partner has its own part of the tree. */
async function others({ browser, base, settings, assert, openPage, signIn, look, api }) {
  const viewer = await openPage(browser, base);
  await signIn(viewer.page, base, settings.tokens.viewer, 'tenants?tenant=partner-a');
  await viewer.page.getByRole('region', { name: 'The numbers that apply' }).waitFor();
  for (const name of ['Add below', 'Change', 'Remove', 'Add a root']) assert.equal(await viewer.page.getByRole('button', { name }).count(), 0, name);
  viewer.check();
  await viewer.context.close();

  const { page, check, context } = await openPage(browser, base);
  await signIn(page, base, settings.tokens.partner, 'tenants');
  await page.getByRole('link', { name: 'tenant-a1' }).first().waitFor();
  assert.equal(await page.locator('.tenant-row').count(), 3);
  await page.locator('.tenant-row').getByRole('link', { name: 'partner-a' }).click();
  await page.getByRole('region', { name: 'The numbers that apply' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Add a root' }).count(), 0);
  for (const name of ['Change', 'Remove']) assert.ok(await page.getByRole('button', { name }).isDisabled(), name);
  assert.ok(!(await page.getByRole('main').textContent()).includes('partner-b'));
  await page.getByRole('button', { name: 'Add below' }).click();
  await page.getByRole('dialog').getByLabel('Id').fill('tenant-a4');
  await page.getByRole('dialog').getByLabel('Rate', { exact: true }).fill('100');
  await page.getByText('The server would accept this').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click();
  await page.locator('.tenant-row').getByRole('link', { name: 'tenant-a4' }).waitFor();
  assert.equal((await api('/tenants/tenant-a4')).parent, 'partner-a');
  await look(page, 'tenants-partner');
  await page.goto(`${base}/console/tenants?tenant=partner-b`);
  await page.getByText('It may have been removed').waitFor();
  check();
  await context.close();
}
