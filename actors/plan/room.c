/* room.c - which results of a stage have a place in each of its rooms.
 *
 * What rooms and the rest come to is judged by the bytes at the worst moment of a
 * piece. Rooms of several sizes are filled one item after the other; then items go
 * in and out, and in the best room change places, as long as that takes less and
 * not more than MOST_LOOKS ways were looked at. The best before and after are
 * packed, and the better one is kept. Bytes by position are trees, so that an item
 * takes a few steps however long the piece is. */
#include "actors/plan/room.h"

#include "actors/plan/lower.h"
#include "actors/plan/pack.h"

#include <string.h>

enum { MOST_LOOKS = 256, ROOM_SIZES = 32, LEAST_GAIN = 128 };

/* Bytes by position, as a tree: of a node's positions the most, but for what is added to all of those of a node above.
 */
struct load {
    int64_t *most, *add;
};

/* A stage's rooms on trial: the best so far, who joins, and what they and what lies beside them come to. */
struct trial {
    bool *joins; /* by item */
    struct room best;
    int64_t bytes;
};

struct rooms {
    const struct outline *outline;
    struct item *item;
    int32_t nitem, period;
    int32_t width, room_for; /* leaves of a tree, a power of two above the period; and of how many there is memory */
    struct load room;        /* on trial */
    struct load group[PHASE_BATCH]; /* by phase: of what takes turns beside them */
    int64_t alone;                  /* of what does not */
    int64_t looks;                  /* how many ways may still be looked at */
    struct arena *arena;
    struct trial best, rough[2]; /* packed; by its worst moment, before exchanges and after */
    struct pack_item *packed;    /* a list of items */
    int32_t *at;                 /* which they are; or those that are free to join */
};

/* May the item have a place in each room of the stage? */
static bool
may_join(const struct item *it, int32_t stage, const struct room *r)
{
    if (!it->again || it->stage != stage || it->abroad || (it->waits && !r->weights)) return false;
    return it->asked == r->nreg || (it->asked < r->nreg && !it->fixed && r->phases >> it->phase & 1);
}

/* In a room things live for one piece, as in a run of one piece; what weight gradients may wait for, to the end. */
static int32_t
leaves(const struct rooms *m, const struct item *it)
{
    return it->waits ? m->period : it->last - m->period;
}

/* The most that is there, from one position to another. */
static int64_t
most_load(const struct rooms *m, const struct load *load, int32_t first, int32_t last)
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
add_load(const struct rooms *m, const struct load *load, int32_t first, int32_t last, int64_t bytes)
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
clear_load(const struct rooms *m, const struct load *load)
{
    memset(load->most, 0, sizeof *load->most * 2 * (size_t)m->width);
    memset(load->add, 0, sizeof *load->add * 2 * (size_t)m->width);
}

/* Who has a place in each room: what has as many registers; and of what else may, one after the other, all for which a
 * room of so many bytes is large enough. Returns the bytes that it comes to. */
static int64_t
fill_room(struct rooms *m, int32_t stage, const struct room *r, int64_t bytes)
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

/* Those that join already. */
static void
fill_again(struct rooms *m)
{
    clear_load(m, &m->room);
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (it->joins) add_load(m, &m->room, it->first, leaves(m, it), it->bytes);
    }
}

/* Puts an item beside the rooms, or takes it from there (-1). */
static void
put_beside(struct rooms *m, const struct item *it, int sign)
{
    if (it->group && it->phase < PHASE_BATCH)
        add_load(m, &m->group[it->phase], it->first, it->last - m->period, sign * it->bytes);
    else
        m->alone += sign * it->bytes * it->asked;
}

/* What does not join. */
static void
fill_beside(struct rooms *m, int32_t stage)
{
    for (int phase = 0; phase < PHASE_BATCH; phase++) clear_load(m, &m->group[phase]);
    m->alone = 0;
    for (int32_t i = 0; i < m->nitem; i++) {
        const struct item *it = &m->item[i];
        if (it->again && it->stage == stage && !it->joins) put_beside(m, it, 1);
    }
}

/* What lies beside the rooms takes, a group at its worst moment. */
static int64_t
bytes_beside(const struct rooms *m)
{
    int64_t bytes = m->alone;
    for (int phase = 0; phase < PHASE_BATCH; phase++) bytes += most_of_all(&m->group[phase]);
    return bytes;
}

/* The items of a room, for one piece; at: which they are, -1 behind the last. */
static struct pack_items
list_room(const struct rooms *m, struct pack_item *p, int32_t *at)
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
move_in(struct rooms *m, struct room *r, const struct pack_item *p, const int32_t *at)
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

/* Is the room of a piece free for another as early as that is let in? */
static bool
leaves_early(const struct rooms *m, int32_t stage, uint8_t phase, int32_t nreg)
{
    struct moment forward = {stage, PHASE_FORWARD}, then = {stage, phase};
    return outline_credits(m->outline, forward, then) <= nreg;
}

/* ---- in and out ---- */

static int64_t
bytes_of(struct rooms *m, const struct room *r)
{
    m->looks--;
    return r->nreg * most_of_all(&m->room) + bytes_beside(m);
}

/* An item comes into the rooms, or leaves them. */
static void
turn(struct rooms *m, struct item *it)
{
    int sign = it->joins ? -1 : 1;
    add_load(m, &m->room, it->first, leaves(m, it), sign * it->bytes);
    put_beside(m, it, -sign);
    it->joins = !it->joins;
}

/* Turns an item, or two, if what it comes to is less then. */
static bool
is_better(struct rooms *m, const struct room *r, struct item *a, struct item *b, int64_t *least)
{
    turn(m, a);
    if (b) turn(m, b);
    int64_t bytes = bytes_of(m, r);
    if (bytes < *least) {
        *least = bytes;
        return true;
    }
    turn(m, a);
    if (b) turn(m, b);
    return false;
}

/* Those that may have a place in each room and need not. */
static int32_t
list_free(struct rooms *m, int32_t stage, const struct room *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->nitem; i++)
        if (m->item[i].asked != r->nreg && may_join(&m->item[i], stage, r)) m->at[n++] = i;
    return n;
}

/* From a room that is filled, whose n free items are listed: items go in and out, until that takes no less. */
static bool
go_in_and_out(struct rooms *m, const struct room *r, int32_t n)
{
    if (m->looks <= 0) return false;
    int64_t was = bytes_of(m, r), least = was;
    for (bool better = true; better && m->looks > 0;) {
        better = false;
        for (int32_t i = 0; i < n && m->looks > 0; i++) better |= is_better(m, r, &m->item[m->at[i]], NULL, &least);
    }
    return least < was;
}

/* Two change places. */
static bool
change_places(struct rooms *m, const struct room *r, int32_t n)
{
    int64_t was = bytes_of(m, r), least = was;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = i + 1; k < n && m->looks > 0; k++) {
            struct item *a = &m->item[m->at[i]], *b = &m->item[m->at[k]];
            if (a->joins != b->joins) is_better(m, r, a, b, &least);
        }
    return least < was;
}

/* ---- the best ---- */

static void
keep(const struct rooms *m, const struct room *r, int64_t bytes, struct trial *t)
{
    if (bytes >= t->bytes) return;
    t->bytes = bytes;
    t->best = *r;
    for (int32_t i = 0; i < m->nitem; i++) t->joins[i] = m->item[i].joins;
}

/* Those that join the best so far do. */
static void
restore(struct rooms *m, const struct trial *t)
{
    for (int32_t i = 0; i < m->nitem; i++) m->item[i].joins = t->joins[i];
}

/* Returns the bytes of a room that is filled, packed. */
static int64_t
pack_room(struct rooms *m, bool thorough)
{
    struct pack_items in = list_room(m, m->packed, m->at);
    in.thorough = thorough;
    return pack_offsets(&in, ARENA_ALIGN);
}

static void
try_packed(struct rooms *m, int32_t stage, const struct room *r, bool thorough)
{
    fill_beside(m, stage);
    keep(m, r, r->nreg * pack_room(m, thorough) + bytes_beside(m), &m->best);
}

/* What exchanges left shares more, which is order that tasks wait for: a little less is not worth that. */
static void
try_exchanged(struct rooms *m, int32_t stage)
{
    const struct trial *t = &m->rough[1];
    restore(m, t);
    fill_beside(m, stage);
    int64_t bytes = t->best.nreg * pack_room(m, true) + bytes_beside(m);
    if (bytes <= m->best.bytes - m->best.bytes / LEAST_GAIN) keep(m, &t->best, bytes, &m->best);
}

/* From the best so far: two change places, and others go in and out, until neither takes less. */
static void
exchange(struct rooms *m, int32_t stage, struct trial *t, int32_t n)
{
    const struct room *r = &t->best;
    restore(m, t);
    fill_again(m);
    fill_beside(m, stage);
    m->looks = MOST_LOOKS;
    while (change_places(m, r, n) && go_in_and_out(m, r, n)) continue;
    keep(m, r, bytes_of(m, r), t);
}

/* As small as they can be, as large, and what seems best of some between, before exchanges and after. */
static void
try_rooms(struct rooms *m, int32_t stage, struct room r)
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
        keep(m, &r, bytes_of(m, &r), &rough[0]);
        if (go_in_and_out(m, &r, n)) keep(m, &r, bytes_of(m, &r), &rough[1]);
    }
    restore(m, &rough[0]);
    keep(m, &rough[0].best, rough[0].bytes, &rough[1]);
    exchange(m, stage, &rough[1], n);
    restore(m, &rough[0]);
    try_packed(m, stage, &rough[0].best, true);
    try_exchanged(m, stage);
}

/* Does anything of the stage have so many registers? */
static bool
is_asked(const struct rooms *m, int32_t stage, int32_t nreg)
{
    bool asked = false;
    for (int32_t i = 0; i < m->nitem && !asked; i++)
        asked = m->item[i].again && m->item[i].stage == stage && m->item[i].asked == nreg;
    return asked;
}

/* A stage keeps as much of each piece: a room for one, as often as there may be pieces. While a piece comes back its
 * registers are free one by one, and what is at work then has a place in each room, or, where the room would grow by
 * more than that is worth, one beside them all. Where pieces leave forward and backward at different times, there are
 * rooms for those of either. */
void
rooms_find(struct rooms *m, int32_t stage, struct room *out)
{
    struct trial *t = &m->best;
    t->bytes = INT64_MAX;
    t->best = *out = (struct room){0};
    for (int32_t nreg = 2; nreg <= m->outline->program->pieces; nreg++) {
        struct room r = {.nreg = nreg, .weights = leaves_early(m, stage, PHASE_WEIGHT, nreg)};
        if (!is_asked(m, stage, nreg)) continue;
        r.phases = 1 << PHASE_FORWARD | (unsigned)leaves_early(m, stage, PHASE_BACKWARD, nreg) << PHASE_BACKWARD |
                   (unsigned)r.weights << PHASE_WEIGHT;
        try_rooms(m, stage, r);
    }
    if (!t->best.nreg) return;
    restore(m, t);
    int64_t bytes = pack_room(m, true);
    if (m->at[0] < 0) return;
    *out = t->best;
    out->bytes = bytes;
    move_in(m, out, m->packed, m->at);
}

struct rooms *
rooms_new(const struct outline *o, int32_t most, struct arena *a)
{
    struct rooms *m = ARENA_ARRAY(a, struct rooms, 1);
    *m = (struct rooms){.outline = o, .arena = a};
    m->packed = ARENA_ARRAY(a, struct pack_item, most + 1);
    m->at = ARENA_ARRAY(a, int32_t, most + 1);
    m->best.joins = ARENA_ARRAY(a, bool, most + 1);
    for (int k = 0; k < 2; k++) m->rough[k].joins = ARENA_ARRAY(a, bool, most + 1);
    return m;
}

static struct load
load_new(const struct rooms *m)
{
    return (struct load){ARENA_ARRAY(m->arena, int64_t, 2 * m->width), ARENA_ARRAY(m->arena, int64_t, 2 * m->width)};
}

void
rooms_begin(struct rooms *m, struct item *item, int32_t nitem, int32_t period)
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
