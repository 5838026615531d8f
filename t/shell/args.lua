-- Tests of lua/args.lua: options parsed from command lines, and messages about wrong options. Each case runs in a new
-- process, because a wrong command line ends the process.

local t = dofile("t/lib/tap.lua")

local child = os.tmpname()
t.write(child, [[
local o = rille.args(arg, {"from", "to", layout = "dp", epochs = 40, lr = 0.5, plain = false})
local words = {}
for _, name in ipairs{"from", "to", "layout", "epochs", "lr", "plain"} do words[#words + 1] = tostring(o[name]) end
assert(#o == 0)
print(table.concat(words, " "))
]])

local function run(words)
  return t.output(("'%s' -d cpu:1 --no-init %s %s 2>&1"):format(t.program(), child, words))
end

local usage = ("usage: %s FROM TO [--epochs 40] [--layout dp] [--lr 0.5] [--plain]\n"):format(child)
local wrong = function(text) return ("%s: %s\n%s"):format(child, text, usage), 2 end
local cases = {
  {"a b", "a b dp 40 0.5 false\n"},
  {"a b --layout tp --epochs=3 --lr 2 --plain", "a b tp 3 2 true\n"},
  {"--plain a --layout tp b", "a b tp 40 0.5 true\n"},
  {"a --layout b c", "a c b 40 0.5 false\n"},
  {"a b --lr -1", "a b dp 40 -1 false\n"},
  {"--help", usage},
  {"a --help", usage},
  {"", wrong("missing argument FROM")},
  {"a", wrong("missing argument TO")},
  {"a --plain", wrong("missing argument TO")},
  {"a b c", wrong("unknown option c")},
  {"a b --model x", wrong("unknown option --model")},
  {"--model x", wrong("unknown option --model")},
  {"a -b", wrong("unknown option -b")},
  {"a b --from c", wrong("unknown option --from")},
  {"a b --1 c", wrong("unknown option --1")},
  {"a b --lr", wrong("--lr needs a value")},
  {"a b --epochs 1.5", wrong("--epochs must be an integer, found '1.5'")},
  {"a b --lr x", wrong("--lr must be a number, found 'x'")},
  {"a b --plain=no", wrong("--plain must not have a value")},
  {"a b --plain=", wrong("--plain must not have a value")},
}
for _, case in ipairs(cases) do
  local text, code = run(case[1])
  t.is(text, case[2], ("'%s' is parsed, or gives the right message"):format(case[1]))
  t.is(code, case[3] or 0, ("'%s' ends with %d"):format(case[1], case[3] or 0))
end
os.remove(child)
t.done()
