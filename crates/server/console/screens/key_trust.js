// The trust in a user: its score, what that is the sum of, and the facts about the account.

/** @import {Context} from '../types.js' */
/** @import {Request} from './key_request.js' */

import { ApiProblem, call, get, segment } from '../api.js';
import { ask, tell } from '../dialogs.js';
import { counted, number, share } from '../format.js';
import { bar, button, card, choice, facts, field, newId, problem, textInput } from '../parts.js';
import { has } from '../roles.js';
import { h } from '../view.js';

/** @param {Context} context @param {() => void} changed is told that facts have changed */
export function trust(context, changed) {
  const { who, redraw, closed } = context;
  let user = '';
  /** @type {any} */
  let found = null;
  /** @type {unknown} */
  let failure = null;
  // Users are not of one tenant, so a token that is restricted to one may not see this.
  let isOff = Boolean(who.tenant);

  const load = async () => {
    const asked = user;
    if (!asked || isOff) return;
    try {
      const answer = await get(`/trust/${segment(asked)}`, {}, closed);
      if (asked === user) [found, failure] = [answer, null];
    } catch (error) {
      // The settings of the server have no trust.
      if (error instanceof ApiProblem && error.status === 409) isOff = true;
      else if (asked === user && !closed.aborted) failure = error;
    }
    redraw();
  };
  const again = async () => {
    changed();
    await load();
  };
  const change = async () => {
    if (await askForFacts(found, again)) await again();
  };
  return {
    load,
    /** @param {Request | null} next */
    show: (next) => {
      if (next?.user !== user) [found, failure] = [null, null];
      user = typeof next?.user === 'string' ? next.user : '';
      void load();
    },
    view: () => {
      if (isOff || !user || (found === null && failure === null)) return null;
      return card('Trust', { key: 'trust', actions: found && button('Change the facts', change, { disabled: !has(who, 'operator') && 'Operators may do this' }) },
        failure !== null ? problem(failure, { retry: () => void load() }) : score(found));
    },
  };
}

/** @param {any} found */
function score({ known, score: sum, terms, inputs, outcomes, applied }) {
  const told = outcomes.successes + outcomes.failures;
  return [
    h('p', { class: 'about' }, !known ? 'Nothing is known about this account: limits are as the policy has them.'
      : applied ? 'It scales the rate and the capacity of limits.' : 'The policy does not use it: that needs adaptive: { trust: true }.'),
    known && h('div', { class: 'stack' }, bar(sum, { label: 'Trust', tone: 'info' }), facts(['Score', sum.toFixed(2)],
      ['Age of the account', `${signed(terms.account_age)} for ${counted(inputs.account_age_days, 'day')}`],
      ['Email address', `${signed(terms.email_verified)}, ${inputs.email_verified ? 'verified' : 'not verified'}`],
      ['Success', `${signed(terms.success_rate)} for ${share(inputs.success_rate)}${told > 0 ? ` of ${counted(told, 'outcome')}` : ''}`],
      ['Violations', `${signed(terms.violations)} for ${number(inputs.violations_30d)} in 30 days`])),
  ];
}

/** @param {number} term of a score */
function signed(term) {
  return `${term < 0 ? '−' : '+'}${Math.abs(term).toFixed(2)}`;
}

/** Replaces the facts that were told by the API. @param {any} found @param {() => Promise<void>} undone */
async function askForFacts({ user, facts: before }, undone) {
  const id = newId('trust');
  let [created, verified, rate] = [before.created?.slice(0, 10) ?? '', String(before.email_verified ?? ''), String(before.success_rate ?? '')];
  const tellFacts = (/** @type {any} */ body, /** @type {string} */ reason) => call('PUT', `/trust/${segment(user)}`, { body, reason });
  const isDone = await ask({
    title: `What is known about ${user}`, confirm: 'Save',
    wrong: () => (rate === '' || (Number(rate) >= 0 && Number(rate) <= 1) ? null : 'The success rate is from 0 to 1.'),
    body: (redraw) => h('div', { class: 'fields' },
      field('Account made on', h('input', { type: 'date', value: created, onchange: (/** @type {any} */ event) => { created = event.target.value; } }), { id: `${id}-created` }),
      field('Email address', choice(verified, [['', 'not known'], ['true', 'verified'], ['false', 'not verified']], (value) => { verified = value; redraw(); }), { id: `${id}-email` }),
      field('Success rate', textInput(rate, (value) => { rate = value.trim(); }, { inputmode: 'decimal' }), { id: `${id}-rate`, hint: 'From 0 to 1. Outcomes that programs tell count instead.' })),
    run: (reason) => tellFacts({
      ...(created && { created: created === before.created?.slice(0, 10) ? before.created : `${created}T00:00:00Z` }),
      ...(verified && { email_verified: verified === 'true' }), ...(rate && { success_rate: Number(rate) }),
    }, reason),
  });
  if (isDone) tell('It is saved.', { undo: async () => { await tellFacts(before, 'undone'); await undone(); } });
  return isDone;
}
