/* arena.c - arenas: memory that is freed together, in a list of chunks, newest first. Allocation fills the newest
 * chunk from its start.
 *
 * A chunk is twice as large as the chunk before (up to CHUNK_MAX), so an arena of n bytes calls malloc O(log n)
 * times. A chunk of CHUNK_MAX bytes is one huge page. This saves TLB misses, because runs read large plans many
 * times, and not in the order of addresses. */
#include "runtime/data/arena.h"

#include "runtime/data/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, CHUNK_MIN = 1024, CHUNK_MAX = HUGE_PAGE }; /* chunk sizes in bytes, including the header */

struct arena_chunk {
    struct arena_chunk *older;
    size_t used, capacity; /* used: bytes of data used so far; capacity: bytes of data that fit */
    _Alignas(ALIGN) unsigned char data[];
};

/* Prints a message and ends the process, because there is no memory for bookkeeping, not even to report an error. */
static void
out_of_memory(size_t bytes)
{
    fprintf(stderr, "rille: out of memory: the host cannot provide %zu bytes\n", bytes);
    abort();
}

static _Thread_local int64_t asked;

int64_t
must_count(void)
{
    return asked;
}

/* Small blocks come from malloc, because calloc of the GNU C library takes no block from the thread's cache. */
void *
must_alloc(size_t bytes)
{
    enum { SMALL = 1024 };
    asked++;
    void *p = bytes <= SMALL ? malloc(bytes + !bytes) : calloc(1, bytes);
    if (!p) out_of_memory(bytes);
    return bytes <= SMALL ? memset(p, 0, bytes) : p;
}

void *
must_realloc(void *p, size_t bytes)
{
    asked++;
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q) out_of_memory(bytes);
    return q;
}

void *
must_copy(const void *p, size_t bytes)
{
    void *q = must_alloc(bytes);
    if (bytes) memcpy(q, p, bytes);
    return q;
}

static void
chunk_push(struct arena *a, size_t bytes)
{
    struct arena_chunk *c;
    size_t whole = a->head ? MIN(2 * (sizeof *c + a->head->capacity), (size_t)CHUNK_MAX) : CHUNK_MIN;
    whole = MAX(whole, sizeof *c + bytes);
    if (whole >= HUGE_PAGE) whole = pages_whole(whole);
    asked++;
    c = whole >= HUGE_PAGE ? pages_take(whole) : malloc(whole);
    if (!c) out_of_memory(whole);
    *c = (struct arena_chunk){.older = a->head, .capacity = whole - sizeof *c};
    a->head = c;
}

void *
arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
    bytes = MAX((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1), (size_t)ALIGN);
    if (!a->head || a->head->capacity - a->head->used < bytes) chunk_push(a, bytes);

    void *p = a->head->data + a->head->used;
    a->head->used += bytes;
    a->used_bytes += bytes;
    return memset(p, 0, bytes);
}

char *
arena_strdup(struct arena *a, const char *s)
{
    return arena_dup(a, s, strlen(s) + 1);
}

void *
arena_dup(struct arena *a, const void *p, size_t bytes)
{
    void *q = arena_alloc(a, bytes);
    if (bytes) memcpy(q, p, bytes);
    return q;
}

void *
arena_extend(struct arena *a, const void *p, size_t was, size_t bytes)
{
    void *q = arena_alloc(a, bytes);
    if (was) memcpy(q, p, was);
    return q;
}

static void
chunks_free(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *older = c->older;
        size_t whole = sizeof *c + c->capacity;
        if (whole >= HUGE_PAGE)
            pages_give(c, whole);
        else
            free(c);
        c = older;
    }
}

void
arena_reset(struct arena *a)
{
    a->used_bytes = 0;
    if (!a->head) return;
    chunks_free(a->head->older);
    a->head->older = NULL;
    a->head->used = 0;
}

void
arena_fini(struct arena *a)
{
    chunks_free(a->head);
    *a = (struct arena){0};
}
