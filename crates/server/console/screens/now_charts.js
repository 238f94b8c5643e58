// The charts of the last hour on the screen Now.

/** @import {History} from '../types.js' */

import { chart } from '../chart.js';
import { micros, rate } from '../format.js';
import { card } from '../parts.js';
import { h } from '../view.js';

const TONES = ['a', 'b', 'c', 'd', 'e'];

/**
 * All steps of the last hour: those in which no node ran are missing in what the server sends. Of a step that goes on, other nodes
 * have written nothing yet, so it is shown only if there is one node.
 * @param {History} history
 * @param {number} at when it was loaded
 * @param {boolean} isAlone
 */
function steps(history, at, isAlone) {
  const step = history.step_seconds * 1_000;
  const known = new Map(history.steps.map((one) => [new Date(one.time).getTime(), one]));
  const going = Math.floor(at / step) * step;
  const last = isAlone ? going : going - step;
  const times = Array.from({ length: Math.round(3_600_000 / step) }, (_, index) => last - 3_600_000 + (index + 1) * step);
  const lengths = times.map((time) => (time === going ? Math.max(1, (at - going) / 1_000) : history.step_seconds));
  return { times, points: times.map((time) => known.get(time) ?? null), lengths };
}

/**
 * The limits that denied the most in the last hour, and all others together.
 * @param {ReturnType<typeof steps>} hour
 */
function denials(hour) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const point of hour.points) {
    for (const [name, { denied }] of Object.entries(point?.limits ?? {})) sums.set(name, (sums.get(name) ?? 0) + denied);
  }
  const ranked = [...sums].filter(([, sum]) => sum > 0).sort((one, other) => other[1] - one[1]).map(([name]) => name);
  const named = ranked.slice(0, TONES.length);
  const of = (/** @type {string[]} */ names) => hour.points.map((point, index) => point
    && names.reduce((sum, name) => sum + (point.limits[name]?.denied ?? 0), 0) / hour.lengths[index]);
  const series = named.map((name, index) => ({ name, tone: TONES[index], values: of([name]) }));
  const others = ranked.slice(TONES.length);
  return others.length > 0 ? [...series, { name: 'other limits', tone: 'rest', values: of(others) }] : series;
}

/** @param {History} history @param {{ isRestricted: boolean, at: number, isAlone: boolean }} view */
export function charts(history, { isRestricted, at, isAlone }) {
  const hour = steps(history, at, isAlone);
  const { times, points, lengths } = hour;
  const denied = denials(hour);
  return [
    !isRestricted && card('Decisions, the last hour', { key: 'decisions' }, chart({
      label: 'Decisions for each second in the last hour', times, kind: 'stacked', format: rate,
      series: [
        { name: 'admitted', tone: 'allowed', values: points.map((point, index) => point && (point.allowed ?? 0) / lengths[index]) },
        { name: 'denied', tone: 'denied', values: points.map((point, index) => point && (point.denied ?? 0) / lengths[index]) },
      ],
    })),
    card('Denials by limit, the last hour', { key: 'denials' }, denied.length === 0
      ? h('p', { class: 'quiet' }, 'No limit denied anything in the last hour.')
      : chart({ label: 'Denials for each second by limit in the last hour', times, kind: 'stacked', format: rate, series: denied })),
    !isRestricted && card('How long decisions take, the last hour', { key: 'times' }, chart({
      label: 'How long decisions took in the last hour', times, kind: 'lines', format: micros, height: 160,
      series: [
        { name: 'p50', tone: 'c', values: points.map((point) => point?.decision_time_us?.p50 ?? null) },
        { name: 'p99', tone: 'e', values: points.map((point) => point?.decision_time_us?.p99 ?? null) },
      ],
    })),
  ];
}
