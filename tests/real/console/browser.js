// Real Chromium, and what every test of the console watches: nothing may be written to the browser's console as an error, no rule of
// the content security policy may be broken, and no request may go to another host.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');

const AXE = require.resolve('axe-core/axe.min.js');
const SHOTS = process.env.CONSOLE_SHOTS;
/** Statuses that scenarios provoke: Chromium logs each as an error, though the console shows it to the reader. */
const PROVOKED = /Failed to load resource: (the server responded with a status of (401|403|404|409|412|422)|net::ERR_)/;

/** Starts the browser. */
async function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb'] });
}

/** A page of its own session. `faults` is what must not happen; `check` fails if it did. */
async function openPage(browser, base, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-GB', timezoneId: 'Europe/Berlin', reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  const faults = [];
  page.on('console', (message) => {
    if (message.type() === 'error' && !PROVOKED.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.stack}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(base)) faults.push(`another host: ${request.url()}`);
  });
  page.on('dialog', (dialog) => { faults.push(`a dialog of the browser: ${dialog.message()}`); void dialog.dismiss(); });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`policy broken: ${event.violatedDirective} ${event.blockedURI}`));
  });
  // Longer than anything takes, also on a busy machine.
  page.setDefaultTimeout(60_000);
  if (process.env.CONSOLE_FILES) {
    await page.route(/\/console\/[0-9a-f]{32}\//, fromFolder);
    await page.route(/\/console\/\w*(\?.*)?$/, pageFromFolder);
  }
  const check = () => {
    if (faults.length > 0) throw new Error(faults.join('\n'));
  };
  return { context, page, check };
}

/** Serves the console's files from a folder, to try changes without a build of the server. */
async function fromFolder(route) {
  const name = new URL(route.request().url()).pathname.split('/').slice(3).join('/');
  const response = await route.fetch().catch(() => null);
  const known = response?.ok() ? { response } : { contentType: name.endsWith('.css') ? 'text/css' : 'text/javascript' };
  await route.fulfill({ ...known, path: path.join(process.env.CONSOLE_FILES, name) });
}

/** The same for the page, which names the files. */
async function pageFromFolder(route) {
  if (!route.request().isNavigationRequest()) return route.continue();
  const response = await route.fetch();
  const files = /\/console\/[0-9a-f]{32}/.exec(await response.text())?.[0];
  const text = fs.readFileSync(path.join(process.env.CONSOLE_FILES, 'index.html'), 'utf8');
  return route.fulfill(files ? { response, body: text.replaceAll('{files}', files) } : { response });
}

/** Signs in at the first page. */
async function signIn(page, base, token, place = '') {
  await page.goto(`${base}/console/${place}`);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
}

/** Fails if axe-core finds anything. */
async function checkAccess(page, what) {
  if (!(await page.evaluate(() => 'axe' in window))) {
    // As a script of the test and not of the page, so that the page's policy does not apply to it.
    const session = await page.context().newCDPSession(page);
    await session.send('Runtime.evaluate', { expression: fs.readFileSync(AXE, 'utf8') });
    await session.detach();
  }
  const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ['violations'] })).violations
    .map((one) => `${one.id}: ${one.help}\n${one.nodes.slice(0, 5).map((node) => `    ${node.target.join(' ')} ${node.failureSummary ?? ''}`).join('\n')}`));
  if (found.length > 0) throw new Error(`${what}: ${found.join('\n')}`);
}

const LOOKS = [
  ['light-wide', { colorScheme: 'light' }, { width: 1440, height: 900 }],
  ['dark-wide', { colorScheme: 'dark' }, { width: 1440, height: 900 }],
  ['light-narrow', { colorScheme: 'light' }, { width: 360, height: 740 }],
  ['dark-narrow', { colorScheme: 'dark' }, { width: 360, height: 740 }],
];

/** Pictures of the page in all looks; in each, axe-core finds nothing and nothing is wider than the window. */
async function look(page, name) {
  for (const [look, media, size] of LOOKS) {
    await page.emulateMedia({ ...media, reducedMotion: 'reduce' });
    await page.setViewportSize(size);
    await page.evaluate(() => scrollTo(0, 0));
    // Charts follow the new size in the next frames.
    await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(resolve))); }));
    const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (SHOTS) {
      fs.mkdirSync(SHOTS, { recursive: true });
      await page.screenshot({ path: path.join(SHOTS, `${name}-${look}.png`), fullPage: true });
    }
    if (tooWide > 0) throw new Error(`${name} (${look}) is ${tooWide} px wider than the window`);
    await checkAccess(page, `${name} (${look})`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
}

module.exports = { launch, openPage, signIn, checkAccess, look };
