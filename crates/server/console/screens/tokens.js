// Tokens: who has access, and giving it to others.

/** @import {Context, Opened, Role, Screen} from '../types.js' */

import { all, call, post } from '../api.js';
import { ask, show, tell } from '../dialogs.js';
import { when } from '../format.js';
import { badge, button, card, choice, command, empty, field, newId, problem, progress, table, textInput } from '../parts.js';
import { MAY, ROLES, has } from '../roles.js';
import { h } from '../view.js';

/**
 * @typedef {object} Token
 * @property {string} id
 * @property {Role} role
 * @property {string | null} [tenant]
 * @property {string} created
 * @property {string} created_by
 * @property {string | null} [description]
 * @property {string | null} [expires]
 * @property {string | null} [last_used]
 * @property {string | null} [revoked]
 */

/** @param {Context} context @returns {Opened} */
function open({ who, redraw, closed }) {
  /** @type {Token[] | null} */
  let tokens = null;
  /** @type {unknown} */
  let failure = null;
  let withEnded = false;

  const load = async () => {
    try {
      tokens = await all('/tokens', { signal: closed, progress: (items) => { tokens = items; redraw(); } });
      failure = null;
    } catch (error) {
      failure = error;
    }
    redraw();
  };
  void load();

  const create = async () => {
    if (await createToken(who.tenant ?? null)) await load();
  };
  const revoke = async (/** @type {Token} */ token) => {
    const isDone = await ask({
      title: `Revoke the token ${token.description || token.id}?`, confirm: 'Revoke', isDangerous: true,
      body: () => h('p', null, 'Within a second it is refused on every node, and its sessions have ended. This cannot be undone; a new token can be made.'),
      run: (reason) => call('DELETE', `/tokens/${encodeURIComponent(token.id)}`, { reason }),
    });
    if (isDone) {
      tell('The token is revoked.');
      await load();
    }
  };

  return {
    resumed: () => void load(),
    view: () => [
      failure !== null && problem(failure, { retry: () => void load() }),
      tokens === null ? failure === null && progress('Loading the tokens')
        : card('Tokens', {
          about: 'A token is shown once, when it is made; only its hash is kept.',
          actions: [
            h('label', null, h('input', { type: 'checkbox', checked: withEnded, onchange: () => { withEnded = !withEnded; redraw(); } }), ' with those that have ended'),
            button('New token', () => void create(), { look: 'main' }),
          ],
        }, listed(tokens.filter((token) => withEnded || !hasEnded(token)), revoke)),
    ],
  };
}

/** @param {Token} token */
function hasEnded(token) {
  return Boolean(token.revoked) || (Boolean(token.expires) && new Date(token.expires ?? 0).getTime() < Date.now());
}

/** @param {Token[]} tokens @param {(token: Token) => void} revoke */
function listed(tokens, revoke) {
  return table({
    caption: 'Tokens', rows: tokens, key: (token) => token.id,
    empty: empty('No token', 'The admin token of the settings is not listed here. A token made here is for one person or one program, and can be revoked alone.'),
    columns: [
      { title: 'For', isHead: true, cell: (token) => token.description || h('code', null, token.id) },
      { title: 'Role', cell: (token) => badge('none', token.role) },
      { title: 'Tenant', cell: (token) => token.tenant ?? 'all' },
      { title: 'Made', cell: (token) => [when(token.created), ' by ', token.created_by] },
      { title: 'Last used', cell: (token) => (token.last_used ? when(token.last_used, 'ago') : 'never') },
      { title: 'Ends', cell: (token) => (token.revoked ? ['revoked ', when(token.revoked, 'ago')] : token.expires ? when(token.expires) : 'never') },
      { title: '', cell: (token) => !hasEnded(token) && button('Revoke', () => revoke(token), { label: `Revoke ${token.description || token.id}` }) },
    ],
  });
}

/** @param {string | null} ownTenant */
async function createToken(ownTenant) {
  let role = 'viewer';
  let tenant = ownTenant ?? '';
  let description = '';
  let expires = '';
  /** @type {any} */
  let made = null;
  const id = newId('token');
  const isDone = await ask({
    title: 'New token', confirm: 'Make it', reason: 'none',
    body: (redraw) => h('div', { class: 'fields' },
      field('For whom or what', textInput(description, (value) => { description = value; }), { id: `${id}-for`, wide: true, hint: 'Such as “Ann” or “nightly backup”.' }),
      field('Role', choice(role, ROLES, (value) => { role = value; redraw(); }), { id: `${id}-role`, hint: MAY[/** @type {Role} */ (role)] }),
      field('Tenant', textInput(tenant, (value) => { tenant = value; }), { id: `${id}-tenant`, hint: ownTenant ? 'Yours, or one below it.' : 'Empty: all tenants.' }),
      field('Ends', h('input', { type: 'datetime-local', value: expires, oninput: (/** @type {any} */ event) => { expires = event.target.value; } }),
        { id: `${id}-ends`, hint: 'Your local time. Empty: never.' })),
    run: async () => {
      made = await post('/tokens', {
        role, tenant: tenant || undefined, description: description || undefined, expires: expires ? new Date(expires).toISOString() : undefined,
      });
    },
  });
  if (isDone) {
    await show('The new token', () => h('div', { class: 'stack' },
      h('p', null, 'Copy it now: it is not shown again.'), command(made.token)));
  }
  return isDone;
}

/** @type {Screen} */
export const tokens = {
  name: 'tokens', title: 'Tokens', about: 'who has access', shortcut: 'o', isMinor: true, isFor: (who) => has(who, 'admin'),
  icon: 'M15 9a4 4 0 1 0-3.500 3.970L4 20.500V21h3l1-1v-2h2v-2h2l1.500-1.500A4 4 0 0 0 15 9Z', open,
};
