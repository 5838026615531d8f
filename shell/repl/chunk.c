/* chunk.c - compiles typed text as a Lua function: an expression, statements, or statements that end in an
 * expression.
 *
 * "a = f(2); a" is not valid Lua. So the text is compiled as "a = f(2); return a". The text is cut before a token
 * such that the text before the cut is a valid chunk, and the text after the cut an expression list; of several such
 * tokens, the last one is chosen. A cut before a name is safe, because a name continues an expression only after an
 * operator, and text that ends in an operator is no valid chunk. "(", "{", "-" and strings may continue an
 * expression, as in f (x), so a cut before these tokens is tried only after ";". */
#include "shell/repl/chunk.h"
#include "shell/repl/repl.h"
#include "shell/repl/syntax.h"
#include "shell/repl/local.h"
#include "shell/repl/token.h"

#include <ctype.h>
#include <string.h>

enum { CUTS = 64 }; /* maximum number of cuts that are tried: before the last tokens that can begin an expression */

/* ---- loading ---- */

static bool
ends_in_eof(const char *message)
{
    static const char mark[] = "near <eof>";
    size_t n = strlen(message), m = sizeof mark - 1;
    return n >= m && !strcmp(message + n - m, mark);
}

/* Replaces the text at the top of the stack by the function compiled from it. Appends a newline first, so that an
 * unclosed quote is reported as an error of its line. */
static int
load_top(lua_State *L, int env, const char *name)
{
    size_t size;
    lua_pushliteral(L, "\n");
    lua_concat(L, 2);
    const char *text = lua_tolstring(L, -1, &size);
    int code = luaL_loadbufferx(L, text, size, name, "t");
    lua_remove(L, -2);
    if (!code) {
        lua_pushvalue(L, env);
        lua_setupvalue(L, -2, 1);
    }
    return code;
}

/* Returns true if the text is a chunk (as_values: an expression list). */
static bool
is_chunk(lua_State *L, const char *text, size_t size, bool as_values)
{
    lua_pushstring(L, as_values ? "return " : "");
    lua_pushlstring(L, text, size);
    lua_pushliteral(L, "\n");
    lua_concat(L, 3);
    const char *all = lua_tolstring(L, -1, &size);
    bool good = luaL_loadbufferx(L, all, size, "=?", "t") == LUA_OK;
    lua_pop(L, 2);
    return good;
}

/* Returns true if this token can begin an expression directly after another expression. */
static bool
begins_value(const struct token *t, bool behind_semicolon)
{
    static const char *const not_first[] = {"and", "break", "do", "else",   "elseif", "end",  "for",   "goto",  "if",
                                            "in",  "local", "or", "repeat", "return", "then", "until", "while", NULL};
    static const char *const opens[] = {"(", "{", "-", NULL};
    if (t->kind == T_NAME) return !token_is_any(t, not_first);
    if (t->kind == T_NUMBER || token_is(t, "#")) return true;
    return behind_semicolon && (t->kind == T_STRING || token_is_any(t, opens));
}

/* Returns where the last expression of the chunk begins; NULL if the chunk does not end in an expression. */
static const char *
last_value(lua_State *L, const char *chunk)
{
    const char *cut[CUTS], *at = chunk;
    int n = 0, depth = 0;
    bool semicolon = false, returned = false;
    for (struct token t; (t = token_next(at)).kind != T_END; at = token_after(&t)) {
        if (depth == 0 && t.at != chunk && !returned && begins_value(&t, semicolon)) cut[n++ % CUTS] = t.at;
        depth += token_depth(&t);
        semicolon = token_is(&t, ";");
        returned = token_is(&t, "return");
    }
    for (int k = n - 1; k >= 0 && k >= n - CUTS; k--) {
        const char *c = cut[k % CUTS];
        if (is_chunk(L, c, strlen(c), true) && is_chunk(L, chunk, (size_t)(c - chunk), false)) return c;
    }
    return NULL;
}

/* Text inserted before an expression. While a to-be-closed variable is in scope, `return f(x)` is not a tail call,
 * so errors in f name the line of the call. */
#define RETURN "local __kept <close> = nil return "

/* Pushes the chunk. If the chunk ends in an expression, inserts "return" before that expression. */
static void
push_with_return(lua_State *L, const char *chunk)
{
    const char *cut = last_value(L, chunk);
    if (!cut) {
        lua_pushstring(L, chunk);
        return;
    }
    lua_pushlstring(L, chunk, (size_t)(cut - chunk));
    lua_pushliteral(L, " do " RETURN);
    lua_pushstring(L, cut);
    lua_pushliteral(L, "\nend");
    lua_concat(L, 4);
}

/* Compiles the text as an expression, then as a chunk. Sets *more if either parse reaches the end of the text too
 * early, because the user may complete the text: "{1," is an incomplete expression, although as a chunk it is
 * wrong. */
int
chunk_load(lua_State *L, int env, const char *chunk, const char *name, bool *more)
{
    lua_pushfstring(L, RETURN "%s", chunk);
    if (load_top(L, env, name) == LUA_OK) return LUA_OK;
    *more = ends_in_eof(lua_tostring(L, -1));
    lua_pop(L, 1);
    push_with_return(L, chunk);
    local_rewrite(L, lua_tostring(L, -1));
    lua_remove(L, -2);
    int code = load_top(L, env, name);
    if (!code) return code;
    *more = *more || ends_in_eof(lua_tostring(L, -1));
    if (syntax_hint(L, chunk)) *more = false;
    return code;
}

const char *
chunk_page(const char *chunk, size_t *n)
{
    static const char blanks[] = " \t\n", inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.:";
    const char *first = chunk + strspn(chunk, blanks), *name = first;
    bool before = *first == '?';
    if (before) name += 1 + strspn(first + 1, blanks);
    *n = before ? strlen(name) : strspn(name, inner);
    while (*n && strchr(blanks, name[*n - 1])) (*n)--;
    if (before) return name;
    bool behind = *n && name[*n] == '?' && !name[*n + 1 + strspn(name + *n + 1, blanks)];
    return behind ? name : NULL;
}

bool
chunk_is_marked(const char *chunk)
{
    const char *first = chunk + strspn(chunk, " \t\n");
    size_t n;
    return (first[0] == ':' && first[1] != ':') || chunk_page(chunk, &n);
}

bool
chunk_wants_more(lua_State *L, const char *chunk)
{
    bool more = false;
    if (chunk_is_marked(chunk)) return false;
    repl_push_environment(L);
    int code = chunk_load(L, lua_gettop(L), chunk, "=?", &more);
    lua_pop(L, 2);
    return code && more;
}

bool
chunk_is_silent(const char *chunk)
{
    size_t n = strlen(chunk);
    while (n && isspace((unsigned char)chunk[n - 1])) n--;
    return n && chunk[n - 1] == ';';
}

/* ---- transcripts ---- */

static const struct {
    const char *first, *next;
} prompts[] = {{PROMPT, PROMPT_MORE}, {">>> ", "... "}, {"> ", ">> "}};

/* Returns the text after the prompt with which the line begins; NULL: the line has no prompt. */
static const char *
text_behind(const char *line, const char *prompt)
{
    size_t n = strlen(prompt);
    while (n && prompt[n - 1] == ' ') n--; /* the space of the prompt may be missing on an empty line */
    if (strncmp(line, prompt, n)) return NULL;
    return line[n] == ' ' ? line + n + 1 : line[n] == '\n' || !line[n] ? line + n : NULL;
}

bool
chunk_is_transcript(const char *text)
{
    for (size_t k = 0; k < sizeof prompts / sizeof *prompts; k++)
        if (text_behind(text, prompts[k].first)) return true;
    return false;
}

/* Pushes a list of the chunks in a transcript. Output lines, which have no prompt, are left out. */
void
chunk_push_transcript(lua_State *L, const char *text)
{
    luaL_Buffer b;
    size_t k = 0;
    int n = 0;
    while (!text_behind(text, prompts[k].first)) k++;
    lua_newtable(L);
    int list = lua_gettop(L);
    while (*text) {
        const char *begin = text_behind(text, prompts[k].first);
        if (!begin) {
            text += strcspn(text, "\n");
            text += *text == '\n';
            continue;
        }
        luaL_buffinit(L, &b);
        do {
            size_t size = strcspn(begin, "\n");
            luaL_addlstring(&b, begin, size);
            luaL_addchar(&b, '\n');
            text = begin + size + (begin[size] == '\n');
        } while (*text && (begin = text_behind(text, prompts[k].next)));
        luaL_pushresult(&b);
        lua_rawseti(L, list, ++n);
    }
}
