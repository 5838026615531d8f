#!/bin/bash
# Tests that offload to another process, another host, or devices of another kind gives the same bits as a step without offload.
rille=$1
. t/lib/processes.sh

net=$PWD/t/lib/steps/offloaded.lua

go -d cpu:4 "$net" cpu cpu
want=$stdout
ok "the net is trained" test "$(wc -l <"$dir/out")" = 88
go -d cpu:4 "$net" cpu cpu aside
is "offload to other devices" "$stdout" "$want"
for shape in "2 2 1" "4 1 1" "2 2 2" "4 1 2" "4 1 4"; do
  read -r workers devices hosts <<<"$shape"
  RILLE_HOSTS=$hosts go launch -n "$workers" -d "cpu:$devices" "$net" cpu cpu aside
  is "offload over $workers processes of $hosts hosts" "$stdout" "$want"
done
go -d async:4 "$net" async async
want=$stdout
for pair in "async async" "async cpu" "cpu async"; do
  read -r computes holds <<<"$pair"
  go -d async:4,cpu:4 "$net" "$computes" "$holds" aside
  is "$computes computes, offload to $holds" "$stdout" "$want"
done
finish
