-- The ticks of `count` tokens.
local function tokens(count, token_a, token_b, base)
  local carry, rest = over(count, token_b, base)
  return count * token_a + carry, rest
end

-- Leases the wanted tokens beyond the costs: at most half of what is left. `again[i]` is the next key with the same
-- bucket as key i; the lease is taken after all its charges.
local function lease(wants, again, first, second, ttls)
  for i = 1, keys do
    local request = wants[i]
    if request then
      local last, base = i, request.base
      while again[last] do
        last = again[last]
      end
      local missing_a, missing_b = first[last] - request.now_a, second[last] - request.now_b
      if missing_b < 0 then
        missing_a, missing_b = missing_a - 1, missing_b + base
      end
      if missing_a < 0 then
        missing_a, missing_b = 0, 0
      end
      local left_a, left_b = request.span_a - missing_a, request.span_b - missing_b
      if left_b < 0 then
        left_a, left_b = left_a - 1, left_b + base
      end
      local function halves(count)
        local a, b = tokens(2 * count, request.token_a, request.token_b, base)
        return a < left_a or (a == left_a and b <= left_b)
      end
      local count = floor((left_a + left_b / base) / (request.token_a + request.token_b / base) / 2)
      count = count < request.want and count or request.want
      while count > 0 and not halves(count) do
        count = count - 1
      end
      while count >= 0 and count < request.want and halves(count + 1) do
        count = count + 1
      end
      if count > 0 then
        local a, b = tokens(count, request.token_a, request.token_b, base)
        a, b = a + missing_a, b + missing_b
        if b >= base then
          a, b = a + 1, b - base
        end
        ttls[last] = (a + b / base) * request.period * 1000
        a, b = a + request.now_a, b + request.now_b
        if b >= base then
          a, b = a + 1, b - base
        end
        first[last], second[last], request.granted = a, b, count
      end
    end
  end
end
