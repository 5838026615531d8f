-- pin.lua - tests pins: layouts of a running module's input, output and parameters, and of their gradients.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn
local pin = require "rille.nn.base.pin"
local P, Q = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})

local seen
local Look = nn.Module:extend("Look")
function Look:init() self.weight = nn.Parameter(rille.tensor({{1, 2}, {3, 4}}, {placement = P, sbp = "S(0)"})) end
function Look:forward(x, fail)
  seen = {x.sbp, x.placement, self.weight.sbp}
  assert(not fail, "asked to fail")
  return rille.matmul(x, self.weight)
end

local function input() return rille.tensor({{1, 2}, {3, 4}}, {placement = P, sbp = "S(1)", requires_grad = true}) end

tap.group("a pin of input, output and parameters", function()
  local m, x = Look(), input()
  pin.of[m] = {input = "B", output = "B", use = {weight = "S(1)"}}
  local y = m(x)
  tap.is(seen, {"B", P, "S(1)"}, "the pin sets the layouts of the input and the parameter")
  tap.is({y.sbp, m.weight.sbp}, {"B", "S(0)"}, "the pin sets the layout of the result; afterwards the parameter has its own layout")
  tap.is(y:totable(), {{7, 10}, {15, 22}}, "values are the same")
  y:sum():backward()
  tap.is({x.grad.sbp, x.grad:totable()}, {"S(1)", {{3, 7}, {3, 7}}}, "the input's gradient has the input's layout")
  tap.is({m.weight.grad.sbp, m.weight.grad:totable()}, {"S(0)", {{4, 4}, {6, 6}}}, "the parameter's gradient has the parameter's layout")
end)

tap.group("partial values", function()
  local x = rille.tensor({{1, 2}, {3, 4}}, {placement = P, sbp = "S(1)", requires_grad = true})
  local w = rille.tensor({{1, 0}, {0, 1}}, {placement = P, sbp = "S(0)"})
  local y = x:matmul(w)
  tap.is(y.sbp, "P", "a product with a split contraction is partial")
  local g = rille.grad(y:_pin{sbp = "S(0)"}:square():sum(), {y})
  tap.is({g.sbp, g:totable()}, {"B", {{2, 4}, {6, 8}}}, "the gradient of a partial value is B, not partial")
end)

tap.group("placements", function()
  local m, x = Look(), input()
  m.weight:to_global_{placement = Q, sbp = "B"}
  pin.of[m] = {placement = Q, input = "S(0)", output = "B"}
  local y = m(x)
  tap.is({seen[1], seen[2] == Q, y.placement == Q, y.sbp}, {"S(0)", true, true, "B"}, "a module runs on the pinned placement")
  y:sum():backward()
  tap.ok(x.grad.placement == P and x.grad.sbp == "S(1)", "the gradient returns to the input's placement")
end)

tap.group("failure", function()
  local mesh, m2 = rille.placement("cpu", {{0, 1}, {2, 3}}), Look()
  m2.weight = nn.Parameter(rille.tensor({{1, 2}, {3, 4}}, {placement = mesh, sbp = {"S(0)", "B"}}))
  for _, sbp in ipairs{{"S(0)", "B"}, "(S(0), B)", "(S(0), S(0)) order (1, 0)"} do
    pin.of[m2] = {input = sbp}
    tap.fails(function() m2(input()) end, {"matmul", "different placements", "cpu[0, 1]", tostring(mesh)},
      "an input on another placement than the layer: the error names both")
  end
  local m = Look()
  pin.of[m] = {use = {weight = "B"}}
  tap.fails(function() m(input(), true) end, {"asked to fail"}, "an error inside the module is passed on")
  tap.is(m.weight.sbp, "S(0)", "after an error the parameter has its own layout")
end)

-- An encoder and a decoder on several stages. The decoder's arguments are a mask (as an argument, in an option table
-- and in a list), the encoder's result `memory`, and a table to which blocks write.
local Decoder = nn.Module:extend("Decoder")
function Decoder:init(d)
  self.own, self.cross = nn.MultiheadAttention(d, 2), nn.MultiheadAttention(d, 2)
  self.block = nn.TransformerBlock(d, 2)
end
function Decoder:forward(x, memory, how, notes)
  x = x + self.own(x, x, x, how.mask)
  x = x + self.cross(x, memory, memory, how.masks[1])
  notes.calls, notes.last = notes.calls + 1, how.scale * how.scale
  return self.block(x, how.mask) * how.scale, notes
end

local Translator = nn.Module:extend("Translator")
function Translator:init(d)
  self.encoder = {nn.TransformerBlock(d, 2, {is_causal = false})}
  self.decoder = {Decoder(d), Decoder(d), Decoder(d), Decoder(d)}
  self.between = nn.MultiheadAttention(d, 2)
  self.scale = nn.Parameter(rille.tensor{1.5})
end
function Translator:forward(x, y, mask)
  local memory, notes = self.encoder[1](x, mask), {calls = 0}
  for _, block in ipairs(self.decoder) do
    local same
    y, same = block(y, memory, {mask = mask, masks = {mask}, scale = self.scale}, notes)
    assert(rawequal(same, notes))
  end
  assert(notes.calls == 4 and notes.last.placement == y.placement)
  return self.between(y, memory, memory, mask)
end

tap.group("stages move the arguments of blocks", function()
  local A, B, A2, B2 = rille.placement("cpu", {0}), rille.placement("cpu", {1}), P, Q
  local source, target = rille.randn{4, 3, 8}, rille.randn{4, 3, 8}
  local mask, added = rille.ones({3, 3}):tril():to"bool", rille.randn{3, 3}
  local function run(place, recipe, mode, seen)
    rille.manual_seed(3)
    local m = Translator(8)
    m:to_global{placement = place, sbp = "B"}
    if recipe then rille.parallel(m, recipe) end
    local where = {placement = place, sbp = recipe and recipe.data and "S(0)" or "B"}
    local x, y = source:to_global(where):detach():requires_grad_(), target:to_global(where):detach():requires_grad_()
    local see = seen:to_global{placement = place, sbp = "B"}:detach()
    local function step(a, b)
      local out = m(a, b, see)
      local loss = out:square():mean()
      loss:backward()
      return loss, out
    end
    local call = mode == "compiled" and rille.graph(step, {micro_batches = 2}) or step
    local loss, out = call(x, y)
    local list = {loss:item(), out:totable()}
    for _, p in ipairs(m:parameters()) do list[#list + 1] = p.grad:totable() end
    if mode == "plain" then list[#list + 1], list[#list + 2] = x.grad:totable(), y.grad:totable() end
    return list, call
  end
  for kind, seen in pairs{bool = mask, added = added} do
    for _, mode in ipairs{"plain", "compiled"} do
      local want = run(A, nil, mode, seen)
      for name, case in pairs{["two stages"] = {A, {stages = {A, B}}}, ["round"] = {A, {stages = {A, B, A, B}}},
        ["of two ranks"] = {A2, {stages = {A2, B2}, data = 0}}, ["heads over two ranks"] = {A2, {stages = {A2, B2}, tensor = 0}}} do
        tap.near(run(case[1], case[2], mode, seen), want,
          ("%s, a mask of %s, %s: values and gradients are those of one device"):format(name, kind, mode), 1e-4, 1e-6)
      end
    end
  end
  local _, step = run(A, {stages = {A, B}}, "compiled", mask)
  local sizes = tap.list(step:explain().boxing, function(move) return move.bytes end)
  table.sort(sizes)
  tap.is(sizes, {4, 4, 4, 9, 192, 192, 192, 192}, "the stream and values read by all blocks move once, and so do their gradients")
end)

tap.done()
