/* bpe.c - byte-level byte-pair encoding: hash tables of tokens and pairs, merging of neighbours, and the cache of
 * short pieces. */
#include "runtime/text/encode/bpe.h"

#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/data/str.h"
#include "runtime/text/characters/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void
ids_add(struct ids *ids, uint32_t id)
{
    GROW(ids->list, ids->n + 1, ids->capacity);
    ids->list[ids->n++] = id;
}

/* ---- adding and finding tokens ---- */

struct pair {
    /* left and right token, rank of the merge, merged token; id NO_TOKEN: the slot is free */
    uint32_t left, right, rank, id;
};

/* A cache entry of 64 bytes: a piece of at most PIECE bytes and its encoding in at most NID tokens. The piece's hash
 * selects the slot. */
enum { PIECE = 26, NID = 9, CACHE = 1 << 15 };
struct cached_piece {
    uint8_t n, nid; /* n: length of the piece, bytes; 0: the slot is free; nid: number of tokens */
    uint8_t bytes[PIECE];
    uint32_t id[NID];
};
_Static_assert(sizeof(struct cached_piece) == 64, "a slot must fill a cache line");

void
bpe_init(struct bpe *b)
{
    *b = (struct bpe){0};
    for (int i = 0; i < 256; i++) b->byte[i] = NO_TOKEN;
}

void
bpe_fini(struct bpe *b)
{
    free(b->token);
    free(b->slot);
    free(b->pair);
    free(b->cache);
    trie_free(&b->characters.whole);
    arena_fini(&b->arena);
}

static uint64_t
token_hash(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

static void
put_slot(struct bpe *b, uint32_t id)
{
    uint32_t i = (uint32_t)token_hash(b->token[id].bytes, b->token[id].n) & (b->slot_capacity - 1);
    while (b->slot[i]) i = (i + 1) & (b->slot_capacity - 1);
    b->slot[i] = id + 1;
}

/* Enlarges the table so that at least half of the slots are free. */
static void
grow_slots(struct bpe *b)
{
    if (2 * (b->ndistinct + 1) <= b->slot_capacity) return;
    uint32_t *old = b->slot, capacity = b->slot_capacity;
    b->slot_capacity = MAX(1024u, 2 * capacity);
    b->slot = must_alloc(sizeof *b->slot * b->slot_capacity);
    for (uint32_t i = 0; i < capacity; i++)
        if (old[i]) put_slot(b, old[i] - 1);
    free(old);
}

bool
bpe_add(struct bpe *b, uint32_t id, const void *bytes, size_t n, bool known)
{
    uint32_t was = b->token_capacity;
    GROW(b->token, id + 1, b->token_capacity);
    memset(b->token + was, 0, sizeof *b->token * (b->token_capacity - was));
    struct bpe_token *t = &b->token[id];
    if (t->bytes) return t->n == n && !memcmp(t->bytes, bytes, n);
    uint8_t *own = arena_alloc(&b->arena, n + 1);
    memcpy(own, bytes, n);
    *t = (struct bpe_token){own, (uint32_t)n};
    b->ntoken = MAX(b->ntoken, id + 1);
    grow_slots(b);
    b->ndistinct++;
    if (known) put_slot(b, id);
    if (known && n == 1 && !b->characters.on) b->byte[own[0]] = id;
    return true;
}

uint32_t
bpe_find(const struct bpe *b, const void *bytes, size_t n)
{
    if (!b->slot_capacity) return NO_TOKEN;
    for (uint32_t i = (uint32_t)token_hash(bytes, n) & (b->slot_capacity - 1); b->slot[i];
         i = (i + 1) & (b->slot_capacity - 1)) {
        const struct bpe_token *t = &b->token[b->slot[i] - 1];
        if (t->n == n && !memcmp(t->bytes, bytes, n)) return b->slot[i] - 1;
    }
    return NO_TOKEN;
}

int
bpe_seal(struct bpe *b, const char *name)
{
    for (int i = 0; i < 256 && !b->characters.on; i++)
        if (b->byte[i] == NO_TOKEN) return fail(E_ARG, "%s: the vocabulary has no token for byte %d", name, i);
    return 0;
}

/* ---- adding and finding pairs ---- */

static uint32_t
pair_slot(const struct bpe *b, uint32_t left, uint32_t right)
{
    uint64_t key = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t i = (uint32_t)(key >> 32) & (b->pair_capacity - 1);
    while (b->pair[i].id != NO_TOKEN && (b->pair[i].left != left || b->pair[i].right != right))
        i = (i + 1) & (b->pair_capacity - 1);
    return i;
}

static void
grow_pairs(struct bpe *b)
{
    if (2 * (b->npair + 1) <= b->pair_capacity) return;
    struct pair *old = b->pair;
    uint32_t capacity = b->pair_capacity;
    b->pair_capacity = MAX(1024u, 2 * capacity);
    b->pair = must_alloc(sizeof *b->pair * b->pair_capacity);
    for (uint32_t i = 0; i < b->pair_capacity; i++) b->pair[i].id = NO_TOKEN;
    for (uint32_t i = 0; i < capacity; i++)
        if (old[i].id != NO_TOKEN) b->pair[pair_slot(b, old[i].left, old[i].right)] = old[i];
    free(old);
}

void
bpe_join(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    grow_pairs(b);
    struct pair *p = &b->pair[pair_slot(b, left, right)];
    if (p->id != NO_TOKEN) return;
    *p = (struct pair){left, right, rank, id};
    b->npair++;
}

void
bpe_join_by_id(struct bpe *b)
{
    b->joins_by_id = true;
    for (uint32_t id = 0; id < b->ntoken; id++) {
        const struct bpe_token *t = &b->token[id];
        if (t->n < 2 || bpe_find(b, t->bytes, t->n) != id) continue;
        for (uint32_t k = 1; k < t->n; k++) {
            uint32_t left = bpe_find(b, t->bytes, k), right = bpe_find(b, t->bytes + k, t->n - k);
            if (left != NO_TOKEN && right != NO_TOKEN) bpe_join(b, left, right, id, id);
        }
    }
}

static const struct pair *
find_pair(const struct bpe *b, uint32_t left, uint32_t right)
{
    if (!b->pair_capacity) return NULL;
    const struct pair *p = &b->pair[pair_slot(b, left, right)];
    return p->id == NO_TOKEN ? NULL : p;
}

/* ---- merging the tokens of a piece ---- */

/* A token of the piece that is being encoded, in a linked list of neighbours. */
struct part {
    /* id: the token; rank, becomes: rank of the merge with the right neighbour, and the merged token; rank
     * NO_TOKEN: the two tokens cannot merge */
    uint32_t id, rank, becomes;
    int32_t left, right; /* indices of the neighbours; -1: none */
};

static void
price_merge(const struct bpe *b, struct part *part, int32_t i)
{
    const struct pair *p = part[i].right < 0 ? NULL : find_pair(b, part[i].id, part[part[i].right].id);
    part[i].rank = p ? p->rank : UINT32_MAX;
    part[i].becomes = p ? p->id : NO_TOKEN;
}

static void
begin_parts(const struct bpe *b, const uint32_t *first, int32_t n, struct part *part)
{
    for (int32_t i = 0; i < n; i++) part[i] = (struct part){first[i], 0, 0, i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i < n; i++) price_merge(b, part, i);
}

static void
join_part(const struct bpe *b, struct part *part, int32_t i)
{
    int32_t gone = part[i].right;
    part[i].id = part[i].becomes;
    part[i].right = part[gone].right;
    part[gone].id = NO_TOKEN;
    if (part[i].right >= 0) part[part[i].right].left = i;
    price_merge(b, part, i);
    if (part[i].left >= 0) price_merge(b, part, part[i].left);
}

/* Encodes a short piece: searches for the pair of lowest rank before each merge. */
static void
join_few(const struct bpe *b, struct part *part)
{
    for (;;) {
        int32_t best = -1;
        uint32_t rank = UINT32_MAX;
        for (int32_t i = 0; i >= 0; i = part[i].right)
            if (part[i].rank < rank) rank = part[best = i].rank;
        if (best < 0) return;
        join_part(b, part, best);
    }
}

/* A candidate merge. A long piece is encoded with a heap of candidates, ordered by rank and position. A candidate
 * is stale, and is skipped, if one of its tokens has since been merged. */
struct candidate {
    uint32_t rank;
    int32_t at;
};

static bool
candidate_before(struct candidate a, struct candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void
heap_push(struct candidate *heap, size_t *n, struct candidate c)
{
    size_t i = (*n)++;
    for (; i && candidate_before(c, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

static struct candidate
heap_pop(struct candidate *heap, size_t *n)
{
    struct candidate top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < *n; i = k) {
        if (k + 1 < *n && candidate_before(heap[k + 1], heap[k])) k++;
        if (!candidate_before(heap[k], last)) break;
        heap[i] = heap[k];
    }
    heap[i] = last;
    return top;
}

enum { JOIN = 16 }; /* work of one merge, counted in bytes of text */

/* Merges until no pair can merge, or until the call is cancelled. After a cancellation, tokenizer_encode() returns
 * the error. */
static void
join_many(const struct bpe *b, struct part *part, int32_t n)
{
    /* each merge adds at most two candidates */
    struct candidate *heap = must_realloc(NULL, sizeof *heap * 3 * (size_t)n);
    size_t nheap = 0;
    for (int32_t i = 0; i < n; i++)
        if (part[i].becomes != NO_TOKEN) heap_push(heap, &nheap, (struct candidate){part[i].rank, i});
    for (int64_t since = 0; nheap && !stop_caller_after(&since, JOIN);) {
        struct candidate c = heap_pop(heap, &nheap);
        if (part[c.at].id == NO_TOKEN || part[c.at].becomes == NO_TOKEN || part[c.at].rank != c.rank) continue;
        join_part(b, part, c.at);
        int32_t left = part[c.at].left;
        if (part[c.at].becomes != NO_TOKEN) heap_push(heap, &nheap, (struct candidate){part[c.at].rank, c.at});
        if (left >= 0 && part[left].becomes != NO_TOKEN)
            heap_push(heap, &nheap, (struct candidate){part[left].rank, left});
    }
    free(heap);
}

/* ---- splitting a piece into its first tokens ---- */

/* Adds the tokens of all bytes. Returns false, and adds nothing, if a byte has no token. */
static bool
add_bytes(const struct bpe *b, const uint8_t *text, size_t n, struct ids *out)
{
    for (size_t i = 0; i < n; i++)
        if (b->byte[text[i]] == NO_TOKEN) return false;
    for (size_t i = 0; i < n; i++) ids_add(out, b->byte[text[i]]);
    return true;
}

/* Adds the token of one character, with the prefix and suffix of the vocabulary. *unknown: true if the token for
 * unknown characters must still be added. */
static void
add_character(const struct bpe *b, const uint8_t *text, size_t n, bool *unknown, struct ids *out)
{
    const struct bpe_characters *c = &b->characters;
    uint32_t id = bpe_find(b, text, n);
    if (id == NO_TOKEN && c->fallback && add_bytes(b, text, n, out)) return;
    if (id == NO_TOKEN && c->unknown == NO_TOKEN) return;
    if (*unknown && (id != NO_TOKEN || !c->fuse)) ids_add(out, c->unknown);
    *unknown = id == NO_TOKEN;
    if (id != NO_TOKEN) ids_add(out, id);
}

static void
add_characters(const struct bpe *b, const uint8_t *piece, size_t n, struct ids *out)
{
    const struct bpe_characters *c = &b->characters;
    struct str text = {0};
    bool unknown = false;
    for (size_t at = 0, k; at < n; at += k) {
        int32_t code;
        k = trie_longest(&c->whole, piece + at, n - at);
        if (!k) k = utf8_next(piece + at, n - at, &code);
        str_clear(&text);
        if (at) str_add(&text, c->first);
        str_addn(&text, piece + at, k);
        if (at + k == n) str_add(&text, c->last);
        add_character(b, (const uint8_t *)text.text, text.len, &unknown, out);
    }
    if (unknown) ids_add(out, c->unknown);
    str_free(&text);
}

enum { FEW = 64 };

static void
merge_parts(const struct bpe *b, const uint32_t *first, int32_t n, struct ids *out)
{
    struct part few[FEW], *part = n > FEW ? must_realloc(NULL, sizeof *part * (size_t)n) : few;
    begin_parts(b, first, n, part);
    if (n > FEW)
        join_many(b, part, n);
    else if (n)
        join_few(b, part);
    for (int32_t i = n ? 0 : -1; i >= 0; i = part[i].right) ids_add(out, part[i].id);
    if (part != few) free(part);
}

static void
encode_word_piece(const struct bpe *b, const uint8_t *piece, size_t n, struct ids *out)
{
    struct ids first = {0};
    uint32_t id = b->whole_piece ? bpe_find(b, piece, n) : NO_TOKEN;
    if (id != NO_TOKEN) {
        ids_add(out, id);
        return;
    }
    if (b->characters.on)
        add_characters(b, piece, n, &first);
    else
        add_bytes(b, piece, n, &first);
    merge_parts(b, first.list, (int32_t)first.n, out);
    free(first.list);
}

void
bpe_encode(struct bpe *b, const uint8_t *piece, size_t n, struct ids *out)
{
    size_t first = out->n;
    if (n == 0) return;
    if (n > PIECE) {
        encode_word_piece(b, piece, n, out);
        return;
    }
    if (!b->cache) b->cache = must_alloc(sizeof *b->cache * CACHE);
    struct cached_piece *c = &b->cache[token_hash(piece, n) & (CACHE - 1)];
    if (c->n == n && !memcmp(c->bytes, piece, n)) {
        for (int i = 0; i < c->nid; i++) ids_add(out, c->id[i]);
        return;
    }
    encode_word_piece(b, piece, n, out);
    if (out->n - first > NID) return;
    c->n = (uint8_t)n;
    c->nid = (uint8_t)(out->n - first);
    memcpy(c->bytes, piece, n);
    if (c->nid) memcpy(c->id, out->list + first, sizeof *c->id * c->nid);
}
