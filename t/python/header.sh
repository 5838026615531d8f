#!/bin/bash
# header.sh - tests that the Python package uses the functions, structs and constants of rille.h and no others. The
# package's version must be the library's. Needs no Python.
. t/lib/tap.sh

header=python/rille/rille.h
ok "the package's header is rille.h" cmp "$header" rille.h
ok "the header is a link, so it cannot become old" test -L "$header"

# absent PATTERN FILE...: prints the names that match in the files and do not occur in rille.h.
absent() { grep -ohE "$@" | sed 's/^lib\.//; s/^struct //; s/"//g' | sort -u | grep -vxFf <(grep -oE '[A-Za-z_]\w*' rille.h | sort -u); }
is "each function and constant that the package uses is in rille.h" "$(absent '\blib\.\w+' python/rille/*.py)" ""
is "each struct that the package uses is in rille.h" "$(absent 'struct rille_\w+|"rille_\w+"' python/rille/*.py)" ""
ok "the package uses at least 50 functions" test "$(grep -ohE '\blib\.rille_\w+' python/rille/*.py | sort -u | wc -l)" -ge 50
echo 'lib.rille_gone(x)' >"$dir/bad.py"
is "a function that rille.h lacks is found" "$(absent '\blib\.\w+' "$dir/bad.py")" "rille_gone"
version=$(sed -nE 's/^#define RILLE_VERSION "(.*)"/\1/p' rille.h)
ok "the package has the library's version $version" grep -qx "version = \"$version\"" python/pyproject.toml
finish
