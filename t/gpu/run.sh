#!/bin/bash
# run.sh - runs all tests that need a GPU, the most informative first: facts of the machine, first programs, every
# operator, programs on several devices of one GPU, NCCL, memcheck and racecheck, and benchmarks.
#
#   t/gpu/run.sh run FOLDER [PART...]     runs the parts in a tree built in build/release, or in an unpacked archive
#   t/gpu/run.sh pack FILE.tar.gz         packs all files for a run, with this machine's libraries
#   t/gpu/run.sh parts                    prints the parts and their time limits in seconds
#
# An archive runs on a machine with a GPU, a driver, CUDA, the same architecture, and a glibc that is at least as new.
# Without PARTs all parts except `bench` run, for at most 9 minutes (LIMIT=540 seconds); `bench` takes 9 more. The
# script writes files to FOLDER. log.txt: the whole output, also of stopped parts; summary.txt: a line for each part
# and each failed test; table.txt: the results of `bench`. Exits with 1 after a failure, with 0 without a GPU.
# RILLE_CACHE=FOLDER keeps compiled kernels between runs. JOBS=8: number of parallel processes for operators.
set -u
cd "$(dirname "$0")/../.."
build=build/release
cuda_libraries=(libnvrtc.so libcublasLt.so libnccl.so libcudnn.so) # cuDNN opens further libraries, which must be in its own folder

# name and time limit, s, of each part
parts='facts 60
light 60
operators 200
virtual 150
training 120
nccl 60
sanitize 150
bench 540'

# ---- packing

# libraries FILE...: prints the shared libraries that the files need, except those of glibc and the compiler.
libraries() {
  ldd "$@" | awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libmvec|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+)\.so'
}
# Installs a program for the archive: a wrapper, which finds the packed libraries, takes the program's name.
wrap() { # wrap PROGRAM UP: UP leads from the program's folder to the libraries
  local real=$top/$build/lib/${1##*/}
  strip -o "$real" "$build/$1"
  mkdir -p "$(dirname "$top/$build/$1")"
  cat >"$top/$build/$1" <<WRAP
#!/bin/bash
lib=\$(cd "\$(dirname "\$0")/$2" && pwd)
export LD_LIBRARY_PATH=\$lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
exec -a "\$0" "\$lib/${1##*/}" "\$@"
WRAP
  chmod +x "$top/$build/$1"
}
pack() {
  [ -f $build/librille-cuda.so ] || { echo "there is no $build/librille-cuda.so: it is built where nvcc is found" >&2; exit 2; }
  set -e
  local file
  file=$(realpath "$1")
  top=$(mktemp -d)
  trap 'rm -rf "$top"' EXIT
  mkdir -p "$top/$build/lib"
  wrap rille lib
  wrap t/bin/cuda ../../lib
  cp $build/librille-cuda.so "$top/$build"
  # places the plug-in beside the real program, where the program looks for it
  cp $build/librille-cuda.so "$top/$build/lib"
  libraries $build/rille $build/t/bin/cuda | while read -r library; do cp -L "$library" "$top/$build/lib"; done
  cp -r --parents t/gpu/run.sh t/lib t/*/*.lua bench/gpu.* examples docs/cuda.md "$top"
  tar -C "$top" -czf "$file" .
  ls -l "$file"
}

# ---- running

case ${1:-} in
parts) echo "$parts"; exit ;;
pack) [ $# = 2 ] || { sed -n '2,/^set/p' t/gpu/run.sh | sed -n 's/^# \{0,1\}//p'; exit 2; }; pack "$2"; exit ;;
part) part=$2 scratch=$3 ;;
run) [ $# -ge 2 ] || { echo "run FOLDER [PART...]" >&2; exit 2; } ;;
*) sed -n '2,/^set/p' t/gpu/run.sh | sed -n 's/^# \{0,1\}//p'; exit 2 ;;
esac

# Prints the folders of CUDA libraries that the loader does not know: in a toolkit, or in a Python package.
find_libraries() {
  local name found dirs=()
  for name in "${cuda_libraries[@]}"; do
    ldconfig -p 2>/dev/null | grep -q "$name" && continue
    found=$(find /usr/local/cuda*/lib64 /usr/lib /opt /usr/local/lib "$HOME" -name "$name*" ! -name '*.alt.*' 2>/dev/null | head -1)
    [ -z "$found" ] || dirs+=("$(dirname "$found")")
  done
  printf '%s\n' "${dirs[@]+"${dirs[@]}"}" | sort -u | paste -sd: -
}

if [ "$1" = run ]; then
  mkdir -p "$2"
  out=$(realpath "$2") began=$SECONDS bad=0
  shift 2
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  export RILLE_CACHE=${RILLE_CACHE:-$scratch/cache} JOBS=${JOBS:-8} OUT_FOLDER=$out
  more=$(find_libraries)
  [ -z "$more" ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$more
  : >"$out/log.txt"
  echo "libraries found beside the loader's: ${more:-none}" >"$out/summary.txt"
  [ $# -gt 0 ] || set -- $(awk '$1 != "bench" { print $1 }' <<<"$parts")
  for part in "$@"; do
    most=$(awk -v p="$part" '$1 == p { print $2 }' <<<"$parts")
    [ -n "$most" ] || { echo "$part: there is no such part" | tee -a "$out/summary.txt"; bad=1; continue; }
    left=$((${LIMIT:-540} - (SECONDS - began)))
    [ $left -ge 10 ] || { echo "$part: no time is left" | tee -a "$out/summary.txt"; bad=1; continue; }
    start=$SECONDS
    echo "==== $part" >>"$out/log.txt"
    timeout --kill-after=10 $((most < left ? most : left)) t/gpu/run.sh part "$part" "$scratch" >"$scratch/said" 2>&1
    code=$?
    cat "$scratch/said" >>"$out/log.txt"
    case $code in 0) how=ok ;; 124 | 137) how="stopped after $((SECONDS - start)) s" bad=1 ;; 77) how="no device" ;; *) how="failed" bad=1 ;; esac
    {
      echo "$part: $how, $((SECONDS - start)) s, $(grep -c '^ok' "$scratch/said") ok, $(grep -c '^not ok' "$scratch/said") not ok"
      grep -E '^(not ok|Bail out|== )' "$scratch/said" | head -60 | sed 's/^/  /'
    } | tee -a "$out/summary.txt"
    [ $code != 77 ] || exit 0
  done
  exit $bad
fi

# ---- the parts: each prints "ok" and "not ok" lines and returns 0 if all passed

rille=$PWD/$build/rille failed=0
# ok NAME COMMAND...: checks that the command succeeds; prints the end of its output.
ok() {
  local name=$1
  shift
  "$@" >"$scratch/one" 2>&1 && { echo "ok - $name"; sed 's/^/# /' "$scratch/one" | tail -3; return; }
  echo "not ok - $name"
  sed 's/^/# /' "$scratch/one" | tail -30
  failed=1
}
# A program for awk. Each line has two halves of numbers, which must agree within the relative tolerance `near`.
near='{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d < 0) d = -d; m = $i < 0 ? -$i : $i; if (d > near * (m + 1e-6) || d != d) bad = 1 } }
  END { exit bad || NR == 0 }'
# alike NAME NEAR PROGRAM DEVICES RANKS: runs a program, which uses KIND and RANKS, on DEVICES and on a cpu. Checks
# that the output agrees within NEAR.
alike() {
  local name=$1 near_by=$2 program=$3 devices=$4 ranks=$5
  ok "$name on $devices" alike_to "$near_by" "$program" "$devices" "$ranks"
}
alike_to() {
  "$rille" -d cpu:1 -e "KIND, RANKS = 'cpu', {0} $2" >"$scratch/want" || return 1
  "$rille" -d "$3" -e "KIND, RANKS = 'cuda', $4 $2" >"$scratch/got" || return 1
  paste "$scratch/want" "$scratch/got"
  [ "$(wc -l <"$scratch/want")" = "$(wc -l <"$scratch/got")" ] && paste "$scratch/want" "$scratch/got" | awk -v near="$1" "$near"
}

facts() {
  nvidia-smi 2>&1 | head -20
  command -v nvcc >/dev/null && nvcc --version | tail -2
  uname -srm
  ldd --version | head -1
  ldconfig -p | grep -E 'libcuda\.so|libnvrtc\.so|libcublasLt\.so|libnccl\.so|libcudnn\.so'
  echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}"
  "$rille" --version || { echo "not ok - the program starts on this machine"; return 1; }
  if ! "$rille" -d cuda:0 -e 'local i = rille.device_info("cuda", 0) print("== " .. i.name, i.memory, i.capability, i.kernels)' 2>&1; then
    "$rille" -d cuda:0 -e 'print(1)' 2>&1 | grep -q "no GPU found" && exit 77
    return 1
  fi
  "$rille" -d cuda:0 --doctor
  echo "ok - there is a GPU, and Rille opens it"
}

light() {
  local product='local p = rille.placement(KIND, RANKS)
    local x = (rille.arange(4096) % 61 / 7):to(TYPE):reshape({64, 64}):to_global{placement = p, sbp = #RANKS > 1 and "S(0)" or "B"}
    print((x:matmul(x) + x):to("f32"):sum():item(), x:softmax(1):to("f32"):max():item(), (x * 3 - 1):gelu():to("f32"):sum():item())'
  ok "a sum of ones" sh -c "[ \"\$('$rille' -d cuda:0 -e 'print(rille.ones({1 << 20}):sum():item())')\" = 1048576.0 ]"
  ok "matrix products use cuBLASLt" sh -c "'$rille' -d cuda:0 -e '
    local x = rille.randn(64, 64)
    local s = rille.graph(function(x) return x:matmul(x):softmax(1) end) s(x) print(s:plan{physical = true})' | tee /dev/stderr | grep -q cublaslt"
  alike "a product, a softmax and a chain of f32" 1e-4 "TYPE = 'f32' $product" cuda:0 '{0}'
  alike "a product, a softmax and a chain of bf16" 2e-2 "TYPE = 'bf16' $product" cuda:0 '{0}'
  alike "a product, a softmax and a chain of f64" 1e-9 "TYPE = 'f64' $product" cuda:0 '{0}'
  alike "a product, a softmax and a chain of f32" 1e-4 "TYPE = 'f32' $product" cuda:0x4 '{0, 1, 2, 3}'
  local windows='local at = {placement = rille.placement(KIND, RANKS), sbp = "B", requires_grad = true}
    rille.manual_seed(7)
    local x, w = rille.randn({4, 16, 14, 14}, at), rille.randn({32, 16, 3, 3}, at)
    local y = x:to(TYPE):conv2d(w:to(TYPE), {padding = 1}):to("f32")
    local loss = (y * y):sum() / 2
    local dx, dw = rille.grad(loss, {x, w})
    print(loss:item(), (dx * dx):sum():item(), (dw * dw):sum():item())'
  alike "a convolution of f32 and its gradients" 1e-4 "TYPE = 'f32' $windows" cuda:0 '{0}'
  alike "a convolution of bf16 and its gradients" 2e-2 "TYPE = 'bf16' $windows" cuda:0 '{0}'
  if "$rille" -d cuda:0 --doctor | grep -q 'convolutions by cuDNN'; then
    ok "convolutions use cuDNN" sh -c "'$rille' -d cuda:0 -e '
      local x, w = rille.randn(4, 16, 14, 14), rille.randn(32, 16, 3, 3)
      local s = rille.graph(function(x) return x:conv2d(w, {padding = 1}) end) s(x) print(s:plan{physical = true})' | tee /dev/stderr | grep -q cudnn"
  else
    echo "ok - convolutions use cuDNN # SKIP there is no cuDNN"
  fi
  alike "random numbers" 1e-6 'local at = {placement = rille.placement(KIND, RANKS), sbp = "B"}
    rille.manual_seed(7) print(rille.rand({1000}, at):sum():item(), rille.randn({1000}, at):sum():item())' cuda:0 '{0}'
  ok "a bad label is reported" sh -c "'$rille' -d cuda:0 -e '
    local ok, e = pcall(function() return rille.randn(2, 4):cross_entropy(rille.tensor({1, 9}, {dtype = \"i64\"})):item() end)
    print(e) os.exit(not ok and tostring(e):find(\"label 9 at position 1\", 1, true) ~= nil)'"
  ok "a missing GPU is an error" sh -c "'$rille' -d cuda:63 -e 'print(1)' 2>&1 | tee /dev/stderr | grep -q 'no GPU 63'"
  ok "hidden GPUs are not found" sh -c "CUDA_VISIBLE_DEVICES= '$rille' -d cuda:0 -e 'print(1)' 2>&1 | tee /dev/stderr | grep -q 'no GPU'"
}

# one_operator NAME: tests an operator in a new process, because a process cannot recover from a CUDA error. NAME =
# cudnn tests the convolutions.
one_operator() {
  local test=kernels
  [ "$1" != cudnn ] || test=convolutions
  timeout 120 env ONLY="$1" "$build/t/bin/cuda" "$test" gpu >"$scratch/op.$1" 2>&1
  local code=$?
  {
    grep -E '^(not ok|Bail)' "$scratch/op.$1" | sed "s/^/[$1] /"
    echo "$([ $code = 0 ] && echo ok || echo not ok) - $1: $(grep -c '^ok' "$scratch/op.$1") of $(grep -cE '^(not )?ok' "$scratch/op.$1"), ended with $code"
    [ $code = 0 ] && [ "$1" != cudnn ] || grep -v '^ok' "$scratch/op.$1" | head -40 | sed 's/^/# /'
  } >"$scratch/said.$1"
  cat "$scratch/said.$1"
}
operators() {
  export -f one_operator
  export build scratch
  # tests basic operators first, in case the time limit ends the part
  { printf '%s\n' add cast sum softmax matmul cudnn layer_norm gelu embedding attention adamw cross_entropy_rows combine; "$build/t/bin/cuda" kernels names; } |
    awk '!seen[$0]++' | xargs -P "$JOBS" -I{} bash -c 'one_operator {}' | tee "$scratch/all"
  ! grep -q '^not ok' "$scratch/all"
}

on_gpus() { # on_gpus FILE DEVICES: runs a test written for cpu devices on GPU devices
  sed 's/"cpu"/"cuda"/g' "$1" >"$scratch/${1##*/}"
  timeout 100 "$rille" -d "$2" "$scratch/${1##*/}"
}
virtual() {
  for file in nn/ranks session/several-results nn/norm2d nn/optim-clip parallel/zero; do ok "t/$file.lua on eight devices of GPU 0" on_gpus t/$file.lua cuda:0x8; done
  sed 's/"cpu"/"cuda"/g' examples/digits.lua >"$scratch/digits.lua"
  ln -sfn "$PWD/examples/data" "$scratch/data" # the program reads its folder's data
  local how
  for how in single dp tp dp-tp pp pp-tp; do
    ok "the digits example runs with layout $how" timeout 60 "$rille" -d cuda:0x4 "$scratch/digits.lua" --steps 30 --layout $how --log "$scratch/log.$how"
  done
  ok "the digits example has the same losses in all layouts" sh -c "cd '$scratch'; for how in dp tp dp-tp pp pp-tp; do paste log.single log.\$how |
    awk -v how=\$how '{ d = (\$1 - \$2) / \$1; if (d < 0) d = -d; if (d > worst || d != d) worst = d } END { print how, worst; exit !(NR == 30 && worst <= 1e-3) }' || exit 1; done"
}

training() {
  local network='local nn, p = rille.nn, rille.placement(KIND, RANKS)
    rille.manual_seed(3)
    local net = nn.Sequential(nn.Linear(64, 256), nn.GELU({approximate = "tanh"}), nn.LayerNorm(256), nn.Linear(256, 16)):to_global{placement = p, sbp = "B"}
    local opt = rille.optim.AdamW(net:parameters(), {lr = 0.01})
    local x = rille.randn(96, 64):to_global{placement = p, sbp = #RANKS > 1 and "S(0)" or "B"}
    local labels = (rille.arange(96) % 16):to_global{placement = p, sbp = #RANKS > 1 and "S(0)" or "B"}
    local step = rille.graph(function(x, labels)
      local function loss_of(x, labels) return net(x):cross_entropy(labels) end
      local loss = HALF and rille.autocast("bf16", loss_of, x, labels) or loss_of(x, labels)
      loss:backward() opt:step() opt:zero_grad()
      return loss
    end, OPTIONS)
    for i = 1, 10 do print(string.format("%.6f", step(x, labels):item())) end'
  alike "ten steps of f32" 1e-3 "OPTIONS = {} $network" cuda:0 '{0}'
  alike "ten steps of f32" 1e-3 "OPTIONS = {} $network" cuda:0x2 '{0, 1}'
  alike "ten steps of f32" 1e-3 "OPTIONS = {} $network" cuda:0x4 '{0, 1, 2, 3}'
  alike "ten steps in micro-batches" 1e-3 "OPTIONS = {micro_batches = 3} $network" cuda:0x2 '{0, 1}'
  alike "ten steps with sliced updates (ZeRO 1)" 1e-3 "OPTIONS = {zero = 1} $network" cuda:0x4 '{0, 1, 2, 3}'
  alike "ten steps in bf16" 3e-2 "HALF, OPTIONS = true, {} $network" cuda:0x2 '{0, 1}'
  ok "two runs give the same bits" sh -c "for i in 1 2; do '$rille' -d cuda:0x2 -e \"KIND, RANKS, OPTIONS = 'cuda', {0, 1}, {} \$1\" >'$scratch'/twice.\$i || exit 1; done; cmp '$scratch/twice.1' '$scratch/twice.2'" - "$network"
  ok "RILLE_CHECK=ref,nan: every kernel of a step agrees with its reference" env RILLE_CHECK=ref,nan "$rille" -d cuda:0 -e "KIND, RANKS, OPTIONS = 'cuda', {0}, {} $network"
  ok "a small GPT-2 trains" timeout 60 "$rille" -d cuda:0 bench/gpu.lua --small --rounds 2
}

nccl() {
  local n
  n=$("$rille" -d cuda:all -e 'local n = 0 while pcall(rille.device_info, "cuda", n) do n = n + 1 end print(n)')
  ok "NCCL can be opened" "$rille" --collectives nccl -d cuda:0 -e 'print(rille.ones({4}):sum():item())'
  [ "$n" -ge 2 ] || { echo "ok - collectives # SKIP $n GPU"; return; }
  ok "moves between two GPUs" "$rille" --collectives nccl -d cpu:1,cuda:0,cuda:1 -e '
    local p, host, wrong = rille.placement("cuda", {0, 1}), {placement = rille.placement("cpu", {0}), sbp = "B"}, 0
    for _, dtype in ipairs {"f32", "bf16", "i64"} do
      local x = (rille.arange(64) % 7):to(dtype):reshape{8, 8}
      for _, move in ipairs {{"P", "B"}, {"P", "S(0)"}, {"P", "S(1)"}, {"S(0)", "B"}, {"S(1)", "B"}, {"S(0)", "S(1)"}, {"S(1)", "S(0)"}} do
        local y = x:to_global{placement = p, sbp = move[1]}:to_global{sbp = move[2]}
        if not y:to_global(host):eq(x:to_global(host)):all():item() then
          wrong = wrong + 1 print("wrong", dtype, move[1], move[2])
        end
      end
    end
    os.exit(wrong == 0)'
}

one_sanitized() { # one_sanitized TOOL OPERATOR: tests the operator under compute-sanitizer's TOOL
  if ONLY=$2 timeout 100 compute-sanitizer --tool "$1" --error-exitcode 9 "$build/t/bin/cuda" kernels gpu >"$scratch/sane.$1.$2" 2>&1; then
    echo "ok - $1: $2"
  else
    echo "not ok - $1: $2"
    grep -v '^ok' "$scratch/sane.$1.$2" | head -40 | sed 's/^/# /'
  fi
}
sanitize() {
  command -v compute-sanitizer >/dev/null || PATH=$PATH:/usr/local/cuda/bin
  command -v compute-sanitizer >/dev/null || { echo "ok - compute-sanitizer # SKIP compute-sanitizer is not installed"; return; }
  export -f one_sanitized
  export build scratch
  for op in attention_grad attention softmax sum matmul conv2d conv2d_grad_w layer_norm embedding adamw; do printf '%s %s\n' memcheck $op racecheck $op; done |
    xargs -P "$JOBS" -L1 bash -c 'one_sanitized "$@"' - | tee "$scratch/sane"
  ! grep -q '^not ok' "$scratch/sane"
}

bench() {
  local peak=0
  nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 | grep -qE 'H100|H200' && peak=989
  bash bench/gpu.sh "$build" "${ROUNDS:-10}" "${PEAK:-$peak}" | tee "$OUT_FOLDER/table.txt"
}

"$part"
code=$?
[ $failed = 0 ] && exit $code
exit 1
