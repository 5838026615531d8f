#!/bin/bash
# cudnn.sh - the real cuDNN, without a GPU: what kernels/cuda/cudnn_abi.h says of it is what its headers say, and a
# mistake would be found; the library takes the graphs that kernels/cuda/convolutions.cu makes, and has engines for them
# that may be. Each where there is one. cudnn.sh path/to/rille; prints TAP.
build=$(dirname "$(realpath "$1")")
. t/lib/tap.sh

nvcc=$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
roots=(/usr/local/cuda /usr/include /usr/lib build/venv)
[ ! -x "$nvcc" ] || roots=("$(dirname "$(dirname "$(realpath "$nvcc")")")" "${roots[@]}")
# first NAME: the folder of the first file of that name, of a toolkit, a system or a package of Python's.
first() { find -L "${roots[@]}" -name "$1" -printf '%h\n' 2>/dev/null | head -1; }
cuda=$(first cuda_runtime_api.h) cudnn=$(first cudnn.h) library=$(first libcudnn.so.9)
command -v c++ >/dev/null || cuda=

compiles() { c++ -std=c++17 -Wall -Wextra -fsyntax-only -I"$dir" -I. -isystem "$cudnn" -isystem "$cuda" t/host/cudnn_facts.cpp; }
# finds FILE WRONG WHAT: with a line of the file made wrong, by sed, it does not compile, and says what.
finds() {
  mkdir -p "$dir/kernels/cuda"
  sed "$2" "kernels/cuda/$1" >"$dir/kernels/cuda/$1"
  compiles 2>&1 | grep "assertion failed.*$3"
  local code=$?
  rm "$dir/kernels/cuda/$1"
  return $code
}
if [ -n "$cuda" ] && [ -n "$cudnn" ]; then
  ok "what is said of cuDNN is what $cudnn/cudnn.h says" compiles
  ok "a number that is another is found" finds cudnn.def 's/TENSOR_STRIDES, 903/TENSOR_STRIDES, 904/' ATTR_TENSOR_STRIDES
  ok "so is an argument that is wider" finds cudnn_abi.h 's/(int type, void/(int64_t type, void/' cudnnBackendCreateDescriptor
else
  skip "what is said of cuDNN is what its headers say" "no cudnn.h"
fi

has_ways() {
  c++ -std=c++17 -Wall -Wextra -Werror -x c++ -DCUDART_MAJOR=0 -DCUDA_LIBRARIES="\"$library\"" -I. -isystem "$cuda" \
    -o "$dir/real" t/host/cudnn_real.cpp -ldl && LD_LIBRARY_PATH=$library timeout $hang "$dir/real" >"$dir/said"
  local code=$?
  grep -E "SKIP|^not ok|^1\.\." "$dir/said"
  return $code
}
if [ -n "$cuda" ] && [ -n "$library" ]; then
  ok "the library of $library has ways for convolutions of every kind" has_ways
  grep -q SKIP "$dir/said" && skip "of an H100 that is not here" "$(sed -n 's/.*SKIP //p' "$dir/said")"
else
  skip "the real cuDNN has ways for convolutions" "no libcudnn.so.9"
fi
finish
