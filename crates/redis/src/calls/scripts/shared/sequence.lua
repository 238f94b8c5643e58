-- What is numbered by a sequence: reads the head, and answers a call that asks for what is new. A sequence is at least the
-- time in microseconds: a server that goes back, because it lost its last changes, gives none of their sequences again. So
-- whoever has seen a head that is neither this one nor one of the past has seen what is lost, and gets everything anew.
local call = redis.call
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(value)
  return string.format('%.0f', value)
end

local head = call('MGET', KEYS[1])[1]
local epoch, sequence = string.match(head or '', '^(%d+):(%d+)$')
epoch, sequence = epoch or '0', tonumber(sequence or 0)
local before = sequence

if ARGV[1] == 'read' then
  local seen, after = tonumber(ARGV[3]), tonumber(ARGV[4])
  local answer = { epoch, number(sequence) }
  local is_known = ARGV[2] == epoch
    and (seen == sequence or seen == 0 or #call('ZRANGE', KEYS[5], ARGV[3], ARGV[3], 'BYSCORE') > 0)
  if not is_known or after < sequence then
    local from = is_known and '(' .. ARGV[4] or '-inf'
    answer[3] = call('ZRANGE', KEYS[2], from, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[5], 'WITHSCORES')
    answer[4] = is_known and 'more' or 'anew'
  end
  return answer
end

-- The next sequence.
local function next_sequence()
  sequence = math.max(sequence + 1, time[1] * 1000000 + time[2])
  return number(sequence)
end

-- Writes the head, and that of before to those of the past, of which so many are kept.
local function set_head()
  if sequence > before then
    call('ZADD', KEYS[5], number(before), number(before))
    for _, oldest in ipairs(call('ZRANGE', KEYS[5], 0, -1001)) do
      call('ZREM', KEYS[5], oldest)
    end
  end
  call('SET', KEYS[1], epoch .. ':' .. number(sequence))
end

