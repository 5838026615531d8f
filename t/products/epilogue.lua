-- epilogue.lua - tests operators after a matrix product. They must be fused into the product's task, without a
-- register for the product, and give the same values as separate calls, on one rank and on several.
local tap = dofile("t/lib/tap.lua")

-- Whole numbers, so that sums are exact however they are sharded.
local function whole(rows, cols) return rille.tensor(tap.rows(rows, cols, function(i, j) return (i * 7 + j * 3) % 9 - 4 end)) end

local x, w, v, b = whole(16, 8), whole(8, 12), whole(8, 12), whole(1, 12)
local image, kernel = whole(1, 2 * 2 * 5 * 5):reshape(2, 2, 5, 5), whole(1, 4 * 2 * 3 * 3):reshape(4, 2, 3, 3)

-- Columns: description, computation, names of the tasks on one rank.
local programs = {
  {"a bias", function(a, c) return a:matmul(c) + b end, {"matmul+add"}},
  {"a bias and an activation", function(a, c) return (a:matmul(c) + b):relu() end, {"matmul+add+relu"}},
  {"a residual", function(a, c) local r = a:matmul(c); return r:relu() + r end, {"matmul+relu+add"}},
  {"two products", function(a, c) return a:matmul(c) + a:matmul(v) end, {"matmul", "matmul+add"}},
  {"an operand of the product", function(a, c)
    local u = a * 2
    return u:matmul(c):relu() + u:sum(1, true)
  end, {"mul", "sum", "matmul+relu+add"}},
  {"an addend of the product's own operand", function(a)
    local u = a * 2
    return u:matmul(a:transpose(0, 1):matmul(a)) + u
  end, {"mul", "matmul", "matmul+add"}},
  {"a transpose of the product", function(a, c) return a:matmul(c):transpose(0, 1) + 1 end, {"matmul", "add"}},
  {"a convolution", function() return (image:conv2d(kernel) + 1):relu() end, {"conv2d+add+relu"}},
}

local function task_names(plan)
  local names = {}
  for line in tostring(plan):gmatch("[^\n]+") do names[#names + 1] = line:match("^%s+%d+%s+(%S+)%s+cpu%[") end
  return names
end

tap.group("one task", function()
  for _, p in ipairs(programs) do
    local step = rille.graph(p[2])
    step(x, w):totable()
    tap.is(task_names(step:plan()), p[3], p[1])
  end
end)

-- Runs the calls separately, by reading each value before the next call.
local function one_by_one(f, a, c)
  local meta = {}
  local function held(t)
    t:totable()
    return setmetatable({t = t}, meta)
  end
  local function bare(y) return getmetatable(y) == meta and y.t or y end
  meta.__index = function(_, name)
    return function(self, ...)
      local given = table.pack(...)
      for i = 1, given.n do given[i] = bare(given[i]) end
      return held(self.t[name](self.t, table.unpack(given, 1, given.n)))
    end
  end
  meta.__add = function(l, r) return held(bare(l) + bare(r)) end
  meta.__mul = function(l, r) return held(bare(l) * bare(r)) end
  return bare(f(setmetatable({t = a}, meta), setmetatable({t = c}, meta)))
end

tap.group("the same values", function()
  local layouts = {{"B", "B"}, {"S(0)", "B"}, {"B", "S(1)"}, {"S(1)", "S(0)"}}
  for _, p in ipairs(programs) do
    local want = one_by_one(p[2], x, w):totable()
    for _, n in ipairs{1, 2, 4} do
      local place = rille.placement("cpu", tap.ranks(n))
      for _, l in ipairs(layouts) do
        local function on(t, sbp) return t:to_global{placement = place, sbp = sbp} end
        local step = rille.graph(function(a, c)
          local function lay(t) return t:to_global{placement = place, sbp = "B"} end
          local ob, ov, oi, ok = b, v, image, kernel
          b, v, image, kernel = lay(b), lay(v), lay(image), lay(kernel)
          local y = p[2](a, c)
          b, v, image, kernel = ob, ov, oi, ok
          return y
        end)
        tap.is(step(on(x, l[1]), on(w, l[2])):totable(), want, ("%s: %s %s on %d"):format(p[1], l[1], l[2], n))
      end
    end
  end
end)

tap.group("gradients", function()
  local a, c = x:clone():requires_grad_(), w:clone():requires_grad_()
  local function loss(p, q) return ((p:matmul(q) + b):relu():matmul(v:transpose(0, 1)) * 0.5 + p):square():sum() end
  local function grads() return rille.grad(loss(a, c), {a, c}) end
  local want, got = {grads()}, {rille.graph(grads)()}
  for i = 1, 2 do tap.is(got[i]:totable(), want[i]:totable(), "the gradient of operand " .. i) end
end)

tap.done()
