// A trace is replayed in virtual time, and who is denied when is drawn: a lane for each client.

/** @import {Context} from '../types.js' */
/** @import {Request} from './key_request.js' */
/** @import {Side} from './try.js' */

import { call } from '../api.js';
import { counted, duration, number, when } from '../format.js';
import { button, card, newId, problem, progress } from '../parts.js';
import { h } from '../view.js';
import { fields } from './policy_forms.js';
import { named } from './try.js';

/** What the API takes at once, with some room for the policy. */
const MOST_BYTES = 12_000_000;
const BINS = 60;
const LANES = 20;
const WHO = ['user', 'tenant', 'client', 'ip', 'plan', 'path', 'method'];

/** @typedef {{ at_ms: number, allowed: boolean, violated_rule: string | null, reason: string }} Decided */
/** @typedef {Side & { decided?: Decided[] }} Replayed */

/** @param {Context} context @param {() => Request | null} request @param {() => Side[]} chosen */
export function trace({ redraw, closed }, request, chosen) {
  const id = newId('trace');
  const values = { times: '100', every: '50', by: 'user' };
  /** @type {any[]} */
  let requests = [];
  /** @type {Replayed[]} */
  let sides = [];
  /** @type {string | null} */
  let state = null;

  /** @param {string} text */
  const replay = async (text) => {
    state = 'Replaying';
    redraw();
    // The server says which line is wrong, and why.
    requests = text.split('\n').filter((line) => line.trim()).map((line) => { try { return JSON.parse(line) ?? {}; } catch { return {}; } });
    values.by = WHO.find((member) => requests.some((one) => member in one)) ?? 'user';
    sides = await Promise.all(chosen().map((side) => call('POST', '/simulate', { body: { trace: text, ...named(side.value) }, accept: 'application/x-ndjson', signal: closed })
      .then(({ body }) => ({ ...side, decided: body.split('\n').filter(Boolean).map((/** @type {string} */ line) => JSON.parse(line)) }), (failure) => ({ ...side, failure }))));
    state = null;
    redraw();
  };
  /** @param {FileList | undefined} files */
  const take = async (files) => {
    const file = files?.[0];
    if (file && file.size <= MOST_BYTES) return replay(await file.text());
    state = file ? `${file.name} has more than ${number(MOST_BYTES / 1e6)} MB: drop a part of it, or run “tidegate simulate”.` : null;
    return redraw();
  };
  const make = () => {
    const line = (/** @type {number} */ index) => JSON.stringify({ at_ms: index * (Number(values.every) || 0), ...request() });
    void replay(Array.from({ length: Math.min(100_000, Number(values.times) || 1) }, (_, index) => line(index)).join('\n'));
  };
  return () => card('Trace', { key: 'trace', about: 'Requests with their times, replayed in virtual time by the policies above. Nothing is charged.' },
    h('div', {
      class: 'drop', ondragover: (/** @type {DragEvent} */ event) => event.preventDefault(),
      ondrop: (/** @type {DragEvent} */ event) => { event.preventDefault(); void take(event.dataTransfer?.files); },
    }, h('label', { for: `${id}-file` }, 'Drop a trace here, or choose a file'),
    h('input', { type: 'file', id: `${id}-file`, onchange: (/** @type {any} */ event) => void take(event.target.files) }),
    h('p', { class: 'quiet small' }, 'One JSON request a line, with its time in milliseconds: ', h('code', null, '{"at_ms": 0, "user": "42"}'))),
    h('div', { class: 'make' },
      fields([['times', 'Or repeat the request'], ['every', 'One each (ms)']], values, redraw),
      button('Replay', make, { disabled: request() === null && 'Try a request first' })),
    state === 'Replaying' ? progress(state) : state,
    sides.length > 0 && h('div', { class: 'make' }, fields([['by', 'A lane for each', null, WHO]], values, redraw)),
    h('div', { class: 'columns' }, lanes(requests, sides, values.by)));
}

/** @param {any[]} requests @param {Replayed[]} sides @param {string} by */
function lanes(requests, sides, by) {
  const clientOf = (/** @type {number} */ index) => String(requests[index]?.[by] ?? '—');
  // The same clients in the same order on both sides: those who are denied most on either, and a few if nobody is.
  /** @type {Map<string, number>} */
  const denied = new Map();
  for (const { decided = [] } of sides) decided.forEach(({ allowed }, index) => denied.set(clientOf(index), (denied.get(clientOf(index)) ?? 0) + Number(!allowed)));
  const clients = [...denied].sort(([, one], [, other]) => other - one).filter(([, count], index) => count > 0 || index < 3).slice(0, LANES).map(([name]) => name);
  const first = requests[0]?.at_ms ?? 0;
  const span = Math.max(1, requests[requests.length - 1]?.at_ms - first || 1);
  const time = (/** @type {number} */ at) => h('span', null, first > 1e11 ? when(at, 'clock') : duration(at));
  return sides.map(({ value, title, decided, failure }) => {
    if (!decided) return problem(failure);
    /** The requests of each bin: admitted, denied. @type {Map<string, number[][]>} */
    const bins = new Map(['All', ...clients].map((name) => [name, Array.from({ length: BINS }, () => [0, 0])]));
    /** @type {Record<string, number>} */
    const rules = {};
    decided.forEach(({ at_ms: at, allowed, violated_rule: rule, reason }, index) => {
      const bin = Math.min(BINS - 1, Math.floor(((at - first) / span) * BINS));
      for (const name of ['All', clientOf(index)]) if (bins.has(name)) /** @type {number[][]} */ (bins.get(name))[bin][Number(!allowed)] += 1;
      if (!allowed) rules[rule ?? reason] = (rules[rule ?? reason] ?? 0) + 1;
    });
    const refused = decided.filter(({ allowed }) => !allowed).length;
    return h('section', { key: value, class: 'lanes' }, h('h3', null, `By ${title}`),
      h('p', null, h('b', null, `${number(refused)} of ${counted(decided.length, 'request')} denied`), Object.entries(rules).map(([name, count]) => `; ${name}: ${number(count)}`),
        decided.length < requests.length && `; the others of ${number(requests.length)} are not drawn`),
      [...bins].map(([name, bin]) => lane(name, bin)),
      h('div', { class: 'lane quiet' }, h('span'), h('span', { class: 'ends' }, time(first), time(first + span)), h('span', { class: 'number' }, 'denied')));
  });
}

/** @param {string} name @param {number[][]} bins */
function lane(name, bins) {
  const most = Math.max(1, ...bins.map(([allowed, denied]) => allowed + denied));
  const sum = number(bins.reduce((total, [, denied]) => total + denied, 0));
  const rect = (/** @type {string} */ tone, /** @type {number} */ x, /** @type {number} */ top, /** @type {number} */ count) => count > 0 && h('rect', { class: tone, x, width: 1, y: 20 - (top / most) * 20, height: (count / most) * 20 });
  return h('div', { class: 'lane', key: name }, h('span', { title: name }, name),
    h('svg', { viewBox: `0 0 ${BINS} 20`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${name}: ${sum} denied` },
      bins.map(([allowed, denied], x) => [rect('denied', x, denied, denied), rect('allowed', x, denied + allowed, allowed)])),
    h('span', { class: 'number' }, sum));
}
