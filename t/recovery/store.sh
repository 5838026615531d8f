#!/bin/bash
# Tests checkpoints in an object store, through a helper program (rille --store; examples/store.sh keeps objects in a
# folder). An object must have the bytes of the file that a save to a folder writes. Each worker must store and fetch
# its own shards. After each fault of the helper the error must name the URL and the exit code, and the last checkpoint
# must remain. Run: store.sh path/to/rille.
rille=$(realpath "$1")
. t/lib/processes.sh
export STORE_REAL=$PWD/examples/store.sh STORE_DIR=$dir RILLE_STORE=$dir/helper
unset RILLE_STORE_SECONDS
cd "$dir" || exit 2
mkdir shared

# A helper that logs its calls. The file `fault` contains "VERB PATTERN FAULT": FAULT changes the calls of VERB whose
# object matches PATTERN.
cat >helper <<'SH'
#!/bin/bash
cd "$STORE_DIR" && echo "$1 ${2#*shared/} $PPID" >>calls
read -r verb pattern fault <fault 2>/dev/null
[[ ${verb:-} = "$1" && $2 = *$pattern* ]] || exec "$STORE_REAL" "$@"
case $fault in
  fail) echo "access denied" >&2; exit 3 ;;
  killed) kill -9 $$ ;;
  hang) sleep 1000 ;;
  nothing) cat >/dev/null ;;
  short) if [ "$1" = put ]; then head -c 700 | "$STORE_REAL" "$@"; else "$STORE_REAL" "$@" | head -c 700; fi ;;
  changed) (head -c 700; printf x; tail -c +2) | "$STORE_REAL" "$@" ;;
  noise) "$STORE_REAL" "$@" | tr 0-9 a-j ;;
esac
SH
chmod +x helper
# calls VERB ENDING: prints the objects of these calls whose names have the ending
calls() { sed -n "s/^$1 \(.*$2\) [0-9]*$/\1/p" calls | sort; }

cat >net.lua <<'LUA'
function made(seed, sbp)
  local P, nn = rille.placement("cpu", {0, 1}), rille.nn
  rille.manual_seed(seed)
  local net = nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 30))
  net:to_global{placement = P, sbp = "B"}
  net[2].weight:to_global_{placement = P, sbp = sbp or "S(0)"}
  local opt = rille.optim.AdamW(net:parameters(), {lr = 1e-2})
  local parts = {model = net, optimizer = opt}
  return parts, function()
    net(rille.ones({4, 6}, {placement = P, sbp = "B"})):pow(2):mean():backward(); opt:step(); opt:zero_grad()
  end
end
function values(parts)
  local h = 0
  for _, p in ipairs(parts.model:parameters()) do
    for _, v in ipairs(p:reshape{p:numel()}:totable()) do h = (h * 31 + string.unpack("<i8", string.pack("<d", v))) % 0xfffffffb end
  end
  return ("%08x"):format(h)
end
LUA
cat >save.lua <<'LUA'
dofile("net.lua")
local parts, step = made(1)
for i = 1, 3 do
  step()
  parts.step = i
  for _, at in ipairs(arg) do rille.checkpoint.save(at, parts, {async = i == 2, keep = 2}) end
end
print(values(parts))
LUA
cat >load.lua <<'LUA'
dofile("net.lua")
for i, at in ipairs(arg) do
  local parts = made(i + 1, "S(1)")
  assert(rille.checkpoint.load(at, parts) == 3)
  print(values(parts))
end
LUA
one=(-d cpu:2) two=(launch -n 2 -d cpu:1 --root "$dir/shared:folder:/$dir/shared")
for kind in one two; do
  declare -n run=$kind
  : >calls
  go "${run[@]}" save.lua "shared/$kind" "folder:/$dir/shared/$kind-url/"
  want=$stdout
  is "$kind: a URL gets the files of a folder, with the same bytes" "$(diff -rq -x .owner "shared/$kind" "shared/$kind-url" 2>&1)" ""
  is "$kind: old checkpoints are deleted" "$(calls delete .safetensors)" "$kind-url/checkpoint-00000001-step-1.safetensors"
  if [ "$kind" = two ]; then
    is "each worker stores its shards itself" "$(awk '$1 == "put" {split($2, n, "."); print n[2], $3}' calls | sort -u | awk '{print $1}')" $'0\n1\nsafetensors'
    is "the manifest is stored last" "$(awk '$1 == "put" {sub(/.*step-/, "", $2); print $2}' calls | sed 's/[01].shard/N.shard/')" \
      "$(for i in 1 2 3; do printf '%s\n' "$i.N.shard" "$i.N.shard" "$i.safetensors"; done)"
  fi
done
: >calls
go "${two[@]}" load.lua "folder:/$dir/shared/one-url" "folder:/$dir/shared/two-url"
is "workers load both" "$stdout" "$want"$'\n'"$want"
is "each shard is fetched once by each worker that needs it, and not by the controller" \
  "$(awk '$1 == "get" && /shard/ {print $2, $3}' calls | sort | uniq -d)$(awk '$1 == "get" && /shard/ {print $3}' calls | sort -u | wc -l)" 2
: >calls
go "${one[@]}" load.lua "folder:/$dir/shared/one-url" "folder:/$dir/shared/two-url" shared/two-url
is "one process loads both, and the objects as files" "$stdout" "$want"$'\n'"$want"$'\n'"$want"
is "one process fetches each object once" "$(awk '$1 == "get" {print $2}' calls | sort | uniq -c | awk '{print $1}' | sort -u)" 1

# ---- faults of the helper ----

cat >faults.lua <<'LUA'
dofile("net.lua")
local url, kind, cases = table.unpack(arg)
local taken, ncase = {}, 0
for i in cases:gmatch("%d+") do taken[tonumber(i)] = true end
local function takes_next() ncase = ncase + 1; return taken[ncase - 1] end -- true if this run takes the next case
local object = kind == "two" and {".1.shard", ".safetensors"} or {".safetensors"}
local function set(text) local f <close> = assert(io.open("fault", "w")); f:write(text, "\n") end
local function check(name, good, why) print((good and "ok " or "not ok ") .. name .. (good and "" or ": " .. tostring(why))) end
local parts, step = made(1)
parts.step = 1
rille.checkpoint.save(url, parts)
local want = values(parts)
local function loads(name, other)
  set("")
  local again = made(2, "S(1)")
  local good, why = pcall(rille.checkpoint.load, url, again, {fallback = other})
  check(name .. "; the last checkpoint remains", good and values(again) == want, why)
end
local expected = {
  fail = "'[^']*helper %s' ended with exit code 3: access denied",
  killed = "'[^']*helper %s' ended with signal 9",
  hang = "'[^']*helper %s' made no progress for 0.4 seconds and was ended",
  nothing = "'[^']*helper put' ended with exit code 0, but its list lacks the object",
  short = "'[^']*helper put' ended with exit code 0, but expected %%d+ bytes in its list, found 700",
  changed = "damaged",
}
step()
parts.step = 2
for _, fault in ipairs{"fail", "killed", "hang", "nothing", "short", "changed"} do
  for _, ending in ipairs(object) do
    for _, async in ipairs(fault == "hang" and {true} or {false, true}) do
      if (fault ~= "changed" or ending == ".safetensors") and takes_next() then
        local name = ("put %s %s%s"):format(ending, fault, async and ", async" or "")
        set(("put step-2%s %s"):format(ending, fault))
        local good, why = pcall(function()
          rille.checkpoint.save(url, parts, {async = async, keep = 1})
          rille._finish()
        end)
        local found = not good and why:find(url, 1, true) and why:find(ending, 1, true) and why:find(expected[fault]:format("put"))
        check(name .. ": the error names URL and cause", found, why)
        loads(name, fault == "short" or fault == "changed")
      end
    end
  end
end
set("")
rille.checkpoint.save(url, parts, {keep = 1})
for _, verb in ipairs{"list", "get"} do
  for _, fault in ipairs(verb == "list" and {"fail", "killed", "hang", "noise"} or {"fail", "killed", "hang", "short"}) do
    for _, ending in ipairs(verb == "list" and {"faults"} or object) do
      if takes_next() then
        set(("%s %s %s"):format(verb, ending, fault))
        local other = made(3)
        local before = values(other)
        local good, why = pcall(rille.checkpoint.load, url, other)
        local text = fault == "short" and "damaged" or fault == "noise" and "no checkpoint" or expected[fault]:format(verb)
        check(("%s %s %s: the error names URL and cause, and no value changes"):format(verb, ending, fault),
          not good and why:find(url, 1, true) and why:find(text) and values(other) == before, why)
      end
    end
  end
end
set("")
LUA
share 0
cases=
for ((i = 0; i < 50; i++)); do share $i && cases+="$i "; done
for kind in one two; do
  declare -n run=$kind
  RILLE_STORE_SECONDS=0.4 go "${run[@]}" faults.lua "folder:/$dir/shared/$kind-faults" "$kind" "$cases"
  [ "$code" = 0 ] || echo "# $stderr"
  while read -r line; do
    ok "$kind: ${line#* }" [ "${line%% *}" = ok ]
  done < <(sed 's/^not ok /not_ok /' <<<"$stdout")
  rm -f fault
done

# ---- other files, and wrong settings ----

go "${one[@]}" -e "
  local url = 'folder:/$dir/shared/x'
  rille.save(url .. '.npy', rille.arange(5)); print(rille.load(url .. '.npy'):sum():item())
  rille.save(url .. '.npy', rille.arange(6)); print(rille.load(url .. '.npy'):sum():item())
  rille.save(url .. '.safetensors', {a = rille.arange(4)}); print(rille.load(url .. '.safetensors').a:sum():item())
  print((select(2, pcall(rille.save, url, {a = rille.arange(4)}, {max_shard_size = 5}))))"
is "rille.save and rille.load work with URLs" "$(head -3 <<<"$stdout")" $'10\n15\n6'
ok "max_shard_size with a URL is an error" grep -q 'max_shard_size needs the name of a folder, found a URL' <<<"$stdout"
RILLE_STORE= go "${one[@]}" -e "rille.save('s3://bucket/x.npy', rille.arange(5))"
ok "without a helper program the error names the option" ends 1 "s3://bucket/x.npy: a URL needs a helper program that stores objects; give --store PROGRAM"
go "${one[@]}" --store "$dir/none" -e "rille.load('s3://bucket/x.npy')"
ok "a missing helper program is an error" ends 1 "s3://bucket/x.npy: the program '$dir/none' of RILLE_STORE cannot be started: No such file"
go launch -n 2 -d cpu:1 --root "folder:/$dir/shared" save.lua "folder:/$dir/shared/x/../../up"
ok "a worker refuses '..' in a URL" ends 1 "a path must not contain '..'"
is "no temporary file remains" "$(ls tmp)" ""
finish
