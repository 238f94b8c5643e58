// One tenant: its budget, the numbers that apply to it and where they come from, its buckets now, and what can be done with it.

/** @import {Context} from '../types.js' */
/** @import {Tenant, Tree} from './tenants_tree.js' */

import { call, get, post, segment } from '../api.js';
import { ask, tell } from '../dialogs.js';
import { duration, number } from '../format.js';
import { bar, button, card, facts, link, problem, progress } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';
import { changeTenant } from './tenants_form.js';
import { budgetPicture, perWindow } from './tenants_tree.js';

const TONES = ['a', 'e', 'c', 'f', 'd'];

/** @param {Context} context @param {() => Tree | null} tree @param {() => Promise<void>} reload */
export function oneTenant(context, tree, reload) {
  const chosen = () => context.query.get('tenant') ?? '';
  /** @type {any} */
  let numbers = null;
  /** @type {unknown} */
  let failure = null;
  const load = async () => {
    const id = chosen();
    if (id !== numbers?.tenant) numbers = failure = null;
    if (!id || document.hidden) return;
    try {
      const answer = await get(`/tenants/${segment(id)}/effective`, {}, context.closed);
      if (id === chosen()) [numbers, failure] = [answer, null];
    } catch (error) {
      failure = error;
    }
    context.redraw();
  };
  const remove = async (/** @type {Tenant} */ { id, entry }) => {
    const isDone = await ask({
      title: `Remove ${id}?`, confirm: 'Remove', isDangerous: true, body: () => h('p', null, 'Requests that name it are then those of an unknown tenant.'),
      run: (reason) => call('DELETE', `/tenants/${segment(id)}`, { reason }),
    });
    if (!isDone) return;
    tell(`${id} is removed.`, { undo: async () => { await post('/tenants', entry); await reload(); } });
    context.setQuery({ tenant: null });
    await reload();
  };

  return {
    load,
    /** @param {((parent: Tenant) => void) | null} add `null`: nothing may be changed */
    view: (add) => {
      const id = chosen();
      const tenant = tree()?.get(id);
      if (!id) return null;
      const isOwn = id === context.who.tenant && 'Your own tenant is for the one above it to change';
      return card(id, { key: id, about: tenant?.entry.description, actions: tenant && add && [
        button('Add below', () => add(tenant), { look: 'main' }),
        button('Change', () => void changeTenant(tenant, tree()?.get(tenant.parent), reload), { disabled: isOwn }),
        button('Remove', () => void remove(tenant), { disabled: isOwn || (tenant.children.length > 0 && 'Remove those below it first') }),
      ] },
      failure !== null ? problem(failure, { retry: () => void load() }) : numbers?.tenant !== id ? progress('Loading its numbers')
        : h('div', { class: 'stack' }, tenant?.isAllotting && budget(tenant), applying(numbers), buckets(numbers), link(address('audit', { list: 'violations', tenant: id }), 'Its denials')));
    },
  };
}

/** @param {Tenant} tenant */
function budget({ children, total, window, allotted, most }) {
  const rest = children.filter((child) => child.id !== '*').map((child) => ({ name: child.id, amount: ((child.rate ?? 0) * window) / child.window, tone: '' })).sort((one, other) => other.amount - one.amount);
  const parts = rest.splice(0, TONES.length).map((part, index) => ({ ...part, tone: TONES[index] }));
  if (rest.length > 0) parts.push({ name: `${number(rest.length)} others`, amount: rest.reduce((sum, part) => sum + part.amount, 0), tone: 'rest' });
  return h('div', null, h('h3', null, `Budget: ${perWindow(total, window)}`), budgetPicture(total, parts),
    h('p', { class: 'quiet small' }, `${number(allotted)} allotted, ${number(Math.max(0, most - allotted))} more may be`, most > total && ' since it may be overcommitted', '.'));
}

/** @param {any} numbers */
function applying({ limits, tenant }) {
  const told = (/** @type {any} */ one) => (one ? `${perWindow(one.rate, one.window_ms)}, burst ${number(one.burst)}` : '—');
  const from = (/** @type {string} */ id) => (id === tenant ? 'itself' : id);
  return h('section', { class: 'stack', 'aria-label': 'The numbers that apply' }, limits.map((/** @type {any} */ { upstream, own, effective, origin: of, sharing, budget: mode }) => h('div', { key: upstream },
    h('h3', null, upstream ? `Requests to ${upstream}` : 'All requests'),
    facts(['What applies', told(effective)], of && ['Comes from', of.rate === of.burst ? from(of.rate) : `${from(of.rate)}, burst: ${from(of.burst)}`], ['Its own', told(own)], ['For those below', `${sharing}, budget ${mode}`]))));
}

/** @param {any} numbers */
function buckets({ buckets: all }) {
  return h('div', { class: 'buckets' }, h('h3', null, 'Left now'), all.map((/** @type {any} */ { name, limit, remaining, reset_after_ms: reset }) => h('div', { class: 'bucket', key: name },
    h('div', { class: 'bucket-head' }, h('code', null, name), h('span', { class: 'quiet' }, `${number(remaining)} of ${number(limit)}`, reset > 0 && `, full in ${duration(reset)}`)),
    bar(remaining / limit, { label: `Left in ${name}`, tone: remaining * 10 < limit ? 'bad' : 'good' }))));
}
