-- The stored values of the keys, and the packed ARGV[1]: the verb, then a record for each key. The next arguments are
-- the texts, one for each key, then the migrated states.
local packed, position, keys = ARGV[1], 2, #KEYS
local verb = sub(packed, 1, 1)
local values = redis.call('MGET', unpack(KEYS))
local now = seconds * 1000000 + micros
local poisoned, other_text = 0, false
-- For each key: how many milliseconds longer than until it is full its state is kept.
local spares = {}
-- For each key: `true` if its state was stored in other numbers, and is used as the caller has migrated it.
local is_migrated = {}

-- The two numbers of a state that is stored under the key's own text, or of its migrated state. A value that is no
-- valid state counts as untouched.
local function state_of(i, below, raw, migrated_a, migrated_b)
  local value, text = values[i], ARGV[i + 1]
  if not value then
    return 0, 0
  end
  if sub(value, 17) == text then
    local a, b = unpack_from('<dd', value)
    if a >= 0 and a < 9007199254740992 and b >= 0 and b < below and a % 1 == 0 and b % 1 == 0 then
      return a, b
    end
  elseif #value <= 256 then
    if raw and raw > 0 and value == ARGV[raw] then
      is_migrated[i] = true
      return migrated_a, migrated_b
    end
    other_text = true
    return 0, 0
  end
  poisoned, values[i] = poisoned + 1, false
  return 0, 0
end

-- Stores a state for `ttl` milliseconds.
local function keep(i, a, b, ttl)
  redis.call('SET', KEYS[i], pack('<dd', a, b) .. ARGV[i + 1], 'PX', ceil(ttl) + 1 + slack + spares[i])
end

-- Replaces a state that lies too far in the future to be valid, and that would deny for years.
local function replace(i, a, b, ttl)
  poisoned, values[i] = poisoned + 1, pack('<dd', a, b) .. ARGV[i + 1]
  if verb ~= '0' then
    keep(i, a, b, ttl)
  end
  return a, b
end

-- The state of a token bucket: the instant at which it is full.
local function bucket_of(i, now_a, now_b, period, base, span_a, span_b, max_ahead, raw, migrated_a, migrated_b)
  local a, b = state_of(i, base, raw, migrated_a, migrated_b)
  if a > now_a + max_ahead then
    a, b = now_a + span_a, now_b + span_b
    if b >= base then
      a, b = a + 1, b - base
    end
    return replace(i, a, b, (span_a + span_b / base) * period * 1000)
  end
  return a, b
end
