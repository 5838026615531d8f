#!/bin/bash
# serve.sh - prints the throughput of rille serve beside llama.cpp's servers with one GGUF file.
#
#   LLAMA_SERVER=llama-server PYTHON=python-with-llama_cpp-and-gguf bench/serve.sh [build/release [threads = 1 [rounds = 2]]]
#
# The peers are llama-server, which has slots for 16 texts like Rille, and llama-cpp-python's server, which generates one
# text at a time. llama-cpp-python's source package contains the source of llama-server: cmake -DLLAMA_BUILD_SERVER=ON,
# target llama-server. FILES names a folder with q8_0.gguf and q4_k.gguf, if they were made before.
#
# 1, 4 and 16 clients each send completions of 32 new ids, one after another. A row is a server, the columns are the
# numbers of clients; values are new ids per second, the best of the rounds. With one thread, time is
# the server's processor time, to exclude other programs. The servers run in turns. The rows of a
# peer that is not installed are omitted.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} threads=${2:-1} rounds=${3:-2}
peer=${PYTHON:-build/llama/bin/python}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
peers=Rille
[ -z "${LLAMA_SERVER:-}" ] || peers+=" llama-server"
! "$peer" -c 'import llama_cpp.server, gguf' 2>/dev/null || peers+=" llama-cpp-python"
if [ -n "${FILES:-}" ]; then ln -s "$FILES"/*.gguf "$made"; else "$peer" bench/peers/llama.py make "$made"; fi

serve() { # serve SERVER FILE PORT: executes a server in place of this process
  case $1 in
  Rille) RILLE_THREADS=$threads exec "$build/rille" serve "$2" -d cpu:1 --quantize keep --slots 16 --length 256 --port "$3" ;;
  llama-server) exec "$LLAMA_SERVER" --model "$2" --parallel 16 --ctx-size $((16 * 256)) --threads "$threads" --threads-batch "$threads" --port "$3" ;;
  *) exec "$peer" -m llama_cpp.server --model "$2" --n_ctx 256 --n_threads "$threads" --n_threads_batch "$threads" --port "$3" ;;
  esac
}

port=$((20000 + $$ % 20000))
for _ in $(seq "$rounds"); do
  for kind in q8_0 q4_k; do
    for server in $peers; do
      port=$((port + 1))
      serve "$server" "$made/$kind.gguf" "$port" >"$made/log" 2>&1 &
      pid=$!
      python3 bench/peers/clients.py "$port" "$server, $kind" $([ "$threads" != 1 ] || echo $pid) >>"$made/lines" || cat "$made/log" >&2
      kill "$pid"
      wait "$pid" || true
    done
  done
done
awk -F '\t' '
  { if (!($1 in seen)) { seen[$1] = 1; row[++n] = $1 } if ($3 > best[$1, $2]) best[$1, $2] = $3 }
  END {
    printf "%-24s %10s %10s %10s\n", "ids/s, clients:", 1, 4, 16
    for (i = 1; i <= n; i++) printf "%-24s %10.1f %10.1f %10.1f\n", row[i], best[row[i], 1], best[row[i], 4], best[row[i], 16]
  }' "$made/lines"
uptime
