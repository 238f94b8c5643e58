// The denials of a client over time, from the records in the database.

/** @import {Context} from '../types.js' */
/** @import {Request} from './key_request.js' */

import { ApiProblem, all } from '../api.js';
import { chart } from '../chart.js';
import { counted, number, when, words } from '../format.js';
import { card, choice, problem, progress, table } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';

/** Seconds that are shown, and how they are called. @type {[string, string][]} */
const SPANS = [['3600', 'the last hour'], ['86400', 'the last day'], ['604800', 'the last week']];
const BINS = 60;
const MOST = 2_000;

/** @param {Context} context */
export function denials(context) {
  let span = '3600';
  /** What the records are searched by. */
  let by = 'user';
  /** @type {any[] | null} */
  let found = null;
  /** @type {unknown} */
  let failure = null;
  let loadedAt = Date.now();
  /** @type {Request | null} */
  let request = null;

  const load = async () => {
    if (request === null || !searchable(request).includes(by)) return;
    try {
      loadedAt = Date.now();
      found = await all('/violations', {
        query: { [by]: request[by], since: new Date(loadedAt - Number(span) * 1_000).toISOString() }, signal: context.closed, most: MOST,
      });
      failure = null;
    } catch (error) {
      failure = error;
    }
    context.redraw();
  };

  return {
    /** @param {Request | null} next */
    show: (next) => {
      if (JSON.stringify(next) !== JSON.stringify(request)) found = null;
      request = next;
      if (!searchable(next).includes(by)) by = searchable(next)[0] ?? 'user';
      void load();
    },
    view: () => {
      const ways = searchable(request);
      if (request === null || ways.length === 0) return null;
      const pickers = [
        ways.length > 1 && choice(by, ways.map((name) => [name, `of this ${name === 'ip' ? 'address' : name}`]), (value) => { by = value; found = null; void load(); }, { 'aria-label': 'Whose' }),
        choice(span, SPANS, (value) => { span = value; void load(); }, { 'aria-label': 'How far back' }),
      ];
      return card('Denials', { key: 'denials', actions: pickers, about: `Of the ${by === 'ip' ? 'address' : by} ${request[by]}. What a limit counts for all users of a tenant is recorded for the tenant.` }, content(found, failure, loadedAt, Number(span), address('audit', { list: 'violations', [by]: request[by] })));
    },
  };
}

/** The members that records can be searched by, what says best who it is first. @param {Request | null} request @returns {string[]} */
function searchable(request) {
  return ['user', 'ip', 'tenant'].filter((name) => typeof request?.[name] === 'string');
}

/** @param {any[] | null} found @param {unknown} failure @param {number} loadedAt @param {number} span @param {string} records the address of all */
function content(found, failure, loadedAt, span, records) {
  if (failure instanceof ApiProblem && failure.needsDatabase) {
    return h('p', { class: 'quiet' }, 'Denials are recorded when the server has a database: start it with ', h('code', null, '--data DIR'), '.');
  }
  if (failure !== null) return problem(failure);
  if (found === null) return progress('Loading the denials');
  if (found.length === 0) return h('p', { class: 'quiet' }, 'None in this time. Denials appear here about ten seconds after they happen.');
  const total = found.reduce((sum, event) => sum + (event.count ?? 1), 0);
  return [
    h('p', { class: 'quiet' }, counted(total, 'denial'), found.length >= MOST ? ` in the newest ${number(MOST)} records` : '', '. ',
      h('a', { href: records }, 'Look at the records')),
    chart({ label: 'Denials over time', kind: 'stacked', height: 140, format: number, ...bins(found, loadedAt, span) }),
    table({
      caption: 'The newest denials', rows: found.slice(0, 8), key: (event) => `${event.time} ${event.limit} ${event.seq ?? event.violation_id ?? ''}`,
      columns: [
        { title: 'Last', isHead: true, cell: (event) => when(event.last ?? event.time) },
        { title: 'Limit', cell: (event) => h('code', null, event.limit ?? '—') },
        { title: 'Why', cell: (event) => words(event.kind ?? event.event) },
        { title: 'Where', cell: (event) => event.endpoint ?? '' },
        { title: 'Times', kind: 'number', cell: (event) => number(event.count ?? 1) },
      ],
    }),
  ];
}

/** @param {any[]} events @param {number} end @param {number} span */
function bins(events, end, span) {
  const width = (span * 1_000) / BINS;
  const first = Math.floor((end - span * 1_000) / width) * width;
  const times = Array.from({ length: BINS + 1 }, (_, index) => first + index * width);
  /** @type {Map<string, number[]>} */
  const byLimit = new Map();
  for (const event of events) {
    const name = event.limit ?? 'other';
    const values = byLimit.get(name) ?? times.map(() => 0);
    const at = Math.floor((new Date(event.last ?? event.time).getTime() - first) / width);
    if (at >= 0 && at < values.length) values[at] += event.count ?? 1;
    byLimit.set(name, values);
  }
  const tones = ['b', 'd', 'c', 'e', 'f', 'rest'];
  return { times, series: [...byLimit].map(([name, values], index) => ({ name, values, tone: tones[Math.min(index, tones.length - 1)] })) };
}
