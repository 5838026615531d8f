/* name.c - finds the usual name of a move, and prints the steps of its plan.
 *
 * On one mesh, a table of (SBP entry before, SBP entry after) gives the effect of the move along each axis, such as
 * an all-gather. The move has a name if all axes that change have the same effect. Between two meshes only simple
 * moves have a name. */
#include "boxing/name.h"
#include "boxing/bytes.h"
#include "boxing/grid.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

/* What a move does along one mesh axis. STAY: the entry stays. LOCAL: ranks slice what they hold. Both send nothing.
 * If the effects of several axes are combined, STAY and LOCAL yield to the effects listed after them. */
enum turn { STAY, LOCAL, GATHER, ALL_TO_ALL, REDUCE_SCATTER, ALL_REDUCE, MIXED };
static const char *const turn_text[] = {"permute",        "slice",      "all-gather", "all-to-all",
                                        "reduce-scatter", "all-reduce", "exchange"};
static const uint8_t turn_of[3][3] = {
    [SBP_S] = {[SBP_S] = ALL_TO_ALL, [SBP_B] = GATHER, [SBP_P] = LOCAL},
    [SBP_B] = {[SBP_S] = LOCAL, [SBP_B] = STAY, [SBP_P] = LOCAL},
    [SBP_P] = {[SBP_S] = REDUCE_SCATTER, [SBP_B] = ALL_REDUCE, [SBP_P] = STAY},
};

/* Combines what a move does along two axes: returns the effect that is neither STAY nor LOCAL; MIXED if the axes
 * have two different effects of this kind. */
static enum turn
combine_turns(enum turn a, enum turn b)
{
    if (a == b || b == STAY) return a;
    if (a == STAY) return b;
    return a == LOCAL ? b : b == LOCAL ? a : MIXED;
}

static bool
same_mesh(const struct place *p, const struct place *q)
{
    return p->naxis == q->naxis && !memcmp(p->axis, q->axis, sizeof *p->axis * p->naxis);
}

static bool
same_devices(const struct place *p, const struct place *q)
{
    if (p->kind != q->kind || p->nrank != q->nrank) return false;
    for (int i = 0; i < p->nrank; i++)
        if (place_find(q, p->rank[i]) < 0) return false;
    return true;
}

static bool
same_named_entry(struct sbp a, struct sbp b)
{
    return a.kind == b.kind && (a.kind != SBP_S || (a.axis == b.axis && a.unit == b.unit));
}

/* Returns what the move does along all its axes together (enum turn); MIXED if axes that send do different things.
 * Both meshes must have the same shape. */
static enum turn
turn_by_axis(const struct layout *from, const struct layout *to)
{
    enum turn t = STAY;
    for (int a = 0; a < from->place->naxis; a++) {
        struct sbp x = from->sbp[a], y = to->sbp[a];
        if (from->place->axis[a] > 1 && !same_named_entry(x, y)) t = combine_turns(t, turn_of[x.kind][y.kind]);
    }
    return t;
}

/* Returns the kind of SBP entry that all axes with more than one rank have; -1: the kinds differ. Returns B if all
 * axes have one rank. */
static int
only_kind(const struct layout *l)
{
    int kind = -1;
    for (int a = 0; a < l->place->naxis; a++) {
        if (l->place->axis[a] == 1) continue;
        if (kind >= 0 && kind != l->sbp[a].kind) return -1;
        kind = l->sbp[a].kind;
    }
    return kind < 0 ? SBP_B : kind;
}

const char *
box_name(const struct type *t, const struct layout *from, const struct layout *to)
{
    const struct place *p = from->place, *q = to->place;
    if (layout_same_boxes(from, to, t)) return "none";
    if (box_bytes(t, from, to) == 0) return "slice";
    int x = only_kind(from), y = only_kind(to);
    if (p == q) {
        enum turn turn = turn_by_axis(from, to);
        /* Here bytes are sent. With LOCAL no axis sends by itself, but several axes cut one dimension: the change of
         * an outer cut has moved the parts of an inner one. */
        return turn_text[turn == LOCAL ? MIXED : turn];
    }
    if (same_mesh(p, q) && turn_by_axis(from, to) == STAY && x != SBP_B && !layout_has_partial(from)) return "permute";
    if (x == SBP_B && y == SBP_B) return p->nrank == q->nrank && p->nrank == 1 ? "permute" : "broadcast";
    if (same_devices(p, q) && x >= 0 && y >= 0) return turn_text[turn_of[x][y]];
    return "exchange";
}

/* ---- print steps as text ---- */

enum {
    MANY = 6,   /* maximum number of steps in a line, and of sources in a step; further ones are omitted */
    LINES = 64, /* maximum number of lines */
};

static void
print_slice(const struct box_plan *p, const struct box *b, struct str *s)
{
    str_add(s, "[");
    for (int d = 0; d < p->type.ndim; d++)
        str_addf(s, "%s%lld:%lld", d ? ", " : "", (long long)b->lo[d], (long long)b->hi[d]);
    str_add(s, "]");
}

static void
print_plan_step(const struct box_plan *p, const struct box_step *step, struct str *s)
{
    static const char *const verb[] = {[BOX_COPY] = "copy", [BOX_REDUCE] = "", [BOX_FILL] = "fill"};
    str_add(s, step->verb == BOX_REDUCE ? reduce_text(step->reduce) : verb[step->verb]);
    str_add(s, " ");
    print_slice(p, step->slice, s);
    if (step->verb == BOX_FILL) str_addf(s, " with the neutral value of %s", reduce_text(step->reduce));
    for (int k = 0; k < MIN(step->nsource, MANY); k++)
        str_addf(s, "%s%d%s", k ? ", " : " from ", step->source[k].rank,
                 step->source[k].stage == BOX_PART ? "" : "'s share");
    if (step->nsource > MANY) str_addf(s, ", ... (%d in total)", step->nsource);
}

/* Prints the steps of a rank in one line, without the rank's number. */
static void
print_work(const struct box_plan *p, const struct box_work *w, struct str *s)
{
    str_clear(s);
    for (int32_t i = 0; i < MIN(w->nstep, MANY); i++) {
        if (i > 0) str_add(s, "; ");
        print_plan_step(p, &w->step[i], s);
    }
    if (w->nstep > MANY) str_addf(s, "; ... (%d in total)", w->nstep);
}

/* Returns the i-th work (steps of one rank) of a plan: first the stages, then the destination shards; NULL: no
 * more. */
static const struct box_work *
work_at(const struct box_plan *p, int32_t i)
{
    if (i < p->nstage) return &p->stage[i].work;
    return i - p->nstage < p->npart ? &p->part[i - p->nstage] : NULL;
}

static int64_t
steps_from(const struct box_plan *p, int32_t i)
{
    int64_t n = 0;
    for (const struct box_work *w; (w = work_at(p, i)); i++) n += w->nstep;
    return n;
}

void
box_relay_print(int32_t nleg, bool back, int32_t nchunk, struct str *s)
{
    str_addf(s, ", in %d segments%s, %d chunks", (int)nleg, back ? " and back" : "", (int)nchunk);
}

/* Prints the steps of all ranks. Consecutive ranks with equal steps share a line. */
void
box_print(const struct box_plan *p, struct str *s)
{
    struct str line = {0}, next = {0};
    int nline = 0;
    if (p->alias) str_add(s, "every rank already has its shard\n");
    for (int32_t i = 0; work_at(p, i);) {
        const struct box_work *w = work_at(p, i++), *more;
        bool stage = i <= p->nstage;
        if (w->nstep == 0) continue;
        if (nline++ == LINES) {
            str_addf(s, "... (%lld more steps)\n", (long long)steps_from(p, i - 1));
            break;
        }
        print_work(p, w, &line);
        str_addf(s, "%d", w->rank);
        for (; (more = work_at(p, i)) && stage == (i < p->nstage); i++) {
            if (more->nstep == 0) continue;
            print_work(p, more, &next);
            if (strcmp(str_text(&line), str_text(&next))) break;
            str_addf(s, ", %d", more->rank);
        }
        str_addf(s, "%s: %s\n", stage ? " prepares" : "", str_text(&line));
    }
    str_free(&line);
    str_free(&next);
}
