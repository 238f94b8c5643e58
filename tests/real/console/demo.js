// `tidegate demo` has something to show on every screen. Pictures of three of them go to the folder `settings.pictures`.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const link = (page, region, name) => page.getByRole('region', { name: region }).getByRole('link', { name, exact: true }).first();
const tenant = (page, id) => page.locator('.tenant-row', { has: page.getByRole('link', { name: id, exact: true }) });

/** The pictures: their name, the place in the console, and what must be seen in them. Who is refused changes every minute or so. */
const PICTURES = [
  ['now', '', async (page, settings) => {
    // The small charts have what was seen since the page is open.
    await page.waitForTimeout(settings.seconds_on_now * 1_000);
    await page.locator('tg-chart svg path').first().waitFor();
    await page.locator('tg-chart').nth(1).getByText('per-user').waitFor();
    await link(page, 'Most denied keys', 'sync@acme-games').waitFor({ timeout: 200_000 });
  }],
  ['key', 'key?user=sync%40acme-games', async (page) => {
    await page.locator('.bucket', { hasText: 'per-user' }).waitFor();
    await page.locator('.verdict', { hasText: 'Denied' }).first().waitFor({ timeout: 200_000 });
  }],
  ['tenants', 'tenants?tenant=acme', async (page) => {
    await link(page, 'Contention', 'acme-books').waitFor({ timeout: 200_000 });
    await tenant(page, 'acme').locator('.budget-used').waitFor();
    await tenant(page, 'acme').getByText('refused').waitFor({ timeout: 400_000 });
  }],
];

/** The other screens, and what must be seen on them. */
const SCREENS = [
  ['key?user=nightly%40initech', 'Moves its catalogue this week'],
  ['key?user=mallory%40globex-us', 'A stolen card; the bank is asked'],
  ['policy?view=versions', 'Visitors behind one address were refused'],
  ['policy?view=candidates', 'a third less for each user'],
  ['audit?list=changes', 'Her phone repeated a request by mistake'],
  ['audit?list=security', 'invalid credentials'],
  ['audit?list=violations', 'sync@acme-games'],
  ['tokens', 'Paula, of the partner acme'],
];

module.exports = async ({ browser, base, settings, assert, eventually, openPage, signIn }) => {
  const { page, check } = await openPage(browser, base);
  await signIn(page, base, settings.tokens.admin);
  fs.mkdirSync(settings.pictures, { recursive: true });
  for (const [name, place, isReady] of PICTURES) {
    await page.goto(`${base}/console/${place}`);
    await isReady(page, settings);
    await page.evaluate(() => {
      scrollTo(0, 0);
      document.activeElement?.blur();
    });
    await page.screenshot({ path: path.join(settings.pictures, `${name}.png`) });
  }
  for (const [place, text] of SCREENS) {
    await page.goto(`${base}/console/${place}`);
    await page.getByText(text).first().waitFor();
  }
  await page.goto(`${base}/console/policy`);
  await eventually(async () => assert.match(await page.locator('textarea').first().inputValue(), /acme-media/));
  check();

  // The partner sees its own shops.
  const partner = await openPage(browser, base);
  await signIn(partner.page, base, settings.tokens.partner, 'tenants');
  await tenant(partner.page, 'acme-media').waitFor();
  await tenant(partner.page, 'globex').waitFor({ state: 'detached' });
  partner.check();
};
