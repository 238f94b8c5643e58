-- The list of penalties that nodes share. KEYS: two sorted sets of the same members, each an id of 32 characters and a
-- text: by the ends of the penalties in milliseconds, and with equal scores, so in the order of ids. ARGV: 'add', how
-- many penalties may be listed, how many follow, and of each its id, how many milliseconds it lasts and its text; or
-- 'remove' and an id; or 'page', an id or '' and how many penalties after it to return. To add answers how many found no
-- room.
local call = redis.call
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if ARGV[1] == 'page' then
  local begin = ARGV[2] == '' and '-' or '(' .. ARGV[2] .. '\255'
  return call('ZRANGE', KEYS[2], begin, '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
end

local function remove(members)
  for _, member in ipairs(members) do
    call('ZREM', KEYS[1], member)
    call('ZREM', KEYS[2], member)
  end
end

-- The first byte of a text is zero.
local function members_of(id)
  return call('ZRANGE', KEYS[2], '[' .. id, '(' .. id .. '\255', 'BYLEX')
end

if ARGV[1] == 'remove' then
  remove(members_of(ARGV[2]))
  return 0
end

local most, added, without_room = tonumber(ARGV[2]), tonumber(ARGV[3]), 0
-- For each that is added at least one that has ended goes: the work of a call is bounded, and what has ended does not
-- fill the list.
local until_now = string.format('%.0f', now)
remove(call('ZRANGE', KEYS[1], '-inf', until_now, 'BYSCORE', 'LIMIT', 0, added + 64))
for i = 1, added do
  local id, lasts, text = ARGV[3 * i + 1], tonumber(ARGV[3 * i + 2]), ARGV[3 * i + 3]
  remove(members_of(id))
  if call('ZCARD', KEYS[1]) < most then
    call('ZADD', KEYS[1], string.format('%.0f', now + lasts), id .. text)
    call('ZADD', KEYS[2], 0, id .. text)
  else
    without_room = without_room + 1
  end
end
local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if last then
  local life = string.format('%.0f', math.max(tonumber(last) - now, 0) + 1 + slack)
  call('PEXPIRE', KEYS[1], life)
  call('PEXPIRE', KEYS[2], life)
end
return without_room
