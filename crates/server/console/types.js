// Types that several modules share. There is nothing here that runs.

/** @typedef {Record<string, any>} Properties */
/** @typedef {{ tag: string, properties: Properties, children: (View | string)[] }} View */
/** @typedef {View | string | number | boolean | null | undefined | Child[]} Child */

/** @typedef {'viewer' | 'operator' | 'editor' | 'admin'} Role */

/**
 * Who is signed in.
 * @typedef {object} WhoAmI
 * @property {string} actor
 * @property {Role} role
 * @property {string | null} [tenant] the tenant that the token is restricted to
 * @property {string | null} [expires]
 */

/**
 * What a screen is given.
 * @typedef {object} Context
 * @property {WhoAmI} who
 * @property {URLSearchParams} query the query of the address, which changes; see `Opened.changed`
 * @property {(query: Record<string, string | null | undefined>, how?: { replace?: boolean }) => void} setQuery changes the query of the
 *   address; `replace` leaves no entry in the history of the browser
 * @property {(screen: string, query?: Record<string, string>) => void} go
 * @property {() => void} redraw
 * @property {AbortSignal} closed is aborted when the screen is left
 */

/**
 * A screen that is open.
 * @typedef {object} Opened
 * @property {() => Child} view what is seen; called again after each `redraw`
 * @property {() => void} [changed] the query of the address has changed by the browser's buttons or a link
 * @property {() => void} [resumed] somebody has signed in again after the session had ended: load again what is missing
 * @property {() => void} [closed]
 */

/**
 * A screen.
 * @typedef {object} Screen
 * @property {string} name its address is `/console/NAME`
 * @property {string} title
 * @property {string} about one line, shown in the navigation on hover and in the keyboard help
 * @property {string} [shortcut] the letter that opens it after `g`
 * @property {string} icon the path of an icon of 24 by 24
 * @property {(who: WhoAmI) => boolean} [isFor] who sees it in the navigation; everybody without it
 * @property {boolean} [isMinor] it is listed below the others
 * @property {(context: Context) => Opened} open
 */

/**
 * @typedef {object} ApiProblemBody
 * @property {string} title
 * @property {number} status
 * @property {string} detail
 * @property {string} [pointer]
 * @property {{ path?: string, line?: number, column?: number, saw?: string, want?: string, hint?: string, message?: string }[]} [problems]
 */

/**
 * A page of a list.
 * @template T
 * @typedef {{ items: T[], next: string | null }} Page
 */

/** @typedef {{ name: string, allowed_per_second: number, denied_per_second: number, error_per_second?: number }} OverviewLimit */
/**
 * @typedef {object} OverviewNode
 * @property {string} id
 * @property {number | null} [version]
 * @property {string} since
 * @property {string} status
 * @property {Record<string, string>} problems
 * @property {string} mode
 * @property {boolean | null} [store_up]
 * @property {number} decisions_per_second
 * @property {number} denied_per_second
 */
/**
 * @typedef {object} Overview
 * @property {string} time
 * @property {number} [decisions_per_second]
 * @property {number} [allowed_per_second]
 * @property {number} [denied_per_second]
 * @property {Record<string, number>} [denied_by_reason]
 * @property {OverviewLimit[]} limits
 * @property {{ allowed_per_second: number, denied_per_second: number }} [other_limits] what limits decided that are not named
 * @property {{ p50: number, p99: number } | null} [decision_time_us]
 * @property {boolean} [kill_switch]
 * @property {number} [overshoot_bound_tokens]
 * @property {OverviewNode[]} [nodes]
 * @property {string[]} [commands] commands that ask for a decision
 * @property {Record<string, string>} [incomplete] why something is missing, each with a sentence
 */
/**
 * @typedef {object} HistoryPoint
 * @property {string} time
 * @property {number} [allowed]
 * @property {number} [denied]
 * @property {Record<string, number>} [denied_by_reason]
 * @property {Record<string, { allowed: number, denied: number, error?: number }>} limits
 * @property {{ allowed: number, denied: number }} [other_limits] what limits decided that are not named
 * @property {{ p50: number, p99: number } | null} [decision_time_us]
 */
/** @typedef {{ step_seconds: number, steps: HistoryPoint[], incomplete?: Record<string, string> }} History */

/**
 * An entry of `limits` in a decision.
 * @typedef {object} LimitState
 * @property {string} name
 * @property {string} [tier]
 * @property {boolean} allowed
 * @property {number} limit
 * @property {number} remaining
 * @property {number | null} reset_after_ms
 * @property {number | null} [retry_after_ms]
 * @property {any} [override]
 */

export {};
