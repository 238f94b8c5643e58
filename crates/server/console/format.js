// Numbers, durations and times as a person reads them.

import { h } from './view.js';

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
const dayTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const clockShort = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });

/** A number with grouped digits: whole, or with one decimal if it is small. @param {number} value */
export function number(value) {
  return Math.abs(value) < 100 && !Number.isInteger(value) ? tenth.format(value) : whole.format(value);
}

/** What happens each second. @param {number} value */
export function rate(value) {
  return `${number(value)}/s`;
}

/** A share of 1. @param {number} value */
export function share(value) {
  return percent.format(value);
}

/** Microseconds. @param {number} us */
export function micros(us) {
  if (us < 1_000) return `${number(us)} µs`;
  return us < 1_000_000 ? `${number(us / 1_000)} ms` : `${number(us / 1_000_000)} s`;
}

/** A duration in its two largest units. @param {number} ms */
export function duration(ms) {
  if (ms < 1_000) return `${whole.format(ms)} ms`;
  if (ms < 10_000) return `${tenth.format(ms / 1_000)} s`;
  const seconds = Math.round(ms / 1_000);
  /** @type {[string, number][]} */
  const units = [['d', 86_400], ['h', 3_600], ['min', 60], ['s', 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[first];
  const [nextName, nextSize] = units[first + 1] ?? ['', 0];
  const rest = nextSize ? Math.floor((seconds % size) / nextSize) : 0;
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${nextName}` : ''}`;
}

/** How long ago, or how soon. @param {string | number | Date} time */
export function relative(time) {
  const ms = new Date(time).getTime() - Date.now();
  if (Math.abs(ms) < 1_500) return 'now';
  const coarse = duration(Math.abs(ms) < 60_000 ? Math.abs(ms) : Math.round(Math.abs(ms) / 60_000) * 60_000);
  return ms < 0 ? `${coarse} ago` : `in ${coarse}`;
}

/** The time as UTC, as the API writes it. @param {string | number | Date} time */
export function utc(time) {
  return new Date(time).toISOString().replace('T', ' ').replace(/(\.000)?Z$/, ' UTC');
}

/** Hours and minutes in the reader's zone. @param {string | number | Date} time */
export function hours(time) {
  return clockShort.format(new Date(time));
}

/**
 * A time in the reader's zone; UTC on hover. `style`: `full` (date and time), `clock` (time only), `ago` (how long ago).
 * @param {string | number | Date | null | undefined} time
 * @param {'full' | 'clock' | 'ago'} [style]
 */
export function when(time, style = 'full') {
  const date = new Date(time ?? NaN);
  if (Number.isNaN(date.getTime())) return h('span', { class: 'quiet' }, '—');
  const text = { full: () => dayTime.format(date), clock: () => clock.format(date), ago: () => relative(date) }[style]();
  const title = style === 'ago' ? `${dayTime.format(date)} (${utc(date)})` : utc(date);
  return h('time', { datetime: date.toISOString(), title }, text);
}

/** One thing or many. @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A word of the API, such as `token_bucket_exceeded`, as words. @param {string} word */
export function words(word) {
  return word.replace(/_/g, ' ');
}
