// What support does for a client: reset, grant, block, allow, override, and taking each back.

import { ApiProblem, call, post, segment } from '../api.js';
import { ask, tell } from '../dialogs.js';
import { counted, number, when } from '../format.js';
import { choice, field, newId, textInput } from '../parts.js';
import { h } from '../view.js';

/** @import {Request} from './key_request.js' */

/** Descriptors that an entry may name, the ones that identify somebody first. */
const WHO = ['user', 'client', 'ip', 'tenant', 'plan', 'method', 'host', 'path', 'upstream', 'domain'];

/** A name for this attempt, so that a repeated request is not done twice. */
function attempt() {
  return { idempotencyKey: crypto.randomUUID() };
}

/** @param {Request} request @param {string} [limit] the limit; without it all that apply */
export async function reset(request, limit) {
  const once = attempt();
  const isDone = await ask({
    title: limit ? `Make the bucket of ${limit} full again?` : 'Make all buckets of this request full again?', confirm: 'Reset',
    body: () => h('p', null, 'Its tokens are back at once, on every node. This cannot be undone: what was counted is forgotten.'),
    run: async (reason) => warn(await post('/keys/reset', { request, limit, reason: reason || undefined }, once)),
  });
  if (isDone) tell(limit ? `${limit} is full again.` : 'All buckets are full again.');
  return isDone;
}

/** @param {Request} request @param {string} limit @param {number} capacity */
export async function grant(request, limit, capacity) {
  const once = attempt();
  const id = newId('grant');
  let tokens = String(Math.max(1, Math.floor(capacity / 10)));
  const isDone = await ask({
    title: `Give tokens to ${limit}`, confirm: 'Give',
    wrong: () => (/^[1-9]\d*$/.test(tokens) ? null : 'How many must be a whole number from 1.'),
    body: () => field('Tokens', textInput(tokens, (value) => { tokens = value.trim(); }, { inputmode: 'numeric', autofocus: true }),
      { id, hint: `What is above the capacity of ${number(capacity)} is lost. It cannot be taken back.` }),
    run: async (reason) => warn(await post('/keys/grant', { request, limit, tokens: Number(tokens), reason: reason || undefined }, once)),
  });
  if (isDone) tell(`${limit} has got ${counted(Number(tokens), 'token')}, as far as there was room.`);
  return isDone;
}

/** @param {any} answer what was done, and what was not */
function warn(answer) {
  for (const warning of answer?.warnings ?? []) tell(warning);
}

/**
 * Asks whom and until when.
 * @param {Request} request
 * @param {{ withoutEnd: boolean }} options may it be without an end?
 */
function whoAndUntil(request, { withoutEnd }) {
  const id = newId('who');
  const known = WHO.filter((name) => typeof request[name] === 'string');
  /** @type {Set<string>} */
  const chosen = new Set(known.slice(0, 1));
  let ends = '3600';
  let at = '';
  /** @type {[string, string][]} */
  const spans = [['900', '15 minutes'], ['3600', '1 hour'], ['86400', '1 day'], ['604800', '1 week'], ['at', 'at a time …'], ...(withoutEnd ? [/** @type {[string, string]} */ (['never', 'when it is removed'])] : [])];
  return {
    who: () => Object.fromEntries([...chosen].map((name) => [name, request[name]])),
    until: () => (ends === 'never' ? undefined : new Date(ends === 'at' ? at : Date.now() + Number(ends) * 1_000).toISOString()),
    wrong: () => {
      if (known.length === 0) return 'The request names nobody: look up a user, an address or another descriptor first.';
      if (chosen.size === 0) return 'Choose at least one descriptor.';
      return ends === 'at' && !(new Date(at).getTime() > Date.now()) ? 'Choose a time in the future.' : null;
    },
    view: (/** @type {() => void} */ redraw) => [
      h('fieldset', null, h('legend', null, 'Whom (all that are chosen must hold)'), known.map((name) => h('label', { class: 'check', key: name }, h('input', {
        type: 'checkbox', checked: chosen.has(name),
        onchange: () => { chosen.has(name) ? chosen.delete(name) : chosen.add(name); redraw(); },
      }), ` ${name} = `, h('b', null, request[name]), ' '))),
      h('div', { class: 'fields' },
        field('Ends', choice(ends, spans, (value) => { ends = value; redraw(); }), { id: `${id}-ends` }),
        ends === 'at' && field('At', h('input', { type: 'datetime-local', value: at, oninput: (/** @type {any} */ event) => { at = event.target.value; } }), { id: `${id}-at`, hint: 'Your local time.' })),
    ],
  };
}

/** @param {'block' | 'allow'} kind @param {Request} request */
export async function gate(kind, request) {
  const once = attempt();
  const asked = whoAndUntil(request, { withoutEnd: true });
  /** @type {any} */
  let made = null;
  const isDone = await ask({
    title: kind === 'block' ? 'Block this client' : 'Exempt this client from limits', confirm: kind === 'block' ? 'Block' : 'Allow', isDangerous: kind === 'block',
    reason: 'needed', wrong: asked.wrong,
    body: (redraw) => [
      h('p', { class: 'quiet' }, kind === 'block' ? 'Every request of it is denied, whatever the policy says, on every node within a second.'
        : 'No limit denies its requests, on every node within a second. Blocks still do.'),
      asked.view(redraw)],
    run: async (reason) => { made = await post(`/keys/${kind}`, { who: asked.who(), until: asked.until(), reason }, once); },
  });
  if (isDone) tell(kind === 'block' ? 'It is blocked.' : 'It is exempt from limits.', { undo: () => call('DELETE', `/keys/live/${segment(made.id)}`, { reason: 'undone' }) });
  return isDone;
}

/** @param {Request} request @param {string} limit @param {string} numbers what it has now, in words */
export async function override(request, limit, numbers) {
  const once = attempt();
  const id = newId('override');
  const asked = whoAndUntil(request, { withoutEnd: false });
  let multiplier = '2';
  /** @type {any} */
  let made = null;
  const isDone = await ask({
    title: `Override ${limit}`, confirm: 'Override', reason: 'needed',
    wrong: () => (Number(multiplier) >= 0.01 && Number(multiplier) <= 100 ? asked.wrong() : 'The factor must be from 0.01 to 100.'),
    body: (redraw) => [
      h('p', { class: 'quiet' }, `Now: ${numbers}. For a while, its rate and its capacity are multiplied; limits of the tenants above still bind.`),
      field('Factor', textInput(multiplier, (value) => { multiplier = value.trim(); }, { inputmode: 'decimal' }), { id, hint: 'From 0.01 to 100; 2 doubles it.' }),
      asked.view(redraw)],
    run: async (reason) => {
      made = await post('/overrides', { who: asked.who(), limit, multiplier: Number(multiplier), until: asked.until(), reason }, once);
    },
  });
  if (isDone) tell(`${limit} is overridden.`, { undo: () => call('DELETE', `/overrides/${segment(made.id)}`, { reason: 'undone' }) });
  return isDone;
}

/** Ends a block, an exemption or an override. @param {any} entry */
export async function end(entry) {
  const isOverride = !['block', 'allow'].includes(entry.kind);
  const path = isOverride ? '/overrides' : '/keys/live';
  const isDone = await ask({
    title: `End this ${isOverride ? 'override' : entry.kind === 'block' ? 'block' : 'exemption'}?`, confirm: 'End it',
    body: () => h('p', null, 'It was made by ', entry.author ?? 'somebody', ' ', when(entry.created, 'ago'), entry.reason && `: ${entry.reason}`, '.'),
    run: (reason) => call('DELETE', `${path}/${segment(entry.id)}`, { reason }),
  });
  // Values that are masked cannot be written again.
  const isMasked = JSON.stringify(entry.who ?? {}).includes('…#');
  if (isDone) tell('It has ended.', isMasked ? {} : { undo: () => again(entry, isOverride) });
  return isDone;
}

/** @param {any} entry @param {boolean} isOverride */
function again(entry, isOverride) {
  const { who, until, limit, multiplier, sustained, burst } = entry;
  const reason = entry.reason ?? 'undone';
  return isOverride ? post('/overrides', { who, limit, multiplier, sustained, burst, until, reason }) : post(`/keys/${entry.kind}`, { who, until, reason });
}

/** Lifts the penalty of a burst detector. @param {any} penalty */
export async function lift(penalty) {
  const isDone = await ask({
    title: `Lift the ${penalty.kind} of ${penalty.detector}?`, confirm: 'Lift it',
    body: () => h('p', null, 'The client may go on at once. Another burst brings it back. This cannot be undone.'),
    run: (reason) => call('DELETE', `/penalties/${segment(penalty.id)}`, { reason }).catch((error) => {
      // It has ended by itself meanwhile.
      if (!(error instanceof ApiProblem && error.status === 404)) throw error;
    }),
  });
  if (isDone) tell('The penalty is lifted.');
  return isDone;
}
