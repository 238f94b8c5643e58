// What surrounds the screens: navigation, the state of the connection, who is signed in. It opens and closes screens as the
// address says.

/** @import {Opened, Screen} from './types.js' */

import * as keyboard from './keyboard.js';
import { badge, button, icon, notice, problem } from './parts.js';
import { address, go, place, start as startRouter } from './router.js';
import { screens } from './screens/registry.js';
import { session, signOut, whenSessionChanges } from './session.js';
import { signInAgain } from './sign_in.js';
import { reconnect, stream } from './stream.js';
import { h, redrawer, render } from './view.js';

/** Those that the reader may see. */
function seen() {
  const { who } = session;
  return screens.filter((screen) => who && (screen.isFor?.(who) ?? true));
}

/** @param {HTMLElement} root */
export function startShell(root) {
  /** @type {{ screen: Screen, opened: Opened, context: any, close: AbortController } | null} */
  let open = null;
  let lastState = session.state;
  let isEntered = false;
  /** What a screen threw when it was drawn. @type {unknown} */
  let broken = null;

  const redraw = redrawer(draw);
  const again = signInAgain(() => drawDialog());
  /** @type {HTMLDialogElement | null} */
  let dialog = null;

  function follow() {
    const { screen: name, query } = place();
    if (open?.screen.name === name) {
      open.context.query = query;
      open.opened.changed?.();
    } else {
      isEntered = open !== null;
      leave();
      enter(name, query);
    }
    redraw();
  }

  function leave() {
    open?.close.abort();
    open?.opened.closed?.();
    open = null;
    broken = null;
  }

  /** @param {string} name @param {URLSearchParams} query */
  function enter(name, query) {
    const screen = seen().find((one) => one.name === name);
    document.title = `${screen?.title ?? 'Not found'} · Tidegate`;
    if (!screen || !session.who) return;
    const close = new AbortController();
    const context = {
      who: session.who, query, redraw, closed: close.signal,
      go: (/** @type {string} */ to, /** @type {any} */ more) => go(address(to, more)),
      setQuery: (/** @type {Record<string, any>} */ changes, /** @type {any} */ how) => {
        const next = new URLSearchParams(location.search);
        for (const [key, value] of Object.entries(changes)) value ? next.set(key, value) : next.delete(key);
        const href = address(screen.name, next);
        if (how?.replace) history.replaceState(null, '', href);
        else history.pushState(null, '', href);
        context.query = next;
      },
    };
    open = { screen, opened: screen.open(context), context, close };
    scrollTo(0, 0);
  }

  function draw() {
    if (session.who) render(root, shellView(content(), open?.screen ?? null));
    drawDialog();
    if (isEntered) {
      // So that a reader of the screen hears of it, and the keyboard goes on from here.
      isEntered = false;
      document.getElementById('main')?.focus({ preventScroll: true });
    }
  }

  function content() {
    if (!open) return notice('warn', 'There is no such screen', 'The address may be of another release, or the screen is not for your role. Choose one from the navigation.');
    try {
      broken = null;
      return open.opened.view();
    } catch (error) {
      if (broken === null) console.error(error);
      broken = error;
      return problem(error);
    }
  }

  function drawDialog() {
    if (session.state !== 'ended') {
      dialog?.remove();
      dialog = null;
      return;
    }
    if (dialog === null) {
      dialog = document.createElement('dialog');
      dialog.setAttribute('aria-labelledby', 'again');
      // It cannot be closed: nothing behind it would work.
      dialog.addEventListener('cancel', (event) => event.preventDefault());
      document.body.append(dialog);
    }
    render(dialog, again());
    if (!dialog.open) dialog.showModal();
  }

  whenSessionChanges(() => {
    if (lastState === 'ended' && session.state === 'in') {
      reconnect();
      open?.opened.resumed?.();
    }
    lastState = session.state;
    redraw();
  });
  keyboard.start(seen);
  startRouter(follow);
  follow();
}

/** @param {import('./types.js').Child} content @param {Screen | null} current */
function shellView(content, current) {
  const item = (/** @type {Screen} */ screen) => h('li', { key: screen.name }, h('a', {
    href: address(screen.name), title: screen.about, 'aria-current': screen === current ? 'page' : null,
  }, icon(screen.icon), h('span', null, screen.title)));
  const all = seen();
  return [
    h('a', { class: 'skip', href: '#main', onclick: skip }, 'Skip to the content'),
    h('header', { class: 'top' },
      h('a', { class: 'brand', href: address('now') }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'Tidegate'),
      connection(),
      h('div', { class: 'who' },
        h('a', { href: address('account'), title: 'Who am I?' }, session.who?.actor ?? ''),
        badge('none', session.who?.role ?? ''),
        session.who?.tenant && badge('info', session.who.tenant),
        button('?', () => void keyboard.help(seen()), { look: 'quiet', label: 'Keyboard shortcuts' }),
        button('Sign out', () => void signOut(), { look: 'quiet' }))),
    h('nav', { 'aria-label': 'Screens' },
      h('ul', null, all.filter((screen) => !screen.isMinor).map(item)),
      h('ul', { class: 'minor' }, all.filter((screen) => screen.isMinor).map(item))),
    h('main', { id: 'main', tabindex: '-1', key: current?.name ?? 'none' },
      h('h1', null, current?.title ?? 'Not found'), content),
  ];
}

/** How the live figures arrive. */
function connection() {
  if (stream.state === 'off') return null;
  const [tone, text] = /** @type {['good' | 'warn' | 'bad', string]} */ ({
    live: ['good', 'Live'], connecting: ['warn', 'Connecting'], lost: ['bad', 'No connection'],
  }[stream.state]);
  return h('span', { class: 'connection', role: 'status' }, badge(tone, text));
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}
