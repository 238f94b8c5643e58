// Shortcuts: `g` and a letter opens a screen, `/` goes to the first field, `?` lists them.

/** @import {Screen} from './types.js' */

import { show } from './dialogs.js';
import { address, go } from './router.js';
import { h } from './view.js';

const SETTING = 'tidegate shortcuts';

function areOn() {
  try {
    return localStorage.getItem(SETTING) !== 'off';
  } catch {
    return true;
  }
}

/** @param {boolean} on */
function set(on) {
  try {
    localStorage.setItem(SETTING, on ? 'on' : 'off');
  } catch {
    // Then they are on again after a reload.
  }
}

/** @param {() => Screen[]} screens those that the reader sees */
export function start(screens) {
  let isGoing = false;
  document.addEventListener('keydown', (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const isTyping = target.closest('input, textarea, select, [contenteditable], dialog') !== null;
    if (!areOn() || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const wasGoing = isGoing;
    isGoing = false;
    if (wasGoing) {
      const screen = screens().find((one) => one.shortcut === event.key);
      if (screen) go(address(screen.name));
    } else if (event.key === 'g') {
      isGoing = true;
      setTimeout(() => { isGoing = false; }, 1_500);
      return;
    } else if (event.key === '?') {
      void help(screens());
    } else if (event.key === '/') {
      document.querySelector('main')?.querySelector(/** @type {'input'} */ ('input:not([type=checkbox]), textarea'))?.focus();
    } else {
      return;
    }
    event.preventDefault();
  });
}

/** @param {Screen[]} screens */
export function help(screens) {
  return show('Keyboard', (redraw) => {
    const key = (/** @type {string} */ name) => h('kbd', null, name);
    const row = (/** @type {any} */ keys, /** @type {string} */ what) => h('div', null, h('dt', null, keys), h('dd', null, what));
    return h('div', null,
      h('dl', { class: 'shortcuts' },
        screens.filter((screen) => screen.shortcut).map((screen) => row([key('g'), ' ', key(screen.shortcut ?? '')], `${screen.title}: ${screen.about}`)),
        row(key('/'), 'go to the first field of the screen'),
        row([key('Tab'), ' ', key('Shift+Tab')], 'go to the next or previous link, button or field'),
        row([key('←'), ' ', key('→')], 'in a chart: point at the step before or after'),
        row(key('Esc'), 'close a dialog'),
        row(key('?'), 'this list')),
      h('label', { class: 'check' }, h('input', {
        type: 'checkbox', checked: areOn(),
        onchange: (/** @type {any} */ event) => { set(event.target.checked); redraw(); },
      }), ' Shortcuts of single letters are on'));
  });
}
