-- The fast path of charge.lua, for the most frequent call: it takes from token buckets with a whole number of ticks in
-- a nanosecond, each once, all binding. Several such calls about different buckets can be sent as one: each is a group
-- of keys that is charged as a whole or not at all, whatever becomes of the others.
--
-- ARGV[1] is packed: the number of groups; then for each group how many keys it has, and for each of them where its
-- record begins; then the records: ticks in a second, ticks in a microsecond, the most ticks that may be missing for the
-- cost to fit, the cost, how many seconds in the future a state may lie, how many milliseconds longer than until it is full
-- the state is kept, and which argument is its text. Keys with equal numbers and costs share a record, and a text.
--
-- The answer of a group is a string, which is faster than a list: the time, the outcome and how many values were no valid
-- states, as a line of numbers; then the values, whose lengths the caller knows (16 bytes and the text). If some are
-- absent, the line also has a digit for each key: 1 if its value follows, 0 if there was none. Only values under other
-- texts, whose lengths are not known, are answered as a list.
--
-- A server may refuse to write but not to read: without memory, or without enough replicas. Then the error is the answer
-- of the groups that would write, and those that are denied are still answered. A group is all or nothing even so: the
-- server refuses the first write of a script, and all that follow, or none of them.
local try, unpack_from, pack, sub, ceil = redis.pcall, struct.unpack, struct.pack, string.sub, math.ceil
-- A command gets numbers as text. Written as an integer here that is cheaper than the server's general conversion, but an
-- integer of Lua may have 32 bits only, so longer times are left to the server.
local digits, most = string.format, 2147483647
local seconds, micros = time[1] + 0, time[2] + 0
local packed = ARGV[1]
local groups, position = unpack_from('B', packed)
local values = redis.call('MGET', unpack(KEYS))
local written, ttls, answers = {}, {}, {}
local last, is_packed = 0, true

for group = 1, groups do
  local outcome, poisoned, absent, failed = 0, 0, false, nil
  local first, keys = last + 1
  keys, position = unpack_from('<H', packed, position)
  last = last + keys
  for i = first, last do
    local value, a, b = values[i], 0, 0
    local record
    record, position = unpack_from('<I', packed, position)
    local base, ticks, room_a, room_b, cost_a, cost_b, max_ahead, spare, text =
      unpack_from('<ddddddddH', packed, record)
    text = ARGV[text]
    local now_b = micros * ticks
    if not value then
      absent, values[i] = true, ''
    elseif sub(value, 17) == text then
      a, b = unpack_from('<dd', value)
      if not (a >= 0 and a < 9007199254740992 and b >= 0 and b < base and a % 1 == 0 and b % 1 == 0) then
        poisoned, values[i], absent, a, b = poisoned + 1, '', true, 0, 0
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
        local set = try('SET', KEYS[i], values[i], 'PX', ttl)
        failed = set.err and set or failed
      end
    elseif #value == 0 or #value > 256 then
      poisoned, values[i], absent = poisoned + 1, '', true
    else
      outcome = 2
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

  if outcome == 0 and not failed then
    for i = first, last do
      local ttl = ttls[i]
      local set = try('SET', KEYS[i], written[i], 'PX', ttl > most and ttl or digits('%d', ttl))
      if set.err then
        failed = set
        break
      end
    end
  end
  local line = time[1] .. ' ' .. time[2] .. ' ' .. outcome .. ' ' .. poisoned
  if failed then
    is_packed, answers[group] = false, failed
  elseif outcome == 2 then
    is_packed = false
    for i = first, last do
      values[i] = values[i] ~= '' and values[i]
    end
    answers[group] = { time[1], time[2], outcome, poisoned, unpack(values, first, last) }
  elseif absent then
    local present = {}
    for i = first, last do
      present[i - first + 1] = values[i] == '' and '0' or '1'
    end
    answers[group] = line .. ' ' .. table.concat(present) .. '\n' .. table.concat(values, '', first, last)
  else
    answers[group] = line .. '\n' .. table.concat(values, '', first, last)
  end
end
if groups == 1 then
  return answers[1]
end
return is_packed and table.concat(answers) or answers
