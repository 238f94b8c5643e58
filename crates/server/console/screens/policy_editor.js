// `<tg-editor>`: the text of a policy with line numbers and colours, problems at their lines, and names to choose from while typing.
// What is seen is drawn under a text field whose own letters are transparent; only the lines that can be seen are in the page.

import { newId } from '../parts.js';
import { h, render } from '../view.js';
import { suggestions } from './policy_complete.js';

/** @typedef {{ line?: number, column?: number, message?: string, hint?: string, path?: string, severity?: string }} Problem */
/** @typedef {{ text: string, problems: Problem[], isReadOnly: boolean, schema: any, changed: (text: string) => void }} EditorData */

const LINE = 20;
const PAD = 10;
/** A text field of more lines takes so long to be laid out that its first lines are shown before it is filled. */
const MANY = 2_000;
const PARTS = /(?<comment>(?:^|\s)#.*$)|(?<name>(?:"[^"]*"|[\w.:/*-]+)(?=\s*:(?:\s|$)))|(?<word>"[^"]*"|'[^']*')|(?<digits>\b\d[\w.:-]*)/g;

/** A line in colours. @param {string} line */
function coloured(line) {
  if (line.length > 2_000) return line;
  let end = 0;
  const parts = [...line.matchAll(PARTS)].flatMap((found) => {
    const kind = Object.keys(found.groups ?? {}).find((name) => found.groups?.[name] !== undefined);
    const before = line.slice(end, found.index);
    end = found.index + found[0].length;
    return [before, h('span', { class: kind }, found[0])];
  });
  return [...parts, line.slice(end)];
}

class PolicyEditor extends HTMLElement {
  /** @type {EditorData} */
  #data = { text: '', problems: [], isReadOnly: true, schema: null, changed: () => {} };
  #lines = [''];
  #id = newId('editor');
  /** @type {import('./policy_complete.js').Suggestions | null} */
  #offered = null;
  #chosen = 0;
  /** Whether the text field has the text. */
  #isFilled = false;
  #resized = new ResizeObserver(() => this.#draw());

  /** @param {EditorData} data */
  set data(data) {
    const isOther = data.text !== this.#data.text;
    if (isOther) this.#lines = data.text.split('\n');
    this.#data = data;
    this.#draw();
    // Not each time that it is drawn: comparing a long text takes a while.
    if (isOther && (this.#isFilled || this.#lines.length <= MANY)) this.#fill();
  }

  #fill() {
    this.#area.value = this.#data.text;
    if (this.#isFilled) return;
    this.#isFilled = true;
    this.#draw();
  }

  connectedCallback() {
    this.#resized.observe(this);
    if (!this.#isFilled) requestAnimationFrame(() => setTimeout(() => this.#fill()));
  }

  disconnectedCallback() { this.#resized.disconnect(); }

  /** Before it is drawn for the first time there is none. */
  get #area() { return this.querySelector('textarea') ?? document.createElement('textarea'); }

  /** The line and the column of the cursor, from 0 on. */
  get #cursor() {
    const before = this.#data.text.slice(0, this.#area.selectionStart).split('\n');
    return { row: before.length - 1, column: before[before.length - 1].length };
  }

  /** Puts the cursor at a place. @param {number} line @param {number} column both from 1 on */
  goTo(line, column) {
    const area = this.#area;
    const at = this.#lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0) + column - 1;
    area.focus();
    area.setSelectionRange(at, at);
    area.scrollTo(0, (line - 1) * LINE - area.clientHeight / 3);
    this.scrollIntoView({ block: 'nearest' });
  }

  /** @param {boolean} isAsked */
  #offer(isAsked) {
    const { row, column } = this.#cursor;
    const isTyping = isAsked || /[\w-]/.test(this.#lines[row][column - 1] ?? '');
    this.#offered = this.#data.schema && isTyping ? suggestions(this.#lines, row, column, this.#data.schema) : null;
    this.#chosen = 0;
    this.#draw();
  }

  #typed() {
    this.#data = { ...this.#data, text: this.#area.value };
    this.#lines = this.#data.text.split('\n');
    this.#offer(false);
    this.#data.changed(this.#data.text);
  }

  /** Types what was chosen, so that the browser can undo it. @param {number} index */
  #take(index) {
    const { from, options } = this.#offered ?? { from: 0, options: [] };
    this.#area.setSelectionRange(this.#area.selectionStart - this.#cursor.column + from, this.#area.selectionEnd);
    document.execCommand('insertText', false, options[index].text);
    this.#close();
  }

  #close() {
    this.#offered = null;
    this.#draw();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing || this.#data.isReadOnly) return;
    const count = this.#offered?.options.length ?? 0;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === ' ' && event.ctrlKey) this.#offer(true);
    else if (count && step) {
      this.#chosen = (this.#chosen + step + count) % count;
      this.#draw();
    } else if (count && (event.key === 'Enter' || event.key === 'Tab')) this.#take(this.#chosen);
    else if (count && event.key === 'Escape') this.#close();
    else if (event.key === 'Enter') {
      // The next line begins where this one does.
      const { row, column } = this.#cursor;
      const before = this.#lines[row].slice(0, column);
      const indent = /^\s*(?:- +)?/.exec(before)?.[0].replace('-', ' ');
      document.execCommand('insertText', false, `\n${indent}${/:\s*$/.test(before) ? '  ' : ''}`);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #draw() {
    const { problems, isReadOnly } = this.#data;
    const { scrollTop: top, scrollLeft: left, clientHeight } = this.#area;
    const first = Math.max(0, Math.floor((top - PAD) / LINE));
    const count = Math.ceil((clientHeight || 600) / LINE) + 1;
    const seen = this.#lines.slice(first, first + count).map((line, index) => {
      const number = first + index + 1;
      const here = problems.filter((one) => (one.line ?? 1) === number);
      const tone = here.length > 0 && (here.every(({ severity }) => severity === 'warning') ? 'warn' : 'bad');
      // A line that comes takes the place in the page of one that has gone.
      const props = { key: number % count, class: tone, style: { top: `${PAD + (number - 1) * LINE}px` } };
      return { number, parts: [h('span', { ...props, title: here.map(({ message }) => message).join('\n') }, number), h('div', props, coloured(line))] };
    }).sort((one, other) => one.number % count - other.number % count).map(({ parts }) => parts);
    const option = this.#offered && `${this.#id}-${this.#chosen}`;
    render(this,
      h('div', { class: 'gutter', 'aria-hidden': 'true', style: { width: `${String(this.#lines.length).length + 3}ch` } },
        h('div', { style: { transform: `translateY(${-top}px)` } }, seen.map(([number]) => number))),
      h('div', { class: 'page' },
        h('div', { class: 'ink', 'aria-hidden': 'true', style: { transform: `translate(${-left}px, ${-top}px)` } }, seen.map(([, line]) => line)),
        h('textarea', {
          readonly: isReadOnly || !this.#isFilled, wrap: 'off', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', 'aria-label': 'The policy',
          'aria-autocomplete': 'list', 'aria-controls': option && this.#id, 'aria-activedescendant': option,
          oninput: () => this.#typed(), onscroll: () => this.#draw(), onblur: () => this.#close(), onclick: () => this.#close(),
          onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
        }),
        this.#offered && this.#list(this.#offered, PAD + (this.#cursor.row + 1) * LINE - top, PAD - left)));
    if (option) document.getElementById(option)?.scrollIntoView({ block: 'nearest' });
  }

  /** @param {import('./policy_complete.js').Suggestions} offered @param {number} top @param {number} left */
  #list({ from, options }, top, left) {
    const isLow = top > this.#area.clientHeight - 140;
    return h('ul', {
      class: 'offered', id: this.#id, role: 'listbox', 'aria-label': 'What fits here',
      style: { top: `${top - (isLow ? LINE : 0)}px`, left: `clamp(0px, calc(${left}px + ${from}ch), max(0px, 100% - 460px))`, translate: isLow ? '0 -100%' : '0' },
    }, options.map(({ text, about }, index) => h('li', {
      key: text, id: `${this.#id}-${index}`, role: 'option', 'aria-selected': String(index === this.#chosen),
      // Before the text field loses the focus.
      onpointerdown: (/** @type {Event} */ event) => { event.preventDefault(); this.#take(index); },
    }, h('b', null, text.replace(/: $/, '')), h('span', null, about))));
  }
}

customElements.define('tg-editor', PolicyEditor);

/** The editor. @param {EditorData} data @param {(element: PolicyEditor) => void} made */
export function editor(data, made) {
  return h('tg-editor', { class: 'editor', '.data': data, ref: made });
}
