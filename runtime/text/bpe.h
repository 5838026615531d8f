/* bpe.h - byte-level byte-pair encoding: a vocabulary of byte strings, and ranked merges of neighbours.
 *
 * Every byte is a token. A piece of text begins as its bytes; the encoder repeatedly merges the pair of lowest rank,
 * the leftmost of equals, until no pair can merge (Sennrich, Haddow & Birch 2016; on bytes as in GPT-2). A cache
 * holds the encodings of short pieces, so a vocabulary belongs to one thread. */
#ifndef RILLE_RUNTIME_TEXT_BPE_H
#define RILLE_RUNTIME_TEXT_BPE_H

#include "runtime/base/arena.h"

struct bpe_token {
    const uint8_t *bytes; /* NULL: no token has this id */
    uint32_t n;
};

struct ids { /* a growing list; free() releases `list` */
    uint32_t *list;
    size_t n, capacity;
};
void ids_add(struct ids *ids, uint32_t id);

struct pair; /* two tokens, the rank of their merge, and the merged token */
struct cached_piece;
struct bpe {
    struct bpe_token *token; /* by id */
    uint32_t ntoken, token_capacity;
    uint32_t ndistinct; /* number of ids in use */
    uint32_t byte[256]; /* token of each byte */
    bool whole_piece;   /* a piece that is a token is encoded as that token, without merges */
    uint32_t *slot;     /* hash table of tokens: id + 1 */
    struct pair *pair;  /* hash table */
    uint32_t slot_capacity, pair_capacity, npair;
    struct cached_piece *cache;
    struct arena arena; /* bytes of tokens */
};

#define NO_TOKEN UINT32_MAX

void bpe_init(struct bpe *b);
void bpe_fini(struct bpe *b);
/* Adds a token. known: encoding can produce the token (special tokens: false). Returns false if the id has other
 * bytes. */
bool bpe_add(struct bpe *b, uint32_t id, const void *bytes, size_t n, bool known);
uint32_t bpe_find(const struct bpe *b, const void *bytes, size_t n); /* NO_TOKEN: none */
/* Adds the merge of left and right into id. Lower ranks merge first; a pair added twice keeps its first rank. */
void bpe_join(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* Adds every split of a token into two tokens as a pair, with the token's id as rank (as in tiktoken). */
void bpe_join_by_id(struct bpe *b);
/* Checks that every byte is a token. E_ARG naming a byte without a token. */
int bpe_seal(struct bpe *b, const char *name);

/* Appends the tokens of a piece. */
void bpe_encode(struct bpe *b, const uint8_t *piece, size_t n, struct ids *out);

#endif
