-- What is known about users beside violations, for all nodes. KEYS: the head, `epoch:sequence`; two sorted sets of the same
-- members: by sequence, and with equal scores (so in the order of users); a sorted set of users by the instant in
-- milliseconds at which they are forgotten; the heads of the past; the users of whom nothing is known any more; and marks
-- by the instant at which their changes were made. A member is a user, its sequence and a text, with line feeds between; the
-- text is empty if nothing is known any more. ARGV: 'read', the epoch and the sequence of a head, a sequence, and how many
-- members after it to return; 'find' and users; or 'change', how many users there may be, how many milliseconds what has
-- ended is kept, a mark with which the change is made once in a day or '', and of each user its name, the sequence that it
-- must still have ('0': none), in how many milliseconds the text says nothing any more or '', and the text.

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
  call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
  epoch = number(time[1] * 1000000 + time[2])
end

local function forget(user, member)
  call('ZREM', KEYS[2], member or '')
  call('ZREM', KEYS[3], member or '')
  call('ZREM', KEYS[4], user)
  call('ZREM', KEYS[6], user)
end

local function ended(key, last)
  -- The work of a call is bounded.
  return ipairs(call('ZRANGE', key, '-inf', number(last), 'BYSCORE', 'LIMIT', 0, 100))
end

local most, kept, mark = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
for _, user in ended(KEYS[4], now) do
  forget(user, (find(user)))
end
for _, old in ended(KEYS[7], now - 86400000) do
  call('ZREM', KEYS[7], old)
end
local function refuse(why)
  if mark ~= '' then
    call('ZREM', KEYS[7], mark)
  end
  return { why }
end
if mark ~= '' then
  if call('ZADD', KEYS[7], 'NX', number(now), mark) == 0 then
    return { 'repeated' }
  end
  -- The oldest make way.
  for _, old in ipairs(call('ZRANGE', KEYS[7], 0, -10001)) do
    call('ZREM', KEYS[7], old)
  end
end
local before, new, newly_known = {}, 0, 0
for i = 5, #ARGV, 4 do
  local member, known, was = find(ARGV[i])
  if known ~= ARGV[i + 1] then
    return refuse('stale')
  end
  before[i] = member
  if was == '' and ARGV[i + 3] ~= '' then
    newly_known = newly_known + 1
    new = new + (member and 0 or 1)
  end
end
if newly_known > 0 then
  local rows = call('ZCARD', KEYS[2])
  if rows - call('ZCARD', KEYS[6]) + newly_known > most or rows + new > 2 * most then
    return refuse('full')
  end
end
for i = 5, #ARGV, 4 do
  local user, lasts, text = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  if before[i] then
    forget(user, before[i])
  end
  -- Of whom nothing was known and nothing is, there is nothing to tell.
  if before[i] or text ~= '' then
    local own = next_sequence()
    local member = user .. '\n' .. own .. '\n' .. text
    call('ZADD', KEYS[2], own, member)
    call('ZADD', KEYS[3], 0, member)
    if text == '' then
      lasts = 0
      call('ZADD', KEYS[6], 0, user)
    end
    if lasts ~= '' then
      call('ZADD', KEYS[4], number(now + lasts + kept), user)
    end
  end
end
set_head()
return { 'changed', number(sequence) }
