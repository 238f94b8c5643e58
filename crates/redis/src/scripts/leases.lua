-- `count` tokens in ticks.
local function tokens(count, token_a, token_b, base)
  local carry, rest = over(count, token_b, base)
  return count * token_a + carry, rest
end

-- Leases what is wanted beyond the costs: at most half of what is left. `again[i]` is where the bucket of key i is
-- asked again: what is leased goes on top of all.
local function lease(wants, again, first, second, lives)
  for i = 1, keys do
    local ask = wants[i]
    if ask then
      local last, base = i, ask.base
      while again[last] do
        last = again[last]
      end
      local missing_a, missing_b = first[last] - ask.now_a, second[last] - ask.now_b
      if missing_b < 0 then
        missing_a, missing_b = missing_a - 1, missing_b + base
      end
      if missing_a < 0 then
        missing_a, missing_b = 0, 0
      end
      local left_a, left_b = ask.span_a - missing_a, ask.span_b - missing_b
      if left_b < 0 then
        left_a, left_b = left_a - 1, left_b + base
      end
      local function halves(count)
        local a, b = tokens(2 * count, ask.token_a, ask.token_b, base)
        return a < left_a or (a == left_a and b <= left_b)
      end
      local count = floor((left_a + left_b / base) / (ask.token_a + ask.token_b / base) / 2)
      count = count < ask.want and count or ask.want
      while count > 0 and not halves(count) do
        count = count - 1
      end
      while count >= 0 and count < ask.want and halves(count + 1) do
        count = count + 1
      end
      if count > 0 then
        local a, b = tokens(count, ask.token_a, ask.token_b, base)
        a, b = a + missing_a, b + missing_b
        if b >= base then
          a, b = a + 1, b - base
        end
        lives[last] = (a + b / base) * ask.period * 1000
        a, b = a + ask.now_a, b + ask.now_b
        if b >= base then
          a, b = a + 1, b - base
        end
        first[last], second[last], ask.granted = a, b, count
      end
    end
  end
end
