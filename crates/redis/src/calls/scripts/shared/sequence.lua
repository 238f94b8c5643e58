-- What is numbered by a sequence: reads the head, and answers a call that asks for what is new.
local call = redis.call
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(value)
  return string.format('%.0f', value)
end

local head = call('MGET', KEYS[1])[1]
local epoch, sequence = string.match(head or '', '^(%d+):(%d+)$')
epoch, sequence = epoch or '0', tonumber(sequence or 0)

if ARGV[1] == 'read' then
  local answer = { epoch, number(sequence) }
  if ARGV[2] ~= epoch or tonumber(ARGV[3]) ~= sequence then
    local after = ARGV[2] == epoch and '(' .. ARGV[3] or '-inf'
    answer[3] = call('ZRANGE', KEYS[2], after, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[4], 'WITHSCORES')
  end
  return answer
end

