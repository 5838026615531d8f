/* heap.h - a binary heap of numbers with keys; the number with the least key is the first. The capacity is fixed;
 * an arena owns the arrays. One thread at a time. */
#ifndef RILLE_RUNTIME_DATA_HEAP_H
#define RILLE_RUNTIME_DATA_HEAP_H

#include "runtime/data/arena.h"

struct heap {
    uint64_t *key;
    int32_t *value, n;
};

/* Returns an empty heap for at most `most` numbers. The arena owns it. */
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
heap_up(struct heap *h, int32_t i)
{
    for (; i > 0 && h->key[i] < h->key[(i - 1) / 2]; i = (i - 1) / 2) heap_swap(h, i, (i - 1) / 2);
}

static inline void
heap_down(struct heap *h, int32_t i)
{
    for (;;) {
        int32_t least = i, left = 2 * i + 1;
        for (int32_t k = left; k <= left + 1 && k < h->n; k++)
            if (h->key[k] < h->key[least]) least = k;
        if (least == i) return;
        heap_swap(h, i, least);
        i = least;
    }
}

static inline void
heap_push(struct heap *h, uint64_t key, int32_t value)
{
    h->key[h->n] = key;
    h->value[h->n] = value;
    heap_up(h, h->n++);
}

/* Removes the number at position i of the heap; i 0: the number with the least key. */
static inline int32_t
heap_take(struct heap *h, int32_t i)
{
    int32_t value = h->value[i];
    heap_swap(h, i, --h->n);
    if (i == h->n) return value;
    heap_up(h, i);
    heap_down(h, i);
    return value;
}

#endif
