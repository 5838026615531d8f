#!/bin/bash
# guide.sh - runs the blocks of each page in docs/guide and compares their output with the page (t/lib/guide.lua). PAGES
# restricts the test to the pages that it names. WRITE=1 writes the outputs into the pages instead.
rille=$(realpath "${1:-build/release/rille}") build=$(dirname "$(realpath "${1:-build/release/rille}")") root=$PWD
. t/lib/tap.sh

# Makes an installed prefix, for the page that builds a C program against it.
mkdir -p "$dir/prefix/bin" "$dir/prefix/include" "$dir/prefix/lib/pkgconfig"
ln -s "$rille" "$dir/prefix/bin/rille"
cp rille.h rille_operator.h "$dir/prefix/include"
ln -s "$build"/librille.so* "$dir/prefix/lib"
cp "$build/rille.pc" "$dir/prefix/lib/pkgconfig"
unset RILLE_BUS RILLE_CHECK RILLE_DEVICES RILLE_SEED RILLE_THREADS
export PATH=$dir/prefix/bin:$PATH PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig LD_LIBRARY_PATH=$dir/prefix/lib
export XDG_CONFIG_HOME=$dir OMP_NUM_THREADS=2

guide() { "$rille" --no-init -d cpu:1 "$root/t/lib/guide.lua" "$@"; }
runs() { # runs PAGE NAME: runs the page's program in a folder of its own
  mkdir "$dir/$2" && guide program "$1" >"$dir/$2/$2.lua" || return 1
  (cd "$dir/$2" && "$rille" --no-init -d cpu:8 "$2.lua" >"../$2.out" 2>"../$2.err") || { cat "$dir/$2.err"; return 1; }
}

for page in ${PAGES:-docs/guide/*.md}; do
  [ -n "${PAGES:-}" ] || share || continue
  name=$(basename "$page" .md)
  ok "$page: each block runs" runs "$page" "$name"
  if [ -n "${WRITE:-}" ]; then guide write "$page" "$dir/$name.out"
  else ok "$page: each block prints what the page shows, and each name in its tables exists" guide compare "$page" "$dir/$name.out"; fi
done

cat >"$dir/wrong.md" <<'MD'
```lua
print(1 + 1)   --> 3
```

```text
2
```

```lua
print(2 + 2)   --> 5
```

| PyTorch | Rille | |
|---|---|---|
| `x` | `rille.ones(1)`, `rille.no_such()` | |
MD
runs "$dir/wrong.md" wrong
is "a wrong output and a missing name are found" "$(guide compare "$dir/wrong.md" "$dir/wrong.out" | grep -c "^rille.no_such\|^4$")" 2
finish
