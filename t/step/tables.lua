-- tables.lua - tests tables with tensors as arguments and results of compiled steps. Values must be those of the
-- plain function. A new table with the same structure must cause no new trace; a table with another structure must
-- cause a new trace.

local tap = dofile("t/lib/tap.lua")

local P = rille.placement("cpu", {0, 1})
local function x(scale, sbp) return rille.arange(0, 12):reshape{4, 3}:to_global{placement = P, sbp = sbp or "B"} * scale end

local function text(v)
  if type(v) ~= "table" then return type(v) == "userdata" and table.concat(v:to_global{sbp = "B"}:reshape{-1}:totable(), " ") or tostring(v) end
  local keys, parts = {}, {}
  for key in pairs(v) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = key .. "=" .. text(v[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Each case: name, function, arguments of call i.
local cases = {
  {"a table of two tensors", function(b) return b.x * b.y end, function(i, s) return {x = x(i, s), y = x(2, s)} end},
  {"a list", function(l) return l[1] + l[2]:exp() + l[3] end, function(i, s) return {x(i, s), x(0.1, s), x(1, s)} end},
  {"a list of any length", function(l)
    local sum = 0
    for _, v in ipairs(l) do sum = sum + v:sum(1) end
    return sum
  end, function(i, s) return {x(i, s), x(2, s)} end},
  {"nested tables", function(b) return b.in_.x * b.w[1] end, function(i, s) return {in_ = {x = x(i, s)}, w = {x(3, s)}} end},
  {"two tables and a tensor", function(a, y, b) return a.x * y + b.x end,
    function(i, s) return {x = x(i, s)}, x(2, s), {x = x(3, s)} end},
  {"a number in a table", function(b) return b.x * b.scale end, function(i, s) return {x = x(i, s), scale = i + 0.5} end},
  {"a table without a tensor", function(y, o) return y * o.scale end, function(i, s) return x(1, s), {scale = i + 0.5} end},
  {"a table as result", function(b) return {sum = b.x + 1, n = 3, list = {b.x * 2, "text"}} end, function(i, s) return {x = x(i, s)} end},
  {"a table beside a tensor as result", function(y) return {y + 1}, y, 5 end, function(i, s) return x(i, s) end},
}

for _, micro in ipairs{1, 2} do
  for _, sbp in ipairs(micro == 1 and {"B", "S(0)", "S(1)"} or {"B"}) do
    for _, case in ipairs(cases) do
      local name, fn, arguments = table.unpack(case)
      local step = rille.graph(fn, {micro_batches = micro, check = "trace"})
      for i = 1, 5 do
        local what = ("%s, %s, %d micro-batches, call %d"):format(name, sbp, micro, i)
        tap.is(text(table.pack(step(arguments(i, sbp)))), text(table.pack(fn(arguments(i, sbp)))), what)
      end
      local traces = tonumber(tostring(step):match("(%d+) trace"))
      tap.ok(traces <= 2, ("%s, %s, %d micro-batches: at most two traces"):format(name, sbp, micro), traces)
    end
  end
end

tap.group("gradients of tensors in a table", function()
  local w = rille.ones({3}, {requires_grad = true})
  local step = rille.graph(function(b)
    local loss = (b.x * w):sum()
    loss:backward()
    return {loss = loss}
  end)
  for i = 1, 3 do
    w.grad = nil
    tap.is(step{x = rille.tensor{1, 2, 3} * i}.loss:item(), 6.0 * i, "loss of call " .. i)
    tap.is(w.grad:totable(), {1.0 * i, 2.0 * i, 3.0 * i}, "gradient of call " .. i)
  end
end)

tap.group("structures", function()
  local step = rille.graph(function(b)
    local sum = 0
    for _, key in ipairs{"a", "b", "c"} do if b[key] then sum = sum + b[key] end end
    return b.name == "negative" and -sum or sum
  end)
  local one = rille.ones(2)
  tap.is(step{a = one}:totable(), {1.0, 1.0}, "one key")
  tap.is(step{a = one, b = one}:totable(), {2.0, 2.0}, "a further key")
  tap.is(step{a = one, b = 5}:totable(), {6.0, 6.0}, "a number in place of a tensor")
  tap.is(step{a = one, name = "negative"}:totable(), {-1.0, -1.0}, "a string")
  tap.is(step{a = one, name = "positive"}:totable(), {1.0, 1.0}, "another string")
  tap.is(step{a = one}:totable(), {1.0, 1.0}, "the first structure again")
end)

tap.group("errors", function()
  local step = rille.graph(function(b) return b.x + b.y end)
  tap.fails(function() step{x = rille.ones(2), y = rille.ones(3)} end, {"add", "tables.lua:"}, "an error of the function")
  tap.is(step{x = rille.ones(2), y = rille.ones(2)}:totable(), {2.0, 2.0}, "and the step works afterwards")
  tap.fails(function() step{x = rille.ones(2)} end, {"tables.lua:"}, "a missing key")
  local cycle = {x = rille.ones(2)}
  cycle.cycle = cycle
  tap.fails(function() step(cycle) end, {"graph: argument 1: tables may be nested 8 deep"}, "a table that contains itself")
  tap.fails(function() step{x = rille.ones(2), [true] = 1} end, {"graph: argument 1: keys must be numbers or strings, found true"},
    "a key that is a boolean")
end)

tap.done()
