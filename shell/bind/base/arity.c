/* arity.c - makes the module's functions reject surplus arguments.
 *
 * Two tables list the maximum numbers of arguments: one for the module's C functions, one for the methods of
 * Rille's objects. lua/base/check.lua makes functions written in Lua reject surplus arguments. */
#include "shell/bind/base/arity.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

struct arity {
    const char *name;
    int most;
};

static const struct arity functions[] = {
    {"index_put_", 4}, {"masked_fill_", 3},   {"masked_fill", 3}, {"masked_select", 2}, {"nonzero", 1},
    {"allow_tf32", 1}, {"boxing", 1},         {"certificate", 1}, {"chunk", 4},         {"clock", 0},
    {"counters", 0},   {"devices", 0},        {"device_info", 2}, {"graph", 2},         {"help", 1},
    {"detect_nan", 1}, {"from_local", 2},     {"is_lost", 1},     {"live", 1},          {"is_terminal", 1},
    {"load", 2},       {"load_operators", 1}, {"load_npy", 2},    {"manual_seed", 1},   {"operators", 0},
    {"placement", 2},  {"page", 1},           {"save", 3},        {"split", 4},         {"tensor", 2},
    {"whatif", 2},     {"workers", 0},        {NULL, 0},
};
static const struct arity sbp[] = {{"split", 2}, {"partial", 1}, {NULL, 0}};
/* The maximum numbers of arguments of methods include the object itself. */
static const struct arity tensor[] = {
    {"chunk", 4},     {"clone", 1},      {"copy_", 2},          {"detach", 1},        {"fill_", 2},
    {"hist", 2},      {"item", 1},       {"numel", 1},          {"shards", 1},        {"show", 2},
    {"split", 4},     {"stats", 1},      {"zero_", 1},          {"totable", 1},       {"to_local", 2},
    {"to_global", 2}, {"to_global_", 2}, {"requires_grad_", 2}, {"register_hook", 2}, {"retain_grad", 1},
    {NULL, 0},
};
static const struct arity graph[] = {
    {"actors", 1}, {"certify", 2}, {"chart", 2}, {"explain", 1}, {"hints", 1},
    {"plan", 2},   {"show", 3},    {"stats", 1}, {"trace", 2},   {NULL, 0},
};
static const struct arity tokenizer[] = {{"encode", 3}, {"decode", 3}, {"save", 2}, {NULL, 0}};

/* Pushes and returns the end of the error message, "; write SIGNATURE". If the function has no help page, the text
 * is "". */
static const char *
usage_of(lua_State *L, const char *name)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.pages");
    if (lua_pcall(L, 1, 1, 0)) return "";
    lua_getfield(L, -1, "usage");
    lua_pushstring(L, name);
    return lua_pcall(L, 1, 1, 0) ? "" : lua_tostring(L, -1);
}

/* Raises an error if the running function has too many arguments. Upvalues: the function to call, its name, the
 * maximum number of arguments, and the number of arguments that are the object (1 for a method, else 0). */
static void
limit_arguments(lua_State *L)
{
    int most = (int)lua_tointeger(L, lua_upvalueindex(3)), n = lua_gettop(L);
    if (n <= most) return;
    int self = (int)lua_tointeger(L, lua_upvalueindex(4));
    const char *name = lua_tostring(L, lua_upvalueindex(2));
    if (most == self) complain(L, "%s: expected no argument, found %d", name, n - self);
    complain(L, "%s: expected at most %d argument%s, found %d%s", name, most - self, most - self == 1 ? "" : "s",
             n - self, usage_of(L, name));
}

/* Checks the number of arguments, then calls a C function without upvalues. */
static int
call_limited(lua_State *L)
{
    limit_arguments(L);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Checks the number of arguments, then calls a function of any other kind. */
static int
call_limited_closure(lua_State *L)
{
    int n = lua_gettop(L);
    limit_arguments(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, LUA_MULTRET);
    return lua_gettop(L);
}

void
arity_limit(lua_State *L, const char *name, int most, int self)
{
    lua_CFunction call = call_limited;
    if (lua_getupvalue(L, -1, 1)) {
        lua_pop(L, 1);
        call = call_limited_closure;
    }
    lua_pushstring(L, name);
    lua_pushinteger(L, most);
    lua_pushinteger(L, self);
    lua_pushcclosure(L, call, 4);
}

/* Makes the functions in the table at the top of the stack reject surplus arguments; pops the table. */
static void
limit_all(lua_State *L, const struct arity *list, int self)
{
    for (; list->name; list++) {
        lua_getfield(L, -1, list->name);
        arity_limit(L, list->name, list->most, self);
        lua_setfield(L, -2, list->name);
    }
    lua_pop(L, 1);
}

void
arity_open(lua_State *L)
{
    static const struct {
        enum kind kind;
        const char *field;
        const struct arity *list;
    } objects[] = {
        {KIND_TENSOR, "__methods", tensor}, {KIND_GRAPH, "__methods", graph}, {KIND_TOKENIZER, NULL, tokenizer}};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        kind_metatable(L, objects[i].kind);
        if (objects[i].field) lua_getfield(L, -1, objects[i].field);
        limit_all(L, objects[i].list, 1);
        if (objects[i].field) lua_pop(L, 1);
    }
    lua_getfield(L, -1, "sbp");
    limit_all(L, sbp, 0);
    lua_pushvalue(L, -1);
    limit_all(L, functions, 0);
}
