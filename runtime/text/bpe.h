/* bpe.h - byte-level byte-pair encoding: a vocabulary of byte strings and which neighbours become one.
 *
 * Every byte is a token. A piece of text begins as its bytes; again and again the encoder joins the neighbours of least
 * rank, the first of equals, until it can join none (Sennrich, Haddow & Birch 2016; on bytes as in GPT-2). A cache
 * keeps what short pieces became, so a vocabulary belongs to one thread. */
#ifndef RILLE_RUNTIME_TEXT_BPE_H
#define RILLE_RUNTIME_TEXT_BPE_H

#include "runtime/arena.h"

struct bpe_token {
    const uint8_t *bytes; /* NULL: no token has this id */
    uint32_t n;
};

struct ids { /* that grow; free() gives list back */
    uint32_t *list;
    size_t n, capacity;
};
void ids_add(struct ids *ids, uint32_t id);

struct pair; /* two tokens, their rank and what they become */
struct cached_piece;
struct bpe {
    struct bpe_token *token; /* by id */
    uint32_t ntoken, token_capacity;
    uint32_t ndistinct; /* ids that tokens have */
    uint32_t byte[256]; /* the token of a byte */
    bool whole_piece;   /* a piece that is a token is that token, whatever pairs say */
    uint32_t *slot;     /* hash table of tokens: id + 1 */
    struct pair *pair;  /* hash table */
    uint32_t slot_capacity, pair_capacity, npair;
    struct cached_piece *cache;
    struct arena arena; /* bytes of tokens */
};

#define NO_TOKEN UINT32_MAX

void bpe_init(struct bpe *b);
void bpe_fini(struct bpe *b);
/* Adds a token; known: encoding text may give it (special ones it does not). false: other bytes have the id. */
bool bpe_add(struct bpe *b, uint32_t id, const void *bytes, size_t n, bool known);
uint32_t bpe_find(const struct bpe *b, const void *bytes, size_t n); /* NO_TOKEN */
/* Lets left and right become id. Pairs of lower rank come first; the first rank of a pair stays. */
void bpe_join(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* Makes every way to cut a token into two a pair, of the rank of the token's id (as tiktoken has it). */
void bpe_join_by_id(struct bpe *b);
/* E_ARG naming a byte that is no token. */
int bpe_seal(struct bpe *b, const char *name);

/* Appends the tokens of a piece. */
void bpe_encode(struct bpe *b, const uint8_t *piece, size_t n, struct ids *out);

#endif
