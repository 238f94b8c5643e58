-- Logs: a list of its text and then of entries, oldest first: when (in microseconds), how many tokens, and the sum
-- of all tokens so far, modulo 2^32. So what counts is known from the first that counts and the last.
local SUMS = 4294967296
-- No limit is higher, at any trust; and no log has more entries.
local COUNT_MAX, ENTRIES_MAX = 10000, 10000

-- Whatever it was, it is no log.
local function spoil(log)
  poisoned = poisoned + (log.spoilt and 0 or 1)
  log.length, log.entries, log.rewrite, log.spoilt = 0, nil, true, true
end

-- An entry that is none may say anything: whole numbers, a count that a log can have, and not later than the last.
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
    spoil(log)
  end
  return at, count, sum
end

-- Writes a log anew from the entries that still count.
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

-- A log as it is kept under the key's own text; `raw` if it is under another.
local function open_log(i, window, limit, far, raw, brought)
  local key, text, written_as, instead = KEYS[i], ARGV[i + 1], ARGV[raw or 0], ARGV[brought or 0]
  local log = { key = key, text = text, window = window, limit = limit, length = 0, gone = 0, pending = 0 }
  local head = redis.pcall('LINDEX', key, 0)
  if not head then
    return log
  elseif head.err or #head > 256 then
    spoil(log)
    return log
  end
  local length = redis.call('LLEN', key) - 1
  if length > ENTRIES_MAX then
    spoil(log)
    return log
  elseif head == text then
    log.length = length
  else
    local written = redis.call('LRANGE', key, 0, -1)
    written = head .. '\n' .. table.concat(written, '', 2)
    if written ~= written_as then
      foreign, values[i], log.raw = true, written, written
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
  if log.length > 0 and log.last_at > now + far then
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

-- The first entry that still counts at an instant.
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

-- What counts from an entry on.
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
    spoil(log)
    return 0
  end
  return counted
end

-- What a log says to a charge as of `at`: how much counts, when nothing will, and when a cost fits that does not.
local function log_state(log, at, counted, fits_at)
  local empty_at = log.length > 0 and log.last_at + log.window or at
  return pack('<Bddd', 0, counted, empty_at > at and empty_at or at, fits_at)
end

-- Does the cost fit? If so it is kept in mind for others that ask the same log in this call.
local function ask_log(log, cost, at)
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
      -- It was none after all.
      return ask_log(log, cost, at)
    end
  end
  return false, log_state(log, at, counted, fits_at)
end

-- Forgets what no longer counts.
local function trim_log(log)
  if log.rewrite then
    rewrite_log(log)
  elseif log.gone > 0 then
    redis.call('LTRIM', log.key, log.gone + 1, -1)
    redis.call('LPUSH', log.key, log.text)
    log.length, log.gone = log.length - log.gone, 0
  end
end

-- Counts a cost that fits.
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
