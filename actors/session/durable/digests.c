/* digests.c - computes digests of buffers in blocks of 1 MiB, as in checkpoint files (runtime/file/disk/source.h).
 *
 * Each host computes the digests of its own buffers. One request covers blocks of many buffers. */
#include "actors/session/durable/digests.h"
#include "actors/session/core/session.h"

#include "actors/cluster/controller/memories.h"
#include "runtime/file/disk/source.h"

#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4 << 20 }; /* bytes per request; the thread checks *stop between requests */

/* 1 MiB blocks of buffers on one host; one request computes the digests of all these blocks */
struct blocks {
    uint64_t *place; /* pairs: position of a block on its host, and the bytes of the block */
    int n, capacity;
    uint64_t bytes;
};

static int
block_count(const struct summed *x)
{
    return (int)source_blocks((int64_t)x->buffer->bytes);
}

static bool
digests_stop(const atomic_bool *stop)
{
    return stop && atomic_load(stop) && fail(E_CANCEL, "the checksums were cancelled");
}

static int
sum_here(struct summed *x, const atomic_bool *stop)
{
    const char *from = x->buffer->data;
    size_t left = x->buffer->bytes;
    uint64_t *digest = must_alloc(sizeof *digest * (size_t)(block_count(x) + 1));
    for (int i = 0; i < block_count(x); i++, left -= MIN(left, (size_t)SOURCE_BLOCK)) {
        if (digests_stop(stop)) {
            free(digest);
            return E_CANCEL;
        }
        digest[i] = source_digest(from + (size_t)i * SOURCE_BLOCK, MIN(left, (size_t)SOURCE_BLOCK));
    }
    x->digest = digest;
    return 0;
}

static bool
is_far_in(const struct rille_session *s, const struct summed *x, int memory)
{
    return !buffer_host_reads(x->buffer) && cluster_memory_of(s->cluster, x->kind, x->device) == memory;
}

static int
add_digest_blocks(struct rille_session *s, const struct summed *x, struct blocks *all)
{
    uint64_t at = 0;
    if (buffer_is_lost(x->buffer)) return fail(E_LOST, "its host was lost");
    TRY(cluster_position(s->cluster, x->kind, x->device, x->buffer->data, &at));
    GROW(all->place, 2 * (all->n + block_count(x)), all->capacity);
    for (uint64_t done = 0; done < x->buffer->bytes; done += SOURCE_BLOCK, all->n++) {
        all->place[2 * all->n] = at + done;
        all->place[2 * all->n + 1] = MIN(x->buffer->bytes - done, (uint64_t)SOURCE_BLOCK);
    }
    all->bytes += x->buffer->bytes;
    return 0;
}

/* Requests the digests of all blocks on one host that belong to the buffers in the list from x to `end`. */
static int
ask_digests(struct rille_session *s, struct summed *x, const struct summed *end, int memory, struct blocks *all)
{
    uint64_t *digest = must_alloc(sizeof *digest * (size_t)(all->n + 1)), *at = digest;
    int status = cluster_digests(s->cluster, memory, all->place, all->n, digest);
    for (; x < end && !status; x++) {
        if (!is_far_in(s, x, memory)) continue;
        size_t bytes = sizeof *digest * (size_t)block_count(x);
        x->digest = must_alloc(bytes + 1);
        memcpy(x->digest, at, bytes);
        at += block_count(x);
    }
    free(digest);
    all->n = 0;
    all->bytes = 0;
    return status;
}

static int
sum_there(struct rille_session *s, int32_t n, struct summed *list, int memory, const atomic_bool *stop)
{
    struct blocks all = {0};
    int status = 0;
    for (int32_t i = 0, first = 0; i < n && !status; i++) {
        if (is_far_in(s, &list[i], memory)) status = add_digest_blocks(s, &list[i], &all);
        if (status || all.n == 0 || (i < n - 1 && all.bytes < AT_ONCE)) continue;
        status = digests_stop(stop) ? E_CANCEL : ask_digests(s, &list[first], &list[i + 1], memory, &all);
        first = i + 1;
    }
    free(all.place);
    return status;
}

int
digests_of_buffers(struct rille_session *s, int32_t n, struct summed *list, const atomic_bool *stop)
{
    for (int32_t i = 0; i < n; i++)
        if (buffer_host_reads(list[i].buffer)) TRY(sum_here(&list[i], stop));
    for (int m = 0; s->cluster && m < cluster_memories(s->cluster); m++) TRY(sum_there(s, n, list, m, stop));
    return 0;
}
