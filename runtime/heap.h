/* heap.h - numbers by key, of which the one with the least comes first.
 *
 * Whoever makes it says how many it holds at most; its arrays belong to the arena. One thread at a time. */
#ifndef RILLE_RUNTIME_HEAP_H
#define RILLE_RUNTIME_HEAP_H

#include "runtime/arena.h"

struct heap {
    uint64_t *key;
    int32_t *value, n;
};

/* Returns an empty one for `most` numbers, which belongs to the arena. */
static inline struct heap
heap_for(int64_t most, struct arena *a)
{
    return (struct heap){ARENA_ARRAY(a, uint64_t, most + 1), ARENA_ARRAY(a, int32_t, most + 1), 0};
}

static inline void
heap_swap(struct heap *h, int32_t i, int32_t k)
{
    uint64_t key = h->key[i];
    int32_t value = h->value[i];
    h->key[i] = h->key[k];
    h->value[i] = h->value[k];
    h->key[k] = key;
    h->value[k] = value;
}

static inline void
heap_push(struct heap *h, uint64_t key, int32_t value)
{
    int32_t i = h->n++;
    h->key[i] = key;
    h->value[i] = value;
    for (; i > 0 && h->key[i] < h->key[(i - 1) / 2]; i = (i - 1) / 2) heap_swap(h, i, (i - 1) / 2);
}

/* Takes out the number of the least key. */
static inline int32_t
heap_pop(struct heap *h)
{
    int32_t value = h->value[0];
    heap_swap(h, 0, --h->n);
    for (int32_t i = 0;;) {
        int32_t least = i, left = 2 * i + 1;
        for (int32_t k = left; k <= left + 1 && k < h->n; k++)
            if (h->key[k] < h->key[least]) least = k;
        if (least == i) return value;
        heap_swap(h, i, least);
        i = least;
    }
}

#endif
