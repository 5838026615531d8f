/* product.c - finds calls that are matrix products, and the epilogue that a library can compute with a product.
 *
 * Each letter of a call's SBP rule has one of four kinds: batch (in x, w and y), rows (in x and y), columns (in w
 * and y), sum (in x and w). Letters of one kind whose dimensions are adjacent in memory form one loop. A library's
 * product has one loop per kind. Further loops of rows become batch loops whose stride in w is 0; further loops of
 * columns become batch loops whose stride in x is 0. */
#include "kernels/cuda/product.h"

#include "kernels/cuda/convolution.h"
#include "runtime/device/device.h"
#include "runtime/device/cuda_product.h"
#include "runtime/base/error.h"
#include "sbp/rule.h"

#include <string.h>

/* Bits for the matrices x, w and y. The kind of a letter of the SBP rule is the set of matrices that the letter
 * indexes. */
enum { X = 1, W = 2, Y = 4, ALL = 8 };

struct loop {
    int64_t size, stride[ALL]; /* stride[X], stride[W], stride[Y]: strides of the loop in these matrices, elements */
};
struct loops {
    int n;
    struct loop loop[MAX_DIM];
};
struct factors {
    struct loops kind[ALL];
    uint64_t seen; /* set of letters that were already read */
};

/* ---- reading the letters of the SBP rule ---- */

/* Returns the dimension of an operand that has this letter; -1: none. */
static int
letter_dim(const struct rule_operand *o, int letter)
{
    for (int d = 0; d < o->ndim; d++)
        if (o->dim[d].nfactor == 1 && o->dim[d].factor[0] == letter) return d;
    return -1;
}

static bool
is_plain_operand(const struct rule_operand *o, const struct view *v)
{
    bool plain = !o->ignored && o->ndim == v->ndim;
    for (int d = 0; d < o->ndim && plain; d++) plain = o->dim[d].nfactor <= 1;
    return plain;
}

/* Adds a loop to the loops of a kind, as the innermost. If it is adjacent to the previous innermost loop in x, w
 * and y, merges the two. */
static void
add_loop(struct loops *l, const struct loop *in)
{
    struct loop *last = l->n ? &l->loop[l->n - 1] : NULL;
    bool together = last;
    if (in->size == 1) return;
    for (int o = X; o < ALL && together; o *= 2) together = last->stride[o] == in->size * in->stride[o];
    if (!together) {
        l->loop[l->n++] = *in;
        return;
    }
    last->size *= in->size;
    memcpy(last->stride, in->stride, sizeof last->stride);
}

/* Adds loops for the letters of an operand, except letters that an earlier operand has. Returns false if some
 * letter occurs in only one operand, must not be split, or has size 0. */
static bool
add_letters(struct factors *f, const struct rule *r, const struct rule_operand *from,
            const struct rule_operand *const *rule, const struct view *const *view)
{
    for (int d = 0; d < from->ndim; d++) {
        int letter = from->dim[d].factor[0], kind = 0;
        struct loop l = {.size = 1};
        if (from->dim[d].nfactor == 0 || f->seen >> letter & 1) continue;
        f->seen |= 1ull << letter;
        for (int o = X; o < ALL; o *= 2) {
            int at = letter_dim(rule[o], letter);
            if (at < 0) continue;
            kind |= o;
            l.size = view[o]->dim[at];
            l.stride[o] = view[o]->stride[at];
        }
        if (l.size == 0 || !(kind & (kind - 1)) || r->factor[letter].unsplit) return false;
        add_loop(&f->kind[kind], &l);
    }
    return true;
}

/* ---- matrices ---- */

/* Returns the innermost loop of rows or columns, and adds the other loops of this kind to the batch. */
static struct loop
innermost(struct factors *f, int kind)
{
    struct loops *l = &f->kind[kind];
    for (int i = 0; i < l->n - 1; i++) add_loop(&f->kind[X | W | Y], &l->loop[i]);
    return l->n ? l->loop[l->n - 1] : (struct loop){.size = 1};
}

/* Sets a matrix's layout for a library. If there is a single row or column, its stride is arbitrary, and is set to
 * one that the library accepts. Returns false if neither rows nor columns are contiguous, or if they overlap. */
static bool
is_matrix(int64_t rows, int64_t cols, int64_t row, int64_t col, struct cuda_matrix *m)
{
    if (cols == 1) col = 1;
    if (rows == 1) row = col == 1 ? cols : 1;
    m->row = row;
    m->col = col;
    return (col == 1 && row >= cols) || (row == 1 && col >= rows);
}

static bool
matrices(struct factors *f, struct cuda_product *p)
{
    if (f->kind[X | W].n > 1 || f->kind[X | W | Y].n + f->kind[X | Y].n + f->kind[W | Y].n > MAX_DIM) return false;
    struct loop m = innermost(f, X | Y), n = innermost(f, W | Y), k = innermost(f, X | W), batch = {.size = 1};
    if (f->kind[X | W | Y].n > 1) return false;
    if (f->kind[X | W | Y].n) batch = f->kind[X | W | Y].loop[0];
    p->m = m.size, p->n = n.size, p->k = k.size, p->batch = batch.size;
    p->x.batch = batch.stride[X], p->w.batch = batch.stride[W], p->y.batch = batch.stride[Y];
    return is_matrix(p->m, p->k, m.stride[X], k.stride[X], &p->x) &&
           is_matrix(p->k, p->n, k.stride[W], n.stride[W], &p->w) &&
           is_matrix(p->m, p->n, m.stride[Y], n.stride[Y], &p->y) && p->y.col == 1;
}

static bool
cuda_real_of(enum dtype d, int64_t *to)
{
    static const int64_t of[NDTYPE] = {
        [DT_F32] = 1 + CUDA_F32, [DT_F64] = 1 + CUDA_F64, [DT_BF16] = 1 + CUDA_BF16, [DT_F16] = 1 + CUDA_F16};
    *to = of[d] - 1;
    return of[d];
}

bool
cuda_reals_of(const struct call *c, const struct view *x, const struct view *w, const struct view *y, int64_t *from,
              int64_t *to, int64_t *tf32)
{
    int rounds = op_attr_find(c->op, "tf32");
    bool halves = dtype_is_half((enum dtype)x->dtype);
    *tf32 = rounds >= 0 && c->attr[rounds].i && x->dtype == DT_F32;
    return x->dtype == w->dtype && (y->dtype == x->dtype || (halves && y->dtype == DT_F32)) &&
           cuda_real_of((enum dtype)x->dtype, from) && cuda_real_of((enum dtype)y->dtype, to);
}

/* Finds the product that one step of a chain computes, without its epilogue. *columns: receives the bit set of y's
 * dimensions that w has, too. */
static bool
read_product(struct arena *a, const struct fuse_step *s, const struct view *in, const struct view *y,
             struct cuda_product *p, uint32_t *columns)
{
    const struct call *c = s->call;
    struct rule rule;
    struct factors f = {.seen = 0};
    bool linear = c->op->gpu.product && c->op->partial.reduce == RED_SUM && c->nin == 2 && c->nout == 1;
    if (!linear || c->in[1].dtype == DT_NONE) return false;
    if (rule_of_call(a, c, NULL, &rule)) return err_clear(), false;
    const struct view *view[ALL] = {[X] = &in[s->arg[0].index], [W] = &in[s->arg[1].index], [Y] = y};
    const struct rule_operand *of[ALL] = {[X] = &rule.operand[0], [W] = &rule.operand[1], [Y] = &rule.operand[2]};
    for (int o = X; o < ALL; o *= 2)
        if (!is_plain_operand(of[o], view[o])) return false;
    for (int o = Y; o; o /= 2) /* reads y's letters first, so that loops have the order of y's dimensions */
        if (!add_letters(&f, &rule, of[o], of, view)) return false;
    for (int d = 0; d < of[Y]->ndim; d++)
        if (of[Y]->dim[d].nfactor && letter_dim(of[W], of[Y]->dim[d].factor[0]) >= 0) *columns |= 1u << d;
    return cuda_reals_of(c, view[X], view[W], y, &p->from, &p->to, &p->tf32) && view_is_dense(y) && matrices(&f, p);
}

/* ---- epilogue ---- */

/* State of the search for an epilogue. now: step that computed the current value. nread: number of steps that belong
 * to the epilogue so far. */
struct reading {
    int nstep, nread;
    const struct fuse_step *step, *now;
    const struct view *in, *out, *y;
    uint32_t columns;
    struct cuda_product *p;
    struct cuda_places *at;
};

static enum follow
follow_of(const struct reading *r, const struct fuse_step *s)
{
    bool same = s->call->out[0].dtype == r->y->dtype;
    return same ? call_follow(s->call) : FOLLOW_NONE;
}

static bool
reads_operand(const struct fuse_step *s, int i, const struct reading *r)
{
    return s->arg[i].step && &r->step[s->arg[i].index] == r->now;
}

/* Returns the step that reads the current value if it is the only reader and its operation is `what`; otherwise
 * NULL. Sets *other to the step's other argument. */
static const struct fuse_step *
next_follow_step(const struct reading *r, enum follow what, struct fuse_arg *other)
{
    const struct fuse_step *found = NULL;
    for (const struct fuse_step *s = r->step; s < r->step + r->nstep; s++)
        for (int i = 0; i < s->call->nin; i++) {
            if (s->call->in[i].dtype == DT_NONE || !reads_operand(s, i, r)) continue;
            if (found || follow_of(r, s) != what) return NULL;
            found = s;
            *other = s->arg[!i];
        }
    return found;
}

static void
step_on(struct reading *r, const struct fuse_step *s)
{
    r->now = s;
    r->nread++;
}

static bool
is_operand(const struct reading *r, struct fuse_arg a)
{
    /* The operand must be a tensor with dimensions, not a single number. */
    return !a.step && a.index >= 0 && r->in[a.index].dtype == r->y->dtype && r->in[a.index].ndim > 0;
}

/* Returns true if the view has one number for each column of the result. */
static bool
is_bias(const struct reading *r, const struct view *v)
{
    int skip = r->y->ndim - v->ndim;
    for (int d = 0; d < r->y->ndim; d++) {
        int64_t stride = d < skip || v->dim[d - skip] == 1 ? 0 : v->stride[d - skip];
        if (r->y->dim[d] > 1 && stride != (r->columns >> d & 1 ? r->y->stride[d] : 0)) return false;
    }
    return true;
}

static bool
views_alike(const struct view *a, const struct view *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->dim, b->dim, sizeof *a->dim * a->ndim) &&
           view_is_dense(a) && view_is_dense(b);
}

/* If the next step casts to the result's dtype, adds it to the epilogue. The library then returns the sums in that
 * dtype, without first rounding them to the operands' 16 bits. Returns false if the result's dtype is not reached. */
static bool
read_cast(struct reading *r)
{
    struct fuse_arg other;
    if (r->now->call->out[0].dtype == r->y->dtype) return true;
    const struct fuse_step *s = r->now->out < 0 ? next_follow_step(r, FOLLOW_CAST, &other) : NULL;
    if (s) step_on(r, s);
    return s;
}

static void
read_bias(struct reading *r)
{
    struct fuse_arg other;
    const struct fuse_step *s = r->now->out < 0 ? next_follow_step(r, FOLLOW_ADD, &other) : NULL;
    if (!s || !is_operand(r, other) || !is_bias(r, &r->in[other.index])) return;
    r->p->bias = 1;
    r->at->bias = other.index;
    step_on(r, s);
}

static void
read_gelu(struct reading *r, int nin)
{
    struct fuse_arg other;
    const struct fuse_step *s = next_follow_step(r, FOLLOW_GELU, &other);
    int kept = r->now->out;
    if (!s || (kept >= 0 && (r->p->batch > 1 || !views_alike(&r->out[kept], r->y)))) return;
    r->p->after = CUDA_GELU;
    r->p->aux = kept >= 0;
    if (kept >= 0) r->at->aux = nin + kept;
    step_on(r, s);
}

/* If the next step multiplies by gelu'(x), and gelu'(x) is a step without other readers, adds both to the
 * epilogue. */
static void
read_slope(struct reading *r)
{
    struct fuse_arg other, x;
    const struct fuse_step *s = r->now->out < 0 ? next_follow_step(r, FOLLOW_MUL, &other) : NULL;
    if (!s || !other.step || r->p->bias || r->p->batch > 1) return;
    struct reading slope = *r;
    const struct fuse_step *g = slope.now = &r->step[other.index];
    x = g->arg[0];
    if (g->out >= 0 || follow_of(r, g) != FOLLOW_GELU_SLOPE || next_follow_step(&slope, FOLLOW_MUL, &other) != s)
        return;
    if (!is_operand(r, x) || !views_alike(&r->in[x.index], r->y)) return;
    r->p->after = CUDA_GELU_SLOPE;
    r->p->aux = 1;
    r->at->aux = x.index;
    r->nread++;
    step_on(r, s);
}

/* Returns the view of the chain's last output: the one that its last writing step writes. */
static const struct view *
result_of(int nstep, const struct fuse_step *step, const struct view *out)
{
    for (int i = nstep - 1; i >= 0; i--)
        if (step[i].out >= 0) return &out[step[i].out];
    return NULL;
}

bool
cuda_product_of(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin, const struct view *in,
                const struct view *out, struct cuda_product *p, struct cuda_places *at)
{
    struct reading r = {.nstep = nstep, .nread = 1, .step = step, .in = in, .out = out, .p = p, .at = at};
    memset(p, 0, sizeof *p);
    r.y = result_of(nstep, step, out);
    if (lead < 0 || !r.y) return false;
    r.now = &step[lead];
    *at = (struct cuda_places){.x = r.now->arg[0].index, .w = r.now->arg[1].index, .bias = -1, .aux = -1};
    if (!read_product(a, r.now, in, r.y, p, &r.columns) || !read_cast(&r)) return false;
    read_bias(&r);
    read_gelu(&r, nin);
    if (p->after == CUDA_AS_IS) read_slope(&r);
    at->y = nin + r.now->out;
    return r.nread == nstep && r.now->out >= 0;
}

/* ---- starting products and convolutions on the device ---- */

struct cuda_multiply *
cuda_multiply_new(struct arena *a, int device, int lead, int nstep, const struct fuse_step *step, int nin,
                  const struct view *in, const struct view *out)
{
    struct cuda_product p;
    struct cuda_convolution c;
    struct cuda_multiply m = {.nin = nin};
    unsigned flags = device_kind(device)->flags;
    if (flags & MULTIPLIES && cuda_product_of(a, lead, nstep, step, nin, in, out, &p, &m.at)) {
        m.name = "cublaslt";
        cuda_product_get(&p, &m.algo);
    } else if (flags & CONVOLVES && nstep == 1 && cuda_convolution_of(step, nin, in, out, &c, &m.at)) {
        m.name = "cudnn";
        cuda_convolution_get(&c, &m.algo);
    }
    if (!m.algo) return NULL;
    size_t bytes = cuda_algo_scratch(m.algo), whole = CUDA_SCRATCH_ALIGN;
    m.scratch_bytes = bytes ? (bytes + 2 * whole - 1) / whole * whole : 0;
    return arena_dup(a, &m, sizeof m);
}

static void *
find_algorithm(const struct cuda_multiply *m, int i, void *const *in, void *const *out)
{
    return i < 0 ? NULL : i < m->nin ? in[i] : out[i - m->nin];
}

bool
cuda_multiply_fits(const struct cuda_multiply *m, void *const *in, void *const *out)
{
    const int at[] = {m->at.x, m->at.w, m->at.bias, m->at.aux, m->at.y};
    uintptr_t bits = 0;
    for (size_t i = 0; i < countof(at); i++) bits |= (uintptr_t)find_algorithm(m, at[i], in, out);
    return bits % CUDA_PRODUCT_ALIGN == 0;
}

int
cuda_multiply_run(const struct cuda_multiply *m, int device, void *const *in, void *const *out, void *scratch)
{
    uintptr_t begin = ((uintptr_t)scratch + CUDA_SCRATCH_ALIGN - 1) / CUDA_SCRATCH_ALIGN * CUDA_SCRATCH_ALIGN;
    struct cuda_factors f = {.x = find_algorithm(m, m->at.x, in, out),
                             .w = find_algorithm(m, m->at.w, in, out),
                             .bias = find_algorithm(m, m->at.bias, in, out),
                             .aux = find_algorithm(m, m->at.aux, in, out),
                             .y = find_algorithm(m, m->at.y, in, out),
                             .scratch = m->scratch_bytes ? (void *)begin : NULL};
    return cuda_algo_run(m->algo, device, &f);
}
