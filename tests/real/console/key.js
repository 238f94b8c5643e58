// Support: a customer was refused and calls. What is done here takes effect on the decision API.
'use strict';

module.exports = async ({ browser, base, settings, assert, decide, eventually, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  const user = 'customer-42';
  const denied = async () => assert.equal((await decide({ user, ip: '203.0.113.9' }, 'peek')).body.allowed, false);
  const admitted = async () => assert.equal((await decide({ user, ip: '203.0.113.9' }, 'peek')).body.allowed, true);
  for (let sent = 0; sent < 12; sent += 1) await decide({ user, ip: '203.0.113.9' });
  await denied();

  await signIn(page, base, settings.tokens.operator, 'key');
  await page.getByLabel('Whom').fill('203.0.113.9');
  const what = page.getByLabel('What', { exact: true });
  await eventually(async () => assert.equal(await what.inputValue(), 'ip', 'an address is recognized'));
  await what.selectOption('user');
  await page.getByLabel('Whom').fill(user);
  await page.getByRole('button', { name: 'Look up' }).click();
  const slow = page.locator('.bucket', { hasText: 'slow' });
  await slow.getByText('0 of 10 left').waitFor();
  await page.locator('.verdict').first().getByText('by slow').waitFor();
  assert.ok(page.url().endsWith('/console/key?user=customer-42'), page.url());
  await look(page, 'key');

  // A grant lets one request through, and no more.
  await page.getByRole('button', { name: 'Grant tokens to slow' }).click();
  await page.getByRole('textbox', { name: 'Tokens' }).fill('1');
  await page.getByRole('textbox', { name: 'Reason' }).fill('they called');
  await look(page, 'key-grant');
  await page.getByRole('button', { name: 'Give', exact: true }).click();
  await eventually(admitted);
  assert.equal((await decide({ user })).status, 200);
  await eventually(denied);

  // A reset makes it full again.
  await page.getByRole('button', { name: 'Reset slow' }).click();
  await page.getByRole('button', { name: 'Reset', exact: true }).last().click();
  await eventually(admitted);
  await slow.getByText('10 of 10 left').waitFor();

  // A block, with a reason, and its undo.
  await page.getByRole('button', { name: 'Block', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Block this client' });
  await dialog.getByRole('button', { name: 'Block' }).click();
  await dialog.getByText('Say why').waitFor();
  await look(page, 'key-block');
  await dialog.getByRole('textbox', { name: 'Reason' }).fill('<b>abuse</b>');
  await dialog.getByRole('button', { name: 'Block' }).click();
  await eventually(denied);
  await page.getByRole('region', { name: 'What is upon it' }).getByText('<b>abuse</b>').waitFor();
  await look(page, 'key-blocked');
  await page.getByRole('button', { name: 'Undo' }).click();
  await eventually(admitted);

  // Exempt, and ended from the list.
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.getByRole('textbox', { name: 'Reason' }).fill('a demo for them');
  await page.getByRole('dialog').getByRole('button', { name: 'Allow' }).click();
  await eventually(async () => assert.equal((await decide({ user }, 'peek')).body.reason, 'allowlisted'));
  await page.getByRole('region', { name: 'What is upon it' }).getByRole('button', { name: 'End' }).click();
  await page.getByRole('button', { name: 'End it' }).click();
  await eventually(async () => assert.equal((await decide({ user }, 'peek')).body.reason, 'ok'));

  // A whole request, and one that is no JSON.
  await what.selectOption('request');
  await page.getByRole('textbox', { name: 'Request' }).fill('{"user":"x"');
  await page.getByRole('button', { name: 'Look up' }).click();
  await page.getByText('This is not JSON').waitFor();
  await page.getByRole('textbox', { name: 'Request' }).fill('{"user":"x","headers":{"x-api-key":"very-secret"}}');
  await page.getByRole('button', { name: 'Look up' }).click();
  await slow.getByText('10 of 10 left').waitFor();
  assert.ok(!page.url().includes('secret'), 'what may be a credential is not in the address');

  // A viewer looks, and may not act.
  const viewer = await openPage(browser, base);
  await signIn(viewer.page, base, settings.tokens.viewer, 'key?user=customer-42');
  await viewer.page.goto(`${base}/console/key?user=customer-42`);
  await viewer.page.locator('.bucket').first().waitFor();
  for (const name of ['Reset slow', 'Grant tokens to slow', 'Override slow', 'Block', 'Allow', 'Reset all']) {
    assert.ok(await viewer.page.getByRole('button', { name, exact: true }).isDisabled(), name);
  }
  viewer.check();
  check();
};
