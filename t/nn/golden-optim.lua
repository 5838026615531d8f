-- golden-optim.lua - compares every optimiser, schedule, dtype and arrangement of parameters with PyTorch
-- (t/golden/optim.py): eagerly, as a compiled step, and with both parameters split over two devices.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/optim.lua")
local optim = rille.optim

local function wave(shape, phase, dtype)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return ((rille.arange(n, {dtype = "f64"}) * 0.7 + phase):sin() * 0.6):reshape(shape):to(dtype)
end

local function digest(t)
  local flat = t:detach():to("f64"):reshape{-1}
  return (flat * wave(flat.shape, 2, "f64")):sum():item()
end

local function rate(schedule, lr)
  if schedule == "constant" then return lr end
  return optim[schedule]{lr = lr, warmup = golden.warmup, steps = golden.steps}
end

-- Returns the parameters after the steps of t/golden/optim.py. compiled: the gradients are arguments of a compiled step.
local function run(kind, options, schedule, dtype, arrangement, compiled, sbp)
  local place = {placement = rille.placement("cpu", sbp == "B" and {0} or {0, 1}), sbp = sbp}
  local function laid(...) return wave(...):to_global(place) end
  local a, b = rille.nn.Parameter(laid({3, 4}, 0, dtype)), rille.nn.Parameter(laid({5}, 1, dtype))
  local own, added = {lr = rate(schedule, 0.05)}, arrangement == "added"
  for name, value in pairs(options) do own[name] = value end
  local second = {params = {b}, lr = rate(added and "constant" or schedule, 0.02), weight_decay = 0.3}
  local opt = optim[kind](arrangement:find("^one") and {a, b} or added and {{params = {a}}} or {{params = {a}}, second}, own)
  local function update(of_a, of_b)
    a.grad, b.grad = of_a, of_b
    opt:step()
    opt:zero_grad()
  end
  local step = compiled and rille.graph(update) or update
  for k = 0, golden.steps - 1 do
    if added and k == golden.late then opt:add_param_group(second) end
    local late = (added or arrangement:find("late")) and k < golden.late
    step(laid({3, 4}, k, dtype), not late and laid({5}, k + 1, dtype) or nil)
    if added and k == golden.late and schedule ~= "constant" then break end
  end
  return {digest(a), digest(b)}
end

local i, tolerance <const> = 0, {f32 = 1e-5, f64 = 1e-7, bf16 = 0.05}
for _, kind in ipairs(golden.optimisers) do
  for _, schedule in ipairs(golden.schedules) do
    for _, dtype in ipairs(golden.dtypes) do
      for _, arrangement in ipairs(golden.arrangements) do
        i = i + 1
        local words = {}
        for name, value in pairs(kind[2]) do words[#words + 1] = name .. " = " .. tostring(type(value) == "table" and value[1] or value) end
        local name = ("%s{%s}, %s, %s, %s"):format(kind[1], table.concat(words, ", "), schedule, dtype, arrangement)
        for _, compiled in ipairs(tap.share(i) and {false, true} or {}) do
          for _, sbp in ipairs{"B", "S(0)"} do
            tap.near(run(kind[1], kind[2], schedule, dtype, arrangement, compiled, sbp), {golden.digests[2 * i - 1], golden.digests[2 * i]},
              ("%s, %s%s"):format(name, sbp, compiled and ", compiled" or ""), tolerance[dtype], tolerance[dtype] / 10)
          end
        end
      end
    end
  end
end
tap.done()
