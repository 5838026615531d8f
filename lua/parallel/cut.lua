-- cut.lua - where a list of blocks is cut into stages of a pipeline, so that a batch takes the least time.
--
-- A micro-batch takes t[s] on stage s: its blocks' costs, and the hop that brings it there. A batch of m takes
-- sum of t + (m - 1) max of t. The schedule says of how many micro-batches a stage keeps activations: 1F1B of as many as
-- there are stages from it on, GPipe of all, those that leave weight gradients for later of p, or 2p - 1 (actors/plan/stage.c).
-- For each bound on max t, from the least up, dynamic programming from the last stage finds the least sum; it
-- ends where the bound alone costs more than what was found (Zheng et al. 2022). Exact.

local check = require "rille.check"

local who = "rille.parallel: blocks"

-- Of how many micro-batches of m stage s of p keeps activations; left: the stages from it on.
local flight_of = {
  gpipe = function(_, _, m) return m end,
  ["1f1b"] = function(left) return left end,
  ["zb-h1"] = function(_, p) return p end,
  ["zb-h2"] = function(_, p) return 2 * p - 1 end,
}

local function numbers(name, list, n)
  check.that(type(list) == "table" and #list == n, "%s: %s is a list of %d numbers, one a block", who, name, n)
  for _, x in ipairs(list) do
    check.that(type(x) == "number" and x >= 0 and x < math.huge, "%s: %s has numbers from 0 up, not %s", who, name, check.shown(x))
  end
  return list
end

local function sums(list, n)
  local sum = {[0] = 0}
  for k = 1, n do sum[k] = sum[k - 1] + (list and list[k] or 0) end
  return sum
end

-- What a stage of blocks first to last costs, and its bytes with `flight` micro-batches under way.
local function reckoner(o, n)
  local cost, memory, kept = sums(o.cost, n), sums(o.memory, n), sums(o.activations, n)
  local function time(first, last)
    return cost[last] - cost[first - 1] + (first > 1 and o.hop and (type(o.hop) == "table" and o.hop[first] or o.hop) or 0)
  end
  local function bytes(first, last, flight) return memory[last] - memory[first - 1] + flight * (kept[last] - kept[first - 1]) end
  return time, bytes
end

-- All times that a stage may have, each once, ascending.
local function bounds(time, n)
  local seen, list = {}, {}
  for first = 1, n do
    for last = first, n do
      local t = time(first, last)
      if not seen[t] then seen[t], list[#list + 1] = true, t end
    end
  end
  table.sort(list)
  return list
end

-- The least sum of times with no stage above `most`; and by stages left and first block, where the stage ends.
local function least_sum(n, stages, most, time, fits)
  local best, ends = {[0] = {[n + 1] = 0}}, {}
  for left = 1, stages do
    best[left], ends[left] = {}, {}
    for first = 1, n - left + 1 do
      for last = first, n - left + 1 do
        local rest = best[left - 1][last + 1]
        local t = time(first, last)
        if rest and t <= most and fits(first, last, left) and t + rest < (best[left][first] or math.huge) then
          best[left][first], ends[left][first] = t + rest, last
        end
      end
    end
  end
  return best[stages][1], ends
end

-- o: cost, and if they matter memory, activations (lists, by block), hop (a number, or a list: into each block),
-- memory_limit, micro_batches, schedule ("1f1b"). How many blocks each of the stages gets, and the time of a batch.
local function cut(o, n, stages)
  local limit, pieces = o.memory_limit, o.micro_batches or 1
  numbers("cost", o.cost, n)
  if o.memory then numbers("memory", o.memory, n) end
  if o.activations then numbers("activations", o.activations, n) end
  if type(o.hop) == "table" then numbers("hop", o.hop, n) elseif o.hop then numbers("hop", {o.hop}, 1) end
  check.count(who, "micro_batches", pieces)
  local flight = flight_of[o.schedule or "1f1b"]
  check.that(flight, "%s: schedule is one of %s, not %s", who, table.concat(check.sorted_keys(flight_of), ", "), check.shown(o.schedule))
  local time, bytes = reckoner(o, n)
  local function fits(first, last, left) return not limit or bytes(first, last, math.min(pieces, flight(left, stages, pieces))) <= limit end
  local least, found = math.huge, nil
  for _, most in ipairs(bounds(time, n)) do
    if (pieces - 1) * most >= least then break end
    local sum, ends = least_sum(n, stages, most, time, fits)
    if sum and sum + (pieces - 1) * most < least then least, found = sum + (pieces - 1) * most, ends end
  end
  check.that(found, "%s: no cut into %d stages keeps within memory_limit = %s", who, stages, check.shown(limit))
  local counts, first = {}, 1
  for left = stages, 1, -1 do
    counts[#counts + 1] = found[left][first] - first + 1
    first = found[left][first] + 1
  end
  return counts, least
end

return cut
