/* token.c - splits Lua text into tokens; the text may be an incomplete chunk. */
#include "shell/repl/token.h"

#include <ctype.h>
#include <string.h>

/* Returns the end of the long bracket, such as [==[ ... ]==], that begins at s; NULL: not a long bracket. */
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

struct token
token_next(const char *s)
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

const char *
token_after(const struct token *t)
{
    return t->at + t->size;
}

bool
token_is(const struct token *t, const char *text)
{
    return t->size == strlen(text) && !strncmp(t->at, text, t->size) && t->kind != T_STRING;
}

bool
token_is_any(const struct token *t, const char *const *words)
{
    while (*words && !token_is(t, *words)) words++;
    return *words != NULL;
}

bool
token_is_keyword(const struct token *t)
{
    static const char *const words[] = {"and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
                                        "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
                                        "repeat",   "return", "then", "true", "until",  "while", NULL};
    return token_is_any(t, words);
}

int
token_depth(const struct token *t)
{
    static const char *const open[] = {"function", "do", "if", "repeat", "(", "{", "[", NULL};
    static const char *const close[] = {"end", "until", ")", "}", "]", NULL};
    return token_is_any(t, open) ? 1 : token_is_any(t, close) ? -1 : 0;
}
