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

/* Frees the i-th kept memory. */
static void
drop_kept(struct worker_kept *kept, int i)
{
    segment_free(&kept->of[i].segment);
    device_heap_free(&kept->of[i].heap);
}

void
worker_kept_path(const struct worker_kept *kept, char out[KEPT_PATH])
{
    char path[SEGMENT_PATH] = "";
    memset(out, 0, KEPT_PATH);
    if (!kept->of[0].segment) return;
    segment_path(kept->of[0].segment, path);
    snprintf(out, KEPT_PATH, "%s %zu", path, segment_bytes(kept->of[0].segment));
}

void
worker_kept_take(struct worker_process *w, struct worker_kept *kept)
{
    struct segment *s = w->shared.segment;
    struct needed none = {0};
    bool any = s && add_notes(s, &none);
    free(none.range);
    if (!any) return;
    drop_kept(kept, 1);
    kept->of[1] = kept->of[0];
    kept->of[0].segment = s;
    kept->of[0].heap = w->shared.heap;
    w->shared.segment = NULL;
    w->shared.heap = (struct device_heap){0};
}

static void
trim_kept(struct worker_kept *kept, int i)
{
    struct needed all = {0};
    if (!kept->of[i].segment) return;
    add_needed(&all, 0, SEGMENT_HEAD);
    add_notes(kept->of[i].segment, &all);
    qsort(all.range, (size_t)all.n, sizeof *all.range, by_position);
    trim_segment(kept->of[i].segment, &all);
    trim_heap(&kept->of[i].heap, &all);
    free(all.range);
}

int
worker_kept_hold(struct worker_kept *kept, uint32_t flags)
{
    for (int i = 0; i < WORKER_KEPT; i++)
        if (flags & HOLD_GIVE)
            drop_kept(kept, i);
        else
            trim_kept(kept, i);
    return 0;
}

/* Returns true if the memory is of this job. */
static bool
is_of_own_job(const struct segment *s, const unsigned char job[CLUSTER_ID])
{
    const struct kept_slot *slot = (const void *)segment_base(s);
    bool own = false;
    for (int i = 0; i < KEPT_SLOTS; i++) own |= slot[i].number && !memcmp(slot[i].job, job, KEPT_JOB);
    return own;
}

void
worker_kept_forget(struct worker_kept *kept, const unsigned char job[CLUSTER_ID])
{
    if (!kept->of[0].segment || !is_of_own_job(kept->of[0].segment, job)) return;
    drop_kept(kept, 0);
    kept->of[0] = kept->of[1];
    memset(&kept->of[1], 0, sizeof kept->of[1]);
}

void
worker_kept_free(struct worker_kept *kept)
{
    for (int i = 0; i < WORKER_KEPT; i++) drop_kept(kept, i);
}
