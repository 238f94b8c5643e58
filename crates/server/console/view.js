// Rendering. A screen describes what should be seen as a tree of plain objects, made by `h`; `render` changes the page so that
// it shows that, and touches nothing that is the same, so focus, selection and scroll positions stay.
//
// Text is always a text node: nothing here makes markup of a string.

/** @import {Child, Properties, View} from './types.js' */

const SVG = 'http://www.w3.org/2000/svg';

/** These are set as properties: their attributes are only what they begin with. */
const LIVE_PROPERTIES = new Set(['value', 'checked', 'indeterminate', 'selected']);

/**
 * Describes an element.
 *
 * Properties: `on…` is a listener; `style` is an object of CSS properties; `key` tells siblings apart that move; `ref` is called
 * with the element once it is made; a name that begins with a dot is a property of the element (for custom elements); everything
 * else is an attribute, which `false`, `null` and `undefined` leave out.
 *
 * @param {string} tag
 * @param {Properties | null} [properties]
 * @param {...Child} children
 * @returns {View}
 */
export function h(tag, properties, ...children) {
  return { tag, properties: properties ?? {}, children: flat(children) };
}

/**
 * @param {Child[]} children
 * @returns {(View | string)[]}
 */
function flat(children) {
  /** @type {(View | string)[]} */
  const views = [];
  for (const child of children) {
    if (Array.isArray(child)) views.push(...flat(child));
    else if (child === null || child === undefined || child === false || child === true) continue;
    else if (typeof child === 'object') views.push(child);
    else views.push(String(child));
  }
  return views;
}

/** What an element or text shows now. @type {WeakMap<Node, View | string>} */
const shown = new WeakMap();

/**
 * Makes the children of an element show these views.
 * @param {Element} parent
 * @param {...Child} children
 */
export function render(parent, ...children) {
  renderChildren(parent, flat(children));
}

/** What a custom element shows is its own. @param {View} view */
function drawsItself(view) {
  return view.tag.includes('-');
}

/** @param {View | string | undefined} view */
function keyOf(view) {
  return typeof view === 'object' ? view.properties.key : undefined;
}

/**
 * Goes through the views and the nodes side by side: `next` is the first node that shows none of the views so far. Nodes that are
 * kept are moved only if they must be: moving one would take its focus.
 * @param {Element} parent
 * @param {(View | string)[]} views
 */
function renderChildren(parent, views) {
  const wanted = new Set(views.map(keyOf).filter((key) => key !== undefined));
  /** @type {Map<unknown, ChildNode>} */
  const keyed = new Map();
  if (wanted.size > 0) for (const node of parent.childNodes) keyed.set(keyOf(shown.get(node)), node);
  /** @type {ChildNode | null} */
  let next = parent.firstChild;
  const drop = () => {
    const gone = /** @type {ChildNode} */ (next);
    next = gone.nextSibling;
    gone.remove();
  };
  views.forEach((view) => {
    const key = keyOf(view);
    if (key === undefined) {
      // There are more nodes than views left: what has gone is probably the one that does not fit.
      while (next && !canBecome(next, view) && parent.childNodes.length > views.length) drop();
    } else {
      while (next && !wanted.has(keyOf(shown.get(next))) && keyed.get(key)) drop();
    }
    const old = key === undefined ? next : keyed.get(key);
    if (!old || !canBecome(old, view)) {
      parent.insertBefore(make(view, parent), next);
      return;
    }
    update(old, view);
    if (old === next) next = old.nextSibling;
    else parent.insertBefore(old, next);
  });
  while (next !== null) drop();
}

/**
 * @param {Node} node
 * @param {View | string} view
 */
function canBecome(node, view) {
  const old = shown.get(node);
  if (typeof old === 'string' || typeof view === 'string') return typeof old === typeof view;
  return old !== undefined && old.tag === view.tag && old.properties.key === view.properties.key;
}

/**
 * @param {View | string} view
 * @param {Element} parent
 * @returns {Node}
 */
function make(view, parent) {
  if (typeof view === 'string') {
    const text = document.createTextNode(view);
    shown.set(text, view);
    return text;
  }
  const isSvg = view.tag === 'svg' || (parent.namespaceURI === SVG && parent.tagName !== 'foreignObject');
  const element = isSvg ? document.createElementNS(SVG, view.tag) : document.createElement(view.tag);
  // Children first: a `select` can only have a value that one of its options has.
  renderChildren(element, view.children);
  setProperties(element, {}, view.properties);
  shown.set(element, view);
  if (view.properties.ref) view.properties.ref(element);
  return element;
}

/**
 * @param {Node} node
 * @param {View | string} view
 */
function update(node, view) {
  const old = shown.get(node);
  if (old === view) return;
  if (typeof view === 'string') {
    if (old !== view) /** @type {Text} */ (node).data = view;
  } else {
    const element = /** @type {Element} */ (node);
    if (!drawsItself(view)) renderChildren(element, view.children);
    setProperties(element, /** @type {View} */ (old).properties, view.properties);
  }
  shown.set(node, view);
}

/**
 * @param {any} element
 * @param {Properties} old
 * @param {Properties} wanted
 */
function setProperties(element, old, wanted) {
  for (const name in old) {
    if (!(name in wanted)) setProperty(element, name, old[name], undefined);
  }
  for (const name in wanted) setProperty(element, name, old[name], wanted[name]);
}

/**
 * @param {any} element
 * @param {string} name
 * @param {any} old
 * @param {any} value
 */
function setProperty(element, name, old, value) {
  if (name === 'key' || name === 'ref' || (old === undefined && value === undefined)) return;
  if (name.startsWith('on')) {
    if (old !== value) element[name] = value ?? null;
  } else if (name.startsWith('.')) {
    if (old !== value) element[name.slice(1)] = value;
  } else if (name === 'style') {
    if (!value) element.removeAttribute('style');
    for (const property in old ?? {}) if (!(property in (value ?? {}))) element.style.removeProperty(property);
    for (const property in value ?? {}) if (old?.[property] !== value[property]) element.style.setProperty(property, value[property]);
  } else if (LIVE_PROPERTIES.has(name)) {
    const whole = name === 'value' ? String(value ?? '') : Boolean(value);
    if (element[name] !== whole) element[name] = whole;
  } else if (old !== value) {
    if (value === undefined || value === null || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
}

/**
 * Calls a function once before the next frame, however often it is asked to.
 * @param {() => void} draw
 */
export function redrawer(draw) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    // A page that is not seen gets no frames.
    const later = document.hidden ? (/** @type {() => void} */ run) => setTimeout(run, 100) : requestAnimationFrame;
    later(() => {
      isAsked = false;
      draw();
    });
  };
}
