-- When live entries were last used. KEYS: a sorted set of ids by milliseconds. ARGV: 'read' and ids; or 'tell', how many of
-- the newest to keep, and of each entry the time and its id.
local call = redis.call

if ARGV[1] == 'read' then
  local found = {}
  for i = 2, #ARGV do
    found[i - 1] = call('ZSCORE', KEYS[1], ARGV[i]) or ''
  end
  return found
end

for i = 3, #ARGV, 2 do
  call('ZADD', KEYS[1], 'GT', ARGV[i], ARGV[i + 1])
end
-- The oldest make way.
for _, id in ipairs(call('ZRANGE', KEYS[1], 0, -1 - ARGV[2])) do
  call('ZREM', KEYS[1], id)
end
return {}
