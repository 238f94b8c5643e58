// Who is signed in. The session itself is a cookie that no script can read.

/** @import {WhoAmI} from './types.js' */

import { ApiProblem, get, whenSignedOut } from './api.js';
import * as drafts from './drafts.js';

/**
 * `unknown` until the server has said; `ended` when somebody was signed in and the session is over.
 * @type {{ state: 'unknown' | 'out' | 'in' | 'ended', who: WhoAmI | null }}
 */
export const session = { state: 'unknown', who: null };

/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {() => void} listener */
export function whenSessionChanges(listener) {
  listeners.add(listener);
}

/** @param {typeof session.state} state @param {WhoAmI | null} who */
function become(state, who) {
  session.state = state;
  session.who = who;
  if (who) drafts.setOwner(who.actor);
  for (const listener of listeners) listener();
}

whenSignedOut(() => {
  // The screen stays open behind the form to sign in, with all that was typed.
  if (session.state === 'in') become('ended', session.who);
});

/** Asks the server who is signed in. */
export async function refresh() {
  try {
    become('in', await get('/whoami'));
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 401) {
      become(session.who ? 'ended' : 'out', session.who);
    } else {
      throw error;
    }
  }
}

/** Exchanges a token for a session. @param {string} token */
export async function signIn(token) {
  const answer = await send('/console/login', { token });
  if (!answer.ok) throw await problemOf(answer);
  const before = session.who;
  let who;
  try {
    who = await get('/whoami');
  } catch (error) {
    if (!(error instanceof ApiProblem) || error.status !== 401) throw error;
    throw new ApiProblem({
      status: 401, title: 'No cookie',
      detail: 'The token is right, but your browser does not keep the session’s cookie. Some browsers need HTTPS for it, even on this machine: '
        + 'add `tls` to the settings of the server, or use Chromium or Firefox.',
    });
  }
  // Another person must not see what the one before has left open.
  if (before && (before.actor !== who.actor || before.role !== who.role || before.tenant !== who.tenant)) {
    location.reload();
    return;
  }
  become('in', who);
}

/** Ends the session. */
export async function signOut() {
  const answer = await send('/console/logout', undefined);
  if (!answer.ok && answer.status !== 401) throw await problemOf(answer);
  location.assign('/console/');
}

/** @param {string} path @param {any} body */
async function send(path, body) {
  try {
    return await fetch(path, {
      method: 'POST',
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
  } catch {
    throw new ApiProblem({ status: 0, title: 'No answer', detail: 'The server did not answer.' });
  }
}

/** @param {Response} answer */
async function problemOf(answer) {
  const body = await answer.json().catch(() => ({ title: answer.statusText, detail: answer.statusText }));
  return new ApiProblem({ ...body, status: answer.status }, { retryAfter: Number(answer.headers.get('retry-after')) || null });
}
