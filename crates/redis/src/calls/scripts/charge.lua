-- Takes from all buckets or from none; verb 0 only answers what that would do.
local first, second, ttls, again = {}, {}, {}, {}
local logs, pushes, wants
local refused = false

for i = 1, keys do
  local kind, binding, same, extras, period, base, ticks, nanos, span_a, span_b, cost_a, cost_b, max_ahead
  kind, binding, same, extras, period, base, ticks, nanos, span_a, span_b, cost_a, cost_b, max_ahead, spares[i], position =
    unpack_from('<BBHBdddddddddd', packed, position)
  local delay_seconds, delay_micros, want, token_a, token_b, raw, migrated_a, migrated_b = 0, 0, 0
  if extras == 1 then
    delay_seconds, delay_micros, want, token_a, token_b, raw, migrated_a, migrated_b, position =
      unpack_from('<dddddddd', packed, position)
  end
  if same > 0 then
    again[same] = i
  end
  local a, b, fits
  if kind == 1 then
    -- A token bucket: a period of `period` seconds has `base` ticks.
    local now_a, now_b = instant(seconds, micros, period, ticks, nanos)
    if same > 0 then
      a, b = first[same], second[same]
    else
      a, b = bucket_of(i, now_a, now_b, period, base, span_a, span_b, max_ahead, raw, migrated_a, migrated_b)
    end
    if delay_seconds + delay_micros > 0 then
      local at_micros = micros + delay_micros
      local carry = floor(at_micros / 1000000)
      now_a, now_b =
        instant(seconds + delay_seconds + carry, at_micros - carry * 1000000, period, ticks, nanos)
    end
    if cost_a + cost_b == 0 then
      fits = true
    else
      -- The ticks missing until it is full, and the most that may be missing for the cost to fit.
      local missing_a, missing_b, room_a, room_b = a - now_a, b - now_b, span_a - cost_a, span_b - cost_b
      if missing_b < 0 then
        missing_a, missing_b = missing_a - 1, missing_b + base
      end
      if missing_a < 0 then
        missing_a, missing_b = 0, 0
      end
      if room_b < 0 then
        room_a, room_b = room_a - 1, room_b + base
      end
      fits = missing_a < room_a or (missing_a == room_a and missing_b <= room_b)
      if fits then
        a, b = missing_a + cost_a, missing_b + cost_b
        if b >= base then
          a, b = a + 1, b - base
        end
        ttls[i] = (a + b / base) * period * 1000 + delay_seconds * 1000 + delay_micros / 1000
        a, b = a + now_a, b + now_b
        if b >= base then
          a, b = a + 1, b - base
        end
      end
    end
    if want > 0 then
      wants = wants or {}
      wants[i] = {
        want = want, token_a = token_a, token_b = token_b, span_a = span_a, span_b = span_b,
        base = base, period = period, now_a = now_a, now_b = now_b, granted = 0,
      }
    end
  elseif kind < 4 then
    -- A window: `period` is its length, `base` its limit, `ticks` the cost.
    local fixed, at = kind == 3, now + delay_seconds * 1000000 + delay_micros
    if same > 0 then
      a, b = first[same], second[same]
    else
      a, b = window_of(i, fixed, period, base, max_ahead, raw, migrated_a, migrated_b)
    end
    if ticks == 0 then
      fits = true
    else
      local number, both = charge_window(fixed, a, b, period, base, ticks, at)
      fits = number ~= nil
      if fits then
        a, b = number, both
        ttls[i] = window_ttl(fixed, a, b, period, now) / 1000
      end
    end
  else
    -- A log: `period` is its window, `base` its limit, `ticks` the cost.
    logs = logs or {}
    local log = logs[same] or open_log(i, period, base, max_ahead, raw, migrated_a)
    logs[i] = log
    if log.raw then
      values[i] = log.raw
    else
      local at = now + delay_seconds * 1000000 + delay_micros
      fits, values[i] = check_log(log, ticks, at)
      if fits and ticks > 0 then
        pushes = pushes or {}
        pushes[#pushes + 1] = { log, ticks, at }
      end
    end
  end
  first[i], second[i] = a, b
  if not fits and binding == 1 then
    refused = true
  end
end

if verb == '1' and not other_text and not refused then
  if wants then
    lease(wants, again, first, second, ttls)
  end
  for i = 1, keys do
    if ttls[i] then
      keep(i, first[i], second[i], ttls[i])
    end
  end
  for i = 1, pushes and #pushes or 0 do
    push_log(pushes[i][1], pushes[i][2], pushes[i][3])
  end
end

time[3], time[4] = other_text and 2 or refused and 1 or 0, poisoned
for i = 1, keys do
  time[4 + i] = values[i]
end
if wants then
  for i = 1, keys do
    time[4 + keys + i] = wants[i] and wants[i].granted or 0
  end
end
return time
