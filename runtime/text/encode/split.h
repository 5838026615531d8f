/* split.h - splits text into pieces by patterns (PCRE2), before the text is encoded; no token spans two pieces.
 *
 * Each step splits the pieces of the previous step. The matches of a pattern are pieces, and so are the gaps between
 * matches; both may be empty. The step's manner decides whether a piece is kept, removed or merged with a neighbour.
 * Bytes that are not valid UTF-8 form a separate piece. One thread. */
#ifndef RILLE_RUNTIME_TEXT_ENCODE_SPLIT_H
#define RILLE_RUNTIME_TEXT_ENCODE_SPLIT_H

#include "runtime/data/str.h"
#include "runtime/text/encode/pattern.h"

extern const char split_gpt2[];

/* The manner in which a step treats the matches of its pattern: keeps them as pieces, removes them, or merges them
 * with neighbours. In tokenizer.json the names are "Isolated", "MergedWithPrevious" and so on. */
enum split_manner { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS };
/* Returns the manner with this name: "MergedWithPrevious" -> SPLIT_PREVIOUS; -1: unknown. */
int split_manner(const char *name);

/* The pieces that get a prefix: none, only the piece at the start of the user's string, or all. */
enum split_prefix { SPLIT_NO_PREFIX, SPLIT_PREFIX_FIRST, SPLIT_PREFIX_ALWAYS };

struct split_step {
    const char *pattern; /* NULL: the step does not split */
    bool scripts;        /* true: without a pattern; matches are runs of characters of one script (class_script) */
    enum split_manner manner;
    enum dialect dialect; /* dialect of the pattern */
    bool invert;          /* true: matches are treated as gaps, and gaps as matches */
    /* Changes that the step makes to each piece before its pattern splits the piece: */
    const char *space; /* text that replaces each space; NULL: none */
    /* pieces that get a prefix, unless they begin with it. The prefix is `space`; NULL: a space */
    enum split_prefix prefix;
    bool spell; /* true: each byte becomes a visible character (alphabet.h) */
};

struct splitter;
struct splitter *splitter_new(void);
void splitter_free(struct splitter **s);
/* Adds a step. E_ARG: the pattern does not compile, or there are too many steps. name: file name for error texts. */
int splitter_add(struct splitter *s, const char *name, const struct split_step *step);

/* Returns the length in bytes of the longest valid UTF-8 prefix: without surrogates and overlong forms (Unicode,
 * table 3-7). */
size_t valid_utf8(const uint8_t *text, size_t n);

/* Appends the text, with each match of the first step replaced by `with`. Copies bytes that are not UTF-8. */
int splitter_replace(struct splitter *s, const uint8_t *text, size_t n, const char *with, struct str *out);

/* Calls `piece` for each piece, in order. head: number of bytes at the start of the text that belong to the first
 * character of the user's string. E_STATE: a match exceeds the work or memory limit. E_CANCEL: the call was
 * cancelled (runtime/base/stop.h; checked between matches). */
int splitter_run(struct splitter *s, const uint8_t *text, size_t n, size_t head,
                 void (*piece)(void *arg, const uint8_t *bytes, size_t n), void *arg);

#endif
