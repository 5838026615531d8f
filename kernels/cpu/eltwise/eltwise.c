/* eltwise.c - the element-wise engine: runs blocks of elements through the program of a chain (chain.h), on all
 * threads of the kernel.
 *
 * Times on one Zen 5 core (bench/kernels, bench/ops):
 *
 *   f32{64,256} + f32{64,256}      1.1 us   180 GB/s, from cache
 *   f32{64,256} + f32{256}         0.8 us
 *   4 elements                    0.06 us
 *   10 steps on 16 M elements      2.3 ms   as fast as memory is read and written */
#include "kernels/cpu/eltwise/eltwise.h"

#include "kernels/cpu/eltwise/chain.h"
#include "kernels/cpu/base/team.h"

#include <string.h>

size_t
elt_scratch(const struct elt *e)
{
    return e->scratch * (size_t)e->threads;
}

/* ---- state of a run ---- */

/* The state of one thread's run: its position in the loops, and the programs for tile.c with the addresses of the
 * current block. */
struct run {
    void *const *in, *const *out;
    char *scratch;
    /* copy of the instructions for tile.c, with the addresses of the current block; stored in scratch */
    struct tile_step *code;
    /* at: position of the current row in the loops. offset: offset of that row in each operand and output,
     * elements. */
    int64_t at[MAX_DIM], offset[RUN_LANE];
    int64_t column, done; /* column: position in the row, elements; done: number of elements before this block */
    int64_t stop;         /* end of this thread's share: index of its last element plus 1 */
    bool repeated;        /* true: the operands that have one row for all rows are already loaded */
};

static char *
lane_data(const struct elt *e, const struct run *r, int i)
{
    return i < e->nin ? r->in[i] : r->out[i - e->nin];
}

/* Returns the address of the block's first element in lane i (an operand or output). */
static char *
lane_here(const struct elt *e, const struct run *r, int i)
{
    const struct lane *l = &e->lane[i];
    int64_t element = l->linear ? r->done : r->offset[i] + r->column * l->stride[e->nloop - 1];
    return lane_data(e, r, i) + element * (int64_t)l->bytes;
}

static char *
site_address(const struct elt *e, const struct run *r, struct site p)
{
    if (p.lane >= 0) return lane_here(e, r, p.lane);
    return p.lane == IN_SCRATCH ? r->scratch + e->area[p.area].at : NULL;
}

static void
next_block_row(const struct elt *e, struct run *r)
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

/* Advances the position of the run by n rows. Only the step to the row after the last of them may end the
 * innermost loop around rows. */
static void
next_rows(const struct elt *e, struct run *r, int64_t n)
{
    int k = e->nloop - 2;
    if (n > 1) {
        for (int i = 0; i < e->nin + e->nout; i++) r->offset[i] += (n - 1) * e->lane[i].stride[k];
        r->at[k] += n - 1;
    }
    next_block_row(e, r);
}

enum { ROWS = 256, SHORT = 16 };

/* Returns the number of rows, from the current row on, before a loop outside the loop around rows advances; at
 * most `left` and ROWS. The distance between these rows is constant in every operand and output. */
static int64_t
rows_alike(const struct elt *e, const struct run *r, int64_t left)
{
    int k = e->nloop - 2;
    return k < 0 ? 1 : MIN(MIN(left, ROWS), e->size[k] - r->at[k]);
}

/* Loads n elements of each of the rows row .. row + nrow - 1 of a block. Loads operands with one element per row,
 * and rows of a few elements, column by column, because loading row by row takes four times as long for {1000000,
 * 3} + {1000000, 1}. */
static void
load_slot_rows(const struct elt *e, struct run *r, const struct slot *s, int64_t row, int64_t nrow, int64_t n)
{
    const struct lane *l = &e->lane[s->index];
    int64_t apart = l->stride[e->nloop - 1], down = nrow > 1 ? l->stride[e->nloop - 2] : 0;
    union {
        float f[ROWS];
        int64_t i[ROWS];
    } column;
    int64_t width = (int64_t)compute_bytes(s->type), element = r->offset[s->index] + r->column * apart;
    char *block = site_address(e, r, s->at) + row * e->row * width;
    const char *from = lane_data(e, r, s->index) + element * (int64_t)l->bytes;
    if (s->kind == SLOT_COLUMN) {
        block_load(s->type, l->dtype, from, down, nrow, site_address(e, r, s->at) + row * width);
    } else if (nrow > 1 && apart == 0) {
        block_load(s->type, l->dtype, from, down, nrow, &column);
        block_spread(s->type, &column, nrow, n, block);
    } else if (nrow > n && n <= SHORT) {
        for (int64_t j = 0; j < n; j++) {
            block_load(s->type, l->dtype, from + j * apart * (int64_t)l->bytes, down, nrow, &column);
            block_scatter(s->type, &column, nrow, n, block + j * width);
        }
    } else {
        for (int64_t i = 0; i < nrow; i++)
            block_load(s->type, l->dtype, from + i * down * (int64_t)l->bytes, apart, n, block + i * n * width);
    }
}

/* Loads the operands of the next block, and returns its length. If a block has whole rows, advances the position
 * by the rows that it loads. */
static int64_t
load_block(const struct elt *e, struct run *r)
{
    int64_t n = MIN(e->rows ? e->block : MIN(e->row - r->column, e->block), r->stop - r->done), alike = 1;
    if (!e->loads) return n;
    for (int64_t row = 0; row < (e->rows ? n / e->row : 1); row += alike) {
        if (e->rows) alike = rows_alike(e, r, n / e->row - row);
        for (int s = 0; s < e->noperand; s++) {
            bool there = r->repeated && e->lane[e->slot[s].index].repeats;
            bool comes = e->slot[s].kind == SLOT_LOADED || e->slot[s].kind == SLOT_COLUMN;
            if (comes && !there) load_slot_rows(e, r, &e->slot[s], row, alike, e->rows ? e->row : n);
        }
        if (e->rows) next_rows(e, r, alike);
    }
    r->repeated = e->rows; /* later blocks, which are not longer, read the same rows */
    return n;
}

/* Computes one block of a step whose operator has no fast loop. */
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
compute_step(const struct elt *e, struct run *r, const struct step *s, int64_t n)
{
    const struct eltwise *f = &s->call->op->eltwise;
    const void *x[OP_OPERAND];
    for (int k = 0; k < s->narg; k++) x[k] = site_address(e, r, chain_site(e, s->arg[k]));
    void *y = site_address(e, r, s->at);

    if (s->type == COMP_F32 && f->block_f32)
        f->block_f32(s->call, n, (const float *const *)x, y);
    else if (s->type == COMP_F64 && f->block_f64)
        f->block_f64(s->call, n, (const double *const *)x, y);
    else if (s->type == COMP_I64)
        each_int(s, n, x, y);
    else
        each_real(s, n, x, y);
}

/* Computes a pair of steps in one pass: s, and `other`, which has the same operand. */
static void
compute_both(const struct elt *e, struct run *r, const struct step *other, const struct step *s, int64_t n)
{
    const char *x = site_address(e, r, chain_site(e, s->arg[0]));
    char *y = site_address(e, r, s->at), *beside = site_address(e, r, other->at);
    s->call->op->eltwise.f32_beside(s->call, n, (const float *)(const void *)x, (float *)(void *)y,
                                    (float *)(void *)beside);
}

static void
compute_tiles(const struct elt *e, struct run *r, const struct part *p, int64_t n)
{
    for (int i = p->code; i < p->code + p->ncode; i++)
        for (int k = 0; k < e->code[i].nat; k++)
            if (e->code[i].at[k].lane >= 0) r->code[i].memory[k] = lane_here(e, r, e->code[i].at[k].lane);
    int64_t row = p->by_rows ? e->row : n;
    tile_run(e->step[p->first].type, &r->code[p->code], row, n / row);
}

/* Stores a step's result in its output and, converted, in each block of scratch (slot) from which later steps
 * read it. */
static void
give_result(const struct elt *e, struct run *r, const struct step *s, int64_t n)
{
    if (s->out >= 0 && !s->in_place) {
        const struct lane *l = &e->lane[e->nin + s->out];
        int64_t stride = e->rows ? 1 : l->stride[e->nloop - 1];
        block_store(s->type, l->dtype, site_address(e, r, s->at), n, lane_here(e, r, e->nin + s->out), stride);
    }
    for (int k = s->converted; k >= 0; k = e->slot[k].sibling) {
        const struct slot *to = &e->slot[k];
        if (!to->read) continue;
        block_convert(s->type, s->call->out[0].dtype, to->type, n, site_address(e, r, s->at),
                      site_address(e, r, to->at));
    }
}

static void
compute_part(const struct elt *e, struct run *r, const struct part *p, int64_t n)
{
    if (p->ncode > 0)
        compute_tiles(e, r, p, n);
    else if (p->first < p->last)
        compute_both(e, r, &e->step[p->first], &e->step[p->last], n);
    else
        compute_step(e, r, &e->step[p->first], n);
    for (int i = p->first; i <= p->last; i++) give_result(e, r, &e->step[i], n);
}

/* Moves the run's position to element lo. */
static void
seek(const struct elt *e, struct run *r, int64_t lo)
{
    int64_t row = lo == 0 ? 0 : lo / e->row;
    r->done = lo;
    r->column = lo - row * e->row;
    for (int i = 0; i < e->nin + e->nout; i++) r->offset[i] = 0;
    for (int k = e->nloop - 2; k >= 0; k--, row /= e->size[k + 1]) {
        r->at[k] = row % e->size[k];
        for (int i = 0; i < e->nin + e->nout; i++) r->offset[i] += r->at[k] * e->lane[i].stride[k];
    }
}

static void
fill_tile(enum compute type, void *number)
{
    size_t bytes = compute_bytes(type);
    for (size_t i = 1; i < TILE_LONGEST; i++) memcpy((char *)number + i * bytes, number, bytes);
}

static void
load_constants(const struct elt *e, struct run *r)
{
    for (int s = 0; s < e->noperand; s++) {
        const struct slot *t = &e->slot[s];
        if (t->kind != SLOT_CONSTANT && t->kind != SLOT_NUMBER) continue;
        int64_t n = t->kind == SLOT_NUMBER ? 1 : e->block;
        block_load(t->type, e->lane[t->index].dtype, r->in[t->index], 0, n, site_address(e, r, t->at));
        if (t->kind == SLOT_NUMBER && t->wide) fill_tile(t->type, site_address(e, r, t->at));
    }
}

/* Copies the chain's instructions for tile.c into scratch. Sets the addresses of operands in scratch, which are
 * the same for all blocks. */
static void
load_code(const struct elt *e, struct run *r)
{
    r->code = (struct tile_step *)r->scratch;
    for (int i = 0; i < e->ncode; i++) {
        const struct instruction *from = &e->code[i];
        r->code[i] = (struct tile_step){.code = from->code};
        for (int k = 0; k < from->nat; k++) {
            if (from->at[k].lane == IN_SCRATCH) r->code[i].memory[k] = site_address(e, r, from->at[k]);
            r->code[i].way[k] = (int)from->way[k];
        }
    }
}

static void
run_elt_blocks(const struct elt *e, struct run *r)
{
    while (r->done < r->stop) {
        int64_t n = load_block(e, r);
        for (int p = 0; p < e->npart; p++) compute_part(e, r, &e->part[p], n);
        r->done += n;
        if (e->rows) continue;
        r->column += n;
        if (r->column < e->row) continue;
        r->column = 0;
        next_block_row(e, r);
    }
    if (e->streams) tile_fence();
}

/* Limits in elements. GRAIN: minimum per thread. LONG_ROW: rows up to this length are computed at least two at a
 * time by a thread. */
enum { GRAIN = 4096, LONG_ROW = 16384 };

/* The work that the threads of a team share, in units. If rows are short, a unit is a row, so that short rows are
 * not divided; otherwise a unit is an element. */
struct work {
    const struct elt *e;
    void *const *in, *const *out;
    char *scratch;
    int64_t unit, nunit;
};

static void
run_range(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    struct run r;
    r.in = w->in;
    r.out = w->out;
    r.scratch = w->scratch + (size_t)share * w->e->scratch;
    r.stop = hi * w->unit;
    r.repeated = false;
    seek(w->e, &r, lo * w->unit);
    load_constants(w->e, &r);
    load_code(w->e, &r);
    run_elt_blocks(w->e, &r);
}

void
elt_run(const struct elt *e, void *const *in, void *const *out, void *scratch)
{
    if (e->numel == 0) return;
    int64_t unit = e->rows ? e->row : 1;
    struct work w = {e, in, out, scratch, unit, e->numel / unit};
    /* Each call of run_range() first finds its position in the loops. For a call of one row this would take a
     * sixth of the time, so a call has at least two rows. */
    int64_t least = unit <= LONG_ROW && w.nunit >= 2 * e->threads ? 2 : 1;
    team_shares(e->threads, w.nunit, MAX(GRAIN / unit, least), run_range, &w);
}

/* ---- reference ---- */

/* Converts a float to the result's dtype and back. Integers and bool then have the values that memory would hold:
 * truncated, clamped, or true for nonzero. */
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
    bool real = chain_type(c) != COMP_I64;
    struct elt walk = {.nin = c->nin, .nout = 1};
    struct lane lane[OP_OPERAND + 1] = {0};
    const struct view *view[OP_OPERAND + 1];
    for (int i = 0; i < c->nin; i++) view[i] = &k->in[i];
    view[c->nin] = y;
    walk.lane = lane;
    chain_lanes(&walk, y, view);

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
        next_block_row(&walk, &r);
    }
    return 0;
}
