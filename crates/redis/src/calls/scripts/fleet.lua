-- What nodes tell each other of themselves. KEYS: two sorted sets, of what each node has told last, by the instant in
-- milliseconds; and of what nodes have told of steps of the last hour, by the number of the step. A member is an id, a line
-- feed and a text. ARGV: 'tell', how many members there may be, how many milliseconds they are kept, the member, and the one
-- before or ''; 'nodes', how many to return, and within how many milliseconds they were told; 'keep', how many members there
-- may be, how many milliseconds they are kept, the member, its step, and the first step that is kept; or 'steps', how many to
-- return, the first step, and how many to leave out.
local call = redis.call
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local what, most = ARGV[1], tonumber(ARGV[2])

local function number(value)
  return string.format('%.0f', value)
end

local function add(key, score)
  if call('ZCARD', key) < most then
    call('ZADD', key, score, ARGV[4])
  end
  call('PEXPIRE', key, ARGV[3])
  return {}
end

if what == 'tell' then
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', number(now - ARGV[3]))
  call('ZREM', KEYS[1], ARGV[5])
  return add(KEYS[1], number(now))
elseif what == 'keep' then
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[6])
  return add(KEYS[2], ARGV[5])
elseif what == 'nodes' then
  local since = number(now - ARGV[3])
  local told = call('ZRANGE', KEYS[1], since, '+inf', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  -- How many milliseconds ago, so that the clocks of nodes do not matter.
  for i = 2, #told, 2 do
    told[i] = number(math.max(0, now - told[i]))
  end
  return told
end
return call('ZRANGE', KEYS[2], ARGV[3], '+inf', 'BYSCORE', 'LIMIT', ARGV[4], most, 'WITHSCORES')
