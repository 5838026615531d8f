/* split.h - cuts text into pieces by patterns (PCRE2); tokens never cross pieces.
 *
 * Each step cuts the pieces of the previous step. The matches of a pattern are pieces, and so are the gaps between
 * matches; both may be empty. The step's manner decides what happens to each piece. Bytes that are not UTF-8 form a
 * piece of their own. One thread. */
#ifndef RILLE_RUNTIME_TEXT_SPLIT_H
#define RILLE_RUNTIME_TEXT_SPLIT_H

#include "runtime/base/base.h"
#include "runtime/text/pattern.h"

extern const char split_gpt2[], split_cl100k[];

/* Named as in tokenizer.json. */
enum split_manner { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
/* Returns the manner of a name: "MergedWithPrevious" -> SPLIT_PREVIOUS; -1: unknown. */
int split_manner(const char *name);

struct split_step {
    const char *pattern; /* NULL: cuts nothing */
    enum split_manner manner;
    enum dialect dialect; /* of the pattern */
    bool invert;          /* swap matches and gaps */
    bool space;           /* prepend a space to a piece that does not begin with a space */
};

struct splitter;
struct splitter *splitter_new(void);
void splitter_free(struct splitter **s);
/* Adds a step. E_ARG: the pattern does not compile, or there are too many steps. name: file name for messages. */
int splitter_add(struct splitter *s, const char *name, const struct split_step *step);

/* Returns the length of the valid UTF-8 prefix, bytes: no surrogates, no overlong forms (Unicode, table 3-7). */
size_t valid_utf8(const uint8_t *text, size_t n);

/* Calls `piece` for each piece, in order. E_STATE: a match exceeds the work or memory limits. E_CANCEL: the caller
 * stopped waiting (runtime/base/stop.h); checked between matches. */
int splitter_run(struct splitter *s, const uint8_t *text, size_t n,
                 void (*piece)(void *arg, const uint8_t *bytes, size_t n), void *arg);

#endif
