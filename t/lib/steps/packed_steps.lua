-- packed_steps.lua FOLDER - writes programs of pipelined training steps of language models on meta devices. Each
-- program gets its own file, named by its options: all schedules, recompute, and ZeRO over pairs of devices.

local tap = dofile("t/lib/tap.lua")
local folder = arg[1]
local SIZE <const> = {vocab = 512, length = 64, heads = 4, width = 64, hidden = 160}
local SCHEDULES <const> = {"gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved", "zb-v", "v-half", "v-min"}

-- Returns the placements of the stages on n groups of devices. An interleaved schedule uses the groups in the same
-- order again; a V-shaped schedule uses them backwards.
local function stages(schedule, n, each)
  local order, list = {}, {}
  for i = 0, n - 1 do order[#order + 1] = i end
  if schedule == "interleaved" then for i = 0, n - 1 do order[#order + 1] = i end end
  if schedule:match("^v") or schedule == "zb-v" then for i = n - 1, 0, -1 do order[#order + 1] = i end end
  for i, k in ipairs(order) do
    local ranks = {}
    for r = 0, each - 1 do ranks[#ranks + 1] = k * each + r end
    list[i] = rille.placement("meta", ranks)
  end
  return list
end

local function traced(name, o)
  local size = tap.with({layers = 2 * o.devices, placement = rille.placement("meta", {0}), sbp = "B"}, SIZE)
  if name == "gpt2" then size.hidden = nil end
  local each = o.zero and 2 or 1
  local m = rille.models[name].new(size)
  rille.parallel(m, {stages = stages(o.schedule, o.devices, each), data = o.zero and 0 or nil, zero = o.zero})
  local opt = rille.optim.AdamW(m:parameters(), {lr = 1e-2})
  local step = tap.training(opt, function(x, y)
    return m(x):reshape{-1, SIZE.vocab}:cross_entropy(y:reshape{-1})
  end, {micro_batches = o.pieces, schedule = o.schedule, recompute = o.recompute})
  local shape = {2 * o.pieces * each, SIZE.length}
  local function ids(how) return rille.empty(shape, {dtype = "i64", placement = how.placement, sbp = how.sbp}) end
  step(ids(rille.parallel.input(m)), ids(rille.parallel.labels(m)))
  return step
end

local function write(name, o)
  if not tap.share() then return end
  local text = ("%s, %s, %d devices, %d pieces%s%s"):format(name, o.schedule, o.devices, o.pieces, o.recompute and ", recomputed" or "",
    o.zero and ", zero " .. o.zero or "")
  local file <close> = assert(io.open(folder .. "/" .. text, "wb"))
  file:write(traced(name, o):_program())
end

for _, name in ipairs{"gpt2", "llama"} do
  for _, schedule in ipairs(SCHEDULES) do write(name, {schedule = schedule, devices = 2, pieces = 8}) end
  for _, schedule in ipairs{"1f1b", "zb-h1", "interleaved", "v-half"} do
    write(name, {schedule = schedule, devices = 2, pieces = 8, recompute = true})
  end
  write(name, {schedule = "interleaved", devices = 2, pieces = 16})
  write(name, {schedule = "v-half", devices = 4, pieces = 8})
  for zero = 1, 3 do write(name, {schedule = "1f1b", devices = 2, pieces = 8, zero = zero}) end
end
