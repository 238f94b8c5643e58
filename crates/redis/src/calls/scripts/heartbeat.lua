-- A sorted set of the nodes that are alive, scored by their last heartbeat in milliseconds. ARGV: the node, '1' if it
-- is alive or '0' if it leaves, and how many milliseconds a node counts after its last heartbeat.
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local within = tonumber(ARGV[3])
if ARGV[2] == '1' then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. string.format('%.0f', now - within))
-- A score in the future means that the server's clock stepped back: drop what is too far ahead.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + within), '+inf')
redis.call('PEXPIRE', KEYS[1], within + 1 + slack)
return redis.call('ZCARD', KEYS[1])
