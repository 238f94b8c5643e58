// The console at work: `tidegate demo` has something to show on every screen. Pictures of three of them go to `settings.pictures`.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

/** What the pictures show: a screen, and what must be there before. */
const PICTURES = [
  ['now', '', async (page) => {
    await page.getByRole('region', { name: 'Most denied keys' }).getByRole('link', { name: 'sync@acme-games' }).waitFor();
    await page.locator('tg-chart svg path').first().waitFor();
  }],
  ['key', 'key?user=sync%40acme-games', async (page) => {
    await page.locator('.bucket', { hasText: 'per-user' }).waitFor();
    await page.locator('tg-chart svg path').first().waitFor();
  }],
  ['tenants', 'tenants?tenant=acme', async (page) => {
    await page.getByRole('region', { name: 'Contention' }).getByText('acme-books').first().waitFor();
    await page.locator('.tenant-row .used').first().waitFor();
  }],
];

module.exports = async ({ browser, base, settings, assert, eventually, openPage, signIn, look }) => {
  const { page, check } = await openPage(browser, base);
  await signIn(page, base, settings.tokens.admin);
  const open = async (place) => page.goto(`${base}/console/${place}`);
  const region = (name) => page.getByRole('region', { name });

  for (const [name, place, ready] of PICTURES) {
    await open(place);
    await ready(page);
    await page.evaluate(() => { scrollTo(0, 0); document.activeElement?.blur(); });
    // Charts and bars have their size in the next frames.
    await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
    fs.mkdirSync(settings.pictures, { recursive: true });
    await page.screenshot({ path: path.join(settings.pictures, `${name}.png`) });
    if (settings.looks) await look(page, `demo-${name}`);
  }
  check();
};
