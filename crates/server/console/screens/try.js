// Try: a request, at any time, by the policy in force, a version, a candidate or the draft, side by side; and a whole trace.

/** @import {Context, Opened, Screen} from '../types.js' */
/** @import {Request} from './key_request.js' */

import { get, post } from '../api.js';
import * as drafts from '../drafts.js';
import { explained, verdict } from '../explanation.js';
import { utc } from '../format.js';
import { card, choice, empty, field, newId, problem } from '../parts.js';
import { h } from '../view.js';
import { queryOf, requestForm, requestOf } from './key_request.js';
import { trace } from './try_trace.js';

/** @typedef {{ value: string, title: string, result?: any, failure?: unknown }} Side a policy, and what it says */

/** A policy that was chosen, as a body of the API names it. @param {string} value */
export function named(value) {
  const [kind, id] = value.split(/:(.*)/);
  if (kind === 'version') return { version: Number(id) };
  return kind === 'candidate' ? { candidate: id } : kind === 'draft' ? { policy: drafts.load('policy')?.text ?? '' } : {};
}

/** A time in the reader's zone, as an input has it. @param {Date} time */
function local(time) {
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19).replace(/:00$/, '');
}

/** The candidates and the newest versions; without a database there are none. @param {AbortSignal} signal @returns {Promise<[string, string][]>} */
async function known(signal) {
  const list = (/** @type {string} */ path) => get(path, { limit: 100 }, signal).then(({ items }) => items, () => []);
  const [candidates, versions] = await Promise.all([list('/candidates'), list('/versions')]);
  return [...candidates.map((/** @type {any} */ one) => [`candidate:${one.id}`, `candidate ${one.name || one.id}`]),
    ...versions.map((/** @type {any} */ one) => [`version:${one.version}`, `version ${one.version}`])];
}

/** @param {Context} context @returns {Opened} */
function open(context) {
  const { who, redraw, closed } = context;
  const id = newId('try');
  const hasDraft = drafts.load('policy') !== null && !who.tenant;
  /** @type {[string, string][]} */
  let others = [];
  /** @type {Side[]} */
  let sides = [];
  /** @type {Request | null} */
  let request = null;
  let number = 0;

  const at = () => new Date(context.query.get('at') ?? NaN);
  const isTimed = () => !Number.isNaN(at().getTime());
  /** The policies that were chosen: without a choice, the one in force, and the draft if there is one. */
  const chosen = () => {
    const [a, b] = [context.query.get('a') ?? 'live', context.query.get('b') ?? (hasDraft ? 'draft' : 'none')];
    return [...new Set([a, b])].filter((value) => value !== 'none').map((value) => ({ value, title: new Map(options(value)).get(value) ?? '' }));
  };
  /** @param {string} value one that must be there @returns {[string, string][]} */
  const options = (value) => {
    /** @type {[string, string][]} */
    const all = [['live', 'the policy in force'], ...(hasDraft ? [/** @type {[string, string]} */ (['draft', 'the draft'])] : []), ...others];
    return all.some(([word]) => word === value) ? all : [...all, [value, value.replace(':', ' ')]];
  };
  const load = () => known(closed).then((found) => { others = found; redraw(); });
  const run = async () => {
    const asked = (number += 1);
    const body = { request, at: isTimed() ? at().toISOString() : undefined };
    const done = request === null ? [] : await Promise.all(chosen().map((side) => post('/explain', { ...body, ...named(side.value) }, { signal: closed })
      .then((result) => ({ ...side, result }), (failure) => ({ ...side, failure }))));
    if (asked === number && !closed.aborted) sides = done;
    redraw();
  };
  const form = requestForm(context, (next) => {
    request = next;
    context.setQuery({ ...queryOf(next) });
    void run();
  }, 'Try');
  const replay = trace(context, () => request, chosen);
  /** @param {Record<string, string>} query */
  const choose = (query) => { context.setQuery(query); void run(); };
  /** @param {'a' | 'b'} name @param {string} label @param {string} value */
  const side = (name, label, value) => field(label,
    choice(value, name === 'b' ? [['none', 'nothing'], ...options(value === 'none' ? 'live' : value)] : options(value), (next) => choose({ [name]: next })), { id: `${id}-${name}` });

  const fromAddress = () => {
    request = requestOf(context.query) ?? request;
    form.set(request);
    void run();
  };
  fromAddress();
  if (!who.tenant) void load();
  return {
    changed: fromAddress,
    resumed: () => void run(),
    view: () => h('div', { class: 'stack' },
      form.view(),
      !who.tenant && h('div', { class: 'card fields', key: 'by' },
        side('a', 'Decided by', chosen()[0]?.value ?? 'live'), side('b', 'Beside it', context.query.get('b') ?? (hasDraft ? 'draft' : 'none')),
        field('At', h('input', { type: 'datetime-local', step: '1', value: isTimed() ? local(at()) : '', onchange: (/** @type {any} */ event) => choose({ at: event.target.value && new Date(event.target.value).toISOString() }) }),
          { id: `${id}-at`, hint: isTimed() ? `${utc(at())}; every bucket is full then.` : 'Empty: now, with the buckets as they are.' })),
      sides.length > 0 ? h('div', { class: 'columns', key: 'sides' }, sides.map(({ value, title, result, failure }) => card(`By ${title}`, { key: value },
        failure ? problem(failure) : [verdict(result.decision), explained(result)]))) : empty('What would happen to a request?',
        h('p', null, 'Describe it above. Nothing is charged and nothing changes. The policy in force is asked with its live buckets; a version or a draft, or any other time, with full ones.')),
      !who.tenant && replay()),
  };
}

/** @type {Screen} */
export const tryOut = {
  name: 'try', title: 'Try', about: 'what would happen to a request, or to a whole trace', shortcut: 'y',
  icon: 'M9 3h6M10 3v6l-5 9a2 2 0 0 0 2 3h10a2 2 0 0 0 2-3l-5-9V3M8 15h8', open,
};
