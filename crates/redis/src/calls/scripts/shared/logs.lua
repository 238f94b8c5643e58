-- A sliding log is a list: its text, then its entries, oldest first. An entry has the instant in microseconds, the
-- tokens, and the running sum of all tokens modulo 2^32; so the tokens between two entries follow from their sums.
local SUMS = 4294967296
-- The highest limit at any trust, and the most entries of a log.
local COUNT_MAX, ENTRIES_MAX = 10000, 10000

-- The stored value is no valid log: start anew with an empty one.
local function discard(log)
  poisoned = poisoned + (log.discarded and 0 or 1)
  log.length, log.entries, log.rewrite, log.discarded = 0, nil, true, true
end

-- Reads an entry, or answers nil if it is invalid: it needs whole numbers, a possible count, and an instant not later
-- than the last entry's.
local function read_entry(log, value)
  if not value or #value ~= 24 then
    return nil
  end
  local at, count, sum = unpack_from('<ddd', value)
  if
    at >= 0 and at <= (log.last_at or 9007199254740991) and at % 1 == 0
    and count >= 0 and count <= COUNT_MAX and count % 1 == 0
    and sum >= 0 and sum < SUMS and sum % 1 == 0
  then
    return at, count, sum
  end
end

local function entry(log, index)
  if log.entries then
    local known = log.entries[index]
    return known[1], known[2], known[3]
  end
  local at, count, sum = read_entry(log, redis.call('LINDEX', log.key, index))
  if not at then
    discard(log)
  end
  return at, count, sum
end

-- Rewrites a log from the entries that still count.
local function rewrite_log(log)
  redis.call('DEL', log.key)
  local entries, sum, chunk = log.entries or {}, 0, { log.text }
  log.length, log.rewrite, log.last_at, log.last_count, log.last_sum = 0, false, 0, 0, 0
  for index = log.gone + 1, #entries do
    local at, count = entries[index][1], entries[index][2]
    sum = (sum + count) % SUMS
    chunk[#chunk + 1] = pack('<ddd', at, count, sum)
    log.length, log.last_at, log.last_count, log.last_sum = log.length + 1, at, count, sum
    if #chunk == 1000 then
      redis.call('RPUSH', log.key, unpack(chunk))
      chunk = {}
    end
  end
  if #chunk > 0 then
    redis.call('RPUSH', log.key, unpack(chunk))
  end
  log.entries, log.gone = nil, 0
end

local function expire_log(log)
  if log.length == 0 then
    redis.call('DEL', log.key)
  else
    redis.call('PEXPIRE', log.key, ceil((log.last_at + log.window - now) / 1000) + 1 + slack)
  end
end

local function last_of(log)
  if log.length > 0 then
    local at, count, sum = entry(log, log.length)
    if at then
      log.last_at, log.last_count, log.last_sum = at, count, sum
    end
  end
end

-- Opens the log under a key; sets `log.raw` if it is stored under another text.
local function open_log(i, window, limit, max_ahead, raw, migrated)
  local key, text, written_as, instead = KEYS[i], ARGV[i + 1], ARGV[raw or 0], ARGV[migrated or 0]
  local log = { key = key, text = text, window = window, limit = limit, length = 0, gone = 0, pending = 0 }
  local head = redis.pcall('LINDEX', key, 0)
  if not head then
    return log
  elseif head.err or #head > 256 then
    discard(log)
    return log
  end
  local length = redis.call('LLEN', key) - 1
  if length > ENTRIES_MAX then
    discard(log)
    return log
  elseif head == text then
    log.length = length
  else
    local written = redis.call('LRANGE', key, 0, -1)
    written = head .. '\n' .. table.concat(written, '', 2)
    if written ~= written_as then
      other_text, values[i], log.raw = true, written, written
      return log
    end
    local entries, sum, position = {}, 0, 1
    while position < #instead do
      local at, count
      at, count, position = unpack_from('<dd', instead, position)
      sum = (sum + count) % SUMS
      entries[#entries + 1] = { at, count, sum }
    end
    log.entries, log.length, log.rewrite = entries, #entries, true
  end
  last_of(log)
  if log.length > 0 and log.last_at > now + max_ahead then
    poisoned = poisoned + 1
    log.entries = { { now, limit, limit } }
    if verb ~= '0' then
      rewrite_log(log)
      expire_log(log)
    else
      log.length, log.last_at, log.last_count, log.last_sum = 1, now, limit, limit
    end
  end
  return log
end

-- The first entry that still counts at an instant, by binary search.
local function first_counting(log, at)
  local low, high, middle = 1, log.length + 1, 1
  while low < high do
    local written = entry(log, middle)
    if not written then
      return 1
    elseif written + log.window > at then
      high = middle
    else
      low = middle + 1
    end
    middle = floor((low + high) / 2)
  end
  return low
end

-- The tokens from an entry on.
local function counted_from(log, first)
  if first > log.length then
    return 0
  end
  local _, count, sum = entry(log, first)
  if not count then
    return 0
  end
  local counted = (log.last_sum - sum) % SUMS + count
  if counted > COUNT_MAX * ENTRIES_MAX then
    discard(log)
    return 0
  end
  return counted
end

-- The summary of a log as of `at`: the tokens that count, when none will, and when a cost fits that does not fit yet.
local function log_state(log, at, counted, fits_at)
  local empty_at = log.length > 0 and log.last_at + log.window or at
  return pack('<Bddd', 0, counted, empty_at > at and empty_at or at, fits_at)
end

-- Does the cost fit? If so, it is added to `pending`, which the next charges of this call to the same log include.
local function check_log(log, cost, at)
  log.gone = first_counting(log, now) - 1
  local first = at > now and first_counting(log, at) or log.gone + 1
  local counted = counted_from(log, first)
  local pending = log.pending > 0 and log.pending_at + log.window > at and log.pending or 0
  local room, fits_at = log.limit - cost, 0
  if cost == 0 or counted + pending <= room then
    if cost > 0 then
      local newest = log.length > 0 and log.last_at > at and log.last_at or at
      log.pending_at = log.pending > 0 and log.pending_at > newest and log.pending_at or newest
      log.pending = log.pending + cost
    end
    return true, log_state(log, at, counted, 0)
  end
  if counted > room then
    pending = 0
  end
  if room >= 0 and pending > room then
    fits_at = log.pending_at + log.window
  elseif room >= 0 then
    local low, high = first, log.length
    while low < high do
      local middle = floor((low + high) / 2)
      local _, _, sum = entry(log, middle)
      if sum and (log.last_sum - sum) % SUMS + pending <= room then
        high = middle
      else
        low = middle + 1
      end
    end
    fits_at = (entry(log, low) or at) + log.window
    if log.length == 0 then
      -- The search found an invalid entry and discarded the log: check the empty one.
      return check_log(log, cost, at)
    end
  end
  return false, log_state(log, at, counted, fits_at)
end

-- Removes the entries that no longer count.
local function trim_log(log)
  if log.rewrite then
    rewrite_log(log)
  elseif log.gone > 0 then
    redis.call('LTRIM', log.key, log.gone + 1, -1)
    redis.call('LPUSH', log.key, log.text)
    log.length, log.gone = log.length - log.gone, 0
  end
end

-- Appends a cost that fits.
local function push_log(log, cost, at)
  trim_log(log)
  if log.length > 0 and log.last_at >= at then
    log.last_count, log.last_sum = log.last_count + cost, (log.last_sum + cost) % SUMS
    redis.call('LSET', log.key, -1, pack('<ddd', log.last_at, log.last_count, log.last_sum))
  else
    local sum = log.length > 0 and (log.last_sum + cost) % SUMS or cost
    if log.length == 0 then
      redis.call('DEL', log.key)
      redis.call('RPUSH', log.key, log.text, pack('<ddd', at, cost, sum))
    else
      redis.call('RPUSH', log.key, pack('<ddd', at, cost, sum))
    end
    log.length, log.last_at, log.last_count, log.last_sum = log.length + 1, at, cost, sum
  end
  expire_log(log)
end
