-- Returns a cost to a log: removes it from the newest entries, or, with `charged`, from the entry of that instant.
-- Answers the summary of the log after it.
local function give_to_log(log, cost, charged)
  log.gone = first_counting(log, now) - 1
  if log.rewrite or log.gone > 0 then
    trim_log(log)
  end
  if charged then
    local low, high = 1, log.length
    while low < high do
      local middle = floor((low + high) / 2)
      if (entry(log, middle) or charged) >= charged then
        high = middle
      else
        low = middle + 1
      end
    end
    local at, count = nil, 0
    if log.length > 0 then
      at, count = entry(log, low)
    end
    if at == charged and count >= cost then
      -- The running sums from this entry on decrease by the cost.
      local later = redis.call('LRANGE', log.key, low, -1)
      redis.call('LTRIM', log.key, 0, low - 1)
      log.length = low - 1
      for index = 1, #later do
        local when, tokens, sum = read_entry(log, later[index])
        if not when then
          poisoned, tokens = poisoned + 1, 0
        end
        tokens = index == 1 and tokens - cost or tokens
        if tokens > 0 then
          redis.call('RPUSH', log.key, pack('<ddd', when, tokens, (sum - cost) % SUMS))
          log.length = log.length + 1
        end
      end
    end
  else
    while cost > 0 and log.length > 0 do
      local at, count, sum = entry(log, log.length)
      if not at then
        break
      end
      local given = count < cost and count or cost
      cost = cost - given
      if given == count then
        redis.call('RPOP', log.key)
        log.length = log.length - 1
      else
        redis.call('LSET', log.key, -1, pack('<ddd', at, count - given, (sum - given) % SUMS))
      end
    end
  end
  last_of(log)
  expire_log(log)
  return log_state(log, now, counted_from(log, 1), 0)
end
