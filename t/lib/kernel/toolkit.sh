# toolkit.sh - builds the real plug-in (kernels/cuda/plugin) with a simulated CUDA toolkit, t/host/toolkit.c, and the headers
# of the installed toolkit. Before reading this file, read tap.sh and set $own, $build and $root as plugin.sh does.
# Ends the test if no toolkit is installed. Sets $rille to a copy of the program in $dir, next to this plug-in.
nvcc=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
if [ ! -x "$nvcc" ] || ! command -v c++ >/dev/null; then
  skip "the plug-in on a toolkit without GPUs" "no CUDA toolkit"
  finish
fi
headers=$(dirname "$(dirname "$(realpath "$nvcc")")")/include
[ -f "$headers/cuda_runtime.h" ] || headers=$(dirname "$(find -L "${headers%/include}" -name cuda_runtime.h 2>/dev/null | head -1)")
rille=$dir/rille
cp "$own" "$rille"

make_toolkit() {
  cc -std=gnu11 -Wall -Wextra -Werror -shared -fPIC -DSHIM="\"$root\"" -I"$root" -isystem "$headers" -o "$dir/libtoolkit.so" \
    t/host/toolkit.c t/host/cublaslt.c t/host/cudnn.c $([ ! -f "$headers/nccl.h" ] || echo t/host/nccl.c) -ldl -lm
}
make_plugin() {
  for file in kernels/cuda/plugin/*.cu; do set -- "$@" -x c++ "$file"; done
  c++ -std=c++17 -Wall -Wextra -Werror -shared -fPIC -DCUDART_MAJOR=99 -DCUDA_LIBRARIES="\"$dir\"" -I"$root" -isystem "$headers" \
    "$@" -x none -o "$dir/librille-cuda.so" "$dir/libtoolkit.so"
}
ok "the simulated toolkit compiles" make_toolkit
ok "the plug-in compiles as C++ and links with the simulated toolkit" make_plugin
for library in nvrtc.so.99 cublasLt.so.99 cudnn.so.9 nccl.so.2; do ln -s libtoolkit.so "$dir/lib$library"; done
export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} RILLE_CACHE=$dir/cache

# refuses WRONG TEXT DEVICES...: runs the program with FAKE_CUDA=WRONG. Checks that it exits with 2, prints nothing,
# and reports one line with TEXT.
refuses() {
  local wrong=$1 text=$2 out code; shift 2
  out=$(FAKE_CUDA=$wrong timeout $hang "$rille" -d "$@" -e 'print(1)' 2>"$dir/err"); code=$?
  echo "code $code, printed \"$out\", said: $(cat "$dir/err")"
  [ "$code" = 2 ] && [ -z "$out" ] && grep -qF -- "$text" "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ]
}
# told PATTERN: prints each text in $dir/told that matches PATTERN, with its number of occurrences. The simulated
# toolkit logs its calls in that file.
told() { grep -oP "$1" "$dir/told" | sort | uniq -c | awk '{ $1 = $1 } 1' | tee /dev/stderr; }
# alike NEAR N: checks that stdin has N lines of two numbers each, whose relative difference is at most NEAR.
alike() {
  tee /dev/stderr | awk -v near="$1" -v n="$2" 'function size(x) { return x < 0 ? -x : x }
    NF != 2 || /nan|inf/ || size($1 - $2) > near * size($2) { differs = 1 }
    END { exit differs || NR != n }'
}
