/* tutorial.c - :tutorial: prints a step of lua/pages/tutorial.lua, and runs the step's lines as if they had been typed.
 */
#include "shell/bind/base/fold.h"
#include "shell/repl/repl.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_DEVICES = 4 };

static const char next_step; /* registry key of the number of the next step */

/* Returns the step that the text names; an empty text names the next step. */
static int
step_of(lua_State *L, const char *text, int nstep)
{
    char *end;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &next_step);
    long step = *text ? strtol(text, &end, 10) : lua_isinteger(L, -1) ? (long)lua_tointeger(L, -1) : 1;
    lua_pop(L, 1);
    if (*text && (*end || step < 1 || step > nstep))
        luaL_error(L, ":tutorial: the step must be a number from 1 to %d, found '%s'", nstep, text);
    return (int)step;
}

static void
describe_own_devices(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    if (rille_device_count(s, "cpu") < LEAST_DEVICES)
        luaL_error(L, ":tutorial needs %d cpu devices, found %d; start rille with -d cpu:%d", LEAST_DEVICES,
                   rille_device_count(s, "cpu"), LEAST_DEVICES);
}

/* Prints words in lines that fit the width of the terminal. */
static void
print_folded(const char *text)
{
    int width = 0, most = print_columns() - 1;
    for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
        int n = (int)strcspn(text, " \n");
        bool fits = width + 1 + n <= most;
        printf("%s%.*s", width == 0 ? "" : fits ? " " : "\n", n, text);
        width = width && fits ? width + 1 + n : n;
        text += n;
    }
    puts("\n");
}

/* Prints the title and text of the step at the top of the stack. */
static void
show_step_number(lua_State *L, int step, int nstep)
{
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    printf("\n%d of %d. %s\n\n", step, nstep, lua_tostring(L, -2));
    print_folded(lua_tostring(L, -1));
    lua_pop(L, 2);
}

/* Runs a line. told: also prints the line and its values, as if the line had been typed. */
static void
run_tutorial_line(lua_State *L, int env, const char *line, bool told)
{
    bool more;
    int before = lua_gettop(L);
    if (told) printf("%s%s\n", PROMPT, line);
    fflush(stdout);
    if (chunk_load(L, env, line, "=(tutorial)", &more)) lua_error(L);
    lua_call(L, 0, LUA_MULTRET);
    if (told && !chunk_is_silent(line)) repl_show(L, before + 1);
    lua_settop(L, before);
}

/* Runs the lines of the step at the top of the stack. */
static void
run_step(lua_State *L, int env, bool told)
{
    int step = lua_gettop(L);
    for (int k = 3; lua_rawgeti(L, step, k) == LUA_TTABLE; k++, lua_settop(L, step)) {
        bool look = lua_getfield(L, -1, "look") != LUA_TNIL;
        lua_rawgeti(L, step + 1, 1);
        if (told || !look) run_tutorial_line(L, env, lua_tostring(L, -1), told);
    }
    lua_settop(L, step);
}

void
tutorial_run(lua_State *L, int env, const char *text)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.pages.tutorial");
    lua_call(L, 1, 1);
    int steps = lua_gettop(L), nstep = (int)lua_rawlen(L, steps), next = step_of(L, "", nstep);
    int step = step_of(L, text, nstep);
    describe_own_devices(L);
    for (; next < step; next++) { /* runs the lines of earlier steps, because this step uses their variables */
        lua_rawgeti(L, steps, next);
        run_step(L, env, false);
        lua_pop(L, 1);
    }
    lua_rawgeti(L, steps, step);
    show_step_number(L, step, nstep);
    run_step(L, env, true);
    lua_pushinteger(L, step % nstep + 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &next_step);
    if (step == nstep) return;
    lua_pushfstring(L, "\nTry it with other numbers. :tutorial continues with step %d.", step + 1);
    fold_print(lua_tostring(L, -1));
}
