/* stage_slot.c - chooses which results of a stage are stored in the stage's slots.
 *
 * Alternatives are compared by their peak bytes during a micro-batch. Slots of several sizes are filled greedily.
 * Then single items are moved in or out, and in the best alternative pairs of items are exchanged. Moving and
 * exchanging go on while the bytes decrease and at most MOST_LOOKS alternatives have been evaluated. The best
 * alternatives before and after the exchanges are packed, and the better of the two is kept. Bytes by position are
 * segment trees, so adding an item takes logarithmic time. */
#include "actors/plan/memory/stage_slot.h"

#include "actors/plan/lower/lower.h"
#include "actors/plan/memory/pack.h"

#include <string.h>

enum { MOST_LOOKS = 256, ROOM_SIZES = 32, LEAST_GAIN = 128 };

/* Segment tree of bytes by position. most: maximum over a node's positions, without the `add` of its ancestors. */
struct load {
    int64_t *most, *add;
};

/* An alternative for a stage: its slots, the items stored in them, and the total bytes. */
struct trial {
    bool *joins; /* by item: stored in the slots */
    struct room best;
    int64_t bytes;
};

struct stage_slots {
    const struct outline *outline;
    struct item *item;
    int32_t nitem, period;
    int32_t width, room_for; /* number of leaves of a tree, a power of two above the period; number allocated */
    struct load room;        /* bytes in one slot */
    /* by phase: bytes of items outside the slots that share memory, because they are not live at the same time */
    struct load group[PHASE_BATCH];
    int64_t alone; /* bytes of all other items outside the slots */
    int64_t looks; /* evaluations left */
    struct arena *arena;
    /* best: best alternative after packing; rough: best by estimated peak, before and after exchanges */
    struct trial best, rough[2];
    struct pack_item *packed; /* items of one slot, for packing */
    int32_t *at;              /* indices of the items in `packed`, or of the items that may be in the slots */
};

/* Returns true if the item may be stored in the stage's slots. */
static bool
may_join(const struct item *it, int32_t stage, const struct room *r)
{
    if (!it->again || it->stage != stage || it->abroad || (it->waits && !r->weights)) return false;
    return it->asked == r->nreg || (it->asked < r->nreg && !it->fixed && r->phases >> it->phase & 1);
}

/* Returns the position at which the item's life in a slot ends, within a micro-batch. Operands of delayed weight
 * gradients live to the end of the micro-batch. */
static int32_t
leaves(const struct stage_slots *m, const struct item *it)
{
    return it->waits ? m->period : it->last - m->period;
}

/* Returns the most bytes at any of the positions first to last. */
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

/* Selects the items for the slots. All items with as many registers as slots are selected; then others, in order, as
 * long as the slot's peak stays within `bytes`. Returns the peak. */
static int64_t
fill_room(struct stage_slots *m, int32_t stage, const struct room *r, int64_t bytes)
{
    clear_load(m, &m->room);
    for (int must = 1; must >= 0; must--)
        for (int32_t i = 0; i < m->nitem; i++) {
            struct item *it = &m->item[r->late ? m->nitem - 1 - i : i];
            if (must) it->joins = false;
            if ((it->asked == r->nreg) != must || !may_join(it, stage, r)) continue;
            it->joins = must || most_load(m, &m->room, it->first, leaves(m, it)) + it->bytes <= bytes;
            if (it->joins) add_load(m, &m->room, it->first, leaves(m, it), it->bytes);
        }
    return most_of_all(&m->room);
}

/* Recomputes the bytes in a slot from the selected items. */
static void
fill_again(struct stage_slots *m)
{
    clear_load(m, &m->room);
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (it->joins) add_load(m, &m->room, it->first, leaves(m, it), it->bytes);
    }
}

/* Adds an item to the bytes outside the slots; sign -1: removes it. */
static void
put_beside(struct stage_slots *m, const struct item *it, int sign)
{
    if (it->group && it->phase < PHASE_BATCH)
        add_load(m, &m->group[it->phase], it->first, it->last - m->period, sign * it->bytes);
    else
        m->alone += sign * it->bytes * it->asked;
}

/* Recomputes the bytes outside the slots from all items. */
static void
fill_beside(struct stage_slots *m, int32_t stage)
{
    for (int phase = 0; phase < PHASE_BATCH; phase++) clear_load(m, &m->group[phase]);
    m->alone = 0;
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (it->again && it->stage == stage && !it->joins) put_beside(m, it, 1);
    }
}

/* Returns the bytes outside the slots: the sum of the groups' peaks and of all other items. */
static int64_t
bytes_beside(const struct stage_slots *m)
{
    int64_t bytes = m->alone;
    for (int phase = 0; phase < PHASE_BATCH; phase++) bytes += most_of_all(&m->group[phase]);
    return bytes;
}

/* Lists the items of one slot for packing. at: their indices, followed by -1. */
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

/* Returns true if credits guarantee that a slot's previous micro-batch has left a phase before the slot's next
 * micro-batch enters it. */
static bool
leaves_early(const struct stage_slots *m, int32_t stage, uint8_t phase, int32_t nreg)
{
    struct moment forward = {stage, PHASE_FORWARD}, then = {stage, phase};
    return outline_credits(m->outline, forward, then) <= nreg;
}

/* ---- moving items ---- */

static int64_t
slot_bytes(struct stage_slots *m, const struct room *r)
{
    m->looks--;
    return r->nreg * most_of_all(&m->room) + bytes_beside(m);
}

/* Changes whether an item is stored in the slots or outside. */
static void
toggle_item(struct stage_slots *m, struct item *it)
{
    int sign = it->joins ? -1 : 1;
    add_load(m, &m->room, it->first, leaves(m, it), sign * it->bytes);
    put_beside(m, it, -sign);
    it->joins = !it->joins;
}

/* Moves one or two items into or out of the slots; undoes the moves unless the total bytes decrease. */
static bool
is_better_slot(struct stage_slots *m, const struct room *r, struct item *a, struct item *b, int64_t *least)
{
    toggle_item(m, a);
    if (b) toggle_item(m, b);
    int64_t bytes = slot_bytes(m, r);
    if (bytes < *least) {
        *least = bytes;
        return true;
    }
    toggle_item(m, a);
    if (b) toggle_item(m, b);
    return false;
}

/* Lists the items that may be either in the slots or outside. */
static int32_t
list_free(struct stage_slots *m, int32_t stage, const struct room *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->nitem; i++)
        if (m->item[i].asked != r->nreg && may_join(&m->item[i], stage, r)) m->at[n++] = i;
    return n;
}

/* Moves each of the n listed items in or out if that lowers the total bytes, until no move does. Returns true if the
 * total decreased. */
static bool
go_in_and_out(struct stage_slots *m, const struct room *r, int32_t n)
{
    if (m->looks <= 0) return false;
    int64_t was = slot_bytes(m, r), least = was;
    for (bool better = true; better && m->looks > 0;) {
        better = false;
        for (int32_t i = 0; i < n && m->looks > 0; i++)
            better |= is_better_slot(m, r, &m->item[m->at[i]], NULL, &least);
    }
    return least < was;
}

/* Tries all exchanges of an item in the slots with an item outside, and makes those that lower the total bytes.
 * Returns true if the total decreased. */
static bool
change_places(struct stage_slots *m, const struct room *r, int32_t n)
{
    int64_t was = slot_bytes(m, r), least = was;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = i + 1; k < n && m->looks > 0; k++) {
            struct item *a = &m->item[m->at[i]], *b = &m->item[m->at[k]];
            if (a->joins != b->joins) is_better_slot(m, r, a, b, &least);
        }
    return least < was;
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

/* Marks the items that an alternative stores in the slots. */
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
try_packed(struct stage_slots *m, int32_t stage, const struct room *r, bool thorough)
{
    fill_beside(m, stage);
    keep_trial(m, r, r->nreg * pack_room(m, thorough) + bytes_beside(m), &m->best);
}

/* Packs the alternative found by exchanges. The alternative must take 1/LEAST_GAIN fewer bytes than the one before,
 * because items that share more bytes are ordered more strictly, and tasks wait for that order. */
static void
try_exchanged(struct stage_slots *m, int32_t stage)
{
    const struct trial *t = &m->rough[1];
    restore_trial(m, t);
    fill_beside(m, stage);
    int64_t bytes = t->best.nreg * pack_room(m, true) + bytes_beside(m);
    if (bytes <= m->best.bytes - m->best.bytes / LEAST_GAIN) keep_trial(m, &t->best, bytes, &m->best);
}

/* Starts from an alternative; alternates exchanges and single moves until neither lowers the total. */
static void
exchange(struct stage_slots *m, int32_t stage, struct trial *t, int32_t n)
{
    const struct room *r = &t->best;
    restore_trial(m, t);
    fill_again(m);
    fill_beside(m, stage);
    m->looks = MOST_LOOKS;
    while (change_places(m, r, n) && go_in_and_out(m, r, n)) continue;
    keep_trial(m, r, slot_bytes(m, r), t);
}

/* Tries the smallest slots, the largest, and some sizes between; packs the best before and the best after exchanges. */
static void
try_rooms(struct stage_slots *m, int32_t stage, struct room r)
{
    int64_t small = fill_room(m, stage, &r, 0), large = fill_room(m, stage, &r, INT64_MAX);
    fill_room(m, stage, &r, small);
    try_packed(m, stage, &r, false);
    if (large == small) return;
    fill_room(m, stage, &r, large);
    try_packed(m, stage, &r, false);
    struct trial *rough = m->rough;
    rough[0].bytes = rough[1].bytes = INT64_MAX;
    int32_t n = list_free(m, stage, &r);
    m->looks = MOST_LOOKS;
    for (int k = 2; k < 2 * ROOM_SIZES; k++) {
        r.late = k % 2;
        fill_room(m, stage, &r, small + (large - small) * (k / 2) / ROOM_SIZES);
        fill_beside(m, stage);
        keep_trial(m, &r, slot_bytes(m, &r), &rough[0]);
        if (go_in_and_out(m, &r, n)) keep_trial(m, &r, slot_bytes(m, &r), &rough[1]);
    }
    restore_trial(m, &rough[0]);
    keep_trial(m, &rough[0].best, rough[0].bytes, &rough[1]);
    exchange(m, stage, &rough[1], n);
    restore_trial(m, &rough[0]);
    try_packed(m, stage, &rough[0].best, true);
    try_exchanged(m, stage);
}

/* Returns true if some result of the stage has this number of registers. */
static bool
is_slot_asked(const struct stage_slots *m, int32_t stage, int32_t nreg)
{
    bool asked = false;
    for (int32_t i = 0; i < m->nitem && !asked; i++)
        asked = m->item[i].again && m->item[i].stage == stage && m->item[i].asked == nreg;
    return asked;
}

/* Finds the best slots of a stage; tries each number of slots that results request. While a micro-batch returns
 * through backward, registers become free one by one. Short-lived results are stored in the freed bytes, or outside
 * the slots if a slot would grow by more bytes. A phase's results with few registers may use the slots only if credits
 * guarantee that a slot's previous micro-batch has left this phase before the next one enters the slot. */
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
    for (int k = 0; k < 2; k++) m->rough[k].joins = ARENA_ARRAY(a, bool, most + 1);
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
