// What a change of the policy changed: entry by entry, and line by line.

import { get } from '../api.js';
import { show } from '../dialogs.js';
import { number } from '../format.js';
import { badge, button } from '../parts.js';
import { h } from '../view.js';

/** @type {Record<string, import('../parts.js').Tone>} */
const TONES = { added: 'good', removed: 'bad' };

/** @param {any} value */
function shown(value) {
  return value === undefined ? '—' : typeof value === 'string' ? value : JSON.stringify(value);
}

/** @param {any} detail of an entry of the audit */
export function difference(detail) {
  if (typeof detail === 'string') return h('p', null, detail);
  if (!Array.isArray(detail?.changes)) return h('pre', { tabindex: '0' }, JSON.stringify(detail, null, 1));
  return h('ul', { class: 'audit-changes' }, detail.changes.map((/** @type {any} */ one) => h('li', null,
    badge(TONES[one.change] ?? 'info', one.change), ' ', one.field, ' ', one.name && h('code', null, one.name),
    one.members?.map((/** @type {any} */ member) => h('div', { class: 'small' }, h('code', null, member.path), ': ', h('del', null, shown(member.before)), ' → ', h('ins', null, shown(member.after)))),
    one.change !== 'changed' && h('div', { class: 'small' }, h(one.change === 'removed' ? 'del' : 'ins', null, h('code', null, shown(one.after ?? one.before)))))),
  detail.left_out > 0 && h('li', null, `and ${number(detail.left_out)} more`));
}

/** Shows the lines that a version changed. @param {number} version */
export function linesButton(version) {
  return button(`Lines of version ${version}`, async () => {
    const { parent } = await get(`/versions/${version}`);
    const text = parent ? (await get(`/versions/${parent}/diff/${version}`)).text : 'It is the first version.';
    await show(`Version ${version}`, () => h('pre', { class: 'audit-lines', tabindex: '0' }, text.split('\n').map((/** @type {string} */ line) => h('div', { class: { '+': 'added', '-': 'removed' }[line[0]] ?? null }, line || ' '))));
  }, { look: 'quiet' });
}
