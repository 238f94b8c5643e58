-- The time is given: the last two arguments. It stands still while that of the server goes on, so keys are kept
-- for an hour longer.
local time = { ARGV[#ARGV - 1], ARGV[#ARGV] }
local slack = 3600000
