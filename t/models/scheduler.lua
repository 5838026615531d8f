-- scheduler.lua - tests m:scheduler. A text must not change if other texts are written beside it, if prompts share a
-- beginning, if a draft model proposes ids, or under any recipe.
local tap = dofile("t/lib/tap.lua")

local sizes = {
  gpt2 = {vocab = 31, length = 64, layers = 2, heads = 4, width = 16},
  llama = {vocab = 31, length = 64, layers = 2, heads = 4, kv_heads = 2, width = 16, hidden = 24},
  moe = {vocab = 31, length = 64, layers = 2, heads = 4, width = 16, experts = 4},
}
local function new(kind, layers, seed)
  rille.manual_seed(seed or 5)
  local given = tap.with(sizes[kind])
  given.layers = layers or given.layers
  local m = rille.models[kind].new(given)
  for _, p in ipairs(m:parameters()) do rille.no_grad(function() p:mul_(4) end) end
  return m
end

-- Prompts and options of texts that the scheduler writes at the same time.
local jobs = {
  {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, {max_new_tokens = 9, temperature = 0}},
  {{7}, {max_new_tokens = 12, temperature = 0.9, seed = 3, top_k = 12}},
  {{2, 6, 5}, {max_new_tokens = 5, temperature = 1.3, seed = 4, top_p = 0.9, repetition_penalty = 1.2, logprobs = 2}},
  {{3, 1, 4, 1, 5, 8, 8}, {max_new_tokens = 7, temperature = 0, frequency_penalty = 1, logit_bias = {[4] = 2}, bad_words = {{9}, {4, 4}}}},
  {{1, 2}, {max_new_tokens = 8, temperature = 1, seed = 9, min_p = 0.05, typical_p = 0.9, logprobs = 0}},
  {{9, 9, 1}, {max_new_tokens = 30, temperature = 1.5, seed = 1, stop = {1, 2, 3}, min_new_tokens = 2}},
}

local function alone(m) return tap.list(jobs, function(job) return m:generate({job[1]}, job[2])[1] end) end

-- Returns a function that returns the expected texts of this kind of model. On its first call, this function
-- generates each text alone on one device.
local function wanted(kind)
  local list
  return function()
    list = list or alone(new(kind))
    return list
  end
end

-- Adds one text to the scheduler at each step. Returns the ids of all texts, and the numbers of rows that passes over
-- some slots had, as a set.
local function together(m, options)
  local s, texts, list, sizes = m:scheduler(options), {}, {}, {}
  local i, next_of = 0, s.reader.writer.next_of
  s.reader.writer.next_of = function(ids, ...)
    sizes[ids.shape[1]] = true
    return next_of(ids, ...)
  end
  repeat
    i = i + 1
    if jobs[i] then texts[i] = s:add(jobs[i][1], jobs[i][2]) end
  until #s:step() == 0 and i > #jobs + 3
  for k, text in ipairs(texts) do list[k] = text.ids end
  s.reader.writer.next_of = next_of
  return list, sizes
end

for kind in tap.sorted(sizes) do
  tap.group(kind, function()
    local m, want = new(kind), wanted(kind)
    for _, o in ipairs{{slots = 1}, {slots = 3, chunk = 4}, {slots = 8, length = 48}, {slots = 16, length = 48}} do
      if tap.share() then
        local list, passes = together(m, o)
        tap.is(list, want(), ("%s: %d slots: each text is the same beside others"):format(kind, o.slots))
        if o.slots == 16 then
          tap.is(passes, {[1] = true, [2] = true, [4] = true}, kind .. ": a pass computes few more slots than have a text")
        end
      end
    end
    for name, draft in tap.sorted{itself = m, ["a smaller model"] = new(kind, 1), ["another model"] = new("gpt2", 1, 8)} do
      if tap.share() then
        tap.is(together(m, {slots = 3, chunk = 4, draft = draft, draft_tokens = 3}), want(),
          ("%s: the draft is %s: the same texts"):format(kind, name))
        local rows, how = {jobs[1][1], jobs[2][1]}, {max_new_tokens = 8, temperature = 0.8, seed = 2}
        local plain = m:generate(rows, how)
        how.draft = draft
        tap.is(m:generate(rows, how), plain, ("%s: m:generate, the draft is %s: the same texts"):format(kind, name))
      end
    end
  end)
end

tap.group("a failed step", function()
  local m = new("llama")
  local want, s = alone(m), m:scheduler{slots = 2, chunk = 4, length = 48}
  local texts = {}
  for k = 1, 3 do texts[k] = s:add(jobs[k][1], jobs[k][2]) end
  for _ = 1, 4 do s:step() end
  s.reader.writer.next, s.reader.writer.next_of = nil, nil
  tap.fails(function() s:step() end, {}, "a step fails")
  local other = m:scheduler{slots = 2, chunk = 4, length = 48}
  local inner = other.reader.writer
  local first = inner.next_of
  inner.next_of = function(ids, at, last, ...) return first(ids, at, last and last + 1000, ...) end
  local text = other:add(jobs[1][1], jobs[1][2])
  tap.fails(function() other:step() end, {}, "a step fails behind the update of the cache")
  inner.next_of = first
  while not text.ended do other:step() end
  tap.is(text.ids, want[1], "the text goes on in a new cache")
  while s.running > 0 do s:step() end
  for k = 1, 3 do tap.is(texts[k].ids, want[k], ("text %d goes on after the failure"):format(k)) end
end)

tap.group("a draft saves passes", function()
  local m = new("llama")
  local s = m:scheduler{slots = 1, draft = m, draft_tokens = 4}
  local text, steps = s:add({1, 2, 3}, {max_new_tokens = 21, temperature = 0.7, seed = 1}), 0
  while not text.ended do
    s:step()
    steps = steps + 1
  end
  tap.is(steps, 5, "the first pass gives one id; each later pass gives the four guesses and one more")
end)

tap.group("common beginnings", function()
  local m = new("gpt2")
  local s, turn, how = m:scheduler{slots = 2}, {3, 1, 4, 1, 5}, {max_new_tokens = 6, temperature = 0.6, seed = 5}
  local other = s:add({8, 8, 8}, how)
  while not other.ended do s:step() end
  for round = 1, 4 do
    local text = s:add(turn, how)
    while not text.ended do s:step() end
    tap.is(text.ids, m:generate({turn}, how)[1], ("turn %d has the text of a new call"):format(round))
    tap.is(text.reused, round == 1 and 0 or #turn - 3, ("turn %d reads only what the last turn did not contain"):format(round))
    turn = table.move({7, 7}, 1, 2, #text.ids + 1, text.ids)
  end
  local again = s:generate({{3, 1, 4, 1, 5}}, how)
  tap.is(again, m:generate({{3, 1, 4, 1, 5}}, how), "a shorter beginning of a slot's text is used, too")
  rille.no_grad(function() for _, p in ipairs(m:parameters()) do p:mul_(0.5) end end)
  s:forget()
  tap.is(s:generate({turn}, how), m:generate({turn}, how), "after forget() the changed weights are used")
  m.h[1].fc1.bias = nil
  m.h[1].fc1.bias = rille.ones(64)
  tap.is(s:generate({turn}, how), m:generate({turn}, how), "a replaced parameter is noticed")
end)

tap.group("a long beginning of another slot", function()
  rille.manual_seed(6)
  local m = rille.models.llama.new{vocab = 31, length = 128, layers = 2, heads = 2, width = 16}
  local long, how = {}, {max_new_tokens = 9, temperature = 0.8, seed = 2}
  for i = 1, 80 do long[i] = i * i % 31 end
  local function behind(...) return table.move({...}, 1, select("#", ...), 81, table.move(long, 1, 80, 1, {})) end
  for name, draft in tap.sorted{["no draft"] = false, ["a draft"] = m} do if tap.share() then
    local s = m:scheduler{slots = 3, draft = draft or nil}
    local first = s:add(behind(1), {max_new_tokens = 30, temperature = 0})
    for _ = 1, 3 do s:step() end
    local second, third = s:add(behind(2, 3), how), s:add({5, 5}, how)
    while not (first.ended and second.ended and third.ended) do s:step() end
    tap.is(second.reused, 80, name .. ": it is copied while the other text runs")
    tap.is({first.ids, second.ids, third.ids}, {m:generate({behind(1)}, {max_new_tokens = 30, temperature = 0})[1],
      m:generate({behind(2, 3)}, how)[1], m:generate({{5, 5}}, how)[1]}, name .. ": all texts stay the same")
  end end
end)

tap.group("order, ends and errors", function()
  local m = new("llama")
  local s, how = m:scheduler{slots = 1, length = 20}, {max_new_tokens = 4, temperature = 0}
  local a, b, c = s:add({1}, how), s:add({2}, how), s:add({3}, how)
  s:step()
  tap.is({s.running, #s.waiting}, {1, 2}, "texts beyond the slots wait")
  s:cancel(a)
  s:cancel(b)
  tap.is({a.ended, b.ended, s.running, #s.waiting}, {"cancelled", "cancelled", 0, 1}, "cancelled texts leave their slot and the queue")
  while not c.ended do s:step() end
  tap.is({c.ids, c.ended}, {m:generate({{3}}, how)[1], "length"}, "the next text is not disturbed")
  tap.is(s:step(), {}, "a step without texts does nothing")
  tap.is(s:generate({{1}, {2}, {3}}, how), m:generate({{1}, {2}, {3}}, how), "more prompts than slots")
  tap.is(m:generate({{1}, {2}}, {max_new_tokens = 3, seed = 2, n = 2}), m:generate({{1}, {1}, {2}, {2}}, {max_new_tokens = 3, seed = 2}),
    "n texts are drawn for each prompt")
  local function refused(words, f) tap.fails(f, words, table.concat(words, ", ")) end
  refused({"length", "64", "65"}, function() m:scheduler{length = 65} end)
  refused({"slots", "0"}, function() m:scheduler{slots = 0} end)
  refused({"20", "at most 2 new"}, function() s:add({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {max_new_tokens = 3}) end)
  refused({"31 ids", "30"}, function() m:scheduler{draft = rille.models.gpt2.new{vocab = 30, length = 64, layers = 1, heads = 1, width = 4}} end)
  refused({"draft", "3"}, function() m:scheduler{draft = 3} end)
  refused({"positions", "64", "9"}, function() m:scheduler{draft = rille.models.gpt2.new{vocab = 31, length = 9, layers = 1, heads = 1, width = 4}} end)
  refused({"ids 0 to 30", "31"}, function() s:add({31}, how) end)
  for name, bad in tap.sorted{min_p = 2, typical_p = 0, repetition_penalty = 0, presence_penalty = 1 / 0, frequency_penalty = "x", logit_bias = {[31] = 1},
    bad_words = {{}}, allowed = 3, processor = 3, logprobs = 21, min_new_tokens = -1, beams = 0, n = 0, draft = 1, length_penalty = 0 / 0} do
    local given = {[name] = bad, max_new_tokens = 2}
    if name == "length_penalty" then given.beams = 2 end
    if name == "min_new_tokens" then given.stop = 1 end
    refused({name == "logit_bias" and "an id of logit_bias must be below 31" or name}, function() m:generate({{1}}, given) end)
  end
  for name, other in tap.sorted{draft_tokens = "draft", early_stopping = "beams", length_penalty = "beams", min_new_tokens = "stop"} do
    refused({("the option %s needs the option %s"):format(name, other)}, function() m:generate({{1}}, {[name] = 1, max_new_tokens = 2}) end)
  end
  refused({"scheduler: the option draft_tokens needs the option draft"}, function() m:scheduler{draft_tokens = 2} end)
  for name, value in tap.sorted{beams = 2, draft = m} do
    refused({"the option " .. name .. " is for m:generate"}, function() s:generate({{1}}, {[name] = value, max_new_tokens = 2}) end)
  end
  refused({"allowed must return a list of ids", "empty list"}, function() m:generate({{1}}, {allowed = function() return {} end}) end)
  refused({"n must be at most beams"}, function() m:generate({{1}}, {beams = 2, n = 3}) end)
  refused({"n must be at most 65536 for 1 prompts", "1099511627776"}, function() m:generate({{1}}, {n = 1 << 40}) end)
  refused({"beams must be at most 32768 for 2 prompts", "32769"}, function() m:generate({{1}, {2}}, {beams = 32769}) end)
  refused({"beams need temperature = 0"}, function() m:generate({{1}}, {beams = 2, temperature = 1}) end)
  refused({"logits", "nan"}, function() m:generate({{1}}, {processor = function(_, x) return x * (0 / 0) end}) end)
  tap.is(m:generate({{1}}, how), m:generate({{1}}, how), "errors leave nothing behind")
end)

-- ---- recipes ----

local function mesh(ranks) return rille.placement("cpu", ranks) end
local P2, P22, Q2, P222 = mesh{0, 1}, mesh{{0, 1}, {2, 3}}, mesh{2, 3}, mesh{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}
local recipes = {
  {"data", P2, {data = 0}}, {"zero 3", P2, {data = 0, zero = 3}}, {"tensor", P2, {tensor = 0}},
  {"tensor with sequence", P2, {tensor = 0, sequence = true}}, {"data x tensor", P22, {data = 0, tensor = 1}},
  {"2D", P22, {tensor = {0, 1}, method = "2d"}}, {"2.5D", P222, {tensor = {0, 1, 2}, method = "2.5d"}},
  {"stages", P2, {stages = {P2, Q2}, tensor = 0}}, {"stages, data", P2, {stages = {P2, Q2}, data = 0}},
}
local beam = {beams = 3, n = 2, max_new_tokens = 6, stop = {1, 2, 3, 4}}
for kind in tap.sorted(sizes) do
  local want, best, draft = wanted(kind), nil, new("gpt2", 1, 8)
  for i, r in ipairs(recipes) do
    if (kind ~= "moe" or i <= 3) and tap.share() then tap.group(kind .. ", " .. r[1], function()
      local m = new(kind):to_global{placement = r[2], sbp = #r[2].shape == 1 and "B" or #r[2].shape == 2 and {"B", "B"} or {"B", "B", "B"}}
      rille.parallel(m, r[3])
      best = best or new(kind):generate({jobs[1][1], jobs[6][1]}, beam)
      tap.is(together(m, {slots = 4, chunk = 8}), want(), ("%s, %s: texts of a scheduler"):format(kind, r[1]))
      tap.is(together(m, {slots = 3, chunk = 8, draft = draft}), want(), ("%s, %s: texts with a draft"):format(kind, r[1]))
      tap.is(m:generate({jobs[1][1], jobs[6][1]}, beam), best, ("%s, %s: beams"):format(kind, r[1]))
    end) end
  end
end

tap.done()
