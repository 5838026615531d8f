-- stages.lua - returns a function that compiles a step: a chain of matrix products, one stage for each entry of
-- `devices`. options: options of rille.graph, and three more. rows: number of rows per micro-batch (default 2); kind:
-- kind of the devices (default meta); forward: if true, the step computes no gradients.
return function(devices, pieces, schedule, options)
  local on, weight, how = {}, {}, {micro_batches = pieces, schedule = schedule}
  for k, v in pairs(options or {}) do how[k] = v end
  local rows, kind, forward = (how.rows or 2) * pieces, how.kind or "meta", how.forward
  how.rows, how.kind, how.forward = nil, nil, nil
  for q, d in ipairs(devices) do
    on[q] = rille.placement(kind, {d})
    weight[q] = rille.randn({8, 8}, {placement = on[q], requires_grad = not forward})
  end
  local step = rille.graph(function(x, y)
    for q = 1, #devices do x = (q > 1 and x:to_global{placement = on[q], sbp = "B"} or x):matmul(weight[q]):tanh() end
    if forward then return x end
    local loss = x:mse_loss(y)
    loss:backward()
    return loss
  end, how)
  step(rille.randn({rows, 8}, {placement = on[1]}), not forward and rille.randn({rows, 8}, {placement = on[#devices]}) or nil)
  return step
end
