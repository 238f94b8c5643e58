// Runs one scenario: `node main.js NAME`. Its settings are JSON in CONSOLE_TEST. What the test must do for it, such as stopping the
// server, is asked for by a line on standard output that begins with `@`; the answer is a line of JSON on standard input.
'use strict';

const readline = require('node:readline');
const assert = require('node:assert/strict');
const browsing = require('./browser.js');

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(what, details = {}) {
  process.stdout.write(`@${JSON.stringify({ what, ...details })}\n`);
  const { value } = await input.next();
  const answer = JSON.parse(value);
  if (answer.error) throw new Error(`${what}: ${answer.error}`);
  return answer.value;
}

async function main() {
  const settings = JSON.parse(process.env.CONSOLE_TEST);
  const scenario = require(`./${process.argv[2]}.js`);
  const browser = await browsing.launch();
  /** Asks the decision API. */
  const decide = async (request, route = 'check') => {
    const answer = await fetch(`${settings.http}/v1/${route}`, { method: 'POST', body: JSON.stringify(request) });
    return { status: answer.status, body: await answer.json() };
  };
  /** Repeats an assertion until it holds. */
  const eventually = async (check, seconds = 60) => {
    const end = Date.now() + seconds * 1_000;
    for (;;) {
      try {
        return await check();
      } catch (error) {
        if (Date.now() > end) throw error;
        await new Promise((resolve) => { setTimeout(resolve, 100); });
      }
    }
  };
  try {
    await scenario({ browser, base: settings.admin, settings, assert, decide, eventually, ask, ...browsing });
  } finally {
    await browser.close();
  }
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
