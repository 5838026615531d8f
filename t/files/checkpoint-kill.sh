#!/bin/bash
# Kills a training (signal 9) at random moments, mostly while it saves, and restarts it each time. The training must
# end with the same bits as an uninterrupted training. After each kill, the newest checkpoint in the folder must be
# complete. Run: checkpoint-kill.sh path/to/rille. SEED= repeats the moments; RILLE_LONG=1 continues until a hundred
# kills have hit a save.
rille=$1 seed=$((${SEED:-$$} % 32768)) times=8
RANDOM=$seed
[ -n "${RILLE_LONG:-}" ] && times=100
. t/lib/tap.sh
echo "# SEED=$seed"
cat >"$dir/train.lua" <<'LUA'
local folder, steps = arg[1], tonumber(arg[2])
local nn = rille.nn
rille.manual_seed(1)
local P = rille.placement("cpu", {0, 1})
local net = nn.Sequential(nn.Linear(16, 256), nn.Dropout(0.1), nn.Linear(256, 16))
net:to_global{placement = P, sbp = "B"}
local opt = rille.optim.AdamW(net:parameters(), {lr = 1e-3})
local x = rille.rand({64, 16}, {placement = P, sbp = "B"})
local data = rille.data.loader{x, batch = 8, shuffle = true, seed = 3, sbp = "S(0)"}
local step = rille.graph(function(b)
  local loss = net(b):mse_loss(b)
  loss:backward(); opt:step(); opt:zero_grad()
  return loss
end)
local parts, first = {model = net, optimizer = opt, data = data}, 0
local there, why = pcall(rille.checkpoint.load, folder, parts)
if there then first = why elseif not why:find("No such file") and not why:find("no checkpoint") then error(why) end
for i = first + 1, steps do
  local loss = step(data:next()):item()
  parts.step = i
  rille.checkpoint.save(folder, parts, {async = i % 2 == 0, keep = 2})
  parts.step = nil
end
print(net:parameters()[1]:sum():item(), step(data:next()):item(), rille.rand({}):item())
LUA
train() { exec "$rille" -d cpu:2 "$dir/train.lua" "$dir/$1" "$2"; }


steps=40
want=$(train whole $steps)
killed=0 torn=0 bad=0
# counts only kills before the end of the training; RILLE_LONG continues until a hundred kills have left an incomplete
# save
while [ $killed -lt $times ] || [ -n "${RILLE_LONG:-}" -a $torn -lt $times ]; do
  train broken $steps >"$dir/out" 2>"$dir/err" &
  pid=$!
  sleep "0.$(printf %03d $((30 + RANDOM % 200)))"
  kill -9 $pid 2>/dev/null && killed=$((killed + 1))
  wait $pid 2>/dev/null
  [ -s "$dir/err" ] && { bad=1; sed 's/^/# /' "$dir/err"; }
  ls "$dir/broken" 2>/dev/null | grep -q "\.tmp$" && torn=$((torn + 1))
  # deletes the checkpoints of a training that has finished, so that the next training starts from the beginning
  ls "$dir/broken" 2>/dev/null | grep -q "step-$steps.safetensors" && rm -rf "$dir/broken"
done
ok "after each of $killed kills, $torn during a save, the training resumes from a complete checkpoint" [ $bad = 0 ]
got=$(train broken $steps)
[ "$got" = "$want" ]
ok "the resumed training ends with the same bits ($got)" [ $? = 0 ]
[ "$(ls -A "$dir/broken" | wc -l)" -le 2 ]
ok "no incomplete file is left" [ $? = 0 ]
finish
