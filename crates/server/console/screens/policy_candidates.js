// Candidates: drafts that decide beside the policy in force and deny nobody, and what they would decide otherwise.

/** @import {Child, Context} from '../types.js' */

import { call, get, post, segment } from '../api.js';
import { chart } from '../chart.js';
import { ask, tell } from '../dialogs.js';
import { number, share, when, words } from '../format.js';
import { badge, button, card, empty, facts, link, table } from '../parts.js';
import { has } from '../roles.js';
import { address } from '../router.js';
import { h } from '../view.js';
import { fields } from './policy_forms.js';
import { loading, policyInForce, published, sent } from './policy_live.js';

const EVERY_MS = 3_000;
const STEP_MS = 30_000;
/** How many steps are drawn: those of two hours. */
const STEPS = 240;

/** Lets a document run beside the policy; its id, unless that was given up. @param {string} text @returns {Promise<string>} */
export async function startCandidate(text) {
  let id = '';
  const values = { name: '', hours: '24' };
  await ask({
    title: 'Run beside the policy', confirm: 'Start',
    body: (redraw) => [
      h('p', null, 'Every request is decided by the draft too. That changes no answer; it shows who would be denied or admitted newly.'),
      fields([['name', 'Name'], ['hours', 'For', null, [['1', 'one hour'], ['24', 'one day'], ['167', 'a week']]]], values, redraw),
    ],
    run: async (reason) => {
      const until = new Date(Date.now() + Number(values.hours) * 3_600_000).toISOString();
      id = (await call('POST', '/candidates', { ...sent(text), query: { name: values.name.trim(), until }, reason })).body.id;
      tell('The candidate runs beside the policy.');
    },
  });
  return id;
}

/** What a candidate has found, in a sentence. @param {string} id */
export async function foundBy(id) {
  const { totals } = await get(`/candidates/${segment(id)}/report`);
  return `As a candidate it has newly denied ${number(totals.newly_denied)} and newly admitted ${number(totals.newly_admitted)} of ${number(comparedOf(totals))} requests.`;
}

/** @param {any} totals */
function comparedOf(totals) {
  return totals.both_admit + totals.both_deny + totals.newly_denied + totals.newly_admitted;
}

/** @param {Context} context */
export function candidates(context) {
  const { who, closed } = context;
  const able = { disabled: !has(who, 'editor') && 'Editors may do this' };
  /** @type {any[]} */
  let rows = [];
  /** @type {any} */
  let [one, report] = [null, null];

  const { load, shown, isWell } = loading(context, async () => {
    const { items } = await get('/candidates', {}, closed);
    const next = items.find((/** @type {any} */ { id }) => id === context.query.get('id')) ?? items[0] ?? null;
    // Together: the screen may be drawn while the report is loading.
    [report, rows, one] = [next && await get(`/candidates/${segment(next.id)}/report`, {}, closed), items, next];
  });
  const timer = setInterval(() => {
    if (context.query.get('view') === 'candidates' && !document.hidden && isWell() && one?.running) void load();
  }, EVERY_MS);
  const promote = async (/** @type {string} */ id) => {
    await ask({
      title: 'Promote the candidate', confirm: 'Publish', body: () => 'Its document becomes the policy in force, and the candidate ends.',
      run: async (reason) => {
        const { version } = await policyInForce();
        published(await post(`/candidates/${segment(id)}/promote`, undefined, { ifMatch: version, reason }), version, load);
      },
    });
    await load();
  };
  const remove = async (/** @type {string} */ id) => {
    await ask({
      title: 'Remove the candidate', confirm: 'Remove', isDangerous: true, body: () => 'It ends, and what was found is removed with it.',
      run: (reason) => call('DELETE', `/candidates/${segment(id)}`, { reason }),
    });
    await load();
  };
  const view = () => shown('candidates', () => (one === null ? empty('Who would be denied, if this were the policy?',
    h('p', null, 'A candidate is a draft that decides beside the policy in force. It denies nobody, and tells whom it would. Change the ', link(address('policy'), 'document'), ', then choose “Run as candidate”.')) : [
    card('Candidates', { key: 'list' }, table({
      caption: 'Candidates', rows, key: ({ id }) => id,
      columns: [
        { title: 'Name', isHead: true, cell: (row) => h('a', { href: address('policy', { view: 'candidates', id: row.id }), 'aria-current': row === one ? 'true' : null }, row.name || row.id) },
        { title: 'State', cell: (row) => (row.promoted ? badge('info', `became version ${row.promoted}`) : row.running ? badge('good', 'runs') : badge('none', 'has ended')) },
        { title: 'Until', cell: (row) => when(row.until) },
        { title: 'Who', cell: (row) => [row.author, h('div', { class: 'quiet small' }, row.reason)] },
        { title: '', cell: (row) => h('div', { class: 'row-actions' },
          button('Try', () => context.go('try', { b: `candidate:${row.id}` })),
          button('Remove', () => remove(row.id), able),
          !row.promoted && button('Promote', () => promote(row.id), able)) },
      ],
    })),
    reported(one, report)]));
  return { load, view, closed: () => clearInterval(timer) };
}

/** @param {any} one @param {any} report @returns {Child} */
function reported(one, { totals, steps, nodes, newly_denied: denied, newly_admitted: admitted }) {
  const compared = comparedOf(totals);
  const of = (/** @type {number} */ count) => [number(count), ' ', h('span', { class: 'quiet' }, share(count / compared))];
  return [
    card(`What ${one.name || 'it'} would decide otherwise`, { key: 'totals', about: 'Over all nodes, since it began.' },
      nodes.map((/** @type {any} */ node) => node.error && h('p', { class: 'wrong' }, node.id, ': ', node.error)),
      compared === 0 ? h('p', { class: 'quiet' }, 'No request has come since it began. As soon as some come, they are counted here.') : [
        facts(['Newly denied', of(totals.newly_denied)], ['Newly admitted', of(totals.newly_admitted)], ['Admitted by both', of(totals.both_admit)],
          ['Denied by both', of(totals.both_deny)], totals.not_compared > 0 && ['Not compared', number(totals.not_compared)]),
        drawn(steps)]),
    compared > 0 && h('div', { class: 'columns', key: 'sides' }, side('Newly denied', denied), side('Newly admitted', admitted)),
  ];
}

/** @param {any[]} steps those in which something came */
function drawn(steps) {
  const known = new Map(steps.map((step) => [Date.parse(step.time), step]));
  const last = Math.max(...known.keys());
  const first = Math.max(Math.min(...known.keys()), last - STEPS * STEP_MS);
  const times = Array.from({ length: (last - first) / STEP_MS + 1 || 0 }, (_, index) => first + index * STEP_MS);
  const values = (/** @type {string} */ name) => times.map((time) => known.get(time)?.[name] ?? 0);
  return times.length > 1 && chart({
    label: 'Requests that would be decided otherwise, by half minute', kind: 'lines', times, height: 160,
    series: [{ name: 'Newly denied', tone: 'denied', values: values('newly_denied') }, { name: 'Newly admitted', tone: 'allowed', values: values('newly_admitted') }],
  });
}

/** @param {string} title @param {any} found */
function side(title, { by_limit: limits, keys, examples }) {
  const counts = (/** @type {string} */ what, /** @type {[string, number][]} */ rows) => table({
    caption: `${title}, by ${what}`, isCompact: true, rows: rows.slice(0, 20), key: ([name]) => name,
    columns: [{ title: what, isHead: true, cell: ([name]) => h('code', null, name) }, { title: 'requests', kind: 'number', cell: ([, count]) => number(count) }],
  });
  return card(title, {}, examples.length === 0 ? h('p', { class: 'quiet' }, 'Nobody.') : [
    counts('limit', Object.entries(limits).sort(([, one], [, other]) => other - one)),
    counts('key', keys.map((/** @type {any} */ one) => [`${one.limit} ${one.key}`, one.count])),
    h('details', null, h('summary', null, 'Examples'), h('ul', null, examples.map((/** @type {any} */ one) => {
      const name = ['user', 'client', 'tenant', 'ip'].find((member) => one[member]) ?? '';
      return h('li', null, when(one.time, 'clock'), ' ', link(address('key', { [name]: one[name] }), `${name} ${one[name] ?? ''}`), ` ${one.method ?? ''} ${one.path ?? ''} `,
        words((one.candidate.allowed ? one.live : one.candidate).reason));
    }))),
  ]);
}
