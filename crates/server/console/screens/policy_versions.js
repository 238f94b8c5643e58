// The versions of the policy: compare two, and restore one.

/** @import {Context} from '../types.js' */

import { get } from '../api.js';
import { ask } from '../dialogs.js';
import { when } from '../format.js';
import { badge, button, card, link, table } from '../parts.js';
import { has } from '../roles.js';
import { address } from '../router.js';
import { h } from '../view.js';
import { diffView } from './policy_diff.js';
import { fields } from './policy_forms.js';
import { loading, restore } from './policy_live.js';

/** @param {Context} context */
export function versions(context) {
  const { who, closed } = context;
  /** @type {any[]} */
  let rows = [];
  /** @type {any} */
  let [next, diff] = [null, null];

  const { load, shown } = loading(context, async () => {
    ({ items: rows, next } = await get('/versions', { limit: 50 }, closed));
    const { from, to } = Object.fromEntries(context.query);
    diff = from && to ? await get(`/versions/${Number(from)}/diff/${Number(to)}`, {}, closed) : null;
  });
  const older = () => load(async () => {
    const page = await get('/versions', { limit: 50, cursor: next }, closed);
    [rows, next] = [[...rows, ...page.items], page.next];
  });
  const takeBack = (/** @type {number} */ version) => load(async () => {
    const active = rows[0].version;
    const { text } = await get(`/versions/${active}/diff/${version}`);
    const isDone = await ask({
      title: `Restore version ${version}`, confirm: 'Restore', body: () => [h('p', null, 'Its document becomes a new version. What changes:'), diffView(text)],
      run: (reason) => restore(version, active, reason, load),
    });
    if (isDone) await load();
  });
  const view = () => shown('versions', () => {
    const chosen = Object.fromEntries(context.query);
    /** @type {[string, string][]} */
    const choices = [['', 'choose'], .../** @type {[string, string][]} */ (rows.map(({ version }) => [String(version), `version ${version}`]))];
    return [
      card('Compare', { key: 'compare' },
        fields([['from', 'From', null, choices], ['to', 'To', null, choices]], chosen, () => { context.setQuery({ from: chosen.from, to: chosen.to }); void load(); }),
        diff && difference(diff)),
      card('Versions', { key: 'list', about: 'Every change of the policy is a version. The newest is in force.' }, table({
        caption: 'Versions', rows, key: ({ version }) => String(version),
        columns: [
          { title: 'Version', isHead: true, cell: (row) => [row.version, ' ', row === rows[0] && badge('good', 'in force')] },
          { title: 'When', cell: (row) => [when(row.time), h('div', { class: 'quiet small' }, when(row.time, 'ago'))] },
          { title: 'Who', cell: (row) => row.author },
          { title: 'Why', cell: (row) => row.reason ?? '—' },
          { title: '', cell: (row) => h('div', { class: 'row-actions' },
            row.parent && link(address('policy', { view: 'versions', from: String(row.parent), to: String(row.version) }), 'What changed'),
            row !== rows[0] && button('Restore', () => takeBack(row.version), { disabled: !has(who, 'editor') && 'Editors may do this', label: `Restore version ${row.version}` })) },
        ],
      }), next && button('Older ones', older)),
    ];
  });
  return { load, view, closed: () => {} };
}

/** @param {any} diff */
function difference({ changes, text }) {
  const value = (/** @type {any} */ one) => (typeof one === 'object' ? JSON.stringify(one) : one);
  return [
    h('ul', { class: 'changes' }, changes.slice(0, 50).map((/** @type {any} */ one) => h('li', null,
      badge(one.change === 'added' ? 'good' : one.change === 'removed' ? 'bad' : 'info', one.change), ' ', h('code', null, one.field, ' ', one.name), ' ',
      (one.members ?? []).map((/** @type {any} */ member) => `${member.path}: ${value(member.before)} → ${value(member.after)}`).join('; ')))),
    diffView(text),
  ];
}
