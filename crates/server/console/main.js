// The beginning: asks who is signed in, then shows the shell.

import { refresh, session, whenSessionChanges } from './session.js';
import { problem } from './parts.js';
import { startShell } from './shell.js';
import { signInScreen } from './sign_in.js';
import { render } from './view.js';

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
let hasShell = false;

const signIn = signInScreen(() => draw());

function draw() {
  if (session.state === 'in' && !hasShell) {
    hasShell = true;
    startShell(root);
  }
  if (session.state === 'out') render(root, signIn.view());
}

whenSessionChanges(draw);

async function begin() {
  try {
    await refresh();
  } catch (error) {
    render(root, problem(error, { retry: () => void begin() }));
    setTimeout(() => session.state === 'unknown' && void begin(), 3_000);
  }
}

void begin();
