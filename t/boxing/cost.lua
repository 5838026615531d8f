-- cost.lua - tests that the path of a move depends on the costs of the machine: built-in costs, costs in a file, and
-- measured costs.

local tap = dofile("t/lib/tap.lua")

local function run(env, options) return (tap.output(("%s %s -d cpu:4 --no-init %s 2>&1"):format(env, tap.program(), options))) end
-- Returns the candidate paths of one move.
local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})
local two = rille.boxing{shape = {8, 8}, dtype = "f32", from = {placement = P22, sbp = {"S(0)", "S(1)"}},
                         to = {placement = P22, sbp = {"B", "B"}}}
tap.is(#two.candidates, 2, "an all-gather on two axes has two candidates: direct, and axis by axis")
local cheapest = true
for k = 2, #two.candidates do cheapest = cheapest and two.candidates[k - 1].ns <= two.candidates[k].ns end
tap.ok(cheapest, "the cheapest candidate comes first")
for _, c in ipairs(two.candidates) do
  tap.is(c.bytes, two.bytes, c.name .. " sends the same bytes")
  tap.is(c.layouts[#c.layouts], "(B, B)", "the last layout is the target")
end
tap.ok(tap.has(tostring(two), "chosen", "or", " via "), "the text shows both candidates")

-- Checks that the cost of a message, set in a file, decides the number of hops of this move.
local script, file = os.tmpname(), os.tmpname()
tap.write(script, [[
local P = rille.placement("cpu", {{0, 1}, {2, 3}})
local b = rille.boxing{shape = {8, 8}, from = {placement = P, sbp = {"S(0)", "S(1)"}},
                       to = {placement = P, sbp = {"B", "B"}}}
print(#b.candidates[1].layouts)]])
local function with_cost(text, of)
  tap.write(file, text)
  return run("RILLE_COST=" .. file, of or script)
end
tap.is(with_cost("alpha_ns 1e6\nhop_ns 0\n"), "2\n", "with expensive messages, the move takes two hops")
tap.is(with_cost("# here\nhop_ns 1e6\n"), "1\n", "with expensive hops, the move is direct")
tap.ok(tap.has(with_cost("beta 3\n"), ":1: unknown cost 'beta'"), "an unknown cost is refused with its line")
tap.ok(tap.has(with_cost("\27[2J 3\n"), "unknown cost '\\x1b[2J'"), "control characters in an error are escaped")
tap.ok(tap.has(run("RILLE_COST=/no/such", script), "costs: /no/such cannot be read: No such file"), "a missing file is refused")
tap.ok(tap.has(run("RILLE_COST=/dev/zero", script), "/dev/zero:1: expected the name of a cost"), "an endless file is refused")
tap.ok(tap.has(run("RILLE_COST=t", script), "costs: t cannot be read: Is a directory"), "a directory is refused")
tap.ok(tap.has(with_cost("alpha_ns 3 4\n"), "expected the name of a cost and a number"), "two numbers are refused")
tap.ok(tap.has(with_cost("hop_ns 1\n\nhop_ns 1\n"), ":3: hop_ns is given twice"), "a repeated cost is refused")
for _, n in ipairs{"-3", "nan", "-nan", "inf", "-inf", "1e999", "x", "3x"} do
  tap.ok(tap.has(with_cost("hop_ns " .. n .. "\n"), (":1: hop_ns must be a number from 0 to 1e+09, found '%s'"):format(n)), ("hop_ns %s is refused"):format(n))
end
tap.ok(tap.has(with_cost("hop_ns\n"), ":1: expected the name of a cost and a number"), "a missing number is refused")
tap.ok(tap.has(with_cost("hop_ns 1\nbeta_ns_per_byte 1e12\n"), ":2: beta_ns_per_byte must be a number from 0 to 1e+06, found '1e12'"),
  "a number that is too large is refused")
tap.ok(tap.has(with_cost("flops_per_ns 0\n"), ":1: flops_per_ns must be a number from 1e-06 to 1e+09, found '0'"), "zero flops are refused")
for _, n in ipairs{100, 199, 200, 201, 5000} do
  local line = "# " .. ("x"):rep(n)
  tap.is({with_cost(line .. "\nhop_ns 1e6" .. (" "):rep(n)), with_cost("hop_ns 1e6\n" .. line)}, {"1\n", "1\n"},
    ("comments and blanks of %d bytes are read"):format(n))
  tap.ok(tap.has(with_cost(line .. "\n" .. ("x"):rep(n) .. "\n"), ":2: "), "lines are counted")
end

-- Checks that the planner uses costs of computation from a file.
local planned = os.tmpname()
tap.write(planned, [[
local x = rille.ones({64, 64})
local step = rille.graph(function(x) return x:matmul(x):exp() end, {auto_parallel = true})
step(x)
print(step:explain().cost, math.floor(rille.whatif(step, {mesh = {1}}).step_time * 1e9 + 0.5))]])
local product, pass = 2 * 64 ^ 3, 2 * 4 * 64 * 64
tap.is(with_cost("flops_per_ns 0.5\nbytes_per_ns 0.25\n", planned),
  ("%d\t%d\n"):format(product / 0.5 + pass / 0.25 + 200, product / 0.5 + pass / 0.25 + 200), "costs of products, of element-wise passes and of acts are used")

-- Checks that the planner counts the bytes that a move sends as memory of the plan, even if moves take no time.
tap.write(planned, [[
local P = rille.placement("cpu", {0, 1, 2, 3})
local x = rille.ones({64, 64}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(x)
  return (x:to_global{placement = P, sbp = "S(1)"} * 2):to_global{placement = P, sbp = "S(0)"}
end, {auto_parallel = true, memory_limit = 10})
print(select(2, pcall(step, x)):match("the least possible is ([^;]+);"))]])
local free = ""
for _, name in ipairs{"alpha_ns", "beta_ns_per_byte", "gamma_ns_per_byte", "copy_ns_per_byte", "hop_ns", "wire_ns", "wire_ns_per_byte"} do
  free = free .. name .. " 0\n"
end
tap.is({with_cost("", planned), with_cost(free, planned)}, {"from 12288 to 16384\n", "from 12288 to 16384\n"}, "a free move adds the bytes of one that costs time")

-- Damages a file of costs at random. Rille must reject the file with an error that names it, or read the file and
-- plan with its costs.
do
  local absurd = os.tmpname()
  tap.write(absurd, [[
local P = rille.placement("cpu", {{0, 1}, {2, 3}})
local w = rille.ones({24, 16}, {placement = P, sbp = "auto", requires_grad = true})
local step = rille.graph(function(x) local y = x:matmul(w):softmax(1):square():sum(); y:backward(); w.grad = nil; return y end,
  {auto_parallel = true, time_limit = 5})
local y = step(rille.ones({32, 24}, {placement = P, sbp = {"S(0)", "B"}})):item()
local e, far = step:explain(), rille.whatif(step, {mesh = {64, 96}})
local path = os.tmpname()
step:certify(path)
rille.certificate(path)
os.remove(path)
print(math.abs(y - 2) < 1e-4 and e.bound >= 0 and e.bound <= e.cost and far.bound <= far.cost and "fine")]])
  local names = {alpha_ns = {0, 1e9}, beta_ns_per_byte = {0, 1e6}, gamma_ns_per_byte = {0, 1e6}, copy_ns_per_byte = {0, 1e6},
    hop_ns = {0, 1e9}, wire_ns = {0, 1e9}, wire_ns_per_byte = {0, 1e6}, staging_bytes = {0, 1e15}, flops_per_ns = {1e-6, 1e9},
    bytes_per_ns = {1e-6, 1e9}}
  local least, most, lines = {}, {}, {}
  for name, range in pairs(names) do
    least[#least + 1], most[#most + 1] = ("%s %g"):format(name, range[1]), ("%s %g"):format(name, range[2])
    lines[#lines + 1] = ("%s %g"):format(name, math.min(range[2], 0.25 + range[1]))
    for k = 1, 2 do
      tap.is(with_cost(least[#least]:gsub(" .*", " ") .. range[k] .. "\n", absurd), "fine\n", ("%s = %g, a limit of the range: plan, bound and proof are right"):format(name, range[k]))
    end
  end
  tap.is({with_cost(table.concat(least, "\n"), absurd), with_cost(table.concat(most, "\n"), absurd)}, {"fine\n", "fine\n"}, "all costs at their minimum, and all at their maximum")
  -- sorts the lines, because pairs() has another order in each process, and the seed alone must decide the damage
  table.sort(lines)
  local whole, seed = table.concat(lines, "\n") .. "\n", tap.seed(1)
  math.randomseed(seed)
  local read, wrong = 0, nil
  for _ = 1, os.getenv("RILLE_LONG") and 1000 or 60 do
    local text = whole
    for _ = 1, math.random(1, 3) do
      local at, method = math.random(#text), math.random(4)
      if method == 1 then text = text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + 1)
      elseif method == 2 then text = text:sub(1, at)
      elseif method == 3 then text = text:sub(1, at - 1) .. text:sub(at + math.random(6))
      else text = text:sub(1, at) .. ("0123456789e+-.# \nnaif"):sub(math.random(20)) .. text:sub(at + 1) end
      if #text == 0 then text = "\n" end
    end
    local said = with_cost(text, absurd)
    read = read + (said == "fine\n" and 1 or 0)
    if said ~= "fine\n" and not said:find(file, 1, true) then wrong = wrong or ("%q: %s"):format(text, said) end
  end
  tap.ok(not wrong, "damaged files are read or refused by name", wrong)
  tap.ok(read > 0 and read < 60 or os.getenv("RILLE_LONG"), "some damaged files are read", read)
  os.remove(absurd)
end

-- Checks that measured costs are saved, and that the next process reads them.
if tap.share(1) then tap.group("--calibrate", function()
  local home = os.tmpname()
  os.remove(home)
  local reported = run("XDG_CONFIG_HOME=" .. home, "--calibrate")
  tap.ok(tap.has(reported, "was", "ns per message", "saved to " .. home .. "/rille/cost"), "--calibrate measures and reports", reported)
  local kept = tap.read(home .. "/rille/cost")
  tap.ok(tap.has(kept, "alpha_ns ", "beta_ns_per_byte ", "gamma_ns_per_byte ", "hop_ns ", "flops_per_ns ", "bytes_per_ns "), "measured costs are saved", kept)
  tap.write(home .. "/rille/cost", "alpha_ns 1e6\nhop_ns 0\n")
  tap.is(run("RILLE_COST= XDG_CONFIG_HOME=" .. home, script), "2\n", "saved costs are used at the next start")
  os.execute("rm -r " .. home)
end) end
os.execute("rm -r " .. table.concat({script, planned, file}, " "))

tap.done()
