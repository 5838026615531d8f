/* token.h - the words that Lua reads a chunk as: those of the Lua 5.4 manual, section 3.1. The caller owns the text; no
 * state, any thread. */
#ifndef RILLE_SHELL_TOKEN_H
#define RILLE_SHELL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

struct token {
    const char *at;
    size_t size;
    enum { T_END, T_NAME, T_NUMBER, T_STRING, T_OTHER } kind;
};

/* The token that begins at s or behind the space and comments there; T_END at the end of the text. */
struct token token_next(const char *s);
const char *token_after(const struct token *t);
bool token_is(const struct token *t, const char *text);             /* false for a string */
bool token_is_any(const struct token *t, const char *const *words); /* a NULL-ended list */
bool token_is_keyword(const struct token *t);                       /* of Lua */
/* How much deeper the chunk is nested behind this token: 1 behind "do" and "(", -1 behind "end" and ")". */
int token_depth(const struct token *t);

#endif
