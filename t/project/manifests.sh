#!/bin/bash
# Tests that the manifests of Kubernetes in examples/cluster/ have only fields that the schemas define, with values of
# the right types (t/project/manifests.tsv), and that t/lib/manifest.pl refuses each breach of these rules.
. t/lib/tap.sh

manifest() { perl t/lib/manifest.pl "$1" t/project/manifests.tsv examples/cluster/*.yaml; }
ok "fields and types of the manifests are those of the schemas" manifest check
ok "each unknown field, missing field, wrong type and wrong name is refused" manifest breach
said() { # said FIND REPLACE TEXT: the check of the changed leaderworkerset.yaml prints the text
  sed "s/$1/$2/" examples/cluster/leaderworkerset.yaml >"$dir/changed.yaml"
  perl t/lib/manifest.pl check t/project/manifests.tsv "$dir/changed.yaml" | grep -F -- "$3"
}
ok "a fault has its line, its path and the expected fields" said 'fieldPath:' 'path:' \
  "changed.yaml:30: LeaderWorkerSet.spec.leaderWorkerTemplate.leaderTemplate.spec.containers[].env[].valueFrom.fieldRef.path: unknown field; expected one of apiVersion, fieldPath"
ok "a number where a string must be is a fault" said 'value: "5555"' 'value: 5555' "expected type string, found type integer"
finish
