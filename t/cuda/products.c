/* products.c - tests the library products that kernels/cuda finds: each must equal the call that it replaces.
 *
 * The test tries the samples of every operator in every dtype and memory layout, and chains of operators after a
 * product. It computes each found product by the specification in runtime/device/device_cuda.h, and compares the
 * result with the reference. It also states which calls and chains must be found. */
#include "kernels/cuda/product.h"
#include "t/lib/kernel/trial.h"
#include "kernels/exec/method_epilogue.h"

/* ---- computing a product by its specification ---- */

static const enum dtype dtype_of[] = {
    [CUDA_F32] = DT_F32, [CUDA_F64] = DT_F64, [CUDA_BF16] = DT_BF16, [CUDA_F16] = DT_F16};

static double
gelu(double v)
{
    return v / 2 * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}

static double
gelu_slope(double v)
{
    double t = tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v));
    return (1 + t) / 2 + v / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v);
}

static double
element(enum dtype d, const void *data, const struct cuda_matrix *m, int64_t b, int64_t i, int64_t j)
{
    return elem_get_f(d, data, b * m->batch + i * m->row + j * m->col);
}

static void
compute(const struct cuda_product *p, const struct cuda_factors *at)
{
    enum dtype from = dtype_of[p->from], to = dtype_of[p->to];
    for (int64_t e = 0; e < p->batch * p->m * p->n; e++) {
        int64_t j = e % p->n, i = e / p->n % p->m, b = e / p->n / p->m;
        int64_t place = b * p->y.batch + i * p->y.row + j;
        double v = p->bias ? elem_get_f(to, at->bias, j) : 0;
        for (int64_t l = 0; l < p->k; l++)
            v += element(from, at->x, &p->x, b, i, l) * element(from, at->w, &p->w, b, l, j);
        if (p->after == CUDA_GELU && p->aux) elem_set_f(to, at->aux, place, v);
        if (p->after == CUDA_GELU_SLOPE) v *= gelu_slope(elem_get_f(to, at->aux, place));
        elem_set_f(to, at->y, place, p->after == CUDA_GELU ? gelu(v) : v);
    }
}

/* Returns true if a library can read the matrix: its rows or its columns are contiguous. */
static bool
is_matrix(const struct cuda_matrix *m, int64_t rows, int64_t cols)
{
    return (m->col == 1 && m->row >= cols) || (m->row == 1 && m->col >= rows);
}

static bool
is_sound(const struct cuda_product *p)
{
    return p->m > 0 && p->n > 0 && p->k > 0 && p->batch > 0 && is_matrix(&p->x, p->m, p->k) &&
           is_matrix(&p->w, p->k, p->n) && p->y.col == 1 && p->y.row >= p->n;
}

/* ---- calls of single operators ---- */

static bool
is_product(const struct op *op)
{
    return op == op_find("matmul") || op == op_find("contract");
}

/* Returns true if a library must compute the product: its operands are contiguous floats, with at most one broadcast
 * batch. */
static bool
must_be_found(const struct op *op, const char *text, const struct type *t, enum memory m)
{
    return is_product(op) && dtype_is_float((enum dtype)t->dtype) && m == DENSE && !strstr(text, "{2,1,3,4}");
}

static void
try_call(const struct op *op, const char *text, enum memory m, uint64_t seed)
{
    struct trial t;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    struct cuda_product p;
    struct cuda_places at;
    if (!trial_open(&t, op, text, m, seed)) {
        trial_close(&t);
        return;
    }
    const struct call *c = &t.sample.call;
    struct fuse_step step = {.call = c};
    for (int i = 0; i < MIN(c->nin, OP_OPERAND); i++) step.arg[i].index = i;
    kcall_of(&t, c, t.got, view, data, &k);
    bool found = cuda_product_of(&t.arena, epilogue_by(1, &step), 1, &step, c->nin, view, view + c->nin, &p, &at);
    if (!found && must_be_found(op, text, &c->in[0], m))
        ok(false, "%s %s, %s is found as a library product", op->name, text, memory_text[m]);
    if (found) {
        struct cuda_factors f = {.x = data[at.x], .w = data[at.w], .y = data[at.y]};
        compute(&p, &f);
        bool good = is_product(op) && is_sound(&p) && !p.bias && !p.aux && !trial_reference(&t);
        double far = distance(&t.got[0].view, &t.want[0].view);
        if (!ok(good && far <= 1, "%s %s, %s: the library product equals the reference", op->name, text,
                memory_text[m]))
            diag("%g times the allowed error", far);
    }
    trial_close(&t);
}

static void
try_calls(uint64_t seed)
{
    static const char *const dtype[] = {"f32", "f64", "bf16", "f16", "i64"};
    static const char *const more[] = {"f32{3,1,4} f32{4,5}",   "f32{2,3,2,4} f32{4,5}", "f32{3,4} f32{2,4,5}",
                                       "f32{2,1,4} f32{2,4,1}", "f32{7} f32{7,3}",       "f32{2,3,4,5} f32{2,3,5,6}",
                                       "f32{1,6} f32{6,1}",     "f32{0,4} f32{4,5}",     "f32{3,0} f32{0,5}",
                                       "f32{1,4,3} f32{5,3,2}"};
    char text[128];
    for (int i = 0; i < op_count; i++)
        for (int s = 0; s < OP_SAMPLE && op_table[i]->sample[s]; s++)
            for (int m = 0; m < NMEMORY; m++) {
                try_call(op_table[i], op_table[i]->sample[s], (enum memory)m, seed++);
                for (size_t d = 1; d < countof(dtype) && strstr(op_table[i]->sample[s], "f32"); d++)
                    if (trial_retype(op_table[i], op_table[i]->sample[s], dtype[d], text, sizeof text))
                        try_call(op_table[i], text, (enum memory)m, seed++);
            }
    for (size_t i = 0; i < countof(more); i++)
        for (int m = 1; m < NMEMORY; m++) try_call(op_find("matmul"), more[i], (enum memory)m, seed++);
}

/* ---- chains of operators after a product ---- */

enum { M = 6, K = 5, N = 7, STEPS = 6, OPERANDS = 6 };
enum bias { NO_BIAS, BIAS, BIAS_1, COLUMN, RESIDUAL, NBIAS };
enum after { NOTHING, GELU, GELU_EXACT, SLOPE, SLOPE_EXACT, RELU, TWICE, WIDENED, NAFTER };
static const char *const bias_text[] = {"", " + bias", " + bias{1,n}", " + column", " + residual"};
static const char *const after_text[] = {"",      " gelu",    " exact gelu", " slope", " exact slope",
                                         " relu", " squared", " as f32"};

struct chain {
    struct arena arena;
    uint64_t random;
    enum dtype dtype;
    int nstep, nin, nout;
    struct fuse_step step[STEPS];
    struct view in[OPERANDS], out[STEPS];
    void *data[OPERANDS], *got[STEPS], *want[STEPS];
};

static struct fuse_arg
operand(struct chain *c, int ndim, int64_t rows, int64_t cols)
{
    struct type t = type_of(c->dtype, ndim, ndim == 1 ? &cols : (int64_t[]){rows, cols});
    int64_t n = type_numel(&t);
    c->in[c->nin] = view_dense(&t, NULL);
    c->data[c->nin] = arena_alloc(&c->arena, (size_t)n * 8 + 16);
    for (int64_t i = 0; i < n; i++)
        elem_set_f(c->dtype, c->data[c->nin], i, (double)(next_random(&c->random) >> 11) * 0x1p-52 - 1);
    return (struct fuse_arg){false, c->nin++};
}

static struct type
type_of_arg(const struct chain *c, struct fuse_arg a)
{
    const struct view *v = &c->in[a.step ? 0 : a.index];
    return a.step ? c->step[a.index].call->out[0] : type_of((enum dtype)v->dtype, v->ndim, v->dim);
}

/* Adds a step to the chain and returns the step's result. attr: value of attribute 0; 0: the default. */
static struct fuse_arg
step(struct chain *c, const char *name, struct fuse_arg x, struct fuse_arg y, int64_t attr)
{
    struct call *call = ARENA_NEW(&c->arena, struct call);
    struct type *in = ARENA_ARRAY(&c->arena, struct type, 2);
    struct attr *attrs = ARENA_ARRAY(&c->arena, struct attr, OP_ATTR);
    const struct op *op = op_find(name);
    struct rule rule;
    op_attr_defaults(op, attrs);
    if (attr) attrs[0] = (struct attr){.set = true, .i = attr};
    *call = (struct call){.op = op, .nin = op_noperand(op), .nout = 1, .in = in, .attr = attrs};
    call->out = ARENA_NEW(&c->arena, struct type);
    in[0] = type_of_arg(c, x);
    if (call->nin > 1) in[1] = type_of_arg(c, y);
    if (call_infer(&c->arena, call, &rule)) diag("%s", err_text());
    c->step[c->nstep] = (struct fuse_step){.call = call, .arg = {x, y}, .out = -1};
    return (struct fuse_arg){true, c->nstep++};
}

static void
leave(struct chain *c, struct fuse_arg a)
{
    struct type t = type_of((enum dtype)c->step[a.index].call->out[0].dtype, 2, (int64_t[]){M, N});
    c->step[a.index].out = c->nout;
    c->out[c->nout] = view_dense(&t, NULL);
    c->got[c->nout] = arena_alloc(&c->arena, M * N * 8);
    c->want[c->nout++] = arena_alloc(&c->arena, M * N * 8);
}

/* Makes the chain. kept: true: the chain also returns the operand of its last operator; swapped: true: binary
 * operators have their operands in reverse order. */
static void
make(struct chain *c, enum bias bias, enum after after, bool kept, bool swapped)
{
    struct fuse_arg v, x, none = {false, -1}, a = operand(c, 2, M, K), b = operand(c, 2, K, N);
    bool slope = after == SLOPE || after == SLOPE_EXACT;
    if (slope) x = operand(c, 2, M, N);
    if (slope && swapped)
        x = step(c, "gelu_derivative", x, none, after == SLOPE); /* computes the slope of gelu before the product */
    v = step(c, "matmul", a, b, 0);
    if (slope && !swapped) x = step(c, "gelu_derivative", x, none, after == SLOPE);
    if (bias != NO_BIAS) {
        struct fuse_arg y = operand(c, bias == BIAS ? 1 : 2, bias >= COLUMN ? M : 1, bias == COLUMN ? 1 : N);
        v = step(c, "add", swapped ? y : v, swapped ? v : y, 0);
    }
    if (kept) leave(c, v);
    if (after == GELU || after == GELU_EXACT) v = step(c, "gelu", v, none, after == GELU);
    if (after == RELU) v = step(c, "relu", v, none, 0);
    if (after == TWICE) v = step(c, "mul", v, v, 0);
    if (after == WIDENED) v = step(c, "cast", v, none, DT_F32);
    if (slope) v = step(c, "mul", swapped ? x : v, swapped ? v : x, 0);
    if (c->step[v.index].out < 0) leave(c, v);
}

/* Returns true if cuBLASLt has an epilogue for the chain. Epilogues are a bias, then gelu (whose operand the chain
 * may return, too); the slope of gelu; and sums of halves as f32. */
static bool
is_known(enum dtype d, enum bias bias, enum after after, bool kept)
{
    if (bias > BIAS_1) return false;
    if (after == WIDENED) return dtype_is_half(d) && bias == NO_BIAS && !kept;
    return after == NOTHING || after == GELU || (after == SLOPE && bias == NO_BIAS && !kept);
}

/* Checks that a product without following operators is found as a single call. */
static int
make_exec(const struct chain *c, struct exec **e)
{
    struct kcall k = {.call = c->step[0].call, .in = c->in, .out = c->out, .threads = 1};
    return c->nstep == 1 ? exec_new(&k, DEV_CPU, e)
                         : exec_fused(c->nstep, c->step, c->nin, c->in, c->nout, c->out, DEV_CPU, 1, e);
}

static void
run_on_cpu(struct chain *c)
{
    struct exec *e;
    if (!ok(!make_exec(c, &e), "the cpu can compute the chain")) return;
    if (exec_once(&e, c->data, c->want, 0)) ok(false, "%s", err_text());
}

static void *
place(const struct chain *c, int i)
{
    return i < 0 ? NULL : i < c->nin ? c->data[i] : c->got[i - c->nin];
}

static double
farthest(struct chain *c)
{
    double far = 0;
    for (int i = 0; i < c->nout; i++) {
        struct view got = c->out[i], want = c->out[i];
        got.data = c->got[i], want.data = c->want[i];
        if (want.dtype != c->dtype) { /* the cpu rounds intermediate results, which a library need not do */
            struct type t = type_of(c->dtype, 2, want.dim);
            struct view rounded = view_dense(&t, arena_alloc(&c->arena, M * N * 8));
            struct view before = view_dense(&t, arena_alloc(&c->arena, M * N * 8));
            view_copy(&rounded, &got);
            view_copy(&before, &want);
            got = rounded, want = before;
        }
        far = fmax(far, distance(&got, &want));
    }
    return far;
}

static void
try_chain(enum dtype d, enum bias bias, enum after after, bool kept, bool swapped, uint64_t seed)
{
    struct chain c = {.random = seed, .dtype = d};
    struct cuda_product p;
    struct cuda_places at;
    make(&c, bias, after, kept, swapped);
    bool found = cuda_product_of(&c.arena, epilogue_by(c.nstep, c.step), c.nstep, c.step, c.nin, c.in, c.out, &p, &at);
    bool good = found == is_known(d, bias, after, kept);
    double far = 0;
    if (found) {
        struct cuda_factors f = {.x = place(&c, at.x), .w = place(&c, at.w), .bias = place(&c, at.bias)};
        f.aux = place(&c, at.aux), f.y = place(&c, at.y);
        run_on_cpu(&c);
        compute(&p, &f);
        far = farthest(&c);
        good = good && is_sound(&p) && p.bias == (bias != NO_BIAS) && far <= 1;
    }
    if (!ok(good, "%s: x w%s%s%s%s is %s", dtype_text(d), bias_text[bias], kept ? ", kept," : "", after_text[after],
            swapped ? ", swapped," : "", found ? "one library product" : "no library product"))
        diag("%g times the allowed error", far);
    arena_fini(&c.arena);
}

static void
try_chains(uint64_t seed)
{
    static const enum dtype dtype[] = {DT_F32, DT_F64, DT_BF16, DT_F16};
    for (size_t d = 0; d < countof(dtype); d++)
        for (int bias = 0; bias < NBIAS; bias++)
            for (int after = 0; after < NAFTER; after++)
                for (int way = 0; way < 4; way++)
                    try_chain(dtype[d], (enum bias)bias, (enum after)after, way & 1, way & 2, seed++);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    try_calls(seed);
    try_chains(seed);
    return done();
}
