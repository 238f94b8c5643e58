// Who am I, and what may I do?

/** @import {Context, Opened, Screen} from '../types.js' */

import { when } from '../format.js';
import { badge, button, card, facts } from '../parts.js';
import { MAY, ROLES } from '../roles.js';
import { signOut } from '../session.js';
import { h } from '../view.js';

/** @param {Context} context @returns {Opened} */
function open({ who }) {
  return {
    view: () => card('You', { actions: button('Sign out', () => void signOut()) },
      facts(
        ['Signed in as', who.actor],
        ['Role', badge('info', who.role)],
        ['Tenant', who.tenant ? [who.tenant, ' and those below it'] : 'all'],
        ['The token ends', who.expires ? when(who.expires) : 'never']),
      h('h3', null, 'What the roles may do'),
      h('dl', { class: 'shortcuts' }, ROLES.map((role) => h('div', null,
        h('dt', null, role === who.role ? badge('info', role) : role), h('dd', null, MAY[role])))),
      who.tenant && h('p', { class: 'quiet' }, 'Your token is restricted to a tenant: what lies outside its subtree is not listed, and what concerns the whole '
        + 'system (policy, versions, candidates, nodes) is not for it.')),
  };
}

/** @type {Screen} */
export const account = {
  name: 'account', title: 'Who am I', about: 'your role and what it may do', shortcut: 'i', isMinor: true,
  icon: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4 20c1-4 4.5-5.500 8-5.500s7 1.500 8 5.500', open,
};
