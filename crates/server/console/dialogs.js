// Questions that must be answered before something is done, and short messages after it was done.

/** @import {Child} from './types.js' */

import { button, field, newId, problem, textInput } from './parts.js';
import { h, render } from './view.js';

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {(redraw: () => void) => Child} [body] further fields; it is called again after each `redraw`
 * @property {string} confirm the word on the button
 * @property {boolean} [isDangerous]
 * @property {'wanted' | 'needed' | 'none'} [reason] is a reason asked for?
 * @property {(reason: string) => Promise<unknown>} run does it; if it throws, the dialog stays open and shows why
 * @property {() => string | null} [wrong] what is still wrong with the fields
 */

/**
 * Asks, and does it. Says whether it was done.
 * @param {Question} question
 * @returns {Promise<boolean>}
 */
export function ask(question) {
  return new Promise((resolve) => {
    let reason = '';
    let isBusy = false;
    /** @type {unknown} */
    let failure = null;
    const id = newId('dialog');
    const dialog = openDialog(() => resolve(false), id);

    const run = async (/** @type {Event} */ event) => {
      event.preventDefault();
      const wrong = question.wrong?.() ?? (question.reason === 'needed' && !reason.trim() ? 'Say why: it is kept in the audit.' : null);
      failure = wrong;
      if (wrong === null) {
        isBusy = true;
        draw();
        try {
          await question.run(reason.trim());
          dialog.done();
          resolve(true);
          return;
        } catch (error) {
          failure = error;
        }
        isBusy = false;
      }
      draw();
    };
    const draw = () => render(dialog.element, h('form', { method: 'dialog', onsubmit: run },
      h('h2', { id }, question.title),
      question.body?.(draw),
      (question.reason ?? 'wanted') !== 'none' && field('Reason', textInput(reason, (value) => { reason = value; }, { maxlength: '1024' }),
        { id: `${id}-reason`, wide: true, hint: question.reason === 'needed' ? 'Kept in the audit.' : 'Kept in the audit; may be empty.' }),
      typeof failure === 'string' ? h('p', { class: 'wrong', role: 'alert' }, failure) : failure !== null && problem(failure),
      h('div', { class: 'buttons' },
        button('Cancel', () => dialog.cancel(), { look: 'quiet' }),
        button(question.confirm, null, { look: question.isDangerous ? 'danger' : 'main', isBusy }))));
    draw();
  });
}

/**
 * Shows something until it is closed.
 * @param {string} title
 * @param {(redraw: () => void) => Child} body
 * @returns {Promise<void>}
 */
export function show(title, body) {
  return new Promise((resolve) => {
    const id = newId('dialog');
    const dialog = openDialog(() => resolve(), id);
    const draw = () => render(dialog.element, h('form', { method: 'dialog' },
      h('h2', { id }, title), body(draw),
      h('div', { class: 'buttons' }, button('Close', () => dialog.cancel(), { look: 'main', more: { autofocus: true } }))));
    draw();
  });
}

/**
 * A dialog above the page. The browser keeps the focus in it, and gives it back.
 * @param {() => void} cancelled
 * @param {string} labelledBy
 */
function openDialog(cancelled, labelledBy) {
  const element = document.createElement('dialog');
  element.setAttribute('aria-labelledby', labelledBy);
  let isDone = false;
  element.addEventListener('close', () => {
    element.remove();
    if (!isDone) cancelled();
  });
  document.body.append(element);
  // What it shows must be there before the browser looks for something to focus.
  queueMicrotask(() => element.showModal());
  return {
    element,
    cancel: () => element.close(),
    done: () => {
      isDone = true;
      element.close();
    },
  };
}

/** @typedef {{ id: number, text: string, undo?: () => Promise<unknown> }} Message */
/** @type {Message[]} */
let messages = [];
/** @type {HTMLElement | null} */
let place = null;

/**
 * Says that something was done; with `undo`, how to take it back. It stays for ten seconds, longer while it is pointed at.
 * @param {string} text
 * @param {{ undo?: () => Promise<unknown> }} [options]
 */
export function tell(text, { undo } = {}) {
  const message = { id: Math.random(), text, undo };
  messages = [...messages.slice(-3), message];
  drawMessages();
  const leave = () => {
    if (place?.matches(':hover, :focus-within')) setTimeout(leave, 2_000);
    else forget(message);
  };
  setTimeout(leave, 10_000);
}

/** @param {Message} message */
function forget(message) {
  messages = messages.filter((other) => other !== message);
  drawMessages();
}

function drawMessages() {
  if (place === null) {
    place = document.createElement('div');
    place.className = 'messages';
    place.setAttribute('role', 'status');
    document.body.append(place);
  }
  render(place, messages.map((message) => h('div', { class: 'message', key: message.id },
    h('span', null, message.text),
    message.undo && button('Undo', async () => {
      forget(message);
      try {
        await message.undo?.();
        tell('Undone.');
      } catch (error) {
        tell(`It could not be undone: ${error instanceof Error ? error.message : String(error)}`);
      }
    }, { look: 'quiet' }),
    button('×', () => forget(message), { look: 'quiet', label: 'Close this message' }))));
}
