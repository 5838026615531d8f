#!/bin/bash
# Tests that every example runs, prints the output promised in its head comment, and exits with 0. Runs of examples are
# cases of share; errors before training are tested in every share.
rille=$1
. t/lib/tap.sh

# example "NAME ARGUMENTS" TEXT...: the example runs, and its output contains each text
example() { ok "examples/${1%% *}.lua" runs "$@"; }
runs() {
  local call=$1 name=${1%% *} arguments= out word
  [ "$call" = "$name" ] || arguments=${call#* }
  shift
  out=$("$rille" -d cpu:4 "examples/$name.lua" $arguments </dev/null 2>&1) || { echo "$out"; return 1; }
  for word; do grep -qF -- "$word" <<<"$out" || { echo "does not print: $word"; echo "$out"; return 1; }; done
}
drawn() { grep -q "prefers-color-scheme:dark" "$1" && grep -q "<polyline" "$1" && tail -1 "$1" | grep -q "</svg>"; }

share && example tensor "shape" "3 x 4" "matmul"
share && example sbp "A0 S(0) times B0 B gives Y0 S(0)" "Y0 B times B1 S(1) gives Y2 S(1)" "device 3 holds 4 x 3 from column 3" "bytes move"
share && example autograd "12.0 3.0" "12.0 -6.0" "has layout P" "3.14159"
share && example pipeline "gpipe" "1f1b"
share && example per_rank "below 1e-5:	true" "12288	(n - 1)/n of k and v per rank:	12288"
share && example auto "planned" "and no plan costs less" "for 64 x 8 devices"
small="--steps 3 --batch 4 --length 16 --layers 2 --width 32 --write 8"
share && example "gpt $small --plot $dir/gpt.svg" "single on cpu[0]" "tokens/s" "MFU" "validation loss" "The " && ok "gpt.lua draws its losses" drawn "$dir/gpt.svg"
share && example "gpt $small --recipe pp-tp --micro-batches 2" "pp-tp on cpu[0, 1]" "bubble" "validation loss"
share && example "gpt $small --every 2 --checkpoint $dir/training --recipe zero" "validation loss" &&
  example "gpt $small --steps 5 --every 2 --checkpoint $dir/training --resume --recipe 2d" "continues after step 3" "step 5/5"
share && example "gpt $small --steps 30 --minutes 0 --checkpoint $dir/timed" "step 12/12" &&
  example "gpt $small --steps 30 --minutes 0 --checkpoint $dir/timed --resume" "continues after step 12" "step 24/24"
share && example "resnet --steps 3 --recipe dp" "of 360 held-out images"
share && example "resnet --steps 3 --recipe zero" "of 360 held-out images"
"$rille" -d cpu:1 -e "rille.models.llama.new{vocab = 300, length = 16, layers = 2, heads = 4, kv_heads = 2, width = 16}:save('$dir/new')
  rille.tokenizer.train({file = 'README.md'}, {size = 300}):save('$dir/new/tokenizer.json')"
for i in $(seq 400); do echo $((i * 7 % 61)); done >"$dir/ids"
share && example "finetune $dir/new $dir/tuned --ids $dir/ids --steps 3 --recipe dp-tp" "loss 5." "saved in $dir/tuned" &&
  example "generate $dir/tuned --ids 3,1,4 --count 5 --greedy" " 3 1 4 " "ids/s"
share && example "generate $dir/new --ids 3 --count 5 --devices 2 --quantize int8" "ids/s"
share && example "finetune $dir/new $dir/told --text README.md --steps 3" "loss 5." "saved in $dir/told" &&
  example "generate $dir/told --prompt Rille --count 5" "Rille" "ids/s"
# alike RECIPE: trains with the recipe and on one device. The first five characters of each log line must be equal.
alike() {
  "$rille" -d cpu:8 examples/finetune.lua "$dir/new" "$dir/by" --ids "$dir/ids" --steps 2 --length 16 --recipe single --log "$dir/one.log" >/dev/null
  "$rille" -d cpu:8 examples/finetune.lua "$dir/new" "$dir/by" --ids "$dir/ids" --steps 2 --length 16 --recipe "$1" --log "$dir/by.log" || return 1
  diff <(cut -c1-5 "$dir/one.log") <(cut -c1-5 "$dir/by.log")
}
unsaved() {
  local out
  out=$("$rille" -d cpu:1 examples/finetune.lua "$dir/new" "$1" --ids "$dir/ids" --steps 1000000 2>&1) && return 1
  grep -qF -- "$2" <<<"$out" || { echo "does not say: $2"; echo "$out"; return 1; }
}
touch "$dir/file"
ok "finetune.lua: a target that is a file is refused before training" unsaved "$dir/file" "$dir/file is a file, expected a folder"
ok "finetune.lua: a target in a missing folder is refused before training" unsaved "$dir/nowhere/tuned" "$dir/nowhere/tuned cannot be written: No such file"
# Makes a model folder whose tokenizer begins each text with id 298. The model's end id is the third id of the greedy
# text.
bos=$dir/bos
"$rille" -d cpu:1 -e "local json = require 'rille.json'
  local function put(name, t) local f = io.open('$bos/' .. name, 'w') f:write(json.encode(t)) f:close() end
  rille.manual_seed(1)
  local m = rille.models.llama.new{vocab = 300, length = 32, layers = 2, heads = 4, width = 16}
  rille.no_grad(function() for _, p in ipairs(m:parameters()) do p:copy_(p * 10 + rille.randn(p.shape) * 0.5) end end)
  m:save('$bos')
  rille.tokenizer.train({file = 'README.md'}, {size = 300, special = {'<|begin|>', '<|end|>'}}):save('$bos/tokenizer.json')
  local t = json.load('$bos/tokenizer.json')
  t.post_processor = {type = 'TemplateProcessing', single = {{SpecialToken = {id = '<|begin|>', type_id = 0}}, {Sequence = {id = 'A', type_id = 0}}},
    pair = {{Sequence = {id = 'A', type_id = 0}}, {Sequence = {id = 'B', type_id = 1}}},
    special_tokens = {['<|begin|>'] = {id = '<|begin|>', ids = {298}, tokens = {'<|begin|>'}}}}
  put('tokenizer.json', t)
  local tok = rille.tokenizer('$bos/tokenizer.json')
  local text = tok:encode('hello', {add_special_tokens = true})
  assert(text[1] == 298)
  local function said(stop)
    local ids = m:generate({text}, {temperature = 0, max_new_tokens = 12, stop = stop})[1]
    return tok:decode(ids, {skip_special_tokens = true}) .. '\n', ids[#text + 3]
  end
  local function write(name, what) local f = io.open('$bos/' .. name, 'w') f:write(what) f:close() end
  local whole, stop = said()
  write('whole', whole) write('stop', stop) write('stopped', (said(stop)))
  local c = json.load('$bos/config.json')
  c.eos_token_id = {4711, stop}
  put('config.json', c)"
hello() { "$rille" -d cpu:1 examples/generate.lua "$bos" --prompt hello --greedy --count 12 "$@" 2>/dev/null; }
ok "generate.lua: a text begins as the tokenizer's template says, and ends with the folder's id" cmp <(hello) "$bos/stopped"
ok "generate.lua: the folder's end id shortens the text" eval '! cmp -s "$bos/stopped" "$bos/whole"'
ok "generate.lua: --stop none continues after the end id" cmp <(hello --stop none) "$bos/whole"
ok "generate.lua: --stop ID ends the text at the id" cmp <(hello --stop "$(cat "$bos/stop")") "$bos/stopped"
echo "{\"eos_token_id\": [4711]}" >"$bos/generation_config.json"
ok "generate.lua: generation_config.json determines the end id, if it exists" cmp <(hello) "$bos/whole"
echo "{\"eos_token_id\": $(cat "$bos/stop")}" >"$bos/generation_config.json"
ok "generate.lua: generation_config.json may have a single end id" cmp <(hello) "$bos/stopped"
share && example "gpt $small --bpe 300" "vocabulary 300" "validation loss" "The "
# few ...: trains on a text that has fewer distinct tokens than the options request; the model must then have and
# write only these tokens
few() {
  local out
  head -c 1000 README.md >"$dir/short"
  out=$("$rille" -d cpu:1 examples/gpt.lua $small --batch 1 --text "$dir/short" --bpe 2000 --temperature 3 --write 200 2>&1) || { echo "$out"; return 1; }
  ! grep -q "2000 different\||reserved_" <<<"$out" || { echo "$out"; return 1; }
}
share && ok "gpt.lua: a short text gives only the tokens that it has" few
told() { # told NAME ARGUMENTS TEXT: the example fails with the text
  local out
  out=$("$rille" -d cpu:1 "examples/$1.lua" $2 2>&1) && return 1
  grep -qF -- "$3" <<<"$out" || { echo "does not say: $3"; echo "$out"; return 1; }
}
ok "generate.lua: --top-k out of range is an error" told generate "$dir/new --ids 3 --top-k -3" "--top-k must be"
ok "generate.lua: --top-p out of range is an error" told generate "$dir/new --ids 3 --top-p 0" "--top-p must be above 0"
ok "generate.lua: --temperature out of range is an error" told generate "$dir/new --ids 3 --temperature -1" "--temperature must be at least 0"
ok "generate.lua: --count out of range is an error" told generate "$dir/new --ids 3 --count -1" "--count must be at least 0"
ok "generate.lua: a missing prompt is an error" told generate "$dir/new" "--prompt or --ids"
ok "generate.lua: two prompts are an error" told generate "$dir/new --ids 3 --prompt a" "found both"
ok "finetune.lua: two sources of text are an error" told finetune "$dir/new $dir/x --ids $dir/ids --tokens t.bin" "found --ids and --tokens"
ok "finetune.lua: a missing text is an error" told finetune "$dir/new $dir/x" "--text, --ids, --tokens and --chats"
ok "finetune.lua: an unknown recipe is an error that lists the recipes" told finetune "$dir/new $dir/x --ids $dir/ids --recipe 4d" "2.5d, 2d, 3d"
ok "finetune.lua: a negative number of steps is an error" told finetune "$dir/new $dir/x --ids $dir/ids --steps -1" "--steps must be at least 1, found -1"
ok "resnet.lua: a negative number of steps is an error" told resnet "--steps -1" "--steps must be at least 1, found -1"
for recipe in sp 2d 2.5d 3d pp pp-tp; do
  share || continue
  ok "finetune.lua: --recipe $recipe has the losses of one device" alike "$recipe"
done

head -c 3000 "$rille" >"$dir/bytes"
: >"$dir/empty"
refuses() { # refuses OPTIONS TEXT: gpt.lua fails with the text before it trains
  local out
  out=$("$rille" -d cpu:1 examples/gpt.lua --steps 1 --layers 1 --width 16 --write 1 $1 2>&1) && return 1
  grep -qF -- "$2" <<<"$out" && ! grep -q loss <<<"$out"
}
ok "gpt.lua: a prompt with unknown characters is refused before training" refuses "--prompt 日" "--prompt: this character does not occur in the text: '日'"
ok "gpt.lua: a prompt that is no UTF-8 is refused before training" refuses "--prompt $(printf '\xff')" "--prompt is not UTF-8"
ok "gpt.lua: a text that is no UTF-8 is refused before training" refuses "--text $dir/bytes" "not UTF-8"
ok "gpt.lua: an empty text is refused before training" refuses "--text $dir/empty" "the text is empty"
ok "gpt.lua: a folder as text is refused before training" refuses "--text $dir" "Is a directory"
ok "gpt.lua: a plot file that cannot be written is refused before training" refuses "--plot $dir/no/x.svg" "No such file"
ok "gpt.lua: a plot file that is no .svg is refused before training" refuses "--plot $dir/x.png" "train.saves_to: expected the name of an .svg file"
ok "gpt.lua: a checkpoint folder that cannot be made is refused before training" refuses "--checkpoint $dir/no/x" "train.saves_to: $dir/no/x cannot be written"
ok "gpt.lua: a length below 2 is refused before training" refuses "--length 1" "--length must be at least 2, found 1"
ok "gpt.lua: a negative number of bytes is refused before training" refuses "--write -5" "--write must be at least 0, found -5"
ok "gpt.lua: an empty list of texts is refused before training" refuses "--text ,," "--text must name at least one file"
ok "gpt.lua: --every 0 is refused before training" refuses "--every 0" "--every must be at least 1, found 0"

resumes() { # resumes ...: checks that an interrupted training continues with the same losses, tests and log
  local call="$rille -d cpu:2 examples/gpt.lua --layers 1 --width 16 --heads 2 --length 16 --batch 4 --every 2 --write 1"
  $call --steps 12 --log "$dir/whole" --checkpoint "$dir/one" >"$dir/whole.out" 2>/dev/null
  $call --steps 12 --checkpoint "$dir/two" >/dev/null 2>&1
  rm "$(ls "$dir"/two/*12.safetensors)" && $call --steps 12 --log "$dir/part" --checkpoint "$dir/two" --resume >"$dir/part.out" 2>/dev/null
  grep -q "continues after step 10" "$dir/part.out" && cmp "$dir/whole" "$dir/part" &&
    diff <(tail -n +2 "$dir/whole.out") <(tail -n +3 "$dir/part.out")
}
share && ok "gpt.lua: with --resume, losses, tests and log equal those of an uninterrupted training" resumes
# another_text ...: changes the text, keeping its length and characters: reversed lines, one changed character, two swapped letters
another_text() {
  local call="$rille -d cpu:1 examples/gpt.lua --layers 1 --width 16 --heads 2 --length 16 --batch 4 --every 2 --write 1 --prompt a"
  for i in $(seq 400); do echo "ab$((i * i % 7))c"; done >"$dir/text"
  $call --text "$dir/text" --steps 2 --checkpoint "$dir/learned" >/dev/null 2>&1
  tac "$dir/text" >"$dir/tac"
  sed '123s/a/c/' "$dir/text" >"$dir/changed"
  tr ab ba <"$dir/text" >"$dir/turned"
  echo 4.2 >"$dir/log"
  for other in tac changed turned; do
    out=$($call --text "$dir/$other" --steps 4 --checkpoint "$dir/learned" --log "$dir/log" --resume 2>&1) && return 1
    grep -q "^rille: --resume: $dir/learned was trained on $dir/text (2000 bytes, digest [0-9a-f]*), but --text is $dir/$other (2000" <<<"$out" ||
      { echo "$out"; return 1; }
    [ "$(cat "$dir/log")" = 4.2 ] || { echo "the log was emptied"; return 1; }
  done
  cp "$dir/text" "$dir/moved" && $call --text "$dir/moved" --steps 4 --checkpoint "$dir/learned" --resume 2>/dev/null | grep "continues after step 2"
}
share && ok "gpt.lua: with --resume, another text is refused, both texts are named, and the log is kept" another_text
is "generate.lua: without new ids no speed is printed" "$("$rille" -d cpu:1 examples/generate.lua "$dir/new" --ids 3,1 --count 0 2>&1)" " 3 1"
is "generate.lua: if the count is too large, only the error is printed" "$("$rille" -d cpu:1 examples/generate.lua "$dir/new" --ids 3,1 --count 99 2>&1 | head -1 | cut -c1-6)" "rille:"
is "generate.lua: an invalid id is named" "$("$rille" -d cpu:1 examples/generate.lua "$dir/new" --ids 3,x 2>&1 | head -1)" "rille: --ids: an id must be an integer, found 'x'"

ok "finetune.lua: a folder as text is refused" told finetune "$dir/new $dir/x --text $dir" "Is a directory"
ok "finetune.lua: a folder as ids is refused" told finetune "$dir/new $dir/x --ids $dir" "Is a directory"
# diverges SCRIPT ARGUMENTS PATH: a NaN loss ends the training, and nothing is saved at PATH.
diverges() {
  out=$("$rille" -d cpu:1 "examples/$1.lua" $2 2>&1) && return 1
  grep -q "the loss is -*nan.*try a lower --lr" <<<"$out" || { echo "$out"; return 1; }
  test -z "$(ls "$3" 2>/dev/null)"
}
share && ok "finetune.lua: a diverged model is not saved" diverges finetune "$dir/new $dir/lost --ids $dir/ids --steps 5 --warmup 0 --lr 1e38" "$dir/lost"
share && ok "gpt.lua: a diverged model does not replace checkpoints" diverges gpt "$small --steps 5 --warmup 0 --lr 1e38 --every 2 --checkpoint $dir/lost" "$dir/lost"
share && ok "resnet.lua: a diverged model is not tested" diverges resnet "--steps 20 --lr 1e30" "$dir/lost"
mkdir -p "$dir/other"
for config in '{"model_type": "rwkv"}' '{"model_type": null}' '[1]' '"x"' '{}'; do
  echo "$config" >"$dir/other/config.json"
  case $config in
  *rwkv*) wrong=": unknown model_type " ;;
  {*) wrong=" has no model_type" ;;
  *) wrong=": expected a JSON object" ;;
  esac
  ok "generate.lua: an unknown model type is an error that names the file: $config" told generate "$dir/other --ids 3" "models.load: $dir/other/config.json$wrong"
  ok "finetune.lua: an unknown model type is an error that names the file: $config" told finetune "$dir/other $dir/x --ids $dir/ids" "models.load: $dir/other/config.json$wrong"
done
"$rille" -d cpu:4 examples/digits.lua --layout sideways >/dev/null 2>&1
is "digits.lua: an unknown layout is an error" $? 1
finish
