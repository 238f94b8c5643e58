// Adding and changing a tenant: while somebody types, the server says what it would answer.

/** @import {CallOptions} from '../api.js' */
/** @import {Tenant} from './tenants_tree.js' */

import { ApiProblem, call, segment } from '../api.js';
import { ask, tell } from '../dialogs.js';
import * as drafts from '../drafts.js';
import { number } from '../format.js';
import { choice, field, newId, notice, progress, textInput } from '../parts.js';
import { h } from '../view.js';
import { budgetPicture } from './tenants_tree.js';

/** The fields: their places in an entry, their labels, and a hint or the words to choose from. @type {[string, string, string | (string | [string, string])[]][]} */
const FIELDS = [
  ['id', 'Id', 'Requests name it by this.'],
  ['description', 'Description', 'For people.'],
  ['rate_limit.sustained.rate', 'Rate', 'Tokens in a window. Empty: none of its own.'],
  ['rate_limit.sustained.window', 'Window', 'second, minute, hour, day, or such as 30s.'],
  ['rate_limit.burst.capacity', 'Burst', 'Tokens at once. Empty: the rate.'],
  ['rate_limit.sharing', 'Sharing', [['', 'private: for itself'], ['inherit', 'inherit: those below may use it'], ['enforce', 'enforce: those below count in it']]],
  ['rate_limit.budget.mode', 'Budget for those below', [['', 'none'], ['allocated', 'allocated: rates below must fit'], ['shared', 'shared: first come, first served']]],
  ['rate_limit.budget.total', 'Total', 'Empty: the rate.'],
  ['rate_limit.budget.overcommit_ratio', 'Overcommit ratio', '1 to 2. Empty: 1.'],
];
const RATE = FIELDS[2][0];
const WINDOW = FIELDS[3][0];
const MODE = FIELDS[6][0];

/** @typedef {Record<string, string>} Values by their places */

/** A merge patch of what differs from the old values. @param {Values} values @param {Values} old */
function patchOf(values, old) {
  /** @type {any} */
  const patch = {};
  for (const [place] of FIELDS) {
    const text = values[place].trim();
    const members = place.split('.');
    const last = members.pop() ?? '';
    if (text === old[place] || (place === WINDOW && !values[RATE])) continue;
    members.reduce((inner, member) => (inner[member] ??= {}), patch)[last] = text === '' ? null : /(rate|capacity|total|ratio)$/.test(place) && Number(text) ? Number(text) : text;
  }
  return patch;
}

/** What the server would answer. @param {() => Promise<{ body: any }>} attempt @param {string[]} names of the tenants that it is about */
async function tryOut(attempt, names) {
  try {
    const { body } = await attempt();
    const problems = body.warnings.filter((/** @type {any} */ { message }) => names.some((name) => message.includes(`\`${name}\``)));
    return { ...body, problems, tone: problems.length > 0 ? 'warn' : 'good', title: problems.length > 0 ? 'The server would warn' : 'The server would accept this' };
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    const problems = error.problems.filter((/** @type {any} */ { severity }) => severity !== 'warning');
    return { ...error.body, problems: problems.length > 0 ? problems : [{ message: error.detail }], tone: 'bad', title: 'The server would refuse this' };
  }
}

/** @param {any} trial @param {number} before what the others are allotted */
function trialView({ tone, title, problems, allocation: of }, before) {
  return h('div', { class: 'stack', role: 'status' }, notice(tone, title, ...problems.map((/** @type {any} */ { message, hint }) => (hint ? `${message}: ${hint}` : message))),
    of && h('div', null, `The budget of ${of.parent}: ${number(of.sum)} of ${number(of.total)} would be allotted, and ${number(of.left)} more could be.`,
      budgetPicture(of.total, [{ name: 'others', amount: Math.min(before, of.sum), tone: 'a' }, { name: 'this', amount: Math.max(0, of.sum - before), tone: 'e' }])));
}

/**
 * Asks for the fields of a tenant, and sends what differs. Says the id, or `null` if nothing was sent.
 * @param {string} title @param {Tenant | null} tenant the one to change @param {Tenant | null | undefined} above
 * @param {(body: any, options: CallOptions) => Promise<{ body: any }>} send
 */
async function fill(title, tenant, above, send) {
  const id = newId('tenant');
  /** @type {Values} */
  const old = Object.fromEntries(FIELDS.map(([place]) => [place, String(place.split('.').reduce((inner, member) => inner?.[member], tenant?.entry) ?? '')]));
  /** @type {Values} */
  const values = { ...old, [WINDOW]: old[WINDOW] || (tenant ? 'second' : 'minute'), ...drafts.load(title) };
  const before = (above?.allotted ?? 0) - (above && tenant ? ((tenant.rate ?? 0) * above.window) / tenant.window : 0);
  /** @type {any} */
  let trial = null;
  let turn = 0;
  let draw = () => {};
  const attempt = async (/** @type {() => void} */ redraw) => {
    const own = ++turn;
    trial = null;
    redraw();
    await new Promise((resolve) => { setTimeout(resolve, 300); });
    if (own !== turn || !values.id) return;
    const told = await tryOut(() => send(patchOf(values, old), { query: { dry_run: 'true' } }), [values.id, above?.id ?? '']);
    if (own === turn) trial = told;
    redraw();
  };
  const isDone = await ask({
    title, confirm: tenant ? 'Change' : 'Add', wrong: () => (!values.id ? 'Give it an id.' : trial?.tone === 'bad' ? 'The server would refuse this: see above.' : null),
    body: (redraw) => {
      draw = redraw;
      if (turn === 0) queueMicrotask(() => { if (turn === 0) void attempt(redraw); });
      return h('div', { class: 'stack' }, h('div', { class: 'fields' }, FIELDS.map(([place, label, kind], index) => {
        const set = (/** @type {string} */ value) => {
          values[place] = value;
          drafts.save(title, values);
          void attempt(redraw);
        };
        if ((place === 'id' && tenant) || (index > 6 && !values[MODE])) return null;
        return field(label, typeof kind === 'string' ? textInput(values[place], set, { autofocus: index === 0 }) : choice(values[place], kind, set), { id: `${id}-${index}`, hint: typeof kind === 'string' && kind });
      })), trial ? trialView(trial, before) : values.id && progress('Asking the server'));
    },
    // What was tried is what is sent: not on top of a change by somebody else.
    run: (reason) => send(patchOf(values, old), { reason, ifMatch: trial?.version }).catch((error) => {
      void attempt(draw);
      throw error;
    }),
  });
  if (!isDone) return null;
  drafts.save(title, null);
  return values.id;
}

/** Says the id of the new tenant, or `null`. @param {Tenant | null} above @param {() => Promise<void>} reload */
export async function addTenant(above, reload) {
  const id = await fill(above ? `Add a tenant below ${above.id}` : 'Add a tenant', null, above, (body, options) => call('POST', '/tenants', { ...options, body: { ...body, parent: above?.id } }));
  if (id === null) return null;
  tell(`${id} is added.`, { undo: async () => { await call('DELETE', `/tenants/${segment(id)}`); await reload(); } });
  await reload();
  return id;
}

/** @param {Tenant} tenant @param {Tenant | undefined} above @param {() => Promise<void>} reload */
export async function changeTenant(tenant, above, reload) {
  const path = `/tenants/${segment(tenant.id)}`;
  const id = await fill(`Change ${tenant.id}`, tenant, above, (body, options) => call('PATCH', path, { ...options, body, type: 'application/merge-patch+json' }));
  if (id === null) return;
  tell(`${id} is changed.`, { undo: async () => { await call('PUT', path, { body: tenant.entry }); await reload(); } });
  await reload();
}
