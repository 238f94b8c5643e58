// A decision and why it is so, as `/explain` and `/keys/lookup` tell it. Used by the screens Key and Try.

/** @import {Child} from './types.js' */

import { duration, number, words } from './format.js';
import { badge, bar } from './parts.js';
import { h } from './view.js';

/** @typedef {any} Decision a decision of the API */
/** @typedef {any} Explanation what `/explain` answers */

/** One sentence: admitted or denied, by what, and when to try again. @param {Decision} decision */
export function verdict(decision) {
  const { allowed, reason } = decision;
  const tone = allowed ? 'good' : 'bad';
  return h('p', { class: `verdict ${tone}` },
    badge(tone, allowed ? 'Admitted' : 'Denied'), ' ',
    allowed ? admittedBecause(decision) : [
      decision.violated_rule ? ['by ', h('code', null, decision.violated_rule), ': '] : '', words(reason), waiting(decision)],
    decision.degraded && [' ', badge('warn', 'without the shared store')],
    decision.shadow_denied?.length > 0 && h('span', { class: 'quiet' }, ' Limits in shadow mode would deny: ', decision.shadow_denied.join(', '), '.'));
}

/** @param {Decision} decision */
function admittedBecause({ reason, limit, remaining }) {
  if (reason !== 'ok') return words(reason);
  return limit < 0 ? 'no limit applies' : `${number(remaining)} of ${number(limit)} left in the tightest bucket`;
}

/** @param {Decision} decision */
function waiting({ retry_after_ms: wait }) {
  if (wait === null || wait === undefined) return '; waiting does not help';
  return wait > 0 ? `; try again in ${duration(wait)}` : '';
}

/** Why it is so; `verdict` says what. @param {Explanation} explanation */
export function explained(explanation) {
  const limits = explanation.limits ?? [];
  const applying = limits.filter((/** @type {any} */ limit) => limit.applies || limit.why_not === null);
  const others = limits.filter((/** @type {any} */ limit) => !applying.includes(limit));
  return h('div', { class: 'explanation' },
    requestLine(explanation.request),
    explanation.gate && gateLine(explanation.gate),
    explanation.unknown_tenant && h('p', null, 'The policy does not know the tenant ', h('code', null, explanation.unknown_tenant), '.'),
    (explanation.bursts ?? []).length > 0 && [h('h3', null, 'Burst detectors'), h('ul', null, explanation.bursts.map(burstLine))],
    applying.length > 0 && [h('h3', null, 'Limits that apply'), h('ol', null, applying.map(limitLine))],
    (explanation.tenants ?? []).length > 0 && [h('h3', null, 'Tenants, from the root down'), h('ol', null, explanation.tenants.map(tenantLine))],
    explanation.contended && h('p', null, 'The request is denied by an ancestor, ', h('code', null, explanation.contended), ', and not by the tenant’s own limit.'),
    others.length > 0 && h('details', null, h('summary', null, `${number(others.length)} that do not apply`), h('ul', null, others.map(limitLine))));
}

/** @param {any} request */
function requestLine(request) {
  if (!request) return null;
  const told = [
    request.route && `route ${request.route}${request.route_cost ? `, which costs ${number(request.route_cost)}` : ''}`,
    request.upstream && `upstream ${request.upstream}`, request.cost !== 1 && `cost times ${number(request.cost)}`,
    request.priority !== null && request.priority !== undefined && `priority ${request.priority}`,
  ].filter(Boolean);
  return told.length > 0 && h('p', { class: 'quiet' }, told.join('; '));
}

/** @param {any} gate */
function gateLine(gate) {
  if (gate.list === 'kill_switch') return h('p', null, 'The kill switch is on, so every request is admitted', gate.reason && ` — ${gate.reason}`, '. Nothing is taken from any limit.');
  return h('p', null, 'Decided before any limit: it is in ', h('code', null, gate.list), gate.line ? ` (line ${gate.line} of the policy)` : ' (a live entry)',
    (gate.match ?? []).length > 0 && [': ', gate.match.join(', ')], gate.reason && ` — ${gate.reason}`, '. Nothing is taken from any limit.');
}

/** @param {any} burst */
function burstLine(burst) {
  const state = burst.missing ? badge('none', 'not watched') : burst.blocked_for_ms ? badge('bad', 'blocks') : badge('good', 'watches');
  return h('li', null, state, ' ', h('code', null, burst.name), ` more than ${number(burst.threshold)} in ${duration(burst.window_ms)}`,
    burst.missing && `; the request has no ${burst.missing}`, burst.blocked_for_ms && `; for another ${duration(burst.blocked_for_ms)}`);
}

/** The key of a bucket. @param {any} bucket @param {boolean} [isTenants] is it a tenant's own? @returns {Child} */
export function bucketKey(bucket, isTenants = false) {
  if (bucket.shared) return 'one bucket for all requests without the key';
  if (bucket.key.length === 0) return isTenants ? 'one bucket for the tenant' : 'one bucket for all requests';
  return bucket.key.map((/** @type {any} */ part, /** @type {number} */ index) => [index > 0 && ', ', `${part.descriptor} = `, h('b', null, part.value)]);
}

/** @param {any} limit */
function limitLine(limit) {
  const { bucket } = limit;
  const conditions = [...(limit.match ?? []), ...(limit.unless ?? []).map((/** @type {string} */ one) => `unless ${one}`)];
  return h('li', null,
    standing(bucket), ' ', h('code', null, limit.name), limit.line ? h('span', { class: 'quiet' }, ` line ${limit.line}`) : null,
    bucket?.mode === 'shadow' && [' ', badge('warn', 'shadow')],
    limit.why_not && h('div', { class: 'quiet' }, limit.why_not),
    bucket && [
      conditions.length > 0 && h('div', { class: 'quiet' }, 'for ', conditions.join(', ')),
      bucketLines(bucket)]);
}

/** @param {any} tenant */
function tenantLine(tenant) {
  return h('li', null, standing(tenant.bucket), ' ', h('code', null, tenant.name), tenant.part && h('span', { class: 'quiet' }, ` ${tenant.part}`),
    tenant.bucket ? bucketLines(tenant.bucket, true) : tenant.effective && h('div', { class: 'quiet' }, tenant.effective));
}

/** @param {any} bucket */
function standing(bucket) {
  if (!bucket) return badge('none', 'not counted');
  return bucket.answer.allowed ? badge('good', 'enough') : badge('bad', 'not enough');
}

/** The arithmetic. @param {any} bucket @param {boolean} [isTenants] */
function bucketLines(bucket, isTenants) {
  const { before, answer, cost } = bucket;
  return h('div', { class: 'arithmetic' },
    h('div', null, bucket.limit, bucket.trust_hundredths !== null && bucket.trust_hundredths !== undefined && ` at a trust of ${bucket.trust_hundredths / 100}`, '; ', bucketKey(bucket, isTenants)),
    bar(before.limit > 0 ? before.remaining / before.limit : 0, { label: 'Left before this request', tone: answer.allowed ? 'good' : 'bad' }),
    h('div', null, `holds ${number(before.remaining)} of ${number(before.limit)}, the request needs ${number(cost)}`,
      bucket.cost_from && bucket.cost_from !== String(cost) && h('span', { class: 'quiet' }, ` (${bucket.cost_from})`),
      !answer.allowed && answer.retry_after_ms > 0 && `; enough in ${duration(answer.retry_after_ms)}`));
}
