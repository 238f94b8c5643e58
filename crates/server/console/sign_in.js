// The form to sign in: a page of its own at first, and above the open screen when a session has ended.

import { button, command, field, problem } from './parts.js';
import { session, signIn } from './session.js';
import { h } from './view.js';

/** @param {() => void} redraw */
export function signInForm(redraw) {
  let token = '';
  let isBusy = false;
  /** @type {unknown} */
  let failure = null;

  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    isBusy = true;
    failure = null;
    redraw();
    try {
      await signIn(token.trim());
      token = '';
    } catch (error) {
      failure = error;
    }
    isBusy = false;
    redraw();
  };

  return () => h('form', { class: 'sign-in', onsubmit: send },
    field('Token', h('input', {
      type: 'password', value: token, required: true, autocomplete: 'current-password', autofocus: true, spellcheck: 'false',
      oninput: (/** @type {any} */ event) => { token = event.target.value; },
    }), { id: 'token', wide: true, hint: 'It begins with tga_, or it is auth.admin_token of the settings.' }),
    failure !== null && h('div', { key: 'failure' }, problem(failure)),
    h('div', { class: 'buttons' }, button('Sign in', null, { look: 'main', isBusy })));
}

/** @param {() => void} redraw */
export function signInScreen(redraw) {
  const form = signInForm(redraw);
  return {
    view: () => h('main', { class: 'welcome' },
      h('h1', null, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'Tidegate'),
      h('p', null, 'See what is limited and why, and change it.'),
      form(),
      h('details', null, h('summary', null, 'Where do I get a token?'),
        h('p', null, 'The server prints an admin token when it starts: at every start without a database, and once with a new one. Look at its output.'),
        h('p', null, 'With a database, this makes another:'),
        command('tidegate token create --role viewer --data DIR'))),
  };
}

/** Above the open screen, after the session has ended. @param {() => void} redraw */
export function signInAgain(redraw) {
  const form = signInForm(redraw);
  return () => h('div', null,
    h('h2', { id: 'again' }, 'Your session has ended'),
    h('p', null, `Sign in again${session.who ? ` as ${session.who.actor}` : ''} to go on. What you have typed is still there.`),
    form());
}
