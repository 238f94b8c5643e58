-- Gives back to all buckets, in their order: verb 2 is a refund; 3 hands back charges, and has when they were made
-- where a charge has its delay.
local aged, asks = verb == '3', {}

for i = 1, keys do
  local ask, raw, brought_a, brought_b, _ = {}, 0, 0, 0, nil
  asks[i] = ask
  ask.kind, _, ask.same, ask.extras, ask.period, ask.base, ask.ticks, ask.nanos, ask.span_a, ask.span_b, ask.cost_a,
    ask.cost_b, ask.far, spares[i], position = unpack_from('<BBHBdddddddddd', packed, position)
  if ask.extras == 1 then
    ask.charged_a, ask.charged_b, _, _, _, raw, brought_a, brought_b, position =
      unpack_from('<dddddddd', packed, position)
  end
  if ask.kind == 1 then
    ask.now_a, ask.now_b = instant(seconds, micros, ask.period, ask.ticks, ask.nanos)
  end
  if ask.same > 0 then
    ask.state = asks[ask.same].state
  elseif ask.kind == 4 then
    ask.state = open_log(i, ask.period, ask.base, ask.far, raw, brought_a)
  else
    local a, b
    if ask.kind == 1 then
      a, b = bucket_of(i, ask.now_a, ask.now_b, ask.period, ask.base, ask.span_a, ask.span_b, ask.far, raw,
        brought_a, brought_b)
    else
      a, b = window_of(i, ask.kind == 3, ask.period, ask.base, ask.far, raw, brought_a, brought_b)
    end
    ask.state = { a = a, b = b }
  end
end

-- The difference of two instants, or nothing where it would be negative.
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

-- How long the bucket lives after giving back; `nil` if nothing changes.
local function give_bucket(ask, state)
  local base = ask.base
  local now_a, now_b, cost_a, cost_b = ask.now_a, ask.now_b, ask.cost_a, ask.cost_b
  if aged then
    local age_a, age_b = minus(now_a, now_b, ask.charged_a, ask.charged_b, base)
    cost_a, cost_b = minus(cost_a, cost_b, age_a, age_b, base)
    local most_a, most_b = now_a, now_b
    if ask.charged_a > now_a or (ask.charged_a == now_a and ask.charged_b > now_b) then
      most_a, most_b = ask.charged_a, ask.charged_b
    end
    local ahead_a, ahead_b = minus(state.a, state.b, most_a, most_b, base)
    if ahead_a > ask.span_a or (ahead_a == ask.span_a and ahead_b > ask.span_b) then
      return nil
    end
  end
  if cost_a + cost_b == 0 then
    return nil
  end
  local missing_a, missing_b = minus(state.a, state.b, now_a, now_b, base)
  if missing_a + missing_b == 0 then
    return nil
  end
  state.a, state.b = minus(state.a, state.b, cost_a, cost_b, base)
  missing_a, missing_b = minus(state.a, state.b, now_a, now_b, base)
  if missing_a + missing_b == 0 then
    -- Full as of now, and not before.
    state.a, state.b = now_a, now_b
  end
  return (missing_a + missing_b / base) * ask.period * 1000
end

local function give_window(ask, state)
  local fixed = ask.kind == 3
  local read_counts = fixed and fixed_counts or counts
  local number, _, before, count = read_counts(state.a, state.b, now, ask.period)
  local cost, given = ask.ticks, 0
  if not aged then
    given = count < cost and count or cost
    count = count - given
    local rest = cost - given
    before = before > rest and before - rest or 0
  elseif number == ask.charged_a then
    count = count > cost and count - cost or 0
  elseif number == ask.charged_a + 1 and number <= floor(now / ask.period) then
    before = before > cost and before - cost or 0
  end
  local both = before * 1048576 + count
  if number == state.a and both == state.b then
    return nil
  end
  state.a, state.b = number, both
  return state.b == 0 and 0 or window_fades(fixed, state.a, state.b, ask.period, now) / 1000
end

if not foreign then
  for i = 1, keys do
    local ask = asks[i]
    local state = ask.state
    if ask.kind == 4 then
      values[i] = give_log(state, ask.ticks, aged and ask.charged_a)
    else
      local life
      if ask.kind == 1 then
        life = give_bucket(ask, state)
      else
        life = give_window(ask, state)
      end
      if life and life <= 0 and spares[i] == 0 then
        redis.call('DEL', KEYS[i])
      elseif life then
        keep(i, state.a, state.b, life)
      end
    end
  end
end

time[3], time[4] = foreign and 2 or 0, poisoned
for i = 1, keys do
  time[4 + i] = values[i]
end
return time
