-- json_automaton.lua - a pushdown automaton that reads bytes, for grammars of JSON (json_schema.lua).
--
-- A grammar is an expression: bytes, sets of bytes, sequences, choices, repetitions. A thread of the automaton is a linked
-- list of expressions that are still to be read. A state is the set of all threads that the bytes read so far permit;
-- equal states are one table, so that results can be stored in them.

local automaton = {}

local STATES <const> = 8192 -- maximum number of stored states; when it is reached, all states are forgotten

-- ---- creating expressions ----

-- Returns an expression that reads this text.
function automaton.text(text) return {kind = "text", text = text} end

-- Returns an expression that reads one byte that matches a pattern.
function automaton.set(pattern)
  local set = {}
  for byte = 0, 255 do set[byte] = string.char(byte):find(pattern) ~= nil end
  return {kind = "set", set = set}
end

function automaton.sequence(...) return {kind = "sequence", ...} end
function automaton.choice(...) return {kind = "choice", ...} end
function automaton.optional(e) return automaton.choice(e, automaton.sequence()) end

-- Returns an expression that matches zero or more repetitions of e.
function automaton.many(e)
  local all = automaton.choice(automaton.sequence())
  all[2] = automaton.sequence(e, all)
  return all
end

-- Returns an expression that matches at least `least` and at most `most` elements. element(n): the expression of the
-- element after n others, the same for all n > 0. most: nil for no limit.
function automaton.repeated(element, least, most)
  local more = {} -- number of elements -> expression of the elements that may follow
  local function after(n)
    n = most and n or math.min(n, math.max(least, 1))
    if n == most then return automaton.sequence() end
    more[n] = more[n] or automaton.lazy(function()
      local next_element = automaton.sequence(element(n), after(n + 1))
      return n < least and next_element or automaton.optional(next_element)
    end)
    return more[n]
  end
  return after(0)
end

-- Returns a placeholder for an expression. make() returns the expression when the automaton first reaches the
-- placeholder, so an expression can contain itself.
function automaton.lazy(make) return {kind = "lazy", make = make} end

-- ---- stepping from state to state ----

local WEAK <const> = {__mode = "v"}

local rests = setmetatable({}, WEAK) -- text -> expression of the text without its first byte

local function rest_of(text)
  if not rests[text] then rests[text] = automaton.text(text:sub(2)) end
  return rests[text]
end

-- Returns the thread that reads the expression e and then everything that the thread `after` reads. A thread is a
-- linked list of expressions. Equal threads are one table.
local function push(self, e, after)
  local known = after.before[e]
  if not known then
    self.nthreads = self.nthreads + 1
    known = {e = e, after = after, before = setmetatable({}, WEAK), number = self.nthreads, depth = after.depth + 1}
    after.before[e] = known
  end
  return known
end

-- Expands the first expression of a thread without reading a byte, until each resulting thread begins with a byte or
-- is complete. Adds these threads to `list`.
local function expand(self, thread, list, seen)
  if seen[thread] then return end
  seen[thread] = true
  local e = thread.e
  if not e or e.kind == "text" or e.kind == "set" then
    list[#list + 1] = thread
  elseif e.kind == "choice" then
    for _, one in ipairs(e) do expand(self, push(self, one, thread.after), list, seen) end
  elseif e.kind == "lazy" then
    e.made = e.made or e.make()
    expand(self, push(self, e.made, thread.after), list, seen)
  else
    local all = thread.after
    for i = #e, 1, -1 do all = push(self, e[i], all) end
    expand(self, all, list, seen)
  end
end

-- Forgets all states, and the steps between them.
local function forget(self)
  for _, state in pairs(self.states) do state.after = {} end
  self.states, self.nstates = {}, 0
end

-- Returns the state that consists of these threads (lists of expressions that are still to be read); false: the list
-- is empty.
local function state_of(self, list)
  if not list[1] then return false end
  table.sort(list, function(a, b) return a.number < b.number end)
  local numbers = {}
  for i, thread in ipairs(list) do numbers[i] = thread.number end
  local key = table.concat(numbers, " ")
  local known = self.states[key]
  if not known then
    if self.nstates == STATES then forget(self) end
    known = {threads = list, after = {}, is_complete = not list[1].e}
    self.states[key], self.nstates = known, self.nstates + 1
  end
  return known
end

-- Returns the state after a byte; false: the byte cannot follow.
function automaton.step(self, state, byte)
  local known = state.after[byte]
  if known ~= nil then return known end
  local list, seen = {}, {}
  for _, thread in ipairs(state.threads) do
    local e = thread.e
    if e and e.kind == "set" and e.set[byte] then
      expand(self, thread.after, list, seen)
    elseif e and e.kind == "text" and e.text:byte() == byte then
      expand(self, #e.text == 1 and thread.after or push(self, rest_of(e.text), thread.after), list, seen)
    end
  end
  local found = state_of(self, list)
  state.after[byte] = found
  return found
end

local function new_automaton() return {states = {}, nstates = 0, nthreads = 0, last = {before = setmetatable({}, WEAK), number = 0, depth = 0}} end

-- Returns an automaton for an expression. Its field `start` is the first state; false: no text matches.
function automaton.new(e)
  local self = new_automaton()
  local list = {}
  expand(self, push(self, e, self.last), list, {})
  self.start = state_of(self, list)
  return self
end

-- ---- finding the shape of a state ----

-- All threads of a state may end with the same expressions, which are read after an inner part such as a string. The
-- shape of the state is the state without these common expressions. So the states within all strings of a grammar
-- have few shapes, whatever follows the strings. A shape is complete where the omitted expressions begin. The bytes
-- that a state permits before this point depend only on its shape.

function automaton.new_shapes() return new_automaton() end

-- Returns the longest list of expressions with which all threads end, as a thread. None of the threads is this list
-- itself.
local function common_end(threads)
  local one = threads[1]
  for _, other in ipairs(threads) do
    while one ~= other do
      if one.depth >= other.depth then one = one.after else other = other.after end
    end
  end
  for _, thread in ipairs(threads) do
    if thread == one then return one.after end
  end
  return one
end

local function cut(shapes, thread, last)
  if thread == last then return shapes.last end
  return push(shapes, thread.e, cut(shapes, thread.after, last))
end

-- Returns the shape of a state that is not complete. `shapes`: an automaton (new_shapes()) whose states are the
-- shapes.
function automaton.shape(shapes, state)
  local last, list = common_end(state.threads), {}
  for i, thread in ipairs(state.threads) do list[i] = cut(shapes, thread, last) end
  return state_of(shapes, list)
end

return automaton
