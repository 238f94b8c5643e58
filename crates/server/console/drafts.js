// What somebody has typed and not sent. It is kept in the browser, for each person apart, so that it is still there after the end
// of a session, after a reload, and after a restart of the browser.

/** How many characters a draft has at most; a longer one is not kept. */
const LONGEST = 2_000_000;

let owner = '';

/** From now on drafts are those of this person. @param {string} actor */
export function setOwner(actor) {
  owner = actor;
}

/** @param {string} name */
function keyOf(name) {
  return `tidegate draft ${owner} ${name}`;
}

/**
 * The draft with this name, or `null`.
 * @param {string} name
 * @returns {any}
 */
export function load(name) {
  try {
    const text = localStorage.getItem(keyOf(name));
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Keeps a draft; `null` removes it. Says whether it is kept: a browser may have no room, or keep nothing at all.
 * @param {string} name
 * @param {any} value
 */
export function save(name, value) {
  try {
    if (value === null || value === undefined) localStorage.removeItem(keyOf(name));
    else {
      const text = JSON.stringify(value);
      if (text.length > LONGEST) return false;
      localStorage.setItem(keyOf(name), text);
    }
    return true;
  } catch {
    return false;
  }
}
