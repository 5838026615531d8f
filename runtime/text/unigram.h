/* unigram.h - Unigram model: the most probable division of a text into tokens (Kudo 2018). The owner is the
 * tokenizer; one thread. */
#ifndef RILLE_RUNTIME_TEXT_UNIGRAM_H
#define RILLE_RUNTIME_TEXT_UNIGRAM_H

#include "runtime/text/bpe.h"

struct unigram {
    struct trie pieces;
    double *score; /* log probability, by id */
    uint32_t nscore;
    double least, most; /* range of the scores of normal pieces */
    uint32_t unknown;   /* token of characters that no piece has; NO_TOKEN: an error */
    bool fallback;      /* a text of unknown characters becomes the tokens of its bytes, bpe.byte */
    bool narrow;        /* sums are f32, as in SentencePiece; else f64 */
    bool lookup;        /* a text of unknown characters that equals a token is that token (tokenizers) */
};

void unigram_free(struct unigram **u);
/* Adds a piece. normal: its score counts for `least` and `most`. */
void unigram_add(struct unigram *u, uint32_t id, const void *text, size_t n, double score, bool normal);

/* Appends the tokens of a piece. E_VALUE: a character is unknown, and the model has no token for it. E_CANCEL. */
int unigram_encode(const struct unigram *u, const struct bpe *vocabulary, const uint8_t *piece, size_t n,
                   struct ids *out);

#endif
