// Which names and words fit at a place of a policy, by the server's schema. A document is not whole while somebody types, so the
// place is found by indentation and braces.

/** @typedef {{ from: number, options: { text: string, about: string }[] }} Suggestions `from`: the column where the word begins */

/** @param {string[]} lines @param {number} row @param {number} column @param {any} schema @returns {Suggestions | null} */
export function suggestions(lines, row, column, schema) {
  const before = lines[row].slice(0, column);
  if (/(^|\s)#/.test(before)) return null;
  const word = /[\w-]*$/.exec(before)?.[0] ?? '';
  const start = before.slice(0, before.length - word.length);
  const { path, key } = placeIn(start);
  /** A schema without references and alternatives; the entries of lists in place of lists. @param {any} node @returns {any[]} */
  const plain = (node) => {
    const next = node?.$ref ? [schema.$defs[node.$ref.split('/').pop()]] : node?.anyOf ?? (node?.items ? [node.items] : null);
    return next ? next.flatMap(plain) : node ? [node] : [];
  };
  const members = (/** @type {any[]} */ nodes, /** @type {string} */ name) => nodes.flatMap((node) => plain(node.properties?.[name]));
  const nodes = [...parents(lines, row, /^\s*(?:- +)*/.exec(start)?.[0].length ?? 0), ...path].reduce(members, plain(schema));
  const known = key === null
    ? nodes.flatMap((node) => Object.entries(node.properties ?? {})).map(([name, node]) => ({ text: `${name}: `, about: (node.description ?? '').split('\n')[0] }))
    : members(nodes, key).flatMap((node) => (node.type === 'boolean' ? [true, false] : node.enum ?? []).map((/** @type {any} */ one) => ({
      text: String(one), about: (node.description ?? '').split(`\n- ${one}: `)[1]?.split('\n')[0] ?? '',
    })));
  const options = known.filter(({ text }, index) => text.startsWith(word) && text !== word && text !== `${word}: `
    && known.findIndex((one) => one.text === text) === index).slice(0, 40);
  return options.length > 0 ? { from: start.length, options } : null;
}

/** The keys of the open braces before a place in its line, and the key whose value is there. @param {string} start */
function placeIn(start) {
  /** The key in each open brace; empty in lists. @type {(string | null)[]} */
  const open = [null];
  for (const [part] of start.matchAll(/(?:"[^"]*"|'[^']*'|[\w.:/*-]+):(?=\s|$)|"[^"]*"|'[^']*'|[{}[\],]/g)) {
    const last = open.length - 1;
    if (part === '{' || part === '[') open.push(part === '[' ? '' : null);
    else if (part === '}' || part === ']') open.length = Math.max(1, last);
    else if (part === ',') open[last] &&= null;
    else if (part.endsWith(':')) open[last] = part.slice(0, -1);
  }
  const names = open.filter((name) => name !== '');
  const key = names.pop() ?? null;
  return { key, path: names.filter((name) => name !== null) };
}

/** The keys above a line that it belongs to. @param {string[]} lines @param {number} row @param {number} indent */
function parents(lines, row, indent) {
  const path = [];
  for (let at = row - 1; at >= 0 && indent > 0; at -= 1) {
    const found = /^(\s*(?:- +)*)["']?([\w.:/*-]+?)["']?:\s*(#.*)?$/.exec(lines[at]);
    if (!found || found[1].length >= indent) continue;
    path.unshift(found[2]);
    indent = found[1].length;
  }
  return path;
}
