#!/bin/bash
# cuda.sh - tests workers with GPUs and a controller without GPUs. The real plug-in runs in each worker, on a stand-in
# for CUDA (t/host/toolkit.c). Run: cuda.sh path/to/rille; prints TAP.
own=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD rille=$1
. t/lib/processes.sh
. t/lib/kernel/toolkit.sh
export FAKE_CUDA=gpus=4,memory=2000000000

# ---- a controller without GPUs reports the GPUs of its workers ----

facts='local n = 0
  local function tell(i)
    local d = rille.device_info("cuda", i)
    print(d.name, d.memory, d.capability, (d.kernels:gsub(", .*", "")))
  end
  while pcall(tell, n) do n = n + 1 end
  print(select(2, pcall(rille.device_info, "cuda", n)))'
go launch -n 2 -d cuda:1,cuda:3x2,cpu:1 -e "$facts"
is "GPU numbers count through the workers, and each GPU is described" "$stdout" "$(for w in 0 1; do
  printf 'fake %d\t2000000000\t9.0\tNVRTC 99.0\n' 1 3 3; done)"$'\n(command line):7: device_info: no device cuda:6: the workers have 6 of kind cuda'
go launch -n 3 -d cuda:all,cpu:2 -e "$facts"
is "cuda:all has all GPUs of each worker's driver" "$(grep -c ^fake <<<"$stdout")" 12
CUDA_VISIBLE_DEVICES=2,0 go launch -n 2 -d cuda:all,cpu:1 -e "$facts"
is "cuda:all follows each worker's CUDA_VISIBLE_DEVICES" "$(cut -f1 <<<"$stdout" | head -4 | paste -sd,)" "fake 2,fake 0,fake 2,fake 0"

# ---- results on several workers have the bits of one process ----

cat >"$dir/layouts.lua" <<'LUA'
local nn = rille.nn
local function place(ranks) return rille.placement("cuda", ranks) end
local flat, mesh, pair = place{0, 1, 2, 3}, place{{0, 1}, {2, 3}}, {place{0, 1}, place{2, 3}}
local layouts = { -- name, placements of the two layers, layout of the batch, layouts of the weights
  {"single", place{0}, place{0}, "B", "B", "B"},
  {"dp", flat, flat, "S(0)", "B", "B"},
  {"tp", flat, flat, "B", "S(0)", "S(1)"},
  {"dp-tp", mesh, mesh, {"S(0)", "B"}, {"B", "S(0)"}, {"B", "S(1)"}},
  {"pp", place{0}, place{2}, "B", "B", "B"},
  {"pp-tp", pair[1], pair[2], "B", "S(0)", "S(1)"},
}
for _, l in ipairs(layouts) do
  local name, p0, p1, batch, s0, s1 = table.unpack(l)
  rille.manual_seed(3)
  local function weight(shape, p, sbp)
    local w = rille.randn(shape, {placement = p, sbp = sbp})
    w.requires_grad = true
    return w
  end
  local w0, w1 = weight({8, 6}, p0, s0), weight({4, 8}, p1, s1)
  local opt = rille.optim.SGD({w0, w1}, {lr = 0.05})
  local x = rille.randn({16, 6}, {placement = p0, sbp = batch})
  local step = rille.graph(function(x)
    local h = x:matmul(w0:transpose(0, 1)):relu()
    if p0 ~= p1 then h = h:to_global{placement = p1, sbp = "B"} end
    local y = h:matmul(w1:transpose(0, 1))
    local loss = (y * y):mean()
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end)
  local losses = {}
  for i = 1, 3 do losses[i] = ("%a"):format(step(x):item()) end
  print(name, table.concat(losses, " "))
end
LUA
go -d cuda:all,cpu:1 "$dir/layouts.lua"
want=$stdout
is "one process with four GPUs trains in six layouts" "$code $(wc -l <<<"$want")" "0 6"
for shape in "2 cuda:0,cuda:1" "4 cuda:2" "2 cuda:0x2"; do
  read -r workers devices <<<"$shape"
  go launch -n "$workers" -d "$devices,cpu:1" "$dir/layouts.lua"
  is "$workers workers with $devices each give the same bits" "$stdout" "${want:-nothing}"
done
sed -n '/^cat >"$dir\/copies.lua"/,/^LUA$/p' t/launch/async_workers.sh | sed '1d;$d' >"$dir/copies.lua"
RILLE_HOSTS=2 go launch -n 2 -d cuda:0x2,cpu:1 "$dir/copies.lua" cuda "$dir/x.safetensors"
is "workers write and read files of tensors on their GPUs" "$code $stdout" "0 0"

# ---- lost workers ----

sed -n '/^cat >"$dir\/train.lua"/,/^LUA$/p' t/launch/async_workers.sh | sed '1d;$d' >"$dir/train.lua"
go -d cuda:all "$dir/train.lua" cuda lives
want=$stdout
go launch -n 2 -d cuda:0,cuda:1,cpu:1 "$dir/train.lua" cuda lives
is "a step on GPUs of two workers has the losses of one process" "$stdout" "${want:-nothing}"
go launch -n 2 -d cuda:0,cuda:1,cpu:1 "$dir/train.lua" cuda dies
is "after a worker is killed, training resumes from a snapshot with the same bits" "$stdout$(grep '^lost' "$dir/err")" "${want:-nothing}lost"

# ---- unsupported devices are refused ----

go launch -n 2 -d cuda:9,cpu:1 -e 'print(1)'
ok "a GPU that this host does not have is refused before anything starts" ends 2 'no GPU 9; this host has 4'
for text in cuda:x cuda:0x cuda:-1 cuda:0,cuda:0 cuda:all,cuda:1 cuda:0x99; do
  go launch -n 2 -d "$text,cpu:1" -e 'print(1)'
  ok "$text is refused before anything starts" ends 2 "devices: "
done
go launch -n 2 -d cuda:0 -e 'print(1)'
ok "workers with GPUs but without a cpu device are refused" ends 2 "a worker must have cpu devices"
FAKE_CUDA=driver=0 go launch -n 2 -d cuda:0,cpu:1 -e 'print(1)'
ok "a missing driver is reported before anything starts" ends 2 "no GPU found: the NVIDIA driver is missing"
full='local at = {placement = rille.placement("cuda", {1})}
  print(pcall(function() return rille.ones({30000000}, at):sum():item() end))
  print(rille.ones({8}, at):sum():item(), rille.ones({8}, {placement = rille.placement("cpu", {1})}):sum():item())'
FAKE_CUDA=gpus=1,memory=100000000 go launch -n 2 -d cuda:0,cpu:1 -e "$full"
is "a worker's full GPU is an error with its line, and the session continues" "$(sed 's/^\(false.*out of memory on cuda:1: needs [^,]*\).*/\1/' <<<"$stdout")" \
  $'false\t(command line):2: ones: f32{30000000} B on cuda[1]: out of memory on cuda:1: needs 120.0 MB\n8.0\t8.0'

checks='local p = rille.placement("cuda", {0, 1})
  local w = rille.ones({4, 2}):to_global{placement = p, sbp = "B"}
  for i = 1, 2 do
    for _, ids in ipairs{{0, 1, 2, 3}, {0, 1, 2, 9}} do
      local rows = rille.tensor(ids, {dtype = "i64"}):to_global{placement = p, sbp = "S(0)"}
      local ok, e = pcall(function() return rows:embedding(w):sum():item() end)
      print(ok, ok and e or e:match("line:?%)?:%d+: embedding: [^,;(]*"))
    end
  end'
go -d cuda:0,cuda:1,cpu:1 -e "$checks"
want=$stdout
go launch -n 2 -d cuda:0,cpu:1 -e "$checks"
is "invalid ids on a worker's GPU give the errors of one process, and the next run is right" "$(wc -l <<<"$stdout") $stdout" "4 ${want:-nothing}"
lost='local p = rille.placement("cuda", {0, 1})
  local n, ok, e = 0
  repeat ok, e = pcall(function() return (rille.arange(8):to("f32"):to_global{placement = p, sbp = "S(0)"} + n):sum():item() end) n = n + 1 until not ok or n == 50
  print(ok, tostring(e):find("cuda: invalid device context; this process can no longer use cuda devices", 1, true) ~= nil or e)
  print(rille.ones({8}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item())'
for at in 1 5 20; do
  FAKE_CUDA=$FAKE_CUDA,lost=$at go launch -n 2 -d cuda:0,cpu:1 -e "$lost"
  is "a worker's GPU that is lost at call $at is an error, and the workers' cpus continue" "$code $stdout" $'0 false\ttrue\n8.0'
done

# ---- workers started by hand, under a controller without the plug-in ----

address=tcp://127.0.0.1:$(free_port)
mkdir "$dir/bare"
cp "$own" "$dir/bare/rille"
# join RANK DEVICES: starts a worker by hand
join() { "$rille" worker --join "$address" --rank "$1" -d "$2" --wait 20 2>"$dir/worker$1" & }
serve() { # serve CHUNK: runs the Lua chunk in a controller without the plug-in that waits for two workers
  timeout $hang "$dir/bare/rille" coordinator --bind "$address" --world 2 -e "$1" >"$dir/out" 2>"$dir/err" </dev/null
  code=$? stdout=$(cat "$dir/out") stderr=$(cat "$dir/err")
  wait 2>/dev/null
}
product='rille.manual_seed(1)
  for _, ranks in ipairs{{0}, {1}, {0, 1}} do
    local p = rille.placement("cuda", ranks)
    local x = rille.randn({8, 8}, {placement = p, sbp = "B"})
    print(("%a"):format(((x:matmul(x) + 1):exp() + x:reshape(1, 1, 8, 8):conv2d(x:reshape(1, 1, 8, 8))):sum():item()))
  end'
go -d cuda:0,cuda:1,cpu:1 -e "$product"
want=$stdout
join 0 cuda:0,cpu:1
join 1 cuda:3,cpu:1
serve "$product"
is "a controller without the plug-in receives values of the workers' GPUs" "$stdout$stderr" "${want:-nothing}"
mkdir "$dir/less"
cp "$rille" "$dir/librille-cuda.so" "$dir/libtoolkit.so" "$dir/less"
ln -s libtoolkit.so "$dir/less/libnvrtc.so.99"
# makes empty libraries that the loader finds before the real ones, so that the plug-in lacks cuBLASLt and cuDNN
for library in cublasLt.so.99 cudnn.so.9; do cc -shared -o "$dir/less/lib$library" -x c /dev/null; done
export FAKE_CUDA_LOG=$dir/told
join 0 cuda:0,cpu:1
LD_LIBRARY_PATH=$dir/less rille=$dir/less/rille join 1 cuda:3,cpu:1
serve "$product"
numbers() { while read -r x; do printf '%f\n' "$x"; done <<<"$1"; }
tells() { paste <(numbers "$stdout") <(numbers "$want") | alike 0.0001 3; }
ok "if one worker lacks a library, no worker uses it" tells
is "no worker calls the library" "$(grep -c '^kernel' "$dir/told" | sed 's/^[1-9].*/some/') $(grep -cE '^(multiply|convolve)' "$dir/told")" "some 0"
unset FAKE_CUDA_LOG
fewer='local x = rille.ones({8}, {placement = rille.placement("cuda", {0, 1, 2}), sbp = "S(0)"})
  rille.snapshot{1}
  os.execute("kill -9 " .. rille.workers()[2].pid)
  repeat until not pcall(function() return (x * 2):sum():item() end)
  local function join(devices) return os.getenv("JOIN") .. " --rank 1 --wait 20 -d " .. devices .. " 2>&1 " end
  os.execute("{ until " .. join("cuda:2,cpu:1") .. "| grep -q devices; do sleep 0.1; done; " .. join("cpu:1") .. "; LD_LIBRARY_PATH=$LESS $LESS/" ..
    join("cuda:2x2,cpu:1") .. "; " .. join("cuda:3x2,cpu:1") .. "; } >&2 &")
  rille.recover()
  print((x * 2):sum():item())'
join 0 cuda:0,cpu:1
join 1 cuda:1x2,cpu:1
PATH=$dir:$PATH JOIN="rille worker --join $address" LESS=$dir/less serve "$fewer"
is "a replacement worker must have as many GPUs, with the same libraries" "$stdout $(grep -o 'was refused: .*' <<<"$stderr" | cut -c14- | grep -v 'taken by another worker')" \
  "16.0 rank 1 has 2 devices of kind cuda, but the worker has 1
rank 1 has 2 devices of kind cuda, but the worker has 0
the worker's GPUs lack a compiler or a library that those of rank 1 had"
finish
