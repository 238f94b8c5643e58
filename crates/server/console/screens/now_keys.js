// The busiest and the most denied keys on the screen Now.

import { number } from '../format.js';
import { bar, card, table } from '../parts.js';
import { address } from '../router.js';
import { h } from '../view.js';

/** @typedef {{ limit: string, key: string, count: number, error: number, request?: Record<string, string> }} HotKey */

/** @param {string} title @param {string} about @param {HotKey[]} keys */
export function hotKeys(title, about, keys) {
  const most = Math.max(1, ...keys.map((key) => key.count));
  return card(title, { key: title, about }, table({
    caption: title, rows: keys.slice(0, 10), isCompact: true, key: (key) => `${key.limit} ${key.key}`,
    empty: h('p', { class: 'quiet' }, 'None yet. What a tenant’s own bucket denies is told by limit, above.'),
    columns: [
      { title: 'Key', isHead: true, cell: (key) => named(key) },
      { title: 'Limit', cell: (key) => h('code', null, key.limit) },
      { title: 'Count', kind: 'number', cell: (key) => h('span', { title: key.error ? `too high by ${number(key.error)} at most` : null }, number(key.count)) },
      { title: 'Share', class: 'share', cell: (key) => bar(key.count / most, { label: `${key.key} beside the first`, tone: title.startsWith('Most') ? 'bad' : 'good' }) },
    ],
  }));
}

/** A link, if the key says which requests it is about. @param {HotKey} key */
function named(key) {
  const name = key.key || '(all)';
  return key.request ? h('a', { href: address('key', { ...key.request }) }, name) : h('span', { title: 'Parts of it are hidden, so it cannot be looked up from here.' }, name);
}
