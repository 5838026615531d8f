/* lua_scan.c - records the function of rille.scan (lua/scan.lua) as one operator. */
#include "shell/bind/tensor/lua_scan.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_tensor.h"

enum { LIST_MAX = 64 };

static int
scan_tensors(lua_State *L, int i, struct rille_tensor **out)
{
    int n = (int)lua_rawlen(L, i);
    if (n > LIST_MAX) return -1;
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k + 1);
        out[k] = tensor_test(L, -1);
    }
    return n;
}

/* Pushes a list of n tensors, whose handles pass to Lua. */
static void
push_list(lua_State *L, int n, struct rille_tensor *const *t)
{
    struct rille_tensor **slot[LIST_MAX];
    lua_createtable(L, n, 0);
    for (int k = 0; k < n; k++) {
        slot[k] = tensor_slot(L);
        lua_rawseti(L, -2, k + 1);
    }
    for (int k = 0; k < n; k++) *slot[k] = t[k];
}

/* Pushes nil, and a text that says why the function could not be recorded. */
static int
give_reason(lua_State *L, const char *why)
{
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
}

/* Adds the scan whose function returned the two lists at the top of the stack: the next states and the outputs. */
static int
end_scan(lua_State *L, struct rille_scan **scan, int64_t length, int nstate)
{
    struct rille_tensor *next[LIST_MAX], *output[LIST_MAX], *out[LIST_MAX];
    int noutput = scan_tensors(L, -1, output);
    if (scan_tensors(L, -2, next) != nstate || noutput < 0) {
        rille_scan_cancel(scan);
        return give_reason(L, "the function has too many states or outputs");
    }
    bool final;
    int code = rille_scan_end(scan, length, next, noutput, output, out, &final);
    if (final) check(L, code);
    if (code) return give_reason(L, rille_error());
    push_list(L, nstate + noutput, out);
    return 1;
}

/* rille._record_scan(fn, axis, length, {states}, {slices}): calls fn with a list of stand-ins for states and slices,
 * which returns lists of the next states and of the outputs. Returns a list of the last states and the joined outputs;
 * or nil and why the calls of fn cannot become one operator. */
static int
scan(lua_State *L)
{
    struct rille_tensor *state[LIST_MAX], *slice[LIST_MAX], *stand_in[2 * LIST_MAX];
    struct rille_scan *scan = NULL;
    struct shell *sh = shell_of(L);
    int axis = (int)luaL_checkinteger(L, 2), nstate = scan_tensors(L, 4, state), nslice = scan_tensors(L, 5, slice);
    int64_t length = luaL_checkinteger(L, 3);
    lua_settop(L, 5);
    if (nstate < 0 || nslice < 0 || nstate + nslice > LIST_MAX) return give_reason(L, "it has too many tensors");
    at_line(L);
    if (rille_scan_begin(sh->session, axis, nstate, state, nslice, slice, stand_in, &scan))
        return give_reason(L, rille_error());
    int64_t interrupts = sh->ninterrupt;
    lua_pushvalue(L, 1);
    push_list(L, nstate + nslice, stand_in);
    if (lua_pcall(L, 1, 2, 0)) {
        rille_scan_cancel(&scan);
        if (sh->ninterrupt != interrupts) return lua_error(L);
        lua_pushnil(L);
        luaL_tolstring(L, -2, NULL);
        return 2;
    }
    at_line(L);
    return end_scan(L, &scan, length, nstate);
}

void
scan_open(lua_State *L)
{
    field_function(L, "_record_scan", scan);
}
