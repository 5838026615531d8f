-- conv-ranks.lua - compares convolutions, their gradients and second gradients on two ranks with those on one rank,
-- bit for bit, in every dtype and layout. Partial sums of halves must be f32 between ranks.
local tap = dofile("t/lib/tap.lua")

local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})

local function home(t) return t:to_global{placement = ONE, sbp = "B"} end
local function same(a, b) return home(a):eq(home(b)):all():item() end

-- Returns a tensor of whole numbers, so that sums are exact before rounding.
local function whole(shape, step, dtype)
  local n, list = 1, {}
  for _, s in ipairs(shape) do n = n * s end
  for i = 1, n do list[i] = i * step % 11 - 5 end
  return rille.tensor(list, {dtype = dtype}):reshape(shape)
end

local function convolved(x, w, g, h, how)
  x, w, g = x:requires_grad_(), w:requires_grad_(), g:requires_grad_()
  local y = x:conv2d(w, how)
  local dx, dw = rille.grad((y * g):sum(), {x, w})
  local of_dx = {rille.grad((dx * h[1]):sum(), {w, g})}
  local of_dw = {rille.grad((dw * h[2]):sum(), {x, g})}
  return {y = y, dx = dx, dw = dw, ["dx by w"] = of_dx[1], ["dx by g"] = of_dx[2], ["dw by x"] = of_dw[1], ["dw by g"] = of_dw[2]}
end

-- Shapes of x, w and y, and the options of the convolution.
local shapes = {
  {{4, 8, 6, 6}, {8, 8, 3, 3}, {4, 8, 6, 6}, {padding = 1}},
  {{4, 8, 6, 6}, {4, 8, 1, 1}, {4, 4, 6, 6}, {}},
  {{4, 8, 6, 6}, {8, 4, 3, 3}, {4, 8, 3, 3}, {padding = 1, stride = 2, groups = 2}},
  {{2, 2, 5, 5}, {4, 2, 2, 2}, {2, 4, 4, 4}, {}},
}
-- Layouts of x, w and the gradient of y.
local layouts = {
  {"S(0)", "B", "S(0)"}, {"B", "S(0)", "S(1)"}, {"S(1)", "S(1)", "B"}, {"B", "S(0)", "B"}, {"B", "B", "S(1)"},
  {"S(2)", "B", "S(2)"},
}

for _, d in ipairs{"bf16", "f16", "f32", "f64"} do
  for i, s in ipairs(shapes) do
    local x, w, g = whole(s[1], 7, d), whole(s[2], 5, d), whole(s[3], 3, d)
    local h = {whole(s[1], 4, d), whole(s[2], 9, d)}
    local want = convolved(x:detach(), w:detach(), g:detach(), h, s[4])
    for _, sbp in ipairs(layouts) do
      local function lay(t, l) return t:to_global{placement = TWO, sbp = l}:detach() end
      local got = convolved(lay(x, sbp[1]), lay(w, sbp[2]), lay(g, sbp[3]), {lay(h[1], sbp[1]), lay(h[2], sbp[2])}, s[4])
      for name, v in pairs(want) do
        local fine = got[name].dtype == d and same(got[name], v)
        tap.ok(fine, ("%s of convolution %d in %s with layouts %s, %s and %s"):format(name, i, d, sbp[1], sbp[2], sbp[3]))
      end
    end
  end
end

-- Tests autocast: products must be computed in halves, everything else in f32.
for _, d in ipairs{"bf16", "f16"} do
  local s = shapes[1]
  local function gradients(place, x, w)
    local function lay(shape, step, sbp) return whole(shape, step, "f32"):to_global{placement = place, sbp = sbp}:detach() end
    local a, b = lay(s[1], 7, x):requires_grad_(), lay(s[2], 5, w):requires_grad_()
    return {rille.grad(rille.autocast(d, function() return a:conv2d(b, s[4]) end):sum(), {a, b})}
  end
  local want = gradients(ONE, "B", "B")
  for _, l in ipairs(layouts) do
    local got = gradients(TWO, l[1], l[2])
    for i, of in ipairs{"x", "w"} do
      tap.ok(got[i].dtype == "f32" and same(got[i], want[i]),
        ("the gradient of %s, computed in %s with layouts %s and %s"):format(of, d, l[1], l[2]))
    end
  end
end

tap.done()
