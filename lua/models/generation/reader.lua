-- reader.lua - reads texts into the slots of a key/value cache, and chooses the ids that follow.
--
-- A slot has room for one text, and records the ids whose keys and values are in its part of the cache. A pass reads
-- further ids of some slots; each slot continues at its own position. So reading a prompt begins at the first id that
-- differs from the slot's previous text. A long prompt is read in chunks while other texts go on, and one pass can
-- check several guessed ids.
--
-- One thread. The reader owns its writer (writer.lua) until close().

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local prompts = require "rille.models.generation.prompts"
local settings_of = require "rille.models.generation.rows"
local writer = require "rille.models.generation.writer"

-- number of passes to measure before the least time is used, because the first passes compile
local COMPILED <const> = 3
local AGAIN <const> = 64 -- maximum number of passes over one slot per pass over all slots

local Reader = {}
Reader.__index = Reader

-- Creates a reader. slots: number of slots; room: positions per slot; chunk: maximum number of ids of a slot that one
-- pass reads.
local function new(model, slots, room, where, chunk)
  local self = setmetatable({model = model, n = slots, room = room, where = where, chunk = chunk, kept = {},
    cost = {one = {passes = 0, least = math.huge}, all = {passes = 0, least = math.huge}}}, Reader)
  self.writer = writer.take(model, slots, room, where)
  self:forget()
  return self
end

-- Declares all slots empty.
function Reader:forget()
  self.known = {}
  for s = 1, self.n do self.known[s] = {} end
end

-- Fetches new compiled steps, and declares the slots empty, if the model's structure or layouts have changed.
function Reader:refresh()
  if writer.is_current(self.model, self.writer) then return end
  self.writer, self.kept = writer.take(self.model, self.n, self.room, self.where), {}
  self:forget()
end

function Reader:close() writer.give_back(self.model, self.writer) end

-- Returns the length of the longest common prefix of a slot's contents and a text, in ids.
function Reader:common(s, ids)
  local known, n = self.known[s], 0
  while known[n + 1] and known[n + 1] == ids[n + 1] do n = n + 1 end
  return n
end

-- Keeps only the first n ids of a slot. Later entries are overwritten before a query attends to them.
function Reader:cut(s, n)
  for i = #self.known[s], n + 1, -1 do self.known[s][i] = nil end
end

local function tensor(rows, where) return rille.tensor(rows, {dtype = "i64", placement = where.placement, sbp = where.sbp}) end

-- ---- running one pass of the model ----

-- Passes the logits of each text through the text's processors, which are user functions. Returns all logits.
local function processed(rows, scores, where)
  local list = {}
  for r, row in ipairs(rows) do
    local own = scores:slice(0, r - 1, r)
    local fn = row and row.text.o.processor
    list[r] = own
    if fn then
      local new = fn(row.text:copied(row.n), own:reshape{own.shape[2]})
      check.that(layout.is_tensor(new) and new.ndim == 1 and #new == own.shape[2],
        "generate: processor must return the changed logits, a tensor {%d}; found %s", own.shape[2], check.shown(new))
      list[r] = new:reshape(own.shape)
    end
  end
  return rille.concat(list, 0):to_global(where)
end

local function chosen(self, out, rows, how)
  if how.open then
    local closed = {}
    for name, value in pairs(how) do closed[name] = name ~= "open" and value or nil end
    out = self.writer.pick(processed(rows, out.scores, self.where), out.logits, closed)
  end
  for name, t in pairs(out) do out[name] = t:totable() end
  return out
end

-- Returns the size to which n ids are padded. There are only a few sizes, because each one needs a compiled step.
local function padded_size(self, n)
  local size = 1
  while size < n do size = 2 * size end
  return math.min(size, math.max(n, math.min(self.chunk, self.room)))
end

-- Returns the ids to read in the slots from first to last, padded to n, and their positions.
local function padded(self, feeds, first, last, n)
  local ids, at = {}, {}
  for s = first, last do
    local feed, known, own, places = feeds[s], #self.known[s], {}, {}
    for i = 1, n do
      local real = feed and i <= feed.count
      own[i], places[i] = real and feed.text.ids[known + i] or 0, real and known + i - 1 or -1
    end
    ids[#ids + 1], at[#at + 1] = own, places
  end
  return ids, at
end

-- Returns which ids a pass chooses: for each slot from first to last, `scored` rows {text =, n =} (rows.lua), false
-- for a row without a choice; and for each row the entry of the pass whose logits decide.
local function rows_of(self, feeds, first, last, scored)
  local rows, entries = {}, {}
  for s = first, last do
    local feed, known, own = feeds[s], #self.known[s], {}
    for v = 1, scored do
      local entry = feed and feed.count - scored + v - 1 or 0
      own[v] = math.max(0, entry)
      rows[#rows + 1] = feed and v > scored - feed.scored and {text = feed.text, n = known + entry + 1} or false
    end
    entries[#entries + 1] = own
  end
  return rows, entries
end

-- Returns the ids to read in all slots, padded to n. A slot without ids to read gets the ids of another slot.
local function whole_rows(self, feeds, n)
  local rows, _, some = {}, next(feeds)
  for s = 1, self.n do rows[s] = (feeds[s] or some).text.ids end
  return prompts.padded(rows, n)
end

local function with_beams(how, n)
  local more = {beams = tostring(n)}
  for name, value in pairs(how) do more[name] = value end
  return more
end

local function remember(self, feeds)
  for s, feed in pairs(feeds) do
    local known = self.known[s]
    for i = #known + 1, #known + feed.count do known[i] = feed.text.ids[i] end
  end
end

-- Reads the ids of `feeds` (see Reader:pass) in the slots from first to last in one pass, and appends the results to
-- out. The range is one slot, or all slots.
local function pass_of(self, feeds, first, last, scored, more, out)
  local longest, where, one = 1, self.where, first == last and self.n > 1
  for s = first, last do longest = math.max(longest, feeds[s] and feeds[s].count or 0) end
  local rows, entries = rows_of(self, feeds, first, last, scored)
  local kept = one and "one" or "all"
  self.kept[kept] = self.kept[kept] or {}
  local how, got = settings_of(rows, where, self.kept[kept]), nil
  if more.beams then how = with_beams(how, more.beams) end
  if more.whole then
    got = self.writer.prompt(tensor(whole_rows(self, feeds, longest), where), tensor(entries, where), how)
  else
    local n = padded_size(self, longest)
    local ids, at = padded(self, feeds, first, last, n)
    local follow = n > 1 and tensor(entries, where) or nil
    if one then
      local place = where.placement
      local slot = rille.tensor({first - 1}, {dtype = "i64", placement = place, sbp = layout.replicated(place)})
      got = self.writer.next_of(tensor(ids, where), tensor(at, where), follow, slot, how)
    else
      got = self.writer.next(tensor(ids, where), tensor(at, where), follow, how)
    end
  end
  for name, list in pairs(chosen(self, got, rows, how)) do
    out[name] = out[name] or {}
    for r, value in ipairs(list) do
      if rows[r] then out[name][(first - 1) * scored + r] = value end
    end
  end
end

-- Runs a pass that reads one id of each slot in the range, one slot or all slots, and measures the time. Updates the
-- field cost.one or cost.all of the reader: number of these passes, and their least time in s.
local function timed_pass(self, feeds, first, last, more, out)
  local cost, start = self.cost[first == last and "one" or "all"], rille.clock()
  pass_of(self, feeds, first, last, 1, more, out)
  cost.passes, cost.least = cost.passes + 1, math.min(cost.least, rille.clock() - start)
end

-- Returns true if n passes over one slot take less time than one pass over all slots, which computes idle slots, too. Now
-- and then returns false in any case, so that the time of a pass over all slots is measured again.
local function is_faster_apart(self, n)
  local one, all = self.cost.one, self.cost.all
  if n == self.n or one.passes < COMPILED or all.passes < COMPILED or one.passes > AGAIN * all.passes then return false end
  return n * one.least < all.least
end

-- Reads the next id of n slots.
local function read_next(self, feeds, n, more, out)
  if n > 1 and not is_faster_apart(self, n) then return timed_pass(self, feeds, 1, self.n, more, out) end
  for s = 1, self.n do
    if feeds[s] then timed_pass(self, feeds, s, s, more, out) end
  end
end

-- Reads further ids of texts, and chooses the ids that follow. feeds[s]: what slot s reads, {text =, count =, scored
-- =}: `count` further ids of the text, of which each of the last `scored` is followed by a choice (0: none). scored:
-- the greatest of these numbers.
-- more: {whole = true}: every slot is read from its first id, in one pass of any length; {beams = n}: the n likeliest
-- ids are returned in place of a choice.
-- Returns results of choose.lua as lists; row s * scored is the last choice of slot s. A slot with many ids has a
-- separate pass, because in a common pass the ids of all slots would be padded to that length.
function Reader:pass(feeds, scored, more)
  more = more or {}
  local out, short, nshort, last, longest = {}, {}, 0, nil, 0
  for s = 1, self.n do
    if feeds[s] and feeds[s].count > scored + 1 and not more.whole then
      pass_of(self, feeds, s, s, scored, more, out)
    elseif feeds[s] then
      short[s], nshort, last, longest = feeds[s], nshort + 1, s, math.max(longest, feeds[s].count)
    end
  end
  if longest == 1 and scored == 1 and not more.whole and not more.beams then
    read_next(self, short, nshort, more, out)
  elseif nshort == 1 and not more.whole then
    pass_of(self, short, last, last, scored, more, out)
  elseif nshort > 0 then
    pass_of(self, short, 1, self.n, scored, more, out)
  end
  remember(self, feeds)
  return out
end

-- Replaces the contents of each slot s by the contents of slot from[s].
function Reader:reorder(from)
  local known, ids, same = {}, {}, true
  for s = 1, self.n do
    known[s], ids[s] = table.move(self.known[from[s]], 1, #self.known[from[s]], 1, {}), from[s] - 1
    same = same and from[s] == s
  end
  if same then return end
  local place = self.where.placement
  self.writer.reorder(tensor(ids, {placement = place, sbp = layout.replicated(place)}))
  self.known = known
end

-- Copies the contents of one slot to another.
function Reader:copy(from, to)
  local list = {}
  for s = 1, self.n do list[s] = s == to and from or s end
  self:reorder(list)
end

return new
