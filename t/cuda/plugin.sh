#!/bin/bash
# plugin.sh - tests the real plug-in (kernels/cuda) on a stand-in for CUDA, t/host/toolkit.c, with faults:
# a missing or old driver, busy GPUs, lost GPUs. Checks the errors, and that the session's cpus continue. Uses the
# headers of the installed toolkit. plugin.sh path/to/rille; prints TAP.
own=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD
. t/lib/tap.sh
. t/lib/kernel/toolkit.sh

# prints WRONG WANT PROGRAM [DEVICES]: runs with fault WRONG and compares the output
prints() { local got; got=$(FAKE_CUDA=$1 timeout $hang "$rille" -d "${4:-cpu:1,cuda:0}" -e "$3" 2>&1 | grep -v "fully support makecontext"); echo "got: $got"; [ "$got" = "$2" ]; }

# ---- no usable GPU

ok "a missing driver is reported" refuses driver=0 "no GPU found: the NVIDIA driver is missing" cuda:0
ok "an old driver is reported" refuses driver=old "no GPU found: CUDA driver version is insufficient" cuda:0
ok "a driver without GPUs is reported" refuses gpus=0 "no GPU found: no CUDA-capable device is detected" cuda:all
ok "a GPU that another process holds exclusively is reported" refuses held=1 '"cuda:1": CUDA-capable device(s) is/are busy' cpu:1,cuda:0,cuda:1
ok "the other GPU can be used" prints held=1 "fake 0" 'print(rille.device_info("cuda", 0).name)'
ok "a GPU without concurrent managed memory is refused" refuses apart "host and GPU cannot use its memory" cuda:0
ok "cuda:9 is refused on a host with 8 GPUs" refuses gpus=8 "no GPU 9; this host has 8" cuda:9

# ---- CUDA_VISIBLE_DEVICES: names of the GPUs in cuda:all

all='local names = {} for i = 0, 7 do local ok, d = pcall(rille.device_info, "cuda", i) if ok then names[#names + 1] = d.name:match("%d+") end end
  print(table.concat(names, " "))'
visible() { local text=$1; shift; CUDA_VISIBLE_DEVICES=$text prints gpus=4 "$1" "$all" cuda:all; }
hides() { CUDA_VISIBLE_DEVICES=$1 refuses gpus=4 "no GPU found" cuda:all; }
while IFS='|' read -r text names; do
  if [ -n "$names" ]; then ok "CUDA_VISIBLE_DEVICES=\"$text\" shows $names" visible "$text" "$names"; else ok "CUDA_VISIBLE_DEVICES=\"$text\" shows none" hides "$text"; fi
done <<'SPELLINGS'
0|0
3|3
2,0|2 0
0,1,2,3|0 1 2 3
1,-1,2|1
1,9,2|1
GPU-1002|2
GPU-1003,0|3 0
|
-1|
9|
none|
NoDevFiles|
0,0|
GPU-2|
SPELLINGS
ok "device numbers count the visible GPUs" env CUDA_VISIBLE_DEVICES=3,1 bash -c "FAKE_CUDA=gpus=4 '$rille' -d cuda:1 -e 'print(rille.device_info(\"cuda\", 0).name)' | grep -qx 'fake 1'"
there_is_none() { CUDA_VISIBLE_DEVICES=2 refuses gpus=4 "no GPU 2; this host has 1" cuda:2; }
ok "a hidden GPU cannot be used" there_is_none

# ---- memory

full='local p = rille.placement("cuda", {0})
  local ok, e = pcall(function() return rille.ones({N}, {placement = p}):sum():item() end)
  print(ok, tostring(e):match("out of memory on cuda:0: needs [^,]*") or e)
  print(rille.ones({8}, {placement = p}):sum():item(), rille.ones({8}):sum():item())'
ok "a full GPU is an error, and the session continues" prints "" $'false\tout of memory on cuda:0: needs 120.0 MB\n8.0\t8.0' "N = 30000000 $full"
ok "a GPU half used by other processes is full sooner" prints shared $'false\tout of memory on cuda:0: needs 60.0 MB\n8.0\t8.0' "N = 15000000 $full"

ok "a GPU that other processes fill after its opening is full sooner" prints crowded $'false\tout of memory on cuda:0: needs 60.0 MB\n8.0\t8.0' "N = 15000000 $full"

tenants='local step = rille.graph(function(x)
    local y = x:exp()
    return (y:matmul(y):softmax(1) + y):sum()
  end)
  local at = {placement = rille.placement("cuda", {0})}
  local ok, e = pcall(function() return step(rille.rand({3000, 3000}, at)):item() end)
  for name in tostring(e):gmatch("([%a+]+) f32{3000, 3000} 36000000 B %(%(command line%):%d+%)") do print(name) end
  print(ok, rille.ones({8}, at):sum():item())'
ok "if a step does not fit, the error names the largest memory users with their lines" prints "" $'exp\nmatmul\nsoftmax+add\nfalse\t8.0' "$tenants"

# ---- a GPU that is lost during a run: an error with its line, the same error from then on, and cpus continue

lost='local p, said = rille.placement("cuda", {0}), "(command line):%d: cuda: invalid device context; this process can no longer use cuda devices"
  local function try() return pcall(function()
    return (rille.tensor({1, 2}, {placement = p}) + 1):sum():item() end) end
  local n, ok, e = 0
  repeat ok, e = try() n = n + 1 until not ok or n == 50
  local again, same = try()
  print(ok, tostring(e):find(said:format(3), 1, true) == 1 or e, again, tostring(same) == tostring(e) or same)
  ok, e = pcall(function() return rille.ones({1 << 20}, {placement = p}):sum():item() end)
  print(ok, tostring(e):find(said:format(8), 1, true) == 1 or e, rille.ones({8}):sum():item())'
for at in 1 2 3 5 8 13; do
  ok "a GPU that is lost at call $at is an error, and cpus continue" prints lost=$at $'false\ttrue\tfalse\ttrue\nfalse\ttrue\t8.0' "$lost"
done

two='local nn, p = rille.nn, rille.placement("cuda", {0, 1})
  local ok, e = pcall(function()
    local net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 5)):to_global{placement = p, sbp = "B"}
    local opt = rille.optim.AdamW(net:parameters(), {lr = 0.05})
    local x, labels = rille.randn(12, 6):to_global{placement = p, sbp = "S(0)"}, (rille.arange(12) % 5):to_global{placement = p, sbp = "S(0)"}
    local step = rille.graph(function(x, labels)
      local loss = net(x):cross_entropy(labels)
      loss:backward() opt:step() opt:zero_grad()
      return loss
    end)
    for i = 1, 3 do step(x, labels):item() end
  end)
  print(ok, tostring(e):find("invalid device context; this process can no longer use cuda devices", 1, true) ~= nil or e, rille.ones({8}):sum():item())'
asan=${ASAN_OPTIONS:-}
export ASAN_OPTIONS=$asan:detect_leaks=0 # pending work of a lost GPU is never freed by the stand-in
for at in 20 50 80 110; do
  ok "with two GPUs, one lost at call $at of a step ends the run" prints lost=$at $'false\ttrue\t8.0' "$two" cpu:1,cuda:0,cuda:1
done
ASAN_OPTIONS=$asan
uncaught() { FAKE_CUDA=lost=1 timeout $hang "$rille" -d cpu:1,cuda:0 -e "$1" 2>"$dir/err"; [ $? = 1 ] && grep -qF "(command line):2: cuda: invalid device context" "$dir/err"; }
ok "an uncaught error ends the program with 1" uncaught 'local at = {placement = rille.placement("cuda", {0})}
  print(rille.tensor({1, 2}, at):sum():item())'

# ---- moves between cpu and GPUs: copy kernels move large values; the host moves small values in pageable memory

carried='local cpu, gpus = {placement = rille.placement("cpu", {0}), sbp = "B"}, rille.placement("cuda", {0, 1})
  local n, wrong = 0, {}
  for _, shape in ipairs{{5}, {41, 3}, {1001, 67}, {3, 6000, 7}, {300, 5, 70}} do
    for _, dtype in ipairs{"f32", "u8"} do
      for _, sbp in ipairs{"B", "S(0)", "S(1)", "S(2)"} do
        if sbp == "B" or tonumber(sbp:match("%d")) < #shape then
          local x = (rille.rand(shape) * 99):to(dtype):to_global(cpu)
          local y = x:to_global{placement = gpus, sbp = sbp}
          n = n + 1
          if not y:to_global(cpu):eq(x):all():item() then wrong[#wrong + 1] = table.concat(shape, "x") .. dtype .. sbp end
        end
      end
    end
  end
  print(n, #wrong == 0 and "right" or table.concat(wrong, " "))'
for wrong in "" nopin; do
  rm -f "$dir/told"
  FAKE_CUDA_LOG=$dir/told ok "values are moved between a cpu and GPUs${wrong:+ without pinned memory}" prints "$wrong" $'32\tright' "$carried" cpu:1,cuda:0,cuda:1
  is "copy kernels never access pageable memory${wrong:+ (without pinned memory)}" "$(told 'carry.*' 2>/dev/null | cut -d' ' -f3- | paste -sd'|')" \
    "$([ "$wrong" ] && echo "from managed to managed" || echo "from managed to managed|from managed to pinned|from pinned to managed")"
done

ok "if another process holds the first GPU, values are moved to the second GPU and back" \
  prints held=0 $'32\tright' "${carried/'{0, 1}'/'{0}'}" cpu:1,cuda:1
# launched ...: checks that the number of copies on the second GPU is the same whether the first GPU is free or busy.
# The first copy of a thread must run on the right GPU, too.
launched() {
  local n=()
  for wrong in gpus=2 held=0; do
    rm -f "$dir/told"
    FAKE_CUDA_LOG=$dir/told prints $wrong $'32\tright' "${carried/'{0, 1}'/'{0}'}" cpu:1,cuda:1 || return 1
    n+=("$(grep -c ^carry "$dir/told")")
  done
  echo "${n[@]}"
  [ "${n[0]}" -gt 0 ] && [ "${n[0]}" = "${n[1]}" ]
}
ok "the second GPU launches as many copies as with a free first GPU" launched
ok "kernels are found in the cache if another process holds the first GPU" prints held=0 $'32\tright' "${carried/'{0, 1}'/'{0}'}" cpu:1,cuda:1

# ---- products by cuBLASLt, with fused epilogues

training='local nn, p = rille.nn, rille.placement(KIND, RANKS)
  rille.manual_seed(3)
  local layers = IMAGES and {nn.Conv2d(2, 8, 3, {padding = 1}), nn.GELU(), nn.Conv2d(8, 8, {3, 2}, {stride = 2, groups = 4, padding = {1, 0}}),
    nn.ReLU(), nn.Conv2d(8, 5, 2, {dilation = {1, 2}})} or {nn.Linear(6, 16), nn.GELU({approximate = "tanh"}), nn.Linear(16, 5)}
  local net = nn.Sequential(table.unpack(layers)):to(TYPE):to_global{placement = p, sbp = "B"}
  local opt = rille.optim.SGD(net:parameters(), {lr = 0.05})
  local x = rille.randn(IMAGES and {12, 2, 5, 6} or {12, 6}):to(TYPE):to_global{placement = p, sbp = "S(0)"}
  local labels = (rille.arange(12) % 5):to_global{placement = p, sbp = "S(0)"}
  local step = rille.graph(function(x, labels)
    local y = net(x):to("f32")
    local loss = (IMAGES and y:mean({2, 3}) or y):cross_entropy(labels)
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end)
  for i = 1, 3 do print(string.format("%.5f", step(x, labels):item())) end'
# trains WRONG TYPE [PROGRAM [NEAR]]: checks that losses on two GPUs equal those of a cpu within NEAR. Logs the calls
# of the toolkit in $dir/told.
trains() {
  local near=${4:-0.0001} want program=${3:-$training}; [[ $2 = *16 ]] && near=0.03
  rm -f "$dir/told"
  want=$("$own" -d cpu:1 -e "KIND, RANKS, TYPE = 'cpu', {0}, '$2' $program")
  FAKE_CUDA=$1 FAKE_CUDA_LOG=$dir/told timeout $hang "$rille" -d cuda:0,cuda:1 -e "KIND, RANKS, TYPE = 'cuda', {0, 1}, '$2' $program" | paste - <(echo "$want") |
    alike "$near" 3
}
differs() { ! sed "$1s/.*/1.02 1/" <<<$'-1 -1\n-1 -1\n-1 -1' | alike 0.01 3; }
for line in 1 2 3; do ok "alike finds a different number in line $line of three" differs $line; done
ok "alike accepts three equal numbers" alike 0 3 <<<$'-1 -1\n-1 -1\n-1 -1'
for type in f32 bf16 f64; do
  ok "a network of $type trains with library products" trains "" $type
  case $type in f32 | bf16) want="bias|bias+gelu+aux|plain|slope" ;; *) want=plain ;; esac
  is "all products are the library's, with the epilogues that the library has: $want" \
    "$(told 'multiply gpu \d \K.*' 2>/dev/null | cut -d' ' -f2 | paste -sd'|')" "$want"
  is "the algorithm of each product is selected once on each GPU" "$(told 'choose.*' 2>/dev/null | grep -vc '^1 ')" 0
done
fewer_waits() { local n; n=$(grep -cE '^(kernel|multiply)' "$dir/told"); echo "$n launches"; grep -E '^wait' "$dir/told" | sort | uniq -c; [ "$(grep -c '^wait' "$dir/told")" -lt "$n" ]; }
ok "there are fewer waits than launches" fewer_waits
on_gpus="KIND, RANKS, TYPE = 'cuda', {0, 1}, 'f32' $training"
losses=$("$rille" -d cuda:0,cuda:1 -e "$on_gpus")
is "three steps have three losses" "$(wc -w <<<"$losses")" 3
for seed in 1 2 3; do
  RILLE_BUS=sim:$seed ok "losses are the same in the simulated order of events of seed $seed" prints "" "$losses" "$on_gpus" cuda:0,cuda:1
done
ok "if the library supports no product, kernels compute them" trains noway f32
is "then the library computes no product" "$(grep -c multiply "$dir/told")" 0
# Updates variables of many shapes. The plan must group the updates into few launches, with the bits of the cpu.
updates='rille.manual_seed(5)
  local all = {}
  for _, shape in ipairs{{1}, {7}, {3, 5}, {}, {0, 4}, {9000}, {2, 3, 4}, {64, 65}, {5}, {2, 2}} do
    local v = {}
    for i = 1, 6 do v[i] = rille.rand(shape, {dtype = i % 3 == 1 and TYPE or "f32", placement = rille.placement(KIND, {0}), sbp = "B"}) end
    all[#all + 1] = v
  end
  local step = rille.graph(function(lr, t)
    for _, v in ipairs(all) do rille._update("adamw", {v[1], v[2], v[3], v[4], lr, t}, {weight_decay = 0.1}) end
    for _, v in ipairs(all) do rille._update("sgd", {v[5], v[6], v[4], lr}, {momentum = 0.9}) end
  end)
  for t = 1, 3 do step(0.1 / t, t) end
  for _, v in ipairs(all) do
    for i, x in ipairs(v) do v[i] = ("%a"):format(x:to("f64"):sum():item()) end
    print(table.concat(v, " "))
  end'
for type in f32 bf16; do
  rm -f "$dir/told"
  want=$("$own" -d cpu:1 -e "KIND, TYPE = 'cpu', '$type' $updates")
  is "ten variables of $type are updated on a cpu" "$(wc -l <<<"$want")" 10
  FAKE_CUDA_LOG=$dir/told ok "ten variables of $type are updated on a GPU with the same bits" prints "" "$want" "KIND, TYPE = 'cuda', '$type' $updates" cuda:0
  is "a step has two launches: all adamw updates, all sgd updates" "$(grep -cE '^kernel .*many_' "$dir/told")" 6
done
# Casts variables of many shapes immediately before an operator reads them.
casts='local at, v = {placement = rille.placement(KIND, {0}), sbp = "B"}, {}
  for i, shape in ipairs{{12}, {12, 8}, {2, 3, 4}, {64, 65}, {8}} do v[i] = (rille.arange(rille.zeros(shape):numel()) / 7):reshape(shape):to_global(at) end
  local step = rille.graph(function()
    local sum = 0
    for _, x in ipairs(v) do sum = sum + x:to("bf16"):max():to("f32") end
    return sum
  end)
  for _ = 1, 2 do print(("%a"):format(step():item())) end'
rm -f "$dir/told"
FAKE_CUDA_LOG=$dir/told ok "casts of variables give the bits of the cpu" prints "" "$("$own" -d cpu:1 -e "KIND = 'cpu' $casts")" "KIND = 'cuda' $casts" cuda:0
is "all casts of a step are one launch" "$(grep -cE '^kernel .*many_cast' "$dir/told")" 2
odd='local p = rille.placement(KIND, {0})
  local x = rille.arange(40):to("f32"):to_global{placement = p, sbp = "B"}
  print(x:slice(0, 1, 37):reshape({6, 6}):matmul(x:slice(0, 4, 40):reshape({6, 6})):sum():item())'
ok "a kernel computes products of operands that are misaligned for the library" prints "" "$("$own" -d cpu:1 -e "KIND = 'cpu' $odd")" "KIND = 'cuda' $odd" cuda:0
ok "RILLE_CHECK=ref compares products with the reference" env RILLE_CHECK=ref LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$rille" -d cuda:0,cuda:1 -e "KIND, RANKS, TYPE = 'cuda', {0, 1}, 'f32' $training"
halves='local x = (rille.arange(40) / 7):to("bf16"):to_global{placement = rille.placement(KIND, {0}), sbp = "B"}
  local y = ((x * 0.3 + x) * x - 1):relu()
  print(y:sum():item(), (y * 3 - x):max():item())'
ok "a fused chain of halves gives the bits of the cpu" prints "" "$("$own" -d cpu:1 -e "KIND = 'cpu' $halves")" "KIND = 'cuda' $halves" cuda:0
# Tests TF32, which rounds 1 + 2^-12 to 1. A sum of 4,096 addends shows the difference. Multiplies in forward, in a
# gradient, in a step that was traced with TF32, and after TF32 was switched off.
tf32='local at = {placement = rille.placement(KIND, {0}), sbp = "B", requires_grad = true}
  local x, w = rille.full(X or {1, 4096}, 1 + 2^-12, at), rille.full(W or {4096, 1}, 1, at)
  local function product(x) return X and x:conv2d(w) or x:matmul(w) end
  local function both(x) return product(x), rille.grad(product(x):sum(), w):max() end
  local whole, was = rille.graph(both), rille.allow_tf32(true)
  local short = rille.graph(both)
  for _, f in ipairs{both, short} do local y, g = f(x) print(y:item(), g:item()) end
  print(was, rille.allow_tf32(), rille.allow_tf32(false))
  for _, f in ipairs{both, short, whole} do local y, g = f(x) print(y:item(), g:item()) end'
exact=$'4097.0\t1.000244140625' rounded=$'4096.0\t1.0'
modes=$'false\ttrue\ttrue'
ok "operands are rounded to TF32 while allowed, or if allowed when the step was traced" prints "" \
  "$rounded"$'\n'"$rounded"$'\n'"$modes"$'\n'"$exact"$'\n'"$rounded"$'\n'"$exact" "KIND = 'cuda' $tf32" cuda:0
ok "a cpu ignores allow_tf32" prints "" "$exact"$'\n'"$exact"$'\n'"$modes"$'\n'"$exact"$'\n'"$exact"$'\n'"$exact" "KIND = 'cpu' $tf32" cpu:1
names='local x = rille.randn(4, 8):to_global{placement = rille.placement("cuda", {0}), sbp = "B"}
  local step = rille.graph(function(x) return x:matmul(x:transpose(0, 1)) end)
  step(x) print(tostring(step:plan{physical = true}):find("cublaslt, scratch", 1, true) ~= nil)'
ok "a plan names the library" prints "" true "$names" cuda:0

shown='local x = (rille.arange(48) % 7 - 3):to("f32"):reshape({6, 8}):to_global{placement = rille.placement(KIND, {0}), sbp = "B"}
  local step = rille.graph(function(x) local y = x:matmul(x:transpose(0, 1)) return y, y:relu() * 2 + 1, (y:softmax(1) * 64):round() end)
  for _, y in ipairs{step(x)} do print(y:sum():item(), y:max():item(), y:min():item()) end'
"$rille" -d cpu:1 -e "KIND = 'cpu' $shown" >"$dir/shown"
ok "a product with other readers is not overwritten by fused operators" prints "" "$(cat "$dir/shown")" "KIND = 'cuda' $shown" cuda:0

# Trains a tied embedding, whose table has two gradients. One is computed by a library product, and the other is added
# to it in place.
tied='local at = {placement = rille.placement(KIND, {0}), sbp = "B"}
  rille.manual_seed(5)
  local w = rille.randint(-2, 3, {12, 8}):to("f32"):to_global(at):detach():requires_grad_()
  local ids, g = rille.randint(0, 12, {4, 6}):to_global(at), rille.randint(-2, 3, {4, 6, 12}):to("f32"):to_global(at)
  local opt = rille.optim.SGD({w}, {lr = 1})
  local step = rille.graph(function(i, h)
    local loss = (rille.embedding(i, w):matmul(w:transpose(0, 1)) * h):sum()
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end)
  step(ids, g):item()
  print((w * rille.arange(96):reshape({12, 8}):to("f32"):to_global(at)):sum():item(), w:max():item(),
    tostring(step:plan()):find("contract+index_add_to", 1, true) ~= nil)'
rm -f "$dir/told"
FAKE_CUDA_LOG=$dir/told ok "the embedding's gradient is added in place to the library product" prints "" "$("$own" -d cpu:1 -e "KIND = 'cpu' $tied")" "KIND = 'cuda' $tied" cuda:0
is "one kernel adds the gradient, without a copy" "$(grep -c '^kernel .*index_add_to' "$dir/told")" 1

# ---- convolutions by cuDNN

convolving="IMAGES = true $training"
for type in f32 bf16 f16 f64; do
  ok "a network of $type trains with library convolutions" trains "" $type "$convolving"
  case $type in f32) want="w engine 7|x engine 7|y engine 7" ;; f64) want="w engine 6|x engine 6|y engine 6" ;; *) want="x engine 6|y engine 6" ;; esac
  is "convolutions use the best permitted engines: $want" "$(told 'convolve gpu \d \K.*' 2>/dev/null | cut -d' ' -f2- | paste -sd'|')" "$want"
done
ok "if the library supports no convolution, kernels compute them" trains noengine f32 "$convolving"
is "then the library computes no convolution" "$(grep -c convolve "$dir/told")" 0
# Trains examples/resnet.lua in f64, because the network amplifies rounding errors: after about thirty steps, f32 losses
# differ from f64 losses in the second digit, also on a cpu. The third output line sums the buffers of the norms.
residual='local p = rille.placement(KIND, RANKS)
  rille.manual_seed(3)
  local net = rille.models.resnet.new{classes = 4, channels = 1, width = 4, blocks = {1, 1}}:to(TYPE):to_global{placement = p, sbp = "B"}
  local opt = rille.optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.9, nesterov = true, weight_decay = 1e-3})
  local x, labels = rille.randn(8, 1, 6, 6):to(TYPE):to_global{placement = p, sbp = "S(0)"}, (rille.arange(8) % 4):to_global{placement = p, sbp = "S(0)"}
  local step = rille.graph(function(x, labels)
    local loss = net(x):cross_entropy(labels)
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end)
  for i = 1, 12 do
    local loss = step(x, labels):item()
    if i > 10 then print(("%.15g"):format(loss)) end
  end
  local seen = 0
  for _, b in net:named_buffers() do seen = seen + b:square():sum():item() end
  print(("%.15g"):format(seen))'
for wrong in "" noengine; do
  ok "twelve steps of a residual network in f64 equal those of a cpu${wrong:+, also by kernels}" trains "$wrong" f64 "$residual" 1e-11
done
ok "RILLE_CHECK=ref compares convolutions with the reference" env RILLE_CHECK=ref LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$rille" -d cuda:0,cuda:1 -e "KIND, RANKS, TYPE = 'cuda', {0, 1}, 'f32' $convolving"
odd='local p = rille.placement(KIND, {0})
  local x = rille.arange(40):to("f32"):to_global{placement = p, sbp = "B"}
  print(x:slice(0, 1, 37):reshape({1, 1, 6, 6}):conv2d(x:slice(0, 4, 40):reshape({4, 1, 3, 3})):sum():item())'
ok "a kernel computes convolutions of images that are misaligned for the library" prints "" "$("$own" -d cpu:1 -e "KIND = 'cpu' $odd")" "KIND = 'cuda' $odd" cuda:0
ok "convolutions follow allow_tf32 as products do" prints "" \
  "$rounded"$'\n'"$rounded"$'\n'"$modes"$'\n'"$exact"$'\n'"$rounded"$'\n'"$exact" "KIND, X, W = 'cuda', {1, 4096, 1, 1}, {1, 4096, 1, 1} $tf32" cuda:0
names='local x = rille.randn(1, 2, 4, 4):to_global{placement = rille.placement("cuda", {0}), sbp = "B"}
  local step = rille.graph(function(x) return x:conv2d(x) end)
  step(x) print(tostring(step:plan{physical = true}):find("cudnn, scratch", 1, true) ~= nil)'
ok "a plan names the library" prints "" true "$names" cuda:0
told_of() { FAKE_CUDA= "$rille" -d cuda:0 --doctor | tee /dev/stderr | grep -qE "kernels of GPUs .*; products by cuBLASLt [0-9.]+; convolutions by cuDNN 9\.19$"; }
ok "--doctor names both libraries" told_of

# ---- repeated sequences of launches: CUDA graphs

again=${training%for i = 1, 3*}
again=${again/nn.Linear(16, 5)/nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 5)}'local before, shown = rille.counters(), {}
  local other = x * 2
  for i = 1, 40 do shown[i] = ("%a"):format(step(i % 3 == 0 and other or x, labels):item()) end
  local now = rille.counters()
  print(table.concat(shown, " ")) print(now.cuda_graphs - before.cuda_graphs, now.cuda_replays - before.cuda_replays)'
# steps WRONG DEVICES RANKS: runs 40 steps on two batches. Sets $losses to their losses, in hex, and $counts to the
# numbers of graphs and replays
steps() {
  rm -f "$dir/told"
  FAKE_CUDA=$1 FAKE_CUDA_LOG=$dir/told timeout $hang "$rille" -d "$2" -e "KIND, RANKS, TYPE = 'cuda', $3, 'f32' $again" >"$dir/out" 2>"$dir/err"
  losses=$(sed -n 1p "$dir/out") counts=$(sed -n 2p "$dir/out")
}
while IFS='|' read -r devices ranks; do
  steps nograph "$devices" "$ranks"
  want=$losses
  is "without capture, a step on $devices uses no graph" "$(wc -w <<<"$want") $counts" $'40 0\t0'
  steps "" "$devices" "$ranks"
  is "losses on $devices are the same with graphs" "$losses" "${want:-nothing}"
  ok "few graphs are launched many times: $counts" eval '[ "${counts%	*}" -gt 0 ] && [ "${counts#*	}" -gt "${counts%	*}" ]'
  is "CUDA launches graphs as often as counted, each of three launches or more" "$(grep -c "^graph of" "$dir/told") $(grep -cE "^graph (of|made of) [012]$" "$dir/told")" "${counts#*	} 0"
  is "captures contain no forbidden call" "$(grep -c ^forbidden "$dir/told")" 0
done <<'PLACES'
cuda:0|{0}
cuda:0,cuda:1|{0, 1}
cuda:0x2|{0, 1}
PLACES

# ---- steps that are not waited for: the GPU receives the next step while it works

unread=${again%  local before*}
unread=${unread/nn.SiLU(),/nn.SiLU(), nn.Dropout(0.3),}'local losses, other, before = {}, x * 2, rille.counters()
  for i = 1, 20 do
    local l = step(i % 3 == 0 and other or x, labels)
    losses[i] = WAITS and ("%a"):format(l:item()) or l
  end
  for i, l in ipairs(losses) do losses[i] = WAITS and l or ("%a"):format(l:item()) end
  local now = rille.counters()
  print(table.concat(losses, " ")) print(now.cuda_replays - before.cuda_replays)'
runs() { # runs WRONG WAITS: sets $losses, and $counts to the number of graph launches
  FAKE_CUDA=$1 timeout $hang "$rille" -d cuda:0 -e "KIND, RANKS, TYPE, WAITS = 'cuda', {0}, 'f32', $2 $unread" >"$dir/out" 2>"$dir/err"
  losses=$(sed -n 1p "$dir/out") counts=$(sed -n 2p "$dir/out")
}
runs "" true
want=$losses often=$counts
is "twenty steps have twenty losses" "$(wc -w <<<"$want")" 20
runs "" false
is "losses are the same if they are read at the end" "$losses" "${want:-nothing}"
ok "steps that are not waited for launch graphs, too: $often, $counts" eval '[ "$counts" -gt 0 ]'
ok "steps that are not waited for mix with new batches, learning rates, saves and timing" prints "" ok "arg = {[0] = '', 'cuda'} dofile('$root/t/lib/steps/unread.lua')" cuda:0
runs nopin false
is "losses are the same without pinned memory" "$losses" "${want:-nothing}"
runs nograph false
is "losses are the same without graphs" "$losses" "${want:-nothing}"
export ASAN_OPTIONS=$asan:detect_leaks=0
unread_lost='local said = select(2, pcall(function() '${unread/WAITS and/false and}' end))
  local one, two = tostring(said):match("^%(command line%):(%d+): .-invalid device context; this process can no longer use cuda devices(.*)$")
  print(one and "told" or said, rille.ones({8}, {placement = rille.placement("cpu", {0})}):sum():item())'
for at in 60 150 300 450; do
  ok "a GPU that is lost at call $at is an error with a line of the step" prints lost=$at $'told\t8.0' "KIND, RANKS, TYPE = 'cuda', {0}, 'f32' $unread_lost" cpu:1,cuda:0
done
ends_so() { FAKE_CUDA=lost=$1 timeout $hang "$rille" -d cuda:0 -e "KIND, RANKS, TYPE = 'cuda', {0}, 'f32' ${unread/%  for i, l in*/}" 2>"$dir/err"; local code=$?; cat "$dir/err"; [ $code = 1 ] && grep -q "invalid device context" "$dir/err"; }
ok "a GPU that is lost ends the program with 1, also if no loss is read" ends_so 450
ASAN_OPTIONS=$asan

# ---- t/cuda/kernels gpu, which tests real GPUs, on the stand-in ----

mkdir -p "$dir/t/bin"
cp "$build/t/bin/cuda" "$dir/t/bin" # puts the test into a folder from which it finds the plug-in, two folders above
ok "t/cuda/convolutions gpu computes them by the library" env FAKE_CUDA=gpus=1,memory=4000000000 timeout $hang "$dir/t/bin/cuda" convolutions gpu
for op in gelu softmax embedding; do
  ok "t/cuda/kernels gpu runs the kernels of $op" env ONLY=$op FAKE_CUDA=gpus=1,memory=4000000000 timeout $hang "$dir/t/bin/cuda" kernels gpu
done
stops() { ONLY=gelu FAKE_CUDA=lost=9 timeout $hang "$dir/t/bin/cuda" kernels gpu >"$dir/out" 2>/dev/null; [ $? = 1 ] && grep -q "^Bail out!.*invalid device context" "$dir/out"; }
ok "t/cuda/kernels gpu stops if the GPU is lost" stops

# ---- plan partitions: GPUs that cannot access each other's memory

cp "$build/t/bin/plan" "$dir/t/bin"
for devices in cuda:0x4 cuda:0,cuda:1,cuda:2,cuda:3; do
  FAKE_CUDA_LOG=$dir/told ok "partitioned programs on $devices give the bits of unpartitioned ones" env FAKE_CUDA=gpus=4,memory=4000000000 timeout $hang "$dir/t/bin/plan" parts $devices
done

# ---- t/gpu/run.sh: an unpacked archive of the GPU tests needs no other files

mkdir -p "$dir/elsewhere"
packs() { t/gpu/run.sh pack "$dir/pack.tar.gz" && tar -C "$dir/elsewhere" -xzf "$dir/pack.tar.gz"; }
part() { FAKE_CUDA=gpus=1 timeout $hang env -C / "$dir/elsewhere/t/gpu/run.sh" run "$dir/results" "$@"; }
none() { CUDA_VISIBLE_DEVICES= part facts light && grep -q "^facts: no device" "$dir/results/summary.txt" && ! grep -q "^light" "$dir/results/summary.txt"; }
there() { part facts; [ $? = 0 ] && grep -q "== fake 0" "$dir/results/summary.txt" && grep -q "there is a GPU" "$dir/results/log.txt"; }
stopped() { LIMIT=10 FAKE_CUDA=gpus=1 part operators; [ $? = 1 ] && grep -q "^operators: stopped after" "$dir/results/summary.txt"; }
if [ "$build" = "$root/build/release" ]; then
  ok "t/gpu/run.sh packs the GPU tests" packs
  cp "$dir/librille-cuda.so" "$dir/elsewhere/build/release/lib"
  cp "$dir/librille-cuda.so" "$dir/elsewhere/build/release"
  ok "the archive reports a missing GPU and ends" none
  ok "the archive reports the GPU" there
  ok "a part that takes too long is stopped, and its output is kept" stopped
fi
finish
