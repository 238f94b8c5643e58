-- The time is the server's.
local time = redis.call('TIME')
local slack = 0
