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
  /** @type {any[] | null} */
  let found = null;
  /** @type {unknown} */
  let failure = null;
  let loadedAt = Date.now();
  /** @type {Request | null} */
  let request = null;

  const load = async () => {
    const query = filter(request);
    if (query === null) return;
    try {
      loadedAt = Date.now();
      found = await all('/violations', {
        query: { ...query, since: new Date(loadedAt - Number(span) * 1_000).toISOString() }, signal: context.closed, most: MOST,
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
      void load();
    },
    view: () => {
      if (filter(request) === null) return null;
      const picker = choice(span, SPANS, (value) => { span = value; void load(); }, { 'aria-label': 'How far back' });
      return card(title(request), { key: 'denials', actions: picker }, content(found, failure, loadedAt, Number(span)));
    },
  };
}

/**
 * What the records are searched by: what says best who it is. Other members would find the denials of everybody.
 * @param {Request | null} request
 */
function filter(request) {
  const name = ['user', 'ip', 'tenant'].find((one) => typeof request?.[one] === 'string');
  return name && request ? { [name]: request[name] } : null;
}

/** @param {Request | null} request */
function title(request) {
  const [[name, value]] = Object.entries(filter(request) ?? { '': '' });
  return `Denials of the ${name === 'ip' ? 'address' : name} ${value}`;
}

/** @param {any[] | null} found @param {unknown} failure @param {number} loadedAt @param {number} span */
function content(found, failure, loadedAt, span) {
  if (failure instanceof ApiProblem && failure.needsDatabase) {
    return h('p', { class: 'quiet' }, 'Denials are recorded when the server has a database: start it with ', h('code', null, '--data DIR'), '.');
  }
  if (failure !== null) return problem(failure);
  if (found === null) return progress('Loading the denials');
  if (found.length === 0) return h('p', { class: 'quiet' }, 'None in this time. Denials appear here about ten seconds after they happen.');
  const total = found.reduce((sum, event) => sum + (event.count ?? 1), 0);
  return [
    h('p', { class: 'quiet' }, counted(total, 'denial'), found.length >= MOST ? ` in the newest ${number(MOST)} records` : '', '. ',
      h('a', { href: auditAddress(found[0]) }, 'Look at the records')),
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

/** @param {any} event */
function auditAddress(event) {
  return address('audit', { list: 'violations', user: event.user, ip: event.user ? null : event.ip });
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
