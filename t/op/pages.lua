-- pages.lua - tests that the help page of every operator documents its arguments, and that the documented facts are true.
local tap = dofile("t/lib/tap.lua")

local P = rille.placement("meta", {0, 1})
local function empty(shape, sbp, dtype) return rille.empty(shape, {placement = P, sbp = sbp, dtype = dtype}) end
local function names(e) return table.concat(tap.list(e.ops, function(op) return op.name end), ", ") end

-- Operators whose result may have any requested layout: sources and to_global.
local free = {to_global = true}
for _, name in ipairs{"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "zeros"} do free[name] = true end

tap.group("layouts", function()
  for _, name in ipairs(rille.operators()) do
    local page = rille.page(name)
    tap.ok(free[name] or page:find("\n  layouts on [^\n]+\n.-%->"), name .. " has a table of layouts", page)
  end
end)

tap.group("composites", function()
  local page, rows = rille.page("cross_entropy"), 0
  for _, logits in ipairs{"S(0)", "S(1)", "B"} do
    for _, labels in ipairs{"S(0)", "B"} do
      local y = empty({4, 6}, logits):cross_entropy(empty({4}, labels, "i64"))
      local e = rille.explain(y)
      local row = ("    %s, %s -> %s%s\n"):format(logits, labels, y.sbp, e.bytes > 0 and "   moves " .. e.bytes .. " bytes" or "")
      if page:find(row, 1, true) then
        rows = rows + 1
        tap.ok(page:find("computed by " .. names(e) .. ":\n", 1, true), "the page names the operators:" .. row:gsub("%s+", " "), page)
      end
    end
  end
  tap.is(rows, 3, "rows of cross_entropy's page agree with explain()")
end)
tap.group("names", function()
  local methods = debug.getmetatable(rille.ones({1})).__methods
  for _, where in ipairs{rille, methods} do
    for name in pairs(where) do
      -- the page of copy_ documents x:add_(y), so the name without "_" is that of the page
      local base = type(name) == "string" and name:gsub("_$", "")
      if base and base:sub(1, 1) ~= "_" then
        tap.ok(pcall(rille.page, name) or pcall(rille.page, base), name .. " has a page")
      end
    end
  end
  for sign, name in pairs{["+"] = "add", ["-"] = "sub", ["*"] = "mul", ["/"] = "div", ["^"] = "pow", ["//"] = "floor_divide", ["%"] = "remainder"} do
    tap.is(rille.page(sign), rille.page(name), sign .. " is " .. name)
  end
  for _, name in ipairs{"arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros"} do
    local page = rille.page(name)
    local missing
    for _, word in ipairs{"dtype", "placement", "sbp", "requires_grad", "name"} do
      missing = missing or not page:find("\n  " .. word .. " ", 1, true) and word
    end
    tap.ok(page:find("^rille%." .. name .. "%(") and not missing, name .. " documents its options", missing)
  end
end)

-- Checks that the first line of a page names exactly the accepted attributes.
tap.group("attributes", function()
  for name, call in pairs{max_pool2d = {no = "count_include_pad", yes = "dilation"}, avg_pool2d = {no = "dilation", yes = "count_include_pad"}} do
    local x, first = rille.ones({1, 1, 4, 4}), rille.page(name):match("[^\n]*")
    tap.ok(first:find(call.yes, 1, true) and not rille.page(name):find(call.no, 1, true), name .. " documents its attributes", first)
    local good, err = pcall(x[name], x, {kernel_size = 2, [call.no] = 1})
    tap.ok(not good and err:find("unknown argument '" .. call.no .. "'", 1, true), name .. " refuses other attributes", err)
    tap.ok(not err:match("expected one of: (.*);"):find(call.no, 1, true), "the error does not offer the refused attribute", err)
  end
  local mean = rille.ones({1, 1, 4, 4}):avg_pool2d(2, 2, 1, false, false)
  tap.is(mean:totable(), rille.ones({1, 1, 3, 3}):totable(), "positional arguments have the order of the page")
end)

-- Calls that violate a condition listed under "errors" on an operator's page.
local x, ids = rille.ones(2, 3), rille.tensor({0, 9}, {dtype = "i64"})
local image, yes = rille.ones(1, 1, 4, 4), rille.tensor{true}
local broken = {
  add = {{x, rille.ones(2, 4)}, {1, 2}, {x:to_global{sbp = "B"}, rille.ones({2, 3}, {placement = rille.placement("cpu", {1})})}}, sub = {{yes, yes}}, pow = {{yes, yes}, {ids, -1}},
  clamp = {{x, rille.ones(5)}}, sign = {{yes}}, where = {{1, x, x}}, softmax = {{ids, 0}, {x, 2}, {x, -3}}, dropout = {{x, 2}, {ids}},
  sum = {{x, {axis = {0, 0}}}, {x, {dtype = "i64"}}}, argmax = {{rille.ones(0, 3), 0}}, max = {{rille.ones(0, 3), 0}}, min = {{rille.ones(0, 3), 0}},
  max_pool2d = {{x, 2}, {image, 0}, {image, 6}, {image, 2, 1, 2}}, avg_pool2d = {{x, 2}, {image, 0}, {image, 6}, {image, 2, 1, 2}},
  conv2d = {{x, x}, {rille.ones(1, 3, 4, 4), rille.ones(2, 2, 3, 3)}, {image, rille.ones(2, 1, 3, 3), rille.ones(3)}, {image, rille.ones(2, 1, 5, 5)}},
  concat = {{{x, rille.ones(3)}, 0}, {{x, rille.ones(2, 4)}, 0}, {{x, x}, 0, "i64"}, {{ids}, 0, "f32"}, {{rille.tensor(1.0)}, 0}},
  stack = {{{x, rille.ones(3)}, 0}}, cross_entropy = {{x, rille.arange(3)}, {x, ids}, {x, rille.arange(2), {label_smoothing = 2}}},
  embedding = {{ids, x}, {ids, rille.ones(3)}}, expand = {{x, {3}}, {x, {2, 4}}, {x, {1, 1, 1, 1, 1, 1, 1, 2, 3}}},
  gather = {{x, 0, ids}, {rille.ones(3), 0, ids}, {x, 0, rille.zeros({1, 4}, {dtype = "i64"})}}, index_select = {{rille.ones(3), 0, ids}},
  scatter_add = {{rille.zeros(3), 0, ids, rille.ones(2)}, {rille.zeros(3), 0, rille.arange(2), rille.ones(1)}},
  layer_norm = {{x, rille.ones(4)}, {x, {normalized_shape = {4}}}}, rms_norm = {{x, rille.ones(4)}}, linear_int8 = {{x, x, rille.ones(2)}},
  linear_blocks = {{x, x}, {x, rille.zeros({2, 1, 34}, {dtype = "u8"})}, {rille.ones(2, 32), rille.zeros({2, 1, 33}, {dtype = "u8"})}},
  from_blocks = {{x}, {rille.zeros({2, 33}, {dtype = "u8"})}}, to_blocks = {{x}},
  matmul = {{x, x}, {x, rille.tensor(1.0)}}, mse_loss = {{x, rille.ones(2)}}, one_hot = {{ids, 3}, {ids, -1}, {rille.zeros({1, 1, 1, 1, 1, 1, 1, 1}, {dtype = "i64"}), 3}},
  pad = {{x, {1}}, {x, {1, 1, 1, 1, 1, 1}}, {x, {-4, 0}}}, permute = {{x, {0}}, {x, {0, 0}}}, reshape = {{x, {4}}}, rotary = {{x, x, x}},
  scaled_dot_product_attention = {{x, x, rille.ones(2, 2, 3)}, {x, rille.ones(2, 4), x}, {x, x, x, rille.ones(3, 3)}},
  slice = {{x, 0, 0, 1, 0}, {rille.tensor(1.0), 0, 0, 1}}, topk = {{x, 5}, {x, -1}}, tril = {{rille.ones(3)}}, triu = {{rille.ones(3)}},
  unsqueeze = {{x, 3}, {rille.ones(1, 1, 1, 1, 1, 1, 1, 1), 0}},
}

tap.group("errors", function()
  for name, calls in pairs(broken) do
    for i, arguments in ipairs(calls) do
      local good, why = pcall(function() return (rille[name](table.unpack(arguments)):totable()) end)
      tap.ok(not good and why:find(name .. ": ", 1, true), ("%s refuses call %d, which breaks a condition on its page"):format(name, i), why)
    end
  end
end)

tap.group("absent values and gradients", function()
  tap.ok(rille.page("argmax"):find("^argmax%(x, axis = nil,"), "a missing axis is documented as nil")
  tap.ok(rille.page("slice"):find("stop = nil", 1, true), "a missing end is documented as nil")
  for _, name in ipairs{"argmax", "eq", "any", "floor", "floor_divide"} do
    tap.ok(rille.page(name):find("differentiable: the gradient is 0", 1, true), name .. " has a zero gradient")
  end
  for _, name in ipairs{"exp", "mean", "max", "remainder"} do
    tap.ok(rille.page(name):find("differentiable: yes", 1, true), name .. " has a gradient")
  end
end)

tap.done()
