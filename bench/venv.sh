#!/bin/bash
# venv.sh - installs the peers, the libraries with which the benchmarks compare Rille, from PyPI into build/venv. They
# need about 6 GB, with GPU parts. No other part of Rille needs Python.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
[ -x build/venv/bin/python ] || python3 -m venv build/venv
build/venv/bin/pip install --quiet jax torch numpy
build/venv/bin/python -c 'import jax, torch; print("JAX", jax.__version__, "PyTorch", torch.__version__)'
