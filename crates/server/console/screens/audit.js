// Audit: changes, security events and denials, as the database keeps them, and whether the audit is as it was written.

/** @import {Context, Opened, Screen} from '../types.js' */

import { call, get } from '../api.js';
import { tell } from '../dialogs.js';
import { counted, number, when, words } from '../format.js';
import { badge, button, card, copyButton, empty, field, link, newId, notice, problem, progress, table, textInput } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';

/** What clients cause; all other entries of the audit are changes. */
const SECURITY = /^(burst_|unknown_|invalid_)/;
/** The lists: the route, the title, and which of its entries are meant. @type {Record<string, [string, string, (event: any) => boolean]>} */
const LISTS = {
  all: ['/events', 'Everything', () => true],
  changes: ['/audit', 'Changes', ({ event }) => !SECURITY.test(event)],
  security: ['/audit', 'Security', ({ event }) => SECURITY.test(event)],
  violations: ['/violations', 'Denials', () => true],
};
/** @type {Record<string, string>} */
const FILTERS = { q: 'Text', kind: 'Event or kind', actor: 'By', tenant: 'Tenant', user: 'User', ip: 'Address', limit_name: 'Limit', since: 'From', until: 'Until' };
const EXPORTED_MAX = 100_000;
/** The colours of severities and changes. @type {Record<string, import('../parts.js').Tone>} */
const TONES = { error: 'bad', warning: 'warn', added: 'good', removed: 'bad' };

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
  let turn = 0;
  /** @type {any} */
  let chain = null;

  const list = () => LISTS[context.query.get('list') ?? ''] ?? LISTS.all;
  const filters = () => Object.fromEntries(Object.keys(FILTERS).map((name) => [name, context.query.get(name)]));
  const isFiltered = () => Object.values(filters()).some(Boolean);
  const load = async (isMore = false) => {
    const own = ++turn;
    const [path, , isMeant] = list();
    let found = isMore && events ? events : [];
    let cursor = isMore ? next : null;
    const enough = found.length + 50;
    try {
      do {
        const page = await get(path, { ...filters(), cursor }, closed);
        if (own !== turn) return;
        found = found.concat(page.items.filter(isMeant));
        [events, next, cursor, failure] = [found, page.next, page.next, null];
        redraw();
      } while (cursor !== null && found.length < enough);
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
  const start = () => void Promise.all([load(), !who.tenant && verify()]);
  start();

  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => {
    setQuery({ [name]: value || null }, { replace: true });
    clearTimeout(timer);
    timer = setTimeout(() => void load(), 300);
  };
  const exports = exporting(context, () => ({ list: list(), filters: filters() }), (error) => { failure = error; });
  const isOpen = matchMedia('(min-width: 900px)').matches || isFiltered();

  return {
    resumed: start,
    changed: () => void load(),
    closed: () => clearTimeout(timer),
    view: () => [
      !who.tenant && chainView(chain, () => void verify()),
      h('div', { role: 'navigation', class: 'audit-lists', 'aria-label': 'Lists' }, Object.entries(LISTS).map(([name, one]) => h('a', { href: address('audit', { ...filters(), list: name }), 'aria-current': list() === one ? 'page' : null }, one[1]))),
      card(list()[1], { actions: [button('Load again', () => void load(), { look: 'quiet' }), exports()] },
        h('details', { class: 'audit-filters', open: isOpen }, h('summary', null, 'Filters'), h('div', { class: 'fields' },
          Object.entries(FILTERS).map(([name, label]) => field(label, input(name, context.query.get(name) ?? '', set(name)), { id: `${id}-${name}` })))),
        failure !== null ? problem(failure, { retry: start }) : events === null ? progress('Loading') : listed(events, isFiltered()),
        next !== null && button('Earlier ones', () => void load(true))),
    ],
  };
}

/** The buttons that save a whole list as a file. @param {Context} context @param {() => { list: (typeof LISTS)[string], filters: Record<string, string | null> }} wanted @param {(error: unknown) => void} failed */
function exporting({ closed, redraw }, wanted, failed) {
  let exported = 0;
  const save = async (/** @type {string} */ type, /** @type {string} */ ending) => {
    const { list: [path, , isMeant], filters } = wanted();
    const parts = [];
    /** @type {string | null} */
    let cursor = null;
    try {
      do {
        exported = 1_000 * (parts.length + 1);
        redraw();
        const { body, headers } = await call('GET', path, { query: { limit: 1_000, ...filters, cursor }, accept: type, signal: closed });
        // Each page of a CSV begins with the names of its columns.
        parts.push(ending === 'csv' ? linesOfCsv(body, isMeant).slice(parts.length > 0 ? 1 : 0).join('')
          : body.split('\n').filter((/** @type {string} */ line) => line && isMeant(JSON.parse(line))).map((/** @type {string} */ line) => `${line}\n`).join(''));
        cursor = new URLSearchParams(/\?([^>]*)/.exec(headers.get('link') ?? '')?.[1]).get('cursor');
      } while (cursor && exported < EXPORTED_MAX);
      Object.assign(document.createElement('a'), { href: URL.createObjectURL(new Blob(parts, { type })), download: `tidegate${path.replace('/', '-')}.${ending}` }).click();
      if (cursor) tell(`The file has the newest ${number(EXPORTED_MAX)}. Choose a time for earlier ones.`);
    } catch (error) {
      failed(error);
    }
    exported = 0;
    redraw();
  };
  return () => (exported ? progress('Exporting', exported) : [button('CSV', () => void save('text/csv', 'csv')), button('NDJSON', () => void save('application/x-ndjson', 'ndjson'))]);
}

/** The names of the columns, and the lines of the events that are meant. @param {string} text @param {(event: any) => boolean} isMeant @returns {string[]} */
function linesOfCsv(text, isMeant) {
  // What is in quotes may have commas, and ends of lines.
  const [names = '', ...lines] = text.match(/(?:"(?:[^"]+|"")*"|[^"\n])+\n/g) ?? [];
  const column = names.trim().split(',').indexOf('event');
  return [names, ...lines.filter((line) => isMeant({ event: [...line.matchAll(/("(?:[^"]+|"")*"|[^",\n]*)[,\n]/g)][column][1] }))];
}

/** @param {string} name @param {string} value @param {(value: string) => void} set */
function input(name, value, set) {
  if (name !== 'since' && name !== 'until') return textInput(value, set, { type: 'search' });
  const time = new Date(value);
  return h('input', { type: 'datetime-local', value: value && new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16),
    onchange: (/** @type {any} */ { target }) => set(target.value && new Date(target.value).toISOString()) });
}

/** @param {any} chain @param {() => void} again */
function chainView(chain, again) {
  if (chain === null) return progress('Verifying the audit');
  if (chain.error) return chain.error.needsDatabase ? null : problem(chain.error, { retry: again });
  const { entries, erased, hash, broken } = chain;
  return notice(broken ? 'bad' : 'good', broken ? `The audit is broken at entry ${broken.seq}: ${broken.why}` : 'The audit is as it was written',
    h('p', null, `${counted(entries, 'entry', 'entries')}${erased ? `, personal data erased in ${number(erased)}` : ''}. Keep the hash elsewhere: it proves later what the audit was.`),
    h('p', { class: 'row-actions' }, h('code', null, hash), copyButton(hash), button('Verify again', again, { look: 'quiet' })));
}

/** @param {any[]} events @param {boolean} isFiltered */
function listed(events, isFiltered) {
  return table({
    caption: 'Entries', rows: events, key: (one) => `${one.event} ${one.seq} ${one.violation_id} ${one.time} ${one.limit} ${one.key}`,
    empty: empty('Nothing here', isFiltered ? 'Nothing matches the filters: make one empty.' : 'A change is here at once, a denial after about ten seconds. There was none yet.'),
    columns: [
      { title: 'When', isHead: true, cell: ({ time, first, count }) => h('div', null, when(time), count > 1 && h('div', { class: 'quiet small' }, `${number(count)} times since `, when(first, 'clock'))) },
      { title: 'What', cell: ({ event, severity, kind, reason, actor }) => h('div', null, badge(TONES[severity] ?? 'info', words(event)),
        h('div', { class: 'quiet small' }, actor ? [kind, reason].filter(Boolean).join(': ') : words(reason ?? kind ?? ''))) },
      { title: 'Who', cell: ({ actor, user, client, ip, tenant }) => h('div', null, [actor, user && link(address('key', { user }), user), client, ip && link(address('key', { ip }), ip),
        tenant && ['tenant ', link(address('tenants', { tenant }), tenant)]].map((one) => one && h('div', null, one))) },
      { title: 'About', cell: ({ limit, key, endpoint, node, detail, policy_version: version }) => h('div', null, [limit && h('code', null, limit), key, endpoint].map((one) => one && h('div', null, one)),
        detail && h('details', null, h('summary', null, detail.changes ? counted(detail.changes.length + detail.left_out, 'change') : 'Details'), difference(detail)),
        h('div', { class: 'quiet small' }, [version && `version ${version}`, node && `on ${node}`].filter(Boolean).join(', '))) },
    ],
  });
}

/** @param {any} value */
function shown(value) {
  return h('code', null, value === undefined ? '—' : typeof value === 'string' ? value : JSON.stringify(value));
}

/** @param {any} detail of an entry of the audit */
function difference(detail) {
  if (!Array.isArray(detail.changes)) return h('div', null, shown(detail));
  return h('ul', { class: 'audit-changes' }, detail.changes.map((/** @type {any} */ { change, field, name, members, before, after }) => h('li', null,
    badge(TONES[change] ?? 'info', change), ` ${field} `, h('b', null, name),
    (members ?? [{ path: '', before, after }]).map((/** @type {any} */ member) => h('div', null, member.path && `${member.path}: `,
      change !== 'added' && h('del', null, shown(member.before)), members && ' → ', change !== 'removed' && h('ins', null, shown(member.after)))))),
  detail.left_out > 0 && h('li', null, `and ${number(detail.left_out)} more`));
}

/** @type {Screen} */
export const audit = {
  name: 'audit', title: 'Audit', about: 'who changed what, who was denied, and whether the audit is unbroken', shortcut: 'a',
  icon: 'M6 3h9l4 4v14H6zM9 9h6M9 13h7M9 17h4', open,
};
