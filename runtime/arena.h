/* arena.h - memory by lifetime: many small pieces, freed together.
 *
 * An arena has one owner and one thread. Pieces are zeroed and aligned to 16.
 * Allocation of small pieces does not fail: running out of host memory for
 * bookkeeping ends the process (as Lua's own panic does); tensor bytes are
 * taken from a pool (buffer.h), which does fail with E_MEMORY. */
#ifndef RILLE_RUNTIME_ARENA_H
#define RILLE_RUNTIME_ARENA_H

#include "runtime/base.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *head; /* newest chunk; NULL before the first piece */
    size_t used_bytes;        /* handed out since init or reset */
};

void *arena_alloc(struct arena *a, size_t bytes);
char *arena_strdup(struct arena *a, const char *s);
void *arena_dup(struct arena *a, const void *p, size_t bytes);
/* Forgets all pieces, keeps one chunk for what comes. */
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* malloc, calloc, realloc, and a copy, that end the process when the host has no memory. */
void *must_alloc(size_t bytes); /* zeroed */
void *must_realloc(void *p, size_t bytes);
void *must_copy(const void *p, size_t bytes);
/* How often the calling thread has asked the host for memory through this file. */
int64_t must_count(void);

#endif
