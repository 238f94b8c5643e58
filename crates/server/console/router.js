// Addresses: `/console/SCREEN?QUERY`. Whatever decides what is seen is in the address, so that it can be sent to somebody.

const PREFIX = '/console/';

/** @typedef {{ screen: string, query: URLSearchParams }} Place */

/** @returns {Place} */
export function place() {
  const name = location.pathname.slice(PREFIX.length);
  return { screen: name || 'now', query: new URLSearchParams(location.search) };
}

/**
 * @param {string} screen
 * @param {Record<string, string | null | undefined> | URLSearchParams} [query]
 */
export function address(screen, query = {}) {
  const pairs = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) if (value) pairs.set(name, value);
  }
  const text = pairs.toString();
  return `${PREFIX}${screen}${text ? `?${text}` : ''}`;
}

/** @type {() => void} */
let onChange = () => {};

/**
 * Follows links within the console, and the buttons of the browser.
 * @param {() => void} changed
 */
export function start(changed) {
  onChange = changed;
  addEventListener('popstate', () => onChange());
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const href = link?.getAttribute('href');
    if (!link || !href?.startsWith(PREFIX) || link.target || link.hasAttribute('download')) return;
    event.preventDefault();
    go(href);
  });
}

/**
 * Goes to an address of the console.
 * @param {string} href
 * @param {{ replace?: boolean }} [how]
 */
export function go(href, how = {}) {
  if (href === location.pathname + location.search) return;
  if (how.replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  onChange();
}
