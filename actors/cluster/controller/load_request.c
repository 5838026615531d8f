/* load_request.c - splits large copies, and packs small copies into requests of limited size. */
#include "actors/cluster/controller/load_request.h"

#include "runtime/data/arena.h"

#include <stdlib.h>

static int64_t
end_block(const struct shard_copy *c)
{
    return source_blocks(c->from + (c->nrow - 1) * c->from_stride + c->bytes);
}

static int64_t
begin_block(const struct shard_copy *c)
{
    return c->from / SOURCE_BLOCK;
}

/* Adds a copy to the last request if there is room, else to a new request. */
static void
append_load_copy(struct load_requests *l, const struct shard_copy *c)
{
    struct load_request *r = l->nrequest ? &l->request[l->nrequest - 1] : NULL;
    int64_t first = begin_block(c), end = end_block(c);
    if (r && r->n < LOAD_COPIES && MAX(r->end_block, end) - MIN(r->first_block, first) <= LOAD_BLOCKS) {
        r->first_block = MIN(r->first_block, first);
        r->end_block = MAX(r->end_block, end);
        r->n++;
    } else {
        GROW(l->request, l->nrequest + 1, l->request_capacity);
        l->request[l->nrequest++] = (struct load_request){l->ncopy, 1, first, end};
    }
    GROW(l->copy, l->ncopy + 1, l->copy_capacity);
    l->copy[l->ncopy++] = *c;
}

/* Splits a copy into two copies of half the rows; a copy of a single row is split within the row. */
static void
halve_copy(const struct shard_copy *c, struct shard_copy half[2])
{
    half[0] = half[1] = *c;
    if (c->nrow > 1) {
        half[0].nrow = c->nrow / 2;
        half[1].nrow = c->nrow - half[0].nrow;
        half[1].from += half[0].nrow * c->from_stride;
        half[1].to += half[0].nrow * c->to_stride;
    } else {
        half[0].bytes = c->bytes / 2;
        half[1].bytes = c->bytes - half[0].bytes;
        half[1].from += half[0].bytes;
        half[1].to += half[0].bytes;
    }
}

static void
divide_copy(struct load_requests *l, const struct shard_copy *c)
{
    struct shard_copy half[2];
    if (end_block(c) - begin_block(c) <= LOAD_BLOCKS) {
        append_load_copy(l, c);
        return;
    }
    halve_copy(c, half);
    divide_copy(l, &half[0]);
    divide_copy(l, &half[1]);
}

void
load_requests_make(const struct shard_copy *copy, int32_t n, struct load_requests *out)
{
    *out = (struct load_requests){0};
    for (int32_t i = 0; i < n; i++) divide_copy(out, &copy[i]);
}

void
load_requests_free(struct load_requests *l)
{
    free(l->copy);
    free(l->request);
    *l = (struct load_requests){0};
}
