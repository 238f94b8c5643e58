// Audit: changes, security events and denials, as the database keeps them, and whether the audit is as it was written.

/** @import {Context, Opened, Screen} from '../types.js' */

import { call, get } from '../api.js';
import { tell } from '../dialogs.js';
import { counted, number, when, words } from '../format.js';
import { badge, button, card, copyButton, empty, field, link, newId, notice, problem, progress, table, textInput } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';
import { difference, linesButton } from './audit_difference.js';

const SECURITY = ['burst_detected_warning', 'burst_detected_blocked', 'unknown_tenant', 'invalid_credentials'];

/** The lists: the route, what it is called, and which of its entries are meant. @type {Record<string, { path: string, title: string, has?: (event: any) => boolean }>} */
const LISTS = {
  all: { path: '/events', title: 'Everything' },
  changes: { path: '/audit', title: 'Changes', has: ({ event }) => !SECURITY.includes(event) },
  security: { path: '/audit', title: 'Security', has: ({ event }) => SECURITY.includes(event) },
  violations: { path: '/violations', title: 'Denials' },
};
/** @type {Record<string, string>} */
const FILTERS = { q: 'Text', kind: 'Event or kind', actor: 'By', tenant: 'Tenant', user: 'User', ip: 'Address', limit_name: 'Limit', since: 'From', until: 'Until' };
const EXPORTED_MAX = 100_000;

/** @param {Context} context @returns {Opened} */
function open(context) {
  const { who, redraw, closed, setQuery } = context;
  const id = newId('filter');
  /** @type {any[] | null} */
  let events = null;
  /** @type {string | null} */
  let next = null;
  /** @type {unknown} */
  let failure = null;
  let exported = 0;
  let turn = 0;
  /** @type {any} */
  let chain = null;

  const list = () => LISTS[context.query.get('list') ?? ''] ?? LISTS.all;
  const filters = () => Object.fromEntries(Object.keys(FILTERS).map((name) => [name, context.query.get(name)]));
  const load = async (isMore = false) => {
    const own = ++turn;
    const { path, has = () => true } = list();
    let found = isMore && events ? events : [];
    try {
      const enough = found.length + 50;
      do {
        const page = await get(path, { limit: 100, ...filters(), cursor: isMore || found.length > 0 ? next : null }, closed);
        if (own !== turn) return;
        found = found.concat(page.items.filter(has));
        [events, next, failure] = [found, page.next, null];
        redraw();
      } while (next !== null && found.length < enough);
    } catch (error) {
      if (own === turn) failure = error;
    }
    redraw();
  };
  const verify = async () => {
    chain = null;
    redraw();
    chain = await get('/audit/verify', {}, closed).catch((error) => ({ error }));
    redraw();
  };
  const isOpen = matchMedia('(min-width: 900px)').matches || Object.values(filters()).some(Boolean);
  const start = () => {
    void load();
    if (!who.tenant) void verify();
  };
  start();

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => {
    setQuery({ [name]: value || null }, { replace: true });
    clearTimeout(timer);
    timer = setTimeout(() => void load(), 300);
  };
  const save = async (/** @type {string} */ accept, /** @type {string} */ ending) => {
    const parts = [];
    /** @type {string | null} */
    let cursor = null;
    exported = 1;
    redraw();
    try {
      do {
        const { body, headers } = await call('GET', list().path, { query: { limit: 1_000, ...filters(), cursor }, accept, signal: closed });
        // Each page of a CSV begins with the names of its columns.
        parts.push(parts.length > 0 && ending === 'csv' ? body.slice(body.indexOf('\n') + 1) : body);
        cursor = new URLSearchParams(/<\?([^>]*)>/.exec(headers.get('link') ?? '')?.[1]).get('cursor');
        exported += 1_000;
        redraw();
      } while (cursor && exported < EXPORTED_MAX);
      Object.assign(document.createElement('a'), { href: URL.createObjectURL(new Blob(parts, { type: accept })), download: `tidegate-${list().path.slice(1)}.${ending}` }).click();
      if (cursor) tell(`The file has the newest ${number(EXPORTED_MAX)} entries. Choose a time to get earlier ones.`);
    } catch (error) {
      failure = error;
    }
    exported = 0;
    redraw();
  };

  return {
    resumed: start,
    changed: () => void load(),
    closed: () => clearTimeout(timer),
    view: () => [
      !who.tenant && chainView(chain, () => void verify()),
      h('div', { role: 'navigation', class: 'audit-lists', 'aria-label': 'Lists' }, Object.entries(LISTS).map(([name, { title }]) => h('a', { href: address('audit', { ...filters(), list: name }), 'aria-current': list() === LISTS[name] ? 'page' : null }, title))),
      card(list().title, { actions: exported ? progress('Exporting', exported) : [button('Load again', () => void load(), { look: 'quiet' }), button('CSV', () => void save('text/csv', 'csv')), button('NDJSON', () => void save('application/x-ndjson', 'ndjson'))] },
        h('details', { class: 'filters', open: isOpen }, h('summary', null, 'Filters'), h('div', { class: 'fields' }, Object.entries(FILTERS).map(([name, label]) => field(label, timed(name, context.query.get(name) ?? '', set(name)), { id: `${id}-${name}` })))),
        failure !== null ? problem(failure, { retry: start }) : events === null ? progress('Loading') : listed(events, Object.values(filters()).some(Boolean), !who.tenant),
        next !== null && events !== null && h('p', null, button('Earlier ones', () => void load(true)))),
    ],
  };
}

/** @param {string} name @param {string} value @param {(value: string) => void} set */
function timed(name, value, set) {
  if (name !== 'since' && name !== 'until') return textInput(value, set, { type: 'search' });
  const local = value && new Date(new Date(value).getTime() - new Date(value).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  return h('input', { type: 'datetime-local', value: local, onchange: (/** @type {any} */ { target }) => set(target.value && new Date(target.value).toISOString()) });
}

/** @param {any} chain @param {() => void} again */
function chainView(chain, again) {
  if (chain?.error) return chain.error.needsDatabase ? null : problem(chain.error, { retry: again });
  if (chain === null) return progress('Verifying the audit');
  const { valid, entries, first, last, erased, hash, broken } = chain;
  return notice(valid ? 'good' : 'bad', valid ? 'The audit is as it was written' : `The audit is broken at entry ${broken?.seq}: ${broken?.why}`,
    h('p', null, `${counted(entries, 'entry', 'entries')}, ${number(first)} to ${number(last)}${erased ? `; personal data erased in ${number(erased)}` : ''}. Write down the hash of the last: it proves later what the audit was. `),
    h('p', { class: 'small hash' }, h('code', null, hash), copyButton(hash), button('Verify again', again, { look: 'quiet' })));
}

/** @param {any[]} events @param {boolean} isFiltered @param {boolean} isWhole may the reader see versions? */
function listed(events, isFiltered, isWhole) {
  const who = (/** @type {any} */ { actor, user, client, ip, tenant }) => h('div', null,
    actor && h('div', null, actor), user && h('div', null, link(address('key', { user }), user)), client && h('div', null, client),
    ip && h('div', null, link(address('key', { ip }), ip)), tenant && h('div', null, 'tenant ', link(address('tenants', { tenant }), tenant)));
  return table({
    caption: 'Entries', rows: events, key: (one) => `${one.event} ${one.seq ?? ''} ${one.violation_id ?? ''} ${one.time} ${one.limit ?? ''} ${one.key ?? ''}`,
    empty: empty('Nothing here', isFiltered ? 'Nothing matches the filters: make one empty.' : 'What is changed is here at once, and what is denied after about ten seconds. Nothing has happened yet.'),
    columns: [
      { title: 'When', isHead: true, cell: ({ time, first, count }) => h('div', null, when(time), count > 1 && h('div', { class: 'quiet small' }, `${number(count)} times since `, when(first, 'clock'))) },
      { title: 'What', cell: ({ event, severity, kind, reason, actor }) => h('div', null, badge(severity === 'error' ? 'bad' : severity === 'warning' ? 'warn' : 'info', words(event)), h('div', { class: 'quiet small' }, actor ? [kind, reason].filter(Boolean).join(': ') : words(reason ?? kind ?? ''))) },
      { title: 'Who', cell: who },
      { title: 'About', cell: ({ limit, key, endpoint, node, detail, policy_version: version, event }) => h('div', null,
        limit && h('div', null, h('code', null, limit)), key && h('div', null, key), endpoint && h('div', null, endpoint),
        detail && h('details', null, h('summary', null, detail.changes ? counted(detail.changes.length + detail.left_out, 'change') : 'Details'), difference(detail)),
        isWhole && event === 'rate_limit_config_updated' && version > 0 && linesButton(version), node && h('div', { class: 'quiet small' }, `on ${node}`)) },
    ],
  });
}

/** @type {Screen} */
export const audit = {
  name: 'audit', title: 'Audit', about: 'who changed what, who was denied, and whether the audit is unbroken', shortcut: 'a',
  icon: 'M6 3h9l4 4v14H6zM9 9h6M9 13h7M9 17h4', open,
};
