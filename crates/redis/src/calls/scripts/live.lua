-- Live entries: what people do at run time beside the policy, for all nodes. KEYS: the head, `epoch:sequence`; three
-- sorted sets of the same members: by sequence, with equal scores (so in the order of ids), and by the instant in
-- milliseconds at which they are forgotten; and the heads of the past. A member is an id, a line feed, '+' or '-' (removed),
-- and a text. ARGV: 'read', the epoch and the sequence of a head, a sequence, and how many entries after it to return;
-- 'tidy'; or 'change', how many entries there may be, how many milliseconds what has ended is kept, how many ids to remove and these,
-- how many entries to add and of each its id, how many milliseconds it lasts or '', and its text.

local function forget(member)
  for i = 2, 4 do
    call('ZREM', KEYS[i], member)
  end
end

-- The work of a call is bounded.
for _, member in ipairs(call('ZRANGE', KEYS[4], '-inf', number(now), 'BYSCORE', 'LIMIT', 0, 1000)) do
  forget(member)
end
if ARGV[1] == 'tidy' then
  return {}
end

if epoch == '0' then
  -- Lost, or never there: whatever is left belongs to sequences that nobody knows.
  call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  epoch = number(time[1] * 1000000 + time[2])
end

local function add(member, forgotten_at)
  call('ZADD', KEYS[2], next_sequence(), member)
  call('ZADD', KEYS[3], 0, member)
  call('ZADD', KEYS[4], forgotten_at, member)
end

local most, kept = tonumber(ARGV[2]), tonumber(ARGV[3])
local removed, position = {}, 4 + ARGV[4]
for i = 1, tonumber(ARGV[4]) do
  local id = ARGV[4 + i]
  removed[i] = call('ZRANGE', KEYS[3], '[' .. id .. '\n+', '(' .. id .. '\n,', 'BYLEX')[1]
  if not removed[i] then
    return { 'unknown' }
  end
end
local added = tonumber(ARGV[position + 1])
if added > 0 and call('ZCARD', KEYS[2]) + added > most then
  return { 'full' }
end
for i, member in ipairs(removed) do
  forget(member)
  local id = ARGV[4 + i]
  add(id .. '\n-' .. string.sub(member, #id + 3), number(now + kept))
end
for i = 1, added do
  local id, lasts, text = ARGV[position + 3 * i - 1], ARGV[position + 3 * i], ARGV[position + 3 * i + 1]
  add(id .. '\n+' .. text, lasts == '' and '+inf' or number(now + lasts + kept))
end
set_head()
return { 'changed', number(sequence) }
