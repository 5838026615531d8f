#!/bin/bash
# What is aside in another process, on another host, or on devices of another kind: the same bits as without.
rille=$1
. t/lib/processes.sh

net=$PWD/t/lib/offloaded.lua

go -d cpu:4 "$net" cpu cpu
want=$stdout
ok "the net is trained" test "$(wc -l <"$dir/out")" = 88
go -d cpu:4 "$net" cpu cpu aside
is "aside on other devices" "$stdout" "$want"
for shape in "2 2 1" "4 1 1" "2 2 2" "4 1 2" "4 1 4"; do
  read -r workers devices hosts <<<"$shape"
  RILLE_HOSTS=$hosts go launch -n "$workers" -d "cpu:$devices" "$net" cpu cpu aside
  is "aside over $workers processes of $hosts hosts" "$stdout" "$want"
done
go -d async:4 "$net" async async
want=$stdout
for pair in "async async" "async cpu" "cpu async"; do
  read -r computes holds <<<"$pair"
  go -d async:4,cpu:4 "$net" "$computes" "$holds" aside
  is "$computes computes, aside on $holds" "$stdout" "$want"
done
finish
