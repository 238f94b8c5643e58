-- The time of the server's clock.
local time = redis.call('TIME')
local slack = 0
