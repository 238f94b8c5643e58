// Key: one client or one request. Every bucket it touches, the next decision explained, what is upon it, and what can be done.

/** @import {Child, Context, LimitState, Opened, Screen} from '../types.js' */
/** @import {Request} from './key_request.js' */

import { post } from '../api.js';
import { bucketKey, explained, verdict } from '../explanation.js';
import { duration, number, when } from '../format.js';
import { badge, bar, button, card, empty, problem, progress, table } from '../parts.js';
import { has } from '../roles.js';
import { h } from '../view.js';
import * as actions from './key_actions.js';
import { denials } from './key_denials.js';
import { queryOf, requestForm, requestOf } from './key_request.js';
import { trust } from './key_trust.js';

/** How often the buckets are looked at. */
const EVERY_MS = 2_000;

/** @param {Context} context @returns {Opened} */
function open(context) {
  const { redraw, closed, who } = context;
  /** @type {Request | null} */
  let request = null;
  /** @type {any} */
  let found = null;
  /** @type {unknown} */
  let failure = null;
  const past = denials(context);
  const trusted = trust(context, () => void load());

  const load = async () => {
    const asked = request;
    if (asked === null) return;
    try {
      const answer = await post('/keys/lookup', { request: asked }, { signal: closed });
      if (asked === request) [found, failure] = [answer, null];
    } catch (error) {
      if (asked === request && !closed.aborted) failure = error;
    }
    redraw();
  };
  /** @param {Request | null} next */
  const look = (next) => {
    if (JSON.stringify(next) !== JSON.stringify(request)) [found, failure] = [null, null];
    request = next;
    past.show(next);
    trusted.show(next);
    void load();
  };
  const form = requestForm(context, (next) => {
    const query = queryOf(next);
    if (query) context.setQuery(query);
    look(next);
  });
  /** Does something, then looks again. @param {Promise<boolean>} doing */
  const act = async (doing) => {
    if (await doing) await load();
  };

  const fromAddress = () => {
    const next = requestOf(context.query);
    form.set(next);
    look(next);
  };
  fromAddress();
  const timer = setInterval(() => { if (!document.hidden && failure === null) void load(); }, EVERY_MS);

  return {
    changed: fromAddress,
    resumed: () => void Promise.all([load(), trusted.load()]),
    closed: () => clearInterval(timer),
    view: () => h('div', { class: 'stack' },
      form.view(),
      failure !== null && h('div', { key: 'failure' }, problem(failure, { retry: () => { failure = null; void load(); } })),
      request === null ? teaching() : found === null ? failure === null && progress('Looking it up') : [
        result(request, found, has(who, 'operator'), act),
        trusted.view(),
        past.view(),
      ]),
  };
}

function teaching() {
  return empty('Why was somebody refused?', [
    h('p', null, 'Type a user, an address, a tenant or an API key, and see every bucket that its requests touch, how full each is, and what the next '
      + 'request would be told and why. Operators can let somebody through from here.'),
    h('p', null, 'Limits may look at more than one thing: if a limit is for a path or a plan, its bucket is shown apart. Open “More about the request”, or paste the whole request as JSON, to act on it.'),
    h('p', null, 'The most denied keys of the screen Now are links to here.'),
  ]);
}

/** @param {Request} request @param {any} found @param {boolean} mayAct @param {(doing: Promise<boolean>) => void} act @returns {Child} */
function result(request, found, mayAct, act) {
  const able = mayAct ? {} : { disabled: 'Operators may do this' };
  return [
    card('The next request', {
      key: 'next',
      actions: [
        button('Reset all', () => act(actions.reset(request)), able),
        button('Allow', () => act(actions.gate('allow', request)), able),
        button('Block', () => act(actions.gate('block', request)), able),
      ],
    }, verdict(found.decision), upon(found, mayAct, act)),
    card('Buckets', { key: 'buckets', about: 'As they are now in the store; looked at every two seconds. Nothing is charged.' },
      buckets(request, found, able, act)),
    (found.other_limits ?? []).length > 0 && card('Other buckets of this key', {
      key: 'others', about: 'Of limits that do not apply to this request, because of its path or plan for instance. Tell more about the request to act on them.',
    }, h('ul', { class: 'buckets' }, found.other_limits.map((/** @type {LimitState} */ limit) => bucket(limit, null, { reset: null, grant: null, override: null })))),
    card('Why', { key: 'why' }, explained(found.explanation ?? {})),
  ];
}

/** Overrides, blocks, exemptions and penalties. @param {any} found @param {boolean} mayAct @param {(doing: Promise<boolean>) => void} act */
function upon(found, mayAct, act) {
  const entries = [
    ...(found.live ?? []).map((/** @type {any} */ entry) => ({ ...entry, tone: entry.kind === 'block' ? 'bad' : 'info', word: entry.kind === 'block' ? 'blocked' : 'exempt' })),
    ...(found.overrides ?? []).map((/** @type {any} */ entry) => ({ ...entry, kind: 'override', tone: 'info', word: 'override' })),
    ...(found.penalties ?? []).map((/** @type {any} */ entry) => ({ ...entry, isPenalty: true, tone: entry.kind === 'block' ? 'bad' : 'warn', word: `penalty: ${entry.kind}` })),
  ];
  if (entries.length === 0) return h('p', { class: 'quiet' }, 'No override, block, exemption or penalty is upon it.');
  return table({
    caption: 'What is upon it', rows: entries, key: (entry) => entry.id,
    columns: [
      { title: 'What', isHead: true, cell: (entry) => badge(entry.tone, entry.word) },
      { title: 'Whom', cell: (entry) => (entry.isPenalty ? `${entry.key} (${entry.detector})` : whom(entry)) },
      { title: 'Ends', cell: (entry) => (entry.until ? [when(entry.until), ' (', when(entry.until, 'ago'), ')'] : 'when it is removed') },
      { title: 'Why', cell: (entry) => [entry.reason ?? '', entry.author && h('span', { class: 'quiet' }, ` ${entry.author}`)] },
      { title: '', cell: (entry) => mayAct && button(entry.isPenalty ? 'Lift' : 'End', () => act(entry.isPenalty ? actions.lift(entry) : actions.end(entry))) },
    ],
  });
}

/** @param {any} entry */
function whom(entry) {
  const pairs = Object.entries(entry.who ?? {}).map(([name, value]) => `${name} = ${typeof value === 'string' ? value : JSON.stringify(value)}`).join(', ');
  const numbers = entry.multiplier ? ` × ${entry.multiplier}` : entry.sustained ? ` ${JSON.stringify(entry.sustained)}` : '';
  return [pairs, entry.limit && [': ', h('code', null, entry.limit), numbers]];
}

/** @param {Request} request @param {any} found @param {{ disabled?: string }} able @param {(doing: Promise<boolean>) => void} act */
function buckets(request, found, able, act) {
  /** @type {LimitState[]} */
  const limits = found.limits ?? [];
  if (limits.length === 0) {
    return h('p', { class: 'quiet' }, found.explanation?.gate ? 'None is touched: it is decided before any limit.'
      : 'No limit applies to this request. Tell more about it, such as its path or plan, if one should.');
  }
  return h('ul', { class: 'buckets' }, limits.map((limit) => bucket(limit, bucketOf(found.explanation, limit.name), {
    reset: button('Reset', () => act(actions.reset(request, limit.name)), { ...able, label: `Reset ${limit.name}` }),
    grant: button('Grant', () => act(actions.grant(request, limit.name, limit.limit)), { ...able, label: `Grant tokens to ${limit.name}` }),
    override: button('Override', () => act(actions.override(request, limit.name, bucketOf(found.explanation, limit.name)?.limit ?? `at most ${number(limit.limit)}`)), { ...able, label: `Override ${limit.name}` }),
  })));
}

/** The bucket of a limit in an explanation. @param {any} explanation @param {string} name */
function bucketOf(explanation, name) {
  const all = [...(explanation?.limits ?? []), ...(explanation?.tenants ?? []).map((/** @type {any} */ tenant) => ({ ...tenant, name: `tenant:${tenant.name}` }))];
  return all.find((limit) => limit.name === name)?.bucket ?? null;
}

/** @param {LimitState} limit @param {any} details @param {{ reset: Child, grant: Child, override: Child }} can */
function bucket(limit, details, can) {
  const left = limit.limit > 0 ? limit.remaining / limit.limit : 0;
  const tone = !limit.allowed ? 'bad' : left < 0.2 ? 'warn' : 'good';
  return h('li', { class: 'bucket', key: limit.name },
    h('div', { class: 'bucket-head' },
      h('h3', null, h('code', null, limit.name)), limit.tier && badge('none', limit.tier), !limit.allowed && badge('bad', 'denies'),
      limit.override && badge('info', 'overridden'),
      h('div', { class: 'row-actions' }, can.reset, can.grant, can.override)),
    details && h('p', { class: 'quiet small' }, details.limit, '; ', bucketKey(details, limit.tier === 'tenant')),
    bar(left, { label: `Left in ${limit.name}`, tone }),
    h('p', { class: 'numbers' }, h('b', null, number(limit.remaining)), ` of ${number(limit.limit)} left`,
      limit.retry_after_ms ? `; enough in ${duration(limit.retry_after_ms)}` : '',
      limit.reset_after_ms ? `; full in ${duration(limit.reset_after_ms)}` : '; full'));
}

/** @type {Screen} */
export const key = {
  name: 'key', title: 'Key', about: 'why a client is refused, and letting it through', shortcut: 'k',
  icon: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM16 16l5 5', open,
};
