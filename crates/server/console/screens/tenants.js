// Tenants: the tree with its budgets, one tenant in detail, and who is refused by a tenant above it.

/** @import {Child, Context, Opened, OverviewLimit, Screen} from '../types.js' */
/** @import {Row, Tenant, Tree} from './tenants_tree.js' */

import { all } from '../api.js';
import { counted, number, rate } from '../format.js';
import { longList } from '../long_list.js';
import { badge, button, card, command, empty, icon, problem, progress, textInput } from '../parts.js';
import { has } from '../roles.js';
import { address } from '../router.js';
import { listen, stream } from '../stream.js';
import { h } from '../view.js';
import { addTenant } from './tenants_form.js';
import { contention, use } from './tenants_live.js';
import { oneTenant } from './tenants_one.js';
import { budgetBar, perWindow, rowsOf, treeOf } from './tenants_tree.js';

const LEGEND = { given: 'allotted', over: 'more than the budget', left: 'left', used: 'used now' };

/** @param {Context} context @returns {Opened} */
function open(context) {
  const { who, redraw, closed, setQuery } = context;
  const mayEdit = has(who, 'editor');
  /** @type {Tree | null} */
  let tree = null;
  /** @type {unknown} */
  let failure = null;
  let loading = 0;

  const load = async () => {
    const isNew = tree === null;
    try {
      tree = treeOf(await all('/tenants', { signal: closed, progress: (items, isLast) => {
        loading = isLast ? 0 : items.length;
        // What comes first is shown at once.
        if (isNew && tree === null) tree = treeOf(items);
        redraw();
      } }));
      failure = null;
    } catch (error) {
      failure = error;
    }
    redraw();
  };
  const [one, contended, used] = [oneTenant(context, () => tree, load), contention(context), use(context)];
  const start = () => void Promise.all([load(), contended.load(), one.load()]);
  start();
  const timers = [setInterval(() => void contended.load(), 10_000), setInterval(() => void (document.hidden || Promise.all([used.load(), one.load()])), 2_000)];
  listen(redraw, closed);
  const add = async (/** @type {Tenant | null} */ above) => {
    const id = await addTenant(above, load);
    if (id === null) return;
    setQuery({ tenant: id, q: null });
    void one.load();
  };
  const drawTree = treeCard(context, used);

  return {
    resumed: start,
    changed: () => void one.load(),
    closed: () => timers.forEach(clearInterval),
    view: () => [
      failure !== null && problem(failure, { retry: start }),
      tree === null ? failure === null && progress('Loading the tenants') : tree.size === 0 ? noTenants(mayEdit ? () => void add(null) : null)
        : h('div', { class: 'tenants' }, drawTree(tree, loading, mayEdit && !who.tenant && button('Add a root', () => void add(null))),
          h('div', { class: 'stack' }, one.view(mayEdit ? add : null), contended.view(tree))),
    ],
  };
}

/** @param {Context} context @param {ReturnType<typeof use>} used */
function treeCard(context, used) {
  const { setQuery, redraw } = context;
  /** @type {Set<string>} */
  const toggled = new Set();
  /** What the rows are made of, since making them takes a while. @type {unknown[]} */
  let made = [];
  /** @type {Row[]} */
  let rows = [];
  /** @type {Map<string, OverviewLimit>} */
  let live = new Map();
  const toggle = (/** @type {string} */ id) => {
    if (!toggled.delete(id)) toggled.add(id);
    made = [];
    redraw();
  };
  const list = longList({
    label: 'Tenants', rowHeight: 46, redraw, height: '62vh',
    row: (/** @type {Row} */ row) => {
      const { id, parent } = row.tenant;
      used.drawn.set(id, row.tenant);
      return rowView(row, budgetBar(row.tenant, /** @type {Tree} */ (made[0]).get(parent), used.of(id)), live.get(`tenant:${id}`), context.query, made[1] ? null : toggle);
    },
  });
  /** @param {Tree} tree @param {number} loading @param {Child} action */
  return (tree, loading, action) => {
    const search = context.query.get('q') ?? '';
    if (made[0] !== tree || made[1] !== search) rows = rowsOf(tree, toggled, search);
    made = [tree, search];
    used.drawn.clear();
    live = new Map(stream.overview?.limits.map((limit) => [limit.name, limit]));
    return card('Tree', {
      about: h('span', { class: 'legend' }, Object.entries(LEGEND).map(([tone, text]) => h('span', null, h('span', { class: `swatch ${tone}` }), ' ', text)), 'A bar is as wide as its part of the budget above.'),
      actions: [textInput(search, (value) => setQuery({ q: value || null }, { replace: true }), { type: 'search', 'aria-label': 'Find a tenant', placeholder: 'Find' }), action],
    }, list(rows), loading > 0 ? progress('Loading', loading) : h('p', { class: 'quiet small' }, search && `${number(rows.length)} of `, counted(tree.size, 'tenant')));
  };
}

/** @param {Row} row @param {Child} bar @param {OverviewLimit | undefined} live @param {URLSearchParams} query @param {((id: string) => void) | null} toggle */
function rowView({ tenant, depth, isOpen }, bar, live, query, toggle) {
  const { id, children, rate: own } = tenant;
  const isChosen = query.get('tenant') === id;
  return h('div', { class: isChosen ? 'tenant-row chosen' : 'tenant-row' },
    h('div', { class: 'name', style: { 'padding-left': `${Math.min(depth, 8) * 16}px` } },
      toggle && children.length > 0 ? button(icon(isOpen ? 'M6 9l6 6 6-6' : 'M9 6l6 6-6 6'), () => toggle(id), { label: `${counted(children.length, 'tenant')} below ${id}`, more: { class: 'tenant-toggle', 'aria-expanded': String(isOpen) } })
        : h('span', { class: 'tenant-toggle' }),
      h('a', { href: address('tenants', { tenant: id, q: query.get('q') }), title: id, 'aria-current': isChosen ? 'true' : null }, id)),
    bar,
    h('div', { class: 'numbers number' },
      live && live.denied_per_second > 0 && badge('bad', `${rate(live.denied_per_second)} refused`),
      own === null ? h('span', { class: 'quiet' }, 'no rate of its own') : perWindow(own, tenant.window)));
}

/** @param {(() => void) | null} add */
function noTenants(add) {
  return empty('No tenants yet', h('p', null, 'A tenant is a customer, a partner or a department. It has a rate, and can divide it among tenants below. An editor adds one here, or by:'),
    command('tidegate admin tenants create \'{"id":"acme","rate_limit":{"sustained":{"rate":100}}}\''), add && h('p', null, button('Add the first tenant', add, { look: 'main' })));
}

/** @type {Screen} */
export const tenants = {
  name: 'tenants', title: 'Tenants', about: 'the tree of tenants, their budgets, and who is refused by whom', shortcut: 't',
  icon: 'M9 3h6v5H9zM3 16h6v5H3zM15 16h6v5h-6zM12 8v4M6 16v-4h12v4', open,
};
