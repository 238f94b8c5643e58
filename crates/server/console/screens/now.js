// Now: what is decided and denied this second and in the last hour, and how the nodes and the store are.

/** @import {Child, Context, History, Opened, Overview, Screen} from '../types.js' */

import { ApiProblem, get } from '../api.js';
import { sparkline } from '../chart.js';
import { counted, micros, number, rate, share, when, words } from '../format.js';
import { badge, button, card, command, empty, notice, problem, progress, table } from '../parts.js';
import { listen, stream } from '../stream.js';
import { h } from '../view.js';
import { charts } from './now_charts.js';
import { killSwitch } from './now_kill.js';
import { hotKeys } from './now_keys.js';

/** How often the last hour and the busiest keys are asked for. */
const SLOW_MS = 5_000;
/** How many seconds the small lines beside the figures show. */
const RECENT = 60;

/** @param {Context} context @returns {Opened} */
function open(context) {
  const { redraw, closed } = context;
  const kill = killSwitch(context);
  /** @type {Overview[]} */
  const recent = [];
  /** @type {History | null} */
  let history = null;
  /** When it was loaded. */
  let at = Date.now();
  /** @type {any} */
  let keys = null;
  /** @type {unknown} */
  let failure = null;
  /** When each node was seen last. @type {Map<string, string>} */
  const lastSeen = new Map();

  const load = async () => {
    try {
      [history, keys] = await Promise.all([get('/history', {}, closed), get('/hot-keys', { limit: 10 }, closed)]);
      at = Date.now();
      failure = null;
    } catch (error) {
      if (!closed.aborted) failure = error;
    }
    redraw();
  };

  listen(() => {
    const { overview } = stream;
    if (overview && recent[recent.length - 1]?.time !== overview.time) recent.push(overview);
    if (recent.length > RECENT) recent.shift();
    for (const node of overview?.nodes ?? []) lastSeen.set(node.id, overview?.time ?? '');
    redraw();
  }, closed);
  void load();
  const timer = setInterval(() => { if (!document.hidden) void load(); }, SLOW_MS);

  return {
    resumed: () => void load(),
    closed: () => clearInterval(timer),
    view: () => h('div', { class: 'stack' },
      troubles(stream.overview),
      gone(stream.overview, lastSeen, redraw),
      kill.view(Boolean(stream.overview?.kill_switch)),
      failure !== null && problem(failure, { retry: () => void load() }),
      body(recent, history, at, keys, kill.button(Boolean(stream.overview?.kill_switch)))),
  };
}

/** @param {Overview[]} recent @param {History | null} history @param {number} at @param {any} keys @param {Child} action @returns {Child} */
function body(recent, history, at, keys, action) {
  const { overview } = stream;
  if (!overview) return stream.state === 'lost' ? null : progress('Waiting for the first figures');
  const isRestricted = overview.decisions_per_second === undefined;
  const isUnused = history !== null && recent.every((one) => one.limits.length === 0 && !one.decisions_per_second)
    && history.steps.every((step) => !step.allowed && !step.denied && Object.keys(step.limits).length === 0);
  if (isUnused && !isRestricted) return [firstSteps(overview), nodesCard(overview, action)];
  return [
    !isRestricted && figures(overview, recent),
    h('div', { class: 'columns', key: 'hour' },
      history && charts(history, { isRestricted, at, isAlone: (overview.nodes ?? []).length === 1 }),
      !isRestricted && reasonsCard(overview)),
    limitsCard(overview, recent),
    keys && h('div', { class: 'columns', key: 'keys' },
      hotKeys('Most denied keys', 'Requests that were denied in the last minute, on all nodes.', keys.denied),
      hotKeys('Busiest keys', 'Tokens that were taken in the last minute, on all nodes.', keys.consumers)),
    nodesCard(overview, action),
  ];
}

/** What needs attention, first. @param {Overview | null} overview */
function troubles(overview) {
  const nodes = overview?.nodes ?? [];
  const down = nodes.filter((node) => node.store_up === false);
  // What is said above already is not said again for each node.
  const problems = (/** @type {import('../types.js').OverviewNode} */ node) => Object.entries(node.problems).filter(([name]) => name !== 'kill_switch').map(([, text]) => text);
  const ill = nodes.filter((node) => problems(node).length > 0 && node.store_up !== false);
  return [
    stream.state === 'lost' && h('div', { key: 'lost' }, notice('bad', 'The figures below are old', [
      h('p', null, stream.why?.detail ?? 'The server does not send figures any more.', ' The last ones are from ', when(overview?.time, 'ago'), '.'),
      h('p', { class: 'next' }, (stream.why ?? new ApiProblem({ status: 0, title: '', detail: '' })).nextStep),
    ])),
    overview?.incomplete && h('div', { key: 'incomplete' }, notice('warn', 'Something is missing below', ...Object.values(overview.incomplete))),
    down.length > 0 && h('div', { key: 'down' }, notice('bad', `The shared store does not answer ${counted(down.length, 'node')}`,
      `${down.map((node) => node.id).join(', ')}: decisions are made as the limits say for this case. Check Redis and the network between.`)),
    ill.map((node) => h('div', { key: `ill-${node.id}` }, notice(node.status === 'unready' ? 'bad' : 'warn', `${node.id} is ${node.status}`,
      ...problems(node)))),
  ];
}

/** Nodes that were there, and are not any more. @param {Overview | null} overview @param {Map<string, string>} lastSeen @param {() => void} redraw */
function gone(overview, lastSeen, redraw) {
  // Other nodes cannot be seen now: that says nothing about them.
  if (overview?.incomplete?.database || overview?.incomplete?.store) return [];
  const missing = [...lastSeen].filter(([id]) => !overview?.nodes?.some((node) => node.id === id));
  return missing.map(([id, time]) => h('div', { key: `gone-${id}` }, notice('bad', `${id} is gone`, [
    h('p', null, 'It was seen last ', when(time, 'ago'), ' (', when(time, 'clock'), '). It was stopped, or it cannot reach the database.'),
    h('p', null, button('That is intended', () => { lastSeen.delete(id); redraw(); })),
  ])));
}

/** The commands that the start of the server prints. @param {Overview} overview */
function firstSteps({ commands = [] }) {
  return empty('Nothing was decided in the last hour', [
    h('p', null, 'Ask for a decision on the machine of the server, and this page comes alive within a second:'),
    commands.map((one) => command(one)),
    commands[0]?.includes('/v1/check') && [
      h('p', null, 'To see denials, ask more often than the limit admits:'),
      command(`for i in $(seq 200); do ${commands[0]} -o /dev/null; done`)],
  ]);
}

/** @param {Overview} overview @param {Overview[]} recent */
function figures(overview, recent) {
  const { decisions_per_second: all = 0, denied_per_second: denied = 0, decision_time_us: times } = overview;
  const figure = (/** @type {string} */ title, /** @type {Child} */ value, /** @type {Child} */ more, /** @type {(number | null)[]} */ line, /** @type {string} */ tone) =>
    h('div', { class: 'figure', key: title }, h('h2', null, title), h('p', { class: 'value' }, value), h('p', { class: 'more' }, more), sparkline(line, tone, RECENT));
  return h('section', { class: 'figures', 'aria-label': 'This second', key: 'figures' },
    figure('Decisions', rate(all), 'in the last second', recent.map((one) => one.decisions_per_second ?? 0), 'allowed'),
    figure('Denied', rate(denied), all > 0 ? `${share(denied / all)} of all` : 'nothing', recent.map((one) => one.denied_per_second ?? 0), 'denied'),
    figure('Half of all take', times ? `≤ ${micros(times.p50)}` : '—', 'p50 of the last second', recent.map((one) => one.decision_time_us?.p50 ?? null), 'c'),
    figure('99 % take', times ? `≤ ${micros(times.p99)}` : '—', 'p99 of the last second', recent.map((one) => one.decision_time_us?.p99 ?? null), 'e'));
}

/** @param {Overview} overview @param {Overview[]} recent */
function limitsCard(overview, recent) {
  const busy = overview.limits.slice(0, 12);
  const { other_limits: others } = overview;
  const decided = (/** @type {{ allowed_per_second: number, denied_per_second: number }} */ limit) => limit.allowed_per_second + limit.denied_per_second;
  const rest = overview.limits.slice(12).reduce((sum, limit) => sum + decided(limit), others ? decided(others) : 0);
  const line = (/** @type {string} */ name) => recent.map((one) => one.limits.find((limit) => limit.name === name)?.denied_per_second ?? 0);
  const about = rest > 0 ? `Other limits together decided ${rate(rest)}.` : undefined;
  return card('Limits, this second', { key: 'limits', about }, table({
    caption: 'What the limits decided in the last second', rows: busy, key: (limit) => limit.name, isCompact: true,
    empty: h('p', { class: 'quiet' }, overview.incomplete ? 'No limit that is known here decided anything in the last second.' : 'No limit decided anything in the last second.'),
    columns: [
      { title: 'Limit', isHead: true, cell: (limit) => h('code', { title: limit.error_per_second ? `up to ${rate(limit.error_per_second)} more, which nodes did not name` : null }, limit.name) },
      { title: 'Admitted', kind: 'number', cell: (limit) => rate(limit.allowed_per_second) },
      { title: 'Denied', kind: 'number', cell: (limit) => (limit.denied_per_second > 0 ? h('strong', { class: 'denial' }, rate(limit.denied_per_second)) : '0/s') },
      { title: 'Denied, the last minute', class: 'minute', cell: (limit) => sparkline(line(limit.name), 'denied', RECENT) },
    ],
  }));
}

/** @param {Overview} overview */
function reasonsCard(overview) {
  const reasons = Object.entries(overview.denied_by_reason ?? {}).filter(([, count]) => count > 0).sort((one, other) => other[1] - one[1]);
  return card('Denials by reason, this second', { key: 'reasons' }, table({
    caption: 'Denials by reason', rows: reasons, key: ([reason]) => reason, isCompact: true,
    empty: h('p', { class: 'quiet' }, 'Nothing was denied in the last second.'),
    columns: [
      { title: 'Reason', isHead: true, cell: ([reason]) => h('span', { title: reason }, words(reason)) },
      { title: 'Denied', kind: 'number', cell: ([, count]) => rate(count) },
    ],
  }));
}

/** How exact the limits are. @param {Overview} overview */
function exactness({ nodes = [], overshoot_bound_tokens: bound }) {
  if (nodes.length > 1 && nodes.some((node) => node.mode === 'local')) return 'Nodes in the mode local count for themselves: each admits what a limit says.';
  return bound ? `Together the nodes may exceed a limit by ${counted(bound, 'token')} at most, once for each key.` : 'No limit can be exceeded.';
}

/** @param {Overview} overview @param {Child} action */
function nodesCard(overview, action) {
  const nodes = overview.nodes ?? [];
  if (nodes.length === 0) return null;
  const versions = new Set(nodes.map((node) => node.version));
  return card(counted(nodes.length, 'node'), {
    key: 'nodes',
    actions: [action, versions.size > 1 ? badge('warn', 'different versions') : badge('none', `version ${[...versions][0] ?? '—'}`)],
    about: exactness(overview),
  }, table({
    caption: 'Nodes', rows: nodes, key: (node) => node.id,
    columns: [
      { title: 'Node', isHead: true, cell: (node) => h('code', null, node.id) },
      { title: 'State', cell: (node) => badge(toneOf(node.status), node.status) },
      { title: 'Store', cell: (node) => [node.mode, ' ', node.store_up === false && badge('bad', 'away'), node.store_up === true && badge('good', 'answers')] },
      { title: 'Version', kind: 'number', cell: (node) => (node.version === null || node.version === undefined ? '—' : number(node.version)) },
      { title: 'Decisions', kind: 'number', cell: (node) => rate(node.decisions_per_second) },
      { title: 'Denied', kind: 'number', cell: (node) => rate(node.denied_per_second) },
      { title: 'Since', cell: (node) => when(node.since) },
    ],
  }));
}

/** @param {string} status */
function toneOf(status) {
  return /** @type {const} */ ({ ready: 'good', degraded: 'warn', unready: 'bad' })[status] ?? 'none';
}

/** @type {Screen} */
export const now = {
  name: 'now', title: 'Now', about: 'what is decided and denied this second and in the last hour', shortcut: 'n',
  icon: 'M3 12h4l2.500-7 5 14 2.500-7h4', open,
};
