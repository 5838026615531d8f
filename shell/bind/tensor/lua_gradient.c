/* lua_gradient.c - gradient functions and hooks in Lua (lua/func.lua, lua/base/hooks.lua).
 *
 * The core calls back in the middle of a backward pass, and cannot handle Lua errors. So the functions run in protected
 * calls; an error is stored (live_fail), the pass fails, and the caller of backward raises the error. */
#include "shell/bind/tensor/lua_gradient.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <stdlib.h>

enum { LIST_MAX = 256 };

struct callback {
    struct shell *shell;
    int function; /* registry reference of the Lua function */
    int nsaved, nresult, nin;
};

static struct callback *
callback_new(lua_State *L, int i)
{
    struct callback *c = calloc(1, sizeof *c);
    if (!c) luaL_error(L, "not enough memory");
    c->shell = shell_of(L);
    lua_pushvalue(L, i);
    c->function = luaL_ref(L, LUA_REGISTRYINDEX);
    return c;
}

static void
callback_drop(void *arg)
{
    struct callback *c = arg;
    luaL_unref(c->shell->main, LUA_REGISTRYINDEX, c->function);
    free(c);
}

/* Calls a function with n arguments, which are at the top of the stack above the function, and pushes one result.
 * Returns 0, or 1 after an error. */
static int
callback_call(struct callback *c, lua_State *L, int n)
{
    struct shell *sh = c->shell;
    struct line line = sh->line;
    /* makes the next call report its line again, because the core now has the line of backward() */
    sh->line.number = 0;
    int code = lua_pcall(L, n, 1, 0);
    sh->line = line;
    sh->running = L;
    if (code) live_fail(L);
    return code ? 1 : 0;
}

static void
push_handle(lua_State *L, struct rille_tensor *t)
{
    if (!t) {
        lua_pushboolean(L, false); /* false keeps the position of a missing tensor in the list */
        return;
    }
    struct rille_tensor **slot = kind_new(L, KIND_TENSOR, sizeof(struct rille_tensor *));
    *slot = rille_tensor_hold(t);
}

static void
push_handles(lua_State *L, int n, struct rille_tensor *const *t)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        push_handle(L, t[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/* ---- calling functions that define their own gradient ---- */

/* Calls the backward function of rille.func. Arguments, as light userdata: the callback, the gradients of the
 * results, the saved tensors, the gradients to set. */
static int
run_backward(lua_State *L)
{
    struct callback *c = lua_touserdata(L, 1);
    struct rille_tensor *const *dresult = lua_touserdata(L, 2), *const *saved = lua_touserdata(L, 3);
    struct rille_tensor **din = lua_touserdata(L, 4);
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->function);
    push_handles(L, c->nresult, dresult);
    push_handles(L, c->nsaved, saved);
    lua_call(L, 2, 1);
    for (int i = 0; i < c->nin; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, 1, i + 1);
        struct rille_tensor *t = tensor_test(L, -1);
        if (t) din[i] = rille_tensor_hold(t);
    }
    return 0;
}

static int
backward_callback(void *arg, struct rille_tensor *const *dresult, struct rille_tensor *const *saved,
                  struct rille_tensor **din)
{
    struct callback *c = arg;
    lua_State *L = c->shell->running;
    if (!lua_checkstack(L, 8)) return 1;
    lua_pushcfunction(L, run_backward);
    lua_pushlightuserdata(L, c);
    lua_pushlightuserdata(L, (void *)dresult);
    lua_pushlightuserdata(L, (void *)saved);
    lua_pushlightuserdata(L, (void *)din);
    if (callback_call(c, L, 4)) return 1;
    lua_pop(L, 1);
    return 0;
}

/* Reads n entries of the list at i; entries that are no tensors become NULL. */
static void
read_tensors(lua_State *L, int i, const char *who, int n, struct rille_tensor **out)
{
    if (n > LIST_MAX) complain(L, "%s: expected at most %d tensors, found %d", who, LIST_MAX, n);
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k + 1);
        out[k] = tensor_test(L, -1);
    }
}

/* rille._own_gradient(name, fn, {arguments, n =}, {saved}, {results}): returns the list of results, as tensors
 * with their own gradient. Backward calls fn({gradients of results}, {saved}), which returns a list with the
 * gradient for each argument. */
static int
own_gradient(lua_State *L)
{
    struct rille_tensor *in[LIST_MAX], *saved[LIST_MAX], *result[LIST_MAX], *out[LIST_MAX], **slot[LIST_MAX];
    const char *name = luaL_checkstring(L, 1);
    lua_getfield(L, 3, "n");
    int nin = (int)lua_tointeger(L, -1), nsaved = (int)lua_rawlen(L, 4), nresult = (int)lua_rawlen(L, 5);
    read_tensors(L, 3, name, nin, in);
    read_tensors(L, 4, name, nsaved, saved);
    read_tensors(L, 5, name, nresult, result);
    lua_createtable(L, nresult, 0);
    for (int k = 0; k < nresult; k++) {
        slot[k] = tensor_slot(L);
        lua_rawseti(L, -2, k + 1);
    }
    at_line(L);
    struct callback *c = callback_new(L, 2);
    c->nsaved = nsaved;
    c->nresult = nresult;
    c->nin = nin;
    const struct rille_backward backward = {name, backward_callback, callback_drop, c};
    check(L, rille_own_gradient(c->shell->session, &backward, nin, in, nsaved, saved, nresult, result, out));
    for (int k = 0; k < nresult; k++) *slot[k] = out[k];
    return 1;
}

/* rille._name_calls(name or nil): sets the name of the function to which the following operator calls belong;
 * returns the previous name. */
static int
name_calls(lua_State *L)
{
    lua_pushstring(L, rille_name_calls(shell_of(L)->session, luaL_optstring(L, 1, NULL)));
    return 1;
}

/* ---- hooks ---- */

static int
hook_callback(void *arg, struct rille_tensor *gradient, struct rille_tensor **out)
{
    struct callback *c = arg;
    lua_State *L = c->shell->running;
    if (!lua_checkstack(L, 8)) return 1;
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->function);
    push_handle(L, gradient);
    if (callback_call(c, L, 1)) return 1;
    struct rille_tensor *t = tensor_test(L, -1);
    if (t) *out = rille_tensor_hold(t);
    lua_pop(L, 1);
    return 0;
}

/* rille._hook(x, fn): registers fn, which receives the gradient of x and returns a replacement or nil. Returns the
 * hook's number. */
static int
hook(lua_State *L)
{
    int64_t id;
    struct rille_tensor *t = tensor_check(L, 1, "register_hook");
    luaL_checktype(L, 2, LUA_TFUNCTION);
    at_line(L);
    struct callback *c = callback_new(L, 2);
    const struct rille_hook_user user = {callback_drop, c};
    int code = rille_tensor_hook(t, hook_callback, &user, &id);
    if (code) callback_drop(c);
    check(L, code);
    lua_pushinteger(L, id);
    return 1;
}

/* rille._unhook(x, id): removes hook number id from x. */
static int
unhook(lua_State *L)
{
    check(L, rille_tensor_unhook(tensor_check(L, 1, "remove"), luaL_checkinteger(L, 2)));
    return 0;
}

int
tensor_retain_grad(lua_State *L)
{
    struct rille_tensor *t = tensor_check(L, 1, "retain_grad");
    at_line(L);
    check(L, rille_tensor_retain_grad(t));
    lua_settop(L, 1);
    return 1;
}

void
gradient_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"_own_gradient", own_gradient},
                                         {"_name_calls", name_calls},
                                         {"_hook", hook},
                                         {"_unhook", unhook},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
