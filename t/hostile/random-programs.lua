-- random-programs.lua - runs random programs in random layouts. The programs read some values several times. Values
-- and gradients must equal those of one device: eagerly, in a compiled step, and in a step with planned layouts. The
-- bytes that explain() reports must equal the bytes received. All values are integers in f64, so no sum is rounded.
--
-- PROGRAMS=300 SEED=1 runs programs 1 to 300; RILLE_LONG=1 runs 2000.
local tap = dofile("t/lib/tap.lua")

local seed <const> = tap.seed(1)
local PROGRAMS <const> = tonumber(os.getenv("PROGRAMS")) or os.getenv("RILLE_LONG") and 2000 or 100
local MOST <const> = 2 ^ 24 -- bound of the absolute values of all elements

local MESHES <const> = {{0, 1}, {2, 0, 1}, {0, 1, 2, 3}, {{0, 1}, {2, 3}}, {{4, 0, 2}, {5, 3, 1}}}
local R = math.random
local function pick(list) return list[R(#list)] end

-- ---- drawing a program ----
-- A program consists of leaves {shape =, sbp =, most =} and steps f(v), where v[i] is value i.

local function layout(axes, ndim, whole)
  local list = {}
  for k = 1, axes do
    local kind = R(5)
    list[k] = kind == 1 and "B" or kind < 4 and not whole and "P" or ndim > 0 and ("S(%d)"):format(R(0, ndim - 1)) or "B"
  end
  return axes == 1 and list[1] or list
end

-- Returns the broadcast shape of two shapes; nil if they do not broadcast.
local function fitted(a, b)
  local out, n = {}, math.max(#a, #b)
  for d = 1, n do
    local x, y = a[d - n + #a] or 1, b[d - n + #b] or 1
    if x ~= y and x ~= 1 and y ~= 1 then return nil end
    out[d] = x == 1 and y or x
  end
  return out
end
local function changed(shape, axis, size)
  local out = {table.unpack(shape)}
  out[axis] = size
  return out
end

local unary = {
  {"-", function(x) return -x end}, {"relu", function(x) return x:relu() end}, {"abs", function(x) return x:abs() end},
  {"* 2", function(x) return x * 2 end, function(m) return 2 * m end},
  {"+ 1", function(x) return x + 1 end, function(m) return m + 1 end},
  {"square", function(x) return x:square() end, function(m) return m * m end}, {"clone", function(x) return x:clone() end},
}
local binary = {
  {"+", function(x, y) return x + y end, function(m, n) return m + n end},
  {"-", function(x, y) return x - y end, function(m, n) return m + n end},
  {"*", function(x, y) return x * y end, function(m, n) return m * n end},
  {"maximum", function(x, y) return x:maximum(y) end, math.max},
  {"where", function(x, y) return x:gt(0):where(x, y) end, math.max},
}
binary[#binary + 1] = binary[3]

-- Kinds of steps. Each returns text, function, shape and bound of a new value; nil if the kind does not apply.
local kinds = {
  function(a, i)
    local u = pick(unary)
    return ("%s %d"):format(u[1], i), function(v) return u[2](v[i]) end, a.shape, u[3] and u[3](a.most) or a.most
  end,
  function(a, i, b, j)
    local u, shape = pick(binary), fitted(a.shape, b.shape)
    if not shape then return end
    return ("%d %s %d"):format(i, u[1], j), function(v) return u[2](v[i], v[j]) end, shape, u[3](a.most, b.most)
  end,
  function(a, i)
    local all, most, keep = #a.shape == 0 or R(3) == 1, R(3) == 1, R(2) == 1
    local name = most and "max" or "sum"
    local function grown(n) return most and a.most or a.most * n end
    if all then return name .. " " .. i, function(v) return v[i][name](v[i]) end, {}, grown(tap.numel(a.shape)) end
    local axis = R(#a.shape)
    local shape = changed(a.shape, axis, 1)
    if not keep then table.remove(shape, axis) end
    local options = {axis = axis - 1, keepdim = keep}
    return ("%s %d over %d"):format(name, i, axis - 1), function(v) return v[i][name](v[i], options) end,
      shape, grown(a.shape[axis])
  end,
  function(a, i, b, j)
    if #a.shape == 2 and #b.shape == 2 and a.shape[2] == b.shape[1] then
      return ("%d @ %d"):format(i, j), function(v) return v[i]:matmul(v[j]) end, {a.shape[1], b.shape[2]},
        a.most * b.most * a.shape[2]
    elseif #a.shape == 2 then
      return ("%d @ %d'"):format(i, i), function(v) return v[i]:matmul(v[i]:transpose(0, 1)) end, {a.shape[1], a.shape[1]},
        a.most * a.most * a.shape[2]
    end
  end,
  function(a, i)
    if #a.shape < 2 then return end
    return "transpose " .. i, function(v) return v[i]:transpose(0, 1) end, {a.shape[2], a.shape[1]}, a.most
  end,
  function(a, i) return "flatten " .. i, function(v) return v[i]:reshape(tap.numel(a.shape)) end, {tap.numel(a.shape)}, a.most end,
  function(a, i)
    if #a.shape == 0 then return end
    local axis = R(#a.shape)
    local from = R(0, a.shape[axis] - 1)
    local to = R(from + 1, a.shape[axis])
    return ("slice %d, axis %d"):format(i, axis - 1), function(v) return v[i]:slice(axis - 1, from, to) end,
      changed(a.shape, axis, to - from), a.most
  end,
  function(a, i, b, j)
    if #a.shape == 0 or #a.shape ~= #b.shape then return end
    local axis = R(#a.shape)
    for d = 1, #a.shape do
      if d ~= axis and a.shape[d] ~= b.shape[d] then return end
    end
    return ("concat %d, %d, axis %d"):format(i, j, axis - 1), function(v) return rille.concat({v[i], v[j]}, axis - 1) end,
      changed(a.shape, axis, a.shape[axis] + b.shape[axis]), math.max(a.most, b.most)
  end,
  function(a, i, _, _, axes)
    -- a layout without P, because values of a P(max) layout cannot be converted to P(sum)
    local sbp = layout(axes, #a.shape, true)
    return ("move %d to %s"):format(i, type(sbp) == "table" and table.concat(sbp, ",") or sbp),
      function(v, place) return place and v[i]:to_global{placement = place, sbp = sbp} or v[i] end, a.shape, a.most
  end,
}

local function drawn(number)
  math.randomseed(number)
  local mesh = pick(MESHES)
  local axes = type(mesh[1]) == "table" and 2 or 1
  local r, c = pick{1, 2, 3, 4, 8}, pick{2, 3, 5, 6}
  local p = {mesh = mesh, leaves = {}, steps = {}, text = {}}
  local all = {}
  for i = 1, R(1, 3) do
    local shape = pick{{r, c}, {r, c}, {c, r}, {r, 1}, {c}, {}}
    local sbp = layout(axes, #shape)
    p.leaves[i] = {shape = shape, sbp = sbp, seed = number * 8 + i}
    p.text[i] = ("%d: {%s} %s"):format(i, table.concat(shape, ", "), type(sbp) == "table" and table.concat(sbp, ",") or sbp)
    all[i] = {shape = shape, most = 2}
  end
  local steps = R(2, 9)
  for _ = 1, 60 do
    if #p.steps == steps then break end
    local i, j = R(2) == 1 and #all or R(#all), R(#all)
    if R(2) == 1 then j = i end
    local kind = R(3) < 3 and kinds[R(3)] or pick(kinds) -- chooses mostly element-wise operators and sums
    local text, f, shape, most = kind(all[i], i, all[j], j, axes)
    if text and most <= MOST and tap.numel(shape) <= 512 then
      p.steps[#p.steps + 1] = f
      all[#all + 1] = {shape = shape, most = most}
      p.text[#p.text + 1] = ("%d: %s"):format(#all, text)
    end
  end
  return p
end

local function leaves_of(p, place)
  local list = {}
  for i, leaf in ipairs(p.leaves) do
    math.randomseed(leaf.seed)
    local flat = tap.list(tap.numel(leaf.shape), function() return R(-2, 2) end)
    local x = rille.tensor(flat, {dtype = "f64"}):reshape(leaf.shape)
    if place then x = x:to_global{placement = place, sbp = leaf.sbp} end
    list[i] = x:detach():requires_grad_(true)
  end
  return list
end

-- Returns the last three values, and the gradients of the sum of all values with respect to each leaf.
local function computed(p, leaves, place)
  local v, sum = {table.unpack(leaves)}, nil
  for _, f in ipairs(p.steps) do v[#v + 1] = f(v, place) end
  local results = {v[#v], v[math.max(#v - 1, 1)], v[math.max(#v - 2, 1)]}
  for k = #leaves, #v do sum = sum and sum + v[k]:sum() or v[k]:sum() end
  for _, g in ipairs{rille.grad(sum, leaves)} do results[#results + 1] = g end
  return table.unpack(results)
end

local function values(...)
  local list = {...}
  for i, y in ipairs(list) do list[i] = y and table.concat(y:detach():reshape(y:numel()):totable(), " ") or "none" end
  return table.concat(list, "\n"):gsub("%-0%.0", "0.0")
end

local MODES <const> = {{}, {auto_parallel = true, time_limit = 0.2}, {auto_parallel = "propagate"}, {auto_parallel = "greedy"}}

local function check(number)
  local p = drawn(number)
  local place = rille.placement("cpu", p.mesh)
  local want = values(computed(p, leaves_of(p), nil))
  local leaves = leaves_of(p, place)
  local got = values(computed(p, leaves, place))
  if got ~= want then return "eager: wrong values", p end
  for _, mode in ipairs(MODES) do
    local how = tostring(mode.auto_parallel or "a step")
    local step = rille.graph(function() return computed(p, leaves, place) end, mode)
    got = values(step())
    if got ~= want then return how .. ": wrong values", p end
    local reported, received = step:explain().bytes, tap.received(step)
    if reported ~= received then return ("%s: %d bytes reported, %d received"):format(how, reported, received), p end
  end
end

for number = seed, seed + PROGRAMS - 1 do
  local good, why, p = true, nil, nil
  if PROGRAMS == 1 or tap.share() then good, why, p = pcall(check, number) end
  local text = why and ("SEED=%d PROGRAMS=1: %s\n%s"):format(number, why, table.concat((p or drawn(number)).text, "\n"))
  tap.ok(good and not why, "program " .. number, text)
end
tap.done()
