-- The nodes that are alive, by when they were last heard of, in milliseconds. ARGV: a node, whether it is alive,
-- how long one counts that is silent.
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local within = tonumber(ARGV[3])
if ARGV[2] == '1' then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - within))
-- None is heard of ahead of time, unless the clock has stepped back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + within), '+inf')
redis.call('PEXPIRE', KEYS[1], within + 1 + slack)
return redis.call('ZCARD', KEYS[1])
