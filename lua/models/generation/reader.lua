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

local Reader = {}
Reader.__index = Reader

-- Creates a reader. slots: number of slots; room: positions per slot; chunk: maximum number of ids of a slot that one
-- pass reads.
local function new(model, slots, room, where, chunk)
  local self = setmetatable({model = model, n = slots, room = room, where = where, chunk = chunk, kept = {}}, Reader)
  self.writer = writer.take(model, slots, room, where)
  self:forget()
  return self
end

-- Declares all slots empty.
function Reader:forget()
  self.known = {}
  for s = 1, self.n do self.known[s] = {} end
end

-- Fetches new compiled steps with an empty cache, and declares the slots empty.
local function renew(self)
  self.writer, self.kept, self.failed = writer.take(self.model, self.n, self.room, self.where), {}, false
  self:forget()
end

-- Renews the reader if the model's structure or layouts have changed.
function Reader:refresh()
  if not writer.is_current(self.model, self.writer) then renew(self) end
end

-- Renews the reader if a pass has failed, because the cache is then only partly written.
function Reader:recover()
  if self.failed then renew(self) end
end

function Reader:close()
  if not self.failed then writer.give_back(self.model, self.writer) end
end

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
local function replicated(list, where)
  return tensor(list, {placement = where.placement, sbp = layout.replicated(where.placement)})
end

local function power_of_two(n)
  local p = 1
  while p < n do p = 2 * p end
  return p
end

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
local function padded_size(self, n) return math.min(power_of_two(n), math.max(n, math.min(self.chunk, self.room))) end

-- Returns the ids to read in the slots of the list, padded to n, and their positions.
local function padded(self, feeds, slots, n)
  local ids, at = {}, {}
  for r, s in ipairs(slots) do
    local feed, known, own, places = feeds[s], #self.known[s], {}, {}
    for i = 1, n do
      local real = feed and i <= feed.count
      own[i], places[i] = real and feed.text.ids[known + i] or 0, real and known + i - 1 or -1
    end
    ids[r], at[r] = own, places
  end
  return ids, at
end

-- Returns which ids a pass chooses: for each slot of the list, `scored` rows {text =, n =} (rows.lua), false for a row
-- without a choice; and for each row the entry of the pass whose logits decide.
local function rows_of(self, feeds, slots, scored)
  local rows, entries = {}, {}
  for r, s in ipairs(slots) do
    local feed, known, own = feeds[s], #self.known[s], {}
    for v = 1, scored do
      local entry = feed and feed.count - scored + v - 1 or 0
      own[v] = math.max(0, entry)
      rows[#rows + 1] = feed and v > scored - feed.scored and {text = feed.text, n = known + entry + 1} or false
    end
    entries[r] = own
  end
  return rows, entries
end

-- Returns the slots that a pass computes: all slots, or those with ids to read, filled up with idle slots to a power of
-- two, because each number of slots needs a compiled step. Second result: true if these are all slots.
local function slots_of(self, feeds, whole)
  local slots, idle = {}, {}
  for s = 1, self.n do table.insert(feeds[s] and slots or idle, s) end
  local n = whole and self.n or math.min(self.n, power_of_two(#slots))
  table.move(idle, 1, n - #slots, #slots + 1, slots)
  if n == self.n then table.sort(slots) end
  return slots, n == self.n
end

-- Returns, for each slot, its row in the list, counted from 0; 0: the slot is not in the list.
local function inverse_of(self, slots)
  local list = {}
  for s = 1, self.n do list[s] = 0 end
  for r, s in ipairs(slots) do list[s] = r - 1 end
  return list
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

-- Reads the ids of `feeds` (see Reader:pass) in one pass, and appends the results to out.
local function pass_of(self, feeds, scored, more, out)
  local longest, where, got = 1, self.where, nil
  for _, feed in pairs(feeds) do longest = math.max(longest, feed.count) end
  local slots, all = slots_of(self, feeds, more.whole)
  local rows, entries = rows_of(self, feeds, slots, scored)
  self.kept[#slots] = self.kept[#slots] or {}
  local how = settings_of(rows, where, self.kept[#slots])
  if more.beams then how = with_beams(how, more.beams) end
  if more.whole then
    got = self.writer.prompt(tensor(whole_rows(self, feeds, longest), where), tensor(entries, where), how)
  else
    local n = padded_size(self, longest)
    local ids, at = padded(self, feeds, slots, n)
    local follow = n > 1 and tensor(entries, where) or nil
    if all then
      got = self.writer.next(tensor(ids, where), tensor(at, where), follow, how)
    else
      local from = {}
      for r, s in ipairs(slots) do from[r] = s - 1 end
      got = self.writer.next_of(tensor(ids, where), tensor(at, where), follow, replicated(from, where),
        replicated(inverse_of(self, slots), where), how)
    end
  end
  for name, list in pairs(chosen(self, got, rows, how)) do
    out[name] = out[name] or {}
    for r, value in ipairs(list) do
      if rows[r] then out[name][(slots[(r - 1) // scored + 1] - 1) * scored + (r - 1) % scored + 1] = value end
    end
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
  local out, short = {}, {}
  self.failed = true
  for s, feed in pairs(feeds) do
    if feed.count > scored + 1 and not more.whole then
      pass_of(self, {[s] = feed}, scored, more, out)
    else
      short[s] = feed
    end
  end
  if next(short) then pass_of(self, short, scored, more, out) end
  self.failed = false
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
  self.writer.reorder(replicated(ids, self.where))
  self.known = known
end

-- Copies the contents of one slot to another.
function Reader:copy(from, to)
  local list = {}
  for s = 1, self.n do list[s] = s == to and from or s end
  self:reorder(list)
end

return new
