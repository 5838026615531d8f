-- Tests of tensors in Lua: creation, fields, indexing and assignment to an index, arguments of operators, printing.
local tap = dofile("t/lib/tap.lua")
local T = rille.tensor
local P2, P3 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {0, 1, 2})
local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})

-- ---- a reference in plain Lua: nested tables and indices ----

-- Returns the positions that an index selects on an axis of size n: a number, or a range {a, b, step}.
local function positions(pick, n)
  if type(pick) == "number" then return {pick < 0 and pick + n or pick} end
  local function clip(at) if at < 0 then at = at + n end return math.max(0, math.min(n, at)) end
  local list = {}
  for at = clip(pick[1] or 0), clip(pick[2] or n) - 1, pick[3] or 1 do list[#list + 1] = at end
  return list
end

local function taken(v, picks, axis, shape)
  if axis > #shape then return v end
  local list = positions(picks[axis] or {}, shape[axis])
  if type(picks[axis]) == "number" then return taken(v[list[1] + 1], picks, axis + 1, shape) end
  return tap.list(list, function(at) return taken(v[at + 1], picks, axis + 1, shape) end)
end

-- Returns a copy of v in which f(k) replaces the k-th selected element, counted from 0.
local function replaced(v, picks, axis, shape, f, inside)
  if axis > #shape then return inside and f() or v end
  local out, chosen = {}, {}
  for _, at in ipairs(positions(picks[axis] or {}, shape[axis])) do chosen[at] = true end
  for i = 1, shape[axis] do
    out[i] = replaced(v[i], picks, axis + 1, shape, f, inside and chosen[i - 1] or false)
  end
  return out
end

local every = {0, 2, -1, {}, {1}, {1, 3}, {0, -1}, {-2, 9}, {0, 3, 2}, {2, 2}}
local shape = {3, 4}
local values = {{0, 1, 2, 3}, {10, 11, 12, 13}, {20, 21, 22, 23}}
local layouts = {{}, {placement = P2, sbp = "S(0)"}, {placement = P3, sbp = "S(1)"}, {placement = P22, sbp = {"S(1)", "B"}}}

tap.group("reading every index of two axes, in several layouts", function()
  local wrong
  for _, layout in ipairs(layouts) do
    local x = T(values, layout)
    for _, a in ipairs(every) do
      for _, b in ipairs(every) do
        local want, got = taken(values, {a, b}, 1, shape), x[{a, b}]
        got = got.ndim == 0 and got:item() or got:totable()
        local function text(v) return type(v) == "table" and "{" .. table.concat(v, ",") .. "}" or tostring(v) end
        local function same(p, q)
          if type(p) ~= "table" or type(q) ~= "table" then return p == q end
          if #p ~= #q then return false end
          for i = 1, #p do if not same(p[i], q[i]) then return false end end
          return true
        end
        if not same(got, want) then wrong = wrong or (x.sbp .. ": x[{" .. text(a) .. ", " .. text(b) .. "}]") end
      end
    end
  end
  tap.is(wrong, nil, "gives the same as the nested table")
end)

tap.group("assigning to every index of two axes, in several layouts", function()
  for _, layout in ipairs(layouts) do
    local differs
    for _, a in ipairs(every) do
      for _, b in ipairs(every) do
        local x = T(values, layout)
        x[{a, b}] = 99
        local got, want = x:totable(), replaced(values, {a, b}, 1, shape, function() return 99 end, true)
        for i = 1, 3 do for j = 1, 4 do differs = differs or got[i][j] ~= want[i][j] end end
        local part = taken(values, {a, b}, 1, shape)
        local empty = type(part) == "table" and (#part == 0 or (type(part[1]) == "table" and #part[1] == 0))
        if not empty then -- assigns a tensor of the selection's shape, in row-major order
          local k = 99
          x, k = T(values, layout), 99
          x[{a, b}] = T(part) + 100
          want = replaced(values, {a, b}, 1, shape, function() return "+" end, true)
          got = x:totable()
          for i = 1, 3 do
            for j = 1, 4 do
              local w = want[i][j] == "+" and values[i][j] + 100 or values[i][j]
              differs = differs or got[i][j] ~= w
            end
          end
        end
      end
    end
    tap.ok(not differs, "sets the selected elements and nothing else: " .. (layout.sbp and T(values, layout).sbp or "one device"))
  end
end)

tap.group("assigning", function()
  local x = T({{1, 2, 3}, {4, 5, 6}})
  x[{{}, {0, 2}}] = T({7, 8})
  tap.is(x:totable(), {{7, 8, 3}, {7, 8, 6}}, "broadcasts the assigned value")
  x[0] = T({{9, 9, 9}}):sum{axis = 0}
  tap.is(x:totable(), {{9, 9, 9}, {7, 8, 6}}, "accepts results of operators")
  x[{1, 0}] = T({2}, {dtype = "i64"}):sum()
  tap.is(x:totable()[2][1], 2, "casts to the variable's dtype")
  local i = T({9007199254740993, 1}, {dtype = "i64"})
  i[1] = 2.0
  tap.is(i:totable(), {9007199254740993, 2}, "a float assigned to integers leaves the others exact")
  local s = T({1, 2, 3, 4}, {placement = P2, sbp = "S(0)"})
  s[{{1, 3}}] = T({20, 30})
  tap.is({s:totable(), s.sbp}, {{1, 20, 30, 4}, "S(0)"}, "accepts a tensor of another placement and keeps the layout")
  local p = T({1, 2}, {requires_grad = true})
  p[0] = 5
  tap.ok(p.is_leaf and p.requires_grad, "a parameter stays a leaf")
  ;(p * p):sum():backward()
  tap.is(p.grad:totable(), {10, 4}, "the gradient of a parameter is that of its new value")
  local b = T({true, false})
  b[1] = true
  tap.is(b:totable(), {true, true}, "accepts booleans")
  x:fill_(3)
  tap.is(x:totable(), {{3, 3, 3}, {3, 3, 3}}, "fill_ sets all")
  tap.is(T(5):fill_(2):item(), 2, "fill_ sets a scalar")
  tap.is(x:zero_():sum():item(), 0, "zero_ sets all to 0")
end)

tap.group("rille.eval", function()
  local x, y = T({1, 2}) * 3, T({4, 5}):sum()
  local runs = rille.counters().runs
  local a, b = rille.eval(x, y)
  tap.ok(rawequal(a, x) and rawequal(b, y), "returns its tensors")
  tap.is(rille.counters().runs - runs, 1, "computes all of them in one run")
  tap.is({x:totable(), y:item(), rille.counters().runs - runs}, {{3, 6}, 9, 1}, "afterwards, reading them needs no run")
  tap.is(select("#", rille.eval()), 0, "accepts no tensors")
  tap.fails(function() rille.eval(x, 5) end, {"eval"}, "refuses what is no tensor")
  local step = rille.graph(function(v) rille.eval(v) return v end)
  tap.fails(function() step(x) end, {"reading a value"}, "is refused while a step is traced")
end)

tap.group("reading by index", function()
  local x = T({{1, 2}, {3, 4}}, {requires_grad = true})
  x[{1, {}}]:sum():backward()
  tap.is(x.grad:totable(), {{0, 0}, {1, 1}}, "is differentiable")
  tap.is(x[T({1, 0, 1}, {dtype = "i64"})].shape, {3, 2}, "a tensor of indices selects rows")
  local seen = {}
  for i, row in pairs(T({5, 6})) do seen[i] = row:item() end
  tap.is(seen, {[0] = 5, [1] = 6}, "pairs counts rows from 0")
  tap.is(#T({{1, 2, 3}}), 1, "# is the size of axis 0")
end)

tap.group("creation", function()
  tap.is(rille.zeros(2, 3).shape, {2, 3}, "a shape may be written out")
  local shape = rille.zeros(2, 3).shape
  shape[1] = 5
  tap.is(rille.zeros(shape).shape, {5, 3}, "a shape may be that of a tensor, changed or not")
  tap.is(rille.zeros{2, 3, dtype = "i32"}.dtype, "i32", "options may be in the shape's table")
  tap.is(T({true, false}).dtype, "bool", "booleans make a tensor of booleans")
  tap.is(T({true, false}, {dtype = "f32"}):totable(), {1, 0}, "booleans make numbers with a dtype")
  tap.is(T({}).shape, {0}, "an empty table is a tensor without elements")
  tap.is(T({{}, {}}).shape, {2, 0}, "nested empty tables make an empty tensor")
  tap.is(rille.arange(5, 0, -2):totable(), {5, 3, 1}, "arange may go down")
  tap.is(rille.arange(3, 3).shape, {0}, "arange may be empty")
  for _, method in ipairs{{5, 0, 1}, {0, 5, -1}, {0.5, 0.25, 1}, {math.maxinteger, math.maxinteger - 1, 1}} do
    tap.fails(function() rille.arange(table.unpack(method)) end, ("arange: step %s does not lead from %s to %s"):format(method[3], method[1], method[2]),
      "arange refuses a step in the wrong direction")
  end
  tap.is(rille.arange(math.maxinteger - 1, math.maxinteger):totable(), {math.maxinteger - 1}, "arange counts exactly at the limits")
  tap.is(rille.eye(2, 3):totable(), {{1, 0, 0}, {0, 1, 0}}, "eye may be wide")
  tap.is(rille.linspace(0, 1, 3, {dtype = "f64"}):totable(), {0, 0.5, 1}, "linspace has both ends")
  tap.is(rille.full({2}, true, {dtype = "bool"}):totable(), {true, true}, "full accepts a boolean")
  local x = rille.ones({2}, {requires_grad = true, name = "w"})
  tap.is({x.requires_grad, x.name, x.is_leaf}, {true, "w", true}, "options are kept")
end)

-- Checks every finite f16 and bf16, and values between neighbours: rounding must equal that computed in f64.
tap.group("floats of 16 bits", function()
  local function near_half(v) -- rounds v to the nearest f16, ties to even
    local _, e = math.frexp and math.frexp(v) or nil, v == 0 and -14 or math.floor(math.log(math.abs(v), 2))
    local unit = 2.0 ^ (math.max(e, -14) - 10)
    local q = v / unit
    local low = math.floor(q)
    local rest = q - low
    if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then low = low + 1 end
    return low * unit
  end
  local list, want = {}, {}
  for e = -26, 15 do
    for _, m in ipairs{1, 1.25, 1 + 1 / 1024, 1 + 1 / 2048, 1 + 3 / 2048, 1.9990234375, 1.99951171875 - 1 / 65536} do
      list[#list + 1] = m * 2.0 ^ e
      want[#want + 1] = near_half(m * 2.0 ^ e)
    end
  end
  tap.is(T(list, {dtype = "f16"}):to("f64"):totable(), want, "f16 values round to nearest, ties to even, subnormals, too")
  tap.is(T(list, {dtype = "f16"}):totable(), want, "f16 values are read exactly")
  tap.is(T({65519, 65520, -1e9}, {dtype = "f16"}):totable(), {65504, math.huge, -math.huge}, "f16 values that are too large become infinite")
  tap.is(T({1 + 1 / 256, 1 + 3 / 256, 1e39}, {dtype = "bf16"}):totable(), {1, 1 + 4 / 256, math.huge}, "bf16 values round the same way")
  local odd = T({0 / 0, -0.0}, {dtype = "f16"}):totable()
  tap.ok(odd[1] ~= odd[1] and 1 / odd[2] == -math.huge, "NaN and -0 are kept")
end)

tap.group("arguments of operators", function()
  local x = T({{1, 2, 3}, {4, 5, 6}})
  tap.is(x:reshape(3, 2).shape, {3, 2}, "a list of integers may be written out")
  tap.is(x:permute(1, 0).shape, {3, 2}, "axes may be written out")
  tap.is(x:sum(1):totable(), x:sum{axis = 1}:totable(), "attributes may be passed by position or by name")
  tap.is(x:sum(1, true):totable(), x:sum{axis = 1, keepdim = true}:totable(), "several attributes may be passed by position or by name")
  tap.is(x:sum(nil, true).shape, {1, 1}, "nil skips an attribute")
  tap.is(x:sum({0, 1}):item(), 21, "a table without names is a list")
  tap.is(T({1}):sum():reshape{}.shape, {}, "a list may be empty")
  tap.is(rille.concat(x, x, 0).shape, {4, 3}, "a list of tensors may be written out")
  tap.is(rille.concat{x, x, axis = 1}.shape, {2, 6}, "a table of tensors may contain options")
  tap.is(rille.cat({x, x}, 1).shape, {2, 6}, "cat is concat")
  local rounded = rille.concat({T{257}, T({258}, {dtype = "f64"})}, {dtype = "bf16"})
  tap.is({rounded.dtype, rounded:totable()}, {"bf16", {256, 258}}, "concat may round to another dtype")
  local many = tap.list(200, function(i) return T(i) end)
  tap.is(rille.stack(many):sum():item(), 20100.0, "a long list is stacked in parts")
  tap.is((T({1, 2}, {dtype = "bf16"}) * T(2.5)).dtype, "bf16", "a tensor of one element does not widen others of its class")
  tap.is(T({1e-9}, {dtype = "f64"}):rms_norm():item() > 0.06, true, "rms_norm of tiny f64 values is accurate")
  local many = tap.list(60, function(i) return T({i}) end)
  tap.is(rille.concat(many):sum():item(), 1830, "a long list can be concatenated")
  tap.is(x:pad({1, 0}, {value = 9}):totable(), {{9, 1, 2, 3}, {9, 4, 5, 6}}, "a list and named options can be combined")
  tap.is(x:add_(1):totable(), {{2, 3, 4}, {5, 6, 7}}, "an in-place operator returns the variable")
  tap.is((-T({1, -2})):totable(), {-1, 2}, "unary minus")
  tap.is({(7 // T({2.0})):item(), (7 % T({4.0})):item(), (2 ^ T({3})):item()}, {3, 3, 8}, "a number may be the left operand")
  local l = rille.live(function() return 4 end)
  tap.is((T({2}) * l):item(), 8, "a live number is evaluated")
  tap.is(#x:split(2, {axis = 1}), 2, "split takes its axis by name")
  for _, d in ipairs {"f16", "bf16", "f32", "f64"} do
    local s = T({0 / 0, -0.0, 2, -1 / 0}, {dtype = d}):sign():totable()
    tap.ok(s[1] == 0 and 1 / s[2] == math.huge and s[3] == 1 and s[4] == -1, d .. ": NaN and zeros have sign 0")
  end
  local none = rille.zeros({0, 3}):chunk(4)
  tap.ok(#none == 4 and none[4].shape[1] == 0 and none[4].shape[2] == 3, "an empty axis has the requested number of chunks")
  tap.ok(not pcall(none[1].chunk, none[1], 1 << 40), "too many chunks are refused")
  local sizes = tap.list(T({1, 2, 3, 4, 5}):chunk(3), function(part) return part.shape[1] end)
  tap.is(sizes, {2, 2, 1}, "the last chunk is smaller")
end)

tap.group("printing", function()
  local function body(x) return (tostring(x):match("\n(.*)") or "") end
  tap.is(tostring(T({{1, 2}, {3, 4}}, {placement = P2, sbp = "S(0)"})), "f32 {2, 2} S(0) on cpu[0, 1]\n  1. 2.\n  3. 4.",
    "a tensor prints dtype, shape, layout and placement, then rows")
  tap.is(body(T({-0.0, 1, 0 / 0, 1 / 0, -1 / 0})):gsub("%-nan", "nan"), "   -0.   1.  nan  inf -inf", "-0, nan and infinities print")
  tap.is(body(T({0.5, 2})), "  0.5000 2.0000", "fractions print with four digits")
  tap.is(body(T({1e-7, 1.5})), "  1.0000e-07 1.5000e+00", "values of very different size print with exponents")
  tap.is(body(T({true, false})), "   true false", "booleans print")
  tap.is(body(T({-5, 10}, {dtype = "i64"})), "  -5 10", "integers print")
  tap.is(body(T(7)), "  7.", "a scalar prints")
  tap.is(tostring(rille.zeros({0, 2})), "f32 {0, 2} B on cpu[0]", "an empty tensor prints its head")
  tap.is(body(rille.arange(8):reshape{2, 2, 2}), " [0]\n  0 1\n  2 3\n [1]\n  4 5\n  6 7", "matrices print under their indices")
  local large = body(rille.arange(10000):reshape{100, 100})
  tap.is(select(2, large:gsub("\n", "")) + 1, 7, "a large tensor shows its edges")
  tap.ok(large:find("0 .* 9999$"), "a large tensor shows its first and last number")
  local x = rille.arange(10000):reshape{100, 100}:to_global{placement = P22, sbp = {"S(0)", "S(1)"}}
  tap.is(body(x), large, "a large tensor prints the same in another layout")
  tap.ok(not tostring(rille.ones({1})):find("\27"), "tostring() has no colours")
end)

tap.group("memory", function()
  local x = rille.ones({64, 1024})
  local function live()
    collectgarbage()
    return rille.counters().live_bytes
  end
  local before, most = live(), 0
  for i = 1, 1000 do
    local y = x * i
    y:sum():item()
    most = math.max(most, rille.counters().live_bytes)
  end
  tap.ok(most < before + (100 << 20), "a plain loop of 1,000 steps does not grow", most .. " bytes")
  tap.ok(live() <= before + (1 << 20), "a plain loop leaves no bytes")
end)

tap.done()
