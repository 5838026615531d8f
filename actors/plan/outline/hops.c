/* hops.c - finds the hops that convert operands to the layouts needed by the steps.
 *
 * Steps are visited in the order of lowering, and their operands in order. A converted value is kept for all later
 * readers; intermediate values between two hops are not kept. The result of an explicit move of the user is a new
 * value: its readers' conversions start from it, as the planner and explain() assume. A pending reduction is
 * completed right after its addends are computed, if that saves memory. */
#include "actors/plan/outline/hops.h"
#include "actors/plan/outline/fusion.h"

#include "boxing/path.h"
#include "runtime/base/error.h"

/* The path by which tensors of one type are converted from one layout to another: one or more hops (collective
 * steps). */
struct way {
    struct type type;
    const struct layout *from, *to;
    const struct box_candidate *best;
    bool *named; /* by hop: true if no bytes move and only the layout's name changes */
};

/* A value in one layout, linked to copies of the value in other layouts. */
struct known {
    struct ref value;
    const struct layout *layout;
    struct known *moved;
};

struct finder {
    struct outline *o;
    struct atlas *atlas;
    struct arena tmp;
    struct way *way; /* distinct paths, without duplicates */
    int32_t nway, capacity;
    struct hash_table ways; /* index of each path in `way`, by tensor type and the two layouts */
    /* values that steps have needed so far: node[node * OP_OUT + out] for results, leaf[] for leaves; NULL: not
     * needed */
    struct known **node, **leaf;
};

/* ---- paths between two layouts ---- */

static int
add_path(struct finder *f, uint64_t hash, const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_path *path;
    TRY(box_path(&f->tmp, f->atlas, t, from, to, &f->o->program->cost, &path));
    ARENA_GROW(&f->tmp, f->way, f->nway + 1, f->capacity);
    struct way *w = &f->way[f->nway];
    *w = (struct way){.type = *t, .from = from, .to = to, .best = &path->candidate[0]};
    w->named = ARENA_ARRAY(&f->tmp, bool, w->best->nhop);
    for (int k = 0; k < w->best->nhop; k++)
        w->named[k] = layout_same_boxes(w->best->hop[k].from, w->best->hop[k].to, t);
    hash_add(&f->ways, hash, hash_index(f->nway++));
    return 0;
}

/* Finds or makes a path. *out is valid until the next call. */
static int
find_way(struct finder *f, const struct type *t, const struct layout *from, const struct layout *to,
         const struct way **out)
{
    uint64_t hash = layout_hash_move(t, from, to);
    uint32_t at = 0;
    for (const void *found; (found = hash_next(&f->ways, hash, &at));) {
        *out = &f->way[hash_index_of(found)];
        if ((*out)->from == from && (*out)->to == to && type_equal(&(*out)->type, t)) return 0;
    }
    TRY(add_path(f, hash, t, from, to));
    *out = &f->way[f->nway - 1];
    return 0;
}

/* ---- values ---- */

static struct known *
known_new(struct finder *f, struct ref value, const struct layout *layout)
{
    struct known k = {.value = value, .layout = layout};
    return arena_dup(&f->tmp, &k, sizeof k);
}

/* Returns the first entry of the list of a value's copies, which is the value in its original layout. Makes the
 * entry if it is missing. */
static struct known **
known_of(struct finder *f, struct ref r)
{
    struct known **k = r.kind == REF_LEAF ? &f->leaf[r.index] : &f->node[r.index * OP_OUT + r.out];
    if (!*k) *k = known_new(f, r, ref_layout(f->o->program, r));
    return k;
}

static void
add_hop(struct outline *o, const struct way *w, int turn, int32_t step, int operand, struct ref value)
{
    const struct box_hop *h = &w->best->hop[turn];
    ARENA_GROW(&o->arena, o->hop, o->nhop + 1, o->hop_capacity);
    o->hop[o->nhop++] = (struct hop){.step = step,
                                     .operand = (int16_t)operand,
                                     .turn = (int16_t)turn,
                                     .number = w->named[turn] ? -1 : o->nmove++,
                                     .value = value,
                                     .from = h->from,
                                     .to = h->to,
                                     .name = h->name};
}

/* Converts an operand to the layout `want`, or returns the existing copy in that layout. A node that offloads,
 * fetches or gathers again (prog_node.again) gets a separate copy, which no other node reads. */
static int
move_operand(struct finder *f, int32_t step, int operand, struct known *v, const struct layout *want,
             struct known **out)
{
    struct type t = ref_type(f->o->program, v->value);
    const struct way *w;
    bool anew = f->o->program->node[step].again > 0;
    *out = v;
    if (v->layout == want) return 0;
    for (*out = v->moved; *out && !anew; *out = (*out)->moved)
        if ((*out)->layout == want) return 0;
    TRY(find_way(f, &t, v->layout, want, &w));
    for (int k = 0; k < w->best->nhop; k++) add_hop(f->o, w, k, step, operand, v->value);
    *out = known_new(f, v->value, want);
    if (anew) return 0;
    (*out)->moved = v->moved;
    v->moved = *out;
    return 0;
}

/* ---- early sums ---- */

/* Least size of the addends on a rank for which a sum is computed early, bytes. Below this size an early sum does
 * not pay, because all ranks must synchronise for it. */
enum { EARLY_LEAST = 4096 };

/* Returns the bytes of the value on the first rank, which has the largest shard. */
static int64_t
bytes_there(const struct type *t, const struct layout *l)
{
    struct type local = layout_shard(l, t, 0);
    return type_bytes(&local);
}

bool
hops_early_fits(const struct type *t, const struct layout *from, const struct layout *to)
{
    if (!layout_has_partial(from) || to->place != from->place || layout_has_partial(to)) return false;
    int64_t bytes = bytes_there(t, from);
    return bytes >= EARLY_LEAST && bytes_there(t, to) <= bytes;
}

/* Returns true if operands of node i may be converted before the place right in front of the node, for example
 * right after they are computed. */
static bool
may_leave_open(const struct fusion *f, int32_t i)
{
    const struct prog_node *n = &f->program->node[i];
    return !n->again && !(n->op->flags & OP_MOVE && f->roots[i]);
}

bool
hops_early_open(const struct fusion *f, int32_t node)
{
    const struct program *p = f->program;
    const struct prog_node *n = &p->node[node];
    bool each_piece = p->pieces > 1 && n->piece && !n->accumulate;
    if (each_piece || f->roots[node] || n->op->flags & OP_MOVE) return false;
    for (int32_t k = f->reader_first[node]; k < f->reader_first[node + 1]; k++)
        if (!may_leave_open(f, f->reader[k])) return false;
    return true;
}

/* Returns the layout in which node i reads r; NULL: node i reads r in several layouts. */
static const struct layout *
wanted_layout(const struct outline *o, int32_t i, struct ref r)
{
    const struct prog_node *n = &o->program->node[i];
    const struct layout *want = NULL;
    for (int k = 0; k < n->nin; k++) {
        if (n->in[k].kind != REF_NODE || n->in[k].index != r.index || n->in[k].out != r.out) continue;
        if (want && want != hops_want(n, k)) return NULL;
        want = hops_want(n, k);
    }
    return want;
}

const struct layout *
hops_early(const struct outline *o, struct ref r)
{
    const struct fusion *f = &o->fusion;
    const struct prog_node *n = &o->program->node[r.index];
    const struct layout *to = NULL;
    if (!layout_has_partial(n->layout[r.out]) || !hops_early_open(f, r.index)) return NULL;
    for (int32_t k = f->reader_first[r.index]; k < f->reader_first[r.index + 1]; k++) {
        const struct layout *want = wanted_layout(o, f->reader[k], r);
        if (!want || (to && to != want)) return NULL;
        to = want;
    }
    return to && hops_early_fits(&n->type[r.out], n->layout[r.out], to) ? to : NULL;
}

static int
find_results(struct finder *f, int32_t step)
{
    int32_t member[FUSE_STEPS];
    int n = fusion_members(&f->o->fusion, step, member);
    for (int m = 0; m < n; m++)
        for (int k = 0; k < f->o->program->node[member[m]].nout; k++) {
            struct ref r = {REF_NODE, (uint8_t)k, member[m]};
            const struct layout *to = hops_early(f->o, r);
            struct known *there;
            if (to) TRY(move_operand(f, step, hops_result(m, k), *known_of(f, r), to, &there));
        }
    return 0;
}

/* ---- steps ---- */

const struct layout *
hops_want(const struct prog_node *n, int k)
{
    if (n->in[k].kind != REF_NODE && n->in[k].kind != REF_LEAF) return NULL;
    return n->op->flags & OP_MOVE ? n->layout[0] : n->want[k];
}

static int
find_chain(struct finder *f, int32_t step)
{
    const struct fusion *fusion = &f->o->fusion;
    int32_t member[FUSE_STEPS];
    struct ref in[FUSE_INPUTS];
    const struct layout *want[FUSE_INPUTS];
    int n = fusion_inputs(fusion, member, fusion_members(fusion, step, member), in, want);
    for (int i = 0; i < n; i++) {
        struct known *there;
        if (want[i]) TRY(move_operand(f, step, i, *known_of(f, in[i]), want[i], &there));
    }
    return 0;
}

static int
find_operands(struct finder *f, int32_t step)
{
    const struct prog_node *n = &f->o->program->node[step];
    if (f->o->fusion.group_size[step] > 1) return find_chain(f, step);
    for (int k = 0; k < n->nin; k++) {
        const struct layout *want = hops_want(n, k);
        if (!want) continue;
        struct known *v = *known_of(f, n->in[k]), *there;
        TRY(move_operand(f, step, k, v, want, &there));
        if (n->op->flags & OP_MOVE && !n->accumulate)
            f->node[step * OP_OUT] = n->asked && there != v ? known_new(f, there->value, there->layout) : there;
    }
    return 0;
}

static int
find_step(struct finder *f, int32_t step)
{
    /* the hops of a fused node are listed at the last node of its group */
    if (f->o->fusion.group[step] != step) return 0;
    TRY(find_operands(f, step));
    return find_results(f, step);
}

int
hops_find(struct outline *o, struct atlas *at)
{
    const struct program *p = o->program;
    struct finder f = {.o = o, .atlas = at};
    int status = 0;
    f.ways.arena = &f.tmp;
    f.node = ARENA_ARRAY(&f.tmp, struct known *, p->nnode * OP_OUT + 1);
    f.leaf = ARENA_ARRAY(&f.tmp, struct known *, p->nleaf + 1);
    for (int32_t i = 0; i < p->nnode && !status; i++) {
        status = find_step(&f, i);
        const struct line *line = &p->node[i].line;
        if (status && line->file) err_note("%s:%d", line->file, line->line);
    }
    arena_fini(&f.tmp);
    return status;
}
