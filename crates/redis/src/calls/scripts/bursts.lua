-- Burst detectors. KEYS: one for each detector and client. ARGV[1] is packed; for each key: the length of a window in
-- microseconds, the most requests in a window, the penalty in microseconds, 1 if a penalty is lifted, and the number of
-- counts that follow: how many microseconds ago, and how many requests. A count belongs to the window in which it was
-- made, if that is the newest one or the one before it; older ones are dropped.
--
-- A state has nine doubles: the number of the newest window, its count, whether it was crossed, count and crossing of
-- the window before, the length of a window, the penalty (0 none, 1 warned, 2 blocked), when that ends, and in which
-- window the warning was given.
local call, unpack_from, pack, floor = redis.call, struct.unpack, struct.pack, math.floor
local now = time[1] * 1000000 + time[2]
local packed, position, result = ARGV[1], 1, {}

for i = 1, #KEYS do
  local length, threshold, penalty, lifts, counts
  length, threshold, penalty, lifts, counts, position = unpack_from('<ddddd', packed, position)
  local window, count, crossed, before, before_crossed, of, kind, ends, warned_in = -1, 0, 0, 0, 0, length, 0, 0, -1
  local value, action = call('MGET', KEYS[i])[1], 0
  if value and #value == 72 then
    window, count, crossed, before, before_crossed, of, kind, ends, warned_in = unpack_from('<ddddddddd', value)
  end
  if not ((window + 2) * of > now or ends > now) then
    -- The key may already have expired: what it says does not matter any more, whether it is still there or not.
    window, count, crossed, before, before_crossed, of = -1, 0, 0, 0, 0, length
  end
  if lifts == 1 then
    length = of
  elseif of ~= length then
    -- An edit of the length: counting starts anew, and the penalty stays.
    window, count, crossed, before, before_crossed, warned_in = -1, 0, 0, 0, 0, -1
  end
  if not ((window + 2) * length > now) then
    -- A penalty alone keeps the key for so long.
    window, count, crossed, before, before_crossed = -1, 0, 0, 0, 0
  end
  if lifts == 1 or not (ends > now) then
    kind, ends = 0, 0
  end
  for _ = 1, counts do
    local age, requests, crosses
    age, requests, position = unpack_from('<dd', packed, position)
    local made_in = floor((now - age) / length)
    if made_in > window then
      before, before_crossed = 0, 0
      if made_in == window + 1 then
        before, before_crossed = count, crossed
      end
      window, count, crossed = made_in, 0, 0
    end
    if made_in == window then
      count = count + requests
      crosses = crossed == 0 and count > threshold
      crossed = crosses and 1 or crossed
    elseif made_in == window - 1 then
      before = before + requests
      crosses = before_crossed == 0 and before > threshold
      before_crossed = crosses and 1 or before_crossed
    end
    if crosses and kind == 0 then
      kind, ends, warned_in, action = 1, now + penalty, made_in, 1
    elseif crosses and kind == 1 and made_in > warned_in then
      -- 3 says that these counts have led to the warning, too.
      kind, ends, action = 2, now + 2 * penalty, action + 2
    end
  end
  if counts > 0 or (lifts == 1 and value) then
    local forgotten = math.max((window + 2) * length, ends)
    local state = pack('<ddddddddd', window, count, crossed, before, before_crossed, length, kind, ends, warned_in)
    call('SET', KEYS[i], state, 'PX', math.ceil(math.max(forgotten - now, 0) / 1000) + 1 + slack)
  end
  result[#result + 1] = action
  result[#result + 1] = kind
  result[#result + 1] = math.max(ends - now, 0)
end
return result
