-- theory.lua - the theoretical idle share of a schedule, from the times of forward, backward and weight gradients.
--
-- p: stages; m: micro-batches; v: stages per device; F, B, W: time of a micro-batch on one stage. The step time is the
-- work m v (F + B + W) plus an idle time per schedule; see Qi et al. 2024 (zero bubble) and Narayanan et al. 2021
-- (interleaved). The formulas assume equal stages, and no time for transfers between stages.

-- Returns the relation of the actual idle share to a formula that assumes that input and weight gradients are
-- computed together. If the plan computes weight gradients separately, it can defer them; for such a plan the formula
-- is only an upper bound.
local function joint(c) return c.weight > 0 and " at most" or "" end
local function joint_added(p, F, B, W) return (p - 1) * (F + B + W) end
local function first_added(p, F) return (p - 1) * F end

-- holds(chart, p): returns nil if the formula does not apply; otherwise the relation of the idle share to the
-- formula: "" for equal, " at most", " at least".
local plain = {"(p - 1) (F + B + W)", joint_added, holds = function(c, p) return c.stages == p and joint(c) or nil end}
local split = {"(p - 1) max(F + B - W, F)", function(p, F, B, W) return (p - 1) * math.max(F + B - W, F) end,
  holds = function(c, p) return c.stages == p and (c.micro_batches >= p and "" or " at least") or nil end}
-- Formula for schedules in which a device is idle only until the first micro-batch arrives at it. The formula is a
-- lower bound for every schedule.
local least = {"(p - 1) F", first_added, holds = function() return " at least" end}
local two_ahead = {"(p - 1) F", first_added, holds = function(c, p)
  local filled = c.micro_batches >= p and c.forward + c.backward <= 2 * c.weight
  return c.stages == p and (filled and "" or " at least") or nil
end}
local formulas = {
  gpipe = plain, ["1f1b"] = plain, ["zb-h1"] = split, ["zb-h2"] = two_ahead, ["zb-v"] = least,
  interleaved = {"(p - 1) (F + B + W)", joint_added, holds = function(c, p) return c.micro_batches % p == 0 and joint(c) or nil end},
}

-- Returns the number of devices (or device groups) that share the stages. Counts only compute spans, because a
-- transfer to another host also appears on a device of that host.
local function places(chart)
  local seen, n, first = {}, 0, {}
  for _, s in ipairs(chart.planned.spans) do
    if s.micro_batch and (s.what == "forward" or s.what == "backward" or s.what == "weight") then first[s.stage] = math.min(first[s.stage] or s.device, s.device) end
  end
  for _, device in pairs(first) do
    if not seen[device] then seen[device], n = true, n + 1 end
  end
  return n
end

-- Formulas of schedules with a fixed lookahead: lags[separate][lookahead]. separate: true if weight gradients are
-- computed separately from input gradients.
local lags = {[false] = {plain}, [true] = {split, two_ahead}}

-- Returns the formula of a schedule; nil for searched schedules.
local function formula_of(chart)
  return chart.schedule:find("^lag") and lags[chart.split][chart.lag] or formulas[chart.schedule]
end

-- Returns {bubble =, formula =, holds =}: the schedule's idle share by its formula, the formula as text, and the
-- relation of the actual share to the formula: "", " at most", " at least". Returns nil if no formula applies.
return function(chart)
  local p, m = places(chart), chart.micro_batches
  local F, B, W = chart.forward, chart.backward, chart.weight
  local formula = formula_of(chart)
  if p < 2 or m < 2 or F <= 0 or not formula then return nil end
  local holds = formula.holds(chart, p)
  if not holds then return nil end
  local v, added = chart.stages / p, formula[2](p, F, B, W)
  local parts = v > 1 and ("p = %d device groups, v = %d stages of each"):format(p, v) or ("p = %d stages"):format(p)
  local text = ("A / (A + m%s (F + B + W)), A = %s, %s, m = %d micro-batches"):format(v > 1 and " v" or "", formula[1], parts, m)
  return {bubble = added / (m * v * (F + B + W) + added), formula = text, holds = holds}
end
