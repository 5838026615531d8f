-- Tests variables to which a view is assigned (actors/session/build/variable.c). The first reader of such a variable
-- must get the same bits as later readers, whatever the strides of the view. Runs with the default kernels, and with
-- oneDNN's AVX2 kernels, which sum in another order.

local t = dofile("t/lib/tap.lua")

if arg[1] ~= "again" then
  local p = assert(io.popen(("DNNL_MAX_CPU_ISA=AVX2 '%s' -d cpu:4 --no-init t/step/views-assigned.lua again 2>&1"):format(t.program())))
  local text = p:read("a")
  t.ok(p:close() and text:find("\nok 2 ") and not text:find("\nnot ok"), "with oneDNN's kernels for AVX2", text)
end

local views = { -- views of shape {64, 96}
  {"a transpose", {96, 64}, function(x) return x:transpose(0, 1) end},
  {"a chunk of a transpose", {96, 192}, function(x) return x:transpose(0, 1):chunk(3, 0)[2] end},
  {"columns", {64, 99}, function(x) return x:slice(1, 3, 99) end},
  {"a transpose of rows", {99, 64}, function(x) return x:slice(0, 3, 99):transpose(0, 1) end},
  {"a reshape", {2, 32, 96}, function(x) return x:reshape{64, 96} end},
  {"an expansion", {1, 96}, function(x) return x:expand{64, 96} end},
}
local layouts = {{1, "B"}, {4, "B"}, {4, "S(0)"}, {4, "S(1)"}}

rille.manual_seed(t.seed(7))
for _, layout in ipairs(layouts) do
  local P = rille.placement("cpu", t.ranks(layout[1]))
  for _, view in ipairs(views) do
    local name = ("%s, %s on %d"):format(view[1], layout[2], layout[1])
    local w = rille.zeros({64, 96}, {placement = P, sbp = layout[2]})
    local from = rille.randn(view[2], {placement = P, sbp = "B"})
    w:copy_(view[3](from))
    local x, y = {}, {}
    for i, rows in ipairs{1, 7, 12, 40} do
      x[i], y[i] = rille.randn({rows, 96}, {placement = P, sbp = "B"}), rille.randn({rows, 64}, {placement = P, sbp = "B"})
    end
    local function products()
      local z = t.list(#x, function(i) return {x[i]:matmul(w:transpose(0, 1)), y[i]:matmul(w)} end)
      for i = 1, #x do z[i] = {z[i][1]:totable(), z[i][2]:totable()} end
      return z
    end
    local once = products()
    t.is(w:totable(), view[3](from):totable(), name .. ": the variable has the view's values")
    t.is(once, products(), name .. ": the first and the second products with the variable have the same bits")
  end
end
t.done()
