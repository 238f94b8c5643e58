// The admin API. Everything that the console does goes through here, so a script can do the same.

/** @import {ApiProblemBody, Page} from './types.js' */

const PREFIX = '/api/v1';

/** A request that was not answered as wanted: what happened, and what to do next. */
export class ApiProblem extends Error {
  /**
   * @param {ApiProblemBody} body
   * @param {{ method?: string, path?: string, retryAfter?: number | null }} [where]
   */
  constructor(body, where = {}) {
    super(body.detail || body.title);
    this.status = body.status;
    this.title = body.title;
    this.detail = body.detail;
    this.pointer = body.pointer;
    this.problems = body.problems ?? [];
    /** The whole body: some problems have more members. @type {any} */
    this.body = body;
    this.method = where.method;
    this.path = where.path;
    this.retryAfter = where.retryAfter ?? null;
  }

  /** Is the answer that there is no database? */
  get needsDatabase() {
    return this.status === 409 && this.detail.includes('--data');
  }

  /** What the reader can do about it. */
  get nextStep() {
    switch (this.status) {
      case 0: return 'Check that the server runs and that you can reach it. This page tries again by itself.';
      case 401: return 'Sign in again; what you have typed stays.';
      case 403: return 'Ask an administrator for a token with a larger role, then sign in with it.';
      case 404: return 'It may have been removed, or it belongs to another tenant, or this server is older than the console. Load the list again.';
      case 409: return this.needsDatabase ? 'Start the server with --data DIR (or set database.url), and it is kept there.' : 'Load the page again to see how things are now.';
      case 412: return 'Somebody else has changed it meanwhile. Load it again, look at what changed, and repeat your change.';
      case 413: return 'Send less at once.';
      case 422: return 'Correct what is marked, and send it again.';
      case 429: return this.retryAfter ? `Wait ${this.retryAfter} s, then try again.` : 'Wait a moment, then try again.';
      case 503: return 'The store or the database does not answer. Look at the node’s state on the screen Now, and try again.';
      default: return this.status >= 500 ? 'Try again; if it stays, look into the log of the server.' : 'Correct the request, and send it again.';
    }
  }
}

/** Is told when an answer is 401. @type {() => void} */
let onSignedOut = () => {};

/** @param {() => void} listener */
export function whenSignedOut(listener) {
  onSignedOut = listener;
}

/**
 * @typedef {object} CallOptions
 * @property {Record<string, string | number | null | undefined>} [query] what is empty is left out
 * @property {any} [body] an object is sent as JSON, a string as it is
 * @property {string} [type] the media type of a body that is a string
 * @property {string} [accept]
 * @property {string | number | null} [ifMatch] the version that the change is for
 * @property {string} [reason]
 * @property {string} [idempotencyKey]
 * @property {AbortSignal} [signal]
 */

/**
 * Calls a route, such as `/limits`. Throws an `ApiProblem` unless the answer is a success.
 * @param {string} method
 * @param {string} path below `/api/v1`; make names safe with `segment`
 * @param {CallOptions} [options]
 * @returns {Promise<{ body: any, headers: Headers, status: number }>}
 */
export async function call(method, path, options = {}) {
  const { body, headers } = requestOf(options);
  const query = queryText(options.query ?? {});
  let response;
  try {
    response = await fetch(`${PREFIX}${path}${query}`, { method, body, headers, signal: options.signal, cache: 'no-store' });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiProblem({ status: 0, title: 'No answer', detail: 'The server did not answer.' }, { method, path });
  }
  return answerOf(response, method, path);
}

/** @param {CallOptions} options */
function requestOf(options) {
  const isText = typeof options.body === 'string';
  const body = options.body === undefined || isText ? options.body : JSON.stringify(options.body);
  /** @type {Record<string, string>} */
  const headers = { accept: options.accept ?? 'application/json' };
  if (body !== undefined) headers['content-type'] = options.type ?? 'application/json';
  if (options.ifMatch !== undefined && options.ifMatch !== null) headers['if-match'] = `"${options.ifMatch}"`;
  // A header holds ASCII only, so the reason is percent-encoded in the query instead.
  if (options.reason) options.query = { ...options.query, reason: options.reason };
  if (options.idempotencyKey) headers['idempotency-key'] = options.idempotencyKey;
  return { body, headers };
}

/**
 * @param {Response} response
 * @param {string} method
 * @param {string} path
 */
async function answerOf(response, method, path) {
  const text = await response.text();
  const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '') && !/ndjson/.test(response.headers.get('content-type') ?? '');
  /** @type {any} */
  let body = text;
  if (isJson) {
    try {
      body = JSON.parse(text);
    } catch {
      body = text;
    }
  }
  if (response.ok) return { body, headers: response.headers, status: response.status };
  if (response.status === 401) onSignedOut();
  const problem = typeof body === 'object' && body !== null ? body : { title: response.statusText, detail: String(body).slice(0, 500) };
  const retryAfter = Number(response.headers.get('retry-after')) || null;
  throw new ApiProblem({ ...problem, status: response.status }, { method, path, retryAfter });
}

/** @param {Record<string, string | number | null | undefined>} query */
export function queryText(query) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') pairs.set(name, String(value));
  }
  const text = pairs.toString();
  return text ? `?${text}` : '';
}

/** One name as one segment of a path. @param {string} name */
export function segment(name) {
  return encodeURIComponent(name);
}

/**
 * The body of a GET.
 * @param {string} path
 * @param {CallOptions['query']} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, query, signal) {
  return (await call('GET', path, { query, signal })).body;
}

/**
 * The body of the answer to a POST with JSON.
 * @param {string} path
 * @param {any} body
 * @param {CallOptions} [options]
 * @returns {Promise<any>}
 */
export async function post(path, body, options) {
  return (await call('POST', path, { ...options, body })).body;
}

/**
 * All items of a list, page by page; `progress` is told how many there are so far. Stops at `most`.
 * @param {string} path
 * @param {{ query?: CallOptions['query'], signal?: AbortSignal, most?: number, progress?: (items: any[], isLast: boolean) => void }} [options]
 * @returns {Promise<any[]>}
 */
export async function all(path, options = {}) {
  /** @type {any[]} */
  let items = [];
  /** @type {string | null} */
  let cursor = null;
  do {
    /** @type {Page<any>} */
    const page = await get(path, { limit: 1000, ...options.query, cursor }, options.signal);
    items = items.concat(page.items);
    cursor = page.next;
    options.progress?.(items, cursor === null);
  } while (cursor !== null && items.length < (options.most ?? 100_000));
  return items;
}
