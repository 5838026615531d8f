-- cut.lua - divides a list of blocks into pipeline stages so that a batch takes the least time.
--
-- Stages are assigned to devices in one of three ways: one stage per device; round-robin (interleaved); or folded, to
-- the last device and back (zb-v, v-half, v-min). load[d] is the time of a micro-batch on device d: the cost of its
-- stages' blocks and of the hops into them. The time of a batch of m micro-batches is the maximum over the devices of
--   before[d] + m load[d] + after[d]
-- before[d] is a micro-batch's time on the stages before the device's first stage, after[d] its time on the stages
-- after the device's last stage. With one stage per device the batch time is sum of t + (m - 1) max of t. With
-- interleaved stages, v equal ones on each of p devices, the batch time is m v + p - 1 stage times.
--
-- The schedule determines for how many micro-batches a stage keeps activations. 1F1B: the number of stages from this
-- stage to the last. GPipe: all. Schedules that defer weight gradients: p or 2p - 1 (actors/plan/outline/stage.c). A
-- searched schedule (actors/plan/sim/schedule_search.c) limits the micro-batches per device, counted over all its
-- stages; here each micro-batch counts with the activations of the device's largest stage.
--
-- Algorithms. One stage per device: for each bound on max t, in ascending order, dynamic programming from the last
-- stage finds the least sum. The search ends when the bound alone costs more than the best result (Zheng et al. 2022).
-- Folded: dynamic programming from the outer devices inwards; each device takes a stage from either end of the
-- remaining blocks. Both algorithms are exact. Round-robin: local search from several starts; no shift of one or two
-- cuts by one block improves the result.

local rille = require "rille"
local check = require "rille.base.check"

local who = "parallel: blocks"

-- Schedules in which the number of micro-batches in flight depends only on the stage, not on the device.
local by_stage = {gpipe = true, ["1f1b"] = true, ["zb-h1"] = true, ["zb-h2"] = true}
local there_and_back = "stages in folded order, {P0, P1, P1, P0}"
-- Searched schedules -> the order of stages that each requires.
local wants = {interleaved = "stages in round-robin order, {P0, P1, P0, P1}", ["zb-v"] = there_and_back,
  ["v-half"] = there_and_back,
  ["v-min"] = there_and_back}

local MOST = 1e100 -- maximum of times (ns) and bytes, so that sums and products stay finite
local function numbers(name, list, n)
  check.that(type(list) == "table" and #list == n, "%s: %s must be a list of %d numbers, one per block, found %s", who, name, n,
    type(list) == "table" and #list .. " entries" or check.shown(list))
  for _, x in ipairs(list) do
    check.that(type(x) == "number" and x >= 0 and x <= MOST,
      "%s: %s must have numbers from 0 to 1e100, found %s", who, name, check.shown(x))
  end
  return list
end

local function sums(list, n)
  local sum = {[0] = 0}
  for k = 1, n do sum[k] = sum[k - 1] + (list and list[k] or 0) end
  return sum
end

-- ---- computing the time and the memory of stages ----

-- Returns an object with the costs of n blocks, which the functions below use. device[s]: device of stage s; devices
-- are numbered from 1 in the order in which they first appear.
local function pipeline(o, n, device)
  local cost, memory, kept = sums(o.cost, n), sums(o.memory, n), sums(o.activations, n)
  local l = {n = n, cost = cost, stages = #device, device = device, pieces = o.micro_batches or 1, limit = o.memory_limit, owned = {}}
  for s, d in ipairs(device) do
    l.owned[d] = l.owned[d] or {}
    table.insert(l.owned[d], s)
  end
  local schedule = o.schedule or "1f1b"
  local flight, contexts = {}, {}
  for s = 1, by_stage[schedule] and l.stages or 0 do flight[s] = rille._schedule_contexts(schedule, l.stages, 1, s - 1) end
  for d, own in ipairs(l.owned) do
    contexts[d] = by_stage[schedule] and 0 or rille._schedule_contexts(schedule, #l.owned, #own, d - 1)
  end
  function l.time(s, first, last)
    local moved = first > 1 and device[s] ~= device[s - 1] and o.hop or 0
    return cost[last] - cost[first - 1] + (type(moved) == "table" and moved[first] or moved)
  end
  -- Returns the bytes that a device needs if its i-th stage has blocks first[i] to last[i].
  function l.bytes(d, first, last)
    local bytes, largest = 0, 0
    for i, s in ipairs(l.owned[d]) do
      local own = kept[last[i]] - kept[first[i] - 1]
      bytes, largest = bytes + memory[last[i]] - memory[first[i] - 1], math.max(largest, own)
      bytes = bytes + math.min(l.pieces, flight[s] or 0) * own
    end
    return bytes + math.min(l.pieces * #l.owned[d], contexts[d]) * largest
  end
  return l
end

-- Returns the time of a batch if stage s has counts[s] blocks. Also returns the bytes, summed over devices, by which
-- the memory limit is exceeded.
local function measure(l, counts)
  local first, last, t, before, at, all = {}, {}, {}, {}, 1, 0
  for s, count in ipairs(counts) do
    first[s], last[s], before[s] = at, at + count - 1, all
    t[s] = l.time(s, first[s], last[s])
    at, all = at + count, all + t[s]
  end
  local time, excess = 0, 0
  for d, own in ipairs(l.owned) do
    local load, from, to = 0, {}, {}
    for i, s in ipairs(own) do load, from[i], to[i] = load + t[s], first[s], last[s] end
    local final = own[#own]
    time = math.max(time, before[own[1]] + l.pieces * load + all - before[final] - t[final])
    if l.limit then excess = excess + math.max(0, l.bytes(d, from, to) - l.limit) end
  end
  return time, excess
end

-- ---- cutting blocks into one stage per device ----

-- Returns the bounds to try for the time of the slowest stage: the times of all possible stages (runs of consecutive
-- blocks), ascending and without duplicates.
local function bounds(l)
  local seen, list = {}, {}
  for first = 1, l.n do
    for last = first, l.n do
      local t = l.time(first > 1 and 2 or 1, first, last)
      if not seen[t] then seen[t], list[#list + 1] = true, t end
    end
  end
  table.sort(list)
  return list
end

-- Returns the least sum of stage times such that no stage takes longer than `most`. Also returns last[stages
-- left][first block]: the last block of the next stage.
local function least_sum(l, most)
  local best, ends = {[0] = {[l.n + 1] = 0}}, {}
  for left = 1, l.stages do
    local s = l.stages - left + 1
    best[left], ends[left] = {}, {}
    for first = 1, l.n - left + 1 do
      for last = first, l.n - left + 1 do
        local rest = best[left - 1][last + 1]
        local t = l.time(s, first, last)
        local fits = rest and t <= most and (not l.limit or l.bytes(l.device[s], {first}, {last}) <= l.limit)
        if fits and t + rest < (best[left][first] or math.huge) then
          best[left][first], ends[left][first] = t + rest, last
        end
      end
    end
  end
  return best[l.stages][1], ends
end

local function cut_line(l)
  local least, found = math.huge, nil
  for _, most in ipairs(bounds(l)) do
    if (l.pieces - 1) * most >= least then break end
    local sum, ends = least_sum(l, most)
    if sum and sum + (l.pieces - 1) * most < least then least, found = sum + (l.pieces - 1) * most, ends end
  end
  if not found then return nil end
  local counts, first = {}, 1
  for left = l.stages, 1, -1 do
    counts[#counts + 1] = found[left][first] - first + 1
    first = found[left][first] + 1
  end
  return counts
end

-- ---- cutting blocks into stages that are assigned round-robin ----

local function better(time, excess, than) return excess < than.excess or excess == than.excess and time < than.time end

-- Moves the boundary between stages k and k + 1 by `by` blocks (-1, 0 or 1). counts: number of blocks of each stage.
-- Returns false if a stage becomes empty.
local function move(counts, k, by)
  counts[k], counts[k + 1] = counts[k] + by, counts[k + 1] - by
  return counts[k] > 0 and counts[k + 1] > 0
end

local function improve(l, counts, now)
  for k = 1, l.stages - 1 do
    for other = k, l.stages - 1 do
      for way = 0, 8 do
        local a, b = way // 3 - 1, other > k and way % 3 - 1 or 0
        local fits = move(counts, k, a)
        if move(counts, other, b) and fits and (a ~= 0 or b ~= 0) then
          local time, excess = measure(l, counts)
          if better(time, excess, now) then
            now.time, now.excess = time, excess
            return true
          end
        end
        move(counts, other, -b)
        move(counts, k, -a)
      end
    end
  end
  return false
end

-- Moves each boundary between stages by -2 to 2 blocks, pseudo-randomly; number: the seed.
local function kick(counts, number)
  for k = 1, #counts - 1 do
    number = (number * 1103515245 + 12345) % (1 << 31)
    local by = (number >> 16) % 5 - 2
    if counts[k] + by > 0 and counts[k + 1] - by > 0 then move(counts, k, by) end
  end
end

-- Returns the best cut that local search finds, and its time. The search starts from equal stages, and then from
-- perturbations of the best cut.
local function cut_rounds(l)
  local best, found
  for try = 0, math.max(8, 4000 // (l.stages * l.stages)) do
    local counts, now = {}, {}
    for s = 1, l.stages do counts[s] = found and found[s] or l.n // l.stages + (s <= l.n % l.stages and 1 or 0) end
    for k = 1, try > 0 and 1 + try % 8 or 0 do kick(counts, 8 * try + k) end
    now.time, now.excess = measure(l, counts)
    while improve(l, counts, now) do end
    if not best or better(now.time, now.excess, best) then best, found = now, counts end
  end
  return best.excess == 0 and found or nil, best.time
end

-- ---- cutting blocks into stages that are assigned to the last device and back ----

-- Adds a state of the dynamic programming to a list. A state assigns all blocks to devices except blocks i + 1 to j -
-- 1. Drops each state that is no better than another one in both the maximum time over devices and the total time.
-- Both times matter, because hops differ in cost.
local function add_state(list, state)
  local all = state.before + state.after
  for k = #list, 1, -1 do
    local other = list[k].before + list[k].after
    if list[k].most <= state.most and other <= all then return end
    if list[k].most >= state.most and other >= all then table.remove(list, k) end
  end
  list[#list + 1] = state
end

-- Extends states (partial assignments) by device d, which gets blocks i + 1 to a and blocks b to j - 1. Drops states
-- that cannot become better than `least`. The bound for this is that one of the remaining devices has at least the
-- average load of the remaining blocks.
local function inwards(l, d, i, j, states, reached, least)
  local room = 2 * (#l.owned - d)
  for a = i + 1, j - 2 - room do
    local go = l.time(d, i + 1, a)
    for b = room > 0 and j - 1 or a + 1, a + 1 + room, -1 do
      local back = l.time(l.stages + 1 - d, b, j - 1)
      if l.pieces * (l.cost[a] - l.cost[i] + l.cost[j - 1] - l.cost[b - 1]) >= least then break end
      if not l.limit or l.bytes(d, {i + 1, b}, {a, j - 1}) <= l.limit then
        local key = a * (l.n + 2) + b
        reached[key] = reached[key] or {}
        local rest = room > 0 and l.pieces * (l.cost[b - 1] - l.cost[a]) / (room / 2) or 0
        for _, from in ipairs(states) do
          local time = math.max(from.most, from.before + l.pieces * (go + back) + from.after)
          local state = {most = time, before = from.before + go, after = from.after + back, from = from, a = a - i, b = j - b}
          if time < least and state.before + rest + state.after < least then add_state(reached[key], state) end
        end
      end
    end
  end
end

local function cut_folded(l)
  local near, least = cut_rounds(l)
  local reached = {[l.n + 1] = {{most = 0, before = 0, after = 0}}}
  for d = 1, #l.owned do
    local now = {}
    for key, states in pairs(reached) do inwards(l, d, key // (l.n + 2), key % (l.n + 2), states, now, near and least or math.huge) end
    reached = now
  end
  local best
  for _, states in pairs(reached) do
    for _, state in ipairs(states) do best = best and best.most <= state.most and best or state end
  end
  local counts, d = {}, #l.owned
  while best and best.from do
    counts[d], counts[l.stages + 1 - d], d, best = best.a, best.b, d - 1, best.from
  end
  return counts[1] and counts or near
end

-- ---- choosing the method by the order of stages ----

local function is_dealt(device, at)
  for s, d in ipairs(device) do
    if d ~= at(s, math.max(table.unpack(device))) then return false end
  end
  return true
end

local function is_line(device) return is_dealt(device, function(s) return s end) end
local function is_folded(device)
  return is_dealt(device, function(s, p) return #device == 2 * p and (s <= p and s or 2 * p + 1 - s) end)
end
local function is_round(device)
  return not is_line(device) and is_dealt(device, function(s, p) return #device % p == 0 and (s - 1) % p + 1 end)
end

-- Returns, by bisection, the least memory limit for which this method finds a cut. The upper bound is the memory of
-- the cut without a limit. The result is exact to a byte, or to the precision of doubles.
local function least_limit(l, way)
  local low = l.limit
  l.limit = nil
  local counts = way(l)
  l.limit = 0
  local _, high = measure(l, counts)
  repeat
    local middle = (low + high) // 2
    local between = low < middle and middle < high
    l.limit = middle
    if between and way(l) then high = middle elseif between then low = middle end
  until not between
  return high
end

-- Returns the number of blocks of each stage, and the time of a batch. o: cost, and optionally memory, activations
-- (lists with an entry per block), hop (a number, or a list with the hop into each block), memory_limit,
-- micro_batches, schedule ("1f1b"). device: the device of each stage, numbered from 1 in order of appearance.
local function cut(o, n, device)
  numbers("cost", o.cost, n)
  if o.memory then numbers("memory", o.memory, n) end
  if o.activations then numbers("activations", o.activations, n) end
  if type(o.hop) == "table" then numbers("hop", o.hop, n) elseif o.hop then numbers("hop", {o.hop}, 1) end
  check.count(who, "micro_batches", o.micro_batches or 1)
  local schedule, names = o.schedule or "1f1b", {}
  for _, list in ipairs{by_stage, wants} do
    for name in pairs(list) do names[#names + 1] = name end
  end
  table.sort(names)
  check.that(by_stage[schedule] or wants[schedule], "%s: schedule must be one of %s, found %s", who, table.concat(names, ", "),
    check.shown(o.schedule))
  local good = not wants[schedule] or (schedule == "interleaved" and is_round or is_folded)(device)
  check.that(good, "%s: schedule %s needs %s", who, schedule, wants[schedule] or "")
  local l = pipeline(o, n, device)
  local way = is_line(device) and cut_line or is_folded(device) and cut_folded or cut_rounds
  local counts = way(l)
  check.that(counts, "%s: no division into %d stages fits memory_limit = %s; use memory_limit = %s, the least found", who,
    #device, check.shown(o.memory_limit), counts or check.shown(least_limit(l, way)))
  return counts, (measure(l, counts))
end

return cut
