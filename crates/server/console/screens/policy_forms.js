// Forms for the common edits. Each is one change of one entry by the API, which keeps the comments of the document.

import { all, call, segment } from '../api.js';
import { ask } from '../dialogs.js';
import { button, choice, field, problem, textInput } from '../parts.js';
import { h } from '../view.js';
import { published } from './policy_live.js';

/** @typedef {[name: string, label: string, hint?: string | false | null, options?: (string | [string, string])[]]} Spec a field of a form */
/** @typedef {Record<string, string>} Values */

/** Fields that write what is typed into `values`; their names must differ from those of all others on the screen. @param {Spec[]} specs @param {Values} values @param {() => void} redraw */
export function fields(specs, values, redraw) {
  return h('div', { class: 'fields' }, specs.map(([name, label, hint, options]) => {
    const set = (/** @type {string} */ value) => { values[name] = value; redraw(); };
    const more = name === 'until' ? { type: 'datetime-local' } : name === 'limit' ? { list: 'limit-names' } : {};
    return h('div', { key: name, class: name === 'limit' ? 'wide' : null }, field(label, options ? choice(values[name] ?? '', options, set) : textInput(values[name] ?? '', set, more), { id: `field-${name}`, hint: hint || null }));
  }));
}

/** @param {any} [limit] its numbers are shown @returns {Spec[]} */
function numbers(limit) {
  const windows = ['second', 'minute', 'hour', 'day'];
  return [
    ['rate', 'Rate', limit && `Now ${limit.sustained.rate}.`],
    ['window', 'Per', null, [...new Set([...windows, limit?.sustained.window ?? 'second'])]],
    ['burst', 'Burst', limit?.burst?.capacity ? `Now ${limit.burst.capacity}.` : 'How many at once, in a token bucket.'],
  ];
}

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
function wrongNumbers({ rate, burst }) {
  return [rate, burst || '1'].every((text) => /^[1-9]\d*$/.test(text ?? '')) ? null : 'The rate and the burst are whole numbers of at least 1.';
}

/** The buttons. @param {number} version the one in force @param {() => Promise<void>} load */
export function forms(version, load) {
  /** @param {string} method @param {string} path @param {any} body @param {string} reason */
  const write = async (method, path, body, reason) => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    published((await call(method, path, { body: JSON.stringify(body), type, ifMatch: version, reason })).body, version, load);
  };
  /** @param {string} title @param {Omit<import('../dialogs.js').Question, 'title' | 'confirm'>} question */
  const form = (title, question) => button(title, async () => {
    await ask({ title, confirm: 'Publish', ...question });
    await load();
  });
  /** @param {string} title @param {string} list @param {string} about */
  const gate = (title, list, about) => {
    const values = { who: 'user', value: '', until: '' };
    return form(title, {
      reason: 'needed', body: (redraw) => [h('p', { class: 'quiet' }, about, ' For a moment only, use the screen Key.'), fields(GATE, values, redraw)],
      wrong: () => (values.value.trim() ? null : 'Say who.'),
      run: (reason) => write('POST', list, { [values.who]: values.value.trim(), reason, ...(values.until && { until: new Date(values.until).toISOString() }) }, reason),
    });
  };
  /** @type {Values} */
  const added = { name: '', key: 'user', window: 'second', mode: 'enforce' };
  return [
    form('Change a limit', changeLimit(write)),
    form('Add a limit', {
      body: (redraw) => fields(NEW_LIMIT, added, redraw),
      wrong: () => (added.name ? wrongNumbers(added) : 'Give it a name.'),
      run: (reason) => write('POST', '/limits', {
        name: added.name.trim(), ...(added.path && { match: { path: added.path.trim() } }), key: added.key ? [added.key] : [],
        sustained: { rate: Number(added.rate), window: added.window }, ...(added.burst && { burst: { capacity: Number(added.burst) } }), ...(added.mode === 'shadow' && { mode: 'shadow' }),
      }, reason),
    }),
    gate('Block', '/block', 'Denied before any limit.'), gate('Allow', '/allow', 'Admitted, and counted by no limit.'),
  ];
}

/** @param {(method: string, path: string, body: any, reason: string) => Promise<void>} write */
function changeLimit(write) {
  /** @type {any} */
  let [limits, limit, failure] = [null, null, null];
  /** @type {Values} */
  let values = { limit: '' };
  // A name may be typed before the limits are here.
  const choose = () => {
    if (values.limit === limit?.name) return;
    limit = limits.find((/** @type {any} */ one) => one.name === values.limit);
    if (limit) values = { limit: limit.name, rate: String(limit.sustained.rate), window: limit.sustained.window ?? 'second', burst: String(limit.burst?.capacity ?? '') };
  };
  const load = (/** @type {() => void} */ redraw) => {
    limits = [];
    all('/limits').then((found) => { limits = found.filter((one) => one.sustained); choose(); }, (error) => { failure = error; }).finally(redraw);
  };
  /** @type {Omit<import('../dialogs.js').Question, 'title' | 'confirm'>} */
  const question = {
    body: (redraw) => {
      if (limits === null) load(redraw);
      return [failure && problem(failure), fields([['limit', 'Limit', 'Type to choose.'], ...(limit ? numbers(limit) : [])], values, () => { choose(); redraw(); }), h('datalist', { id: 'limit-names' }, limits?.slice(0, 1_000).map((/** @type {any} */ one) => h('option', { value: one.name })))];
    },
    wrong: () => (limit ? wrongNumbers(values) : 'Choose a limit.'),
    run: (reason) => {
      const isOther = values.burst !== String(limit.burst?.capacity ?? '');
      return write('PATCH', `/limits/${segment(limit.name)}`, {
        sustained: { rate: Number(values.rate), ...(values.window !== (limit.sustained.window ?? 'second') && { window: values.window }) },
        ...(isOther && { burst: values.burst ? { capacity: Number(values.burst), allowance: null } : null }), ...(isOther && limit.preset && { preset: null }),
      }, reason);
    },
  };
  return question;
}
