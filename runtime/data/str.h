/* str.h - a growable string. Initialise a string with {0}. Its text, if not NULL, always ends with a 0 byte. The
 * caller owns and frees the string; one thread at a time. */
#ifndef RILLE_RUNTIME_DATA_STR_H
#define RILLE_RUNTIME_DATA_STR_H

#include "runtime/base/base.h"

struct str {
    char *text; /* NULL: empty */
    size_t len, capacity;
};

void str_reserve(struct str *s, size_t n); /* allocates space for n more bytes and the final 0 byte */
void str_add(struct str *s, const char *text);
void str_addn(struct str *s, const void *bytes, size_t n);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_add_int(struct str *s, int64_t x); /* appends x in decimal; fast enough for millions of numbers */
/* appends untrusted text; replaces each byte that is not printable ASCII by an escape like \x1b */
void str_add_plain(struct str *s, const char *text);
/* appends spaces up to a column, counted from the last newline */
void str_pad(struct str *s, size_t column);
const char *str_text(const struct str *s); /* returns the text; never NULL */
void str_clear(struct str *s);             /* empties the string, and keeps its capacity */
void str_cut(struct str *s, size_t len);   /* truncates to len bytes, if longer */
void str_free(struct str *s);
/* Returns true if `text` ends with `end`. */
bool text_ends(const char *text, const char *end);

#endif
