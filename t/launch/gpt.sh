#!/bin/bash
# gpt.sh path/to/rille - trains a small GPT in all layouts, over processes and simulated hosts. Each step must give
# the same bits as in one process. Prints TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cd "$dir" || exit 2

cat >gpt.lua <<'LUA'
local four = rille.placement("cpu", {0, 1, 2, 3})
local mesh = rille.placement("cpu", {{0, 1}, {2, 3}})
local pair = {rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})}
local single = rille.placement("cpu", {0})
local layouts = {
  single = {single, {}}, dp = {four, {data = 0}}, tp = {four, {tensor = 0}}, ["dp-tp"] = {mesh, {data = 0, tensor = 1}},
  pp = {pair[1], {data = 0, stages = pair}, 2}, ["pp-tp"] = {pair[1], {tensor = 0, stages = pair}, 2},
}
local P, how, pieces = table.unpack(layouts[arg[1]])
rille.manual_seed(5)
local model = rille.models.gpt2.new{vocab = 31, length = 8, layers = 2, heads = 4, width = 16, placement = P}
rille.parallel(model, how)
local x, y = rille.parallel.input(model), rille.parallel.labels(model)
local opt = rille.optim.AdamW(model:parameters(), {lr = 0.01})
local step = rille.graph(function(ids, labels)
  local loss = model(ids):reshape{-1, 31}:cross_entropy(labels:reshape{-1})
  loss:backward() opt:step() opt:zero_grad()
  return loss
end, pieces and {micro_batches = pieces, schedule = "1f1b"} or {})
local ids, labels = {}, {}
for row = 1, 8 do
  ids[row], labels[row] = {}, {}
  for i = 1, 8 do ids[row][i], labels[row][i] = (row + i * 7) % 31, (row + i * 7 + 7) % 31 end
end
local a = rille.tensor(ids, {dtype = "i64", placement = x.placement, sbp = x.sbp})
local b = rille.tensor(labels, {dtype = "i64", placement = y.placement, sbp = y.sbp})
for _ = 1, 4 do print(("%a"):format(step(a, b):item())) end
LUA
for layout in single dp tp dp-tp pp pp-tp; do
  want=
  for shape in "1 4 1" "2 2 1" "4 1 1" "2 2 2" "4 1 2"; do
    share || continue
    if [ -z "$want" ]; then
      go -d cpu:4 gpt.lua $layout
      want=$stdout
      ok "one process trains a GPT in $layout for four steps" [ "$code $(wc -l <out)" = "0 4" ]
    fi
    read -r workers devices hosts <<<"$shape"
    RILLE_HOSTS=$hosts go launch -n "$workers" -d "cpu:$devices" gpt.lua $layout
    is "a GPT in $layout on $workers x $devices of $hosts hosts gives the bits of one process" "$stdout" "$want"
  done
done
finish
