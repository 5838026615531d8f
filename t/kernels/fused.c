/* fused.c - compares a fused chain of element-wise calls with the same calls one by one, bit for bit.
 *
 * Chains are random in operators, dtypes, operands (broadcast, scalar, strided, or the result of an earlier step),
 * and in the intermediate results that they also return. In some chains the first step is a matrix product. The test
 * also checks sums over short and long rows, and over many and few rows, element by element. */
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

enum { STEPS = 8, OPERANDS = 8, FACTORS = 2, CHAINS = 1200 };

static const char *const names[] = {"add",         "sub",        "mul",         "div",  "maximum", "minimum", "where",
                                    "exp",         "tanh",       "sigmoid",     "relu", "abs",     "neg",     "eq",
                                    "ne",          "lt",         "le",          "gt",   "ge",      "sign",    "cast",
                                    "logical_and", "logical_or", "logical_not", "add",  "sub",     "mul",     "relu",
                                    "square",      "reciprocal", "clamp",       "sqrt", "rsqrt"};
static const int64_t shapes[][3] = {{1, 1, 5}, {4, 1, 1}, {1, 3, 1}, {4, 3, 5}, {4, 3, 1}};

struct input {
    struct type type;
    struct view view;
    void *memory;
};
struct chain {
    struct arena arena;
    uint64_t random;
    int64_t full[3];
    int noperand, nstep, nout;
    int threads; /* number of threads that run the chain, and the product alone */
    /* index of the step that is a matrix product, whose factors come after the operands; -1: no step is */
    int lead;
    struct input operand[OPERANDS + FACTORS];
    struct fuse_step step[STEPS];
    struct type result[STEPS];
    void *alone[STEPS]; /* by step: the result computed alone, a dense tensor of the full shape */
    struct view out[STEPS];
    void *data[STEPS];
};

static uint64_t
draw(struct chain *c, uint64_t n)
{
    return next_random(&c->random) % n;
}

/* Fills the operand's memory with random values of its type. Neighbouring elements of the operand are `gap` values
 * apart. */
static void
fill_operand(struct chain *c, struct input *o, int64_t gap)
{
    int64_t n = type_numel(&o->type) * gap;
    o->view = view_dense(&o->type, NULL);
    for (int d = 0; d < o->type.ndim; d++) o->view.stride[d] *= gap;
    o->view.data = o->memory = arena_alloc(&c->arena, (size_t)n * sizeof(double) + 1);
    for (int64_t i = 0; i < n; i++)
        if (dtype_is_float((enum dtype)o->type.dtype))
            elem_set_f(o->type.dtype, o->memory, i, (double)draw(c, 4000) / 1000 - 2);
        else
            elem_set_i(o->type.dtype, o->memory, i,
                       o->type.dtype == DT_BOOL ? (int64_t)draw(c, 2) : (int64_t)draw(c, 7) - 3);
}

/* Makes a random operand. The first operand is a tensor, because a chain of scalars has no shape. */
static void
make_operand(struct chain *c, struct input *o)
{
    static const enum dtype dtypes[] = {DT_F32, DT_F32, DT_F32, DT_BF16, DT_F16, DT_F64, DT_I64, DT_I32, DT_BOOL};
    const int64_t *mask = shapes[draw(c, countof(shapes))];
    int64_t dim[3];
    for (int d = 0; d < 3; d++) dim[d] = mask[d] == 1 ? 1 : c->full[d];
    o->type = type_of(dtypes[draw(c, countof(dtypes))], 3, dim);
    if (o != c->operand && draw(c, 6) == 0) o->type = (struct type){.dtype = draw(c, 2) ? DT_F64 : DT_I64, .weak = 1};
    fill_operand(c, o, draw(c, 4) == 0 ? 2 : 1);
}

/* Makes step `index` a matrix product of factors with shapes {full[0], full[1], k} and {k, full[2]}. No other step
 * reads the factors. */
static void
make_product(struct chain *c, int index)
{
    static const enum dtype dtypes[] = {DT_F32, DT_F32, DT_F32, DT_BF16, DT_F64};
    int64_t inner = 1 + (int64_t)draw(c, 70);
    enum dtype d = dtypes[draw(c, countof(dtypes))];
    struct input *factor = c->operand + c->noperand;
    struct call *call = ARENA_NEW(&c->arena, struct call);
    struct type *in = ARENA_ARRAY(&c->arena, struct type, FACTORS);
    factor[0].type = in[0] = type_of(d, 3, (int64_t[]){c->full[0], c->full[1], inner});
    factor[1].type = in[1] = type_of(d, 2, (int64_t[]){inner, c->full[2]});
    for (int i = 0; i < FACTORS; i++) fill_operand(c, &factor[i], draw(c, 4) ? 1 : 2);
    c->lead = index;
    c->step[index] =
        (struct fuse_step){.call = call, .arg = {{false, c->noperand}, {false, c->noperand + 1}}, .out = -1};
    const struct op *op = op_find("matmul");
    struct attr *attr = ARENA_ARRAY(&c->arena, struct attr, OP_ATTR);
    op_attr_defaults(op, attr);
    *call = (struct call){.op = op, .nin = 2, .nout = 1, .in = in, .out = &c->result[index], .attr = attr};
    struct rule rule;
    if (call_infer(&c->arena, call, &rule)) diag("%s", err_text());
}

/* Makes a random step on earlier results and operands. Returns false if the types do not fit. */
static bool
make_step(struct chain *c, int index)
{
    struct fuse_step *s = &c->step[index];
    struct call *call = ARENA_NEW(&c->arena, struct call);
    const struct op *op = op_find(names[draw(c, countof(names))]);
    struct type *in = ARENA_ARRAY(&c->arena, struct type, OP_OPERAND);
    bool tensor = false;
    *s = (struct fuse_step){.call = call, .out = -1};
    *call = (struct call){.op = op,
                          .nin = op_noperand(op),
                          .nout = 1,
                          .in = in,
                          .out = &c->result[index],
                          .attr = ARENA_ARRAY(&c->arena, struct attr, 1)};
    for (int k = 0; k < call->nin; k++) {
        bool earlier = index > 0 && (k == 0 || draw(c, 2));
        s->arg[k].step = earlier;
        s->arg[k].index = (int)draw(c, (uint64_t)(earlier ? index : c->noperand));
        in[k] = earlier ? c->result[s->arg[k].index] : c->operand[s->arg[k].index].type;
        tensor |= !in[k].weak;
    }
    struct rule rule;
    return tensor && !call_infer(&c->arena, call, &rule);
}

static struct view
full_view(const struct chain *c, enum dtype d, void *data)
{
    struct type t = type_of(d, 3, c->full);
    return view_dense(&t, data);
}

/* Computes one step alone, into a dense result of the chain's full shape. The result of the step may be smaller,
 * but broadcasting it before or after the step gives the same values. */
static int
run_alone(struct chain *c, int index)
{
    const struct fuse_step *s = &c->step[index];
    struct view view[OP_OPERAND + 1];
    void *data[OP_OPERAND + 1];
    int nin = s->call->nin;
    for (int k = 0; k < nin; k++) {
        int i = s->arg[k].index;
        view[k] = s->arg[k].step ? full_view(c, (enum dtype)c->result[i].dtype, c->alone[i]) : c->operand[i].view;
        data[k] = view[k].data;
        view[k].data = NULL;
    }
    view[nin] = full_view(c, (enum dtype)c->result[index].dtype, NULL);
    data[nin] = c->alone[index] = arena_alloc(&c->arena, (size_t)view_numel(&view[nin]) * sizeof(double) + 1);
    struct kcall k = {.call = s->call, .in = view, .out = view + nin, .threads = index == c->lead ? c->threads : 1};
    return kcall_once(&k, data, data + nin, NULL);
}

static int
run_fused(struct chain *c)
{
    struct view in[OPERANDS + FACTORS];
    void *data[OPERANDS + FACTORS];
    int nin = c->noperand + (c->lead < 0 ? 0 : FACTORS);
    for (int i = 0; i < nin; i++) {
        in[i] = c->operand[i].view;
        data[i] = in[i].data;
        in[i].data = NULL;
    }
    struct exec *e;
    TRY(exec_fused(c->nstep, c->step, nin, in, c->nout, c->out, DEV_CPU, c->threads, &e));
    return exec_once(&e, data, c->data, 0);
}

/* Chooses the results of the chain: that of the last step, and some others at random. Some results are in strided
 * memory, but not that of a product, because other kernels compute strided products. */
static void
choose_outputs(struct chain *c)
{
    for (int i = 0; i < c->nstep; i++) {
        if (i < c->nstep - 1 && draw(c, 4)) continue;
        struct view v = full_view(c, (enum dtype)c->result[i].dtype, NULL);
        int64_t gap = i == c->lead || draw(c, 4) ? 1 : 2;
        for (int d = 0; d < 3; d++) v.stride[d] *= gap;
        c->step[i].out = c->nout;
        c->data[c->nout] = arena_alloc(&c->arena, (size_t)(view_numel(&v) * gap) * sizeof(double) + 1);
        c->out[c->nout++] = v;
    }
}

/* Returns true if the values have the same bits, or are both NaN. The bits of a NaN may differ, because they depend
 * on the order of operands. */
static bool
same_values(enum dtype d, const char *a, const char *b, int64_t n)
{
    size_t bytes = dtype_bytes(d);
    for (int64_t i = 0; i < n; i++) {
        double x = elem_get_f(d, a, i), y = elem_get_f(d, b, i);
        if (memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) && !(x != x && y != y)) return false;
    }
    return true;
}

static bool
same_bits(struct chain *c)
{
    bool same = true;
    for (int i = 0; i < c->nstep; i++) {
        if (c->step[i].out < 0) continue;
        struct view got = c->out[c->step[i].out], dense = full_view(c, (enum dtype)got.dtype, NULL);
        size_t bytes = (size_t)view_numel(&got) * dtype_bytes(got.dtype);
        got.data = c->data[c->step[i].out];
        dense.data = arena_alloc(&c->arena, bytes + 1);
        view_copy(&dense, &got);
        same &= same_values((enum dtype)got.dtype, dense.data, c->alone[i], view_numel(&got));
    }
    return same;
}

static void
try_chain(uint64_t seed)
{
    struct chain c = {.random = seed, .lead = -1};
    c.full[0] = 1 + (int64_t)draw(&c, 40);
    c.full[1] = 1 + (int64_t)draw(&c, 9);
    c.full[2] = draw(&c, 3) ? 1 + (int64_t)draw(&c, 40) : 1 + (int64_t)draw(&c, 1500);
    c.threads = 1 + (int)draw(&c, 3);
    c.noperand = 2 + (int)draw(&c, OPERANDS - 2);
    for (int i = 0; i < c.noperand; i++) make_operand(&c, &c.operand[i]);
    int status = 0, want = 1 + (int)draw(&c, STEPS), lead = draw(&c, 3) ? -1 : (int)draw(&c, (uint64_t)want);
    while (c.nstep < want) {
        bool made = c.nstep == lead && lead < want - 1;
        if (made)
            make_product(&c, c.nstep);
        else
            made = make_step(&c, c.nstep);
        if (made) status |= run_alone(&c, c.nstep++);
    }
    choose_outputs(&c);
    if (!status) status = run_fused(&c);
    struct str text = {0};
    for (int i = 0; i < c.nstep; i++) str_addf(&text, "%s%s", i ? " " : "", c.step[i].call->op->name);
    bool good = !status && same_bits(&c);
    ok(good, "seed %llu: %s on {%lld, %lld, %lld}", (unsigned long long)seed, str_text(&text), (long long)c.full[0],
       (long long)c.full[1], (long long)c.full[2]);
    if (status) diag("%s", err_text());
    str_free(&text);
    arena_fini(&c.arena);
}

/* Checks x * 0.5 + 0.5 on arrays that are long enough for results to bypass the caches, and for the work to be
 * split among threads and blocks. */
static void
try_long(int threads)
{
    enum { LONG = 9000007 };
    struct chain c = {.full = {1, 1, LONG}, .noperand = 2, .nstep = 2, .nout = 1};
    c.operand[0].type = type_of(DT_F32, 3, c.full);
    c.operand[1].type = (struct type){.dtype = DT_F64, .weak = 1};
    float *x = arena_alloc(&c.arena, LONG * sizeof *x), *y = arena_alloc(&c.arena, (LONG + 1) * sizeof *y);
    double half = 0.5;
    for (int i = 0; i < LONG; i++) x[i] = (float)(i % 8191);
    y[LONG] = -1;
    struct view in[2] = {view_dense(&c.operand[0].type, NULL), view_dense(&c.operand[1].type, NULL)};
    struct view out = full_view(&c, DT_F32, NULL);
    for (int i = 0; i < 2; i++) {
        struct call *call = ARENA_NEW(&c.arena, struct call);
        struct type type[2] = {c.operand[0].type, c.operand[1].type};
        *call = (struct call){.op = op_find(i ? "add" : "mul"), .nin = 2, .nout = 1, .out = &c.result[i]};
        call->in = arena_dup(&c.arena, type, sizeof type);
        struct rule rule;
        if (call_infer(&c.arena, call, &rule)) diag("%s", err_text());
        c.step[i] = (struct fuse_step){.call = call, .arg = {{i == 1, 0}, {false, 1}}, .out = i ? 0 : -1};
    }
    struct exec *e;
    bool good = !exec_fused(c.nstep, c.step, 2, in, 1, &out, DEV_CPU, threads, &e) &&
                !exec_once(&e, (void *[]){x, &half}, (void *[]){y}, 0);
    for (int i = 0; i < LONG; i++) good = good && y[i] == x[i] * 0.5f + 0.5f;
    ok(good && y[LONG] == -1, "%d elements on %d threads", LONG, threads);
    arena_fini(&c.arena);
}

/* Checks x + y for x of shape `full`. mask[d]: 1 if y has size 1 in dimension d; transposed: x is transposed in
 * memory; over: the sum overwrites x. */
static void
try_rows(enum dtype d, const int64_t *full, const int64_t *mask, bool transposed, bool over)
{
    struct arena a = {0};
    int64_t dim[3], n = full[0] * full[1] * full[2];
    for (int k = 0; k < 3; k++) dim[k] = mask[k] == 1 ? 1 : full[k];
    struct type type[2] = {type_of(d, 3, full), type_of(d, 3, dim)}, result;
    struct call *c = ARENA_NEW(&a, struct call);
    *c = (struct call){.op = op_find("add"), .nin = 2, .nout = 1, .in = type, .out = &result};
    struct rule rule;
    struct view in[3] = {view_dense(&type[0], NULL), view_dense(&type[1], NULL), view_dense(&type[0], NULL)};
    if (transposed) {
        in[0].stride[1] = 1;
        in[0].stride[2] = full[1];
    }
    char *data[3];
    for (int k = 0; k < 3; k++) data[k] = arena_alloc(&a, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        elem_set_f(d, data[0], i, (double)(i * 7 % 11));
        elem_set_f(d, data[1], i, (double)(i * 5 % 13));
    }
    struct kcall k = {.call = c, .in = in, .out = in + 2, .threads = 1};
    if (over) memcpy(data[2], data[0], (size_t)n * dtype_bytes(d));
    bool good = !call_infer(&a, c, &rule) &&
                !kcall_once(&k, (void *[]){data[over ? 2 : 0], data[1]}, (void *[]){data[2]}, NULL);
    for (int64_t i = 0; good && i < n; i++) {
        int64_t at[3] = {i / full[2] / full[1], i / full[2] % full[1], i % full[2]}, x = 0, y = 0;
        for (int j = 0; j < 3; j++) x += at[j] * in[0].stride[j];
        for (int j = 0; j < 3; j++) y += dim[j] == 1 ? 0 : at[j] * in[1].stride[j];
        good = elem_get_f(d, data[2], i) == (double)(x * 7 % 11 + y * 5 % 13);
    }
    ok(good, "%s{%lld,%lld,%lld}%s %s {%lld,%lld,%lld}", dtype_text(d), (long long)full[0], (long long)full[1],
       (long long)full[2], transposed ? " turned" : "", over ? "+=" : "+", (long long)dim[0], (long long)dim[1],
       (long long)dim[2]);
    arena_fini(&a);
}

static void
try_each_row(void)
{
    static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_F16, DT_F64, DT_I32};
    static const int64_t rows[] = {2, 255, 256, 257, 1100}, row[] = {1, 2, 3, 7, 8, 16, 17, 40};
    static const int64_t longer[] = {31, 32, 49, 64, 127, 128, 130, 200, 500, 1500};
    for (size_t d = 0; d < countof(dtypes); d++)
        for (size_t r = 0; r < countof(rows); r++)
            for (size_t n = 0; n < countof(row); n++)
                for (size_t s = 0; s < 2 * countof(shapes); s++)
                    try_rows(dtypes[d], (int64_t[]){1 + (int64_t)(n & 2), rows[r], row[n]}, shapes[s / 2], s % 2,
                             false);
    for (size_t d = 0; d < countof(dtypes); d++)
        for (size_t n = 0; n < countof(longer); n++)
            for (size_t s = 0; s < 2 * countof(shapes); s++)
                try_rows(dtypes[d], (int64_t[]){3, 70, longer[n]}, shapes[s / 2], false, s % 2);
}

int
main(void)
{
    try_each_row();
    for (int threads = 1; threads <= 3; threads++) try_long(threads);
    uint64_t seed = seed_of(1);
    for (uint64_t i = 0; i < CHAINS; i++) try_chain(seed + i);
    return done();
}
