#!/bin/bash
# families.sh - prints the largest differences of Rille's decoders from Hugging Face's transformers, by column.
#
#   PYTHON=python-with-transformers bench/families.sh [build/release [entry...]]
#
# The models are those of t/golden/models/families.py: small, with weights large enough to make every feature visible.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/models"
"$PYTHON" bench/peers/families.py make "$made/models" "${@:2}"
"$build/rille" -d cpu:4 bench/families.lua "$made/models"
"$PYTHON" bench/peers/families.py compare "$made/models"
