/* local.c - locals that outlive their chunk, so that the lines of a script can be typed one by one.
 *
 * Lua's locals end with the chunk that declares them. Here a top-level declaration is rewritten as an assignment:
 *
 *   local a, b <const> = f()       __here.a, __here.b = f()
 *   local function g(x) ... end    function __here.g(x) ... end
 *
 * Assignments to __here write into a table that is the environment of all chunks. Names that the table lacks are
 * looked up in the globals. So modules never see the user's locals, and a closure made on one line shares its
 * variables with later lines. Locals inside blocks and functions are not rewritten; `depth` counts the open
 * blocks. Reading an undefined global is an error, because on a typed line it is a misspelt name. */
#include "shell/repl/local.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/names.h"
#include "shell/repl/repl.h"
#include "shell/repl/token.h"

#include <string.h>

/* ---- rewriting ---- */

struct rewrite {
    luaL_Buffer b;
    const char *done; /* the text before this position has been copied to the buffer */
};

static void
copy_to(struct rewrite *r, const char *end)
{
    luaL_addlstring(&r->b, r->done, (size_t)(end - r->done));
    r->done = end;
}

/* Skips text, but copies its newlines, so that line numbers are kept. */
static void
skip_to(struct rewrite *r, const char *end)
{
    for (; r->done < end; r->done++)
        if (*r->done == '\n') luaL_addchar(&r->b, '\n');
}

static void
add_field(struct rewrite *r, const struct token *name)
{
    copy_to(r, name->at);
    luaL_addstring(&r->b, LOCAL_TABLE ".");
    copy_to(r, token_after(name));
}

/* Skips an attribute, <const> or <close>; t is the token after the name. Returns the token after the attribute. */
static struct token
skip_attribute(struct rewrite *r, struct token t)
{
    if (!token_is(&t, "<")) return t;
    struct token word = token_next(token_after(&t)), close = token_next(token_after(&word));
    if (word.kind != T_NAME || !token_is(&close, ">")) return t;
    skip_to(r, token_after(&close));
    return token_next(token_after(&close));
}

/* Rewrites the declaration that begins with the token `local`. Returns the position at which to continue. Leaves
 * text that is no declaration for Lua to reject. */
static const char *
rewrite_local(struct rewrite *r, const struct token *local)
{
    struct token t = token_next(token_after(local));
    if (token_is(&t, "function")) {
        struct token name = token_next(token_after(&t));
        if (name.kind != T_NAME) return token_after(local);
        copy_to(r, local->at);
        skip_to(r, t.at);
        add_field(r, &name);
        return t.at; /* continues at the word `function`, which opens a block */
    }
    if (t.kind != T_NAME) return token_after(local);
    copy_to(r, local->at);
    skip_to(r, t.at);
    for (;;) {
        add_field(r, &t);
        const char *end = token_after(&t);
        t = skip_attribute(r, token_next(end));
        if (token_is(&t, "=")) return r->done > t.at ? r->done : t.at;
        if (!token_is(&t, ",")) {
            luaL_addstring(&r->b, " = nil ");
            return r->done > end ? r->done : end;
        }
        t = token_next(token_after(&t));
        if (t.kind != T_NAME) return t.at;
    }
}

void
local_rewrite(lua_State *L, const char *chunk)
{
    static const char *const open[] = {"function", "do", "if", "repeat", NULL}, *const close[] = {"end", "until", NULL};
    struct rewrite r = {.done = chunk};
    const char *at = chunk;
    int depth = 0;
    luaL_buffinit(L, &r.b);
    for (struct token t; (t = token_next(at)).kind != T_END;) {
        at = token_after(&t);
        if (t.kind != T_NAME) continue;
        if (token_is_any(&t, open))
            depth++;
        else if (token_is_any(&t, close))
            depth--;
        else if (depth == 0 && token_is(&t, "local"))
            at = rewrite_local(&r, &t);
    }
    luaL_addstring(&r.b, r.done);
    luaL_pushresult(&r.b);
}

/* ---- the environment ---- */

/* Upvalue 1 of the functions below is a table of the user's names whose value is nil; these constants are the
 * values in the table. The table is needed because a nil local still hides a global, and a global set to nil is
 * not a misspelt name. */
enum { NIL_LOCAL = 1, NIL_GLOBAL };

static int
kind_of_nil(lua_State *L)
{
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
    int kind = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return kind;
}

/* Raises the error for an undefined name, and suggests a local, a global, or Rille's equivalent of another program's
 * name. */
static int
unknown_local(lua_State *L)
{
    struct nearest best = {0};
    const char *name = text_at(L, 2, "name"), *other = name_elsewhere("", name);
    if (other) return complain(L, "unknown global '%s'; %s", name, other);
    name_nearest(L, 1, name, &best);
    lua_pushglobaltable(L);
    name_nearest(L, -1, name, &best);
    return complain(L, "unknown global '%s'%s", name, name_hint(L, &best));
}

static int
read_local_name(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    int kind = kind_of_nil(L);
    if (kind == NIL_LOCAL) return 0;
    lua_pushglobaltable(L);
    lua_pushvalue(L, 2);
    if (lua_gettable(L, -2) != LUA_TNIL || kind == NIL_GLOBAL || lua_type(L, 2) != LUA_TSTRING) return 1;
    /* no error for "_", which is nil until a value has been printed */
    if (!strcmp(lua_tostring(L, 2), "_")) return 1;
    return unknown_local(L);
}

static int
write_name(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    bool local = kind_of_nil(L) == NIL_LOCAL;
    if (!local) {
        lua_pushvalue(L, 2);
        lua_isnil(L, 3) ? lua_pushinteger(L, NIL_GLOBAL) : lua_pushnil(L);
        lua_rawset(L, lua_upvalueindex(1));
        lua_pushglobaltable(L);
    }
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    if (local)
        lua_rawset(L, 1);
    else
        lua_settable(L, -3);
    return 0;
}

/* Implements __here.name = value; upvalue 2 is the environment. */
static int
declare(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_isnil(L, 3))
        lua_pushinteger(L, NIL_LOCAL);
    else
        lua_pushnil(L);
    lua_rawset(L, lua_upvalueindex(1));
    lua_rawset(L, lua_upvalueindex(2)); /* sets environment[name] = value */
    return 0;
}

void
local_environment(lua_State *L)
{
    lua_newtable(L); /* the environment */
    int env = lua_gettop(L);
    lua_newtable(L); /* its metatable */
    lua_newtable(L); /* names that are nil */
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, read_local_name, 1);
    lua_setfield(L, -3, "__index");
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, write_name, 1);
    lua_setfield(L, -3, "__newindex");
    lua_newtable(L); /* the table __here */
    lua_newtable(L);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, env);
    lua_pushcclosure(L, declare, 2);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_setfield(L, env, LOCAL_TABLE);
    lua_pop(L, 1);
    lua_setmetatable(L, env);
}
