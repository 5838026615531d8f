/* stage_slot.c - chooses which results of a stage are stored in the stage's slots.
 *
 * Each number of registers that some result requests is tried as the number of slots. For each number, two
 * alternatives are packed. Small slots hold the results that must be in a slot, and further results in the gaps.
 * Large slots hold all results that may be in a slot. The alternative with the fewest bytes is kept. Moving
 * single results into or out of the slots would have saved at most 2.2 % of the bytes (bench/packed.lua). Bytes
 * by position are kept in segment trees, so adding an item takes logarithmic time. */
#include "actors/plan/memory/sizes.h"
#include "actors/plan/memory/stage_slot.h"

#include "actors/plan/memory/pack.h"

#include <string.h>

/* Segment tree of bytes by position in the task list. most: by tree node, the largest number of bytes at a position
 * below the node, without the `add` of nodes above. add: bytes added at all positions below the node. */
struct load {
    int64_t *most, *add;
};

/* An alternative for a stage: the slots (best), the items stored in them, and the total bytes. */
struct trial {
    bool *joins; /* by item: true if it is stored in the slots */
    struct room best;
    int64_t bytes;
};

struct stage_slots {
    const struct outline *outline;
    struct item *item;
    int32_t nitem, period;
    /* width: number of leaves of a segment tree, a power of two above the period; room_for: number of leaves
     * allocated */
    int32_t width, room_for;
    struct load room; /* bytes in one slot */
    /* by phase: bytes outside the slots that items of the phase with one register hold. These items form a group
     * and share memory if they are not live together */
    struct load group[PHASE_BATCH];
    int64_t alone; /* bytes outside the slots of items that are in no group */
    struct arena *arena;
    struct trial best;        /* best alternative after packing */
    struct pack_item *packed; /* items of one slot, for packing */
    /* indices of the items in `packed`, or of all items that may be stored in the slots */
    int32_t *at;
};

/* Returns true if the stage's slots may store the item. */
static bool
may_join(const struct item *it, int32_t stage, const struct room *r)
{
    if (!it->again || it->stage != stage || it->abroad || (it->waits && !r->weights)) return false;
    return it->asked == r->nreg || (it->asked < r->nreg && !it->fixed && r->phases >> it->phase & 1);
}

/* Returns the position, within a micro-batch, at which the item's life in a slot ends. Weight gradients may be
 * delayed, so their operands live to the end of the micro-batch. */
static int32_t
leaves(const struct stage_slots *m, const struct item *it)
{
    return it->waits ? m->period : it->last - m->period;
}

/* Returns the largest number of bytes at any of the positions first to last. */
static int64_t
most_load(const struct stage_slots *m, const struct load *load, int32_t first, int32_t last)
{
    int32_t l = m->width + first, r = m->width + last;
    int64_t left = load->most[l], right = load->most[r];
    while (l >> 1 != r >> 1) {
        if (!(l & 1)) left = MAX(left, load->most[l + 1]);
        if (r & 1) right = MAX(right, load->most[r - 1]);
        l >>= 1;
        r >>= 1;
        left += load->add[l];
        right += load->add[r];
    }
    int64_t most = MAX(left, right);
    while ((l >>= 1) > 0) most += load->add[l];
    return most;
}

static int64_t
most_of_all(const struct load *load)
{
    return load->most[1];
}

static void
add_above(const struct load *load, int32_t node)
{
    while ((node >>= 1) > 0) load->most[node] = MAX(load->most[2 * node], load->most[2 * node + 1]) + load->add[node];
}

static void
add_load(const struct stage_slots *m, const struct load *load, int32_t first, int32_t last, int64_t bytes)
{
    for (int32_t l = m->width + first, r = m->width + last + 1; l < r; l >>= 1, r >>= 1) {
        int32_t node[2] = {l & 1 ? l++ : 0, r & 1 ? --r : 0};
        for (int k = 0; k < 2; k++)
            if (node[k]) {
                load->most[node[k]] += bytes;
                load->add[node[k]] += bytes;
            }
    }
    add_above(load, m->width + first);
    add_above(load, m->width + last);
}

static void
clear_load(const struct stage_slots *m, const struct load *load)
{
    memset(load->most, 0, sizeof *load->most * 2 * (size_t)m->width);
    memset(load->add, 0, sizeof *load->add * 2 * (size_t)m->width);
}

/* Selects the items for the slots: first all items with as many registers as there are slots, then other items, in
 * order, as long as the peak of a slot is at most `bytes`. Returns the peak. */
static int64_t
fill_room(struct stage_slots *m, int32_t stage, const struct room *r, int64_t bytes)
{
    clear_load(m, &m->room);
    for (int must = 1; must >= 0; must--)
        for (int32_t i = 0; i < m->nitem; i++) {
            struct item *it = &m->item[i];
            if (must) it->joins = false;
            if ((it->asked == r->nreg) != must || !may_join(it, stage, r)) continue;
            it->joins = must || most_load(m, &m->room, it->first, leaves(m, it)) + it->bytes <= bytes;
            if (it->joins) add_load(m, &m->room, it->first, leaves(m, it), it->bytes);
        }
    return most_of_all(&m->room);
}

/* Adds an item that is stored outside the slots to the bytes there. */
static void
put_beside(struct stage_slots *m, const struct item *it)
{
    if (it->group && it->phase < PHASE_BATCH)
        add_load(m, &m->group[it->phase], it->first, it->last - m->period, it->bytes);
    else
        m->alone += it->bytes * it->asked;
}

/* Recomputes the bytes outside the slots, from all items that are stored there. */
static void
fill_beside(struct stage_slots *m, int32_t stage)
{
    for (int phase = 0; phase < PHASE_BATCH; phase++) clear_load(m, &m->group[phase]);
    m->alone = 0;
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (it->again && it->stage == stage && !it->joins) put_beside(m, it);
    }
}

/* Returns the bytes needed outside the slots: the peak of each group, plus all other items. */
static int64_t
bytes_beside(const struct stage_slots *m)
{
    int64_t bytes = m->alone;
    for (int phase = 0; phase < PHASE_BATCH; phase++) bytes += most_of_all(&m->group[phase]);
    return bytes;
}

/* Lists the items of one slot for packing. at: indices of the items, followed by -1. */
static struct pack_items
list_room(const struct stage_slots *m, struct pack_item *p, int32_t *at)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (!it->joins) continue;
        at[n] = i;
        p[n++] = (struct pack_item){.bytes = it->bytes, .first = it->first, .last = leaves(m, it)};
    }
    at[n] = -1;
    return (struct pack_items){.item = p, .n = n};
}

static void
move_in(struct stage_slots *m, struct room *r, const struct pack_item *p, const int32_t *at)
{
    r->first = INT32_MAX;
    r->last = -1;
    for (int32_t k = 0; at[k] >= 0; k++) {
        struct item *it = &m->item[at[k]];
        it->in_room = true;
        it->nreg = r->nreg;
        it->offset = p[k].offset;
        it->stride = r->bytes;
        r->first = MIN(r->first, it->first);
        r->last = MAX(r->last, it->last);
    }
}

/* Returns true if credits guarantee that the previous micro-batch of a slot has left the phase before the slot's
 * next micro-batch enters the stage. */
static bool
leaves_early(const struct stage_slots *m, int32_t stage, uint8_t phase, int32_t nreg)
{
    struct moment forward = {stage, PHASE_FORWARD}, then = {stage, phase};
    return outline_credits(m->outline, forward, then) <= nreg;
}

/* ---- choosing ---- */

static void
keep_trial(const struct stage_slots *m, const struct room *r, int64_t bytes, struct trial *t)
{
    if (bytes >= t->bytes) return;
    t->bytes = bytes;
    t->best = *r;
    for (int32_t i = 0; i < m->nitem; i++) t->joins[i] = m->item[i].joins;
}

/* Stores an alternative's choice in the items: which of them are in the slots. */
static void
restore_trial(struct stage_slots *m, const struct trial *t)
{
    for (int32_t i = 0; i < m->nitem; i++) m->item[i].joins = t->joins[i];
}

/* Packs the items of one slot; returns the bytes of the slot. */
static int64_t
pack_room(struct stage_slots *m, bool thorough)
{
    struct pack_items in = list_room(m, m->packed, m->at);
    in.thorough = thorough;
    return pack_offsets(&in, ARENA_ALIGN);
}

static void
try_packed(struct stage_slots *m, int32_t stage, const struct room *r)
{
    fill_beside(m, stage);
    keep_trial(m, r, r->nreg * pack_room(m, false) + bytes_beside(m), &m->best);
}

/* Tries two sizes of slots. Small slots hold the items that must be in a slot, and other items in gaps; large slots
 * hold all items that may be in a slot. */
static void
try_rooms(struct stage_slots *m, int32_t stage, struct room r)
{
    int64_t small = fill_room(m, stage, &r, 0);
    fill_room(m, stage, &r, small);
    try_packed(m, stage, &r);
    if (fill_room(m, stage, &r, INT64_MAX) > small) try_packed(m, stage, &r);
}

/* Returns true if the readers of some result of the stage request this number of registers. */
static bool
is_slot_asked(const struct stage_slots *m, int32_t stage, int32_t nreg)
{
    bool asked = false;
    for (int32_t i = 0; i < m->nitem && !asked; i++)
        asked = m->item[i].again && m->item[i].stage == stage && m->item[i].asked == nreg;
    return asked;
}

/* Finds the slots of a stage with which the device needs the fewest bytes. Tries each number of registers that
 * results request as the number of slots. While a micro-batch passes through backward, the registers in its slot
 * become free one by one. Short-lived results are stored in these free bytes, or outside the slots if that takes
 * fewer bytes. Results with fewer registers than slots may be stored in the slots only if credits allow it: the
 * previous micro-batch of a slot must have left their phase before the next micro-batch enters the slot. */
void
stage_slots_find(struct stage_slots *m, int32_t stage, struct room *out)
{
    struct trial *t = &m->best;
    t->bytes = INT64_MAX;
    t->best = *out = (struct room){0};
    for (int32_t nreg = 2; nreg <= m->outline->program->pieces; nreg++) {
        struct room r = {.nreg = nreg, .weights = leaves_early(m, stage, PHASE_WEIGHT, nreg)};
        if (!is_slot_asked(m, stage, nreg)) continue;
        r.phases = 1 << PHASE_FORWARD | (unsigned)leaves_early(m, stage, PHASE_BACKWARD, nreg) << PHASE_BACKWARD |
                   (unsigned)r.weights << PHASE_WEIGHT;
        try_rooms(m, stage, r);
    }
    if (!t->best.nreg) return;
    restore_trial(m, t);
    int64_t bytes = pack_room(m, true);
    if (m->at[0] < 0) return;
    *out = t->best;
    out->bytes = bytes;
    move_in(m, out, m->packed, m->at);
}

struct stage_slots *
stage_slots_new(const struct outline *o, int32_t most, struct arena *a)
{
    struct stage_slots *m = ARENA_ARRAY(a, struct stage_slots, 1);
    *m = (struct stage_slots){.outline = o, .arena = a};
    m->packed = ARENA_ARRAY(a, struct pack_item, most + 1);
    m->at = ARENA_ARRAY(a, int32_t, most + 1);
    m->best.joins = ARENA_ARRAY(a, bool, most + 1);
    return m;
}

static struct load
load_new(const struct stage_slots *m)
{
    return (struct load){ARENA_ARRAY(m->arena, int64_t, 2 * m->width), ARENA_ARRAY(m->arena, int64_t, 2 * m->width)};
}

void
stage_slots_begin(struct stage_slots *m, struct item *item, int32_t nitem, int32_t period)
{
    m->item = item;
    m->nitem = nitem;
    m->period = period;
    m->width = 1;
    while (m->width <= period) m->width *= 2;
    if (m->width <= m->room_for) return;
    m->room_for = m->width;
    m->room = load_new(m);
    for (int phase = 0; phase < PHASE_BATCH; phase++) m->group[phase] = load_new(m);
}
