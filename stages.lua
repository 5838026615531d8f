local P, W = {}, {}
for i = 1, 4 do P[i] = rille.placement("cpu", {i - 1}) end
for i = 1, 4 do W[i] = rille.ones({8, 8}, {placement = P[i], requires_grad = true}) end
local step = rille.graph(function(x)
  for i = 1, 4 do x = x:to_global{placement = P[i], sbp = "B"}:matmul(W[i]):tanh() end
  local loss = x:sum()
  loss:backward()
  return loss
end, {micro_batches = 8, schedule = "1f1b"})
step(rille.ones({16, 8}, {placement = P[1]}))
step:show()
