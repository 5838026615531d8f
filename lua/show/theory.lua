-- theory.lua - what a schedule's idle share is by its formula, from what forward, backward and weight gradients take.
--
-- p stages, m pieces, v stages on each device; F, B, W: what a piece takes on one stage. Time is the work m v (F + B + W)
-- and what is added to it: see Qi et al. 2024 (zero bubble) and Narayanan et al. 2021 (interleaved).

local plain = {"(p - 1) (F + B + W)", function(p, F, B, W) return (p - 1) * (F + B + W) end}
local added = {
  gpipe = plain, ["1f1b"] = plain, interleaved = plain,
  ["zb-h1"] = {"(p - 1) max(F + B - W, F)", function(p, F, B, W) return (p - 1) * math.max(F + B - W, F) end},
  ["zb-h2"] = {"(p - 1) F", function(p, F) return (p - 1) * F end},
  ["zb-v"] = {"(p - 1) F", function(p, F) return (p - 1) * F end},
  least = {"(p - 1) F", function(p, F) return (p - 1) * F end},
}

-- How many devices (or groups of them) share the stages: those that compute them, since what a stage sends to another
-- host also arrives at a device there.
local function places(chart)
  local seen, n, first = {}, 0, {}
  for _, s in ipairs(chart.planned.spans) do
    if s.piece and (s.what == "forward" or s.what == "backward" or s.what == "weight") then first[s.stage] = math.min(first[s.stage] or s.device, s.device) end
  end
  for _, device in pairs(first) do
    if not seen[device] then seen[device], n = true, n + 1 end
  end
  return n
end

-- Schedules that were searched for have no formula.
local function is_found(name) return name == "auto" or name == "v-half" or name == "v-min" or name:find("^memory") end

-- {bubble =, formula =, least =}: the schedule's idle share, what is added to the work, in words, and the idle share of
-- which no schedule has less; nil where there is no pipeline.
return function(chart)
  local p, m = places(chart), chart.pieces
  local F, B, W = chart.forward, chart.backward, chart.weight
  if p < 2 or m < 2 or F <= 0 or is_found(chart.schedule) then return nil end
  local rule = added[chart.schedule] or (chart.split and added["zb-h1"]) or plain
  local work = m * (chart.stages / p) * (F + B + W)
  local function share(extra) return extra / (work + extra) end
  return {bubble = share(rule[2](p, F, B, W)), formula = rule[1], least = share(added.least[2](p, F, B, W))}
end
