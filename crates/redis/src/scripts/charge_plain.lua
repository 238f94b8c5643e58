-- Takes from all buckets, or from none, as charge.lua does, where that is all there is to it: token buckets of a
-- whole number of ticks in a nanosecond, each once, all binding. Most calls are such, and this is what their speed
-- is made of. For each key are packed: ticks in a second and in a microsecond, what may be missing for the cost to
-- be there, the cost, how many seconds ahead a state may lie, and how many milliseconds longer than until it is full
-- it is kept.
local call, unpack_from, pack, sub, ceil = redis.call, struct.unpack, struct.pack, string.sub, math.ceil
local seconds, micros = time[1] + 0, time[2] + 0
local packed, position, keys = ARGV[1], 2, #KEYS
local values = call('MGET', unpack(KEYS))
local written, lives = {}, {}
local said, poisoned, complete = 0, 0, true

for i = 1, keys do
  local value, text, a, b = values[i], ARGV[i + 1], 0, 0
  local base, ticks, room_a, room_b, cost_a, cost_b, far, spare
  base, ticks, room_a, room_b, cost_a, cost_b, far, spare, position = unpack_from('<dddddddd', packed, position)
  local now_b = micros * ticks
  if not value then
    complete = false
  elseif sub(value, 17) == text then
    a, b = unpack_from('<dd', value)
    if not (a >= 0 and a < 9007199254740992 and b >= 0 and b < base and a % 1 == 0 and b % 1 == 0) then
      poisoned, values[i], complete, a, b = poisoned + 1, false, false, 0, 0
    elseif a > seconds + far then
      -- Too far ahead to be true: used up as of now.
      a, b = room_a + cost_a, room_b + cost_b
      local life = ceil((a + b / base) * 1000) + 1 + slack + spare
      b = b >= base and b - base + now_b or b + now_b
      a = seconds + a + (room_b + cost_b >= base and 1 or 0)
      if b >= base then
        a, b = a + 1, b - base
      end
      poisoned, values[i] = poisoned + 1, pack('<dd', a, b) .. text
      call('SET', KEYS[i], values[i], 'PX', life)
    end
  elseif #value > 256 then
    poisoned, values[i], complete = poisoned + 1, false, false
  else
    said, complete = 2, false
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
    lives[i] = ceil((a + b / base) * 1000) + 1 + slack + spare
    a, b = a + seconds, b + now_b
    if b >= base then
      a, b = a + 1, b - base
    end
    written[i] = pack('<dd', a, b) .. text
  elseif said == 0 then
    said = 1
  end
end

if said == 0 then
  for i = 1, keys do
    call('SET', KEYS[i], written[i], 'PX', lives[i])
  end
end
if complete then
  -- All values are as long as their texts say: one string is answered faster than a list.
  return time[1] .. ' ' .. time[2] .. ' ' .. said .. ' ' .. poisoned .. '\n' .. table.concat(values)
end
time[3], time[4] = said, poisoned
for i = 1, keys do
  time[4 + i] = values[i]
end
return time
