// Which request the screens Key and Try are about: the form, and its place in the address.

/** @import {Child, Context} from '../types.js' */

import { button, choice, field, newId, textInput } from '../parts.js';
import { h } from '../view.js';

/** What a request may have that is a single text and no secret; these are parts of the address. */
export const PLAIN = ['tenant', 'user', 'client', 'ip', 'plan', 'method', 'host', 'path', 'upstream', 'domain'];
/** These may be credentials, so they are in no address. */
const SECRET = ['headers', 'query', 'jwt', 'descriptors'];

/** @typedef {Record<string, any>} Request */

/** @type {[string, string][]} */
const KINDS = [['user', 'User'], ['ip', 'Address'], ['tenant', 'Tenant'], ['client', 'Client'], ['api-key', 'API key'], ['request', 'Whole request']];

/** @type {Record<string, string>} */
const HINTS = {
  user: 'Such as 42, as your identity settings name it.', ip: 'IPv4 or IPv6.', tenant: 'Its id in the policy.', client: 'Such as an app’s id.',
  'api-key': 'Sent as the header x-api-key. It stays in this tab: it is not put into the address.',
  request: 'JSON, as for /v1/check. Every member is optional.',
};

/** What was typed looks like an address. @param {string} text */
export function looksLikeAddress(text) {
  return /^\d{1,3}(\.\d{1,3}){3}$/.test(text) || (text.includes(':') && /^[0-9a-f:.]+$/i.test(text));
}

/** The request in an address; `null` if there is none. @param {URLSearchParams} query @returns {Request | null} */
export function requestOf(query) {
  /** @type {Request} */
  let request = {};
  const whole = query.get('request');
  if (whole !== null) {
    try {
      const parsed = JSON.parse(whole);
      if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) request = parsed;
    } catch {
      // A broken link: the other parts may still say something.
    }
  }
  for (const name of PLAIN) {
    const value = query.get(name);
    if (value) request[name] = value;
  }
  return Object.keys(request).length > 0 ? request : null;
}

/** The query of a request; `null` if it has what may be a credential. @param {Request} request @returns {Record<string, string | null> | null} */
export function queryOf(request) {
  if (SECRET.some((name) => name in request)) return null;
  const isPlain = Object.entries(request).every(([name, value]) => PLAIN.includes(name) && typeof value === 'string');
  /** @type {Record<string, string | null>} */
  const query = Object.fromEntries(PLAIN.map((name) => [name, isPlain ? (request[name] ?? null) : null]));
  query.request = isPlain ? null : JSON.stringify(request);
  return query;
}

/**
 * The form.
 * @param {Context} context
 * @param {(request: Request) => void} wanted is told what to look up
 * @param {string} [action]
 */
export function requestForm(context, wanted, action = 'Look up') {
  const id = newId('key');
  let kind = 'user';
  let isChosen = false;
  let text = '';
  /** @type {Record<string, string>} */
  let more = {};
  /** @type {string | null} */
  let wrong = null;

  /** Shows a request. @param {Request | null} request */
  const set = (request) => {
    wrong = null;
    more = {};
    if (request === null) return;
    const main = ['user', 'ip', 'client', 'tenant'].find((name) => typeof request[name] === 'string');
    const isSimple = main && Object.entries(request).every(([name, value]) => PLAIN.includes(name) && typeof value === 'string');
    kind = isSimple && main ? main : 'request';
    isChosen = true;
    text = kind === 'request' ? JSON.stringify(request, null, 2) : request[kind];
    if (kind !== 'request') for (const [name, value] of Object.entries(request)) if (name !== kind) more[name] = value;
  };

  /** @returns {Request | string} the request, or what is wrong */
  const read = () => {
    const value = text.trim();
    if (!value) return kind === 'request' ? 'Write a request.' : 'Write whom to look up.';
    if (kind !== 'request') {
      const rest = Object.fromEntries(Object.entries(more).filter(([, part]) => part.trim()));
      return kind === 'api-key' ? { headers: { 'x-api-key': value }, ...rest } : { ...rest, [kind]: value };
    }
    try {
      const parsed = JSON.parse(value);
      return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? parsed : 'A request is a JSON object, such as {"user":"42"}.';
    } catch (error) {
      return `This is not JSON: ${error instanceof Error ? error.message : error}`;
    }
  };

  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    const request = read();
    wrong = typeof request === 'string' ? request : null;
    if (typeof request !== 'string') wanted(request);
    context.redraw();
  };
  const typed = (/** @type {string} */ value) => {
    text = value;
    wrong = null;
    if (!isChosen) kind = value.trim().startsWith('{') ? 'request' : looksLikeAddress(value.trim()) ? 'ip' : 'user';
    context.redraw();
  };

  /** @returns {Child} */
  const view = () => h('form', { class: 'card key-form', onsubmit: send, key: 'form', role: 'search', 'aria-label': `${action} a request` },
    h('div', { class: 'key-line' },
      field('What', choice(kind, KINDS, (value) => { kind = value; isChosen = true; context.redraw(); }), { id: `${id}-kind` }),
      kind === 'request'
        ? field('Request', h('textarea', { rows: '5', value: text, spellcheck: 'false', oninput: (/** @type {any} */ event) => typed(event.target.value), key: 'whole' }),
          { id: `${id}-text`, hint: HINTS.request, error: wrong })
        : field('Whom', textInput(text, typed, { type: kind === 'api-key' ? 'password' : 'text', autofocus: true, key: 'one' }),
          { id: `${id}-text`, hint: HINTS[kind], error: wrong }),
      h('div', { class: 'go' }, button(action, null, { look: 'main' }))),
    kind !== 'request' && h('details', { key: 'more', open: Object.keys(more).length > 0 ? true : undefined },
      h('summary', null, 'More about the request'),
      h('div', { class: 'fields' }, PLAIN.filter((name) => name !== kind).map((name) => h('div', { key: name },
        field(name, textInput(more[name] ?? '', (value) => { more[name] = value; }), { id: `${id}-${name}` }))))));
  return { view, set };
}
