-- speaker.lua - streaming detokenizer: converts new ids to strings, id by id, and finds stop strings.
--
-- A piece of the text is reported when its characters are complete and cannot be the beginning of a stop string. A
-- stop string and the text after it are not reported.

local Speaker = {}
Speaker.__index = Speaker

-- Creates a detokenizer. stops: list of stop strings.
local function new(tokenizer, stops)
  return setmetatable({tokenizer = tokenizer, stops = stops, ids = {}, first = 1, read = 0, held = "", stopped = false}, Speaker)
end

local function decoded(self, first, last)
  if last < first then return "" end
  return self.tokenizer:decode(table.move(self.ids, first, last, 1, {}), {skip_special_tokens = true})
end

-- Returns the number of bytes at the end of a text that belong to an incomplete UTF-8 character.
local function incomplete(text)
  for n = 1, math.min(4, #text) do
    local byte = text:byte(-n)
    if byte >= 0xc0 then return (byte >= 0xf0 and 4 or byte >= 0xe0 and 3 or 2) > n and n or 0 end
    if byte < 0x80 then return 0 end
  end
  return 0
end

-- Returns the text of the ids added since the last call that returned text; "" while the last character is
-- incomplete. A decoder treats the first id of a text differently. So this function decodes the ids of that last call
-- together with the new ids, and removes the text of the former.
local function fresh_text(self, final)
  local before, all = decoded(self, self.first, self.read), decoded(self, self.first, #self.ids)
  if not final and (incomplete(all) > 0 or all:sub(-3) == "\u{fffd}" and #self.ids - self.read < 4) then return "" end
  self.first, self.read = self.read + 1, #self.ids
  return all:sub(#before + 1)
end

-- Returns the length, in bytes, of the longest suffix of the text that is the beginning of a stop string.
local function begun(self, text)
  for n = #text, 1, -1 do
    for _, stop in ipairs(self.stops) do
      if n < #stop and text:sub(-n) == stop:sub(1, n) then return n end
    end
  end
  return 0
end

-- Returns the part of the withheld text that can be reported.
local function release(self, final)
  local text, at = self.held, nil
  for _, stop in ipairs(self.stops) do
    local found = text:find(stop, 1, true)
    if found and (not at or found < at) then at = found end
  end
  if at then
    self.stopped, self.held = true, ""
    return text:sub(1, at - 1)
  end
  local keep = final and 0 or begun(self, text)
  self.held = text:sub(#text - keep + 1)
  return text:sub(1, #text - keep)
end

-- Adds an id; id nil: the text has ended. Returns the next piece of text. Ignores an id without a token: many models
-- have more ids than their tokenizers, because the number of ids is rounded up.
function Speaker:push(id)
  if self.stopped then return "" end
  if id and pcall(self.tokenizer.decode, self.tokenizer, {id}) then self.ids[#self.ids + 1] = id end
  self.held = self.held .. fresh_text(self, id == nil)
  return release(self, id == nil)
end

return new
