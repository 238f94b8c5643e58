-- The fast path of charge.lua, for the most frequent call: it takes from token buckets with a whole number of ticks in
-- a nanosecond, each once, all binding. The record of a key: ticks in a second, ticks in a microsecond, the most ticks
-- that may be missing for the cost to fit, the cost, how many seconds in the future a state may lie, and how many
-- milliseconds longer than until it is full the state is kept.
local call, unpack_from, pack, sub, ceil = redis.call, struct.unpack, struct.pack, string.sub, math.ceil
local seconds, micros = time[1] + 0, time[2] + 0
local packed, position, keys = ARGV[1], 2, #KEYS
local values = call('MGET', unpack(KEYS))
local written, ttls = {}, {}
local outcome, poisoned, complete = 0, 0, true

for i = 1, keys do
  local value, text, a, b = values[i], ARGV[i + 1], 0, 0
  local base, ticks, room_a, room_b, cost_a, cost_b, max_ahead, spare
  base, ticks, room_a, room_b, cost_a, cost_b, max_ahead, spare, position = unpack_from('<dddddddd', packed, position)
  local now_b = micros * ticks
  if not value then
    complete = false
  elseif sub(value, 17) == text then
    a, b = unpack_from('<dd', value)
    if not (a >= 0 and a < 9007199254740992 and b >= 0 and b < base and a % 1 == 0 and b % 1 == 0) then
      poisoned, values[i], complete, a, b = poisoned + 1, false, false, 0, 0
    elseif a > seconds + max_ahead then
      -- Too far in the future to be valid: replace it by a bucket that is empty now.
      a, b = room_a + cost_a, room_b + cost_b
      local ttl = ceil((a + b / base) * 1000) + 1 + slack + spare
      b = b >= base and b - base + now_b or b + now_b
      a = seconds + a + (room_b + cost_b >= base and 1 or 0)
      if b >= base then
        a, b = a + 1, b - base
      end
      poisoned, values[i] = poisoned + 1, pack('<dd', a, b) .. text
      call('SET', KEYS[i], values[i], 'PX', ttl)
    end
  elseif #value > 256 then
    poisoned, values[i], complete = poisoned + 1, false, false
  else
    outcome, complete = 2, false
  end
  local missing_a, missing_b = a - seconds, b - now_b
  if missing_b < 0 then
    missing_a, missing_b = missing_a - 1, missing_b + base
  end
  if missing_a < 0 then
    missing_a, missing_b = 0, 0
  end
  if missing_a < room_a or (missing_a == room_a and missing_b <= room_b) then
    a, b = missing_a + cost_a, missing_b + cost_b
    if b >= base then
      a, b = a + 1, b - base
    end
    ttls[i] = ceil((a + b / base) * 1000) + 1 + slack + spare
    a, b = a + seconds, b + now_b
    if b >= base then
      a, b = a + 1, b - base
    end
    written[i] = pack('<dd', a, b) .. text
  elseif outcome == 0 then
    outcome = 1
  end
end

if outcome == 0 then
  for i = 1, keys do
    call('SET', KEYS[i], written[i], 'PX', ttls[i])
  end
end
if complete then
  -- Every value has a known length (16 bytes and its text), so one string suffices, which is faster than a list.
  return time[1] .. ' ' .. time[2] .. ' ' .. outcome .. ' ' .. poisoned .. '\n' .. table.concat(values)
end
time[3], time[4] = outcome, poisoned
for i = 1, keys do
  time[4 + i] = values[i]
end
return time
