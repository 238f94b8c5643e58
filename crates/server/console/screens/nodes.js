// The nodes that share the database.

/** @import {Context, Opened, Screen} from '../types.js' */

import { all } from '../api.js';
import { when } from '../format.js';
import { badge, card, empty, problem, progress, table } from '../parts.js';
import { h } from '../view.js';

/** @typedef {{ id: string, version?: number | null, since: string, seen: string, error?: string | null }} ListedNode */

/** A node that was not seen for so long has probably ended. */
const SILENT_MS = 10_000;

/** @param {Context} context @returns {Opened} */
function open({ redraw, closed }) {
  /** @type {ListedNode[] | null} */
  let nodes = null;
  /** @type {unknown} */
  let failure = null;

  const load = async () => {
    try {
      nodes = await all('/nodes', { signal: closed });
      failure = null;
    } catch (error) {
      failure = error;
    }
    redraw();
  };
  void load();
  const timer = setInterval(() => void load(), 2_000);

  return {
    resumed: () => void load(),
    closed: () => clearInterval(timer),
    view: () => [
      failure !== null && problem(failure, { retry: () => void load() }),
      nodes === null ? failure === null && progress('Loading the nodes') : listed(nodes),
    ],
  };
}

/** @param {ListedNode[]} nodes */
function listed(nodes) {
  const isSilent = (/** @type {ListedNode} */ node) => Date.now() - new Date(node.seen).getTime() > SILENT_MS;
  const newest = Math.max(...nodes.map((node) => node.version ?? 0));
  return card('Nodes', { about: 'Each node writes here once a second which version of the policy it runs. One that was not seen for a minute is forgotten.' }, table({
    caption: 'Nodes', rows: nodes, key: (node) => node.id, empty: empty('No node has written here yet', 'It takes a second after the start.'),
    columns: [
      { title: 'Node', isHead: true, cell: (node) => h('code', null, node.id) },
      { title: 'State', cell: (node) => (node.error ? badge('bad', 'error') : isSilent(node) ? badge('warn', 'silent') : badge('good', 'seen')) },
      { title: 'Version', kind: 'number', cell: (node) => [node.version ?? '—', (node.version ?? newest) < newest && [' ', badge('warn', 'behind')]] },
      { title: 'Since', cell: (node) => when(node.since) },
      { title: 'Last seen', cell: (node) => when(node.seen, 'ago') },
      { title: 'Error', cell: (node) => node.error ?? '' },
    ],
  }));
}

/** @type {Screen} */
export const nodes = {
  name: 'nodes', title: 'Nodes', about: 'which nodes run which version', shortcut: 'd', isMinor: true, isFor: (who) => !who.tenant,
  icon: 'M4 5h16v5H4zM4 14h16v5H4zM8 7.500h.01M8 16.500h.01', open,
};
