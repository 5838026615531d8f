/* token.h - tokens of a Lua chunk (Lua 5.4 manual, section 3.1). The caller owns the text. The functions keep no
 * state; any thread may call them. */
#ifndef RILLE_SHELL_TOKEN_H
#define RILLE_SHELL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

struct token {
    const char *at;
    size_t size;
    enum { T_END, T_NAME, T_NUMBER, T_STRING, T_OTHER } kind;
};

/* Returns the first token at or after s, past space and comments; T_END at the end of the text. */
struct token token_next(const char *s);
const char *token_after(const struct token *t);
bool token_is(const struct token *t, const char *text);             /* returns false if the token is a string */
bool token_is_any(const struct token *t, const char *const *words); /* words: list that ends with NULL */
bool token_is_keyword(const struct token *t);                       /* true for a keyword of Lua */
/* Returns by how much this token changes the nesting depth: 1 for "do" and "(", -1 for "end" and ")". */
int token_depth(const struct token *t);

#endif
