/* split.h - splits text into pieces with patterns (PCRE2), before it is encoded; no token spans two pieces.
 *
 * Each step splits the pieces of the previous step. The matches of a pattern are pieces, and so are the gaps between
 * matches; both may be empty. The step's manner decides whether a piece is kept, removed or merged with a neighbour.
 * Bytes that are not valid UTF-8 form a separate piece. One thread. */
#ifndef RILLE_RUNTIME_TEXT_SPLIT_H
#define RILLE_RUNTIME_TEXT_SPLIT_H

#include "runtime/base/base.h"
#include "runtime/text/pattern.h"

extern const char split_gpt2[], split_cl100k[];

/* What happens to matches; the names are those in tokenizer.json. */
enum split_manner { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
/* Returns the manner with this name: "MergedWithPrevious" -> SPLIT_PREVIOUS; -1: unknown. */
int split_manner(const char *name);

struct split_step {
    const char *pattern; /* NULL: the step does not split */
    enum split_manner manner;
    enum dialect dialect; /* dialect of the pattern */
    bool invert;          /* exchange the roles of matches and gaps */
    bool space;           /* prepend a space to each piece that does not begin with one */
};

struct splitter;
struct splitter *splitter_new(void);
void splitter_free(struct splitter **s);
/* Adds a step. E_ARG: the pattern does not compile, or there are too many steps. name: file name for error texts. */
int splitter_add(struct splitter *s, const char *name, const struct split_step *step);

/* Returns the length in bytes of the longest valid UTF-8 prefix: without surrogates and overlong forms (Unicode,
 * table 3-7). */
size_t valid_utf8(const uint8_t *text, size_t n);

/* Calls `piece` for each piece, in order. E_STATE: a match exceeds the work or memory limit. E_CANCEL: the call was
 * cancelled (runtime/base/stop.h; checked between matches). */
int splitter_run(struct splitter *s, const uint8_t *text, size_t n,
                 void (*piece)(void *arg, const uint8_t *bytes, size_t n), void *arg);

#endif
