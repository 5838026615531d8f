-- whole.lua - tests functions that change all parameters of a module. If one parameter cannot be changed, no
-- parameter may change, and the error must name that parameter.
--
-- Tested: to_global, to, load_state_dict, a recipe, a checkpoint.

local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local P = rille.placement("cpu", {0, 1})

-- A module of two layers and a block. with_result() adds a tensor that is no variable, because it is computed from
-- the first layer.
local Net = nn.Module:extend("Net")
function Net:init()
  self.a = nn.Linear(4, 8)
  self.b = nn.Linear(8, 4)
  self.block = nn.TransformerBlock(4, 2)
  self:buffer("count", rille.zeros({3}, {dtype = "i64"}))
end
function Net:forward(x) return self.block(self.b(self.a(x))) end

local function with_result()
  local net = Net()
  net.w = net.a.weight * 2
  return net
end

-- Returns all state that a change could leave half done: layouts, placements, dtypes, values, gradients, pins.
local function state_of(net)
  local state = {}
  for _, found in ipairs(net:named_tensors()) do
    local t = found.tensor
    state[found.name] = {t.dtype, t.sbp, tostring(t.placement), t.requires_grad, t:totable(), t.grad and t.grad:totable() or "none"}
  end
  for path, m in net:named_modules() do
    state["pin of " .. path] = require("rille.nn.base.pin").of[m] and "pinned" or "free"
  end
  return state
end

local function traced(fn) return function(net) return rille.graph(function(x) fn(net) return x end)(rille.ones{1}) end end

local function saved_values(net)
  local state = {}
  for name, t in pairs(net:state_dict()) do state[name] = t:to("f32") + 1 end
  return state
end

local dir = tap.folder() .. "/x"

local failing = {
  {"a bias without axis 1", Net, function(net) net:to_global{placement = P, sbp = "S(1)"} end,
    {"whole.lua:", "Net:to_global: 'a.bias' f32{8}: sbp: \"S(1)\" splits axis 1"}},
  {"two SBP entries for one mesh axis", Net, function(net) net:to_global{placement = P, sbp = {"S(0)", "B"}} end, {"Net:to_global: 'a.weight' f32{8, 4}"}},
  {"a result instead of a variable", with_result, function(net) net:to_global{placement = P, sbp = "B"} end,
    {"whole.lua:", "Net:to_global: 'w' f32{8, 4}", "expected a variable"}},
  {"an unknown option", Net, function(net) net:to_global{place = P} end, {"whole.lua:", "Net:to_global", "place"}},
  {"no options", Net, function(net) net:to_global() end, {"whole.lua:", "Net:to_global", "{placement =, sbp =}"}},
  {"to_global in a trace", Net, traced(function(net) net:to_global{placement = P, sbp = "B"} end),
    {"Net:to_global: 'a.weight' f32{8, 4}", "inside a graph"}},
  {"an integer dtype", Net, function(net) net:to("i64") end, {"whole.lua:", "Net:to: expected a float dtype, f32, f64, bf16 or f16, found \"i64\""}},
  {"an unknown dtype", Net, function(net) net:to("f99") end, {"whole.lua:", "Net:to: expected a float dtype, f32, f64, bf16 or f16, found \"f99\""}},
  {"a missing dtype", Net, function(net) net:to() end, {"whole.lua:", "Net:to: expected a float dtype, f32, f64, bf16 or f16, found nil"}},
  {"load_state_dict into a result", with_result, function(net) net:load_state_dict(saved_values(net)) end,
    {"whole.lua:", "Net:load_state_dict: 'w' f32{8, 4}", "expected a variable"}},
  {"net:load into a result", with_result, function(net)
    rille.save(dir .. ".safetensors", saved_values(net))
    net:load(dir .. ".safetensors")
  end, {"whole.lua:", "Net:load: ", "'w' f32{8, 4}", "expected a variable"}},
  {"values on meta devices", Net, function(net)
    local state = saved_values(net)
    state["a.bias"] = rille.ones({8}, {placement = rille.placement("meta", {0})})
    net:load_state_dict(state)
  end, {"whole.lua:", "Net:load_state_dict: 'a.bias' f32{8}", "meta devices"}},
  {"a recipe in a trace", Net, traced(function(net) rille.parallel(net, {["a.bias"] = {placement = P}, block = {output = "B"}}) end),
    {"parallel: 'a.bias' f32{8}", "inside a graph"}},
  {"a recipe for a result", with_result, function(net)
    rille.parallel(net, {["a.bias"] = {placement = P}, block = {output = "B"}, w = {placement = P}})
  end, {"whole.lua:", "parallel: 'w' f32{8, 4}", "expected a variable"}},
  {"an empty recipe in a trace", function()
    local net = Net()
    rille.parallel(net, {block = {output = "B"}})
    return net
  end, traced(function(net) rille.parallel(net, {["a.bias"] = {placement = P}}) end), {"parallel: 'a.bias' f32{8}"}},
  {"a checkpoint for a result", with_result, function(net)
    rille.checkpoint.save(dir, {model = net, step = 1})
    net.a.weight:fill_(3)
    net.a.weight.grad = rille.ones{8, 4}
    local before = state_of(net)
    local good, why = pcall(rille.checkpoint.load, dir, {model = net})
    tap.is(state_of(net), before, "a checkpoint that cannot be loaded leaves values and gradients unchanged")
    net.a.weight.grad = nil
    rille.no_grad(function() net.a.weight:copy_(net.w / 2) end)
    error(good or why, 0)
  end, {"checkpoint.load", "'model.w' f32{8, 4}", "expected a variable"}},
}

for _, row in ipairs(failing) do
  local name, make, fn, words = table.unpack(row)
  rille.manual_seed(3)
  local net = make()
  local before = state_of(net)
  tap.fails(function() fn(net) end, words, name .. ": the error names the cause")
  tap.is(state_of(net), before, name .. ": the module is unchanged")
end

-- Assigns lazy values before they are computed. The computation of one of the values fails.
tap.group("values that fail when they are read", function()
  local net = nn.Linear(2, 3)
  local opt = rille.optim.Adam(net:parameters())
  local function looked_up(id) return rille.embedding(rille.tensor({0, id, 1}, {dtype = "i64"}), rille.tensor{{1, 2}, {3, 4}}) end
  local before, state, kept = state_of(net), net:state_dict(), opt:state_dict()
  state.bias, state.weight = state.bias + 1, looked_up(7) * 2
  kept["0.m"], kept.steps = looked_up(7), rille.tensor(3, {dtype = "i64"})
  tap.fails(function() net:load_state_dict(state) end, {"nn.Linear:load_state_dict: 'weight' f32{3, 2}", "id 7"}, "load_state_dict of a module fails at once")
  tap.is(state_of(net), before, "nothing is loaded")
  tap.fails(function() opt:load_state_dict(kept) end, {"optim.Adam:load_state_dict: '0.m' f32{3, 2}", "id 7"}, "load_state_dict of an optimiser fails at once")
  tap.is({opt.steps, opt.slots[1].m:sum():item()}, {0, 0}, "nothing is loaded")
  state.weight, kept["0.m"] = looked_up(1) * 2, looked_up(1)
  net:load_state_dict(state)
  opt:load_state_dict(kept)
  tap.is({net.weight:totable(), opt.slots[1].m:totable(), opt.steps}, {{{2, 4}, {6, 8}, {6, 8}}, {{1, 2}, {3, 4}, {3, 4}}, 3}, "valid values are loaded")
  local meta = nn.Linear(2, 3)
  meta:to_global{placement = rille.placement("meta", {0, 1}), sbp = "B"}
  tap.ok(pcall(meta.load_state_dict, meta, meta:state_dict()), "states without values are accepted on meta devices")
end)

tap.group("an optimiser's state", function()
  local net = Net()
  local opt = rille.optim.SGD(net:parameters(), {lr = 1, momentum = 0.5})
  local state = opt:state_dict()
  for name, t in pairs(state) do state[name] = t + 1 end
  local short = tap.with(state)
  short["3.m"] = rille.ones{5}
  tap.fails(function() opt:load_state_dict(short) end, {"whole.lua:", "optim.SGD:load_state_dict: '3."}, "a value that does not fit is named")
  tap.is({opt.steps, opt:state_dict()["0.m"]:sum():item()}, {0, 0}, "nothing is loaded")
  opt:load_state_dict(state)
  tap.is({opt.steps, opt:state_dict()["0.m"]:min():item()}, {1, 1}, "a state that fits is loaded completely")
end)

tap.group("successful changes", function()
  rille.manual_seed(3)
  local net = Net()
  local want = net.a.weight:totable()
  net.lm = nn.Linear(4, 8, {bias = false})
  nn.tie(net.a, "weight", net.lm, "weight")
  net.a.weight.grad = rille.ones{8, 4}
  net:to_global{placement = P, sbp = "S(0)"}
  tap.is({net.a.weight.sbp, net.lm.weight.sbp, net.a.bias.sbp, net.count.sbp, net.a.weight.grad.sbp},
    {"S(0)", "S(0)", "S(0)", "S(0)", "S(0)"}, "all parameters and gradients have the new layout")
  tap.is(net.a.weight:totable(), want, "values are unchanged")
  net:to("f64")
  tap.is({net.a.weight.dtype, net.lm.weight.dtype, net.count.dtype, net.a.bias.requires_grad}, {"f64", "f64", "i64", true},
    "float parameters are cast")
  tap.is({net.a.weight.grad.dtype, net.a.weight.grad:sum():item()}, {"f64", 32}, "gradients are cast")
  tap.ok(rawequal(net.a.weight, net.lm.weight), "tied parameters stay tied")
  local state = net:state_dict()
  state["a.weight"], state["lm.weight"] = state["a.weight"] + 1, nil
  net:load_state_dict(state)
  tap.near(net.lm.weight:sum():item(), rille.tensor(want):sum():item() + 32, "values are loaded under either name", 1e-4)
end)

tap.group("many parameters", function()
  local layers = tap.list(400, function() return nn.Linear(1, 2) end)
  local net = nn.Sequential(table.unpack(layers))
  net:to_global{placement = P, sbp = "S(0)"}
  local cut = tap.sum(net:parameters(), function(p) return (p.sbp == "S(0)" and 1 or 0) end)
  tap.is(cut, 800, "800 parameters get the new layout")
  net:load_state_dict(net:state_dict())
  net:to("f64")
  tap.is(net[400].bias.dtype, "f64", "800 parameters are loaded and cast")
end)

tap.group("NaN values", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  nn.tie(net[1], "weight", net[2], "weight")
  net[1].weight:copy_(rille.full({2, 2}, 0 / 0))
  net:load_state_dict(net:state_dict())
  tap.ok(net[2].weight:sum():item() ~= net[2].weight:sum():item(), "a tied weight of NaN is saved and loaded")
  local state = net:state_dict()
  state["0.weight"] = rille.ones{2, 2}
  tap.fails(function() net:load_state_dict(state) end, {"0.weight", "1.weight", "differ"}, "different values under two tied names are refused")
  local opt = rille.optim.Adam(net:parameters())
  opt.betas[1] = {}
  tap.ok(tostring(opt):find("betas = {a table, 0.999}", 1, true), "invalid options are printed without an error")
end)

tap.group("moves that fail when they run", function()
  local net = nn.Linear(4, 8)
  local want = net.weight:totable()
  net:to_global{placement = P, sbp = "S(0)"}
  rille._fail_act(1)
  tap.fails(function() net.weight:totable() end, {"whole.lua:"}, "values are moved when they are read")
  rille._fail_act(0)
  tap.is(net.weight:totable(), want, "values are not lost by a failed move")
  net:to_global{placement = rille.placement("cpu", {0}), sbp = "B"}
  tap.is(net.weight:totable(), want, "values can be moved back")
end)

tap.done()
