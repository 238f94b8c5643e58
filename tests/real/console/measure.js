// How long a screen takes until it shows its list, and the longest frame while the list is scrolled. Prints them as JSON; it is run by
// `cargo run -p tidegate-bench -- console`.
'use strict';

/** The screens with long lists, and what is there once the list is shown. */
const SCREENS = [['tenants', '.tenant-row'], ['policy', '.ink div']];
const STEPS = 60;

module.exports = async ({ browser, base, settings, openPage, signIn }) => {
  const { page, check, context } = await openPage(browser, base);
  await signIn(page, base, settings.token);
  const measured = [];
  for (const [screen, shown] of SCREENS) {
    if (await page.locator(`a[href="/console/${screen}"]`).count() === 0) continue;
    for (let round = 0; round < settings.rounds; round += 1) {
      const fresh = await context.newPage();
      if (process.env.CONSOLE_FILES) throw new Error('measure the files of the binary: CONSOLE_FILES must not be set');
      await fresh.goto(`${base}/console/${screen}`, { waitUntil: 'commit' });
      // The clock of the page begins with its navigation.
      const first = await (await fresh.waitForFunction((wanted) => document.querySelector(wanted) && performance.now(), shown, { timeout: 60_000 })).jsonValue();
      // All of the list is there before it is scrolled.
      await fresh.waitForLoadState('networkidle').catch(() => {});
      measured.push({ screen, first_list_ms: first, longest_frame_ms: await fresh.evaluate(scrolled, STEPS) });
      await fresh.close();
    }
  }
  check();
  process.stdout.write(`${JSON.stringify(measured)}\n`);
};

/** Runs in the page: scrolls what has most to scroll from its beginning to its end, and returns the longest time between two frames. */
async function scrolled(steps) {
  const room = (element) => element.scrollHeight - element.clientHeight;
  const candidates = [document.scrollingElement, ...document.querySelectorAll('main, main *')];
  const widest = candidates.reduce((best, one) => (room(one) > room(best) ? one : best));
  const frame = () => new Promise((resolve) => { requestAnimationFrame(resolve); });
  let last = await frame();
  let longest = 0;
  for (let step = 1; step <= steps; step += 1) {
    widest.scrollTop = (room(widest) * step) / steps;
    const now = await frame();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
}
