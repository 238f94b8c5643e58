-- All numbers are doubles: whole numbers are exact below 2^53. Larger ones are kept as pairs.
local floor, ceil, sub = math.floor, math.ceil, string.sub
local pack, unpack_from = struct.pack, struct.unpack
local seconds, micros = tonumber(time[1]), tonumber(time[2])

-- a * b, exactly, as the sum of two doubles (Dekker's product).
local function product(a, b)
  local p = a * b
  local c = 134217729 * a
  local a_high = c - (c - a)
  local a_low = a - a_high
  c = 134217729 * b
  local b_high = c - (c - b)
  local b_low = b - b_high
  return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
end

-- floor(a * b / c) and the remainder, exactly, if both are at most 2^52.
local function over(a, b, c)
  local p, p_low = a * b, 0
  local quotient = floor(p / c)
  if p < 9007199254740992 then
    return quotient, p - quotient * c
  end
  p, p_low = product(a, b)
  local q, q_low = product(quotient, c)
  local rest = (p - q) + (p_low - q_low)
  while rest < 0 do
    quotient, rest = quotient - 1, rest + c
  end
  while rest >= c do
    quotient, rest = quotient + 1, rest - c
  end
  return quotient, rest
end

-- An instant in ticks of a bucket, as a pair: whole periods of `period` seconds, and the ticks within the last one. If
-- `nanos` is 1, a period is one second and a microsecond has `ticks` ticks. Otherwise every `nanos` nanoseconds have
-- `ticks` more ticks than nanoseconds.
local function instant(at_seconds, at_micros, period, ticks, nanos)
  if nanos == 1 then
    return at_seconds, at_micros * ticks
  end
  local periods = floor(at_seconds / period)
  local within = (at_seconds - periods * period) * 1000000000 + at_micros * 1000
  return periods, within + over(within, ticks, nanos)
end
