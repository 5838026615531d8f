#!/bin/bash
# transfer.sh - tests a session with devices that cannot read each other's memory: values, gradients and compiled steps
# move between device kinds, and plan, explain, stats and :actors report the transfers.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/test.lua" <<'EOF'
local tap = dofile("t/lib/tap.lua")
local cpu, late = rille.placement("cpu", {0, 1}), rille.placement("async", {0, 1})
local SBP = {"S(0)", "S(1)", "B", "P"}

local x = rille.arange(24):reshape{4, 6}
for _, from in ipairs(SBP) do
  for _, to in ipairs(SBP) do
    local there = x:to_global{placement = cpu, sbp = {from}}:to_global{placement = late, sbp = {to}}
    local back = (there * 3):to_global{placement = cpu, sbp = {from}}
    tap.is({there:totable(), back:totable()}, {x:totable(), (x * 3):totable()}, from .. " on cpu moves to " .. to .. " on async devices, and back")
  end
end

rille.manual_seed(1)
local batch = rille.randn{8, 6}
local first, second = rille.randn{6, 4}, rille.randn{4, 2}
-- Builds a network whose second layer is on other devices. Returns its loss and gradients, the compiled step, and the
-- input.
local function run(other)
  local a = first:to_global{placement = cpu, sbp = {"B"}}:detach():requires_grad_(true)
  local b = second:to_global{placement = other, sbp = {"B"}}:detach():requires_grad_(true)
  local input = batch:to_global{placement = cpu, sbp = {"S(0)"}}
  local function loss(input)
    return input:matmul(a):relu():to_global{placement = other, sbp = {"S(0)"}}:matmul(b):tanh():sum()
  end
  local l = loss(input)
  l:backward()
  local step = rille.graph(function(input)
    local l = loss(input)
    return l, rille.grad(l, {a, b})
  end)
  return {l:item(), a.grad:totable(), b.grad:totable()}, step, input
end
local want = run(rille.placement("cpu", {2, 3}))
local got, step, input = run(late)
tap.is(got, want, "loss and gradients across device kinds equal those of one kind, bit by bit")
local l, ga, gb = step(input)
tap.is({l:item(), ga:totable(), gb:totable()}, want, "loss and gradients of a compiled step are equal, too")
tap.is({tostring(ga.placement), tostring(gb.placement)}, {"cpu[0, 1]", "async[0, 1]"}, "each gradient has its parameter's placement")

local transfers = {}
for _, a in ipairs(step:actors()) do
  if a.name == "transfer" then transfers[#transfers + 1] = a end
end
tap.ok(#transfers >= 4 and transfers[1].device == "async:0" and transfers[1].bytes > 0, "actors of a step include transfers with their bytes")
local bytes = {}
for _, d in ipairs(step:stats().devices) do bytes[d.device] = d.bytes_in end
tap.ok(bytes["async:0"] > 0 and bytes["cpu:0"] > 0, "stats: both kinds received bytes")

local y = x:to_global{placement = cpu, sbp = {"S(0)"}}:to_global{placement = late, sbp = {"S(1)"}}
local plan, explain = tostring(rille.plan(y)), tostring(rille.explain(y))
tap.ok(plan:find("transfer cpu %-> async%s+async%[0%-1%]%s+i64{6}%s+48 B"), "plan shows the transfer and its bytes")
tap.ok(explain:find("S(0) on cpu[0, 1] -> S(1) on async[0, 1]: exchange, 192 bytes (least possible 192), by transfers", 1, true),
  "explain says that the move uses transfers")
tap.done()
EOF
"$1" -d cpu:4,async:2 "$folder/test.lua" | sed 's/^1\.\.23$//'

printf '%s\n' 'x = rille.ones({8}, {placement = rille.placement("cpu", {0, 1}), sbp = {"S(0)"}})' \
  'print(x:to_global{placement = rille.placement("async", {0, 1}), sbp = {"B"}}:totable()[8])' ':actors' >"$folder/lines"
text=$("$1" -i --no-init -d cpu:2,async:2 <"$folder/lines" 2>&1)
if grep -Eq '^ +transfer +async:0 .*1 of 1 ' <<<"$text"; then echo "ok 24 - :actors names the transfers"; else
  echo "not ok 24 - :actors names the transfers"; sed 's/^/# /' <<<"$text"; fi
echo 1..24
