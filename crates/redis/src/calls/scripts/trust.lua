-- What is known about users beside violations, for all nodes. KEYS: the head, `epoch:sequence`; two sorted sets of the same
-- members: by sequence, and with equal scores (so in the order of users); and a sorted set of users by the instant in
-- milliseconds at which they are forgotten. A member is a user, its sequence and a text, with line feeds between; the text
-- is empty if nothing is known any more. ARGV: 'read', an epoch, a sequence, and how many members after it to return;
-- 'find' and users; or 'change', how many users there may be, how many milliseconds what has ended is kept, and of each
-- user its name, the sequence that it must still have ('0': none), in how many milliseconds the text says nothing any more
-- or '', and the text.

-- The member of a user, its sequence and its text.
local function find(user)
  local member = call('ZRANGE', KEYS[3], '[' .. user .. '\n', '(' .. user .. '\v', 'BYLEX')[1]
  if not member then
    return nil, '0', ''
  end
  local known, text = string.match(string.sub(member, #user + 2), '^(%d+)\n(.*)$')
  return member, known, text
end

if ARGV[1] == 'find' then
  local answer = {}
  for i = 2, #ARGV do
    local _, known, text = find(ARGV[i])
    answer[2 * i - 3], answer[2 * i - 2] = known, text
  end
  return answer
end

if epoch == '0' then
  -- Lost, or never there: whatever is left belongs to sequences that nobody knows.
  call('DEL', KEYS[2], KEYS[3], KEYS[4])
  epoch = number(time[1] * 1000000 + time[2])
end

local function forget(user, member)
  call('ZREM', KEYS[2], member or '')
  call('ZREM', KEYS[3], member or '')
  call('ZREM', KEYS[4], user)
end

local most, kept = tonumber(ARGV[2]), tonumber(ARGV[3])
-- The work of a call is bounded.
for _, user in ipairs(call('ZRANGE', KEYS[4], '-inf', number(now), 'BYSCORE', 'LIMIT', 0, 100)) do
  forget(user, (find(user)))
end
local before, added = {}, 0
for i = 4, #ARGV, 4 do
  local member, known = find(ARGV[i])
  if known ~= ARGV[i + 1] then
    return { 'stale' }
  end
  before[i] = member
  if not member and ARGV[i + 3] ~= '' then
    added = added + 1
  end
end
if added > 0 and call('ZCARD', KEYS[2]) + added > most then
  return { 'full' }
end
for i = 4, #ARGV, 4 do
  local user, lasts, text = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  if before[i] then
    forget(user, before[i])
  end
  -- Of whom nothing was known and nothing is, there is nothing to tell.
  if before[i] or text ~= '' then
    sequence = sequence + 1
    local member = user .. '\n' .. number(sequence) .. '\n' .. text
    call('ZADD', KEYS[2], number(sequence), member)
    call('ZADD', KEYS[3], 0, member)
    if text == '' then
      lasts = 0
    end
    if lasts ~= '' then
      call('ZADD', KEYS[4], number(now + lasts + kept), user)
    end
  end
end
call('SET', KEYS[1], epoch .. ':' .. number(sequence))
return { 'changed', number(sequence) }
