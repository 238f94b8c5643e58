// Forms for the common edits. Each is one change of one entry by the API, which keeps the comments of the document.

/** @import {Child} from '../types.js' */

import { all, call, segment } from '../api.js';
import { ask } from '../dialogs.js';
import { button, choice, field, problem, textInput } from '../parts.js';
import { h } from '../view.js';
import { published } from './policy_live.js';

/** @typedef {[name: string, label: string, hint?: string | null, options?: (string | [string, string])[]]} Spec a field of a form */
/** @typedef {Record<string, string>} Values */

/** Fields that write what is typed into `values`. @param {Spec[]} specs @param {Values} values @param {string} id @param {() => void} redraw */
export function fields(specs, values, id, redraw) {
  return h('div', { class: 'fields' }, specs.map(([name, label, hint, options]) => {
    const set = (/** @type {string} */ value) => { values[name] = value; redraw(); };
    const control = options ? choice(values[name] ?? '', options, set) : textInput(values[name] ?? '', set, name === 'until' ? { type: 'datetime-local' } : {});
    return h('div', { key: name, class: 'field' }, field(label, control, { id: `${id}-${name}`, hint }));
  }));
}

const WINDOWS = ['second', 'minute', 'hour', 'day'];
/** @param {any} [limit] @returns {Spec[]} */
const numbers = (limit) => [
  ['rate', 'Rate', limit && `Now ${limit.sustained.rate}.`],
  ['window', 'Per', null, [...new Set([...WINDOWS, limit?.sustained.window ?? 'second'])]],
  ...(/** @type {Spec[]} */ (['token_bucket', undefined].includes(limit?.algorithm) ? [['burst', 'Burst', limit?.burst?.capacity ? `Now ${limit.burst.capacity}.` : 'How many at once.']] : [])),
];
/** @type {Spec[]} */
const NEW_LIMIT = [
  ['name', 'Name', 'Such as per-user.'],
  ['key', 'A bucket for', null, [['user', 'each user'], ['ip', 'each address'], ['tenant', 'each tenant'], ['client', 'each client'], ['route', 'each route'], ['', 'all together']]],
  ['path', 'Path', 'Such as /api/**; empty: every path.'], ...numbers(),
  ['mode', 'Mode', null, [['enforce', 'denies'], ['shadow', 'only counts']]],
];
/** @type {Spec[]} */
const GATE = [
  ['who', 'What', null, ['user', 'ip', 'tenant', 'client', 'plan', 'path', 'header:x-api-key']], ['value', 'Is', 'An address may be a range.'],
  ['until', 'Until', 'In your zone; empty: for ever.'],
];

/** @param {Values} values */
function wrong({ rate, burst }) {
  const isWhole = (/** @type {string | undefined} */ text) => /^[1-9]\d*$/.test(text?.trim() ?? '');
  return isWhole(rate) && (!burst || isWhole(burst)) ? null : 'The rate and the burst are whole numbers of at least 1.';
}

/** The buttons. @param {number} version the one in force @param {() => Promise<void>} load */
export function forms(version, load) {
  /** @param {string} method @param {string} path @param {any} body @param {string} reason */
  const write = async (method, path, body, reason) => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    published((await call(method, path, { body: JSON.stringify(body), type, ifMatch: version, reason })).body, version, load);
  };
  /** @param {string} title @param {(redraw: () => void) => Child} body @param {Omit<import('../dialogs.js').Question, 'title' | 'confirm'>} more */
  const form = (title, body, more) => button(title, async () => {
    await ask({ title, confirm: 'Publish', body, ...more });
    await load();
  });
  const id = 'policy-form';
  /** @param {'allow' | 'block'} list @param {string} title @param {string} about */
  const gate = (list, title, about) => {
    const values = { who: 'user', value: '', until: '' };
    return form(title, (redraw) => [h('p', { class: 'quiet' }, about, ' For a moment only, use the screen Key.'), fields(GATE, values, id, redraw)], {
      reason: 'needed', wrong: () => (values.value.trim() ? null : 'Say who.'),
      run: (reason) => write('POST', `/${list}`, { [values.who]: values.value.trim(), reason, ...(values.until && { until: new Date(values.until).toISOString() }) }, reason),
    });
  };
  return [changeLimit(form, write, id), addLimit(form, write, id), gate('block', 'Block', 'Denied before any limit.'), gate('allow', 'Allow', 'Admitted, and counted by no limit.')];
}

/** @typedef {(title: string, body: (redraw: () => void) => Child, more: any) => Child} Form */
/** @typedef {(method: string, path: string, body: any, reason: string) => Promise<void>} Write */

/** @param {Form} form @param {Write} write @param {string} id */
function addLimit(form, write, id) {
  /** @type {Values} */
  const values = { key: 'user', window: 'second', mode: 'enforce' };
  return form('Add a limit', (redraw) => fields(NEW_LIMIT, values, id, redraw), {
    wrong: () => (values.name ? wrong(values) : 'Give it a name.'),
    run: (/** @type {string} */ reason) => {
      const { name, key, path, rate, window, burst, mode } = values;
      return write('POST', '/limits', {
        name: name.trim(), ...(path && { match: { path: path.trim() } }), key: key ? [key] : [], sustained: { rate: Number(rate), window },
        ...(burst && { burst: { capacity: Number(burst) } }), ...(mode === 'shadow' && { mode }),
      }, reason);
    },
  });
}

/** @param {Form} form @param {Write} write @param {string} id */
function changeLimit(form, write, id) {
  /** @type {any} */
  const state = { limits: null, limit: null, failure: null, name: '' };
  /** @type {Values} */
  let values = {};
  const load = (/** @type {() => void} */ redraw) => {
    state.limits = [];
    all('/limits').then((limits) => { state.limits = limits.filter((one) => one.sustained); }, (error) => { state.failure = error; }).finally(redraw);
  };
  return form('Change a limit', (redraw) => {
    if (state.limits === null) load(redraw);
    const choose = (/** @type {string} */ name) => {
      state.name = name;
      state.limit = state.limits.find((/** @type {any} */ one) => one.name === name);
      if (state.limit) values = { rate: String(state.limit.sustained.rate), window: state.limit.sustained.window ?? 'second', burst: String(state.limit.burst?.capacity ?? '') };
      redraw();
    };
    return [
      state.failure && problem(state.failure),
      field('Limit', textInput(state.name, choose, { list: `${id}-names` }), { id, hint: 'Type to choose.' }),
      h('datalist', { id: `${id}-names` }, state.limits?.slice(0, 1_000).map((/** @type {any} */ one) => h('option', { value: one.name }))),
      state.limit && fields(numbers(state.limit), values, id, redraw)];
  }, {
    wrong: () => (state.limit ? wrong(values) : 'Choose a limit.'),
    run: (/** @type {string} */ reason) => {
      const { sustained, burst, preset } = state.limit;
      const isOther = values.burst.trim() !== String(burst?.capacity ?? '');
      return write('PATCH', `/limits/${segment(state.name)}`, {
        sustained: { ...sustained, rate: Number(values.rate), ...(values.window !== (sustained.window ?? 'second') && { window: values.window }) },
        ...(isOther && { burst: values.burst.trim() ? { capacity: Number(values.burst), allowance: null } : null }), ...(isOther && preset && { preset: null }),
      }, reason);
    },
  });
}
