// The kill switch: whether all limits are off, why and until when, and switching them for admins.

/** @import {Context} from '../types.js' */

import { call, get } from '../api.js';
import { ask, tell } from '../dialogs.js';
import { when } from '../format.js';
import { button, choice, field, newId, notice } from '../parts.js';
import { has } from '../roles.js';
import { h } from '../view.js';

/** @type {[string, string][]} */
const SPANS = [['900', '15 minutes'], ['3600', '1 hour'], ['14400', '4 hours'], ['86400', '1 day']];

/** @param {Context} context */
export function killSwitch({ who, closed, redraw }) {
  /** @type {{ state: string, reason?: string, until?: string, author?: string, since?: string, source?: string } | null} */
  let state = null;
  let wasOn = false;

  const load = async () => {
    try {
      state = await get('/kill-switch', {}, closed);
    } catch {
      // The overview says that it is on; only the details are missing.
      state = null;
    }
    redraw();
  };
  /** @param {any} body */
  const put = async (body) => {
    await call('PUT', '/kill-switch', { body });
    await load();
  };

  const switchOff = async () => {
    const id = newId('kill');
    let span = '900';
    const isDone = await ask({
      title: 'Switch all limits off?', confirm: 'Switch off', isDangerous: true, reason: 'needed',
      body: () => [
        h('p', null, 'Every request is admitted on every node within a second, also those that are blocked. Nothing is counted meanwhile. It is seen on this screen by everybody.'),
        field('Limits are on again in', choice(span, SPANS, (value) => { span = value; }), { id }),
      ],
      run: (reason) => put({ state: 'allow', reason, until: new Date(Date.now() + Number(span) * 1_000).toISOString() }),
    });
    if (isDone) tell('All limits are off.', { undo: () => put({ state: 'off', reason: 'undone' }) });
  };
  const switchOn = async () => {
    const isDone = await ask({ title: 'Switch limits on again?', confirm: 'Switch on', run: (reason) => put({ state: 'off', reason: reason || undefined }) });
    if (isDone) tell('Limits are on.');
  };

  return {
    /** @param {boolean} isOn what the overview says */
    view: (isOn) => {
      if (isOn !== wasOn) {
        wasOn = isOn;
        void load();
      }
      if (!isOn) return null;
      return h('div', { key: 'kill' }, notice('bad', 'The kill switch is on: every request is admitted', [
        h('p', null, state?.reason ?? 'Limits are not counted.', state?.author && ` (${state.author})`, state?.until && [' It ends by itself ', when(state.until, 'ago'), ', ', when(state.until), '.']),
        has(who, 'admin') && !who.tenant ? h('p', null, button('Switch limits on', () => void switchOn()))
          : h('p', { class: 'next' }, 'An admin can switch limits on again.'),
      ]));
    },
    /** @param {boolean} isOn */
    button: (isOn) => has(who, 'admin') && !who.tenant && !isOn && button('Switch all limits off …', () => void switchOff(), { look: 'quiet' }),
  };
}
