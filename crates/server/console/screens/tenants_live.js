// What changes while somebody looks at the tree: who is refused by a tenant above it, and how much of each bucket is used.

/** @import {Context} from '../types.js' */
/** @import {Tenant, Tree} from './tenants_tree.js' */

import { all, get, segment } from '../api.js';
import { number, when } from '../format.js';
import { card, link, problem, table } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';

/** @typedef {{ tenant?: string, by: string, limit: string, count: number, last: string }} Refusal */

/** @param {any[]} violations newest first @param {Tree} tree */
function refusals(violations, tree) {
  /** @type {Map<string, Refusal>} */
  const found = new Map();
  for (const { tenant, limit = '', count, last } of violations) {
    // Such as `tenant:acme`, `tenant:acme/openai` or `tenant:acme:remainder`.
    const name = /^tenant:(.*?)(:remainder)?$/.exec(limit)?.[1];
    const by = name === undefined || tree.has(name) ? name : name.replace(/\/[^/]*$/, '');
    if (by === undefined || by === tenant) continue;
    const known = found.get(`${tenant} ${limit}`) ?? { tenant, by, limit, count: 0, last };
    found.set(`${tenant} ${limit}`, { ...known, count: known.count + count });
  }
  return [...found.values()].sort((one, other) => other.count - one.count).slice(0, 20);
}

/** Who was refused by the limit of a tenant above it. @param {Context} context */
export function contention({ closed, redraw }) {
  /** @type {any[]} */
  let violations = [];
  /** @type {unknown} */
  let failure = null;
  return {
    load: async () => {
      try {
        violations = await all('/violations', { query: { since: new Date(Date.now() - 3_600_000).toISOString() }, most: 1_000, signal: closed });
        failure = null;
      } catch (error) {
        failure = error;
      }
      redraw();
    },
    /** @param {Tree} tree */
    view: (tree) => card('Contention', { key: 'contention', about: 'Who was refused by the limit of a tenant above it in the last hour.' }, failure !== null ? problem(failure) : table({
      caption: 'Contention', rows: refusals(violations, tree), key: (one) => `${one.tenant} ${one.limit}`,
      empty: h('p', { class: 'quiet' }, 'Nobody. A denial appears here after about ten seconds.'),
      columns: [
        { title: 'Refused', isHead: true, cell: ({ tenant }) => (tenant ? link(address('tenants', { tenant }), tenant) : 'several') },
        { title: 'By', cell: ({ by }) => link(address('tenants', { tenant: by }), by) },
        { title: 'Times', kind: 'number', cell: ({ limit, tenant, count }) => link(address('audit', { list: 'violations', limit_name: limit, tenant }), number(count)) },
        { title: 'Last', cell: ({ last }) => when(last, 'ago') },
      ],
    })),
  };
}

/** How much of its bucket each tenant uses, as a share: of those that were drawn last. @param {Context} context */
export function use({ closed, redraw }) {
  /** @type {Map<string, number>} */
  const shares = new Map();
  /** @type {Map<string, Tenant>} */
  const drawn = new Map();
  return {
    drawn,
    /** @param {string} id */
    of: (id) => shares.get(id) ?? 0,
    load: async () => {
      // The answer for a tenant has the buckets of all those above it.
      const lowest = [...drawn.values()].filter(({ children }) => !children.some(({ id }) => drawn.has(id))).slice(0, 40);
      await Promise.all(lowest.map(async ({ id }) => {
        const { buckets } = await get(`/tenants/${segment(id)}/effective`, {}, closed);
        for (const { tenant, upstream, remaining, limit } of buckets) if (!upstream) shares.set(tenant, 1 - remaining / limit);
      })).catch(() => {});
      redraw();
    },
  };
}
