// Policy: the document in an editor, forms for the common edits, versions, and candidates that run beside the policy in force.

/** @import {Child, Context, Opened, Screen} from '../types.js' */
/** @import {Problem} from './policy_editor.js' */

import { call, get } from '../api.js';
import { ask } from '../dialogs.js';
import * as drafts from '../drafts.js';
import { counted } from '../format.js';
import { badge, button, card, link, notice } from '../parts.js';
import { has } from '../roles.js';
import { address } from '../router.js';
import { h } from '../view.js';
import { candidates, foundBy, startCandidate } from './policy_candidates.js';
import { diffView, unified } from './policy_diff.js';
import { editor } from './policy_editor.js';
import { forms } from './policy_forms.js';
import { loading, policyInForce, published, sent } from './policy_live.js';
import { versions } from './policy_versions.js';

/** @typedef {{ text: string, base: number, candidate?: string }} Draft what was typed, the version that it began with, and the candidate that it was */

/** How long after the last key the draft is kept and checked. */
const PAUSE_MS = 400;

/** @param {Context} context @returns {Opened} */
function open(context) {
  /** @type {Record<string, ReturnType<typeof documentPart>>} */
  const parts = { document: documentPart(context), versions: versions(context), candidates: candidates(context) };
  const part = () => parts[context.query.get('view') ?? ''] ?? parts.document;
  void part().load();
  return {
    changed: () => void part().load(),
    resumed: () => void part().load(),
    closed: () => Object.values(parts).forEach(({ closed }) => closed()),
    view: () => h('div', { class: 'stack' },
      h('div', { class: 'tabs', role: 'navigation', 'aria-label': 'Parts of the policy' }, Object.keys(parts).map((name) => h('a', {
        href: address('policy', { view: name === 'document' ? null : name }), 'aria-current': parts[name] === part() ? 'page' : null,
      }, name[0].toUpperCase() + name.slice(1)))),
      part().view()),
  };
}

/** The document with its editor. @param {Context} context @returns {{ load: () => Promise<void>, view: () => Child, closed: () => void }} */
function documentPart(context) {
  const { who, redraw, closed } = context;
  /** @type {any} */
  let live = null;
  /** @type {Draft | null} */
  let draft = drafts.load('policy');
  /** @type {{ valid: boolean, problems: Problem[] }} */
  let checked = { valid: true, problems: [] };
  /** @type {any} */
  let [schema, element, timer, isKept, asked] = [null, null, 0, true, 0];

  const keep = () => {
    clearTimeout(timer);
    isKept = drafts.save('policy', draft);
  };
  const check = async () => {
    const number = (asked += 1);
    keep();
    const { body } = await call('POST', '/validate', { ...sent(draft?.text ?? live.text), signal: closed });
    if (number === asked) checked = body;
  };
  const { load: loadOnce, shown } = loading(context, async () => {
    [live, schema] = await Promise.all([policyInForce(closed), schema ?? get('/schema', {}, closed)]);
    if (draft?.text === live.text) draft = null;
  });
  // It is seen before it is checked, which takes a while if it is long.
  const load = () => loadOnce().then(() => live && loadOnce(check));
  /** @param {string} text */
  const typed = (text) => {
    draft = text === live.text ? null : { text, base: draft?.base ?? live.version };
    clearTimeout(timer);
    timer = setTimeout(() => void loadOnce(check), PAUSE_MS);
    redraw();
  };
  const discard = () => ask({ ...DISCARD, run: () => { draft = null; return load(); } });
  const publish = async () => {
    await load();
    if (draft !== null) await askToPublish(draft, live, checked.problems, (done) => { draft = null; published(done, live.version, load); });
    await load();
  };
  const actions = () => {
    const [disabled, text] = [!checked.valid && 'Correct the errors first', draft?.text ?? ''];
    return draft === null ? forms(live.version, load) : [
      button('Discard', discard, { look: 'quiet' }),
      button('Try', () => context.go('try', { b: 'draft' })),
      button('Run as candidate', async () => {
        const candidate = await startCandidate(text);
        if (!candidate || !draft) return;
        draft = { ...draft, candidate };
        keep();
        context.go('policy', { view: 'candidates', id: candidate });
      }, { disabled }),
      button('Review and publish', publish, { look: 'main', disabled }),
    ];
  };
  const view = () => shown('policy', () => {
    const why = has(who, 'editor') ? live.readOnly : 'editors may change it. Values that may be secrets are hidden';
    const shownDraft = why === null ? draft : null;
    return [
      why !== null && notice('info', 'Read only', `${why[0].toUpperCase()}${why.slice(1)}.`),
      shownDraft && shownDraft.base !== live.version && stale(shownDraft.base, live.version),
      !isKept && notice('warn', 'This browser cannot keep a draft of this length', 'Publish it, or copy it elsewhere, before you leave.'),
      card(shownDraft ? 'Draft' : `Version ${live.version}`, {
        key: 'document', actions: why === null && actions(), about: why === null && 'Type, and it is checked. Ctrl+Space shows what fits at the cursor. A draft stays in this browser until it is published.',
      }, editor({ text: shownDraft?.text ?? live.text, problems: checked.problems, isReadOnly: why !== null, schema, changed: typed }, (made) => { element = made; }),
      problemList(checked.problems, (one) => element.goTo(one.line ?? 1, one.column ?? 1))),
    ];
  });
  return { load, view, closed: keep };
}

/** @type {Omit<import('../dialogs.js').Question, 'run'>} */
const DISCARD = { title: 'Discard the draft', confirm: 'Discard', isDangerous: true, reason: 'none', body: () => 'What you have changed is lost.' };

/** @param {number} base @param {number} version */
function stale(base, version) {
  return notice('warn', `Version ${version} is in force, and your draft began with version ${base}`,
    h('p', null, link(address('policy', { view: 'versions', from: String(base), to: String(version) }), 'See what has changed'), ' before you publish.'));
}

/** Shows what a draft changes, and publishes it. @param {Draft} draft @param {{ text: string, version: number }} live @param {Problem[]} warnings @param {(done: any) => void} done */
async function askToPublish({ text, base, candidate }, live, warnings, done) {
  const found = candidate ? await foundBy(candidate).catch(() => null) : null;
  await ask({
    title: 'Publish the draft', confirm: 'Publish',
    body: () => [
      base !== live.version && notice('warn', `Version ${live.version} was published after you began`, 'Publishing takes back what it has and your draft has not.'),
      warnings.length > 0 && notice('warn', counted(warnings.length, 'warning'), warnings.slice(0, 5).map((one) => `Line ${one.line}: ${one.message}`).join('; ')),
      diffView(unified(live.text, text)),
      h('p', null, found ?? 'Who would be denied newly? Cancel, and run it as a candidate beside the policy, or try it with a trace.'),
    ],
    run: async (reason) => done((await call('PUT', '/policy', { ...sent(text), ifMatch: live.version, reason })).body),
  });
}

/** @param {Problem[]} problems @param {(one: Problem) => void} goTo */
function problemList(problems, goTo) {
  const warnings = problems.filter(({ severity }) => severity === 'warning');
  const errors = problems.filter((one) => !warnings.includes(one));
  return [
    h('div', { class: 'row-actions checked', role: 'status' },
      errors.length > 0 ? badge('bad', counted(errors.length, 'error')) : badge('good', 'Valid'), warnings.length > 0 && badge('warn', counted(warnings.length, 'warning'))),
    h('ul', { class: 'problems' }, [...errors, ...warnings].slice(0, 100).map((one) => h('li', null,
      h('button', { type: 'button', onclick: () => goTo(one) }, h('b', { class: warnings.includes(one) ? 'warn' : 'bad' }, `Line ${one.line ?? 1}`),
        h('span', null, one.path && h('code', null, one.path), ` ${one.message}`, one.hint && h('small', null, one.hint)))))),
  ];
}

/** @type {Screen} */
export const policy = {
  name: 'policy', title: 'Policy', about: 'read it, change it, publish it, take it back', shortcut: 'p', isFor: (who) => !who.tenant,
  icon: 'M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5', open,
};
