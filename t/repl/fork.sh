#!/bin/bash
# fork.sh path/to/rille - tests a Lua program that forks after it has used Rille: calls of the child must fail with an
# error that names the function, and both processes must end. A small module in C calls fork().
rille=$(realpath "$1")
. t/lib/tap.sh
# ignores leaks, because a child cannot close the session of its parent
export ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS
cat >"$dir/fork.c" <<'C'
#include <lauxlib.h>
#include <lua.h>
#include <sys/wait.h>
#include <unistd.h>

/* Forks. Returns true in the child; in the parent, waits for the child and returns its exit status. */
static int
fork_child(lua_State *L)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        lua_pushboolean(L, 1);
        return 1;
    }
    waitpid(child, &status, 0);
    lua_pushinteger(L, status);
    return 1;
}

int
luaopen_fork(lua_State *L)
{
    lua_pushcfunction(L, fork_child);
    return 1;
}
C
if ! cc -shared -fPIC $(pkg-config --cflags lua5.4 2>"$dir/none") -o "$dir/fork.so" "$dir/fork.c" 2>"$dir/errors"; then
  skip "a child is refused by name" "there are no headers of Lua"
  finish
  exit
fi

cat >"$dir/begin.lua" <<'LUA'
package.cpath = os.getenv "DIR" .. "/?.so"
local fork = require "fork"
x = rille.ones{64, 64}
step = rille.graph(function(a) return a:matmul(x) end)
local before = x:matmul(x):sum():item()
-- Runs f in a child. Prints the child's exit status, and true if the parent still computes the same values.
function child(f)
  local status = fork()
  if status == true then return f() end
  print(status, x:matmul(x):sum():item() == before and step(x):sum():item() == before)
end
LUA
# lua NAME TEXT WANT: checks the output of a program
lua() { is "$1" "$(cd "$dir" && DIR=$dir timeout "$hang" "$rille" --no-init -d cpu:2 -e "dofile('begin.lua') $2" 2>&1)" "$3"; }

lua "a child that returns from the program ends" 'child(function() end)' $'0\ttrue'
for how in 'os.exit(0)' 'os.exit(true, true)' 'x = nil collectgarbage() collectgarbage()' 'local r <close> = rille'; do
  lua "a child ends by $how" "child(function() $how end)" $'0\ttrue'
done
refusal="this process was forked from the one that opened the session; open a session after fork(), or use exec"
lua "a child that calls an operator is refused by name" \
  'child(function() local _, why = pcall(rille.relu, x) io.write(tostring(why):match("[%w_.]+: this.*"), "\n") end)' \
  "rille: $refusal"$'\n0\ttrue'
lua "in a child, the example of each page of help works without the session or is refused by name" '
  local pages = require "rille.pages"
  for _, name in ipairs(pages.names()) do pages.row(name) end
  child(function()
    local refused, touches = 0, {allow_tf32 = 1, counters = 1, detect_nan = 1, devices = 1, no_grad = 1, workers = 1}
    for _, name in ipairs(pages.names()) do
      local row = pages.row(name)
      local good, why = pcall(load((row.code or "") .. "\nreturn " .. row.shows, "=" .. name, "t", setmetatable({}, {__index = _G})))
      if not good and tostring(why):find("was forked", 1, true) then refused = refused + 1
      elseif not good or touches[name] then print(name, why) end
    end
    print(refused > 200)
  end)' $'true\n0\ttrue'
finish
