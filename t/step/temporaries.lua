-- Tests that temporary tensors do not accumulate, because Lua's collector knows their bytes. With 100,000 temporaries of
-- 1 MiB, computed or not, the process must stay below 100 MB (RILLE_LONG=1 computes all of them). Averages of parameters
-- that are never read must not keep old versions of the parameters.
local tap = dofile("t/lib/tap.lua")

local function status(key)
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^" .. key .. ":%s+(%d+)")
    if kb then return tonumber(kb) / 1000 end
  end
end

-- SIDE: a square f32 tensor with this side has 1 MiB; LIMIT: limit of the process's memory, MB
local SIDE <const>, LIMIT <const> = 512, 100
local computed = os.getenv("RILLE_LONG") and 100000 or 3000

local function small(name)
  local most = status("VmHWM")
  if tap.sanitized() then return tap.ok(true, name .. " # SKIP a sanitizer keeps freed memory") end
  tap.ok(most < LIMIT, name, ("%.0f MB"):format(most))
end

tap.group("temporaries of 1 MiB", function()
  local x = rille.ones{SIDE, SIDE}
  for _ = 1, 100000 do local _ = x * 2 end
  small("100,000 temporaries that are not read")
  local y
  for i = 1, computed do
    y = x + i
    if y[{0, {0, 1}}]:item() ~= i + 1 then tap.ok(false, "a value is right") end
  end
  small(("%d temporaries computed one by one"):format(computed))
  local P = rille.placement("cpu", {0, 1})
  local z = rille.ones({SIDE, SIDE}, {placement = P, sbp = "S(0)"})
  for i = 1, computed // 10 do local _ = (z + i):sum():item() end
  small("temporaries on two devices")
  local kept = {}
  for i = 1, 1000 do
    kept[i % 8] = x * i
    kept[i % 8]:sum():item()
  end
  small("temporaries of which the last eight are kept")
end)

-- Checks a value that each step computes from parameters, but that is never read. The value must not keep all old
-- versions of the parameters.
tap.group("values computed next to a training", function()
  local nn, optim = rille.nn, rille.optim
  local P = rille.placement("cpu", {0, 1})
  -- Functions by name. Each accepts the network and returns two functions: the first is called after each step; the
  -- second reads the result at the end.
  local readers = {
    ["an average in place"] = function(net)
      local ema = rille.zeros(net.weight.shape, {placement = P})
      return function() ema:mul_(0.5); ema:add_(net.weight * 0.5) end, function() return ema:sum():item() end
    end,
    ["an average of results"] = function(net)
      local ema = rille.zeros(net.weight.shape, {placement = P})
      return function() ema = ema * 0.5 + net.weight * 0.5 end, function() return ema:sum():item() end
    end,
    ["a list of norms"] = function(net)
      local norms = {}
      local function value() return norms[3]:item() + norms[#norms]:item() end
      return function() norms[#norms + 1] = net.weight:square():sum() end, value
    end,
    ["losses, one of invalid labels"] = function(net)
      local kept = {}
      local function labels(n) return rille.full({64}, n, {dtype = "i64", placement = P}) end
      return function() kept[#kept + 1] = net.weight:cross_entropy(labels(#kept == 0 and 64 or 3)) end, function()
        tap.fails(function() kept[1]:item() end, {"label 64", "64 classes"}, "reading the loss of invalid labels is an error")
        return kept[2]:item() + kept[#kept]:item()
      end
    end,
  }
  local function trained(reader, compiled, read)
    rille.manual_seed(1)
    local net = nn.Linear(64, 64)
    net:to_global{placement = P, sbp = "B"}
    local opt, x = optim.AdamW(net:parameters(), {lr = 0.01}), rille.ones({8, 64}, {placement = P, sbp = "S(0)"})
    local function step() local loss = net(x):square():mean(); loss:backward(); opt:step(); opt:zero_grad() end
    local run, after, value = compiled and rille.graph(step) or step, reader(net)
    local held
    for i = 1, 30 do
      run()
      rille.no_grad(after)
      if read and i % 7 == 0 then value() end
      if i == 10 or i == 30 then
        collectgarbage()
        collectgarbage()
        local now = rille.counters().live_bytes
        local more = held and now - held
        if held and not read then tap.ok(more < 3 * 64 * 64 * 4, "no bytes accumulate", ("%d bytes in 20 steps"):format(more)) end
        held = now
      end
    end
    return value()
  end
  for name, reader in pairs(readers) do
    for _, compiled in ipairs{false, true} do
      local got = trained(reader, compiled, false)
      local reported = ("%s next to %s step: the value equals that of reading it regularly"):format(name, compiled and "a compiled" or "an eager")
      tap.is(got, trained(reader, compiled, true), reported)
    end
  end
end)

tap.done()
