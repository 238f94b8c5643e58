// One tenant: its budget, the numbers that apply to it and where they come from, its buckets now, and what can be done with it.

/** @import {Context} from '../types.js' */
/** @import {Tenant, Tree} from './tenants_tree.js' */

import { call, get, post, segment } from '../api.js';
import { ask, tell } from '../dialogs.js';
import { duration, number } from '../format.js';
import { bar, button, card, link, problem, progress, table } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';
import { changeTenant } from './tenants_form.js';
import { budgetPicture, perWindow } from './tenants_tree.js';

const TONES = ['a', 'e', 'c', 'f', 'd'];

/** @param {Context} context @param {() => Tree | null} tree @param {() => Promise<void>} reload */
export function oneTenant(context, tree, reload) {
  const { closed, who, redraw, setQuery } = context;
  const query = () => context.query.get('tenant') ?? '';
  /** @type {any} */
  let numbers = null;
  /** @type {unknown} */
  let failure = null;
  const load = async () => {
    const id = query();
    if (id !== numbers?.tenant) numbers = failure = null;
    if (!id || document.hidden) return;
    try {
      const answer = await get(`/tenants/${segment(id)}/effective`, {}, closed);
      if (id === query()) [numbers, failure] = [answer, null];
    } catch (error) {
      failure = error;
    }
    redraw();
  };
  const timer = setInterval(() => void load(), 2_000);
  const remove = async (/** @type {Tenant} */ { id, entry }) => {
    const isDone = await ask({
      title: `Remove ${id}?`, confirm: 'Remove', isDangerous: true,
      body: () => h('p', null, 'Requests that name it are then those of an unknown tenant. Its rate is free again in the budget above.'),
      run: (reason) => call('DELETE', `/tenants/${segment(id)}`, { reason }),
    });
    if (!isDone) return;
    tell(`${id} is removed.`, { undo: async () => { await post('/tenants', entry); await reload(); } });
    setQuery({ tenant: null });
    await reload();
  };

  return {
    load: () => void load(),
    closed: () => clearInterval(timer),
    /** @param {((parent: Tenant) => void) | null} add `null`: nothing may be changed */
    view: (add) => {
      const tenant = tree()?.get(query());
      if (!query()) return card('One tenant', {}, h('p', { class: 'quiet' }, 'Choose one: here are then the numbers that apply to it, where they come from, and what is left of them.'));
      const isOwn = tenant?.id === who.tenant && 'Your own tenant is for the one above it to change';
      return card(query(), { key: 'one', about: tenant?.entry.description, actions: tenant && add && [
        button('Add below', () => add(tenant), { look: 'main' }),
        button('Change', () => void changeTenant(tenant, tree()?.get(tenant.parent), reload), { disabled: isOwn }),
        button('Remove', () => void remove(tenant), { disabled: isOwn || (tenant.children.length > 0 && 'Remove those below it first') }),
      ] },
      failure !== null && problem(failure, { retry: () => void load() }),
      numbers ? h('div', { class: 'stack' }, path(numbers, tree()), tenant?.isAllotting && budget(tenant), applying(numbers), buckets(numbers)) : failure === null && progress('Loading its numbers'));
    },
  };
}

/** @param {any} numbers @param {Tree | null} tree */
function path({ chain, tenant }, tree) {
  return h('p', { class: 'quiet' }, chain.map((/** @type {string} */ id) => (id === tenant ? h('b', null, id) : [tree?.has(id) ? link(address('tenants', { tenant: id }), id) : id, ' › '])), ' · ',
    link(address('key', { tenant }), 'its buckets'), ' · ', link(address('audit', { list: 'violations', tenant }), 'its denials'));
}

/** @param {Tenant} tenant */
function budget({ children, total, window, allotted, most }) {
  const amounts = children.filter((child) => child.rate && child.id !== '*').map((child) => ({ name: child.id, amount: ((child.rate ?? 0) * window) / child.window, tone: 'rest' }));
  amounts.sort((one, other) => other.amount - one.amount);
  const shown = amounts.splice(0, TONES.length).map((part, index) => ({ ...part, tone: TONES[index] }));
  if (amounts.length > 0) shown.push({ name: `${number(amounts.length)} others`, amount: amounts.reduce((sum, part) => sum + part.amount, 0), tone: 'rest' });
  return h('div', null, h('h3', null, 'Budget: ', perWindow(total, window)), budgetPicture(total, shown),
    h('p', { class: 'quiet small' }, `${number(allotted)} allotted; `, allotted < most ? `${number(most - allotted)} may still be` : 'nothing more may be', most > total && `, since it may be overcommitted up to ${number(most)}`, '.'));
}

/** @param {any} numbers */
function applying({ limits, tenant }) {
  const told = (/** @type {any} */ one) => (one ? h('div', null, perWindow(one.rate, one.window_ms), h('div', { class: 'quiet small' }, `burst ${number(one.burst)}`)) : '—');
  const from = (/** @type {string} */ id) => (id === tenant ? 'itself' : id);
  return table({
    caption: 'The numbers that apply', rows: limits, key: (/** @type {any} */ limit) => limit.upstream ?? '',
    columns: [
      { title: 'Requests', isHead: true, cell: ({ upstream }) => (upstream ? `to ${upstream}` : 'all') },
      { title: 'Its own', cell: ({ own }) => told(own) },
      { title: 'What applies', cell: ({ effective }) => told(effective) },
      { title: 'From', cell: ({ origin }) => origin && (origin.rate === origin.burst ? from(origin.rate) : h('div', null, 'rate: ', from(origin.rate), h('br'), 'burst: ', from(origin.burst))) },
      { title: 'Below', cell: ({ sharing, budget: mode }) => h('div', null, sharing, h('div', { class: 'quiet small' }, 'budget ', mode)) },
    ],
  });
}

/** @param {any} numbers */
function buckets({ buckets: all }) {
  return h('div', { class: 'buckets' }, h('h3', null, 'Left now'), all.map((/** @type {any} */ { name, limit, remaining, reset_after_ms: reset }) => h('div', { class: 'bucket', key: name },
    h('div', { class: 'bucket-head' }, h('code', null, name), h('span', { class: 'quiet numbers' }, `${number(remaining)} of ${number(limit)}`, reset > 0 && `, full in ${duration(reset)}`)),
    bar(remaining / limit, { label: `Left in ${name}`, tone: remaining * 10 < limit ? 'bad' : 'good' }))));
}
