#!/bin/sh
# go - the two commands of a first visit, on a bare Debian 12, as root or with sudo:
#
#   ./go run     installs what is missing, builds, trains the digits on four devices
#   ./go test    installs what is missing, builds, runs every test file, exhaustive loops by one share in eight
#   ./go test all                                                        ... and every case
#
# What follows the word goes to make: ./go asan, ./go bench.
set -eu
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- run
if [ "$*" = "test all" ]; then set -- test SHARE=all; fi
.ci/install
exec make "$@"
