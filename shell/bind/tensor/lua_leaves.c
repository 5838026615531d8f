/* lua_leaves.c - changes many variables at once, such as the parameters of a module. On failure no variable has
 * changed.
 *
 * The functions accept a list with a row for each leaf (variable): {name, leaf, new value or layout}, or {name,
 * leaf} if all leaves get the same value. No leaf occurs twice. All rows are read before any change, and the core
 * changes all leaves in one call, because Ctrl-C can interrupt before any line of Lua. Errors give the name and
 * the type of the leaf. */
#include "shell/bind/tensor/lua_leaves.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_tensor.h"

struct leaves { /* the rows of a list; stored in a userdata on the stack */
    int n;
    struct rille_tensor **leaf;
    const void **next; /* new value (a tensor) or layout of each leaf; unused if all leaves get the same value */
};

/* Pushes "who: 'name' f32{2, 3}" for row i of the list at 2. */
static const char *
leaf_text(lua_State *L, const char *who, int i)
{
    luaL_Buffer b;
    lua_rawgeti(L, 2, i + 1);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    struct rille_tensor *t = tensor_check(L, -1, who);
    const char *name = lua_tostring(L, -2);
    luaL_buffinit(L, &b);
    lua_pushfstring(L, "%s: '%s' %s{", who, name, rille_tensor_dtype(t));
    luaL_addvalue(&b);
    for (int d = 0; d < rille_tensor_ndim(t); d++) {
        lua_pushfstring(L, d ? ", %I" : "%I", (LUAI_UACINT)rille_tensor_shape(t)[d]);
        luaL_addvalue(&b);
    }
    luaL_addstring(&b, "}");
    luaL_pushresult(&b);
    return lua_tostring(L, -1);
}

/* Reads the leaves, the second column of the list of rows {name, leaf, ...} at stack index 2. The caller reads the
 * third column. */
static struct leaves
leaves_read(lua_State *L, const char *who)
{
    luaL_checktype(L, 2, LUA_TTABLE);
    struct leaves out = {.n = (int)lua_rawlen(L, 2)};
    out.leaf = scratch_new(L, who, sizeof *out.leaf * (size_t)(out.n + 1));
    out.next = scratch_new(L, who, sizeof *out.next * (size_t)(out.n + 1));
    for (int i = 0; i < out.n; i++) {
        if (lua_rawgeti(L, 2, i + 1) != LUA_TTABLE)
            complain(L, "%s: a row must be a table, found %s", who, what_is(L, -1));
        lua_rawgeti(L, -1, 2);
        out.leaf[i] = tensor_check(L, -1, who);
        lua_pop(L, 2);
    }
    return out;
}

/* Pushes the third column of row i. */
static void
push_next(lua_State *L, int i)
{
    lua_rawgeti(L, 2, i + 1);
    lua_rawgeti(L, -1, 3);
    lua_remove(L, -2);
}

/* rille._take(who, {{name, leaf, value}, ...}): copies each value into its leaf, like leaf:copy_(value). */
static int
leaves_take(lua_State *L)
{
    const char *who = luaL_checkstring(L, 1);
    struct leaves all = leaves_read(L, who);
    for (int i = 0; i < all.n; i++) {
        push_next(L, i);
        all.next[i] = tensor_check(L, -1, who);
        lua_pop(L, 1);
    }
    int wrong = -1;
    at_line(L);
    int code =
        rille_tensors_assign(shell_of(L)->session, all.n, all.leaf, (struct rille_tensor *const *)all.next, &wrong);
    if (code) return raise_core(L, wrong < 0 ? who : leaf_text(L, who, wrong));
    return 0;
}

/* rille._lay(who, {{name, leaf, {placement =, sbp =}}, ...}): changes the layout of each leaf, like
 * leaf:to_global_(). */
static int
lay(lua_State *L)
{
    static const char *const keys[] = {"placement", "sbp", NULL};
    const char *who = luaL_checkstring(L, 1);
    struct leaves all = leaves_read(L, who);
    int top = lua_gettop(L), wrong = -1;
    for (int i = 0; i < all.n; i++, lua_settop(L, top)) {
        push_next(L, i);
        if (!lua_istable(L, -1))
            complain(L, "%s: expected a table {placement =, sbp =}, found %s", who, what_is(L, -1));
        check_keys(L, top + 1, who, keys);
        const struct rille_layout *has = rille_tensor_layout(all.leaf[i]);
        const struct rille_layout *l =
            layout_read(L, top + 1, leaf_text(L, who, i), rille_tensor_ndim(all.leaf[i]), has);
        all.next[i] = l ? l : has;
    }
    at_line(L);
    int code = rille_tensors_relayout(shell_of(L)->session, all.n, all.leaf,
                                      (const struct rille_layout *const *)all.next, &wrong);
    if (code) return raise_core(L, wrong < 0 ? who : leaf_text(L, who, wrong));
    for (int i = 0; i < all.n; i++) {
        push_next(L, i);
        if (layout_auto(L, -1)) check(L, rille_tensor_auto(all.leaf[i], true));
        lua_pop(L, 1);
    }
    rille_generation(shell_of(L)->session);
    return 0;
}

/* rille._retype(who, {{name, leaf}, ...}, dtype): casts each leaf to the dtype. */
static int
retype(lua_State *L)
{
    const char *who = luaL_checkstring(L, 1), *dtype = luaL_checkstring(L, 3);
    struct leaves all = leaves_read(L, who);
    int wrong = -1;
    at_line(L);
    int code = rille_tensors_retype(shell_of(L)->session, all.n, all.leaf, dtype, &wrong);
    if (code) return raise_core(L, wrong < 0 ? who : leaf_text(L, who, wrong));
    return 0;
}

/* rille._frozen(t): returns true if requires_grad of the tensor was last set to false. */
static int
frozen(lua_State *L)
{
    lua_pushboolean(L, rille_tensor_frozen(tensor_check(L, 1, "_frozen")));
    return 1;
}

void
leaves_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"_take", leaves_take}, {"_lay", lay}, {"_retype", retype}, {"_frozen", frozen}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
