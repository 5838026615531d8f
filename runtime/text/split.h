/* split.h - text cut into pieces by a pattern, before tokens are joined within each. The library is PCRE2.
 *
 * What the pattern matches is a piece, and so is what lies between two matches.
 * Bytes that are no UTF-8 are a piece by themselves. White space is what Unicode
 * calls so. Several patterns cut one after the other. One thread. */
#ifndef RILLE_RUNTIME_TEXT_SPLIT_H
#define RILLE_RUNTIME_TEXT_SPLIT_H

#include "runtime/base.h"

extern const char split_gpt2[], split_cl100k[];

struct splitter;
struct splitter *splitter_new(void);
void splitter_free(struct splitter **s);
/* E_ARG: the pattern does not compile, or is one too many. name: of the file, for messages. */
int splitter_add(struct splitter *s, const char *name, const char *pattern);

/* Calls piece for each, in order. E_STATE when a match takes more work or memory than is allowed. */
int splitter_run(struct splitter *s, const uint8_t *text, size_t n,
                 void (*piece)(void *arg, const uint8_t *bytes, size_t n), void *arg);

#endif
