-- reach.lua - lists the places whose values a function may read: upvalues, globals, and fields of the tables, objects
-- and modules that are reachable through these, also through Lua functions that the function may call.
--
-- A place is a holder and a key: a function and the index of an upvalue, or a table and a field. Fields count if the
-- code reads their names, if they are names of Rille's options, or if they are entries of lists; if the code computes
-- names, all fields count. Three special keys stand for properties of a table: reach.KEYS stands for a hash of the
-- keys, which shows that a field was added; reach.META for the metatable; reach.DIGEST for a hash of the numbers,
-- texts and booleans of a long list. Tables of Rille are assumed not to change. In the tables of Lua's libraries,
-- only fields whose names the code reads count. Rille's layers and optimisers are registered as objects: each lists
-- its relevant fields itself.

local rille = require "rille"
local bytecode = require "rille.step.bytecode"
local check = require "rille.base.check"

local reach = {KEYS = rille._keys_key, META = rille._meta_key, DIGEST = rille._digest_key}

-- maximum length of a list whose entries are followed one by one; of a longer list, a hash of the entries is followed
local LARGE <const> = 256
-- maximum length of a list of which a hash is followed; of a longer list, only the length is followed
local LARGEST <const> = 1 << 16
local MOST <const> = 4096 -- maximum number of recorded places (function and upvalue, or table and field) per walk

local objects = setmetatable({}, {__mode = "k"}) -- object -> function that lists its relevant fields (reach.object)

-- Registers t as an object: the function `list` reports its relevant fields. list(t, note, visit, offer) calls
-- note(holder, key) for each relevant field, visit(member, key) for each module in t, and offer(holder, keys) for
-- fields that count only if the code reads their names.
function reach.object(t, list) objects[t] = list end

-- ---- functions of Lua's libraries that need special treatment ----

local libraries = {[package.loaded] = true} -- tables of Lua's libraries
for _, name in ipairs{"string", "math", "table", "io", "os", "coroutine", "utf8", "debug", "package"} do
  libraries[package.loaded[name]] = true
end
-- library functions that read fields whose names are not in the code (pairs, rawget, load, ...) -> which fields the walk
-- must follow if the code may call the function
local readers = {[pairs] = "lists", [next] = "lists", [rawget] = "computed", [load] = "computed", [require] = "requires"}

-- library functions whose result for a live number (a number that a compiled step reads before each run) may hide
-- that the number was read: they catch an error, or compare without a metamethod
local hiding = {[pcall] = true, [xpcall] = true, [rawequal] = true, [rawget] = true, [rawset] = true, [math.tointeger] = true,
  [coroutine.resume] = true}
for _, f in next, debug do hiding[f] = true end

-- library functions whose results may change although none of the values that the walk records has changed -> name
-- for messages
local fixed = {[math.random] = "math.random()", [dofile] = "dofile()", [loadfile] = "loadfile()"}
for _, name in ipairs{"clock", "date", "getenv", "time"} do fixed[os[name]] = ("os.%s()"):format(name) end
for _, name in ipairs{"lines", "open", "popen", "read"} do fixed[io[name]] = ("io.%s()"):format(name) end

local function rilles_modules()
  local own = {}
  for name, v in next, package.loaded do
    if type(name) == "string" and type(v) == "table" and (name == "rille" or name:sub(1, 6) == "rille.") then own[v] = true end
  end
  return own
end

-- Returns true for a class of Rille.
local function is_own_class(t) return check.is_own(rawget(t, "forward")) or check.is_own(rawget(t, "init")) end

-- Returns true for the metatable of one of Rille's kinds of tables: data readers, optimisers.
local function is_own_metatable(meta)
  for _, v in next, meta do
    if type(v) == "function" then return check.is_own(v) end
  end
  local class = check.index_of(meta)
  return type(class) == "table" and class ~= meta and is_own_metatable(class)
end

-- set of the names of options that Rille's functions read
local option_names
local function is_option(name)
  if not option_names then
    option_names = {dtype = true, placement = true, sbp = true, requires_grad = true, name = true, strategy = true}
    for op in pairs(rille) do
      for _, attribute in ipairs((rille._operator(op) or {}).attributes or {}) do option_names[attribute.name] = true end
    end
  end
  return option_names[name]
end

-- ---- walking from value to value ----

local visit

-- Reports a place (an upvalue, global or field that the function may read), and continues the walk with its value.
local function add(w, holder, key, value, text)
  if w.own[value] then return end
  if w.n >= MOST then
    w.cut = w.cut or text
    return
  end
  w.n = w.n + 1
  w.fixed, w.hides = w.fixed or fixed[value], w.hides or hiding[value]
  w.place(holder, key, value, text)
  if readers[value] then w[readers[value]] = true end
  if rawequal(value, require) then
    w.before = {}
    for name in next, package.loaded do w.before[name] = true end
    visit(w, package.loaded, "package.loaded")
  end
  if rawequal(value, _G) or rawequal(value, load) then w.globals = true end
  if rawequal(value, load) then visit(w, _G, "_ENV") end
  visit(w, value, text)
end

local function add_upvalue(w, fn, index)
  local cell, name, value = debug.upvalueid(fn, index), debug.getupvalue(fn, index)
  if w.seen[cell] then return end
  w.seen[cell] = true
  add(w, fn, index, value, name)
end

local function add_field(w, t, key, text)
  local taken = w.taken[t] or {}
  w.taken[t] = taken
  if taken[key] then return end
  taken[key] = true
  add(w, t, key, rille._place(t, key), text)
end

-- Visits upvalues of fn, and the fields that fn reads in them.
local function visit_upvalues(w, fn, found)
  for index in next, found.upvalues do
    local name, value = debug.getupvalue(fn, index)
    if name == "_ENV" then
      w.globals = true
      visit(w, value, "_ENV")
    else
      add_upvalue(w, fn, index)
    end
  end
  for _, read in ipairs(found.within) do
    local index, field = table.unpack(read)
    local name, value = debug.getupvalue(fn, index)
    if name == "_ENV" and type(value) == "table" then
      add_field(w, value, field, field)
    else
      w.names[field] = true
      add_upvalue(w, fn, index)
    end
  end
end

-- Reports the upvalues and globals that fn only increments.
local function report_counts(w, fn, counted)
  for index in next, counted.upvalues do
    local name, value = debug.getupvalue(fn, index)
    w.count(fn, index, value, name)
  end
  for _, read in ipairs(counted.within) do
    local index, field = table.unpack(read)
    local name, t = debug.getupvalue(fn, index)
    if type(t) == "table" then w.count(t, field, rille._place(t, field), name == "_ENV" and field or name .. "." .. field) end
  end
end

local function visit_function(w, fn)
  if debug.getinfo(fn, "S").what == "C" then
    local _, state = debug.getupvalue(fn, 1)
    if type(state) == "thread" then w.fixed = w.fixed or "a coroutine" end
    return
  end
  if check.is_own(fn) then return end
  local found = bytecode.reads(fn)
  for name in next, found.fields do w.names[name] = true end
  for name in next, found.counted.fields do w.counted[name] = true end
  w.computed = w.computed or found.computed
  visit_upvalues(w, fn, found)
  report_counts(w, fn, found.counted)
end

-- Visits the functions and the class through which Lua finds fields that a table lacks. Skips classes of Rille, which
-- are assumed not to change.
local function visit_metatable(w, meta, text)
  if type(meta) ~= "table" or is_own_class(meta) then return end
  for name in next, meta do
    if type(name) == "string" and name:sub(1, 2) == "__" then add_field(w, meta, name, text .. "." .. name) end
  end
  visit(w, meta, text)
end

local function visit_table(w, t, text)
  if w.own[t] or is_own_class(t) then return end
  local meta = debug.getmetatable(t)
  if rawequal(t, _G) or libraries[t] then
    w.tables[#w.tables + 1] = {t, text}
    if not rawequal(t, _G) and not rawequal(t, package.loaded) then w.place(t, reach.KEYS, rille._place(t, reach.KEYS), text) end
    return
  end
  if objects[t] then
    objects[t](t, w.note, function(member, key) visit(w, member, ("%s.%s"):format(text, check.named(key))) end,
      function(holder, keys) w.offers[#w.offers + 1] = {holder, keys, text} end)
    if not w.follows_all(t) then return end
  elseif type(meta) == "table" and rawget(t, "__index") == nil and is_own_metatable(meta) then
    return
  end
  w.tables[#w.tables + 1] = {t, text}
  w.place(t, reach.KEYS, rille._place(t, reach.KEYS), text)
  if rawlen(t) > LARGEST then w.cut = text end
  if rawlen(t) > LARGE and rawlen(t) <= LARGEST then w.place(t, reach.DIGEST, rille._place(t, reach.DIGEST), "an entry of " .. text) end
  w.place(t, reach.META, meta, "the metatable of " .. text)
  visit_metatable(w, meta, text)
end

function visit(w, v, text)
  local kind = type(v)
  if kind ~= "table" and kind ~= "function" or w.seen[v] then return end
  w.seen[v] = true
  if kind == "table" then visit_table(w, v, text) else visit_function(w, v) end
end

-- Returns true if the hash of a long list t (reach.DIGEST) includes the entry with this key.
local function is_in_digest(t, key)
  local value = rawget(t, key)
  return rawlen(t) > LARGE and type(value) ~= "table" and type(value) ~= "function" and type(value) ~= "userdata"
end

-- Returns true if the code may read the field `key` of t. Training modes are followed separately.
local function is_read(w, t, key)
  if libraries[t] then return w.names[key] or rawequal(t, package.loaded) and w.requires end
  if rawequal(t, _G) then return w.names[key] or w.globals and (w.computed or w.lists) end
  if math.type(key) == "integer" then return not is_in_digest(t, key) and rawlen(t) <= LARGEST end
  if key == "training" and objects[t] then return false end
  return w.computed or w.lists or w.names[key] or is_option(key)
end

-- Visits the fields of the tables found so far, until a round finds no new names and tables.
local function visit_fields(w)
  repeat
    local n = w.n
    for _, row in ipairs(w.tables) do
      local t, text = table.unpack(row)
      for key in next, t do
        if is_read(w, t, key) then add_field(w, t, key, ("%s.%s"):format(text, check.named(key))) end
      end
    end
    for _, row in ipairs(w.offers) do
      local holder, keys, text = table.unpack(row)
      for key in next, keys do
        if w.names[key] then add_field(w, holder, key, ("%s.%s"):format(text, key)) end
      end
    end
  until w.n == n
  for _, row in ipairs(w.tables) do
    local t, text = table.unpack(row)
    for name in next, w.counted do
      if rawget(t, name) ~= nil and not is_read(w, t, name) then w.count(t, name, rawget(t, name), text .. "." .. name) end
    end
  end
end

-- Starts a walk, which reports its findings to the functions of `tell`:
--   place(holder, key, value, text)  for each place; text: the place as users write it
--   count(holder, key, value, text)  for each place that the code only increments
--   note(holder, key)                for each field that an object lists
--   follows_all(object)              must return true for objects of user classes, whose fields are all relevant
function reach.new(tell)
  return setmetatable({own = rilles_modules(), n = 0, seen = {}, taken = {}, tables = {}, offers = {}, names = {forward = true}, counted = {},
    computed = false}, {__index = tell})
end

-- Continues the walk from v. If v is a function of Rille, visits only the functions and objects among its upvalues,
-- because only those were passed to it.
function reach.from(w, v, text)
  if check.is_own(v) then
    for index = 1, debug.getinfo(v, "u").nups do
      local _, value = debug.getupvalue(v, index)
      if type(value) == "function" or type(value) == "table" and getmetatable(value) ~= nil then visit(w, value, text) end
    end
  else
    visit(w, v, text)
  end
  visit(w, string, "string") -- also visits the methods of strings
  visit_fields(w)
end

-- Returns the name of a module that `require` has loaded since the walk; nil: none. The module's values were not walked.
function reach.loaded(w)
  for name in next, w.before and package.loaded or {} do
    if not w.before[name] and not tostring(name):find("^rille%.") then return name end
  end
end

-- Returns the name of a function that the code may call and whose results cannot be followed; nil: none.
function reach.fixed(w) return w.fixed end

-- Returns true for a library function whose result may hide that a live number (an input of a compiled step in place
-- of a constant) was read.
function reach.is_hiding(fn) return hiding[fn] or false end

-- Returns true if the code may call a function whose result hides that it read a live number, an input of a compiled
-- step in place of a constant.
function reach.hides(w) return w.hides or w.fixed == "a coroutine" end

-- Returns the name of a value that is not followed because the walk reached a limit; nil: all values are followed.
function reach.cut(w) return w.cut end

return reach
