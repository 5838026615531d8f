/* chain.c - compiles a chain of element-wise calls into a program (chain.h). Decides where operands and results are
 * stored, which steps form a part, and the block size. */
#include "kernels/cpu/eltwise/chain.h"

#include "runtime/base/error.h"
#include "runtime/base/simd.h"

enum { SHORT_ROW = 128 }; /* rows shorter than this are not divided: a block then has one or more whole rows */
/* Minimum row length for which tile.c reads an operand with one element per row as a scalar: NUMBERED_ROW
 * elements, or NUMBERED_ALONE in a chain of one step. COLUMN_LONGEST: maximum rows in a block with such operands. */
enum { NUMBERED_ROW = 128, NUMBERED_ALONE = 32, COLUMN_LONGEST = 1024 };
/* Sizes of blocks, elements. LONG_BLOCK is used if a chain needs no scratch. */
enum { BLOCK = 1024, LEAST_BLOCK = 256, LONG_BLOCK = 1 << 20 };
/* Sizes in bytes. CACHE_BYTES: scratch of a block, about half of a first-level cache.
 * FAR_BYTES: least size of an operand that is prefetched. UNREAD_BYTES: least size of a result that is streamed
 * past the caches if nothing reads it soon. PAST_BYTES: least size of any result that is streamed, and of an
 * operand that is prefetched on cores with a good hardware prefetcher.
 *
 * Times of add on one Zen 1 core:
 *
 *                   without prefetching  with prefetching
 *   f32{256,768}                  33 us             59 us
 *   16 M elements               19.2 ms           12.4 ms */
enum { CACHE_BYTES = 24 << 10, FAR_BYTES = 256 << 10, UNREAD_BYTES = 1 << 20, PAST_BYTES = 32 << 20 };
enum {
    INSTRUCTIONS = 7
}; /* maximum number of instructions per step: three prefetches, two moves, the operation, a rounding */

/* ---- calls ---- */

struct call *
call_copy(struct arena *a, const struct call *c)
{
    struct call *copy = arena_dup(a, c, sizeof *c);
    copy->in = arena_dup(a, c->in, sizeof *c->in * (size_t)c->nin);
    copy->out = arena_dup(a, c->out, sizeof *c->out * (size_t)c->nout);
    copy->attr = arena_dup(a, c->attr, sizeof *c->attr * (size_t)op_nattr(c->op));
    copy->layout = NULL;
    return copy;
}

enum compute
chain_type(const struct call *c)
{
    struct promotion p = {0};
    for (int i = 0; i < c->nin; i++) promotion_add(&p, &c->in[i]);
    enum compute type = compute_of(promotion_end(&p));
    return type == COMP_I64 && !c->op->eltwise.i ? COMP_F64 : type;
}

/* Returns the compute type of a step: i32 instead of i64 if the result is the same. A Lua number (weak type) counts
 * as i64. */
static enum compute
step_type(const struct call *c)
{
    enum compute type = chain_type(c);
    int op = c->op->eltwise.tile;
    bool narrow = type == COMP_I64 && op != TILE_NONE && compute_narrow((enum dtype)c->out[0].dtype);
    for (int i = 0; i < c->nin && narrow; i++) {
        const struct type *in = &c->in[i];
        narrow = compute_narrow((enum dtype)in->dtype) || (in->weak && tile_wraps(op));
    }
    return narrow ? COMP_I32 : type;
}

/* ---- lanes: the layouts of operands and outputs, as strides of the loops ---- */

/* Returns the stride of view v in dimension d of loops over ndim dimensions; 0 if the view is broadcast along d. */
static int64_t
broadcast_stride(const struct view *v, int d, int ndim)
{
    int own = d - (ndim - v->ndim);
    return own < 0 || v->dim[own] == 1 ? 0 : v->stride[own];
}

/* Makes loops over the dimensions of `walk`. Leaves out dimensions of size one. Merges neighbouring dimensions
 * that are contiguous in every operand and output (lane). */
static void
make_loops(struct elt *e, const struct view *walk, const struct view *const *view)
{
    int nlane = e->nin + e->nout;
    for (int d = 0; d < walk->ndim; d++) {
        if (walk->dim[d] == 1) continue;
        int k = e->nloop - 1;
        bool merge = k >= 0;
        for (int i = 0; i < nlane && merge; i++)
            merge = e->lane[i].stride[k] == broadcast_stride(view[i], d, walk->ndim) * walk->dim[d];
        if (!merge) e->size[k = e->nloop++] = 1;
        e->size[k] *= walk->dim[d];
        for (int i = 0; i < nlane; i++) e->lane[i].stride[k] = broadcast_stride(view[i], d, walk->ndim);
    }
    if (e->nloop == 0) e->size[e->nloop++] = 1;
    e->numel = view_numel(walk);
    e->row = e->size[e->nloop - 1];
}

static bool
lane_linear(const struct elt *e, const struct lane *l)
{
    int64_t want = 1;
    for (int k = e->nloop - 1; k >= 0; k--) {
        if (e->size[k] > 1 && l->stride[k] != want) return false;
        want *= e->size[k];
    }
    return true;
}

static bool
lane_constant(const struct elt *e, const struct lane *l)
{
    for (int k = 0; k < e->nloop; k++)
        if (l->stride[k] != 0) return false;
    return true;
}

/* Returns true if the operand (lane) has one element per row, and rows are so long that tile.c reads the element
 * as a scalar. On one Zen 4 (EPYC) core, f32{512, 1024} and f32{512, 1} then take 48 us instead of 226. */
static bool
lane_by_row(const struct elt *e, const struct lane *l)
{
    return e->row >= (e->nstep == 1 ? NUMBERED_ALONE : NUMBERED_ROW) && l->stride[e->nloop - 1] == 0;
}

static bool
lane_repeats(const struct elt *e, const struct lane *l)
{
    for (int k = 0; k < e->nloop - 1; k++)
        if (l->stride[k] != 0) return false;
    return l->stride[e->nloop - 1] == 1;
}

/* Returns true if the elements of a block are contiguous in memory in this operand or output (lane). */
static bool
lane_runs(const struct elt *e, const struct lane *l)
{
    return e->rows ? l->linear : l->stride[e->nloop - 1] == 1 || e->row == 1;
}

void
chain_lanes(struct elt *e, const struct view *walk, const struct view *const *view)
{
    int nlane = e->nin + e->nout;
    for (int i = 0; i < nlane; i++) {
        e->lane[i].dtype = view[i]->dtype;
        e->lane[i].bytes = dtype_bytes(view[i]->dtype);
    }
    make_loops(e, walk, view);
    bool linear_out = true;
    for (int i = 0; i < nlane; i++) {
        e->lane[i].linear = lane_linear(e, &e->lane[i]);
        e->lane[i].repeats = lane_repeats(e, &e->lane[i]);
        if (i >= e->nin) linear_out = linear_out && e->lane[i].linear;
    }
    e->rows = e->numel > 0 && e->nloop > 1 && e->row < SHORT_ROW && linear_out;
}

/* Marks the operands to prefetch, and the outputs to stream past the caches. An output is streamed if the
 * last-level cache would keep little of it for a reader. unread: no reader follows soon, so smaller outputs are
 * streamed, too. Short rows are neither prefetched nor streamed: they are no complete tiles, which are copied, and a
 * program of a single operation processes them without tiles. f32{8192, 64} less a column, on a Xeon (Emerald
 * Rapids): 330 us with prefetches, 195 us without; f32{2048, 64}: 89 and 19 us.
 *
 * A single operation needs no tiles either if it uses one row for all rows. Such a chain prefetches from memory only,
 * not from the last-level cache. f32{256, 3072} plus a row: 306 us with prefetches, 242 us
 * without; f32{8192, 3072}: 12.1 and 14.2 ms. */
static void
mark_far(struct elt *e, bool unread)
{
    bool from_memory = machine_fetches_ahead();
    if (e->rows) return;
    for (int i = 0; i < e->nin; i++) from_memory |= e->nstep == 1 && e->lane[i].repeats;
    for (int i = 0; i < e->nin + e->nout; i++) {
        struct lane *l = &e->lane[i];
        size_t bytes = (size_t)e->numel * l->bytes;
        l->far = l->linear && bytes >= (from_memory ? PAST_BYTES : FAR_BYTES);
        l->passes = i >= e->nin && l->linear && bytes >= (unread ? UNREAD_BYTES : PAST_BYTES);
    }
}

/* ---- slots: the operands and earlier results that steps read ---- */

static struct site
new_area(struct elt *e, enum compute type, enum slot_kind kind)
{
    struct area *a = &e->area[e->narea];
    *a = (struct area){.unit = (int)compute_bytes(type)};
    a->holds = kind == SLOT_NUMBER ? AREA_TILE : kind == SLOT_COLUMN ? AREA_COLUMN : AREA_BLOCK;
    return (struct site){IN_SCRATCH, e->narea++};
}

/* Returns the index of the slot that equals `want`; adds the slot if it is missing. A slot is an operand or an
 * earlier result, in the form in which a step reads it. */
static int
chain_slot(struct elt *e, struct slot want)
{
    for (int s = 0; s < e->nslot; s++) {
        const struct slot *have = &e->slot[s];
        if (have->kind == want.kind && have->index == want.index && have->type == want.type) return s;
    }
    want.at = (struct site){NOWHERE, 0};
    if (want.kind == SLOT_DIRECT)
        want.at.lane = want.index;
    else if (want.kind != SLOT_ABSENT && want.kind != SLOT_RESULT)
        want.at = new_area(e, want.type, want.kind);
    want.sibling = -1;
    e->loads = e->loads || want.kind == SLOT_LOADED || want.kind == SLOT_COLUMN;
    e->slot[e->nslot] = want;
    return e->nslot++;
}

/* Returns true if tile.c can read argument k of the step as a scalar. This requires that the step has two
 * arguments and the other one is not a scalar. */
static bool
is_beside_elements(const struct elt *e, const struct fuse_step *step, int k)
{
    const struct call *c = step->call;
    if (c->op->eltwise.tile == TILE_NONE || c->nin != 2) return false;
    const struct fuse_arg *other = &step->arg[1 - k];
    return other->step || (other->index >= 0 && e->lane[other->index].stride[e->nloop - 1] != 0);
}

/* Returns true if d is a 16-bit float type that tile.c reads and writes directly in this step. */
static bool
loads_halves(enum dtype d, const struct step *s)
{
    return dtype_is_half(d) && s->tile && s->type == COMP_F32;
}

/* Returns the slot from which the step reads its argument k, which is an operand of the chain. */
static int
operand_slot(struct elt *e, const struct fuse_step *step, int k, const struct step *by)
{
    enum compute type = by->type;
    int index = step->arg[k].index;
    if (index < 0) /* the operand is absent */
        return chain_slot(e, (struct slot){.index = index, .type = type, .kind = SLOT_ABSENT});
    const struct lane *l = &e->lane[index];
    struct slot s = {.index = index, .type = type, .kind = SLOT_LOADED};
    if (l->dtype == DT_NONE)
        s.kind = SLOT_ABSENT;
    else if (lane_constant(e, l) && (e->numel > 1 || l->dtype != compute_dtype(type)))
        s.kind = by->tile ? SLOT_NUMBER : SLOT_CONSTANT;
    else if ((l->dtype == compute_dtype(type) || loads_halves(l->dtype, by)) && lane_runs(e, l))
        s.kind = SLOT_DIRECT;
    else if (lane_by_row(e, l) && is_beside_elements(e, step, k))
        s.kind = SLOT_COLUMN;
    return chain_slot(e, s);
}

/* Returns true if rounding the step's values to d is exact, because each value is 0, 1, -1 or an operand of dtype
 * d, perhaps negated. */
static bool
chooses(const struct step *s, enum dtype d)
{
    const struct eltwise *w = &s->call->op->eltwise;
    int chosen = tile_chooses(w->tile);
    for (int k = 0; k < s->narg; k++) {
        const struct type *in = &s->call->in[k];
        if (chosen >> k & 1 && in->dtype != DT_NONE && (in->dtype != d || in->weak)) return false;
    }
    return chosen != TILE_COMPUTES;
}

/* Returns true if storing the step's results in their dtype and loading them again does not change them. */
static bool
exact(const struct step *s)
{
    enum dtype d = s->call->out[0].dtype;
    if (d == DT_BOOL) return tile_gives_truth(s->call->op->eltwise.tile);
    return d == compute_dtype(s->type) || (loads_halves(d, s) && chooses(s, d));
}

static int
result_slot(struct elt *e, int index, enum compute type)
{
    struct step *from = &e->step[index];
    bool as_it_is = from->type == type && exact(from);
    int n = e->nslot;
    int s = chain_slot(e, (struct slot){.kind = as_it_is ? SLOT_RESULT : SLOT_CONVERTED, .index = index, .type = type});
    if (s == n && !as_it_is) {
        e->slot[s].sibling = from->converted;
        from->converted = s;
    }
    return s;
}

static void
make_slots(struct arena *a, struct elt *e, const struct fuse_step *step)
{
    for (int i = 0; i < e->nstep; i++) {
        struct step *s = &e->step[i];
        *s = (struct step){.call = call_copy(a, step[i].call), .out = step[i].out, .narg = step[i].call->nin};
        s->type = step_type(s->call);
        s->tile = s->call->op->eltwise.tile != TILE_NONE;
        s->converted = s->value = -1;
        s->at = (struct site){NOWHERE, 0};
        for (int k = 0; k < s->narg; k++)
            if (!step[i].arg[k].step) s->arg[k] = operand_slot(e, &step[i], k, s);
    }
    e->noperand = e->nslot;
    for (int i = 0; i < e->nstep; i++)
        for (int k = 0; k < e->step[i].narg; k++)
            if (step[i].arg[k].step) e->step[i].arg[k] = result_slot(e, step[i].arg[k].index, e->step[i].type);
}

/* ---- parts ---- */

/* Returns the step whose result is argument k of step i; -1: none. */
static int
chain_source(const struct elt *e, int i, int k)
{
    const struct slot *s = &e->slot[e->step[i].arg[k]];
    return s->kind == SLOT_RESULT || s->kind == SLOT_CONVERTED ? s->index : -1;
}

/* Returns true if `other` and s can be computed in one pass over a common operand (`beside` in struct eltwise). */
static bool
is_beside(const struct step *other, const struct step *s)
{
    const struct op *op = s->call->op;
    return op->eltwise.beside == other->call->op && op->eltwise.f32_beside && s->type == COMP_F32 &&
           other->type == COMP_F32 && s->arg[0] == other->arg[0] && op_attr_same(op, s->call->attr, other->call->attr);
}

/* Returns true if argument k of step i can be the previous step's value, which is still in registers. If that
 * step's result is a 16-bit float, the value is rounded in the registers first. */
static bool
takes_value(const struct elt *e, int i, int k)
{
    if (chain_source(e, i, k) != i - 1) return false;
    const struct slot *s = &e->slot[e->step[i].arg[k]];
    const struct step *from = &e->step[i - 1];
    return s->kind == SLOT_RESULT || (s->type == COMP_F32 && loads_halves((enum dtype)from->call->out[0].dtype, from));
}

/* Returns true if step i can be added to the part, that is, computed in one pass with the steps before it.
 * Results are converted only after the whole part, so the step may not read a converted result of the part from
 * memory. It may read the last value, which is in registers. */
static bool
part_has_step(const struct elt *e, const struct part *p, int i)
{
    const struct step *first = &e->step[p->first];
    if (p->first == p->last && is_beside(first, &e->step[i])) return true;
    if (!e->step[i].tile || !first->tile || e->step[i].type != first->type) return false;
    int nvalue = 0;
    for (int k = 0; k < e->step[i].narg; k++) {
        if (e->slot[e->step[i].arg[k]].kind != SLOT_CONVERTED || chain_source(e, i, k) < p->first) continue;
        if (!takes_value(e, i, k) || nvalue++) return false;
    }
    return true;
}

static void
make_parts(struct elt *e)
{
    for (int i = 0; i < e->nstep; i++) {
        struct part *p = e->npart > 0 ? &e->part[e->npart - 1] : NULL;
        if (!p || !part_has_step(e, p, i)) {
            e->part[e->npart++] = (struct part){.first = i, .last = i};
            continue;
        }
        struct step *s = &e->step[i];
        p->last = i;
        for (int k = s->narg - 1; k >= 0; k--)
            if (takes_value(e, i, k)) s->value = k;
    }
}

/* Finds the last step that reads each result from memory, and which results must be stored. */
static void
chain_find_readers(struct elt *e)
{
    for (int p = 0; p < e->npart; p++) {
        for (int i = e->part[p].first; i <= e->part[p].last; i++) {
            struct step *s = &e->step[i];
            s->stored = s->out >= 0 || !s->tile;
            s->last = s->out >= 0 || s->converted >= 0 ? e->part[p].last : i;
        }
    }
    for (int i = 0; i < e->nstep; i++)
        for (int k = 0; k < e->step[i].narg; k++) {
            int from = chain_source(e, i, k);
            if (from < 0 || k == e->step[i].value) continue;
            e->step[from].stored = true;
            e->step[from].last = MAX(e->step[from].last, i);
            e->slot[e->step[i].arg[k]].read = true;
        }
    for (int s = 0; s < e->nslot; s++)
        if (e->slot[s].kind == SLOT_CONVERTED && !e->slot[s].read) e->area[e->slot[s].at.area].holds = AREA_NOTHING;
}

/* Returns true if a later step reads the result from memory instead of from registers. */
static bool
is_read(const struct elt *e, int index)
{
    for (int i = index + 1; i < e->nstep; i++)
        for (int k = 0; k < e->step[i].narg; k++)
            if (k != e->step[i].value && chain_source(e, i, k) == index) return true;
    return false;
}

/* Returns the scratch buffer (area) in which step `index` stores its result. Reuses the area of an earlier result
 * that neither this step nor a later one reads; otherwise adds an area. */
static struct site
result_area(struct elt *e, int index)
{
    const struct step *s = &e->step[index];
    for (int i = 0; i < index; i++) {
        struct step *past = &e->step[i];
        if (past->at.lane != IN_SCRATCH || past->last >= index || compute_bytes(past->type) != compute_bytes(s->type))
            continue;
        /* step i's result is now overwritten, so no later step may take over the area from step i */
        past->last = RUN_STEP;
        return past->at;
    }
    return new_area(e, s->type, SLOT_RESULT);
}

/* Chooses for each stored result whether its output or scratch holds it. */
static void
place_results(struct elt *e)
{
    for (int i = 0; i < e->nstep; i++) {
        struct step *s = &e->step[i];
        if (!s->stored) continue;
        if (s->out >= 0) {
            const struct lane *l = &e->lane[e->nin + s->out];
            bool as_halves = loads_halves(l->dtype, s) && !is_read(e, i);
            s->in_place = (l->dtype == compute_dtype(s->type) || as_halves) && lane_runs(e, l);
        }
        s->at = s->in_place ? (struct site){e->nin + s->out, 0} : result_area(e, i);
    }
}

struct site
chain_site(const struct elt *e, int slot)
{
    const struct slot *s = &e->slot[slot];
    return s->kind == SLOT_RESULT ? e->step[s->index].at : s->at;
}

/* ---- blocks ---- */

/* Returns true if a block may span rows: every output is contiguous from row to row, and so is every operand that
 * is read in place. For tile.c, such an operand may also have one row for all rows. */
static bool
spans_rows(const struct elt *e)
{
    bool can = e->nloop > 1;
    for (int i = 0; i < e->nout; i++) can = can && e->lane[e->nin + i].linear;
    for (int i = 0; i < e->nstep; i++) {
        for (int k = 0; k < e->step[i].narg; k++) {
            const struct slot *s = &e->slot[e->step[i].arg[k]];
            if (s->kind != SLOT_DIRECT) continue;
            const struct lane *l = &e->lane[s->index];
            can = can && (l->linear || (e->step[i].tile && l->repeats));
        }
    }
    return can;
}

/* Chooses the block size. The more scratch buffers (areas) a chain has, the shorter its blocks, so that all areas
 * fit into the first-level cache. */
static void
choose_block(struct elt *e)
{
    int64_t unit = 0;
    bool columns = false;
    for (int i = 0; i < e->narea; i++) {
        unit += e->area[i].holds == AREA_BLOCK ? e->area[i].unit : 0;
        columns = columns || e->area[i].holds == AREA_COLUMN;
    }
    int64_t most = unit == 0 ? LONG_BLOCK : MIN(BLOCK, MAX(CACHE_BYTES / unit / 64 * 64, LEAST_BLOCK));
    e->block = MIN(e->numel, most);
    if (!e->rows && e->numel > 0 && e->numel / e->threads >= e->row)
        e->rows = (unit == 0 || e->row <= most / 2) && spans_rows(e);
    if (!e->rows) return;
    int64_t rows = MAX(e->block / e->row, 1);
    e->block = (columns ? MIN(rows, COLUMN_LONGEST) : rows) * e->row;
}

static void
lay_out_scratch(struct elt *e)
{
    e->scratch = ((size_t)e->ncode * sizeof(struct tile_step) + 63) / 64 * 64;
    for (int i = 0; i < e->narea; i++) {
        struct area *a = &e->area[i];
        a->at = e->scratch;
        int64_t n = a->holds == AREA_TILE ? TILE_LONGEST : e->block;
        if (a->holds == AREA_COLUMN) n = e->rows ? e->block / e->row : 1;
        if (a->holds == AREA_NOTHING) n = 0;
        e->scratch += ((size_t)n * (size_t)a->unit + 63) / 64 * 64;
    }
}

/* ---- writing the programs for tile.c ---- */

static struct instruction *
emit_instruction(struct elt *e, int code)
{
    e->code[e->ncode] = (struct instruction){.code = code};
    return &e->code[e->ncode++];
}

static bool
is_number(const struct elt *e, int slot)
{
    return e->slot[slot].kind == SLOT_NUMBER || e->slot[slot].kind == SLOT_COLUMN;
}

/* Returns how tile.c addresses memory of dtype d. repeats: true if one row in memory is used for all rows. */
static enum tile_way
tile_way_of(enum dtype d, bool repeats)
{
    if (d == DT_BF16) return repeats ? TILE_REPEATS_BF16 : TILE_WALKS_BF16;
    if (d == DT_F16) return repeats ? TILE_REPEATS_F16 : TILE_WALKS_F16;
    return repeats ? TILE_REPEATS : TILE_WALKS;
}

static void
emit_operand(struct elt *e, struct instruction *to, int slot)
{
    struct site at = chain_site(e, slot);
    bool repeats = e->rows && at.lane >= 0 && !e->lane[at.lane].linear;
    enum dtype d = at.lane >= 0 ? e->lane[at.lane].dtype : DT_NONE;
    enum tile_way way = tile_way_of(d, repeats);
    if (is_number(e, slot)) way = e->rows && e->slot[slot].kind == SLOT_COLUMN ? TILE_BY_ROW : TILE_STAYS;
    to->way[to->nat] = way;
    to->at[to->nat++] = at;
}

static void
emit_fetches(struct elt *e, const struct step *s)
{
    for (int k = 0; k < s->narg; k++) {
        const struct slot *t = &e->slot[s->arg[k]];
        if (t->kind == SLOT_DIRECT && e->lane[t->index].far)
            emit_operand(e, emit_instruction(e, TILE_FETCH), s->arg[k]);
    }
}

/* Returns the argument to load into registers if the step uses no earlier value: the first argument that is not a
 * scalar; 0 if all are scalars. */
static int
first_value(const struct elt *e, const struct step *s)
{
    for (int k = 0; k < s->narg; k++)
        if (!is_number(e, s->arg[k]) && e->slot[s->arg[k]].kind != SLOT_ABSENT) return k;
    return 0;
}

/* Adds the instruction of a step. Argument `value` is the value in registers; the other arguments are in memory. */
static void
emit_operation(struct elt *e, const struct step *s, int value)
{
    int op = s->call->op->eltwise.tile, n = 0, before = 0, slot[OP_OPERAND];
    bool numbers = true;
    for (int k = 0; k < s->narg; k++) {
        if (e->slot[s->arg[k]].kind == SLOT_ABSENT) {
            op = tile_without(op, k);
        } else if (k != value) {
            before += k < value;
            numbers = numbers && is_number(e, s->arg[k]);
            slot[n++] = s->arg[k];
        }
    }
    numbers = numbers && (n == 1 || (op == TILE_CLAMP && n == 2 && before == 0));
    struct instruction *it = emit_instruction(e, tile_code(op, before) + (!numbers ? 0
                                                                          : n == 1 ? TILE_NUMBER
                                                                                   : TILE_NUMBERS));
    for (int k = 0; k < n; k++) {
        emit_operand(e, it, slot[k]);
        e->slot[slot[k]].wide |= !numbers;
    }
}

static void
emit_store(struct elt *e, const struct step *s)
{
    const struct lane *l = s->at.lane >= 0 ? &e->lane[s->at.lane] : NULL;
    enum dtype d = l ? l->dtype : compute_dtype(s->type);
    bool past = s->in_place && l->passes && d == compute_dtype(s->type);
    struct instruction *it = emit_instruction(e, past ? TILE_STREAM : d == DT_BF16 && exact(s) ? TILE_CUT : TILE_STORE);
    it->way[0] = tile_way_of(d, false);
    it->at[it->nat++] = s->at;
    e->streams = e->streams || past;
}

static void
emit_step(struct elt *e, int i)
{
    const struct step *s = &e->step[i];
    int value = s->value < 0 ? first_value(e, s) : s->value;
    emit_fetches(e, s);
    if (s->value < 0) {
        emit_operand(e, emit_instruction(e, TILE_LOAD), s->arg[value]);
        e->slot[s->arg[value]].wide = true;
    }
    emit_operation(e, s, value);
    if (s->stored) emit_store(e, s);
}

/* Adds an instruction that rounds step i's value to its dtype, for the next step of the part. Storing the value
 * would round it in the same way. */
static void
emit_rounding(struct elt *e, int i)
{
    int k = e->step[i + 1].value;
    if (k < 0 || e->slot[e->step[i + 1].arg[k]].kind != SLOT_CONVERTED) return;
    emit_instruction(e, e->step[i].call->out[0].dtype == DT_F16 ? TILE_ROUND_F16 : TILE_ROUND_BF16);
}

static void
emit_parts(struct elt *e)
{
    for (int p = 0; p < e->npart; p++) {
        struct part *part = &e->part[p];
        if (!e->step[part->first].tile) continue;
        part->code = e->ncode;
        for (int i = part->first; i <= part->last; i++) {
            emit_step(e, i);
            if (i < part->last) emit_rounding(e, i);
        }
        emit_instruction(e, TILE_END);
        part->ncode = e->ncode - part->code;
        for (int i = part->code; i < e->ncode; i++)
            for (int k = 0; k < e->code[i].nat; k++)
                part->by_rows |= e->code[i].way[k] == TILE_BY_ROW || tile_repeats(e->code[i].way[k]);
    }
}

/* ---- compiling a whole chain ---- */

int
elt_new(struct arena *a, int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
        const struct view *out, int threads, bool unread, struct elt **made)
{
    int nlane = nin + nout, nslot = 0;
    for (int i = 0; i < nstep; i++) nslot += step[i].call->nin;
    if (nlane > RUN_LANE || nstep > RUN_STEP || nslot > RUN_SLOT)
        return fail(E_PLAN, "a chain of %d element-wise steps on %d tensors is too long", nstep, nlane);
    for (int i = 1; i < nout; i++)
        for (int d = 0; d < out[0].ndim; d++) assert(out[i].ndim == out[0].ndim && out[i].dim[d] == out[0].dim[d]);

    struct elt *e = ARENA_NEW(a, struct elt);
    *e = (struct elt){.nin = nin, .nout = nout, .nstep = nstep, .threads = MAX(threads, 1)};
    e->lane = ARENA_ARRAY(a, struct lane, nlane);
    e->step = ARENA_ARRAY(a, struct step, nstep);
    e->slot = ARENA_ARRAY(a, struct slot, nslot);
    e->part = ARENA_ARRAY(a, struct part, nstep);
    e->code = ARENA_ARRAY(a, struct instruction, nstep * INSTRUCTIONS + nstep);
    e->area = ARENA_ARRAY(a, struct area, nslot + nstep);
    const struct view **view = ARENA_ARRAY(a, const struct view *, nlane);
    for (int i = 0; i < nlane; i++) view[i] = i < nin ? &in[i] : &out[i - nin];
    chain_lanes(e, &out[0], view);
    mark_far(e, unread);
    make_slots(a, e, step);
    make_parts(e);
    chain_find_readers(e);
    place_results(e);
    choose_block(e);
    emit_parts(e);
    lay_out_scratch(e);
    *made = e;
    return 0;
}
