-- tap.lua - the functions of a Lua test: ok, is, near, fails, has, group, folder, read, write, output, done. Prints TAP.
--
--   local tap = dofile("t/lib/tap.lua")
--   tap.group("matmul", function()
--     tap.is(a:matmul(b).shape, {2, 3}, "has the rows of a and the columns of b")
--   end)
--   tap.done()
--
-- A check's name is a sentence that states the expected fact. Values are compared as
-- nested lists; a difference is reported with its path: "at [2][1]: got 3, want 4".

local tap = {}
local count, failed = 0, 0

local function report(pass, name, why)
  count = count + 1
  if not pass then failed = failed + 1 end
  io.write(pass and "ok " or "not ok ", count, " - ", tostring(name), "\n")
  if not pass and why then tap.diag(why) end
  io.flush()
  return pass
end

local function text(v)
  if type(v) == "string" then return ("%q"):format(v) end
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  for i, e in ipairs(v) do parts[i] = text(e) end
  for k, e in pairs(v) do
    if math.type(k) ~= "integer" or k < 1 or k > #v then parts[#parts + 1] = ("%s = %s"):format(k, text(e)) end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- Returns the value as text of at most 400 characters.
local function shown(v)
  local s = text(v)
  return #s <= 400 and s or s:sub(1, 397) .. "..."
end

-- Returns nil if a and b are equal; otherwise a text that describes the first difference. same(x, y): compares values
-- that are not tables.
local function difference(a, b, same, path)
  if type(a) ~= "table" or type(b) ~= "table" or getmetatable(a) or getmetatable(b) then
    if same(a, b) then return nil end
    return ("%sgot %s, want %s"):format(path == "" and "" or "at " .. path .. ": ", shown(a), shown(b))
  end
  for k, v in pairs(b) do
    local d = difference(a[k], v, same, ("%s[%s]"):format(path, k))
    if d then return d end
  end
  for k, v in pairs(a) do
    if b[k] == nil then return ("at %s[%s]: got %s, want nothing"):format(path, k, shown(v)) end
  end
end

-- Returns true if a and b are equal. NaN equals NaN; an integer equals the float of the same value, as in Lua.
local function equal(a, b) return a == b or (a ~= a and b ~= b) end

local function compare(got, want, same, name)
  local d = difference(got, want, same, "")
  return report(not d, name, d)
end

-- Prints a comment line, which does not affect the result.
function tap.diag(line) io.write("# ", (tostring(line):gsub("\n", "\n# ")), "\n") end

function tap.ok(pass, name, why) return report(pass and true or false, name, why) end

function tap.is(got, want, name) return compare(got, want, equal, name) end

-- Checks that numbers differ by at most rtol * |want| + atol, and that values of any other type are equal.
function tap.near(got, want, name, rtol, atol)
  rtol, atol = rtol or 1e-5, atol or 1e-6
  return compare(got, want, function(a, b)
    if equal(a, b) then return true end
    if type(a) ~= "number" or type(b) ~= "number" then return false end
    return math.abs(a - b) <= rtol * math.abs(b) + atol and math.abs(b) < math.huge
  end, name)
end

-- Checks that f raises an error that contains each of these words, in upper or lower case.
function tap.fails(f, words, name)
  local good, err = pcall(f)
  if good then return report(false, name, "no error was raised") end
  err = tostring(err)
  for _, word in ipairs(type(words) == "table" and words or {words}) do
    if not err:lower():find(tostring(word):lower(), 1, true) then
      return report(false, name, ("%q is not in the error: %s"):format(word, err))
    end
  end
  return report(true, name)
end

-- Returns true if the text contains all these parts; otherwise prints the first missing part.
function tap.has(text, ...)
  for _, part in ipairs{...} do
    if not text:find(part, 1, true) then return tap.diag(("without '%s':\n%s"):format(part, text)) and false end
  end
  return true
end

-- Returns the bytes that all devices received in a step's last run.
function tap.received(step) return tap.sum(step:stats().devices, function(d) return d.bytes_in end) end

-- Computes the gradients of the loss. Returns the loss. This function and tap_update are globals, because rille.graph
-- follows everything that a step's function can reach, and would follow all of `tap`.
function tap_backward(loss)
  loss:backward()
  return loss
end

-- Computes gradients of the loss, updates the parameters of opt, and clears the gradients. Returns the loss.
function tap_update(opt, loss)
  loss:backward(); opt:step(); opt:zero_grad()
  return loss
end

-- Compiles a training step with the loss f(...). The step updates the parameters of opt and returns the loss.
function tap.training(opt, f, options) return require("rille").graph(function(...) return tap_update(opt, f(...)) end, options) end

-- Runs a group of checks. An error in f fails one check, and the test continues with the next group.
function tap.group(name, f)
  tap.diag(name)
  local good, err = xpcall(f, debug.traceback)
  if not good then report(false, name .. " runs to its end", err) end
  return good
end

-- Returns the seed of a random test: $SEED or the default. Prints the seed, so that a failure can be repeated.
function tap.seed(default)
  local seed = math.tointeger(tonumber(os.getenv("SEED") or default or 1))
  tap.diag("SEED=" .. seed)
  return seed
end

-- Returns true if this run takes case i (from 0) of an exhaustive loop. SHARE=k/n takes about one case in n, chosen
-- by a hash. The n runs with k = 0 to n - 1 together take every case. Without SHARE, or with SHARE=all, a run takes
-- every case. Every run takes case 0. Without i, the calls of this function count the cases.
local which, of = (os.getenv("SHARE") or ""):match("^(%d+)/(%d+)$")
local asked = 0
function tap.share(i)
  if not i then i, asked = asked, asked + 1 end
  if not of then return true end
  if which ~= "" then tap.diag(("share %s/%s"):format(which, of)) which, of, tap.which = "", tonumber(of), tonumber(which) end
  local z = i + 0x9e3779b97f4a7c15
  z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
  z = (z ~ (z >> 27)) * 0x94d049bb133111eb
  return i == 0 or ((z ~ (z >> 31)) >> 1) % of == tap.which
end

-- Runs a group of checks, if this run takes the group as a case of share().
function tap.case(name, f) return tap.share() and tap.group(name, f) end

-- Returns an iterator over a table in the order of its keys. The order of pairs() differs between runs, and share()
-- must count the same cases in each.
function tap.sorted(t)
  local keys, i = {}, 0
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return function()
    i = i + 1
    if keys[i] ~= nil then return keys[i], t[keys[i]] end
  end
end

-- Returns the list {f(1), ... f(n)} without nil. If `of` is a list, not the number n, returns {f(of[1], 1), f(of[2],
-- 2), ...}.
function tap.list(of, f)
  local list, items = {}, type(of) == "table" and of
  for i = 1, items and #items or of do list[#list + 1] = f(items and items[i] or i, i) end
  return list
end

-- Returns the greatest of 0, f(list[1]), f(list[2]), ...
function tap.most(list, f)
  local most = 0
  for _, item in ipairs(list) do most = math.max(most, f(item)) end
  return most
end

-- Returns f(list[1]) + f(list[2]) + ...
function tap.sum(list, f)
  local sum = 0
  for _, item in ipairs(list) do sum = sum + f(item) end
  return sum
end

-- Returns a matrix as a list of rows; an element is f(row, column).
function tap.rows(n, columns, f) return tap.list(n, function(i) return tap.list(columns, function(j) return f(i, j) end) end) end

-- Returns the numbers of nested lists as one list; true counts as 1, false as 0.
function tap.flat(v, list)
  list = list or {}
  if type(v) ~= "table" then list[#list + 1] = v == true and 1 or v or 0 end
  for _, e in ipairs(type(v) == "table" and v or {}) do tap.flat(e, list) end
  return list
end

-- Returns the values of an iterator as a list. Examples: tap.all(text:gmatch("%a+")), tap.all(pairs(t)).
function tap.all(...)
  local list = {}
  for value in ... do list[#list + 1] = value end
  return list
end

-- Returns a copy of table t with the fields of the other tables, which replace fields of t.
function tap.with(t, ...)
  local copy = {}
  for _, other in ipairs{t, ...} do
    for key, value in pairs(other) do copy[key] = value end
  end
  return copy
end

-- Returns the values of tensors with any layouts as a list of tables.
function tap.values(...)
  return tap.list({...}, function(t) return t:to_global{placement = t.placement, sbp = "B"}:totable() end)
end

-- Returns a class of modules.
function tap.class(name, init, forward)
  local class = require("rille").nn.Module:extend(name)
  class.init, class.forward = init, forward
  return class
end

-- Returns the ranks {0, 1, ... n - 1}. tap.numel returns the number of elements of a shape.
function tap.ranks(n) return tap.list(n, function(i) return i - 1 end) end
function tap.numel(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

-- Returns a new empty folder, which done() removes. in_memory: true places the folder in shared memory, if the system has it.
local folders = {}
function tap.folder(in_memory)
  local path = os.tmpname()
  os.remove(path)
  if in_memory and io.open("/dev/shm") then path = path:gsub("^.*/", "/dev/shm/") end
  os.execute(("mkdir '%s'"):format(path))
  folders[#folders + 1] = path
  return path
end

-- Returns the content of a file.
function tap.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- Writes texts to a file. Returns its path.
function tap.write(path, ...)
  local file <close> = assert(io.open(path, "wb"))
  file:write(...)
  return path
end

-- Returns what a shell command prints, and its exit status.
function tap.output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  return text, select(3, pipe:close())
end

-- Returns the absolute path of the program rille that runs this test.
function tap.program()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  local path = arg[first]
  return path:find("^[^/].*/") and tap.output("pwd"):gsub("\n", "/") .. path or path
end

-- Runs a chunk in a new process. before: environment variables. Returns the output and the exit status. In the
-- output, the file of the chunk is called script.lua.
function tap.run(options, chunk, before)
  local path = tap.write(os.tmpname(), chunk)
  local text, code = tap.output(("%s '%s' --no-init %s '%s' 2>&1"):format(before or "", tap.program(), options, path))
  os.remove(path)
  text = text:gsub(path, "script.lua")
  return text, code
end

-- Returns two drawings of x:show(...): the text for a terminal with this number of columns, and the SVG.
function tap.drawn(x, columns, color, ...)
  local rille, plain, svg = require "rille", nil, nil
  local show = rille._show
  rille._show = function(_, make_svg, make_plain) svg, plain = make_svg(), make_plain(columns, color) end
  local good, why = pcall(x.show, x, nil, ...)
  rille._show = show
  assert(good, why)
  return plain, svg
end

-- Returns true in a build with ASan or TSan, which keep freed memory.
function tap.sanitized()
  for line in io.lines("/proc/self/maps") do
    if line:find("lib[at]san") then return true end
  end
  return false
end

-- Types lines at the prompt of a new process. Returns its output and exit status.
function tap.typed(options, lines)
  local path = tap.write(os.tmpname(), table.concat(lines, "\n"), "\n")
  local text, code = tap.output(("'%s' --no-init %s <%s 2>&1"):format(tap.program(), options, path))
  os.remove(path)
  return text, code
end

-- Ends the test. Prints a comment that lists the modules of Rille on which the test depends, for .ci/prove.
function tap.done()
  local loaded = {}
  for name in pairs(package.loaded) do loaded[#loaded + 1] = name:match("^rille%.(.+)") end
  table.sort(loaded)
  for _, path in ipairs(folders) do os.execute(("rm -rf '%s'"):format(path)) end
  io.write("1..", count, "\n# modules: ", table.concat(loaded, " "), "\n")
  os.exit(failed == 0, true)
end

return tap
