// Adding and changing a tenant: while somebody types, the server says what it would answer.

/** @import {CallOptions} from '../api.js' */
/** @import {Properties} from '../types.js' */
/** @import {Tenant} from './tenants_tree.js' */

import { ApiProblem, call, segment } from '../api.js';
import { ask, tell } from '../dialogs.js';
import * as drafts from '../drafts.js';
import { number } from '../format.js';
import { choice, field, newId, notice, progress, textInput } from '../parts.js';
import { h } from '../view.js';
import { budgetPicture } from './tenants_tree.js';

/** The fields, and where each is in an entry. @type {Record<string, string>} */
const FIELDS = {
  id: 'id', description: 'description', rate: 'rate_limit.sustained.rate', window: 'rate_limit.sustained.window', burst: 'rate_limit.burst.capacity',
  sharing: 'rate_limit.sharing', mode: 'rate_limit.budget.mode', total: 'rate_limit.budget.total', ratio: 'rate_limit.budget.overcommit_ratio',
};
/** @type {Record<string, (string | [string, string])[]>} */
const CHOICES = {
  window: ['second', 'minute', 'hour', 'day'],
  sharing: [['', 'private: for itself'], ['inherit', 'inherit: those below may have it too'], ['enforce', 'enforce: those below count in it']],
  mode: [['', 'none'], ['allocated', 'allocated: rates below must fit'], ['shared', 'shared: first come, first served']],
};

/** @typedef {Record<string, string>} Values */

/** @param {any} entry @returns {Values} */
function valuesOf(entry) {
  return Object.fromEntries(Object.entries(FIELDS).map(([name, path]) => [name, String(path.split('.').reduce((inner, member) => inner?.[member], entry) ?? '')]));
}

/** A merge patch: what differs from the old values. @param {Values} values @param {Values} old */
function patchOf(values, old) {
  /** @type {any} */
  const patch = {};
  for (const [name, path] of Object.entries(FIELDS)) {
    const text = values[name].trim();
    const members = path.split('.');
    const last = members.pop() ?? '';
    if (text === old[name] || (name === 'window' && !values.rate)) continue;
    members.reduce((inner, member) => (inner[member] ??= {}), patch)[last] = text === '' ? null : /rate|burst|total|ratio/.test(name) && Number(text) ? Number(text) : text;
  }
  return patch;
}

/** What the server would answer. @param {() => Promise<{ body: any }>} attempt @param {string[]} names of the tenants that it is about */
async function tryOut(attempt, names) {
  try {
    const { body } = await attempt();
    const warnings = body.warnings.filter((/** @type {any} */ { message }) => names.some((name) => message.includes(`\`${name}\``)));
    return { ...body, tone: warnings.length > 0 ? 'warn' : 'good', title: warnings.length > 0 ? 'The server would warn' : 'The server would accept this', problems: warnings };
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    const problems = error.problems.filter((/** @type {any} */ { severity }) => severity !== 'warning');
    return { ...error.body, tone: 'bad', title: 'The server would refuse this', problems: problems.length > 0 ? problems : [{ message: error.detail }] };
  }
}

/** @param {any} trial @param {number} before what was allotted until now */
function trialView({ tone, title, problems, allocation: of }, before) {
  return h('div', { class: 'stack', role: 'status' },
    notice(tone, title, ...problems.map((/** @type {any} */ one) => [one.message, one.want !== one.hint && one.want, one.hint].filter(Boolean).join(' — '))),
    of && h('div', null, h('p', null, 'The budget of ', h('b', null, of.parent), `: ${number(of.sum)} of ${number(of.total)} would be allotted, and ${number(of.left)} more could be.`),
      budgetPicture(of.total, [{ name: 'until now', amount: Math.min(before, of.sum), tone: 'a' }, { name: 'by this', amount: Math.max(0, of.sum - before), tone: 'e' }])));
}

/**
 * Asks for the fields of a tenant, and sends them. Says the values, or `null` if nothing was sent.
 * @param {string} title @param {Tenant | null} tenant the one to change @param {Tenant | null | undefined} above
 * @param {(body: any, options: CallOptions) => Promise<{ body: any }>} send
 */
async function fill(title, tenant, above, send) {
  const old = valuesOf(tenant?.entry ?? {});
  const id = newId('tenant');
  /** @type {Values} */
  const values = { ...old, window: old.window || (tenant ? 'second' : 'minute'), ...drafts.load(title) };
  const before = (above?.allotted ?? 0) - (above && tenant ? ((tenant.rate ?? 0) * above.window) / tenant.window : 0);
  const body = () => patchOf(values, tenant && !values.rate ? { ...old, window: values.window } : old);
  /** @type {any} */
  let trial = null;
  let turn = 0;
  const attempt = async (/** @type {() => void} */ redraw) => {
    const own = ++turn;
    trial = null;
    redraw();
    await new Promise((resolve) => { setTimeout(resolve, 300); });
    if (own !== turn || !values.id) return;
    const told = await tryOut(() => send(body(), { query: { dry_run: 'true' } }), [values.id, above?.id ?? '']);
    if (own === turn) trial = told;
    redraw();
  };
  let begin = attempt;
  const isDone = await ask({
    title, confirm: tenant ? 'Change' : 'Add', wrong: () => (!values.id ? 'Give it an id: requests name it by that.' : trial?.tone === 'bad' ? 'The server would refuse this: see above.' : null),
    body: (redraw) => {
      /** @param {string} label @param {string} name @param {string} [hint] @param {Properties} [more] */
      const input = (label, name, hint, more) => {
        const set = (/** @type {string} */ value) => {
          values[name] = value;
          drafts.save(title, values);
          void attempt(redraw);
        };
        const options = CHOICES[name];
        const isOther = options && !options.some((one) => one === values[name] || one[0] === values[name]);
        return field(label, options ? choice(values[name], isOther ? [values[name], ...options] : options, set) : textInput(values[name], set, more), { id: `${id}-${name}`, hint });
      };
      queueMicrotask(() => { const first = begin; begin = async () => {}; void first(redraw); });
      return h('div', { class: 'stack' }, h('div', { class: 'fields' },
        !tenant && input('Id', 'id', 'Requests name it by this.', { autofocus: true }), input('Description', 'description', 'For people.'),
        input('Rate', 'rate', 'Tokens in a window. Empty: none of its own.', { inputmode: 'numeric' }), input('Window', 'window'), input('Burst', 'burst', 'Tokens at once. Empty: the rate.', { inputmode: 'numeric' }),
        input('Sharing', 'sharing'), input('Budget for those below', 'mode'),
        values.mode && [input('Total', 'total', 'Empty: the rate.', { inputmode: 'numeric' }), input('Overcommit ratio', 'ratio', '1 to 2. Empty: 1.')]),
      trial ? trialView(trial, before) : values.id && progress('Asking the server'));
    },
    // What was tried is what is sent: not on top of a change by somebody else.
    run: (reason) => send(body(), { reason, ifMatch: trial?.version }),
  });
  if (isDone) drafts.save(title, null);
  return isDone ? values : null;
}

/** Says the id of the new tenant, or `null`. @param {Tenant | null} above @param {() => Promise<void>} reload */
export async function addTenant(above, reload) {
  const done = await fill(above ? `Add a tenant below ${above.id}` : 'Add a tenant', null, above, (body, options) => call('POST', '/tenants', { ...options, body: { ...body, parent: above?.id } }));
  if (!done) return null;
  tell(`${done.id} is added.`, { undo: async () => { await call('DELETE', `/tenants/${segment(done.id)}`); await reload(); } });
  await reload();
  return done.id;
}

/** @param {Tenant} tenant @param {Tenant | undefined} above @param {() => Promise<void>} reload */
export async function changeTenant(tenant, above, reload) {
  const path = `/tenants/${segment(tenant.id)}`;
  const done = await fill(`Change ${tenant.id}`, tenant, above, (body, options) => call('PATCH', path, { ...options, body, type: 'application/merge-patch+json' }));
  if (!done) return;
  tell(`${tenant.id} is changed.`, { undo: async () => { await call('PUT', path, { body: tenant.entry }); await reload(); } });
  await reload();
}
