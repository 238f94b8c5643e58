-- What is kept under the keys of a call, and what is packed about them in ARGV[1]: the verb, and for each key the
-- numbers of its limit. After it come the texts, one for each key, and what has been brought up.
local packed, position, keys = ARGV[1], 2, #KEYS
local verb = sub(packed, 1, 1)
local values = redis.call('MGET', unpack(KEYS))
local now = seconds * 1000000 + micros
local poisoned, foreign = 0, false
-- How many milliseconds longer than until it is full the state of a key is kept.
local spares = {}

-- The two numbers of a state that is written under the key's own text, or that has been brought up. What cannot be
-- a state at all is none.
local function state_of(i, below, raw, brought_a, brought_b)
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
      return brought_a, brought_b
    end
    foreign = true
    return 0, 0
  end
  poisoned, values[i] = poisoned + 1, false
  return 0, 0
end

-- Keeps a state for so many milliseconds.
local function keep(i, a, b, life)
  redis.call('SET', KEYS[i], pack('<dd', a, b) .. ARGV[i + 1], 'PX', ceil(life) + 1 + slack + spares[i])
end

-- Keeps a state in the place of one that lies too far ahead to be true, and would deny for ever.
local function replace(i, a, b, life)
  poisoned, values[i] = poisoned + 1, pack('<dd', a, b) .. ARGV[i + 1]
  if verb ~= '0' then
    keep(i, a, b, life)
  end
  return a, b
end

-- A token bucket: the instant at which it is full.
local function bucket_of(i, ask_now_a, ask_now_b, period, base, span_a, span_b, far, raw, brought_a, brought_b)
  local a, b = state_of(i, base, raw, brought_a, brought_b)
  if a > ask_now_a + far then
    a, b = ask_now_a + span_a, ask_now_b + span_b
    if b >= base then
      a, b = a + 1, b - base
    end
    return replace(i, a, b, (span_a + span_b / base) * period * 1000)
  end
  return a, b
end
