// Charts, drawn as SVG: `<tg-chart>` shows figures over time and can be pointed at with the mouse, a finger or the arrow keys.

/** @import {Child} from './types.js' */

import { hours, number, when } from './format.js';
import { h, redrawer, render } from './view.js';

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {(number | null)[]} values one for each time; `null`: nothing is known
 * @property {string} tone a class of styles/charts.css: `allowed`, `denied`, `a` to `f`, `rest`
 */

/**
 * @typedef {object} ChartData
 * @property {string} label what the chart shows, for those who do not see it
 * @property {number[]} times milliseconds since the epoch, ascending, equally far apart
 * @property {Series[]} series
 * @property {'stacked' | 'lines'} kind
 * @property {(value: number) => string} [format]
 * @property {(time: number) => Child} [note] more about the step that is pointed at
 * @property {number} [height]
 */

const PAD = { left: 52, right: 8, top: 8, bottom: 22 };

/** Round numbers for the marks of an axis. @param {number} max @param {number} count */
export function ticks(max, count) {
  if (!(max > 0)) return [0];
  const rough = max / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const marks = [];
  for (let mark = 0; mark <= max * 1.0001; mark += step) marks.push(mark);
  return marks;
}

/**
 * The heights between which each series is drawn: stacked upon those before, or from nothing.
 * @param {ChartData} data
 * @returns {[number, number][][]}
 */
function layers({ series, kind }) {
  /** @type {number[]} */
  const sums = [];
  return series.map(({ values }) => values.map((value, index) => {
    const from = kind === 'stacked' ? (sums[index] ?? 0) : 0;
    const to = from + (value ?? 0);
    sums[index] = to;
    return [from, to];
  }));
}

class TideChart extends HTMLElement {
  /** @type {ChartData | null} */
  #data = null;
  #width = 0;
  /** The index that is pointed at. @type {number | null} */
  #at = null;
  #redraw = redrawer(() => this.#draw());
  #resized = new ResizeObserver(([entry]) => {
    this.#width = entry.contentRect.width;
    this.#redraw();
  });

  /** @param {ChartData} data */
  set data(data) {
    this.#data = data;
    this.#redraw();
  }

  connectedCallback() {
    this.#resized.observe(this);
  }

  disconnectedCallback() {
    this.#resized.disconnect();
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const data = this.#data;
    if (!data || data.times.length === 0) return;
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const inner = box.width - PAD.left - PAD.right;
    const share = (event.clientX - box.left - PAD.left) / inner;
    this.#move(Math.floor(share * data.times.length));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const last = (this.#data?.times.length ?? 0) - 1;
    const at = this.#at ?? last + (event.key === 'ArrowLeft' ? 1 : 0);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (event.key === 'Escape') this.#leave();
    if (next === undefined) return;
    event.preventDefault();
    this.#move(next);
  }

  /** @param {number} index */
  #move(index) {
    this.#at = Math.max(0, Math.min((this.#data?.times.length ?? 1) - 1, index));
    this.#redraw();
  }

  #leave() {
    this.#at = null;
    this.#redraw();
  }

  #draw() {
    const data = this.#data;
    if (!data || this.#width === 0) return;
    const height = data.height ?? 200;
    render(this,
      h('div', {
        class: 'plot', tabindex: '0', role: 'group', 'aria-roledescription': 'chart', 'aria-label': `${data.label}. Arrow keys point at a step.`,
        onpointermove: (/** @type {PointerEvent} */ event) => this.#point(event), onpointerdown: (/** @type {PointerEvent} */ event) => this.#point(event),
        onpointerleave: () => this.#leave(), onblur: () => this.#leave(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      }, h('svg', { width: this.#width, height, viewBox: `0 0 ${this.#width} ${height}`, 'aria-hidden': 'true' }, this.#drawing(data, height))),
      this.#readout(data));
  }

  /** @param {ChartData} data @param {number} height */
  #drawing(data, height) {
    const stacks = layers(data);
    const highest = Math.max(0, ...stacks.flat().map(([, to]) => to));
    const marks = ticks(highest || 1, Math.max(2, Math.floor(height / 50)));
    const top = Math.max(highest, marks[marks.length - 1]) || 1;
    const x = (/** @type {number} */ index) => PAD.left + (index / data.times.length) * (this.#width - PAD.left - PAD.right);
    const y = (/** @type {number} */ value) => PAD.top + (1 - value / top) * (height - PAD.top - PAD.bottom);
    const format = data.format ?? number;
    return [
      h('g', { class: 'axis' },
        marks.map((mark) => [
          h('line', { x1: PAD.left, x2: this.#width - PAD.right, y1: y(mark), y2: y(mark) }),
          h('text', { x: PAD.left - 6, y: y(mark) + 4, 'text-anchor': 'end' }, format(mark)),
        ]),
        this.#timeMarks(data.times).map((index) =>
          h('text', { x: x(index), y: height - 5, 'text-anchor': 'middle' }, hours(data.times[index])))),
      stacks.map((stack, index) => data.series[index] && drawn(stack, data, index, x, y)),
      this.#at !== null && h('line', { class: 'pointer', x1: x(this.#at + 0.5), x2: x(this.#at + 0.5), y1: PAD.top, y2: height - PAD.bottom }),
    ];
  }

  /** The steps whose times are written below. @param {number[]} times */
  #timeMarks(times) {
    const every = [5, 10, 15, 30, 60].find((minutes) => {
      const span = (times[times.length - 1] - times[0]) / 60_000;
      return span / minutes <= Math.max(2, this.#width / 90);
    }) ?? 60;
    const found = times.map((time, index) => ({ index, isRound: Math.floor(time / 1_000) % (every * 60) === 0 }));
    return found.filter(({ index, isRound }) => isRound && index > 0 && index < times.length - 1).map(({ index }) => index);
  }

  /** @param {ChartData} data */
  #readout(data) {
    const at = this.#at;
    const format = data.format ?? number;
    return h('div', { class: 'readout' },
      h('span', { class: 'time' }, at === null ? ' ' : when(data.times[at], 'clock')),
      h('ul', { class: 'legend', 'aria-live': at === null ? null : 'polite' }, data.series.map(({ name, tone, values }) => h('li', { key: name },
        h('span', { class: `swatch ${tone}` }), name,
        at !== null && h('b', null, values[at] === null ? '—' : format(values[at] ?? 0))))),
      at !== null && data.note?.(data.times[at]));
  }
}

/**
 * One series, as steps: a value holds from its time to the next.
 * @param {[number, number][]} stack
 * @param {ChartData} data
 * @param {number} index
 * @param {(index: number) => number} x
 * @param {(value: number) => number} y
 */
function drawn(stack, data, index, x, y) {
  const { tone, values } = data.series[index];
  const step = (/** @type {0 | 1} */ side) => stack.map((part, at) => {
    const height = y(part[side]).toFixed(1);
    return [`${x(at).toFixed(1)},${height}`, `${x(at + 1).toFixed(1)},${height}`];
  });
  if (data.kind === 'stacked') {
    return h('path', { class: `area ${tone}`, d: `M${step(1).flat().join('L')}L${step(0).flat().reverse().join('L')}Z` });
  }
  // A line ends where nothing is known, and goes on after it.
  const path = step(1).map(([from, to], at) => (values[at] === null ? '' : `${at === 0 || values[at - 1] === null ? 'M' : 'L'}${from}L${to}`));
  return h('path', { class: `line ${tone}`, d: path.join('') });
}

customElements.define('tg-chart', TideChart);

/** A chart. @param {ChartData} data */
export function chart(data) {
  return h('tg-chart', { '.data': data });
}

/**
 * A small line without axes, beside a number. With `slots`, the last of so many values is at the right end, however few there are.
 * @param {(number | null)[]} values
 * @param {string} tone
 * @param {number} [slots]
 */
export function sparkline(values, tone, slots = values.length) {
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const x = (/** @type {number} */ index) => (((index + slots - values.length) / Math.max(1, slots - 1)) * 100).toFixed(1);
  const points = values.map((value, index) => `${x(index)},${(23 - ((value ?? 0) / most) * 22).toFixed(1)}`);
  return h('svg', { class: 'sparkline', viewBox: '0 0 100 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    points.length > 1 && [
      h('path', { class: `area ${tone}`, d: `M${x(0)},24L${points.join('L')}L100,24Z` }),
      h('path', { class: `line ${tone}`, d: `M${points.join('L')}` }),
    ]);
}
