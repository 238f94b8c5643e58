// What differs between two texts, line by line.

import { h } from '../view.js';

const AROUND = 3;
/** Longer texts are compared by their beginnings and ends only. */
const MOST_PAIRS = 4_000_000;

/** As `diff -u` writes it; empty if they are the same. @param {string} before @param {string} after */
export function unified(before, after) {
  const [old, next] = [before.split('\n'), after.split('\n')];
  const least = Math.min(old.length, next.length);
  let [head, tail] = [0, 0];
  while (head < least && old[head] === next[head]) head += 1;
  while (tail < least - head && old[old.length - 1 - tail] === next[next.length - 1 - tail]) tail += 1;
  const same = (/** @type {string[]} */ lines) => lines.map((line) => ` ${line}`);
  const lines = [...same(old.slice(0, head)), ...edits(old.slice(head, old.length - tail), next.slice(head, next.length - tail)), ...same(old.slice(old.length - tail))];
  const near = new Set(lines.flatMap((line, at) => (line[0] === ' ' ? [] : Array.from({ length: 2 * AROUND + 1 }, (_, step) => at + step - AROUND))));
  let number = 1;
  return lines.flatMap((line, at) => {
    const place = near.has(at) && (at === 0 || !near.has(at - 1)) ? [`@@ line ${number} @@`] : [];
    if (line[0] !== '+') number += 1;
    return near.has(at) ? [...place, line] : [];
  }).join('\n');
}

/** By the longest lines that both have in the same order. @param {string[]} old @param {string[]} next */
function edits(old, next) {
  if (old.length * next.length > MOST_PAIRS) return [...old.map((line) => `-${line}`), ...next.map((line) => `+${line}`)];
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(next.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = next.length - 1; j >= 0; j -= 1) common[i][j] = old[i] === next[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const lines = [];
  for (let i = 0, j = 0; i < old.length || j < next.length;) {
    if (i < old.length && old[i] === next[j]) [lines[lines.length], i, j] = [` ${old[i]}`, i + 1, j + 1];
    else if (j === next.length || (i < old.length && common[i + 1][j] >= common[i][j + 1])) lines.push(`-${old[i++]}`);
    else lines.push(`+${next[j++]}`);
  }
  return lines;
}

/** Lines of a diff in colours. @param {string} text */
export function diffView(text) {
  const lines = text.split('\n').filter((line) => line && !/^(---|\+\+\+) /.test(line));
  return h('div', { class: 'diff', role: 'region', 'aria-label': 'What differs', tabindex: '0' },
    lines.length === 0 && h('div', null, 'Nothing: they are the same.'),
    lines.slice(0, 2_000).map((line) => h('div', { class: { '+': 'added', '-': 'removed', '@': 'place' }[line[0]] }, line)),
    lines.length > 2_000 && h('div', { class: 'place' }, `and ${lines.length - 2_000} lines more`));
}
