/* eltwise.c - the element-wise engine: blocks of elements go through the steps of a chain.
 *
 * The local sizes of the outputs are walked as nested loops (dimensions that lie
 * one behind the other in every operand are merged). A block is a piece of one
 * inner row, or, when rows are short, several whole rows.
 *
 * What a step reads is a slot: an operand of the chain, or the result of an
 * earlier step, as a block in the compute type of that step. An operand that has
 * that type in memory, without gaps, is read where it lies; any other is loaded
 * into a block of scratch first, converted on the way; one that never changes (a
 * number) is loaded once a run. The last write goes to memory directly when
 * there is nothing to convert.
 *
 * One Zen 5 core, bench-kernels: f32{64,256} + f32{64,256} 1.1 us (180 GB/s from
 * cache), f32{64,256} + f32{256} 1.4 us, 16M elements at 30 GB/s (memory), four
 * elements 0.07 us. */
#include "kernels/cpu/eltwise.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/team.h"
#include "runtime/error.h"

enum { SHORT_ROW = 128, RUN_LANE = 64, RUN_SLOT = 128, RUN_STEP = 64 };
enum { LEAST_BLOCK = 256, CACHE_BYTES = 24 << 10 }; /* of scratch: half of a first-level cache */

enum slot_kind {
    SLOT_ABSENT,   /* NULL */
    SLOT_CONSTANT, /* operand: one element, filled once a run */
    SLOT_DIRECT,   /* operand: read in place */
    SLOT_LOADED,   /* operand: brought into the block */
    SLOT_RESULT,   /* step: read where the step wrote */
    SLOT_CONVERTED /* step: as if it had gone through memory of its dtype */
};
struct slot {
    enum slot_kind kind;
    int index; /* operand or step */
    enum compute type;
    size_t block; /* bytes from the start of scratch */
    int sibling;  /* SLOT_RESULT, SLOT_CONVERTED: the next slot of the same step, or -1 */
};

struct step {
    const struct call *call;
    enum compute type;
    int narg;
    int arg[OP_OPERAND]; /* slots */
    int out;             /* output it writes, or -1 */
    bool in_place;       /* straight into that output */
    size_t block;        /* else here */
    int last;            /* step that reads the result last */
    int reader;          /* first slot that it is handed to, or -1 */
};

/* An operand or output in memory, by the loops of the chain. */
struct lane {
    enum dtype dtype;
    size_t bytes;            /* of an element */
    int64_t stride[MAX_DIM]; /* one a loop, 0 where it repeats */
    bool linear;             /* element p of the walk is element p of memory */
};

struct elt {
    int nloop;
    int64_t size[MAX_DIM]; /* outermost first */
    int64_t numel, row;    /* elements; of an inner row */
    int64_t nrow;          /* rows in a block; 1: a block is a piece of a row */
    int64_t block;         /* elements in a block, at most */
    int nin, nout, nstep, nslot;
    struct lane *lane; /* operands, then outputs */
    struct step *step;
    struct slot *slot; /* those of operands first: noperand of them */
    int noperand;
    size_t scratch; /* of a thread */
    int threads;
};

/* ---- making the program ---- */

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

static enum compute
compute_type(const struct call *c)
{
    struct promotion p = {0};
    for (int i = 0; i < c->nin; i++) promotion_add(&p, &c->in[i]);
    enum compute type = compute_of(promotion_end(&p));
    return type == COMP_I64 && !c->op->eltwise.i ? COMP_F64 : type;
}

/* The stride of operand v in dimension d of a walk over ndim dimensions. */
static int64_t
broadcast_stride(const struct view *v, int d, int ndim)
{
    int own = d - (ndim - v->ndim);
    return own < 0 || v->dim[own] == 1 ? 0 : v->stride[own];
}

/* Dimensions to loops: size one is dropped, neighbours are merged when they are one run in every lane. */
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

/* Is a block of the walk a run of this lane's memory? */
static bool
lane_runs(const struct elt *e, const struct lane *l)
{
    return e->nrow > 1 ? l->linear : l->stride[e->nloop - 1] == 1 || e->row == 1;
}

static void
make_lanes(struct elt *e, const struct view *walk, const struct view *const *view)
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
        if (i >= e->nin) linear_out = linear_out && e->lane[i].linear;
    }
    e->nrow = e->numel > 0 && e->nloop > 1 && e->row < SHORT_ROW && linear_out ? ELT_BLOCK / e->row : 1;
}

static size_t
new_block(struct elt *e, enum compute type)
{
    size_t at = e->scratch, n = (size_t)MIN(e->numel, ELT_BLOCK);
    e->scratch += (n * compute_bytes(type) + 63) / 64 * 64;
    return at;
}

/* The slot that is this, made if there is none yet. */
static int
slot_of(struct elt *e, struct slot want)
{
    for (int s = 0; s < e->nslot; s++) {
        const struct slot *have = &e->slot[s];
        if (have->kind == want.kind && have->index == want.index && have->type == want.type) return s;
    }
    if (want.kind == SLOT_CONSTANT || want.kind == SLOT_LOADED || want.kind == SLOT_CONVERTED)
        want.block = new_block(e, want.type);
    want.sibling = -1;
    e->slot[e->nslot] = want;
    return e->nslot++;
}

static int
operand_slot(struct elt *e, int index, enum compute type)
{
    if (index < 0) return slot_of(e, (struct slot){.index = index, .type = type, .kind = SLOT_ABSENT}); /* of a chain */
    const struct lane *l = &e->lane[index];
    struct slot s = {.index = index, .type = type, .kind = SLOT_LOADED};
    if (l->dtype == DT_NONE)
        s.kind = SLOT_ABSENT;
    else if (lane_constant(e, l))
        s.kind = SLOT_CONSTANT;
    else if (l->dtype == compute_dtype(type) && lane_runs(e, l))
        s.kind = SLOT_DIRECT;
    return slot_of(e, s);
}

static int
result_slot(struct elt *e, int index, enum compute type)
{
    const struct step *from = &e->step[index];
    bool as_it_is = from->type == type && from->call->out[0].dtype == compute_dtype(type);
    int n = e->nslot;
    int s = slot_of(e, (struct slot){.kind = as_it_is ? SLOT_RESULT : SLOT_CONVERTED, .index = index, .type = type});
    if (s == n) {
        e->slot[s].sibling = from->reader;
        e->step[index].reader = s;
    }
    return s;
}

static int
last_reader(int nstep, const struct fuse_step *step, int of)
{
    for (int i = nstep - 1; i > of; i--)
        for (int k = 0; k < step[i].call->nin; k++)
            if (step[i].arg[k].step && step[i].arg[k].index == of) return i;
    return of;
}

/* The block of an earlier step whose last reader is done, else a new one. */
static size_t
result_block(struct elt *e, int index)
{
    const struct step *s = &e->step[index];
    for (int i = 0; i < index; i++) {
        struct step *past = &e->step[i];
        if (past->in_place || past->last >= index || compute_bytes(past->type) != compute_bytes(s->type)) continue;
        past->last = RUN_STEP; /* its block is taken over */
        return past->block;
    }
    return new_block(e, s->type);
}

/* Where the step's result goes. */
static void
place_result(struct elt *e, int index)
{
    struct step *s = &e->step[index];
    if (s->out >= 0) {
        const struct lane *l = &e->lane[e->nin + s->out];
        s->in_place = l->dtype == compute_dtype(s->type) && lane_runs(e, l);
    }
    if (!s->in_place) s->block = result_block(e, index);
}

static void
make_steps(struct arena *a, struct elt *e, const struct fuse_step *step)
{
    for (int i = 0; i < e->nstep; i++) {
        struct step *s = &e->step[i];
        *s = (struct step){.call = call_copy(a, step[i].call), .out = step[i].out, .narg = step[i].call->nin};
        s->type = compute_type(s->call);
        for (int k = 0; k < s->narg; k++)
            if (!step[i].arg[k].step) s->arg[k] = operand_slot(e, step[i].arg[k].index, s->type);
        s->last = last_reader(e->nstep, step, i);
        s->reader = -1;
        place_result(e, i);
    }
    e->noperand = e->nslot;
    for (int i = 0; i < e->nstep; i++)
        for (int k = 0; k < e->step[i].narg; k++)
            if (step[i].arg[k].step) e->step[i].arg[k] = result_slot(e, step[i].arg[k].index, e->step[i].type);
}

/* Many blocks are made shorter, so that all of them stay in the first cache. */
static void
size_blocks(struct elt *e)
{
    int64_t n = MIN(e->numel, ELT_BLOCK), bytes = (int64_t)e->scratch / ELT_BLOCK; /* of scratch for an element */
    if (n == ELT_BLOCK && bytes > CACHE_BYTES / ELT_BLOCK) {
        n = MAX(CACHE_BYTES / bytes / 64 * 64, LEAST_BLOCK);
        for (int i = 0; i < e->nslot; i++) e->slot[i].block = e->slot[i].block / ELT_BLOCK * (size_t)n;
        for (int i = 0; i < e->nstep; i++) e->step[i].block = e->step[i].block / ELT_BLOCK * (size_t)n;
        e->scratch = e->scratch / ELT_BLOCK * (size_t)n;
    }
    e->block = n;
    if (e->nrow > 1) e->nrow = MAX(n / e->row, 1);
}

int
elt_new(struct arena *a, int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
        const struct view *out, int threads, struct elt **made)
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
    const struct view **view = ARENA_ARRAY(a, const struct view *, nlane);
    for (int i = 0; i < nlane; i++) view[i] = i < nin ? &in[i] : &out[i - nin];
    make_lanes(e, &out[0], view);
    make_steps(a, e, step);
    size_blocks(e);
    *made = e;
    return 0;
}

size_t
elt_scratch(const struct elt *e)
{
    return e->scratch * (size_t)e->threads;
}

/* ---- running it ---- */

/* The state of one thread's run: the walk, and where each slot's block is now. */
struct run {
    void *const *in, *const *out;
    char *scratch;
    int64_t at[MAX_DIM], offset[RUN_LANE]; /* of the row, elements */
    int64_t column, done;                  /* within the row; elements before this block */
    int64_t stop;                          /* elements before the end */
    const void *slot[RUN_SLOT];
    void *result[RUN_STEP];
};

static char *
lane_data(const struct elt *e, const struct run *r, int i)
{
    return i < e->nin ? r->in[i] : r->out[i - e->nin];
}

/* Element address of the lane at the block's first element. */
static char *
lane_here(const struct elt *e, const struct run *r, int i)
{
    const struct lane *l = &e->lane[i];
    int64_t element = l->linear ? r->done : r->offset[i] + r->column * l->stride[e->nloop - 1];
    return lane_data(e, r, i) + element * (int64_t)l->bytes;
}

static void
next_row(const struct elt *e, struct run *r)
{
    int nlane = e->nin + e->nout;
    for (int k = e->nloop - 2; k >= 0; k--) {
        bool wraps = ++r->at[k] == e->size[k];
        int64_t move = wraps ? 1 - e->size[k] : 1;
        for (int i = 0; i < nlane; i++) r->offset[i] += move * e->lane[i].stride[k];
        if (!wraps) return;
        r->at[k] = 0;
    }
}

static void
load_row(const struct elt *e, struct run *r, const struct slot *s, int64_t row, int64_t n)
{
    const struct lane *l = &e->lane[s->index];
    char *block = r->scratch + s->block + (size_t)(row * e->row) * compute_bytes(s->type);
    int64_t element = r->offset[s->index] + r->column * l->stride[e->nloop - 1];
    const char *from = lane_data(e, r, s->index) + element * (int64_t)l->bytes;
    block_load(s->type, l->dtype, from, l->stride[e->nloop - 1], n, block);
}

/* Brings in the operands of the next block; gives its length. With short rows the walk moves on as rows are loaded. */
static int64_t
load_block(const struct elt *e, struct run *r)
{
    bool rows = e->nrow > 1;
    int64_t n = MIN(rows ? e->nrow * e->row : MIN(e->row - r->column, e->block), r->stop - r->done);
    for (int s = 0; s < e->noperand; s++)
        if (e->slot[s].kind == SLOT_DIRECT) r->slot[s] = lane_here(e, r, e->slot[s].index);

    for (int64_t row = 0; row < (rows ? n / e->row : 1); row++) {
        for (int s = 0; s < e->noperand; s++)
            if (e->slot[s].kind == SLOT_LOADED) load_row(e, r, &e->slot[s], row, rows ? e->row : n);
        if (rows) next_row(e, r);
    }
    return n;
}

/* One block through an operator that has no fast loop. */
static void
each_real(const struct step *s, int64_t n, const void *const *x, void *y)
{
    double one[OP_OPERAND] = {0};
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < s->narg; k++) {
            if (!x[k]) continue;
            one[k] = s->type == COMP_F32 ? ((const float *)x[k])[i] : ((const double *)x[k])[i];
        }
        double result = s->call->op->eltwise.f(s->call, one);
        if (s->type == COMP_F32)
            ((float *)y)[i] = (float)result;
        else
            ((double *)y)[i] = result;
    }
}

static void
each_int(const struct step *s, int64_t n, const void *const *x, int64_t *y)
{
    int64_t one[OP_OPERAND] = {0};
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < s->narg; k++)
            if (x[k]) one[k] = ((const int64_t *)x[k])[i];
        y[i] = s->call->op->eltwise.i(s->call, one);
    }
}

static void
compute_step(const struct elt *e, struct run *r, int index, int64_t n)
{
    const struct step *s = &e->step[index];
    const struct eltwise *f = &s->call->op->eltwise;
    const void *x[OP_OPERAND];
    for (int k = 0; k < s->narg; k++) x[k] = r->slot[s->arg[k]];
    void *y = s->in_place ? lane_here(e, r, e->nin + s->out) : r->scratch + s->block;

    if (s->type == COMP_F32 && f->block_f32)
        f->block_f32(s->call, n, (const float *const *)x, y);
    else if (s->type == COMP_I64)
        each_int(s, n, x, y);
    else
        each_real(s, n, x, y);
    r->result[index] = y;
}

/* Hands a step's result to the output it writes and to the slots that read it. */
static void
give_result(const struct elt *e, struct run *r, int index, int64_t n)
{
    const struct step *s = &e->step[index];
    if (s->out >= 0 && !s->in_place) {
        const struct lane *l = &e->lane[e->nin + s->out];
        int64_t stride = e->nrow > 1 ? 1 : l->stride[e->nloop - 1];
        block_store(s->type, l->dtype, r->result[index], n, lane_here(e, r, e->nin + s->out), stride);
    }
    for (int k = s->reader; k >= 0; k = e->slot[k].sibling) {
        const struct slot *to = &e->slot[k];
        r->slot[k] = to->kind == SLOT_RESULT ? r->result[index] : r->scratch + to->block;
        if (to->kind == SLOT_CONVERTED)
            block_convert(s->type, s->call->out[0].dtype, to->type, n, r->result[index], r->scratch + to->block);
    }
}

/* To element lo of the walk. */
static void
seek(const struct elt *e, struct run *r, int64_t lo)
{
    int64_t row = lo / e->row;
    r->done = lo;
    r->column = lo % e->row;
    for (int i = 0; i < e->nin + e->nout; i++) r->offset[i] = 0;
    for (int k = e->nloop - 2; k >= 0; k--, row /= e->size[k + 1]) {
        r->at[k] = row % e->size[k];
        for (int i = 0; i < e->nin + e->nout; i++) r->offset[i] += r->at[k] * e->lane[i].stride[k];
    }
}

static void
load_constants(const struct elt *e, struct run *r)
{
    for (int s = 0; s < e->noperand; s++) {
        const struct slot *t = &e->slot[s];
        r->slot[s] = t->kind == SLOT_ABSENT ? NULL : r->scratch + t->block;
        if (t->kind == SLOT_CONSTANT)
            block_load(t->type, e->lane[t->index].dtype, r->in[t->index], 0, e->block, r->scratch + t->block);
    }
}

static void
run_blocks(const struct elt *e, struct run *r)
{
    while (r->done < r->stop) {
        int64_t n = load_block(e, r);
        for (int i = 0; i < e->nstep; i++) {
            compute_step(e, r, i, n);
            give_result(e, r, i, n);
        }
        r->done += n;
        if (e->nrow > 1) continue;
        r->column += n;
        if (r->column < e->row) continue;
        r->column = 0;
        next_row(e, r);
    }
}

/* What the threads of a team share. Short rows are not divided: then a unit is a row, else an element. */
struct work {
    const struct elt *e;
    void *const *in, *const *out;
    char *scratch;
    int64_t unit, nunit;
};

static void
run_range(void *arg, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    int64_t thread = (lo * w->e->threads + w->nunit - 1) / w->nunit; /* ranges begin at nunit * i / threads */
    struct run r;
    r.in = w->in;
    r.out = w->out;
    r.scratch = w->scratch + (size_t)thread * w->e->scratch;
    r.stop = hi * w->unit;
    seek(w->e, &r, lo * w->unit);
    load_constants(w->e, &r);
    run_blocks(w->e, &r);
}

void
elt_run(const struct elt *e, void *const *in, void *const *out, void *scratch)
{
    if (e->numel == 0) return;
    int64_t unit = e->nrow > 1 ? e->row : 1;
    struct work w = {e, in, out, scratch, unit, e->numel / unit};
    team_run(e->threads, w.nunit, 1, run_range, &w);
}

/* ---- the meaning ---- */

/* Through the dtype of the result, so that reals become integers as in memory: cut, held in range, "not zero". */
static void
put_result(const struct view *y, enum dtype d, int64_t p, double v)
{
    _Alignas(8) char one[8];
    if (y->dtype == DT_F64) {
        ((double *)y->data)[p] = v;
        return;
    }
    elem_set_f(d, one, 0, v);
    ((int64_t *)y->data)[p] = elem_get_i(d, one, 0);
}

int
elt_ref(const struct kcall *k)
{
    const struct call *c = k->call;
    const struct view *y = &k->out[0];
    bool real = compute_type(c) != COMP_I64;
    struct elt walk = {.nin = c->nin, .nout = 1};
    struct lane lane[OP_OPERAND + 1] = {0};
    const struct view *view[OP_OPERAND + 1];
    for (int i = 0; i < c->nin; i++) view[i] = &k->in[i];
    view[c->nin] = y;
    walk.lane = lane;
    make_lanes(&walk, y, view);

    struct run r = {.in = NULL};
    for (int64_t p = 0; p < walk.numel; p++) {
        double f[OP_OPERAND] = {0};
        int64_t i[OP_OPERAND] = {0};
        for (int a = 0; a < c->nin; a++) {
            if (k->in[a].dtype == DT_NONE) continue;
            int64_t at = r.offset[a] + r.column * lane[a].stride[walk.nloop - 1];
            f[a] = elem_get_f(k->in[a].dtype, k->in[a].data, at);
            i[a] = elem_get_i(k->in[a].dtype, k->in[a].data, at);
        }
        if (real)
            put_result(y, (enum dtype)c->out[0].dtype, p, c->op->eltwise.f(c, f));
        else
            elem_set_i(y->dtype, y->data, p, c->op->eltwise.i(c, i));
        if (++r.column < walk.row) continue;
        r.column = 0;
        next_row(&walk, &r);
    }
    return 0;
}
