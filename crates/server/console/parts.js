// The parts that screens are made of.

/** @import {Child, Properties} from './types.js' */

import { ApiProblem } from './api.js';
import { number, share } from './format.js';
import { h } from './view.js';

let ids = 0;

/** A name that no other element has. @param {string} [prefix] */
export function newId(prefix = 'id') {
  ids += 1;
  return `${prefix}-${ids}`;
}

/**
 * @typedef {object} ButtonOptions
 * @property {'plain' | 'main' | 'danger' | 'quiet'} [look]
 * @property {boolean | string} [disabled] a text says why
 * @property {string} [label] for those who do not see an icon
 * @property {boolean} [isBusy]
 * @property {Properties} [more]
 */

/**
 * A button.
 * @param {Child} content
 * @param {((event: Event) => void) | null} onclick `null`: it sends the form that it is in
 * @param {ButtonOptions} [options]
 */
export function button(content, onclick, options = {}) {
  const { look = 'plain', disabled = false, label, isBusy = false, more } = options;
  const isOff = Boolean(disabled) || isBusy;
  return h('button', {
    type: onclick ? 'button' : 'submit', class: `button ${look}`, 'aria-label': label, 'aria-busy': isBusy ? 'true' : null,
    title: typeof disabled === 'string' ? disabled : label, disabled: isOff, onclick, ...more,
  }, content);
}

/** A link within the console, or elsewhere on this server. @param {string} href @param {...Child} content */
export function link(href, ...content) {
  return h('a', { href }, ...content);
}

/**
 * An input with its label, a hint, and what is wrong with it. `control` is the input's view; it gets an id and names its hint.
 * @param {string} label
 * @param {import('./types.js').View} control
 * @param {{ id: string, hint?: Child, error?: Child, wide?: boolean }} options
 */
export function field(label, control, { id, hint, error, wide }) {
  const about = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ');
  Object.assign(control.properties, {
    id, 'aria-describedby': about || null, 'aria-invalid': error ? 'true' : null,
  });
  return h('div', { class: wide ? 'field wide' : 'field' },
    h('label', { for: id }, label),
    control,
    hint && h('p', { class: 'hint', id: `${id}-hint` }, hint),
    error && h('p', { class: 'wrong', id: `${id}-error` }, error));
}

/**
 * A text input.
 * @param {string} value
 * @param {(value: string) => void} changed
 * @param {Properties} [more]
 */
export function textInput(value, changed, more) {
  return h('input', {
    type: 'text', value, autocomplete: 'off', spellcheck: 'false',
    oninput: (/** @type {any} */ event) => changed(event.target.value), ...more,
  });
}

/**
 * A choice among words.
 * @param {string} value
 * @param {(string | [string, string])[]} options words, or pairs of a word and what is shown for it
 * @param {(value: string) => void} changed
 * @param {Properties} [more]
 */
export function choice(value, options, changed, more) {
  const pairs = options.map((option) => (typeof option === 'string' ? [option, option] : option));
  return h('select', { value, onchange: (/** @type {any} */ event) => changed(event.target.value), ...more },
    pairs.map(([word, shown]) => h('option', { value: word }, shown)));
}

/**
 * A section of a screen with a heading.
 * @param {Child} title
 * @param {{ actions?: Child, about?: Child, class?: string, key?: string }} options
 * @param {...Child} content
 */
export function card(title, options, ...content) {
  return h('section', { class: `card ${options.class ?? ''}`, key: options.key },
    h('header', null, h('h2', null, title), options.actions && h('div', { class: 'actions' }, options.actions)),
    options.about && h('p', { class: 'about' }, options.about),
    ...content);
}

/** @typedef {'info' | 'good' | 'warn' | 'bad'} Tone */

/**
 * A message within the page.
 * @param {Tone} tone
 * @param {Child} title
 * @param {...Child} content
 */
export function notice(tone, title, ...content) {
  return h('div', { class: `notice ${tone}`, role: tone === 'bad' ? 'alert' : null, key: `notice-${tone}-${String(title)}` },
    h('strong', null, title), ...content.map((part) => (typeof part === 'string' ? h('p', null, part) : part)));
}

/**
 * What went wrong and what to do next. `retry` adds a button.
 * @param {unknown} error
 * @param {{ retry?: () => void }} [options]
 */
export function problem(error, { retry } = {}) {
  if (!(error instanceof ApiProblem)) {
    return notice('bad', 'The console has failed', String(error), 'Load the page again. If it stays, please report it with the text above.');
  }
  if (error.needsDatabase) return needsDatabase(error.detail);
  const title = error.status === 403 ? 'You may not do this' : error.title || `Status ${error.status}`;
  return notice(error.status === 403 || error.status === 404 ? 'warn' : 'bad', title, error.detail,
    problemLines(error),
    h('p', { class: 'next' }, error.nextStep),
    retry && h('p', null, button('Try again', retry)));
}

/** @param {ApiProblem} error */
function problemLines(error) {
  if (error.problems.length === 0) return null;
  return h('ul', null, error.problems.slice(0, 20).map((one) => h('li', null,
    one.path && h('code', null, one.path), one.line ? ` (line ${one.line})` : '', ' ',
    one.message ?? [one.saw && `saw ${one.saw}`, one.want && `wanted ${one.want}`, one.hint].filter(Boolean).join('; '))));
}

/** What is kept in a database, on a server without one. @param {string} detail */
export function needsDatabase(detail) {
  return empty('This needs a database', [
    h('p', null, detail),
    h('p', null, 'A folder is enough; the server makes an SQLite database in it and prints the first token once:'),
    command('tidegate serve --data ./tidegate-data'),
    h('p', null, 'For several nodes, set ', h('code', null, 'database.url'), ' in the settings to a PostgreSQL database.'),
  ]);
}

/**
 * What is seen where there is nothing yet: it teaches what would be here.
 * @param {Child} title
 * @param {...Child} content
 */
export function empty(title, ...content) {
  return h('div', { class: 'empty' }, h('h2', null, title), ...content);
}

/** A command to copy. @param {string} text */
export function command(text) {
  return h('div', { class: 'command' }, h('code', { tabindex: '0' }, text), copyButton(text));
}

/** @param {string} text @param {string} [label] */
export function copyButton(text, label = 'Copy') {
  return button(label, async (event) => {
    const target = /** @type {HTMLElement} */ (event.currentTarget);
    try {
      await navigator.clipboard.writeText(text);
      target.classList.add('done');
      setTimeout(() => target.classList.remove('done'), 1_500);
    } catch {
      // Browsers allow this on safe pages only; then the text can still be selected.
      const code = target.previousElementSibling;
      if (code) getSelection()?.selectAllChildren(code);
    }
  }, { look: 'quiet', more: { class: 'button quiet copy' } });
}

/** A word with a colour. @param {Tone | 'none'} tone @param {...Child} content */
export function badge(tone, ...content) {
  return h('span', { class: `badge ${tone}` }, ...content);
}

/** Something is loading; `done` of `all` if that is known. @param {string} what @param {number} [done] @param {number} [all] */
export function progress(what, done, all) {
  const label = done === undefined ? what : `${what}: ${number(done)}${all ? ` of ${number(all)}` : ''}`;
  return h('div', { class: 'progress', role: 'status' },
    h('progress', { 'aria-label': what, max: all ?? null, value: all ? done : undefined }), h('span', null, label));
}

/**
 * A bar that is filled to a share of 1.
 * @param {number} filled
 * @param {{ label: string, tone?: Tone, mark?: number }} options `mark` draws a line at a share
 */
export function bar(filled, { label, tone = 'good', mark }) {
  const at = Math.min(1, Math.max(0, Number.isFinite(filled) ? filled : 0));
  return h('div', { class: `bar ${tone}`, role: 'meter', 'aria-label': label, 'aria-valuemin': '0', 'aria-valuemax': '100',
    'aria-valuenow': String(Math.round(at * 100)), 'aria-valuetext': share(at) },
  h('div', { class: 'fill', style: { width: `${at * 100}%` } }),
  mark !== undefined && h('div', { class: 'mark', style: { left: `${Math.min(1, mark) * 100}%` } }));
}

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title empty: that of buttons, which needs none that is seen
 * @property {(row: T) => Child} cell
 * @property {'number' | 'text'} [kind]
 * @property {boolean} [isHead] its cells name their rows
 * @property {string} [class]
 */

/**
 * A table. On narrow screens its rows become blocks with the titles beside the values, unless it is compact.
 * @template T
 * @param {{ caption: string, columns: Column<T>[], rows: T[], key: (row: T) => string, empty?: Child, isCompact?: boolean }} options
 */
export function table({ caption, columns, rows, key, empty: nothing, isCompact }) {
  if (rows.length === 0 && nothing) return nothing;
  return h('div', { class: isCompact ? 'table' : 'table blocks', role: 'region', 'aria-label': caption, tabindex: '0' }, h('table', null,
    h('caption', { class: 'unseen' }, caption),
    h('thead', null, h('tr', null, columns.map((column) => h('th', { scope: 'col', class: [column.kind, column.class].filter(Boolean).join(' ') || null }, column.title || h('span', { class: 'unseen' }, 'Actions'))))),
    h('tbody', null, rows.map((row) => h('tr', { key: key(row) }, columns.map((column) => h(column.isHead ? 'th' : 'td', {
      scope: column.isHead ? 'row' : null, class: [column.kind, column.class].filter(Boolean).join(' ') || null, 'data-title': column.title,
    }, h('div', null, column.cell(row)))))))));
}

/** Names and values. @param {...([Child, Child] | null | false | undefined)} pairs */
export function facts(...pairs) {
  return h('dl', { class: 'facts' }, pairs.map((pair) => pair && h('div', null, h('dt', null, pair[0]), h('dd', null, pair[1]))));
}

/** A picture of 24 by 24. @param {string} path */
export function icon(path) {
  return h('svg', { viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true', focusable: 'false' }, h('path', { d: path }));
}
