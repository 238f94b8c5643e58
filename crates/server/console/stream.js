// The figures of now, once a second, as long as somebody looks at the page.

/** @import {Overview} from './types.js' */

import { ApiProblem, get } from './api.js';

/** Without an event for so long, the connection is taken for lost. */
const SILENCE_MS = 5_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000];

/**
 * `live`: events arrive; `connecting`: not yet; `lost`: they did, and do not any more; `off`: nobody listens.
 * @type {{ state: 'off' | 'connecting' | 'live' | 'lost', overview: Overview | null, since: number, why: ApiProblem | null }}
 */
export const stream = { state: 'off', overview: null, since: Date.now(), why: null };

/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {EventSource | null} */
let source = null;
let attempts = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * Tells `listener` of each overview, and of each change of the connection, until `closed`.
 * @param {() => void} listener
 * @param {AbortSignal} closed
 */
export function listen(listener, closed) {
  listeners.add(listener);
  closed.addEventListener('abort', () => {
    listeners.delete(listener);
    if (listeners.size === 0) stop();
  });
  if (source === null) start();
}

/** Connects again at once, for example after somebody has signed in. */
export function reconnect() {
  if (listeners.size === 0) return;
  attempts = 0;
  start();
}

function start() {
  close();
  if (document.hidden) return;
  if (stream.state === 'off') become('connecting');
  source = new EventSource('/api/v1/stream');
  source.addEventListener('overview', (event) => {
    attempts = 0;
    stream.overview = JSON.parse(event.data);
    watch();
    become('live');
  });
  source.onerror = () => void failed();
  watch();
}

/** Takes silence for the end of the connection. */
function watch() {
  clearTimeout(timer);
  timer = setTimeout(() => void failed(), SILENCE_MS);
}

async function failed() {
  // A stream ends by itself after some minutes; only if the next one does not begin is something wrong.
  const delay = RETRY_MS[Math.min(attempts, RETRY_MS.length - 1)];
  attempts += 1;
  close();
  timer = setTimeout(start, delay);
  if (attempts < 2) return;
  stream.why = await reason();
  become('lost');
}

/** Why there is no stream: an event source does not tell. */
async function reason() {
  try {
    await get('/overview');
    return null;
  } catch (error) {
    return error instanceof ApiProblem ? error : null;
  }
}

function close() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

function stop() {
  close();
  become('off');
}

/** @param {typeof stream.state} state */
function become(state) {
  if (stream.state !== state) stream.since = Date.now();
  stream.state = state;
  if (state === 'live') stream.why = null;
  for (const listener of listeners) listener();
}

document.addEventListener('visibilitychange', () => {
  if (listeners.size === 0) return;
  if (document.hidden) close();
  else start();
});
