// Who may do what. The server decides; this only hides what it would refuse.

/** @import {Role, WhoAmI} from './types.js' */

/** @type {Role[]} */
export const ROLES = ['viewer', 'operator', 'editor', 'admin'];

/**
 * Has somebody at least this role?
 * @param {WhoAmI | null} who
 * @param {Role} role
 */
export function has(who, role) {
  return who !== null && ROLES.indexOf(who.role) >= ROLES.indexOf(role);
}

/** What a role may do, in a few words. @type {Record<Role, string>} */
export const MAY = {
  viewer: 'may look at everything and try things out',
  operator: 'may also act on keys, overrides, penalties, reservations and trust',
  editor: 'may also change the policy',
  admin: 'may also give tokens to others, and use the kill switch',
};
