#!/bin/bash
# store.sh - a helper program for rille --store, which keeps the objects in a folder. It shows the protocol, and serves as
# a start for a helper of an object store.
#
#   rille --store examples/store.sh train.lua       # train.lua saves to folder://mnt/runs/gpt: files in /mnt/runs/gpt
#
#   store.sh put URL < bytes      stores an object, completely or not at all
#   store.sh get URL > bytes      fetches an object
#   store.sh list URL > lines     prints "SIZE NAME" for each object URL/NAME
#   store.sh delete URL           deletes an object; an absent object is no error
#
# An exit code other than 0 reports a failure; the text on stderr becomes the error message.
set -eu
path=/${2#*://}
case $1 in
  put)
    mkdir -p "${path%/*}"
    cat >"$path.$$.part"
    mv "$path.$$.part" "$path"
    ;;
  get) cat "$path" ;;
  list) [ ! -d "$path" ] || find "$path" -maxdepth 1 -type f ! -name '*.part' -printf '%s %f\n' ;;
  delete) rm -f "$path" ;;
  *) echo "expected put, get, list or delete, found $1" >&2 && exit 2 ;;
esac
