-- stages.lua - returns a function that compiles a step on meta devices: a chain of matrix products, one stage per
-- entry of `devices`. options: options of rille.graph, and `rows`, the number of rows per micro-batch (default 2).
return function(devices, pieces, schedule, options)
  local on, weight, how = {}, {}, {micro_batches = pieces, schedule = schedule}
  for k, v in pairs(options or {}) do how[k] = v end
  local rows = (how.rows or 2) * pieces
  how.rows = nil
  for q, d in ipairs(devices) do
    on[q] = rille.placement("meta", {d})
    weight[q] = rille.empty({8, 8}, {placement = on[q], requires_grad = true})
  end
  local step = rille.graph(function(x, y)
    for q = 1, #devices do x = (q > 1 and x:to_global{placement = on[q], sbp = "B"} or x):matmul(weight[q]):tanh() end
    local loss = x:mse_loss(y)
    loss:backward()
    return loss
  end, how)
  step(rille.empty({rows, 8}, {placement = on[1]}), rille.empty({rows, 8}, {placement = on[#devices]}))
  return step
end
