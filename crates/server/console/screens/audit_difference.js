// What a change of the policy changed, entry by entry.

import { number } from '../format.js';
import { badge } from '../parts.js';
import { h } from '../view.js';

/** @type {Record<string, import('../parts.js').Tone>} */
const TONES = { added: 'good', removed: 'bad' };

/** @param {any} value */
function shown(value) {
  return h('code', null, value === undefined ? '—' : typeof value === 'string' ? value : JSON.stringify(value));
}

/** @param {any} detail of an entry of the audit */
export function difference(detail) {
  if (!Array.isArray(detail.changes)) return h('div', null, shown(detail));
  return h('ul', { class: 'audit-changes' }, detail.changes.map((/** @type {any} */ { change, field, name, members, before, after }) => h('li', null,
    badge(TONES[change] ?? 'info', change), ` ${field} `, h('b', null, name),
    (members ?? [{ path: '', before, after }]).map((/** @type {any} */ member) => h('div', null, member.path && `${member.path}: `,
      change !== 'added' && h('del', null, shown(member.before)), members && ' → ', change !== 'removed' && h('ins', null, shown(member.after)))))),
  detail.left_out > 0 && h('li', null, `and ${number(detail.left_out)} more`));
}
