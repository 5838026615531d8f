/* worker_kept.c - keeps the memory of snapshots after the loss of a controller. */
#include "actors/cluster/worker/worker_kept.h"

#include "actors/cluster/memory/kept.h"
#include "actors/cluster/wire/position.h"
#include "runtime/base/error.h"
#include "runtime/data/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* The ranges of memory that snapshots need. */
struct needed {
    struct kept_range *range;
    int n, capacity;
};

static void
add_needed(struct needed *all, uint64_t at, uint64_t bytes)
{
    GROW(all->range, all->n + 1, all->capacity);
    all->range[all->n++] = (struct kept_range){at, bytes};
}

/* Adds the ranges of a slot's note, if the slot and its note are complete. Returns false if they are not. */
static bool
add_note(const struct segment *s, const struct kept_slot *slot, struct needed *all)
{
    struct kept_note note;
    uint64_t most = segment_bytes(s);
    if (!kept_slot_is_whole(slot) || slot->at > most || slot->bytes > most - slot->at || slot->at % sizeof(uint64_t) ||
        !kept_note_read(slot, segment_base(s) + slot->at, &note))
        return false;
    add_needed(all, slot->at, slot->bytes);
    for (uint64_t i = 0; i < note.nrange; i++) add_needed(all, note.range[i].at, note.range[i].bytes);
    return true;
}

/* Adds the ranges of all complete notes. Returns false if there is none. */
static bool
add_notes(const struct segment *s, struct needed *all)
{
    struct kept_slot slot[KEPT_SLOTS];
    bool any = false;
    if (segment_bytes(s) < SEGMENT_HEAD) return false;
    memcpy(slot, segment_base(s), sizeof slot);
    for (int i = 0; i < KEPT_SLOTS; i++) any |= add_note(s, &slot[i], all);
    return any;
}

static int
by_position(const void *a, const void *b)
{
    uint64_t x = ((const struct kept_range *)a)->at, y = ((const struct kept_range *)b)->at;
    return x < y ? -1 : x > y;
}

/* Frees the pages of the segment that no range needs. Ignores errors, because such pages only cost memory. */
static void
trim_segment(struct segment *s, const struct needed *all)
{
    size_t end = 0, most = segment_bytes(s);
    for (int i = 0; i <= all->n; i++) {
        bool last = i == all->n || all->range[i].at >= most;
        size_t begin = last ? most : all->range[i].at / PAGE * PAGE;
        if (begin > end && segment_hold(s, end, begin - end, true)) err_clear();
        if (last) return;
        size_t bytes = MIN(all->range[i].bytes, most - all->range[i].at);
        end = MAX(end, (all->range[i].at + bytes + PAGE - 1) / PAGE * PAGE);
    }
}

/* Frees the allocations on devices that no range needs. */
static void
trim_heap(struct device_heap *h, const struct needed *all)
{
    for (int32_t i = h->n - 1; i >= 0; i--) {
        const struct holding *at = &h->list[i];
        bool needed = false;
        for (int k = 0; k < all->n && !needed; k++) needed = all->range[k].at - at->at < at->bytes;
        if (!needed) device_heap_give(h, at->at);
    }
}

void
worker_kept_take(struct worker_process *w, struct worker_kept *kept)
{
    struct segment *s = w->shared.segment;
    struct needed none = {0};
    bool any = s && add_notes(s, &none);
    free(none.range);
    if (!any) return;
    worker_kept_free(kept);
    char path[SEGMENT_PATH];
    segment_path(s, path);
    snprintf(kept->path, sizeof kept->path, "%s %zu", path, segment_bytes(s));
    kept->segment = s;
    kept->heap = w->shared.heap;
    w->shared.segment = NULL;
    w->shared.heap = (struct device_heap){0};
}

static void
trim(struct worker_kept *kept)
{
    struct needed all = {0};
    add_needed(&all, 0, SEGMENT_HEAD);
    add_notes(kept->segment, &all);
    qsort(all.range, (size_t)all.n, sizeof *all.range, by_position);
    trim_segment(kept->segment, &all);
    trim_heap(&kept->heap, &all);
    free(all.range);
}

int
worker_kept_hold(struct worker_kept *kept, uint32_t flags)
{
    if (flags & HOLD_GIVE)
        worker_kept_free(kept);
    else if (kept->segment)
        trim(kept);
    return 0;
}

void
worker_kept_forget(struct worker_kept *kept, const unsigned char job[CLUSTER_ID])
{
    const struct kept_slot *slot = kept->segment ? (const void *)segment_base(kept->segment) : NULL;
    bool own = false;
    for (int i = 0; slot && i < KEPT_SLOTS; i++) own |= slot[i].number && !memcmp(slot[i].job, job, KEPT_JOB);
    if (own) worker_kept_free(kept);
}

void
worker_kept_free(struct worker_kept *kept)
{
    segment_free(&kept->segment);
    device_heap_free(&kept->heap);
    kept->path[0] = '\0';
}
