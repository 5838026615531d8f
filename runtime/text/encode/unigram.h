/* unigram.h - Unigram model: the most probable division of a text into tokens (Kudo 2018). The owner is the
 * tokenizer; one thread. */
#ifndef RILLE_RUNTIME_TEXT_ENCODE_UNIGRAM_H
#define RILLE_RUNTIME_TEXT_ENCODE_UNIGRAM_H

#include "runtime/text/encode/bpe.h"

struct unigram {
    struct trie pieces;
    double *score; /* log probability, by id */
    uint32_t nscore;
    double least, most; /* lowest and highest score of normal pieces */
    uint32_t unknown;   /* token of a character that is in no piece; NO_TOKEN: such a character is an error */
    bool fallback;      /* true: unknown characters are encoded as the tokens of their bytes, bpe.byte */
    bool narrow;        /* true: sums of scores are f32, as in SentencePiece; false: f64 */
    /* true: unknown characters whose text equals a token are encoded as this token, as Hugging Face's tokenizers
     * do */
    bool lookup;
};

void unigram_free(struct unigram **u);
/* Adds a piece. normal: the score is included in `least` and `most`. */
void unigram_add(struct unigram *u, uint32_t id, const void *text, size_t n, double score, bool normal);

/* Appends the tokens of a piece. E_VALUE: a character is unknown, and the model has no token for it. E_CANCEL. */
int unigram_encode(const struct unigram *u, const struct bpe *vocabulary, const uint8_t *piece, size_t n,
                   struct ids *out);

#endif
