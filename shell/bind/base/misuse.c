/* misuse.c - metamethods for operators that Rille's objects do not support. The metamethods raise errors that name a
 * remedy; Lua's own error would name only a type. */
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

#include <string.h>

enum hint { VALUE, LOGIC, TEXT, CALL, NHINT };

/* Metamethods, with the operator as users write it. userdata: true if only userdata get the metamethod, because
 * Lua itself defines the operator for tables. */
static const struct event {
    const char *name, *sign, *expected;
    enum hint hint;
    bool userdata;
} events[] = {
    {"__add", "operator +", "tensors or numbers", VALUE, false},
    {"__sub", "operator -", "tensors or numbers", VALUE, false},
    {"__mul", "operator *", "tensors or numbers", VALUE, false},
    {"__div", "operator /", "tensors or numbers", VALUE, false},
    {"__mod", "operator %", "tensors or numbers", VALUE, false},
    {"__pow", "operator ^", "tensors or numbers", VALUE, false},
    {"__idiv", "operator //", "tensors or numbers", VALUE, false},
    {"__unm", "operator -", "a tensor or a number", VALUE, false},
    {"__band", "operator &", "integers", LOGIC, false},
    {"__bor", "operator |", "integers", LOGIC, false},
    {"__bxor", "operator ~", "integers", LOGIC, false},
    {"__bnot", "operator ~", "an integer", LOGIC, false},
    {"__shl", "operator <<", "integers", LOGIC, false},
    {"__shr", "operator >>", "integers", LOGIC, false},
    {"__concat", "operator ..", "strings or numbers", TEXT, false},
    {"__lt", "operator <", "two numbers or two strings", VALUE, false},
    {"__le", "operator <=", "two numbers or two strings", VALUE, false},
    {"__call", "call", "a function", CALL, false},
    {"__len", "operator #", "a string, a list or a tensor", VALUE, true},
    {"__pairs", "pairs", "a table or a tensor", VALUE, true},
    {"__newindex", NULL, NULL, VALUE, true},
};
enum { NEVENT = sizeof events / sizeof *events };

static const struct kind_hints {
    enum kind kind;
    const char *hint[NHINT];
} kind_hints[] = {
    {KIND_TENSOR,
     {[VALUE] = "write a:lt(b), a:le(b), a:gt(b) or a:ge(b)",
      [LOGIC] = "write a:logical_and(b), a:logical_or(b) or a:logical_not()",
      [TEXT] = "write tostring(x), or x:item() for its number",
      [CALL] = "x[i] indexes a tensor, and pairs(x) iterates over its rows"}},
    {KIND_GRAPH, {[VALUE] = "call the step first, as in step(x)", [TEXT] = "write tostring(step)"}},
    {KIND_TOKENIZER, {[TEXT] = "write tostring(tok)", [CALL] = "write tok:encode(text) or tok:decode(ids)"}},
    {KIND_LIVE, {NULL}},
    {KIND_PLACE, {[TEXT] = "write tostring(placement)"}},
};

const char *
class_text(lua_State *L, int i)
{
    static const char *const keys[] = {"__name", "__class"};
    static const struct {
        const char *kind, *text;
    } names[] = {{"rille.graph", "compiled step"}, {"rille.live", "live number"}, {LUA_FILEHANDLE, "file"}};
    int top = lua_gettop(L);
    i = lua_absindex(L, i);
    if ((!lua_istable(L, i) && !lua_isuserdata(L, i)) || !lua_getmetatable(L, i)) return NULL;
    if (lua_istable(L, i)) { /* a class is a table with a name and an __index of its own */
        lua_pushliteral(L, "__name");
        lua_pushliteral(L, "__index");
        if (lua_rawget(L, i) != LUA_TNIL && (lua_insert(L, -2), lua_rawget(L, i)) == LUA_TSTRING)
            return lua_pushfstring(L, "the class %s", lua_tostring(L, -1));
        lua_settop(L, top + 1);
    }
    for (int k = 0; k < 2; k++) {
        lua_pushstring(L, keys[k]);
        if (lua_rawget(L, top + 1) == LUA_TSTRING) {
            const char *name = lua_tostring(L, -1);
            for (size_t n = 0; n < sizeof names / sizeof *names; n++)
                if (!strcmp(name, names[n].kind)) name = names[n].text;
            if (!strncmp(name, "rille.", 6)) name += 6;
            bool vowel = !strncmp(name, "nn.", 3) || strchr("aeiouAEIOU", name[0]);
            return lua_pushfstring(L, "%s %s", vowel ? "an" : "a", name);
        }
    }
    lua_settop(L, top);
    return NULL;
}

/* Raises the error for an unsupported operator. Upvalues: index in the table of metamethods; the remedy, or nil. */
static int
refuse_event(lua_State *L)
{
    const struct event *e = &events[lua_tointeger(L, lua_upvalueindex(1))];
    const char *remedy = lua_tostring(L, lua_upvalueindex(2));
    bool second = !lua_istable(L, 1) && !lua_isuserdata(L, 1);
    const char *found = what_is(L, second ? 2 : 1);
    if (!e->sign) return complain(L, "%s has no field that can be set, found %s", found, what_is(L, 2));
    return complain(L, "%s: expected %s, found %s%s%s", e->sign, e->expected, found, remedy ? "; " : "",
                    remedy ? remedy : "");
}

/* Returns true if the running method of this kind of object was called as a field, x.name(...), instead of
 * x:name(...). */
static bool
is_called_by_dot(lua_State *L, enum kind kind, const char *name)
{
    lua_Debug ar;
    if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "n", &ar) || strcmp(ar.namewhat, "field")) return false;
    kind_metatable(L, kind);
    if (lua_getfield(L, -1, "__methods") != LUA_TTABLE) lua_pop(L, 1);
    bool method = lua_getfield(L, -1, name) == LUA_TFUNCTION;
    lua_pop(L, 2);
    return method;
}

int
refuse_self(lua_State *L, int i, enum kind kind, const char *name, const char *expected)
{
    const char *found = what_is(L, i);
    if (i != 1 || !is_called_by_dot(L, kind, name))
        return complain(L, "%s: expected %s, found %s", name, expected, found);
    return complain(L, "%s: expected %s, found %s; write x:%s(...), with a colon", name, expected, found, name);
}

bool
is_callable(lua_State *L, int i)
{
    if (lua_isfunction(L, i)) return true;
    if (luaL_getmetafield(L, i, "__call") == LUA_TNIL) return false;
    bool refused = lua_tocfunction(L, -1) == refuse_event;
    lua_pop(L, 1);
    return !refused;
}

/* rille._is_callable(value): returns true for functions and for objects that a user may call. */
static int
lua_is_callable(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushboolean(L, is_callable(L, 1));
    return 1;
}

/* Adds the metamethods above that the metatable at the top of the stack lacks. */
static void
add_events(lua_State *L, const char *const *hint, bool userdata)
{
    for (int k = 0; k < NEVENT; k++) {
        if (events[k].userdata && !userdata) continue;
        lua_pushstring(L, events[k].name);
        if (lua_rawget(L, -2) == LUA_TNIL) {
            lua_pushinteger(L, k);
            lua_pushstring(L, hint[events[k].hint]);
            lua_pushcclosure(L, refuse_event, 2);
            lua_setfield(L, -3, events[k].name);
        }
        lua_pop(L, 1);
    }
}

/* rille._refuse(metatable, value, call): adds metamethods that raise errors; returns the metatable. value, call: the
 * remedies for an operator and for a call, or nil. */
static int
refuse_operators(lua_State *L)
{
    const char *const hint[NHINT] = {[VALUE] = lua_tostring(L, 2),
                                     [LOGIC] = lua_tostring(L, 2),
                                     [TEXT] = "write tostring() of the object",
                                     [CALL] = lua_tostring(L, 3)};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 3);
    lua_pushvalue(L, 1);
    add_events(L, hint, false);
    return 1;
}

/* rille._class_text(value): returns class_text(value), such as "an nn.Linear"; nil if the value has no class. */
static int
lua_class_text(lua_State *L)
{
    if (!class_text(L, 1)) lua_pushnil(L);
    return 1;
}

void
misuse_shape(lua_State *L)
{
    static const char *const hint[NHINT] = {[VALUE] = "x.shape[1] is the first size",
                                            [TEXT] = "write tostring(x.shape)",
                                            [CALL] = "write x.shape[1] for the first size"};
    add_events(L, hint, false);
}

void
misuse_open(lua_State *L)
{
    for (size_t k = 0; k < sizeof kind_hints / sizeof *kind_hints; k++) {
        kind_metatable(L, kind_hints[k].kind);
        add_events(L, kind_hints[k].hint, true);
        lua_pop(L, 1);
    }
    field_function(L, "_refuse", refuse_operators);
    field_function(L, "_class_text", lua_class_text);
    field_function(L, "_is_callable", lua_is_callable);
}
