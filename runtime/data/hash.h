/* hash.h - hashes of bytes and numbers, and a hash table.
 *
 * A table maps hashes to pointers; it does not own the items. The caller of a lookup compares the items with equal
 * hash. A table belongs to one thread. hash_number and digests are the same in every process.
 *
 * runtime/text/ has its own tables, which store keys in the slots, because tokenizers spend only nanoseconds per
 * byte of text. */
#ifndef RILLE_RUNTIME_DATA_HASH_H
#define RILLE_RUNTIME_DATA_HASH_H

#include "runtime/data/arena.h"

/* Hashes n bytes, and continues the hash h of the preceding bytes. h 0: no preceding bytes. */
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
    void *item; /* NULL: the slot is empty */
};
struct hash_table {      /* a table with all fields 0 is empty */
    struct arena *arena; /* arena that owns the slots; NULL: the heap owns them until hash_free() */
    struct hash_slot *slot;
    int32_t n, capacity; /* n: number of items; capacity: number of slots, a power of two, at least 2 n */
};

/* Returns the next item with this hash; NULL: no more. *at must be 0 before the first call. */
void *hash_next(const struct hash_table *t, uint64_t hash, uint32_t *at);
void hash_add(struct hash_table *t, uint64_t hash, void *item); /* item must not be NULL */
void hash_remove(struct hash_table *t, uint64_t hash, const void *item);
void hash_free(struct hash_table *t);
/* Interns an array: returns the address of the table's copy of these bytes, which the first call with equal bytes
 * makes in the table's arena. Only hash_keep may add items to such a table. */
const void *hash_keep(struct hash_table *t, const void *data, size_t bytes);

/* Convert an index to an item pointer, and back. */
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

/* A 128-bit digest of a sequence of numbers. A digest detects accidental differences, but not forgeries. */
struct digest {
    uint64_t a, b;
};
#define DIGEST_BEGIN ((struct digest){0x243f6a8885a308d3ull, 0x13198a2e03707344ull})
void digest_add(struct digest *d, uint64_t w);
void digest_bytes(struct digest *d, const void *p, size_t n);

#endif
