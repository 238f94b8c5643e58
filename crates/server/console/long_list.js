// A list of many thousand rows: only those that can be seen are in the page.

/** @import {View} from './types.js' */

import { h } from './view.js';

/** Rows that are kept above and below those that can be seen. */
const SPARE = 10;

/**
 * Makes a list whose rows all have the same height. Keep what it returns, and call it from the screen's `view`.
 * @template T
 * @param {{ label: string, rowHeight: number, row: (item: T, index: number) => View, redraw: () => void, height?: string }} options
 */
export function longList({ label, rowHeight, row, redraw, height = '70vh' }) {
  let top = 0;
  let visible = 40;
  const onscroll = (/** @type {any} */ event) => {
    const first = Math.floor(event.target.scrollTop / rowHeight);
    visible = Math.ceil(event.target.clientHeight / rowHeight);
    // Drawing again is only needed when the spare rows are nearly used up.
    if (Math.abs(first - top) >= SPARE / 2) {
      top = first;
      redraw();
    }
  };
  /** @param {T[]} items @returns {View} */
  return (items) => {
    const first = Math.max(0, Math.min(top, items.length - visible) - SPARE);
    const last = Math.min(items.length, first + visible + 2 * SPARE);
    return h('div', { class: 'long-list', role: 'region', 'aria-label': label, tabindex: '0', onscroll,
      style: { height: `min(${height}, ${items.length * rowHeight + 2}px)` } },
      h('div', { class: 'all', role: 'list', style: { height: `${items.length * rowHeight}px` } },
        items.slice(first, last).map((item, index) => h('div', {
          class: 'row', role: 'listitem', key: first + index, 'aria-setsize': items.length, 'aria-posinset': first + index + 1,
          style: { transform: `translateY(${(first + index) * rowHeight}px)`, height: `${rowHeight}px` },
        }, row(item, first + index)))));
  };
}
