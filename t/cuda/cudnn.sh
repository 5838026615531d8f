#!/bin/bash
# cudnn.sh - tests against the real cuDNN, without a GPU. kernels/cuda/plugin/cudnn_abi.h must agree with cuDNN's headers;
# the test must find an injected mistake. cuDNN must accept the graphs of kernels/cuda/plugin/convolutions.cu and have
# permitted engines for them. Skipped if headers or library are missing. cudnn.sh path/to/rille; prints TAP.
build=$(dirname "$(realpath "$1")")
. t/lib/tap.sh

nvcc=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
roots=(/usr/local/cuda /usr/include /usr/lib build/venv)
[ ! -x "$nvcc" ] || roots=("$(dirname "$(dirname "$(realpath "$nvcc")")")" "${roots[@]}")
# first NAME: prints the folder of the first file of that name in a toolkit, the system or a Python package.
first() { find -L "${roots[@]}" -name "$1" -printf '%h\n' 2>/dev/null | head -1; }
cuda=$(first cuda_runtime_api.h) cudnn=$(first cudnn.h) library=$(first libcudnn.so.9)
command -v c++ >/dev/null || cuda=

compiles() { c++ -std=c++17 -Wall -Wextra -fsyntax-only -I"$dir" -I. -isystem "$cudnn" -isystem "$cuda" t/host/cudnn_facts.cpp; }
# finds FILE WRONG WHAT: damages FILE by the sed script WRONG. Checks that the damaged file fails an assertion about
# WHAT.
finds() {
  mkdir -p "$dir/kernels/cuda/plugin"
  sed "$2" "kernels/cuda/plugin/$1" >"$dir/kernels/cuda/plugin/$1"
  compiles 2>&1 | grep "assertion failed.*$3"
  local code=$?
  rm "$dir/kernels/cuda/plugin/$1"
  return $code
}
if [ -n "$cuda" ] && [ -n "$cudnn" ]; then
  ok "cudnn_abi.h agrees with $cudnn/cudnn.h" compiles
  ok "a wrong number is found" finds cudnn.def 's/TENSOR_STRIDES, 903/TENSOR_STRIDES, 904/' ATTR_TENSOR_STRIDES
  ok "a wider argument is found" finds cudnn_abi.h 's/(int type, void/(int64_t type, void/' cudnnBackendCreateDescriptor
else
  skip "cudnn_abi.h agrees with cuDNN's headers" "no cudnn.h"
fi

has_ways() {
  c++ -std=c++17 -Wall -Wextra -Werror -x c++ -DCUDART_MAJOR=0 -DCUDA_LIBRARIES="\"$library\"" -I. -isystem "$cuda" \
    -o "$dir/real" t/host/cudnn_real.cpp -ldl && LD_LIBRARY_PATH=$library timeout $hang "$dir/real" >"$dir/said"
  local code=$?
  grep -E "SKIP|^not ok|^1\.\." "$dir/said"
  return $code
}
if [ -n "$cuda" ] && [ -n "$library" ]; then
  ok "cuDNN in $library has engines for convolutions of every kind" has_ways
  grep -q SKIP "$dir/said" && skip "engines for an H100" "$(sed -n 's/.*SKIP //p' "$dir/said")"
else
  skip "cuDNN has engines for convolutions of every kind" "no libcudnn.so.9"
fi
finish
