-- train.lua - a progress line for training, and an early check that results can be saved.
--
--   local line = rille.train.progress{total = 800, step = step}
--   line:update(i, loss, 64)          step 12/800  loss 1.2345  84210 samples/s  busy 87 %
--   line:finish()
--   rille.train.report{step = i, loss = loss, samples = 64}     numbers for monitors and the log; update() does this, too
--   rille.train.saves_to("runs/a", "checkpoints")     before training
--   rille.train.exit_if_stopping("runs/a", {model = net, optimizer = opt, data = data, step = i})   after each step
--
--   rille.train.elastic{steps = 800, make = make, step = step}     continues when workers are lost or join (elastic.lua)
--
--   local note = rille.train.resume{model = net, optimizer = opt}  continues from the snapshot of a lost controller (resume.lua)
--
--   local guard = rille.train.replicas{every = 100}          before training
--   i = guard:after(i)                                       after step i: the next step, or an earlier one
--
-- With `flops`, the flops per sample of forward and backward, the line also shows the model flops utilisation (MFU).
-- The peak rate is measured once, with a large product. `unit` replaces the word "samples". If devices wait for each
-- other in a step, the line also shows their idle share (bubble).
--
-- On a terminal the line is overwritten, at most ten times per second. In a file or pipe, a line is printed per tenth
-- of the total.

local rille = require "rille"
local check = require "rille.base.check"

local train = {elastic = require "rille.elastic", resume = require "rille.resume"}

-- Passes numbers to monitors (rille --metrics) and to the log (rille --log). A number is kept until the next report
-- of the same name; the numbers `samples` are summed.
function train.report(numbers)
  local who = "train.report"
  check.that(type(numbers) == "table", "%s: expected a table of numbers, {step =, loss =, samples =}, found %s", who, check.shown(numbers))
  local names, values = {}, {}
  for name, value in pairs(numbers) do
    check.that(type(name) == "string" and name:find("^[%a_][%w_]*$") and #name < 48,
      "%s: a name must consist of up to 47 letters, digits and underscores, found %s", who, check.shown(name))
    check.that(type(value) == "number", "%s: %s must be a number, found %s", who, name, check.shown(value))
    check.that(name ~= "samples" or value >= 0, "%s: samples must be at least 0, because they are added up; found %s", who, check.shown(value))
    names[#names + 1], values[#values + 1] = name, value
  end
  if rille._report then
    check.that(rille._report(names, values, "samples"), "%s: a program may report at most 64 names", who)
  end
end

local methods = {}

local function check_step(who, step)
  local meta = type(step) == "userdata" and debug.getmetatable(step)
  check.that(step == nil or meta and meta.__name == "rille.graph", "%s: step must be a compiled step of rille.graph, found %s", who,
    check.shown(step))
end

-- Returns the share of device time spent on work in the last run of a compiled step; nil: no step was given.
local function busy_share(step)
  check_step("train.busy_share", step)
  if not step then return nil end
  local stats = step:stats()
  if stats.step_time <= 0 then return nil end
  local busy = 0
  for _, device in ipairs(stats.devices) do busy = busy + device.busy end
  return busy / (#stats.devices * stats.step_time)
end
train.busy_share = busy_share

local peak

-- Returns the peak flops per second of matrix products on the default device: the best of several sizes. Large
-- products use all cores; small products are interrupted less often by other programs. The rate is measured on the
-- first call.
function train.peak()
  if peak then return peak end
  local product, best = rille.graph(function(x, y) return rille.matmul(x, y) end), 0
  for _, n in ipairs{256, 512, 1024} do
    local a, b = rille.rand{n, n}, rille.rand{n, n}
    product(a, b)
    for _ = 1, 5 do
      local start = rille.clock()
      product(a, b)
      best = math.max(best, 2.0 * n * n * n / (rille.clock() - start))
    end
  end
  peak = best
  return peak
end

local function bubble_of(step)
  local stats = step and step:stats()
  return stats and #stats.devices > 1 and stats.bubble or nil
end

local function text_of(self, at, loss, now)
  local speed = self.samples / (now - self.start)
  local text = ("step %d/%d  loss %.4f  %.0f %s/s"):format(at, self.total, loss, speed, self.unit)
  if self.flops then text = ("%s  MFU %.0f %%"):format(text, 100 * speed * self.flops / train.peak()) end
  local busy, bubble = busy_share(self.step), bubble_of(self.step)
  if busy then text = ("%s  busy %.0f %%"):format(text, 100 * busy) end
  return bubble and ("%s  bubble %.0f %%"):format(text, 100 * bubble) or text
end

-- Reports the end of step `at` (from 1), which processed `samples` samples.
function methods:update(at, loss, samples)
  local who = "train.progress:update"
  check.whole(who, "the step", at, 0)
  check.that(type(loss) == "number", "%s: loss must be a number, found %s", who, check.quoted(loss))
  check.number(who, "the number of samples", samples, 0)
  local now = rille.clock()
  self.samples = self.samples + samples
  train.report{step = at, loss = loss, samples = samples}
  local due = at == self.total
  if self.terminal then
    due = due or now - self.shown >= 0.1
  else
    due = due or at * 10 // self.total > (at - 1) * 10 // self.total
  end
  if not due then return end
  self.shown = now
  self.file:write(self.terminal and "\r\27[K" or "", text_of(self, at, loss, now), self.terminal and "" or "\n")
  self.file:flush()
end

-- Ends the progress line, which stays on the screen.
function methods:finish()
  if self.terminal then self.file:write("\n") end
end

function train.progress(given)
  local self = check.options("train.progress", given, {total = check.none, step = check.none, file = io.stderr,
    unit = "samples", flops = check.none})
  check.count("train.progress", "total", self.total)
  check_step("train.progress", self.step)
  check.text("train.progress", "unit", self.unit)
  local file = self.file
  check.that(io.type(file) == "file" or type(file) == "table" and type(file.write) == "function" and type(file.flush) == "function",
    "train.progress: file must be an open file, found %s", check.shown(self.file))
  if self.flops then
    check.number("train.progress", "flops", self.flops, 0)
    train.peak()
  end
  self.terminal = self.file == io.stderr and rille.is_terminal(2)
  self.samples, self.start, self.shown = 0, rille.clock(), 0
  return setmetatable(self, {__index = methods})
end

-- Checks, before training, that results can be saved at `path`; otherwise raises an error with the user's line. kind:
-- "file", the "folder" of a model, a "picture" of rille.plot, or "checkpoints". For "checkpoints" the folder is
-- created and reserved for this session (checkpoint.lua). Existing files are not changed.
local kinds = {file = "file", folder = "folder", picture = "file", checkpoints = "checkpoints"}
function train.saves_to(path, kind)
  local who = "train.saves_to"
  path = rille._path(check.path(who, "the name of a file or of a folder", path), true)
  check.that(kind == nil or kinds[kind], "%s: kind must be \"file\", \"folder\", \"picture\" or \"checkpoints\", found %s", who, check.shown(kind))
  if kind == "picture" then check.picture(who, path) end
  rille._may_save(who, path, kinds[kind or "file"])
  return path
end

-- Ends the program if the job was asked to stop (stopping.lua), after a checkpoint in the folder `dir`, if given. The
-- exit code tells a scheduler to run the job again; the default is EX_TEMPFAIL.
function train.exit_if_stopping(dir, parts, options)
  local who = "train.exit_if_stopping"
  local o = check.options(who, options, {code = 75, keep = check.none})
  check.whole(who, "code", o.code, 0)
  check.that(o.code <= 255, "%s: code must be at most 255, found %s", who, check.shown(o.code))
  check.that((dir == nil) == (parts == nil), "%s: expected a folder and a table {model =, optimizer =, ...}, or neither, found %s and %s",
    who, check.shown(dir), check.shown(parts))
  local why = rille.stopping()
  if not why then return end
  if dir then rille.checkpoint.save(dir, parts, {keep = o.keep}) end
  io.stderr:write(("rille: stops (%s)%s; exit code %d\n"):format(why, dir and ", checkpoint saved to " .. dir or "", o.code))
  os.exit(math.tointeger(o.code), true)
end

-- ---- comparing the replicas of variables ----

local guards = {}

local function keep(self, step)
  rille.snapshot({step = step}, {keep = self.checked and 2 or 1})
  local wrong = rille._compare_replicas()
  self.checked, self.failed = step, nil
  if wrong then io.stderr:write(("rille: train.replicas: wrong bits were computed by %s\n"):format(wrong)) end
end

-- Called after step `step` (from 1). Every `every` steps, compares the replicas of all variables. Returns the next step.
-- If replicas differ, restores the last snapshot whose replicas were equal, and returns the step after it.
function guards:after(step)
  check.whole("train.replicas:after", "the step", step, 0)
  if step < self.checked + self.every then return step + 1 end
  local good, why = pcall(keep, self, step)
  if good then return step + 1 end
  if not tostring(why):find("replicas of", 1, true) or self.failed == step then error(why, 0) end
  self.failed = step
  local back = rille.recover().step + 1
  io.stderr:write(("rille: train.replicas: %s; repeats steps %d to %d\n"):format(why, back, step))
  return back
end

function train.replicas(options)
  local self = check.options("train.replicas", options, {every = 100, step = 0})
  check.count("train.replicas", "every", self.every)
  check.whole("train.replicas", "step", self.step, 0)
  keep(self, self.step)
  return setmetatable(self, {__index = guards})
end

check.strict("train.replicas", guards, true)
check.strict("train.progress", methods, true)
return check.names("train", train)
