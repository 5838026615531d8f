#!/bin/bash
# serve.sh - tests the command rille serve: options, a request over a socket, SIGTERM. The API is tested by api.lua, the
# transport by http.c.
. t/lib/tap.sh
rille=$1
RILLE_DEVICES=cpu:2

"$rille" -e "rille.models.llama.new{vocab = 601, length = 64, layers = 1, heads = 2, width = 16, hidden = 24}:save('$dir/small')"
cp t/golden/text/tokenizer.json "$dir/small/"
refused() { # refused WORDS OPTION...: checks that the command fails with a message that contains WORDS
  local words=$1 said
  shift
  said=$(timeout $hang "$rille" serve "$dir/small" "$@" 2>&1) && return 1
  echo "$said"
  [[ $said = *"$words"* ]]
}
ok "--help describes the options" eval '"$rille" serve --help | grep -q "^      --recipe R"'
if ! "$rille" -e 'os.exit(rawget(rille, "_http") ~= nil)'; then
  ok "without libmicrohttpd the error says what to install" refused "install libmicrohttpd-dev"
  finish
fi
ok "an unknown option" refused "unknown option --prot" --prot 3
ok "a bad port" refused "--port must be from 0 to 65535, found 99999" --port 99999
ok "a bad host" refused "numeric address" --host example.org --port 0
ok "a bad placement" refused "--placement must be like cpu:0,1 or cpu:2x2, found 'x'" --port 0 --placement x
ok "a bad recipe" refused "--recipe must be like" --port 0 --recipe "tensor ="
ok "no slots" refused "--slots must be at least 1, found 0" --slots 0
echo 3 >"$dir/small/generation_config.json"
ok "a number as generation_config.json" refused "generation_config.json: expected JSON with an object or a list, found 3" --port 0
echo '{"eos_token_id": ["x"]}' >"$dir/small/generation_config.json"
ok "a string as the id of the end" refused 'generation_config.json: eos_token_id must be an integer or a list of integers, found "x"' --port 0
rm "$dir/small/generation_config.json"
for file in config.json tokenizer.json model.safetensors; do # a damaged file: the message is one line that names the file
  rm -rf "$dir/bad"
  cp -r "$dir/small" "$dir/bad"
  head -c 90 "$dir/small/$file" >"$dir/bad/$file"
  timeout $hang "$rille" serve "$dir/bad" --port 0 >"$dir/said" 2>&1
  is "a truncated $file: exit status" $? 1
  ok "a truncated $file: one line names it" eval '[ "$(wc -l <"$dir/said")" = 1 ] && grep -q "^rille: .*/bad/$file: " "$dir/said"'
done
ok "a folder that does not exist" eval '! "$rille" serve "$dir/none" --port 0'
mkdir "$dir/eye"
echo '{"model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 4, "patch_size": 4}' >"$dir/eye/config.json"
"$rille" -e "rille.save('$dir/eye/model.safetensors', {none = rille.ones{}})
  rille.models.load('$dir/eye', {strict = false}):save('$dir/eye')"
cp t/golden/text/tokenizer.json "$dir/eye/"
ok "a model that generates no tokens" eval '! "$rille" serve "$dir/eye" --port 0 >"$dir/said" 2>&1 && grep "the model generates no text; expected a language model" "$dir/said"'
ok "no folder" eval '"$rille" serve; [ $? = 2 ]'

"$rille" serve "$dir/small" -d cpu:2 --port 0 --recipe "tensor = 0" --name tiny >"$dir/said" 2>&1 &
server=$!
tell() { cat "$dir/said"; }
await eval 'grep -q "^serving tiny at http://127.0.0.1:" "$dir/said" || ! kill -0 $server'
port=$(sed -n 's|^serving .*:\([0-9]*\)/v1$|\1|p' "$dir/said")
path=/v1/completions body='{"prompt": "hello", "max_tokens": 3, "temperature": 0}'
ask() { # ask: sends the request and prints the answer
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$path" ${#body} "$body" >&3
  timeout $hang cat <&3
  exec 3>&-
}
ok "a request is answered" eval 'ask | grep -q "\"completion_tokens\": 3"'
ok "a second server cannot use the port" refused "cannot listen on 127.0.0.1, port $port: Address already in use" --port "$port"
# A .gguf file has the model, the tokenizer and the chat template.
cat >"$dir/gguf.lua" <<'E'
local rille, dir = require "rille", arg[1]
local gguf, json = dofile("t/lib/gguf.lua"), require "rille.json"
local model, tokens, types, merges, list = json.load("t/golden/text/tokenizer.json").model, {}, {}, {}, {}
for token, id in pairs(model.vocab) do tokens[id + 1], types[id + 1] = token, 1 end
for i, m in ipairs(model.merges) do merges[i] = type(m) == "table" and table.concat(m, " ") or m end
for i, t in ipairs(gguf.tensors(dofile("t/golden/models/gguf_files.lua")[1], rille.load(dir .. "/small"))) do list[i] = gguf.f32(t[1], t[2]) end
local template = "{% for m in messages %}{{ m.content }}{% endfor %}"
gguf.write(dir .. "/tiny.gguf", {{"general.architecture", "s", "llama"}, {"llama.context_length", "u", 64}, {"llama.embedding_length", "u", 16},
  {"llama.block_count", "u", 1}, {"llama.feed_forward_length", "u", 24}, {"llama.attention.head_count", "u", 2},
  {"llama.attention.layer_norm_rms_epsilon", "f", 1e-5}, {"tokenizer.ggml.model", "s", "gpt2"}, {"tokenizer.ggml.pre", "s", "gpt-2"},
  {"tokenizer.ggml.tokens", "s", tokens}, {"tokenizer.ggml.token_type", "i", types}, {"tokenizer.ggml.merges", "s", merges},
  {"tokenizer.chat_template", "s", template}}, list)
E
"$rille" "$dir/gguf.lua" "$dir"
"$rille" serve "$dir/tiny.gguf" --port 0 >"$dir/said2" 2>&1 &
other=$!
await eval 'grep -q "^serving tiny.gguf at http://127.0.0.1:" "$dir/said2" || ! kill -0 $other'
port=$(sed -n 's|^serving .*:\([0-9]*\)/v1$|\1|p' "$dir/said2")
path=/v1/chat/completions body='{"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}'
ok "a .gguf file is served without other files" eval 'ask | grep -q "\"completion_tokens\": 3"'
kill -TERM $other
wait $other

kill -TERM $server
wait $server
is "SIGTERM ends the server in order" $? 0
finish
