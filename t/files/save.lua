-- save.lua - tests saving and loading tensors in every layout, dtype and format, sharded files, modules, and errors.

local tap = dofile("t/lib/tap.lua")
local T, nn = rille.tensor, rille.nn

local dir = tap.folder()

local function list(at) return tap.all(tap.output("ls -A '" .. (at or dir) .. "'"):gmatch("[^\n]+")) end
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for i = 1, math.max(#a, #b) do
    if not same(a[i], b[i]) then return false end
  end
  return true
end

local meshes = {rille.placement("cpu", {0}), rille.placement("cpu", {2, 0, 1}), rille.placement("cpu", {{0, 1}, {3, 2}})}
local layouts = {{"B", "S(0)", "S(1)", "P", "S(2)"}, {"B", "S(0)", "S(1)", "P"},
  {{"B", "B"}, {"S(0)", "S(0)"}, {"S(1)", "B"}, {"S(2)", "S(0)"}, {"P", "S(1)"}, {"S(0)", "S(0)", order = {1, 0}}}}

-- Saves a tensor in every layout, and loads it in every other layout.
tap.group("layouts", function()
  local x = rille.arange(0.0, 5 * 3 * 4, 1):reshape{5, 3, 4}
  local want, wrong, path, first = x:totable(), 0, dir .. "/a.safetensors", nil
  for i, place in ipairs(meshes) do
    for _, sbp in ipairs(layouts[i]) do
      rille.save(path, {x = x:to_global{placement = place, sbp = sbp}})
      first = first or tap.read(path)
      if tap.read(path) ~= first then wrong = wrong + 1 end
      for j, to in ipairs(meshes) do
        for _, how in ipairs(layouts[j]) do
          local y = rille.load(path, {placement = to, sbp = how}).x
          if y.placement ~= to or not same(y:totable(), want) then wrong = wrong + 1 end
        end
      end
    end
  end
  tap.is(wrong, 0, "the file of a tensor does not depend on its layout, and loads in any layout")
end)

tap.group("dtypes", function()
  for _, ending in ipairs{"safetensors", "npy"} do
    local path, wrong = dir .. "/d." .. ending, {}
    for _, dtype in ipairs{"f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool"} do
      local x = T({{1, 0, 1}, {0, 1, 1}}, {dtype = dtype, placement = meshes[2], sbp = "S(1)"})
      rille.save(path, {x = x})
      local y = rille.load(path)
      if ending == "safetensors" then y = y.x end
      local became = ending == "npy" and dtype == "bf16" and "f32" or dtype
      if y.dtype ~= became or not same(y:totable(), x:totable()) then wrong[#wrong + 1] = dtype end
    end
    tap.is(wrong, {}, ending .. ": every dtype is read back (bf16 as f32 from .npy)")
  end
  local path = dir .. "/d.safetensors"
  rille.save(path, {f = T{1, 2.5}, i = T({3, 4}, {dtype = "i32"})})
  local t = rille.load(path, {dtype = "f64"})
  tap.is({t.f.dtype, t.f:totable(), t.i.dtype}, {"f64", {1, 2.5}, "i32"}, "the option dtype converts floats only")
  tap.fails(function() rille.load(path, {dtype = "i64"}) end, {"save.lua:", "dtype must be float", "i64"}, "a dtype option that is not a float is refused")
end)

tap.group("large values", function()
  -- uses a tensor so large that it is stored in several chunks along both axes
  local x = rille.arange(0.0, 1200.0 * 1100, 1):reshape{1200, 1100}
  rille.save(dir .. "/l.safetensors", {x = x:to_global{placement = meshes[3], sbp = {"S(1)", "S(0)"}}})
  local y = rille.load(dir .. "/l.safetensors", {placement = meshes[2], sbp = "S(1)", dtype = "f64"}).x
  tap.is((y:to_global{placement = meshes[1], sbp = "B"} - x:to("f64")):abs():max():item(), 0, "tensors larger than a chunk are saved, loaded and cast")
  rille.save(dir .. "/l.npy", x:to("bf16"))
  tap.is(rille.load(dir .. "/l.npy"):sum():item(), x:to("bf16"):to("f32"):sum():item(), "a large bf16 tensor is saved as .npy")
end)

tap.group("options", function()
  local path = dir .. "/o.safetensors"
  rille.save(path, {a = rille.ones({2, 2}), b = rille.ones({4})})
  local t = rille.load(path, {placement = function(name) return name == "a" and meshes[2] or meshes[1] end,
    sbp = function(name) return name == "a" and "S(-1)" or nil end})
  tap.is({t.a.sbp, t.a.placement == meshes[2], t.b.sbp}, {"S(1)", true, "B"}, "placement and sbp may be functions of the name")
  tap.fails(function() rille.load(path, {sbp = "S(1)", placement = meshes[2]}) end, {"load: 'b': sbp", "S(1)"}, "the error of an invalid layout names the tensor")
  tap.fails(function() rille.load(path, {names = "a"}) end, {"load", "names"}, "names must be a list")
  tap.fails(function() rille.load(path, {names = {"a", "c"}}) end, {path, "'c'"}, "the error names a missing tensor")
  tap.fails(function() rille.load(path, {placement = function() error("mine") end}) end, {"mine"}, "an error of the user's function is passed on")
  tap.fails(function() rille.save(dir .. "/m.safetensors", {x = rille.zeros({2}, {placement = rille.placement("meta", {0})})}) end,
    {"'x'", "meta"}, "saving a meta tensor is refused by name")
  tap.fails(function() rille.save(dir .. "/m.safetensors", {["\xff"] = T{1}}) end, {"UTF-8"}, "names must be UTF-8")
  tap.fails(function() rille.save(dir .. "/m.npz", {x = T{1}}) end, {"m.npz", ".safetensors"}, "an unsupported format for saving is refused")
  tap.is(rille.load(path, {names = {}}), {}, "an empty list of names loads no tensors")
  rille.save(path, {[""] = T{1, 2}, a = T{3}})
  local some = rille.load(path)
  tap.is({some[""]:totable(), some.a:totable()}, {{1, 2}, {3}}, "a tensor that is called \"\" does not hide the others")
  tap.is(rille.load(path, {names = {"a"}}).a:totable(), {3}, "a tensor that is called \"\" is not loaded instead of requested ones")
  rille.save(path, T{4})
  tap.is(rille.load(path):totable(), {4}, "a single unnamed tensor is returned itself")
  tap.fails(function() rille.load(path, {names = {"a"}}) end, {path, "no tensor named 'a'"}, "a single unnamed tensor is not returned for a name")
  local big = {}
  for i = 1, 3000 do big["tensor" .. i] = T(i) end
  rille.save(path, big)
  tap.is(rille.load(path, {names = {"tensor2999"}}).tensor2999:item(), 2999, "one tensor of thousands is loaded")
end)

tap.group("shards", function()
  local at = dir .. "/model"
  local state = {}
  for i = 1, 5 do state["w" .. i] = rille.full({100}, i) end
  rille.save(at, state, {max_shard_size = "1KB"})
  tap.is(#list(at), 4, "max_shard_size makes a folder with three shards and an index")
  tap.is(rille.load(at).w5[99]:item(), 5, "the sharded folder loads")
  local index = tap.read(at .. "/model.safetensors.index.json")
  local function refused(text, name, ...)
    tap.write(at .. "/model.safetensors.index.json", text)
    tap.fails(function() rille.load(at) end, {"index.json", ...}, name)
  end
  refused(index:gsub('"w5": "model%-00003', '"w5": "model-00001'), "an index with a wrong shard is refused", "w5")
  refused(index:gsub('\n%s*"w4"[^\n]*', ""), "an index without a tensor of a shard is refused", "w4")
  refused(index:gsub('"w5"', '"w6"'), "an index with an unknown tensor is refused", "w")
  refused(index:gsub("model%-00003%-of%-00003.safetensors", "../../etc/passwd"), "an index with a path out of the folder is refused", "passwd")
  refused(index:sub(1, -10), "a truncated index is refused", "JSON")
  os.remove(at .. "/model.safetensors.index.json")
  tap.fails(function() rille.load(at) end, {"model", "no complete model"}, "a folder without its index (an incomplete save) does not load")
  rille.save(at, state, {max_shard_size = 100})
  tap.is(#list(at), 6, "a tensor larger than a shard has its own shard")
  rille.save(at, {w1 = state.w1})
  tap.is(list(at), {"model.safetensors"}, "a small save is one file, and deletes the old shards")
  rille.save(at, state, {max_shard_size = "1KB"})
  tap.is(#list(at), 4, "a sharded save deletes the single file")
end)

tap.group("bytes read", function()
  local function read_so_far() -- Returns the bytes that this process has read; nil if the system does not report them.
    local file = io.open("/proc/self/io")
    local text = file and file:read("a")
    if file then file:close() end
    return text and tonumber(text:match("rchar: (%d+)"))
  end
  local path, half = dir .. "/large.safetensors", 1 << 21
  rille.save(path, {a = rille.ones({1 << 19}), b = rille.full({1 << 19}, 2)})
  local before = read_so_far()
  local b = rille.load(path, {names = {"b"}, placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}).b
  local value = b:sum():item()
  local bytes = before and read_so_far() - before
  tap.is(value, 2.0 * (1 << 19), "one tensor of a file is loaded")
  tap.ok(not bytes or bytes >= half and bytes < half + (1 << 16), "only that tensor's bytes are read, once", bytes)
end)

tap.group("modules", function()
  local function net() return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)) end
  rille.manual_seed(1)
  local a, b, path = net(), net(), dir .. "/net.safetensors"
  b:to_global{placement = meshes[2], sbp = "B"}
  b[1].weight:to_global_{placement = meshes[2], sbp = "S(0)"}
  rille.save(path, a)
  b:load(path)
  tap.is({b[1].weight:totable(), b[1].weight.sbp, b[3].bias:totable()}, {a[1].weight:totable(), "S(0)", a[3].bias:totable()},
    "a module is loaded, each tensor in its own layout")
  local before = b[1].weight:totable()
  rille.save(path, {["0.weight"] = rille.ones({4, 3}), ["0.bias"] = rille.ones({2, 2}), extra = T{1}})
  tap.fails(function() b:load("/etc/passwd") end, {":load: /etc/passwd: ", ".safetensors"}, "the error of an unknown format names the method")
  tap.fails(function() b:load(path) end, {"load: " .. path, "'0.bias'", "{4}", "{2, 2}", "'2.weight' is missing", "'extra'"}, "the error lists all differences")
  tap.is(b[1].weight:totable(), before, "the refused load changes nothing")
  rille.save(path, {["0.weight"] = rille.ones({1})})
  local deep = tap.list(12, function() return nn.Linear(2, 2) end)
  tap.fails(function() nn.Sequential(table.unpack(deep)):load(path) end, {"'3.bias' is missing; and 16 more"}, "of many differences the error lists the first")
  rille.save(dir .. "/one.npy", {x = rille.ones({4, 3})})
  tap.fails(function() b:load(dir .. "/one.npy") end, {"one.npy: a .npy file holds one tensor"}, "loading a module from a .npy file is refused")
  local tied = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, {bias = false}))
  nn.tie(tied[1], "weight", tied[2], "weight")
  rille.save(path, tied)
  tap.is(#rille.io.contents(path), 1, "a tied tensor is saved once")
  local one = tap.read(path)
  rille.save(path, {["1.weight"] = tied[1].weight})
  tied:load(path)
  rille.save(path, {["0.weight"] = tied[1].weight, ["1.weight"] = tied[1].weight + 1})
  tap.fails(function() tied:load(path) end, {"0.weight", "1.weight", "differ"}, "a tied tensor loads under either name, and different values are refused")
  rille.save(path, tied)
  tap.ok(tap.read(path) == one, "equal states give equal files")
end)

tap.group("contents of files", function()
  rille.save(dir .. "/a.safetensors", {b = rille.ones({2, 3}), a = T({1}, {dtype = "i64"})})
  local list, says = rille.io.contents(dir .. "/a.safetensors")
  tap.is({#list, list[1].name, list[1].dtype, list[1].shape, list[2].shape, says.format}, {2, "a", "i64", {1}, {2, 3}, "pt"},
    "contents lists names, dtypes and shapes")
end)

tap.done()
