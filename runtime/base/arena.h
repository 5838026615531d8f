/* arena.h - memory by lifetime: many small pieces, freed together.
 *
 * An arena has one owner and one thread. Pieces are zeros at first and aligned to 16. Allocation of small pieces does
 * not fail: running out of host memory for bookkeeping ends the process (as Lua's own panic does); tensor bytes come
 * from a pool (device.h), which does fail with E_MEMORY. */
#ifndef RILLE_RUNTIME_ARENA_H
#define RILLE_RUNTIME_ARENA_H

#include "runtime/base/base.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *head; /* newest chunk; NULL before the first piece */
    size_t used_bytes;        /* handed out since init or reset */
};

void *arena_alloc(struct arena *a, size_t bytes);
char *arena_strdup(struct arena *a, const char *s);
void *arena_dup(struct arena *a, const void *p, size_t bytes);
/* Returns a larger copy of a piece of `was` bytes; the rest is zero. */
void *arena_extend(struct arena *a, const void *p, size_t was, size_t bytes);
/* Frees all pieces but keeps a chunk for reuse. */
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* malloc, calloc, realloc, and a copy, that end the process when the host has no memory. */
void *must_alloc(size_t bytes); /* zeroed */
void *must_realloc(void *p, size_t bytes);
void *must_copy(const void *p, size_t bytes);
/* Makes `list`, an array of the heap with `capacity` elements, long enough for n. The capacity at least doubles; new
 * elements are unset. capacity may have any integer type. ARENA_GROW: for an array in an arena; the old array is
 * freed with the arena. */
#define GROW(list, n, capacity)                                                                                        \
    do {                                                                                                               \
        if ((size_t)(n) > (size_t)(capacity)) {                                                                        \
            size_t grown_ = grown((size_t)(capacity), (size_t)(n));                                                    \
            (list) = must_realloc((list), grown_ * sizeof *(list));                                                    \
            (capacity) = (__typeof__(capacity))grown_;                                                                 \
        }                                                                                                              \
    } while (0)
#define ARENA_GROW(a, list, n, capacity)                                                                               \
    do {                                                                                                               \
        if ((size_t)(n) > (size_t)(capacity)) {                                                                        \
            size_t grown_ = grown((size_t)(capacity), (size_t)(n));                                                    \
            (list) = arena_extend((a), (list), sizeof *(list) * (size_t)(capacity), grown_ * sizeof *(list));          \
            (capacity) = (__typeof__(capacity))grown_;                                                                 \
        }                                                                                                              \
    } while (0)

/* Returns the next capacity of an array that must hold n. */
static inline size_t
grown(size_t capacity, size_t n)
{
    return MAX(MAX(2 * capacity, 4), n);
}

/* Returns the number of allocations of host memory that the calling thread has made through this file. */
int64_t must_count(void);

#endif
