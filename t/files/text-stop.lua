-- Tests Ctrl-C while a tokenizer is trained, and while it encodes. The call must end soon with an error, and must not
-- change the tokenizer.
local tap = dofile("t/lib/tap.lua")

local stat = assert(io.open("/proc/self/stat"))
local own = stat:read("n")
stat:close()
local PATIENCE <const> = 2 -- time limit until the call ends, s; long, because CI machines and sanitizers are slow

local seed = tonumber(os.getenv("SEED") or os.time())
print("# SEED=" .. seed)
math.randomseed(seed)

local function clock()
  local f = assert(io.open("/proc/uptime"))
  local t = f:read("n")
  f:close()
  return t
end

-- A case of share: sends SIGINT `wait` seconds after fn begins. Checks that fn ends soon with an error. Measures the CPU time of this
-- process, because other processes use the machine, too.
local function pressed(name, wait, fn)
  if not tap.share() then return end
  rille._forget_presses()
  os.execute(("(sleep %g; kill -INT %d) &"):format(wait, own))
  local begun, worked = clock(), os.clock()
  local good, why = pcall(fn)
  local took = os.clock() - worked
  if good then tap.diag(("the call took only %g s"):format(took)) end
  while clock() < begun + wait do end -- if fn ends early, waits until the signal has been sent
  pcall(function() local t = clock() while clock() < t + 0.3 do end end)
  rille._forget_presses()
  tap.ok(not good and tostring(why):find("interrupted", 1, true), name .. ": the error reports the interrupt", tostring(why))
  tap.ok(took < wait + PATIENCE, ("%s: the call ends soon"):format(name), ("%g s after the press"):format(took - wait))
end

local function letters(n, from)
  return table.concat(tap.list(n, function() return string.char(math.random(from or 97, 122)) end))
end
local some = tap.list(20000, function() return letters(math.random(2, 9)) end)
local text = table.concat(some, " ")
local tok = rille.tokenizer.train({text}, {size = 2000})
local want = tok:encode(text)
local huge = text:rep(1 << 10)

pressed("training, cutting words", 0.2, function() rille.tokenizer.train({huge}, {size = 300}) end)
local marks = ("a<x>"):rep(1 << 25)
pressed("training, special tokens", 0.2, function() rille.tokenizer.train({marks}, {size = 300, special = {"<x>", "<y>"}}) end)
local words = tap.list(200000, function() return letters(12) end)
words = table.concat(words, " ")
pressed("training, joining", 0.6, function() rille.tokenizer.train({words}, {size = 1 << 20}) end)
pressed("encode", 0.2, function() tok:encode(huge) end)
local bytes, word = ("\xff "):rep(1 << 24), letters(1 << 16):rep(1 << 6)
pressed("encode, no UTF-8", 0.2, function() tok:encode(bytes) end)
pressed("encode, one long word", 0.2, function() tok:encode(word) end)
tap.is(tok:encode(text), want, "after interrupts the tokenizer gives the same ids")
tap.is(#rille.tokenizer.train({"ab<x>ab<y><x>"}, {size = 260, special = {"<y>", "<x>"}}):encode("<x>ab"), 2, "special tokens are still recognised")
tap.done()
