-- cluster_view.lua - tests the prompt's commands :whos, :mem, :actors, :top and :doctor, which show tensors, memory,
-- actors, and this machine.

local tap = dofile("t/lib/tap.lua")
local whos, actors_text = require "rille.show.whos", require "rille.show.actors"

-- Types these lines at the prompt and returns the program's output.
local function typed(options, ...) return tap.typed("-d cpu:4 " .. options, {...}) end

local P = rille.placement("cpu", {0, 1, 2, 3})
local net = rille.nn.Linear(16, 4)
local opt = rille.optim.Adam(net:parameters(), {lr = 0.1})
net(rille.ones{2, 16}):sum():backward()
opt:step()
local x, y = rille.ones({1024, 4}, {placement = P, sbp = "S(0)"}), rille.ones({1024}, {placement = P})
x:sum():item() y:sum():item()

tap.group(":whos", function()
  local text = whos.whos({{"net", net}, {"x", x}, {"y", y}, {"P", P}, {"n", 3}, {"s", "te\nxt"}, {"f", print}, {"t", {1, 2}}}, 100)
  tap.ok(tap.has(text, "module of 68 parameters", "272 B"), ":whos shows parameters and bytes of a module")
  tap.ok(tap.has(text, "f32 {1024, 4} S(0)", "cpu[0-3]", "16 KiB"), ":whos counts the bytes of a split tensor once")
  tap.ok(tap.has(text, "f32 {1024} B"), ":whos shows a replicated tensor")
  tap.ok(text:find("y .-B .-16 KiB"), ":whos counts the bytes of a replicated tensor once per rank")
  tap.ok(tap.has(text, '"te', "table of 2", "function") and not text:find("0x"), ":whos shows other values without addresses")
  for line in text:gmatch("[^\n]+") do tap.ok(utf8.len(line) <= 100, "a line of :whos has at most 100 columns") end
  local class = rille.nn.Module:extend("Net")
  text = whos.whos({{"class", class}, {"P", P}, {"umlauts", ("ä"):rep(50)}, {"bytes", "\27[31m\200"}}, 100)
  tap.ok(text:find("class +class") and text:find("P +cpu%[0%-3%]"), ":whos shows a class as a class, and a placement in short form", text)
  tap.ok(tap.has(text, '"' .. ("ä"):rep(37) .. '"...', "\\27[31m") and not text:find("\27"), ":whos truncates texts between characters and escapes control characters", text)
  -- Makes a user's table whose metamethods fail, because metamethods may do or return anything.
  local bad, hostile = function() error("refused") end, {}
  for _, event in ipairs{"__index", "__len", "__pairs", "__tostring", "__call", "__eq", "__name", "__methods", "__metatable"} do
    for k, value in ipairs{bad, "text", 5, function() return 5 end} do hostile[#hostile + 1] = {event .. k, setmetatable({x}, {[event] = value})} end
  end
  for _, entry in ipairs(hostile) do
    for _, command in ipairs{function() return whos.whos({entry}, 100) end, function() return whos.mem({entry}, 0, 100) end} do
      local good, why = pcall(command)
      tap.ok(good, ":whos and :mem list a table with the metamethod " .. entry[1], why)
    end
  end
  for _, columns in ipairs{40, 60} do
    local widest = 0
    for line in whos.whos({{"net", net}, {"x", x}}, columns):gmatch("[^\n]+") do widest = math.max(widest, utf8.len(line)) end
    tap.ok(widest <= columns, (":whos fits into %d columns"):format(columns), widest)
  end
end)

tap.group(":mem", function()
  local text = whos.mem({{"net", net}, {"opt", opt}, {"x", x}}, 0, 100)
  tap.ok(tap.has(text, "cpu:0", "plans", "at most") and not text:find("limit"), ":mem lists each device, and no limit if none is set")
  tap.ok(text:find("x .-16 KiB"), ":mem shows the bytes of a tensor")
  tap.ok(text:find("net +module +272 B"), ":mem shows the parameters of a module")
  tap.ok(text:find("net +gradients +272 B"), ":mem shows the gradients of a module")
  tap.ok(text:find("opt +optimiser's state +544 B"), ":mem shows the state of an optimiser")
  tap.ok(not text:find("brackets"), ":mem shows no brackets if all values are in memory")
  local later = rille.ones{512, 512} * 2
  text = whos.mem({{"later", later}, {"x", x}, {"both", {later + 1, x + 0}}}, 0, 40)
  tap.ok(text:find("later .-%(1.0 MiB%)") and text:find("x .-16 KiB\n"), ":mem shows pending values in brackets", text)
  tap.ok(text:find("in brackets: not in memory, computed when read", 1, true), ":mem explains the brackets")
  tap.ok(text:find("later .-%(1.0 MiB%)") > text:find("x .-16 KiB"), ":mem lists pending values last")
  later:sum():item()
  later:sum():item() -- the second read keeps the value; the first one only computes it
  tap.ok(whos.whos({{"later", later}}, 40):find(" 1.0 MiB\n"), ":mem shows a computed value without brackets")
  for columns = 40, 120, 20 do
    for line in whos.mem({{"later", later}, {"opt", opt}}, 0, columns):gmatch("[^\n]+") do
      tap.ok(not line:find("%d%.%.") and (not line:find("MiB  ") or #line <= columns), ("no amount is truncated in %d columns"):format(columns), line)
    end
  end
end)

tap.group(":actors", function()
  local step = rille.graph(function(a) return (a * 2):sum() end, {micro_batches = 2})
  tap.fails(function() step:actors() end, "call the step first", "a step that was not called has no actors")
  step(rille.ones{4, 4})
  local list = step:actors()
  tap.ok(#list >= 2 and list[1].begun == list[1].acts and list[1].state == "done", "each actor has done all its acts")
  tap.ok(list[1].line:find("cluster_view.lua:%d+"), "each actor has the user's line")
  local text = actors_text(list, 100)
  tap.ok(tap.has(text, "done", "2 of 2", "cpu:0", "cluster_view.lua"), "actors are printed as a table")
  -- Checks :actors after a failed run: it must show the act at which each actor stopped.
  local failing = rille.graph(function(ids, t) return rille.embedding(ids, t):exp():sum() end)
  tap.fails(function() failing(rille.tensor({9}, {dtype = "i64"}), rille.ones{4, 4}):item() end, "embedding", "a run that fails")
  local waiting = tap.list(failing:actors(), function(a) return a.state:find("^waits for") and a.state end)
  tap.ok(table.concat(waiting):find("waits for embedding %(.-:%d+%) on cpu:0"), "leaves actors that wait for missing inputs", table.concat(waiting, "; "))
  -- Makes a run fail in the middle of a pipeline. The first stage then waits for registers that its backward has not
  -- released yet.
  local P0, P1 = rille.placement("cpu", {0}), rille.placement("cpu", {1})
  local x, w = rille.ones({8, 64}, {placement = P0}), rille.ones({64}, {placement = P0, requires_grad = true})
  local pipe = rille.graph(function(x)
    return tap_backward((x * w):exp():to_global{placement = P1, sbp = "B"}:sin():sum())
  end, {micro_batches = 8, schedule = "1f1b"})
  rille._slow_op("sin", 0.05)
  rille._fail_act(40)
  tap.fails(function() pipe(x):item() end, "made to fail", "a run that fails in its middle")
  rille._slow_op("sin", 0)
  local states = tap.list(pipe:actors(), function(a) return a.name .. ": " .. a.state end)
  tap.ok(table.concat(states, "\n"):find("mul%+exp: waits for [^\n]- on cpu:%d to read one of its %d registers"),
    "leaves an actor that waits for a register, and names the reader", table.concat(states, "; "))
  tap.is(actors_text({}, 80):find("no plan has run") ~= nil, true, "without a plan the text says that no plan has run")
end)

tap.group(":explain and :plan", function()
  local Q = rille.placement("cpu", {0, 1})
  local w = rille.randn({8, 8}, {placement = Q, sbp = "S(0)", requires_grad = true})
  for _, pieces in ipairs{1, 2, 4} do
    local step = rille.graph(function(a) return tap_backward(a:matmul(w):mean()) end, {micro_batches = pieces})
    step(rille.ones({8, 8}, {placement = Q, sbp = "S(0)"}))
    local e, plan, received = step:explain(), tostring(step:plan()), 0
    for _, d in ipairs(step:stats().devices) do received = received + d.bytes_in end
    tap.is({e.bytes, math.tointeger(plan:match("moved (%d+) B")), received}, {e.bytes, e.bytes, e.bytes},
      ("with %d micro-batches explain, plan and stats report the same bytes"):format(pieces))
    local text = tostring(e)
    if pieces > 1 then
      tap.ok(tap.has(text, "bytes per micro-batch", ("%d times per batch"):format(pieces), "bytes moved per batch"), "explain reports bytes per micro-batch and per batch")
      tap.ok(tap.has(plan, "B per micro-batch", "B per batch", ("moved %d B per batch"):format(received)), "plan reports bytes per micro-batch and per batch")
    else
      tap.ok(not text:find("batch") and not plan:find("per micro%-batch"), "with one micro-batch the texts do not mention batches")
    end
  end
end)

tap.group("typed commands", function()
  local text = typed("-i", "x = rille.ones{3}", ":whos", ":mem", "x:sum():item()", ":actors", ":top x:exp():sum():item()", ":actors 3", ":top")
  tap.ok(tap.has(text, "f32 {3} B", "1 of 1", "plans stored 1, compiled 1", "2 actors"), "all commands print their tables")
  tap.ok(text:find("8.15") and text:find("%d+%.%d s"), ":top EXPR prints the value and the time")
  tap.ok(tap.has(text, ":actors: expected a compiled step"), "a command with a wrong argument says what it expects")
  tap.ok(text:find("cpu:0 .- MiB live .-idle") and text:find("runs +%d+ .-per second"), ":top alone shows devices and counts once, without a terminal")
  text = typed("-i", ":top error('no')", "1 + 1")
  tap.ok(tap.has(text, "no", "2"), "an error under :top is reported, and the prompt returns")
end)

tap.group("rille --doctor", function()
  local text, code = typed("--doctor")
  tap.is(code, 0, "exits with 0")
  tap.ok(tap.has(text, "devices", "cpu:4", "launcher", "cores"), "reports devices, launcher and cores")
  local facts = rille.json.decode((typed("--doctor --json")))
  tap.is({facts.devices, facts.workers, facts.rille}, {"cpu:4", 0, rille._VERSION}, "prints the facts as JSON, too")
  local text = tap.output("SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0 " .. tap.program() .. " -d cpu:1 --doctor --json 2>&1")
  tap.ok(tap.has(text, "launcher"), "works under a launcher of one process, too")
end)

tap.done()
