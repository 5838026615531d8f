#!/bin/sh
# go - the two commands of a first visit, on a bare Debian 12, as root or with sudo:
#
#   ./go run     installs what is missing, builds, trains the digits on four devices
#   ./go test    installs what is missing, builds, runs every test
#
# What follows the word goes to make: ./go asan, ./go bench.
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- run
.ci/install
exec make "$@"
