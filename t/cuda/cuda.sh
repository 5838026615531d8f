#!/bin/bash
# cuda.sh - tests devices of kind cuda: the plug-in, device names, and errors without a GPU. If a GPU exists, its
# results must equal the cpu's. cuda.sh path/to/rille; prints TAP.
rille=$(realpath "$1") build=$(dirname "$(realpath "$1")")
plugin=$build/librille-cuda.so
. t/lib/tap.sh

# refuses TEXT DEVICES...: checks that the program exits with code 2 at once, without output, and with an error that
# contains TEXT.
refuses() {
  local text=$1 out code; shift
  out=$(timeout $hang "$rille" -d "$@" -e 'print(1)' 2>"$dir/err"); code=$?
  echo "code $code, printed \"$out\", said: $(cat "$dir/err")"
  [ "$code" = 2 ] && [ -z "$out" ] && grep -qF -- "$text" "$dir/err"
}
# prints TEXT COMMAND...: checks the command's output. Drops a warning of AddressSanitizer about makecontext, which
# t/host/shim.h uses for the threads of a GPU.
prints() { local want=$1 got; shift; got=$("$@" 2>&1 | grep -v "fully support makecontext"); echo "got: $got"; [ "$got" = "$want" ]; }

# ---- names: checked before any device is opened

for text in x 0x 0x0 -1 0y4 "" 0x4x2 " 0" 1.5; do
  ok "cuda:$text is refused with the valid forms" refuses "expected cuda:all, cuda:0, or cuda:0x4" "cuda:$text"
done
ok "an error in cpu devices is reported first" refuses 'the number of devices of "cpu" must be from 1' "cpu:0,cuda:0"
ok "device_info refuses cpu devices" prints true "$rille" -d cpu:1 -e \
  'print((select(2, pcall(rille.device_info, "cpu", 0))):find([[kind must be "cuda"]], 1, true) ~= nil)'
ok "device_info refuses a device that does not exist" prints true "$rille" -d cpu:1 -e \
  'print((select(2, pcall(rille.device_info, "cuda", 0))):find("no device cuda:0", 1, true) ~= nil)'

# ---- a stand-in for the plug-in, with eight GPUs in host memory (t/host/gpus.c)

own=$rille rille=$dir/rille root=$PWD
cp "$own" "$rille"
ok "a missing plug-in is reported" refuses "no CUDA plug-in" cuda:0
echo 'not a library' >"$dir/librille-cuda.so"
ok "a damaged plug-in is reported by name" refuses "$dir/librille-cuda.so" cuda:0
make_plugin() { rm -f "$dir/librille-cuda.so"; cc -shared -fPIC "$@" -I"$root" -o "$dir/librille-cuda.so" "$root/t/host/gpus.c"; }
ok "a stand-in plug-in is compiled from C" make_plugin
ok "cuda:9 is refused on a host with 8 GPUs" refuses "no GPU 9; this host has 8" cuda:9
ok "a GPU number beyond all integers is refused" refuses "no GPU" cuda:99999999999999999999
ok "a GPU that is named twice is refused" refuses '"cuda:0" is named twice' cuda:0,cuda:0x2
ok "a GPU that is also in cuda:all is refused" refuses "named twice" cuda:3,cuda:all
ok "more than 64 devices on a GPU are refused" refuses "at most 64" cuda:0x65
ok "a GPU that another process holds is reported" refuses '"cuda:7": busy' cuda:0,cuda:7
describe='local i = rille.device_info("cuda", 1) print(i.name, i.memory, i.capability)'
ok "a device is described" prints $'gpu 5\t100000000\t9.0' "$rille" -d cuda:3,cuda:5 -e "$describe"
ok "a GPU beside devices of other kinds is described" prints $'gpu 2\t100000000\t9.0' "$rille" -d cpu:2,cuda:2x2 -e "$describe"
program='local p = rille.placement(KIND, RANKS)
  local x = rille.arange(64):reshape({8, 8}):to_global{placement = p, sbp = "S(0)"}
  print((x:matmul(x) + x):sum():item())'
ok "a program found by PATH finds the plug-in" env -C / PATH="$dir:$PATH" rille -d cuda:0 -e 'os.exit(rille.device_info("cuda", 0) ~= nil)'
want=$("$own" -d cpu:1 -e "KIND, RANKS = 'cpu', {0} $program")
# in the last list, cpus hold some of the values
for devices in cuda:0 cuda:0x4 cuda:0,cuda:1,cuda:2x2 cpu:2,cuda:0x4; do
  ranks='{0, 1, 2, 3}'; [ $devices = cuda:0 ] && ranks='{0}'
  ok "$devices computes what a cpu does" prints "$want" "$rille" -d $devices -e "KIND, RANKS = 'cuda', $ranks $program"
done
big='local ok, e = pcall(function() return rille.ones({N}):sum():item() end) print(ok, tostring(e):match("out of memory on cuda:0: needs [^,]*") or "")
  print(rille.ones({8}):sum():item())'
ok "a full GPU is an error, and the session continues" prints $'false\tout of memory on cuda:0: needs 120.0 MB\n8.0' "$rille" -d cuda:0 -e "N = 3e7 // 1 | 0 $big"
ok "a quarter of a GPU is full sooner" prints $'false\tout of memory on cuda:0: needs 40.0 MB\n8.0' "$rille" -d cuda:0x4 -e "N = 1e7 // 1 | 0 $big"
# runs tests that were written for cpus, with "cpu" replaced by another device kind
for file in nn/ranks session/several-results; do
  sed 's/"cpu"/"cuda"/g' "t/$file.lua" >"$dir/${file##*/}.lua"
  ok "t/$file.lua passes on eight devices of four GPUs" "$rille" -d cuda:0,cuda:1x3,cuda:2x2,cuda:4x2 "$dir/${file##*/}.lua"
done
# ---- kernels: stand-ins of GPUs run kernels that are compiled with t/host/shim.h; host code cannot access their
# memory

if command -v c++ >/dev/null; then
  export RILLE_CACHE=$dir/cache
  ok "a stand-in plug-in with a compiler is built" make_plugin -DSHIM="\"$root\"" -DGUARD
  kernels='local p = rille.placement(KIND, RANKS)
    local x = (rille.arange(96):reshape({12, 8}) / 50):to_global{placement = p, sbp = "S(0)"}
    local y = ((x * 0.5 + 1):gelu() - x:to("bf16")):transpose(0, 1)
    print(y:sum():item(), y:softmax(0):max():item(), (y + 1):reshape({6, 16}):min(1):sum():item())'
  want_kernels=$("$own" -d cpu:1 -e "KIND, RANKS = 'cpu', {0} $kernels")
  cached() { find "$RILLE_CACHE" -name '*.cubin' 2>/dev/null | wc -l; }
  ok "compiled kernels compute what a cpu does" prints "$want_kernels" "$rille" -d cuda:0,cuda:1x3 -e "KIND, RANKS = 'cuda', {0, 1, 2, 3} $kernels"
  ok "compiled kernels are cached on disk" test "$(cached)" -gt 3
  moving='local p = rille.placement("cuda", {0, 1, 2, 3})
    local x = rille.tensor({1, 2, 3, 4, 5, 6, 7, 8}):to_global{placement = p, sbp = "S(0)"}
    print(x:sum():to_global{placement = p, sbp = "B"}:item(), x:to_global{placement = p, sbp = "B"}[7]:item())'
  ok "moves between GPUs have the right values" prints $'36.0\t8.0' env RILLE_CACHE="$dir/moves" "$rille" -d cuda:0,cuda:1x3 -e "$moving"
  ok "moves are computed by kernels that copy or reduce" sh -c "grep -l . '$dir'/moves/*.cubin | wc -l | grep -qx [3-9]"
  wide='local ranks = {} for i = 1, 64 do ranks[i] = i - 1 end
    local p = rille.placement("cuda", ranks)
    local x = rille.arange(64):to_global{placement = p, sbp = "S(0)"}:to_global{placement = p, sbp = "B"}
    print((x * x):sum():item(), x[63]:item())'
  ok "a move of 64 steps takes two launches, since one takes 62" prints $'85344\t63' env RILLE_CACHE="$dir/moves" "$rille" -d cuda:0x32,cuda:1x32 -e "$wide"
  attends='local how, worst = {}, 0
    for _, d in ipairs{"f32", "f64", "bf16", "f16"} do
      local seen = {}
      for _, kind in ipairs{"cpu", "cuda"} do
        rille.manual_seed(4)
        local q = rille.randn({2, 3, 140, 8}, {placement = rille.placement(kind, {0})}):to(d)
        local step = rille.graph(function(q) return rille.scaled_dot_product_attention(q, q * 0.5, q + 1, {is_causal = true}) end)
        local y = step(q):to("f64")
        seen[kind] = {(y * y):sum(3):sqrt():max():item(), y:sum():item() / y:numel(), y:abs():sum():item() / y:numel()}
        if kind == "cuda" then how[#how + 1] = tostring(step:plan{physical = true}):match("attention[_a-z]*") end
      end
      for i = 1, 3 do worst = math.max(worst, math.abs(seen.cpu[i] - seen.cuda[i]) / (d:find("16") and 0.01 or 1e-4)) end
    end
    print(table.concat(how, " "), worst < 1)'
  ok "attention of halves is one operator, of other floats products and a softmax" prints $'attention_softmax attention_softmax attention attention\ttrue' \
    env RILLE_CACHE="$dir/moves" "$rille" -d cpu:1,cuda:0 -e "$attends"
  stored='local seen, how = {}, nil
    for _, kind in ipairs{"cpu", "cuda"} do
      rille.manual_seed(4)
      local x = rille.randn({40, 64}, {placement = rille.placement(kind, {0})})
      local step = rille.graph(function(x) return x:layer_norm():to("bf16"), x:softmax(1):to("f16"), x:softmax(1):to("bf16"):to("f32") + x end)
      seen[kind] = {}
      for i, y in ipairs{step(x)} do
        local w = (rille.arange(40 * 64, {placement = y.placement}):to("f64") * 0.37):sin():reshape({40, 64})
        seen[kind][i] = (y:to("f64") * w):sum():item()
      end
      how = tostring(step:plan{physical = true})
    end
    local _, n = how:gsub("layer_norm%+cast +cuda", "")
    local _, m = how:gsub("softmax%+cast +cuda", "")
    local far = 0
    for i, y in ipairs(seen.cuda) do far = math.max(far, math.abs(y - seen.cpu[i])) end
    print(n, m, far < 0.02)'
  ok "a cast after a norm or a softmax is fused into its kernel" prints $'1\t1\ttrue' env RILLE_CACHE="$dir/moves" "$rille" -d cpu:1,cuda:0 -e "$stored"
  led='local seen, how = {}, nil
    for _, kind in ipairs{"cpu", "cuda"} do
      local at = {placement = rille.placement(kind, {0})}
      rille.manual_seed(5)
      local x, w, g = rille.randn({40, 64}, at):to("bf16"), rille.randn({64}, at), rille.randn({40, 64}, at)
      local step = rille.graph(function(x, w, g)
        x, w = x:detach():requires_grad_(true), w:detach():requires_grad_(true)
        local h = x:to("f32")
        return rille.grad((h:layer_norm({64}, w):to("bf16") * g:to("bf16")):sum() + (h * g):sum(), {x, h, w})
      end)
      seen[kind] = {}
      for i, y in ipairs{step(x, w, g)} do y = y:to("f64") seen[kind][i] = (y * y):sum():item() end
      how = tostring(step:plan{physical = true}):match("norm_grad[a-z_+]*")
    end
    local far = 0
    for i, y in ipairs(seen.cuda) do far = math.max(far, math.abs(y / seen.cpu[i] - 1)) end
    print(how, #seen.cuda, far < 1e-5)'
  ok "the gradient of a norm adds the residual's gradient, and writes two dtypes" prints $'norm_grad+add+cast\t3\ttrue' \
    env RILLE_CACHE="$dir/moves" "$rille" -d cpu:1,cuda:0 -e "$led"
  turned='local step = rille.graph(function(q) return rille.scaled_dot_product_attention(q, q, q):transpose(1, 2):reshape{2 * 20, 32}:sum(0) end)
    local q = rille.randn({2, 4, 20, 8}, {placement = rille.placement("cuda", {0})}):to("bf16")
    step(q) print(tostring(step:plan{physical = true}):find("copy") == nil)'
  ok "attention heads are merged without a copy" prints true env RILLE_CACHE="$dir/moves" "$rille" -d cuda:0 -e "$turned"
  ok "norms of numbers whose squares overflow floats are right" prints $'1.0\t-1.0' env RILLE_CACHE="$dir/moves" "$rille" -d cuda:0 -e '
    local x = rille.tensor({{1e25, -1e25, 1e25, -1e25}})
    print(x:rms_norm():max():item(), x:layer_norm():min():item())'
  ok "casts of variables are grouped, with the same bits (t/lib/steps/casts.lua)" env RILLE_CACHE="$dir/moves" "$rille" -d cuda:0,cuda:1 t/lib/steps/casts.lua
  touch -d yesterday "$RILLE_CACHE"/*
  ok "cached kernels give the same values" prints "$want_kernels" "$rille" -d cuda:0,cuda:1x3 -e "KIND, RANKS = 'cuda', {0, 1, 2, 3} $kernels"
  ok "cached kernels are not written again" prints "" find "$RILLE_CACHE" -name '*.cubin' -newermt 'today 00:00'
  for file in "$RILLE_CACHE"/*; do case $((i = ${i:-0} + 1)) in 1) : >"$file" ;; 2) truncate -s -7 "$file" ;; *) printf x | dd of="$file" bs=1 seek=100 conv=notrunc 2>"$dir/log" ;; esac; done
  ok "a damaged cache is ignored" prints "$want_kernels" "$rille" -d cuda:0,cuda:1x3 -e "KIND, RANKS = 'cuda', {0, 1, 2, 3} $kernels"
  ok "a damaged cache is rewritten" prints "$i" sh -c "find '$RILLE_CACHE' -newermt 'today 00:00' | grep -c cubin"
  first=$(ls "$RILLE_CACHE" | head -1) another=$(ls "$RILLE_CACHE" | sed -n 2p)
  for what in "another's kernel" "a folder" "a pipe" "a file of 1 TB" "/dev/zero"; do
    rm -rf "${RILLE_CACHE:?}/$first"
    case $what in "another's"*) cp "$RILLE_CACHE/$another" "$RILLE_CACHE/$first" ;; *folder) mkdir "$RILLE_CACHE/$first" ;;
      *pipe) mkfifo "$RILLE_CACHE/$first" ;; *TB) truncate -s 1T "$RILLE_CACHE/$first" ;; *) ln -s "$what" "$RILLE_CACHE/$first" ;; esac
    ok "$what in place of a cached kernel is ignored" prints "$want_kernels" timeout $hang "$rille" -d cuda:0,cuda:1x3 -e "KIND, RANKS = 'cuda', {0, 1, 2, 3} $kernels"
  done
  ok "a cache that cannot be written is ignored" env RILLE_CACHE=/dev/null/x bash -c "[ \"\$('$rille' -d cuda:0 -e \"KIND, RANKS = 'cuda', {0} \$1\")\" = \"\$2\" ]" - "$kernels" "$want_kernels"
  about() { local want=$1; shift; env "$@" "$rille" -d cuda:0 --doctor | tee /dev/stderr | grep -qxE " *kernels of GPUs +$want; no library of products: .*; no library of convolutions: .*"; }
  ok "--doctor reports a cache that cannot be written" about "c\\+\\+, not cached: /dev/null/x cannot be written: Not a directory" RILLE_CACHE=/dev/null/x
  full() { (trap '' XFSZ; ulimit -f 0; about "c\\+\\+, not cached: $dir/full cannot be written: File too large" RILLE_CACHE="$dir/full"); }
  ok "--doctor reports a cache on a full disk" full
  ok "--doctor reports a cache that can be written" about "c\\+\\+, cached in $dir/new/folder" RILLE_CACHE="$dir/new/folder"
  ok "--doctor reports a disabled cache" about "c\\+\\+, not cached" RILLE_CACHE=
  training='local nn, p = rille.nn, rille.placement(KIND, RANKS)
    rille.manual_seed(3)
    local net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5)):to_global{placement = p, sbp = "B"}
    local opt = rille.optim.AdamW(net:parameters(), {lr = 0.05})
    local x = rille.randn(12, 6):to_global{placement = p, sbp = "S(0)"}
    local labels = (rille.arange(12) % 5):to_global{placement = p, sbp = "S(0)"}
    for step = 1, 3 do
      local loss = net(x):cross_entropy(labels)
      loss:backward() opt:step() opt:zero_grad()
      print(string.format("%.3f", loss:item()))
    end'
  ok "a network trains on two devices as on a cpu" prints "$("$own" -d cpu:1 -e "KIND, RANKS = 'cpu', {0} $training")" \
    "$rille" -d cuda:0x2 -e "KIND, RANKS = 'cuda', {0, 1} $training"
  ok "an invalid label is an error with its position" prints true "$rille" -d cuda:0 -e 'local p = rille.placement("cuda", {0})
    local function put(x) return x:to_global{placement = p, sbp = "B"} end
    local ok, e = pcall(function() return put(rille.randn(2, 4)):cross_entropy(put(rille.tensor({1, 9}, {dtype = "i64"}))):item() end)
    print(not ok and tostring(e):find("label 9 at position 1", 1, true) ~= nil)'
  pieces='local nn, p = rille.nn, rille.placement(KIND, RANKS)
    rille.manual_seed(3)
    local net = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 5)):to_global{placement = p, sbp = "B"}
    local opt = rille.optim.SGD(net:parameters(), {lr = 0.5})
    local step = rille.graph(function(x, labels)
      local loss = net(x):cross_entropy(labels)
      loss:backward() opt:step() opt:zero_grad()
      return loss
    end, {micro_batches = 3})
    local labels = (rille.arange(12) % 5):to_global{placement = p, sbp = "S(0)"}
    for i = 1, 3 do print(string.format("%.3f", step(labels + 1, labels):item())) end
    local part = rille.arange(12):reshape({3, 4}):to_global{placement = p, sbp = "P"}
    print((part + part):to_global{placement = p, sbp = "B"}:transpose(0, 1):reshape({12})[5]:item())'
  ok "micro-batches and partial sums are accumulated by GPUs alone" prints "$("$own" -d cpu:1 -e "KIND, RANKS = 'cpu', {0} $pieces")" \
    "$rille" -d cuda:0x2 -e "KIND, RANKS = 'cuda', {0, 1} $pieces"
  ok "a stand-in plug-in with memory that host code can read is built" make_plugin -DSHIM="\"$root\"" -DMEGABYTES=200
  ok "RILLE_CHECK=ref compares grouped casts with the reference" env RILLE_CHECK=ref "$rille" -d cuda:0,cuda:1 t/lib/steps/casts.lua
  ok "RILLE_CHECK=ref compares kernels with the reference" env RILLE_CHECK=ref "$rille" -d cuda:0 -e "KIND, RANKS = 'cuda', {0} $kernels"
  unset RILLE_CACHE
else
  skip "kernels on GPUs of the host" "no c++"
fi
ok "a stand-in plug-in with failing copies is built" make_plugin -DBREAKS
ok "a broken GPU is an error, and cpus continue" prints $'true\n8.0' "$rille" -d cpu:1,cuda:0 -e '
  local p = rille.placement("cuda", {0})
  local ok, e = pcall(function() return rille.tensor({1, 2}, {placement = p}):sum():item() end)
  print(not ok and tostring(e):find("struck by lightning", 1, true) ~= nil)
  print(rille.ones({8}):sum():item())'
ok "a stand-in plug-in of another version is built" make_plugin -DVERSION=999
ok "a plug-in of another version is refused" refuses "has interface version 999" cuda:0
rille=$own

# ---- the plug-in

if ! grep -q '^CMAKE_CUDA_COMPILER:.*=/' "$build/CMakeCache.txt"; then
  ok "a build without the plug-in reports this for cuda:0" refuses "no CUDA plug-in" cuda:0
  finish
fi
ok "a build with nvcc has a plug-in" test -f "$plugin"
ok "the plug-in exports one symbol" prints rille_cuda_plugin sh -c "nm -D --defined-only '$plugin' | awk '{ print \$3 }'"
ok "the plug-in links no CUDA library" sh -c "! readelf -d '$plugin' | grep NEEDED | grep -E 'cuda|nv'"
rille=$dir/rille
rm -f "$dir/librille-cuda.so"
cp "$plugin" "$dir/librille-cuda.so"
hidden() { CUDA_VISIBLE_DEVICES= refuses "no GPU found" cuda:all; }
libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$build/CMakeCache.txt")
ok "the plug-in is found beside the program; hidden GPUs are not used" hidden
mkdir -p "$dir/prefix/bin" "$dir/prefix/$libdir"
mv "$dir/rille" "$dir/prefix/bin"; mv "$dir/librille-cuda.so" "$dir/prefix/$libdir"
rille=$dir/prefix/bin/rille
ok "the plug-in is found in the installed library folder" hidden
rille=$own

# ---- with a GPU

if ! "$rille" -d cuda:0 -e 'os.exit(0)' 2>"$dir/err"; then
  for devices in cuda:all cuda:0 cuda:0x4 cpu:2,cuda:0 cuda:9 cuda; do
    ok "-d $devices: no device" refuses "no GPU" "$devices"
  done
  ok "CUDA_VISIBLE_DEVICES=0 without a GPU is an error" env CUDA_VISIBLE_DEVICES=0 bash -c "! '$rille' -d cuda:0 -e 'os.exit(0)'"
  for name in "a GPU is described" "a GPU computes what a cpu does" "four devices on one GPU compute what a cpu does" "GPU 63 is refused" \
    "a GPU that is named twice is refused"; do
    skip "$name" "no device"
  done
  finish
fi
ok "a GPU is described" prints true "$rille" -d cuda:0 -e \
  'local i = rille.device_info("cuda", 0) print(i.memory > 0 and #i.name > 0 and i.capability:find("^%d+%.%d+$") ~= nil)'
ok "a GPU computes what a cpu does" prints "$want" "$rille" -d cuda:0 -e "KIND, RANKS = 'cuda', {0} $program"
ok "four devices on one GPU compute what a cpu does" prints "$want" "$rille" -d cuda:0x4 -e "KIND, RANKS = 'cuda', {0, 1, 2, 3} $program"
ok "GPU 63 is refused" refuses "no GPU 63" cuda:63
ok "a GPU that is named twice is refused" refuses "named twice" cuda:0,cuda:0
finish
