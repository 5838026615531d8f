/* arena.h - arenas: allocate many small pieces of memory that are freed together.
 *
 * An arena has one owner and one thread. Pieces are zeroed, and aligned to 16 bytes. Allocation of small pieces
 * does not fail: if the host has no memory for bookkeeping, the process ends (as Lua's panic does). Tensor bytes
 * come from a pool (device.h), which fails with E_MEMORY instead. */
#ifndef RILLE_RUNTIME_DATA_ARENA_H
#define RILLE_RUNTIME_DATA_ARENA_H

#include "runtime/base/base.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *head; /* newest chunk; NULL: nothing was allocated yet */
    size_t used_bytes;        /* bytes allocated since init or reset */
};

void *arena_alloc(struct arena *a, size_t bytes);
char *arena_strdup(struct arena *a, const char *s);
void *arena_dup(struct arena *a, const void *p, size_t bytes);
/* Returns a larger copy of a piece of `was` bytes. The additional bytes are zero. */
void *arena_extend(struct arena *a, const void *p, size_t was, size_t bytes);
/* Frees all pieces, but keeps one chunk for reuse. */
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* Do what malloc, realloc and memdup do, but end the process if the host has no memory. */
void *must_alloc(size_t bytes); /* zeroed */
void *must_realloc(void *p, size_t bytes);
void *must_copy(const void *p, size_t bytes);
/* Makes `list`, a heap array with `capacity` elements, long enough for n elements. The capacity at least doubles;
 * new elements are not initialised. capacity may have any integer type. ARENA_GROW does the same for an array in an
 * arena; the old array is freed with the arena. */
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

/* Returns the new capacity of an array that must hold n elements. */
static inline size_t
grown(size_t capacity, size_t n)
{
    return MAX(MAX(2 * capacity, 4), n);
}

/* Returns how often the calling thread has allocated host memory through this file. */
int64_t must_count(void);

#endif
