#!/bin/bash
# install.sh path/to/rille - tests the installed library: the symbols of librille.so, librille.a and Lua's rille.so; and
# programs that are built, linked and run with an installed prefix only (the source tree is hidden if the machine allows
# it). Also compares debian/ with the installed files and, with RILLE_LONG=1, builds the rock. Prints TAP.
rille=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD
. t/lib/tap.sh

prints() { local want=$1; shift; same "$("$@")" "$want"; }
same_lines() { diff <(sort -u <<<"$1") <(sort -u <<<"$2"); }

# gone COMMAND...: runs the command without access to the source tree.
if unshare -rm mount -t tmpfs none "$dir" 2>/dev/null; then
  gone() { unshare -rm sh -c 'mount -t tmpfs none "$1" && shift && exec "$@"' gone "$root" "$@"; }
else
  gone() { "$@"; }
fi

# ---- names

declared=$(sed 's,/\*.*\*/,,; /^typedef/d' "$root/rille.h" | grep -oE '\brille_[a-z0-9_]+\(' | tr -d '(' | sort -u)
defined() { nm "$@" | awk '$2 ~ /^[TDBRVW]$/ { sub(/@.*/, "", $3); print $3 }' | grep -v '^RILLE_'; }
ok "librille.so exports exactly the functions of rille.h" same_lines "$(defined -D "$build/librille.so")" "$declared"
ok "librille.a exports exactly the functions of rille.h" same_lines "$(defined -g "$build/librille.a")" "$declared"
ok "Lua's rille.so exports only luaopen_rille" same_lines "$(defined -D "$build/lua/rille.so")" luaopen_rille
ok "the program shows no name of ours" same_lines "$(nm -D --defined-only "$rille" | grep -cE ' [TDBR] .*(rille_|fail|pool_)')" 0
ok "symbols have a version" grep -q 'rille_open@@RILLE_0' <(nm -D --with-symbol-versions "$build/librille.so")
versions() { # versions: prints the version of the header, the program, pkg-config and CMake
  sed -n 's/^#define RILLE_VERSION "\(.*\)"/\1/p' "$root/rille.h"
  "$rille" --version | sed 's/^rille \([^,]*\),.*/\1/'
  sed -n 's/^Version: //p' "$build/rille.pc"
  sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$build/rille-config-version.cmake"
}
ok "header, program, pkg-config and CMake have one version" test "$(versions | wc -l)" = 4 -a "$(versions | sort -u | wc -l)" = 1
ok "the library's own name has one too" grep -q 'SONAME.*\[librille.so.0\]' <(readelf -d "$build/librille.so")
ok "the library stays loaded, because threads run its code" grep -q NODELETE <(readelf -d "$build/librille.so")

# ---- an installed prefix, moved to another folder

mkdir "$dir/stage"
ok "make install takes DESTDIR" env DESTDIR="$dir/stage" cmake --install "$build" --prefix /opt/rille
mv "$dir/stage/opt/rille" "$dir/prefix"
cp "$root/examples/embed.c" "$root/t/host/host.c" "$root/t/host/greet.c" "$dir"
needed() { for file; do readelf -d "$file" | grep 'NEEDED.*\[librille.so.0\]' || return; done; }
ok "the installed program and the module use librille.so" needed "$dir/prefix/bin/rille" "$dir/prefix/lib/lua/5.4/rille.so"
core() { (cd "$dir/prefix" && for file in bin/rille lib/librille.so lib/lua/5.4/rille.so; do nm $file | grep -q ' [tT] plan_compile$' && echo $file; done); }
is "of these three files, librille.so alone contains the core" "$(core)" lib/librille.so
cd "$dir/prefix/share/rille" || exit 2
export PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig
flags=$(pkg-config --cflags --libs rille) static=$(pkg-config --static --cflags --libs rille)
lib=$dir/prefix/lib

ok "installed scripts are executable" test -x examples/store.sh
ok "no installed file for building programs names the source tree" \
  bash -c '! grep -rIE -e "$1/(build|runtime|actors|sbp|boxing|kernels|shell|lua|rille.h)" "$2/lib/pkgconfig" "$2/lib/cmake" "$2/include"' \
  names "$root" "$dir/prefix"
ok "pkg-config builds examples/embed.c" gone cc -std=c11 -o "$dir/embed" "$dir/embed.c" $flags -Wl,-rpath,"$lib"
gone "$dir/embed" >"$dir/losses" 2>&1
ok "the program built with pkg-config runs" cmp "$dir/losses" <("$dir/prefix/bin/rille" -d cpu:2 examples/embed.lua)
python=${RILLE_PYTHON:-python3}
if "$python" -c 'import cffi, numpy' 2>/dev/null; then
  gone env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=python RILLE_LIBRARY="$lib/librille.so.0" "$python" python/examples/mlp.py >"$dir/losses.py" 2>&1
  ok "the installed Python package prints the same losses" cmp "$dir/losses" "$dir/losses.py"
else
  skip "the installed Python package prints the same losses" "there is no Python with cffi and NumPy"
fi
ok "a host with fail, pool_new and arena_alloc links" cc -o "$dir/host" "$dir/host.c" $flags -Wl,-rpath,"$lib"
ok "host and library each call their own functions" prints "12 3" "$dir/host"
mkdir "$dir/archive" && cp "$lib/librille.a" "$dir/archive"
ok "the host links with the archive" cc -o "$dir/host-static" "$dir/host.c" ${static//-L$lib/-L$dir/archive} -L"$dir/archive"
ok "host and archive each call their own functions" prints "12 3" "$dir/host-static"
cp -r examples/plugin "$dir/plugin"
ok "a library of operators is built with the installed header" make -C "$dir/plugin"
ok "the installed program loads it" prints 4.0 gone "$dir/prefix/bin/rille" -d cpu:1 \
  -e "rille.load_operators('$dir/plugin/libdistance.so') print(rille.zeros({1, 4}):distance(rille.ones({1, 4})):item())"
command -v c++ >/dev/null && ok "rille.h compiles as C++" c++ -x c++ -fsyntax-only -Wall -Werror $flags - <<<'#include <rille.h>
int main() { return rille_error_code(); }'

mkdir "$dir/project"
cat >"$dir/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(host C)
find_package(rille REQUIRED)
add_executable(shared ../host.c)
target_link_libraries(shared rille::rille)
add_executable(embed ../embed.c)
target_link_libraries(embed rille::rille)
add_executable(static ../host.c)
target_link_libraries(static rille::static)
CMAKE
ok "find_package(rille) configures a project" gone cmake -S "$dir/project" -B "$dir/project/build" -DCMAKE_PREFIX_PATH="$dir/prefix"
ok "the project builds" gone cmake --build "$dir/project/build"
gone "$dir/project/build/embed" >"$dir/losses.cmake" 2>&1
ok "the project's embed.c runs" cmp "$dir/losses" "$dir/losses.cmake"
ok "a program with rille::rille runs" prints "12 3" "$dir/project/build/shared"
ok "a program with rille::static runs" prints "12 3" "$dir/project/build/static"

# ---- the program alone, and modules

cp "$rille" "$dir/alone"
cd / || exit 2
ok "the program of the build folder runs alone, with its Lua modules" prints 2 gone env -i "$dir/alone" -d cpu:1 -E '#rille.nn.Linear(3, 2).weight'
lua=$(pkg-config --cflags lua5.4)
ok "a C module with helpers named like Rille's compiles" cc -shared -fPIC $lua -o "$dir/greet.so" "$dir/greet.c"
ok "the C module calls its own helpers" prints 1010 env LUA_CPATH="$dir/?.so" "$dir/alone" -d cpu:1 -E '(require "greet")'

lua54() { gone env LUA_CPATH="$dir/prefix/lib/lua/5.4/?.so" RILLE_DEVICES=cpu:2 lua5.4 -e "$1"; }
if command -v lua5.4 >/dev/null; then
  ok "plain Lua requires it" prints 6.0 lua54 'print(require "rille".tensor({1, 2, 3}):sum():item())'
  ok "it sets no global" prints nil lua54 'require "rille" print(rille)'
  ok "its Lua modules are included" prints 4 lua54 'local r = require "rille" print(#r.nn.Linear(2, 4).bias)'
  ok "it may be required in a coroutine, and used in an older one" prints 3.0 lua54 '
    local r
    local old = coroutine.create(function() coroutine.yield() print(r.ones({3}):sum():item()) end)
    coroutine.resume(old)
    coroutine.wrap(function() r = require "rille" end)()
    assert(coroutine.resume(old))'
  ok "its errors have lines" prints 'x.lua:2: manual_seed: expected an integer, found a table' lua54 '
    local r = require "rille"
    print(select(2, pcall(load("\nr.manual_seed({})", "@x.lua", "t", {r = r}))))'
  ok "bad settings are an error of require" prints false env RILLE_DEVICES=abacus \
    LUA_CPATH="$dir/prefix/lib/lua/5.4/?.so" lua5.4 -e 'print((pcall(require, "rille")))'
else
  skip "plain Lua requires it" "there is no lua5.4"
fi

# ---- the packages of Debian, and the rock

cd "$root" || exit 2
control() { sed -n "s/^$1: *//p" debian/control; }
owners() { # owners: prints each installed file that no Debian package lists, or several list, with these packages
  local files patterns file p owner
  files=$(cd "$dir/prefix" && find . ! -type d | sed "s,^\./lib/,usr/lib/triplet/,; s,^\./,usr/,")
  files=${files//zsh\/site-functions/zsh/vendor-completions}
  while read -r file; do
    owner=
    for p in $(control Package); do
      while read -r patterns _; do
        case $file in $patterns | $patterns/*) owner="$owner $p" ;; esac
      done <"debian/$p.install"
    done
    [[ $owner =~ ^\ [a-z0-9-]+$ ]] || echo "$file:$owner"
  done <<<"$files"
}
is "each installed file belongs to one package" "$(owners)" ""
is "each package has a list of files" "$(control Package | sort)" "$(cd debian && ls -- *.install | sed 's/\.install$//' | sort)"
is "the packages have the version of the project" "$(sed -n '1s/^rille (\(.*\)-[0-9]*).*/\1/p' debian/changelog)" "$(versions | head -1)"
is "the rock has the version of the project" "$(ls rille-*.rockspec)" "rille-$(versions | head -1)-1.rockspec"
needs=$(.ci/install --list | grep -- '-dev$' | grep -vxE 'libc6-dev|libedit-dev')
is "building the packages needs the libraries that .ci/install installs" \
  "$(sed -n '/^Build-Depends/,/^[HP]/p' debian/control | grep -oE '^ [a-z0-9.+-]+-dev,?$' | tr -d ' ,' | sort)" "$(sort <<<"$needs")"

if [ -z "${RILLE_LONG:-}" ]; then
  skip "luarocks makes the rock from an archive" "RILLE_LONG=1 builds it"
elif ! command -v luarocks >/dev/null; then
  skip "luarocks makes the rock from an archive" "there is no luarocks"
else
  archive=rille-$(versions | head -1)
  tar -C "$root" --exclude=./build --exclude=./.git --transform "s,^\\.,$archive," -czf "$dir/$archive.tar.gz" .
  made() { (cd "$dir" && luarocks --lua-version 5.4 --tree "$dir/rocks" build "$root"/rille-*.rockspec); }
  ok "luarocks makes the rock from an archive" made
  ok "plain Lua requires the rock" prints 6.0 gone env LUA_CPATH="$dir/rocks/lib/lua/5.4/?.so" RILLE_DEVICES=cpu:2 \
    lua5.4 -e 'print(require "rille".tensor({1, 2, 3}):sum():item())'
fi
finish
