/* local.c - locals that outlive their chunk, so that a script's lines can be typed one by one.
 *
 * Lua's locals end with the chunk that declares them. Here a top-level declaration is rewritten as an assignment:
 *
 *   local a, b <const> = f()       __here.a, __here.b = f()
 *   local function g(x) ... end    function __here.g(x) ... end
 *
 * __here writes into the environment of all chunks, which shows the globals behind it; so modules never see a user's
 * locals, and a closure of one line and the next line share the variable. Locals inside blocks and functions stay what
 * they are. The tokens are those of the Lua 5.4 manual, section 3.1; depth counts what "end" and "until" close. */
#include "shell/repl.h"

#include <ctype.h>
#include <string.h>

struct token {
    const char *at;
    size_t size;
    enum { T_END, T_NAME, T_NUMBER, T_STRING, T_OTHER } kind;
};

/* After "[", "=" any number of times, "[": where the matching "]==]" ends; NULL when it is no long bracket. */
static const char *
skip_long(const char *s)
{
    size_t level = strspn(s + 1, "=");
    if (s[0] != '[' || s[1 + level] != '[') return NULL;
    for (s += level + 2; *s; s++)
        if (s[0] == ']' && strspn(s + 1, "=") >= level && s[1 + level] == ']') return s + level + 2;
    return s;
}

static const char *
skip_string(const char *s)
{
    char quote = *s++;
    while (*s && *s != quote) s += s[0] == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

static const char *
skip_number(const char *s)
{
    bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    while (isalnum((unsigned char)*s) || *s == '.') {
        char c = (char)tolower((unsigned char)*s++);
        if (c == (hex ? 'p' : 'e') && (*s == '+' || *s == '-')) s++;
    }
    return s;
}

static const char *
skip_space(const char *s)
{
    for (;;) {
        while (isspace((unsigned char)*s)) s++;
        if (s[0] != '-' || s[1] != '-') return s;
        const char *end = s[2] == '[' ? skip_long(s + 2) : NULL;
        s = end ? end : s + strcspn(s, "\n");
    }
}

static struct token
next_token(const char *s)
{
    const char *end;
    struct token t = {.at = skip_space(s), .kind = T_OTHER};
    s = t.at;
    if (!*s)
        t.kind = T_END, end = s;
    else if (isalpha((unsigned char)*s) || *s == '_') {
        for (t.kind = T_NAME, end = s; isalnum((unsigned char)*end) || *end == '_';) end++;
    } else if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1])))
        t.kind = T_NUMBER, end = skip_number(s);
    else if (*s == '"' || *s == '\'')
        t.kind = T_STRING, end = skip_string(s);
    else if ((end = skip_long(s)))
        t.kind = T_STRING;
    else
        end = s + 1;
    t.size = (size_t)(end - s);
    return t;
}

static const char *
after(const struct token *t)
{
    return t->at + t->size;
}

static bool
is(const struct token *t, const char *text)
{
    return t->size == strlen(text) && !strncmp(t->at, text, t->size) && t->kind != T_STRING;
}

static bool
is_any(const struct token *t, const char *const *words)
{
    while (*words && !is(t, *words)) words++;
    return *words != NULL;
}

/* ---- rewriting ---- */

struct rewrite {
    luaL_Buffer b;
    const char *done; /* the text before it is in the buffer */
};

static void
copy_to(struct rewrite *r, const char *end)
{
    luaL_addlstring(&r->b, r->done, (size_t)(end - r->done));
    r->done = end;
}

/* What is skipped leaves its line ends. */
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
    copy_to(r, after(name));
}

/* <const> and <close>; t is what stands behind the name. */
static struct token
skip_attribute(struct rewrite *r, struct token t)
{
    if (!is(&t, "<")) return t;
    struct token word = next_token(after(&t)), close = next_token(after(&word));
    if (word.kind != T_NAME || !is(&close, ">")) return t;
    skip_to(r, after(&close));
    return next_token(after(&close));
}

/* "local" has been read. Gives where to go on; what is no declaration is left for Lua to complain about. */
static const char *
rewrite_local(struct rewrite *r, const struct token *local)
{
    struct token t = next_token(after(local));
    if (is(&t, "function")) {
        struct token name = next_token(after(&t));
        if (name.kind != T_NAME) return after(local);
        copy_to(r, local->at);
        skip_to(r, t.at);
        add_field(r, &name);
        return t.at; /* the function opens a block */
    }
    if (t.kind != T_NAME) return after(local);
    copy_to(r, local->at);
    skip_to(r, t.at);
    for (;;) {
        add_field(r, &t);
        const char *end = after(&t);
        t = skip_attribute(r, next_token(end));
        if (is(&t, "=")) return r->done > t.at ? r->done : t.at;
        if (!is(&t, ",")) {
            luaL_addstring(&r->b, " = nil ");
            return r->done > end ? r->done : end;
        }
        t = next_token(after(&t));
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
    for (struct token t; (t = next_token(at)).kind != T_END;) {
        at = after(&t);
        if (t.kind != T_NAME) continue;
        if (is_any(&t, open))
            depth++;
        else if (is_any(&t, close))
            depth--;
        else if (depth == 0 && is(&t, "local"))
            at = rewrite_local(&r, &t);
    }
    luaL_addstring(&r.b, r.done);
    luaL_pushresult(&r.b);
}

/* ---- the environment ---- */

/* Upvalue 1 of these: the names of locals that are nil now. A local that is nil hides a global all the same. */

static int
read_name(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 0;
    lua_pushglobaltable(L);
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
}

static int
write_name(lua_State *L)
{
    lua_pushvalue(L, 2);
    bool local = lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL;
    if (!local) lua_pushglobaltable(L);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    if (local)
        lua_rawset(L, 1);
    else
        lua_settable(L, -3);
    return 0;
}

/* __here.name = value; upvalue 2 is the environment. */
static int
declare(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_isnil(L, 3))
        lua_pushboolean(L, true);
    else
        lua_pushnil(L);
    lua_rawset(L, lua_upvalueindex(1));
    lua_rawset(L, lua_upvalueindex(2)); /* name, value */
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
    lua_pushcclosure(L, read_name, 1);
    lua_setfield(L, -3, "__index");
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, write_name, 1);
    lua_setfield(L, -3, "__newindex");
    lua_newtable(L); /* __here */
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
