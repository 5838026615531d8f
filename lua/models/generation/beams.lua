-- beams.lua - beam search: keeps the likeliest continuations of a prompt. The choices equal those of generate in the
-- library transformers.
--
-- A prompt has one slot of the key/value cache per beam. Each step ranks the continuations of all beams by their
-- summed log probability, keeps the best that have not ended, and reorders the cache. Ended texts compete by sum /
-- length ^ length_penalty.

local check = require "rille.base.check"
local random = require "rille.base.random"
local new_reader = require "rille.models.generation.reader"
local new_text = require "rille.models.generation.text"

local NONE = -1e9 -- score of an unused beam

-- Returns the candidates for the next ids of a prompt, best first: {beam =, id =, score =}.
local function candidates_of(search, out, keep)
  local list = {}
  for b, score in ipairs(search.scores) do
    local row = (search.first + b - 1)
    for i, logprob in ipairs(out.top[row]) do
      list[#list + 1] = {beam = b, id = out.top_ids[row][i], score = score + logprob, order = #list}
    end
  end
  table.sort(list, function(x, y)
    if x.score ~= y.score then return x.score > y.score end
    return x.order < y.order
  end)
  return table.move(list, 1, keep, 1, {})
end

local function is_end(search, candidate, o)
  return o.stops[candidate.id] or #search.texts[candidate.beam].ids + 1 - search.prompt >= o.max_new_tokens
end

-- Inserts an ended text into the list of the best ended texts.
local function add_finished(search, candidate, o)
  local ids = search.texts[candidate.beam]:copied(#search.texts[candidate.beam].ids)
  ids[#ids + 1] = candidate.id
  local list, score = search.finished, candidate.score / (#ids - search.prompt) ^ o.length_penalty
  local at = #list + 1
  while at > 1 and list[at - 1].score < score do at = at - 1 end
  table.insert(list, at, {ids = ids, score = score})
  list[o.beams + 1] = nil
end

-- Returns true if no unfinished text can become one of the best ended texts.
local function is_over(search, o, n)
  if #search.finished < o.beams then return false end
  if o.early_stopping == true then return true end
  local length = o.early_stopping == "never" and o.length_penalty > 0 and o.max_new_tokens or n
  return search.scores[1] / length ^ o.length_penalty <= search.finished[o.beams].score
end

-- Advances the search of one prompt by one id. Returns the beams that continue, in the order of slots.
local function advance(search, out, o, keep)
  local goes, from, texts, scores = {}, {}, {}, {}
  for rank, candidate in ipairs(candidates_of(search, out, keep)) do
    if is_end(search, candidate, o) then
      if rank <= o.beams then add_finished(search, candidate, o) end
    elseif #goes < o.beams then
      goes[#goes + 1] = candidate
    end
  end
  for b, candidate in ipairs(goes) do
    local text = search.texts[candidate.beam]
    from[b], scores[b] = search.first + candidate.beam - 1, candidate.score
    texts[b] = new_text(text:copied(#text.ids), text.o, random.integers(0))
    texts[b].prompt = search.prompt
    texts[b].ids[#texts[b].ids + 1] = candidate.id
  end
  if #goes > 0 then search.texts, search.scores = texts, scores end
  search.done = #goes < o.beams or is_over(search, o, #texts[1].ids - search.prompt)
  return from
end

local function searches_of(rows, o)
  local list = {}
  for i, row in ipairs(rows) do
    local search = {first = (i - 1) * o.beams + 1, prompt = #row, texts = {}, scores = {}, finished = {}}
    for b = 1, o.beams do
      search.texts[b] = new_text(table.move(row, 1, #row, 1, {}), o, random.integers(0))
      search.scores[b] = b == 1 and 0 or NONE
    end
    list[i] = search
  end
  return list
end

local function feeds_of(reader, searches)
  local feeds = {}
  for _, search in ipairs(searches) do
    for b, text in ipairs(search.texts) do
      local s = search.first + b - 1
      if not search.done then feeds[s] = {text = text, count = #text.ids - #reader.known[s], scored = 1} end
    end
  end
  return feeds
end

-- Returns the o.n best texts of each prompt, and for each text a table {score =}.
local function results(searches, o)
  local rows, more = {}, {}
  for _, search in ipairs(searches) do
    for i = 1, o.n do
      local best = search.finished[i]
      rows[#rows + 1], more[#more + 1] = best.ids, {score = best.score}
    end
  end
  return rows, more
end

return function(model, rows, o, room, where)
  check.that(o.max_new_tokens > 0, "generate: max_new_tokens must be at least 1 with beams, found %d", o.max_new_tokens)
  local n_stops = 0
  for _ in pairs(o.stops) do n_stops = n_stops + 1 end
  local keep, searches = math.max(2, 1 + n_stops) * o.beams, searches_of(rows, o)
  local reader, whole, going = new_reader(model, #rows * o.beams, room, where, room), true, true
  while going do
    local out, from = reader:pass(feeds_of(reader, searches), 1, {whole = whole, beams = keep}), {}
    going, whole = false, false
    for s = 1, #rows * o.beams do from[s] = s end
    for _, search in ipairs(searches) do
      if not search.done then
        for b, slot in ipairs(advance(search, out, o, keep)) do from[search.first + b - 1] = slot end
        going = going or not search.done
      end
    end
    if going then reader:reorder(from) end
  end
  reader:close()
  return results(searches, o)
end
