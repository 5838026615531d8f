/* str.h - a string that grows. Starts as {0}; a 0 always ends text once it has any. The caller owns it and frees it;
 * one thread at a time. */
#ifndef RILLE_RUNTIME_STR_H
#define RILLE_RUNTIME_STR_H

#include "runtime/base.h"

struct str {
    char *text; /* NULL when empty */
    size_t len, capacity;
};

void str_add(struct str *s, const char *text);
void str_addn(struct str *s, const void *bytes, size_t n);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_add_int(struct str *s, int64_t x);          /* decimal; for texts of millions of numbers */
void str_add_plain(struct str *s, const char *text); /* of a stranger: what is not printable ASCII as \x1b */
void str_pad(struct str *s, size_t column);          /* spaces up to column, counted from the last newline */
const char *str_text(const struct str *s);           /* never NULL */
void str_clear(struct str *s);                       /* keeps its capacity */
void str_cut(struct str *s, size_t len);             /* to what is no longer than it is */
void str_free(struct str *s);
/* Are the last characters of text those of end? */
bool text_ends(const char *text, const char *end);

#endif
