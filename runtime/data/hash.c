/* hash.c - a table with open addressing, never more than half full. */
#include "runtime/data/hash.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FIRST = 64 };

uint64_t
hash_bytes(uint64_t h, const void *p, size_t n)
{
    return XXH3_64bits_withSeed(p, n, h);
}

/* ---- adding and finding items of a table ---- */

static struct hash_slot *
hash_slot_at(const struct hash_table *t, uint64_t i)
{
    return &t->slot[i & (uint64_t)(t->capacity - 1)];
}

void *
hash_next(const struct hash_table *t, uint64_t hash, uint32_t *at)
{
    if (!t->capacity) return NULL;
    for (const struct hash_slot *s; (s = hash_slot_at(t, hash + *at))->item;) {
        ++*at;
        if (s->hash == hash) return s->item;
    }
    return NULL;
}

static void
insert_slot(struct hash_table *t, struct hash_slot s)
{
    uint64_t i = s.hash;
    while (hash_slot_at(t, i)->item) i++;
    *hash_slot_at(t, i) = s;
}

void
hash_add(struct hash_table *t, uint64_t hash, void *item)
{
    assert(item);
    if (2 * (t->n + 1) > t->capacity) {
        struct hash_table was = *t;
        t->capacity = MAX(FIRST, 2 * was.capacity);
        size_t bytes = sizeof *t->slot * (size_t)t->capacity;
        t->slot = t->arena ? arena_alloc(t->arena, bytes) : must_alloc(bytes);
        for (int32_t i = 0; i < was.capacity; i++)
            if (was.slot[i].item) insert_slot(t, was.slot[i]);
        if (!t->arena) free(was.slot);
    }
    insert_slot(t, (struct hash_slot){hash, item});
    t->n++;
}

/* Removes an entry, and reinserts the entries after it, up to the next empty slot. Without this, a search for one
 * of these entries would end at the slot that became empty. */
void
hash_remove(struct hash_table *t, uint64_t hash, const void *item)
{
    uint64_t i = hash;
    while (hash_slot_at(t, i)->item != item) i++;
    hash_slot_at(t, i)->item = NULL;
    t->n--;
    for (i++; hash_slot_at(t, i)->item; i++) {
        struct hash_slot s = *hash_slot_at(t, i);
        hash_slot_at(t, i)->item = NULL;
        insert_slot(t, s);
    }
}

void
hash_free(struct hash_table *t)
{
    if (!t->arena) free(t->slot);
    *t = (struct hash_table){0};
}

struct kept {
    size_t bytes;
    const void *data;
};

const void *
hash_keep(struct hash_table *t, const void *data, size_t bytes)
{
    uint64_t hash = hash_bytes(0, data, bytes);
    uint32_t at = 0;
    struct kept *k;
    while ((k = hash_next(t, hash, &at)))
        if (k->bytes == bytes && !memcmp(k->data, data, bytes)) return k->data;
    k = ARENA_NEW(t->arena, struct kept);
    *k = (struct kept){bytes, arena_dup(t->arena, data, bytes)};
    hash_add(t, hash, k);
    return k->data;
}

/* ---- computing digests ---- */

void
digest_add(struct digest *d, uint64_t w)
{
    d->a = hash_number(d->a, w);
    d->b = hash_number(d->b + 0x9e3779b97f4a7c15ull, d->a ^ w << 1);
}

void
digest_bytes(struct digest *d, const void *p, size_t n)
{
    const char *byte = p;
    digest_add(d, n);
    for (uint64_t w = 0; n > 0; n -= MIN(n, 8), byte += 8, w = 0) {
        memcpy(&w, byte, MIN(n, 8));
        digest_add(d, w);
    }
}
