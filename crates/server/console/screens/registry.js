// The screens, in the order of the navigation. A new one is added here, and its file to the list in the server's
// `console_files.rs`.

/** @import {Screen} from '../types.js' */

import { account } from './account.js';
import { audit } from './audit.js';
import { key } from './key.js';
import { nodes } from './nodes.js';
import { now } from './now.js';
import { policy } from './policy.js';
import { tenants } from './tenants.js';
import { tokens } from './tokens.js';
import { tryOut } from './try.js';

/** @type {Screen[]} */
export const screens = [now, key, tryOut, policy, tenants, audit, nodes, tokens, account];
