-- Temporaries do not pile up: the collector hears of bytes that it cannot see. 100,000 of 1 MiB, those that are never
-- computed and those that are, keep the process below 100 MB. RILLE_LONG=1 computes all of them.
local tap = dofile("t/tap.lua")
local rille = require "rille"

local function status(key)
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^" .. key .. ":%s+(%d+)")
    if kb then return tonumber(kb) / 1000 end
  end
end

local sanitized = false
for line in io.lines("/proc/self/maps") do sanitized = sanitized or line:find("libasan", 1, true) ~= nil end

local SIDE <const>, LIMIT <const> = 512, 100 -- f32: 1 MiB; MB
local computed = os.getenv("RILLE_LONG") and 100000 or 3000

local function small(name)
  local most = status("VmHWM")
  if sanitized then return tap.ok(true, name .. " # SKIP a sanitizer keeps what was freed") end
  tap.ok(most < LIMIT, name, ("%.0f MB"):format(most))
end

tap.group("of 1 MiB", function()
  local x = rille.ones{SIDE, SIDE}
  for _ = 1, 100000 do local _ = x * 2 end
  small("100,000 that nobody reads")
  local y
  for i = 1, computed do
    y = x + i
    if y[{0, {0, 1}}]:item() ~= i + 1 then tap.ok(false, "a value is right") end
  end
  small(("%d that are computed one by one"):format(computed))
  local P = rille.placement("cpu", {0, 1})
  local z = rille.ones({SIDE, SIDE}, {placement = P, sbp = "S(0)"})
  for i = 1, computed // 10 do local _ = (z + i):sum():item() end
  small("also on two devices")
  local kept = {}
  for i = 1, 1000 do
    kept[i % 8] = x * i
    kept[i % 8]:sum():item()
  end
  small("where the last eight are kept")
end)

tap.done()
