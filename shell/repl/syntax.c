/* syntax.c - explains text that is not Lua: finds operators and words of Python and C, and names the Lua equivalent.
 * Only text that failed to load is checked, so valid Lua with a name like `from` causes no hint. */
#include "shell/repl/syntax.h"
#include "shell/bind/base/names.h"
#include "shell/repl/token.h"

#include <string.h>

enum { DEPTH = 64 };

/* Operators of other languages, of one token or of two adjacent tokens. */
static const struct {
    const char *first, *second, *here;
} signs[] = {
    {"@", NULL, "write x:matmul(y)"}, {"+", "=", "write x = x + 1"}, {"-", "=", "write x = x - 1"},
    {"*", "=", "write x = x * 2"},    {"/", "=", "write x = x / 2"}, {"*", "*", "write x ^ 2"},
    {"+", "+", "write x = x + 1"},    {"!", "=", "write x ~= y"},    {"!", NULL, "write not x"},
    {"&", "&", "write x and y"},      {"|", "|", "write x or y"},    {"?", NULL, "write c and x or y"},
};

/* First words of the lines of Python that end in a colon. */
static const struct {
    const char *word, *here;
} blocks[] = {
    {"if", "write if x then ... end"},       {"elif", "write elseif x then"},
    {"else", "write else ... end"},          {"for", "write for i = 0, n - 1 do ... end"},
    {"while", "write while x do ... end"},   {"def", "write function name(x) ... end"},
    {"class", "write a table of functions"}, {"try", "write pcall(f)"},
};

/* A position in the chunk: the token, its neighbours, and the innermost open bracket or block. */
struct spot {
    struct token before, now, next, line; /* line: the first token of the line */
    char in;                              /* first letter of the innermost open bracket or block keyword; 0: none */
};

static bool
ends_value(const struct token *t)
{
    return t->kind == T_NUMBER || t->kind == T_STRING || token_is(t, ")") || token_is(t, "]");
}

static bool
on_line_end(const struct token *t)
{
    const char *s = token_after(t);
    s += strspn(s, " \t\r");
    return !*s || *s == '\n';
}

static const char *
sign_at(const struct spot *p)
{
    bool touch = token_after(&p->now) == p->next.at;
    for (size_t k = 0; k < sizeof signs / sizeof *signs; k++)
        if (token_is(&p->now, signs[k].first) && (!signs[k].second || (touch && token_is(&p->next, signs[k].second))))
            return signs[k].here;
    return NULL;
}

static const char *
colon_at(const struct spot *p)
{
    struct token open = token_next(token_after(&p->next));
    bool method = p->next.kind == T_NAME && (token_is(&open, "(") || token_is(&open, "{") || open.kind == T_STRING);
    if (!token_is(&p->now, ":") || method) return NULL;
    if (p->in == '[' && p->next.kind != T_END) return "a range is x[{{0, 2}}], a whole axis {}";
    if (p->before.kind == T_STRING) return "write {name = value}";
    for (size_t k = 0; on_line_end(&p->now) && k < sizeof blocks / sizeof *blocks; k++)
        if (token_is(&p->line, blocks[k].word)) return blocks[k].here;
    return NULL;
}

/* Returns true at a single "=" that is not part of "==", "<=", ">=" or "~=". */
static bool
assigns(const struct spot *p)
{
    static const char *const compares[] = {"=", "<", ">", "~", NULL};
    bool joined = token_after(&p->before) == p->now.at && token_is_any(&p->before, compares);
    return token_is(&p->now, "=") && !joined && !(token_is(&p->next, "=") && token_after(&p->now) == p->next.at);
}

static const char *
bracket_at(const struct spot *p)
{
    static const char *const before_value[] = {"=", "(", "return", NULL};
    bool first = p->before.kind == T_END || token_is_any(&p->before, before_value);
    if (token_is(&p->now, "[") && first) return "write {1, 2}";
    if (token_is(&p->now, "#") && ends_value(&p->before)) return "a comment begins with --";
    if (assigns(p) && p->in == '(') return "write f{name = value}, or == to compare";
    return NULL;
}

/* Finds a word of Python before another name on the same line: "import torch", "x is None". */
static const char *
syntax_word_at(const struct spot *p)
{
    char name[16];
    const char *end = token_after(&p->now);
    if (p->now.kind != T_NAME || p->now.size >= sizeof name || p->next.kind != T_NAME) return NULL;
    if (token_is_keyword(&p->next) || memchr(end, '\n', (size_t)(p->next.at - end))) return NULL;
    memcpy(name, p->now.at, p->now.size);
    name[p->now.size] = '\0';
    return name_elsewhere("", name);
}

static const char *
spot_hint(const struct spot *p)
{
    const char *here = colon_at(p);
    if (!here) here = sign_at(p);
    if (!here) here = bracket_at(p);
    return here ? here : syntax_word_at(p);
}

static const char *
chunk_hint(const char *chunk)
{
    char open[DEPTH] = {0};
    int depth = 0;
    struct spot p = {.now = token_next(chunk), .before = {.at = chunk, .kind = T_END}};
    for (p.line = p.now; p.now.kind != T_END; p.before = p.now, p.now = p.next) {
        p.next = token_next(token_after(&p.now));
        p.in = depth > 0 ? open[depth - 1] : '\0';
        if (p.before.kind != T_END && memchr(p.before.at, '\n', (size_t)(p.now.at - p.before.at))) p.line = p.now;
        const char *here = spot_hint(&p);
        if (here) return here;
        int deeper = token_depth(&p.now);
        if (deeper > 0 && depth < DEPTH) open[depth++] = p.now.at[0];
        if (deeper < 0 && depth > 0) depth--;
    }
    return NULL;
}

bool
syntax_hint(lua_State *L, const char *chunk)
{
    const char *here = chunk_hint(chunk);
    if (!here) return false;
    lua_pushfstring(L, "%s; %s", lua_tostring(L, -1), here);
    lua_remove(L, -2);
    return true;
}
