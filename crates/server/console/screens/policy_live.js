// The policy in force, and what the parts of the screen Policy have in common.

/** @import {Child, Context} from '../types.js' */

import { call, post } from '../api.js';
import { tell } from '../dialogs.js';
import { problem, progress } from '../parts.js';
import { h } from '../view.js';

/** The policy in force as it was written; `readOnly` is why an editor cannot change it here. @param {AbortSignal} [signal] */
export async function policyInForce(signal) {
  // JSON is YAML too, so this is the text itself.
  const { body, headers } = await call('GET', '/policy', { accept: 'application/yaml', signal });
  return { text: String(body), version: Number(headers.get('etag')?.replace(/\D/g, '')), readOnly: headers.get('x-read-only') };
}

/** How a document is sent. @param {string} text */
export function sent(text) {
  return { body: text, type: /^\s*[{[]/.test(text) ? 'application/json' : 'application/yaml' };
}

/** Makes the document of a version the newest one. @param {number} version @param {number} active @param {string} reason @param {() => void} load */
export async function restore(version, active, reason, load) {
  published(await post(`/versions/${version}/restore`, undefined, { ifMatch: active, reason }), active, load);
}

/** Says that a version is in force, and how to go back. @param {{ version: number }} done @param {number} before @param {() => void} load */
export function published({ version }, before, load) {
  if (version === before) tell('Nothing has changed.');
  else tell(`Version ${version} is in force.`, { undo: async () => { await restore(before, version, `undo of version ${version}`, load); load(); } });
}

/** Loads something, and shows that it loads, or why not. @param {Context} context @param {() => Promise<void>} run */
export function loading({ redraw, closed }, run) {
  /** @type {unknown} */
  let failure = null;
  let isLoaded = false;
  const load = async (what = run) => {
    try {
      await what();
      [failure, isLoaded] = [null, true];
    } catch (error) {
      if (!closed.aborted) failure = error;
    }
    redraw();
  };
  /** @param {string} what @param {() => Child} view @returns {Child} */
  const shown = (what, view) => [
    failure !== null && h('div', { key: 'failure' }, problem(failure, { retry: () => void load() })),
    isLoaded ? view() : failure === null && progress(`Loading the ${what}`),
  ];
  return { load, shown, isWell: () => failure === null };
}
