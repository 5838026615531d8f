/* split.h - patterns cut text into pieces; tokens join within each alone. The library is PCRE2.
 *
 * Steps cut one after the other, each the pieces of the one before it. What a
 * pattern matches is a piece, and so is what lies between two matches, of which
 * each may be of nothing; the step's manner says what becomes of them. Bytes that
 * are no UTF-8 are a piece by themselves. One thread. */
#ifndef RILLE_RUNTIME_TEXT_SPLIT_H
#define RILLE_RUNTIME_TEXT_SPLIT_H

#include "runtime/base.h"
#include "runtime/text/pattern.h"

extern const char split_gpt2[], split_cl100k[];

/* Names are those of tokenizer.json. */
enum split_manner { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
/* "MergedWithPrevious" -> SPLIT_PREVIOUS; -1: no manner has this name. */
int split_manner(const char *name);

struct split_step {
    const char *pattern; /* NULL: it cuts nothing */
    enum split_manner manner;
    enum dialect dialect; /* of the pattern */
    bool invert;          /* what lies between matches counts as a match */
    bool space;           /* a piece that does not begin with a space gets one, as if a word came before */
};

struct splitter;
struct splitter *splitter_new(void);
void splitter_free(struct splitter **s);
/* E_ARG: the pattern does not compile, or is one too many. name: of the file, for messages. */
int splitter_add(struct splitter *s, const char *name, const struct split_step *step);

/* How many bytes of valid UTF-8 the text begins with: no surrogates, nothing overlong (Unicode, table 3-7). */
size_t valid_utf8(const uint8_t *text, size_t n);

/* Calls piece for each, in order. E_STATE when a match takes more work or memory than the limits allow, E_CANCEL when
 * the caller is not waiting any more (runtime/stop.h), between two matches. */
int splitter_run(struct splitter *s, const uint8_t *text, size_t n,
                 void (*piece)(void *arg, const uint8_t *bytes, size_t n), void *arg);

#endif
