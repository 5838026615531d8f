/* bpe.h - byte-pair encoding: a vocabulary of byte strings, and ranked merges of neighbours.
 *
 * The encoder first splits a piece of text into its bytes, each of which is a token, or into its characters (struct
 * bpe_characters). It repeatedly merges the pair of
 * lowest rank (of equal ranks the leftmost), until no pair can merge (Sennrich, Haddow & Birch 2016; on bytes as in
 * GPT-2). A vocabulary contains a cache with the encodings of short pieces, so only one thread may use it. */
#ifndef RILLE_RUNTIME_TEXT_ENCODE_BPE_H
#define RILLE_RUNTIME_TEXT_ENCODE_BPE_H

#include "runtime/data/arena.h"
#include "runtime/text/encode/trie.h"

struct bpe_token {
    const uint8_t *bytes; /* bytes of the token; NULL: no token has this id */
    uint32_t n;
};

struct ids { /* growable list of ids; free() releases `list` */
    uint32_t *list;
    size_t n, capacity;
};
void ids_add(struct ids *ids, uint32_t id);

/* A vocabulary of characters. */
struct bpe_characters {
    /* true: a piece is first split into characters; false: into bytes, each of which is a token, and the fields
     * below are not used */
    bool on;
    bool fallback;    /* true: an unknown character is encoded as the tokens of its bytes, bpe.byte */
    bool fuse;        /* true: neighbouring unknown characters become one token */
    uint32_t unknown; /* token of unknown characters; NO_TOKEN: unknown characters are dropped */
    /* prefix in the text of a token for any character of a piece but the first; "": none */
    const char *first;
    const char *last;  /* suffix in the text of a token for the last character of a piece; "": none */
    struct trie whole; /* texts that never split or merge (SentencePiece's user-defined symbols) */
};

struct pair; /* a pair of tokens, the rank of its merge, and the merged token */
struct cached_piece;
struct bpe {
    struct bpe_token *token; /* tokens by id */
    uint32_t ntoken, token_capacity;
    uint32_t ndistinct; /* number of ids that have a token */
    uint32_t byte[256]; /* by byte value: the token of the byte; NO_TOKEN: none */
    struct bpe_characters characters;
    bool whole_piece;  /* true: a piece that equals a token is encoded as this token, without merges */
    bool joins_by_id;  /* true: bpe_join_by_id() made the merges */
    uint32_t *slot;    /* hash table of tokens; entries are id + 1 */
    struct pair *pair; /* hash table of pairs */
    uint32_t slot_capacity, pair_capacity, npair;
    struct cached_piece *cache;
    struct arena arena; /* memory of the tokens' bytes */
};

#define NO_TOKEN UINT32_MAX

void bpe_init(struct bpe *b);
void bpe_fini(struct bpe *b);
/* Adds a token. known: the encoder may return the token (false for special tokens). Returns false if the id has a
 * token with other bytes. */
bool bpe_add(struct bpe *b, uint32_t id, const void *bytes, size_t n, bool known);
/* returns the token with these bytes; NO_TOKEN: none */
uint32_t bpe_find(const struct bpe *b, const void *bytes, size_t n);
/* Adds the merge of left and right into token id. Lower ranks are merged first. A pair that is added twice keeps its
 * first rank. */
void bpe_join(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);
/* Adds merges for a vocabulary without a list of merges (tiktoken): every split of a token into two tokens is a
 * pair, whose rank is the token's id. */
void bpe_join_by_id(struct bpe *b);
/* Checks that every byte is a token. E_ARG: a byte is not a token; the text names the byte. */
int bpe_seal(struct bpe *b, const char *name);

/* Appends the tokens of a piece to `out`. */
void bpe_encode(struct bpe *b, const uint8_t *piece, size_t n, struct ids *out);

#endif
