// The tree of tenants: who is below whom, what of each budget is allotted, and how that is drawn.

/** @import {Child} from '../types.js' */

import { duration, number, share } from '../format.js';
import { h } from '../view.js';

/**
 * Numbers are tokens per window (in milliseconds) of the tenant. `total` is its budget, or else its rate; `most` is what may be
 * allotted of it, and `allotted` what the rates directly below add up to.
 * @typedef {{ id: string, parent: string, entry: any, children: Tenant[], rate: number | null, window: number, total: number, isAllotting: boolean,
 *   most: number, allotted: number }} Tenant
 */
/** @typedef {Map<string, Tenant>} Tree every tenant by its id, in the order of the document */
/** @typedef {{ tenant: Tenant, depth: number, isOpen: boolean }} Row */
/** @typedef {{ name: string, amount: number, tone: string }} Part of a budget */

/** @type {Record<string, number>} */
const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/** A rate in words. @param {number} rate @param {number} window */
export function perWindow(rate, window) {
  return `${number(rate)} / ${duration(window).replace(/^1 /, '')}`;
}

/** @param {any[]} entries of the API @returns {Tree} */
export function treeOf(entries) {
  /** @type {Tree} */
  const tree = new Map();
  for (const entry of entries) {
    const { sustained, budget = {} } = entry.rate_limit ?? {};
    const [, count, unit] = /^(\d*)(\w+)$/.exec(sustained?.window ?? 'second') ?? [];
    const rate = sustained?.rate ?? null;
    const total = budget.total ?? rate ?? 0;
    tree.set(String(entry.id), {
      id: String(entry.id), parent: String(entry.parent ?? ''), entry, children: [], rate, total, window: Number(count || 1) * UNITS[unit],
      isAllotting: budget.mode === 'allocated' && rate !== null, most: Math.floor(total * (budget.overcommit_ratio ?? 1)), allotted: 0,
    });
  }
  for (const tenant of tree.values()) {
    const above = tree.get(tenant.parent);
    above?.children.push(tenant);
    if (above && tenant.id !== '*' && tenant.entry.enabled !== false) above.allotted += ((tenant.rate ?? 0) * above.window) / tenant.window;
  }
  return tree;
}

/**
 * The rows that can be seen: with a search, whatever matches; else roots and what is below open ones. Roots are open, and all are in a
 * small tree, unless they are `toggled`.
 * @param {Tree} tree @param {Set<string>} toggled @param {string} search
 */
export function rowsOf(tree, toggled, search) {
  /** @type {Row[]} */
  const rows = [];
  /** @param {Tenant} tenant @param {number} depth */
  const add = (tenant, depth) => {
    const isOpen = !search && toggled.has(tenant.id) !== (depth === 0 || tree.size <= 60);
    rows.push({ tenant, depth, isOpen });
    if (isOpen) for (const child of tenant.children) add(child, depth + 1);
  };
  for (const tenant of tree.values()) {
    const text = `${tenant.id} ${tenant.entry.description ?? ''}`.toLowerCase();
    if (search ? text.includes(search.toLowerCase()) : !tree.has(tenant.parent)) add(tenant, 0);
  }
  return rows;
}

/** One part behind the other; what is more than the total is marked. @param {number} total @param {Part[]} parts @returns {Child} */
function drawn(total, parts) {
  const sum = parts.reduce((all, part) => all + part.amount, 0);
  const whole = Math.max(total, sum);
  let at = 0;
  /** @param {number} from @param {number} to @param {string} tone */
  const piece = (from, to, tone) => to > from && h('div', { class: `budget-part ${tone}`, style: { left: `${(from / whole) * 100}%`, width: `${((to - from) / whole) * 100}%` } });
  return [parts.map(({ amount, tone }) => piece(at, (at += amount), tone)), piece(total, sum, 'over')];
}

/**
 * The bar of a tenant: as wide as its part of the budget above, filled with what it has allotted itself; a line for what is used now.
 * @param {Tenant} tenant @param {Tenant | undefined} above @param {number} used the share of its bucket that is used
 */
export function budgetBar(tenant, above, used) {
  const { total, window, isAllotting, allotted, rate } = tenant;
  const part = above?.isAllotting ? (total * above.window) / window / Math.max(above.total, above.allotted) : 1;
  const label = `${perWindow(total, window)}${isAllotting ? `, ${number(allotted)} allotted` : ''}, ${share(used)} of its bucket used`;
  return h('div', { class: 'budget-lane' }, rate !== null && h('div', { class: 'budget-bar', role: 'img', 'aria-label': label, title: label, style: { width: `${Math.min(1, part) * 100}%` } },
      isAllotting && drawn(total, [{ name: '', amount: allotted, tone: 'given' }]),
      h('div', { class: used > 0.95 ? 'budget-used full' : 'budget-used', style: { width: `${used * 100}%` } })));
}

/** A budget, its parts and what is left. @param {number} total @param {Part[]} parts */
export function budgetPicture(total, parts) {
  const sum = parts.reduce((all, part) => all + part.amount, 0);
  const rest = { name: sum > total ? 'more than the budget' : 'left', amount: Math.abs(total - sum), tone: sum > total ? 'over' : 'left' };
  return h('div', { class: 'stack budget-picture' }, h('div', { class: 'budget-bar large', role: 'img', 'aria-label': `${number(sum)} of ${number(total)} allotted` }, drawn(total, parts)),
    h('ul', { class: 'legend small' }, [...parts, rest].map((one) => h('li', null, h('span', { class: `swatch ${one.tone}` }), one.name, ' ', h('b', null, number(one.amount))))));
}
