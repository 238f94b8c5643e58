-- What nodes tell each other of themselves. KEYS: two sorted sets, of what each node has told last, by the instant in
-- milliseconds; and of what nodes have told of steps of the last hour, by the number of the step. A member is an id, a line
-- feed and a text. ARGV: 'tell', how many members there may be, how many milliseconds they are kept, the member, and the one
-- before or ''; 'nodes', how many to return, and within how many milliseconds they were told; 'keep', how many members there
-- may be, how many milliseconds they are kept, the member, its step, how many milliseconds a step is long, and how many steps
-- are kept before and after the one that goes on; 'counts', 0, and the same of steps, for how many members each step has; or
-- 'steps', how many to return, the first and the last step, and how many to leave out. Only the server's clock decides what is
-- old: those of nodes may be wrong.
local call = redis.call
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local what, most = ARGV[1], tonumber(ARGV[2])

local function number(value)
  return string.format('%.0f', value)
end

-- The first and the last step that are kept.
local function kept(index)
  local step = math.floor(now / ARGV[index])
  return step - ARGV[index + 1], step + ARGV[index + 1]
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
  local first, last = kept(6)
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. number(first))
  call('ZREMRANGEBYSCORE', KEYS[2], '(' .. number(last), '+inf')
  if tonumber(ARGV[5]) < first or tonumber(ARGV[5]) > last then
    return {}
  end
  return add(KEYS[2], ARGV[5])
elseif what == 'counts' then
  local first, last = kept(3)
  local counts = {}
  for step = first, last do
    local count = call('ZCOUNT', KEYS[2], number(step), number(step))
    if count > 0 then
      counts[#counts + 1] = number(step)
      counts[#counts + 1] = number(count)
    end
  end
  return counts
elseif what == 'nodes' then
  local since = number(now - ARGV[3])
  local told = call('ZRANGE', KEYS[1], since, '+inf', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  -- How many milliseconds ago, so that the clocks of nodes do not matter.
  for i = 2, #told, 2 do
    told[i] = number(math.max(0, now - told[i]))
  end
  return told
end
return call('ZRANGE', KEYS[2], ARGV[3], ARGV[4], 'BYSCORE', 'LIMIT', ARGV[5], most, 'WITHSCORES')
