/* hash.h - hashes of bytes and numbers, and a hash table.
 *
 * A table stores pointers to items owned by others, by hash; a lookup compares the items with equal hash. A table
 * belongs to one thread. hash_number and digests are the same in every process.
 *
 * runtime/text/ has its own tables, with the keys in the slots, because there a byte of text takes nanoseconds. */
#ifndef RILLE_RUNTIME_HASH_H
#define RILLE_RUNTIME_HASH_H

#include "runtime/base/arena.h"

/* Continues the hash h of the preceding bytes; h 0: starts a hash. */
uint64_t hash_bytes(uint64_t h, const void *p, size_t n);
static inline uint64_t
hash_number(uint64_t h, uint64_t w)
{
    h = (h ^ w) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

/* Hashes an address. */
static inline uint64_t
hash_address(const void *p)
{
    return hash_number(0, (uintptr_t)p);
}

struct hash_slot {
    uint64_t hash;
    void *item; /* NULL: empty */
};
struct hash_table {      /* all 0: empty */
    struct arena *arena; /* owner of the slots; NULL: the heap, until hash_free */
    struct hash_slot *slot;
    int32_t n, capacity; /* a power of two, at least twice n */
};

/* Returns the next item with this hash; NULL after the last. *at must be 0 before the first call. */
void *hash_next(const struct hash_table *t, uint64_t hash, uint32_t *at);
void hash_add(struct hash_table *t, uint64_t hash, void *item); /* not NULL */
void hash_remove(struct hash_table *t, uint64_t hash, const void *item);
void hash_free(struct hash_table *t);
/* Interns an array: returns the address of the first copy with these bytes, which the table's arena owns. All items
 * of such a table must be created by hash_keep. */
const void *hash_keep(struct hash_table *t, const void *data, size_t bytes);

/* Convert an index to an item, and back. */
static inline void *
hash_index(int32_t i)
{
    return (void *)((intptr_t)i + 1);
}
static inline int32_t
hash_index_of(const void *item)
{
    return (int32_t)((intptr_t)item - 1);
}

/* A 128-bit digest of numbers in order; detects mistakes, not forgeries. */
struct digest {
    uint64_t a, b;
};
#define DIGEST_BEGIN ((struct digest){0x243f6a8885a308d3ull, 0x13198a2e03707344ull})
void digest_add(struct digest *d, uint64_t w);
void digest_bytes(struct digest *d, const void *p, size_t n);

#endif
