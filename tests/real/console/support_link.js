// A customer of a proxy is refused and sends support the link in the answer: it leads to the customer's buckets, and to its trust.
'use strict';

module.exports = async ({ browser, base, settings, assert, decide, eventually, openPage, look }) => {
  const user = 'née & <b>co</b>';
  const ask = () => fetch(`${settings.http}/v1/forward-auth`, {
    headers: { 'x-user-id': encodeURIComponent(user), 'x-forwarded-uri': '/api/videos?token=s3cret', 'x-forwarded-method': 'GET', 'x-forwarded-for': '203.0.113.9', 'x-api-key': 's3cret' },
  });
  const denied = await eventually(async () => {
    const answer = await ask();
    assert.equal(answer.status, 429);
    return answer.json();
  });
  const link = new URL(denied.console);
  assert.equal(`${link.origin}${link.pathname}`, `${base}/console/key`);
  assert.equal(link.searchParams.get('path'), '/api/videos');
  assert.ok(!JSON.stringify(denied).includes('s3cret'), 'nothing that may be a credential');

  const { page, check } = await openPage(browser, base);
  await page.goto(denied.console);
  await page.getByLabel('Token').fill(settings.tokens.operator);
  await page.getByRole('button', { name: 'Sign in' }).click();
  const slow = page.locator('.bucket', { hasText: 'slow' });
  await slow.getByText('0 of ').waitFor();
  await page.locator('.verdict').first().getByText('by slow').waitFor();
  assert.equal(await page.getByLabel('Whom').inputValue(), encodeURIComponent(user));

  // Trust: what it is the sum of, and a fact about the account that makes the bucket larger.
  const trust = page.locator('.card', { has: page.getByRole('heading', { name: 'Trust', exact: true }) });
  await trust.getByText('Nothing is known about this account').waitFor();
  await trust.getByRole('button', { name: 'Change the facts' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Account made on').fill('2020-01-01');
  await dialog.getByLabel('Email address').selectOption('verified');
  await dialog.getByLabel('Success rate').fill('1.5');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByText('The success rate is from 0 to 1').waitFor();
  await dialog.getByLabel('Success rate').fill('1');
  await look(page, 'key-facts');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await trust.getByText('+0.50 for 100%').waitFor();
  await trust.getByText('+0.20, verified').waitFor();
  await trust.getByText('It scales the rate').waitFor();
  const limit = async () => (await decide({ user: encodeURIComponent(user) }, 'peek')).body.limit;
  await eventually(async () => assert.ok(await limit() > 10, 'trust scales the capacity'));
  await look(page, 'key-trust');
  await page.getByRole('button', { name: 'Undo' }).click();
  await trust.getByText('Nothing is known about this account').waitFor();
  check();

  const viewer = await openPage(browser, base);
  await viewer.page.goto(denied.console);
  await viewer.page.getByLabel('Token').fill(settings.tokens.viewer);
  await viewer.page.getByRole('button', { name: 'Sign in' }).click();
  assert.ok(await viewer.page.getByRole('button', { name: 'Change the facts' }).isDisabled());
  viewer.check();
};
