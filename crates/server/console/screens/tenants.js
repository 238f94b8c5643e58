// Tenants: the tree with its budgets, one tenant in detail, and who is refused by a tenant above it.

/** @import {Child, Context, Opened, OverviewLimit, Screen} from '../types.js' */
/** @import {Row, Tenant, Tree} from './tenants_tree.js' */

import { all, get, segment } from '../api.js';
import { counted, number, rate, when } from '../format.js';
import { longList } from '../long_list.js';
import { badge, button, card, command, empty, icon, link, problem, progress, table, textInput } from '../parts.js';
import { has } from '../roles.js';
import { address } from '../router.js';
import { listen, stream } from '../stream.js';
import { h } from '../view.js';
import { addTenant } from './tenants_form.js';
import { oneTenant } from './tenants_one.js';
import { budgetBar, contention, perWindow, rowsOf, treeOf } from './tenants_tree.js';

/** Trees of up to so many tenants are shown opened, of others the roots. */
const OPENED_MAX = 60;
const HOUR_MS = 3_600_000;

/** @param {Context} context @returns {Opened} */
function open(context) {
  const { who, redraw, closed, setQuery } = context;
  const mayEdit = has(who, 'editor');
  /** @type {Tree | null} */
  let tree = null;
  /** @type {Row[] | null} `null`: they must be made again */
  let rows = null;
  /** @type {unknown} */
  let failure = null;
  let loading = 0;
  /** @type {any[] | null} */
  let violations = null;
  /** @type {unknown} */
  let noViolations = null;
  /** @type {Set<string>} */
  const opened = new Set();
  let version = 0;

  const take = (/** @type {any[]} */ entries) => {
    const isFirst = tree === null;
    tree = treeOf(entries);
    for (const { id, parent } of tree.values()) if (isFirst && (tree.size <= OPENED_MAX || !parent)) opened.add(id);
    rows = null;
  };
  const load = async () => {
    const isNew = tree === null;
    try {
      // What has come is shown at once; a tree that is shown already is replaced as a whole.
      take(await all('/tenants', { signal: closed, progress: (items, isLast) => {
        loading = isLast ? 0 : items.length;
        if (isNew && tree === null) take(items);
        redraw();
      } }));
      failure = null;
    } catch (error) {
      failure = error;
    }
    redraw();
  };
  const loadViolations = async () => {
    try {
      violations = await all('/violations', { query: { since: new Date(Date.now() - HOUR_MS).toISOString() }, most: 1_000, signal: closed });
      noViolations = null;
    } catch (error) {
      noViolations = error;
    }
    redraw();
  };
  /** The share of each bucket that is used, and the rows that are drawn. @type {Map<string, number>} */
  const used = new Map();
  /** @type {Map<string, Tenant>} */
  let drawn = new Map();
  const loadUse = async () => {
    // The answer for one tenant has the buckets of all those above it.
    const lowest = [...drawn.values()].filter(({ children }) => !children.some(({ id }) => drawn.has(id))).slice(0, 40);
    await Promise.all(document.hidden ? [] : lowest.map(async ({ id }) => {
      const { buckets } = await get(`/tenants/${segment(id)}/effective`, {}, closed);
      for (const { tenant, upstream, remaining, limit } of buckets) if (!upstream) used.set(tenant, 1 - remaining / limit);
    })).catch(() => {});
    redraw();
  };
  const one = oneTenant(context, () => tree, load);
  const start = () => {
    void load();
    void loadViolations();
    one.load();
  };
  start();
  const timers = [setInterval(() => void loadViolations(), 10_000), setInterval(() => void loadUse(), 2_000)];
  listen(() => {
    const newest = Math.max(0, ...(stream.overview?.nodes ?? []).map((node) => node.version ?? 0));
    if (version > 0 && newest > version) void load();
    version = newest;
    redraw();
  }, closed);

  const search = () => context.query.get('q') ?? '';
  const add = async (/** @type {Tenant | null} */ parent) => {
    const id = await addTenant(parent, load);
    if (id === null) return;
    if (parent) opened.add(parent.id);
    setQuery({ tenant: id, q: null });
  };
  const toggle = (/** @type {string} */ id) => {
    if (!opened.delete(id)) opened.add(id);
    rows = null;
    redraw();
  };
  /** @type {Map<string, OverviewLimit>} */
  let live = new Map();
  const list = longList({
    label: 'Tenants', rowHeight: 46, redraw, height: '62vh',
    row: (/** @type {Row} */ row) => {
      const { id, parent } = row.tenant;
      drawn.set(id, row.tenant);
      return rowView(row, budgetBar(row.tenant, tree?.get(parent), used.get(id) ?? 0), live.get(`tenant:${id}`), context.query, search() ? null : toggle);
    },
  });
  const treeCard = (/** @type {Tree} */ known) => {
    rows ??= rowsOf(known, opened, search());
    drawn = new Map();
    live = new Map(stream.overview?.limits.map((limit) => [limit.name, limit]));
    return card('Tree', {
      about: [h('span', { class: 'legend' }, Object.entries({ given: 'allotted', over: 'more than the budget', left: 'left', used: 'used now' }).map(([tone, text]) => h('span', null, h('span', { class: `swatch ${tone}` }), ' ', text))),
        'A bar is as wide as its part of the budget above.'],
      actions: [
        textInput(search(), (value) => { rows = null; setQuery({ q: value || null }, { replace: true }); }, { type: 'search', 'aria-label': 'Find a tenant', placeholder: 'Find' }),
        mayEdit && !who.tenant && button('Add a root', () => void add(null)),
      ],
    }, list(rows), loading > 0 ? progress('Loading', loading) : h('p', { class: 'quiet small' }, search() && `${number(rows.length)} of `, counted(known.size, 'tenant')));
  };

  return {
    resumed: start,
    changed: () => {
      rows = null;
      one.load();
    },
    closed: () => {
      timers.forEach(clearInterval);
      one.closed();
    },
    view: () => [
      failure !== null && problem(failure, { retry: start }),
      tree === null ? failure === null && progress('Loading the tenants') : tree.size === 0 ? noTenants(mayEdit ? () => void add(null) : null)
        : h('div', { class: 'tenants' }, treeCard(tree), h('div', { class: 'stack' }, one.view(mayEdit ? add : null),
          card('Contention', { about: 'Who was refused by the limit of a tenant above it in the last hour.' },
            noViolations !== null ? problem(noViolations) : violations && contended(contention(violations, tree))))),
    ],
  };
}

/** @param {Row} row @param {Child} bar @param {OverviewLimit | undefined} live @param {URLSearchParams} query @param {((id: string) => void) | null} toggle */
function rowView({ tenant, depth, isOpen }, bar, live, query, toggle) {
  const { id, children, rate: own, isAllotting } = tenant;
  const isChosen = query.get('tenant') === id;
  return h('div', { class: isChosen ? 'tenant-row chosen' : 'tenant-row' },
    h('div', { class: 'name', style: { 'padding-left': `${Math.min(depth, 8) * 16}px` } },
      toggle && children.length > 0 ? button(icon(isOpen ? 'M6 9l6 6 6-6' : 'M9 6l6 6-6 6'), () => toggle(id), {
        look: 'quiet', label: `${counted(children.length, 'tenant')} below ${id}`, more: { class: 'toggle', 'aria-expanded': String(isOpen) },
      }) : h('span', { class: 'toggle' }),
      h('a', { href: address('tenants', { tenant: id, q: query.get('q') }), title: id, 'aria-current': isChosen ? 'true' : null }, id)),
    bar,
    h('div', { class: 'numbers number' },
      live && live.denied_per_second > 0 && badge('bad', `${rate(live.denied_per_second)} refused`),
      isAllotting && tenant.allotted > tenant.total && badge('warn', 'overcommitted'),
      own === null ? h('span', { class: 'quiet' }, 'no rate of its own') : perWindow(own, tenant.window)));
}

/** @param {ReturnType<typeof contention>} rows */
function contended(rows) {
  return table({
    caption: 'Contention', rows: rows.slice(0, 20), key: (one) => `${one.tenant} ${one.limit}`,
    empty: h('p', { class: 'quiet' }, 'Nobody. A denial appears here about ten seconds after it happened.'),
    columns: [
      { title: 'Refused', isHead: true, cell: ({ tenant }) => (tenant ? link(address('tenants', { tenant }), tenant) : 'several') },
      { title: 'By', cell: ({ by }) => link(address('tenants', { tenant: by }), by) },
      { title: 'Times', kind: 'number', cell: (one) => link(address('audit', { list: 'violations', limit_name: one.limit, tenant: one.tenant }), number(one.count)) },
      { title: 'Last', cell: (one) => when(one.last, 'ago') },
    ],
  });
}

/** @param {(() => void) | null} add */
function noTenants(add) {
  return empty('No tenants yet',
    h('p', null, 'A tenant is a customer, a partner or a department. Requests name it; it has a rate, and can divide that among tenants below it. An editor adds one here, or by:'),
    command('tidegate admin tenants create \'{"id":"acme","rate_limit":{"sustained":{"rate":100,"window":"minute"}}}\''),
    add && h('p', null, button('Add the first tenant', add, { look: 'main' })));
}

/** @type {Screen} */
export const tenants = {
  name: 'tenants', title: 'Tenants', about: 'the tree of tenants, their budgets, and who is refused by whom', shortcut: 't',
  icon: 'M9 3h6v5H9zM3 16h6v5H3zM15 16h6v5h-6zM12 8v4M6 16v-4h12v4', open,
};
