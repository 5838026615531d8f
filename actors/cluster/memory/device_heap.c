/* device_heap.c - a worker's allocations in device heaps, in a list sorted by position. */
#include "actors/cluster/memory/device_heap.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

/* Returns the index of the first allocation that ends above a position; h->n: none. */
static int32_t
first_behind(const struct device_heap *h, uint64_t at)
{
    int32_t lo = 0, hi = h->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (h->list[mid].at + h->list[mid].bytes <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int
device_heap_take(struct device_heap *h, int kind, int device, uint64_t at, size_t bytes)
{
    int32_t i = first_behind(h, at);
    const struct holding *there = i < h->n ? &h->list[i] : NULL;
    if (there && there->at == at && there->bytes == bytes && there->kind == kind && there->device == device) return 0;
    if (bytes == 0 || at > UINT64_MAX - bytes || (i < h->n && h->list[i].at < at + bytes))
        return fail(E_BUS, "memory of %s: the controller allocated a range twice", device_kind_text(kind));
    err_clear();
    char *data = device_kind(kind)->take(device, bytes);
    if (!data && err_last()) return err_last();
    if (!data) return fail(E_MEMORY, "%s: out of memory for %zu bytes", device_kind_text(kind), bytes);
    GROW(h->list, h->n + 1, h->capacity);
    memmove(h->list + i + 1, h->list + i, sizeof *h->list * (size_t)(h->n - i));
    h->list[i] = (struct holding){at, bytes, kind, device, data};
    h->n++;
    return 0;
}

static void
release_holding(const struct holding *o)
{
    device_kind(o->kind)->give(o->device, o->data, o->bytes);
}

void
device_heap_give(struct device_heap *h, uint64_t at)
{
    int32_t i = first_behind(h, at);
    if (i == h->n || h->list[i].at != at) return;
    release_holding(&h->list[i]);
    memmove(h->list + i, h->list + i + 1, sizeof *h->list * (size_t)(h->n - i - 1));
    h->n--;
}

const struct holding *
device_heap_find(const struct device_heap *h, uint64_t at, size_t bytes)
{
    int32_t i = first_behind(h, at);
    const struct holding *o = i < h->n ? &h->list[i] : NULL;
    bool whole = o && at >= o->at && bytes <= o->bytes && at - o->at <= o->bytes - bytes;
    return whole ? o : NULL;
}

void
device_heap_free(struct device_heap *h)
{
    for (int32_t i = 0; i < h->n; i++) release_holding(&h->list[i]);
    free(h->list);
    *h = (struct device_heap){0};
}
