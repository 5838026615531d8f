-- theory.lua - what a schedule's idle share is by its formula, from what forward, backward and weight gradients take.
--
-- p stages, m micro-batches, v stages on each device; F, B, W: what a micro-batch takes on one stage. Time is the work m v (F + B + W)
-- and what is added to it: see Qi et al. 2024 (zero bubble) and Narayanan et al. 2021 (interleaved). All stages are alike,
-- and what goes from one to the next takes no time.

-- Formulas of gradients that are one act: where they are two, those of weights may wait, and no step is longer.
local function joint(c) return c.weight > 0 and " at most" or "" end
local function joint_added(p, F, B, W) return (p - 1) * (F + B + W) end
local function first_added(p, F) return (p - 1) * F end

-- holds(chart, p): nil where the formula says nothing, else how the idle share lies to it.
local plain = {"(p - 1) (F + B + W)", joint_added, holds = function(c, p) return c.stages == p and joint(c) or nil end}
local split = {"(p - 1) max(F + B - W, F)", function(p, F, B, W) return (p - 1) * math.max(F + B - W, F) end,
  holds = function(c, p) return c.stages == p and (c.micro_batches >= p and "" or " at least") or nil end}
-- Nothing is idle but what waits for the first micro-batch, on its way to the last stage: no step is shorter.
local least = {"(p - 1) F", first_added, holds = function() return " at least" end}
local two_ahead = {"(p - 1) F", first_added, holds = function(c, p)
  local filled = c.micro_batches >= p and c.forward + c.backward <= 2 * c.weight
  return c.stages == p and (filled and "" or " at least") or nil
end}
local formulas = {
  gpipe = plain, ["1f1b"] = plain, ["zb-h1"] = split, ["zb-h2"] = two_ahead, ["zb-v"] = least,
  interleaved = {"(p - 1) (F + B + W)", joint_added, holds = function(c, p) return c.micro_batches % p == 0 and joint(c) or nil end},
}

-- How many devices (or groups of them) share the stages: those that compute them, since what a stage sends to another
-- host also arrives at a device there.
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

local lags = {[false] = {plain}, [true] = {split, two_ahead}} -- by whether weight gradients wait, and the lag

-- Schedules that were searched for have no formula.
local function formula_of(chart)
  return chart.schedule:find("^lag") and lags[chart.split][chart.lag] or formulas[chart.schedule]
end

-- {bubble =, formula =, holds =}: the schedule's idle share by its formula, that in words, and how the share lies to it:
-- "", " at most", " at least"; nil where no formula holds.
return function(chart)
  local p, m = places(chart), chart.micro_batches
  local F, B, W = chart.forward, chart.backward, chart.weight
  local formula = formula_of(chart)
  if p < 2 or m < 2 or F <= 0 or not formula then return nil end
  local holds = formula.holds(chart, p)
  if not holds then return nil end
  local v, added = chart.stages / p, formula[2](p, F, B, W)
  local text = ("%s beside m%s (F + B + W)"):format(formula[1], v > 1 and " v" or "")
  return {bubble = added / (m * v * (F + B + W) + added), formula = text, holds = holds}
end
