-- The state of a window: its number, and before * 2^20 + now, the counts of the window before it and of its own.
-- Answers for an instant: the number of the current window, the time passed in it, and both counts.
local function counts(number, both, at, length)
  local here = floor(at / length)
  local now = both % 1048576
  local before = (both - now) / 1048576
  if both == 0 or number < here - 1 then
    return here, at - here * length, 0, 0
  elseif number == here then
    return here, at - here * length, before, now
  elseif number > here then
    return number, 0, before, now
  end
  return here, at - here * length, now, 0
end

-- The same for a fixed window: the count before it matters only while the stored window is in the future.
local function fixed_counts(number, both, at, length)
  local window, gone, before, now = counts(number, both, at, length)
  if window <= floor(at / length) then
    before = 0
  end
  return window, gone, before, now
end

-- Is a * b <= c * d? Exact.
local function at_most(a, b, c, d)
  local p, q = a * b, c * d
  if p < 9007199254740992 and q < 9007199254740992 then
    return p <= q
  end
  local p_low, q_low
  p, p_low = product(a, b)
  q, q_low = product(c, d)
  return p < q or (p == q and p_low <= q_low)
end

-- The highest possible count of a window: twice its limit, for a key at full trust.
local function count_max(limit)
  return limit < 500000 and 2 * limit or 1000000
end

-- Charges `cost` as of `at`, which is not before `now`. Answers the state after it, or `nil` if it does not fit.
local function charge_window(fixed, number, both, length, limit, cost, at)
  local window, gone, before, count
  if fixed then
    window, gone, before, count = fixed_counts(number, both, at, length)
    local used = count > before and count or before
    if used + cost > limit then
      return nil
    end
    before = before == 0 and 0 or before + cost
    if at > now then
      local here, _, kept, counted = fixed_counts(number, both, now, length)
      if here < window and counted > kept then
        kept = counted
      end
      before = kept > before and kept or before
    end
  else
    window, gone, before, count = counts(number, both, at, length)
    if at > now then
      local here, passed, faded, counted = counts(number, both, now, length)
      if here ~= window then
        local used = counted + faded - over(faded, passed, length)
        local most = count_max(limit)
        used = used < most and used or most
        before = used > before and used or before
      end
    end
    -- The whole count is stored, but it weighs at most the limit.
    local room, weighs = limit - count - cost, before < limit and before or limit
    if room < 0 or not at_most(weighs, length - gone, room, length) then
      return nil
    end
  end
  return window, before * 1048576 + count + cost
end

-- In how many microseconds none of its counts matter any more.
local function window_ttl(fixed, number, both, length, now)
  local after = (fixed or both % 1048576 == 0) and 1 or 2
  return (number + after) * length - now
end

-- The stored state of a window.
local function window_of(i, fixed, length, limit, max_ahead, raw, migrated_a, migrated_b)
  local a, b = state_of(i, 1099511627776, raw, migrated_a, migrated_b)
  local most = count_max(limit)
  if b % 1048576 > most or b >= (most + 1) * 1048576 then
    poisoned, values[i] = poisoned + 1, false
    return 0, 0
  end
  local here = floor(now / length)
  if b > 0 and a > here + max_ahead then
    -- Too far in the future to be valid: this window and the one before count as full.
    b = limit * 1048577
    return replace(i, here, b, window_ttl(fixed, here, b, length, now) / 1000)
  end
  return a, b
end
