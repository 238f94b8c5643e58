-- Returns tokens to all buckets, in their order. Verb 2 is a refund. Verb 3 hands charges back; the record then has the
-- instant of the charge in place of the delay.
local aged, requests = verb == '3', {}

for i = 1, keys do
  local request, raw, migrated_a, migrated_b, _ = {}, 0, 0, 0, nil
  requests[i] = request
  request.kind, _, request.same, request.extras, request.period, request.base, request.ticks, request.nanos, request.span_a, request.span_b, request.cost_a,
    request.cost_b, request.max_ahead, spares[i], position = unpack_from('<BBHBdddddddddd', packed, position)
  if request.extras == 1 then
    request.charged_a, request.charged_b, _, _, _, raw, migrated_a, migrated_b, position =
      unpack_from('<dddddddd', packed, position)
  end
  if request.kind == 1 then
    request.now_a, request.now_b = instant(seconds, micros, request.period, request.ticks, request.nanos)
  end
  if request.same > 0 then
    request.state = requests[request.same].state
  elseif request.kind == 4 then
    request.state = open_log(i, request.period, request.base, request.max_ahead, raw, migrated_a)
  else
    local a, b
    if request.kind == 1 then
      a, b = bucket_of(i, request.now_a, request.now_b, request.period, request.base, request.span_a, request.span_b, request.max_ahead, raw,
        migrated_a, migrated_b)
    else
      a, b = window_of(i, request.kind == 3, request.period, request.base, request.max_ahead, raw, migrated_a, migrated_b)
    end
    request.state = { a = a, b = b }
  end
end

-- The difference of two instants, or zero if it would be negative.
local function minus(a, b, less_a, less_b, base)
  a, b = a - less_a, b - less_b
  if b < 0 then
    a, b = a - 1, b + base
  end
  if a < 0 then
    return 0, 0
  end
  return a, b
end

-- Returns the tokens, and answers for how many milliseconds the state must be kept; `nil` if nothing changes. After a refund,
-- even of nothing, a migrated bucket is kept as it was migrated: from now on it gains tokens at the rate of these numbers.
-- Only if it is full in them, the value in the old numbers stays.
local function give_to_bucket(request, state, renumbers)
  local base = request.base
  local now_a, now_b, cost_a, cost_b = request.now_a, request.now_b, request.cost_a, request.cost_b
  if aged then
    local age_a, age_b = minus(now_a, now_b, request.charged_a, request.charged_b, base)
    cost_a, cost_b = minus(cost_a, cost_b, age_a, age_b, base)
    local most_a, most_b = now_a, now_b
    if request.charged_a > now_a or (request.charged_a == now_a and request.charged_b > now_b) then
      most_a, most_b = request.charged_a, request.charged_b
    end
    local ahead_a, ahead_b = minus(state.a, state.b, most_a, most_b, base)
    if ahead_a > request.span_a or (ahead_a == request.span_a and ahead_b > request.span_b) then
      return nil
    end
  end
  if cost_a + cost_b == 0 and not renumbers then
    return nil
  end
  local missing_a, missing_b = minus(state.a, state.b, now_a, now_b, base)
  if missing_a + missing_b == 0 then
    return nil
  end
  state.a, state.b = minus(state.a, state.b, cost_a, cost_b, base)
  missing_a, missing_b = minus(state.a, state.b, now_a, now_b, base)
  if missing_a + missing_b == 0 then
    -- Full as of now, not as of an earlier instant.
    state.a, state.b = now_a, now_b
  end
  return (missing_a + missing_b / base) * request.period * 1000
end

local function give_to_window(request, state)
  local fixed = request.kind == 3
  local read_counts = fixed and fixed_counts or counts
  local number, _, before, count = read_counts(state.a, state.b, now, request.period)
  local cost, given = request.ticks, 0
  if not aged then
    given = count < cost and count or cost
    count = count - given
    local rest = cost - given
    before = before > rest and before - rest or 0
  elseif number == request.charged_a then
    count = count > cost and count - cost or 0
  elseif number == request.charged_a + 1 and number <= floor(now / request.period) then
    before = before > cost and before - cost or 0
  end
  local both = before * 1048576 + count
  if number == state.a and both == state.b then
    return nil
  end
  state.a, state.b = number, both
  return state.b == 0 and 0 or window_ttl(fixed, state.a, state.b, request.period, now) / 1000
end

if not other_text then
  for i = 1, keys do
    local request = requests[i]
    local state = request.state
    if request.kind == 4 then
      values[i] = give_to_log(state, request.ticks, aged and request.charged_a)
    else
      local ttl
      if request.kind == 1 then
        ttl = give_to_bucket(request, state, not aged and is_migrated[i])
      else
        ttl = give_to_window(request, state)
      end
      if ttl and ttl <= 0 and spares[i] == 0 then
        redis.call('DEL', KEYS[i])
      elseif ttl then
        keep(i, state.a, state.b, ttl)
      end
    end
  end
end

time[3], time[4] = other_text and 2 or 0, poisoned
for i = 1, keys do
  time[4 + i] = values[i]
end
return time
