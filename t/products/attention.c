/* attention.c - compares the attention kernels and their gradients with the reference.
 *
 * The test tries all combinations of lengths around blocks and tiles, masks, causality, dtypes and memory layouts.
 * It then tries all combinations of lengths, causality and dtypes with windows, softcaps, sinks and spans. It also
 * tries queries at an offset in the complete sequence, queries that see no key, and negative scales. bf16 is tried
 * with and without the machine's instruction for products of bf16 pairs. One thread and three threads must give the
 * same bits. */
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/gemm/gemm_few.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

enum { BATCH = 2, HEADS = 3, OPERANDS = ATT_OUT + 1, RESULTS = 4 };

/* Memory layout. DENSE; ACROSS: heads interleaved within rows, as a projection stores them; REPEATED: one head of
 * keys and values, which all query heads share. */
enum form { DENSE, ACROSS, REPEATED, NFORM };
static const char *const form_text[] = {"dense", "heads across rows", "keys repeated"};

static const struct {
    int64_t nquery, nkey, size, width;
} lengths[] = {
    {1, 1, 1, 1},     {1, 130, 3, 5},   {3, 2, 4, 1},     {17, 33, 5, 8},   {63, 64, 4, 4},     {64, 128, 8, 8},
    {65, 129, 2, 7},  {70, 300, 4, 3},  {130, 70, 3, 2},  {200, 200, 5, 6}, {130, 200, 64, 80}, {96, 96, 72, 64},
    {32, 32, 64, 64}, {33, 33, 64, 64}, {33, 35, 17, 33}, {47, 48, 48, 15}, {1, 1100, 64, 64},  {2, 97, 64, 48},
    {3, 129, 33, 64}, {4, 70, 16, 17},  {4, 65, 64, 1},   {5, 65, 64, 64},  {2, 9000, 8, 16},
};

/* dim: dimensions of the mask, as letters ('q': queries, 'k': keys, 'h': heads, '1': size 1). hides: true: some
 * queries see no key. middle: true: no query sees the first or the last third of the keys. */
static const struct mask {
    const char *name, *dim;
    enum dtype dtype;
    bool hides, middle;
} masks[] = {
    {"no mask", NULL, DT_NONE, false, false},
    {"a bool for each score", "qk", DT_BOOL, false, false},
    {"a bool for each key", "k", DT_BOOL, false, false},
    {"bools that hide all keys from some queries", "qk", DT_BOOL, true, false},
    {"a number for each score of a head", "hqk", DT_F32, false, false},
    {"numbers that hide all keys from some queries", "qk", DT_F32, true, false},
    {"a number for each query", "q1", DT_BF16, false, false},
    {"bools for keys in the middle", "hqk", DT_BOOL, false, true},
    {"a bool for each query", "q1", DT_BOOL, true, false},
};

/* Values of the operand spans, which states for each query its first key and the end of its keys. DOCUMENTS:
 * documents of equal lengths; ANY: any numbers, also out of range; NONE: an empty range of keys. */
enum spans { NO_SPANS, DOCUMENTS, ANY, NONE };
static const struct option {
    const char *name;
    int nwindow;
    int64_t window[2];
    double softcap;
    bool sinks;
    enum spans spans;
} options[] = {
    {"no option", 0, {0, 0}, 0, false, NO_SPANS},
    {"a window to the left", 2, {20, -1}, 0, false, NO_SPANS},
    {"a window to the right", 2, {-1, 3}, 0, false, NO_SPANS},
    {"a window of one key, sinks", 2, {0, 0}, 0, true, NO_SPANS},
    {"a window on both sides", 2, {70, 5}, 0, false, NO_SPANS},
    {"a softcap", 0, {0, 0}, 1.5, false, NO_SPANS},
    {"sinks", 0, {0, 0}, 0, true, NO_SPANS},
    {"documents", 0, {0, 0}, 0, false, DOCUMENTS},
    {"any spans, sinks", 0, {0, 0}, 0, true, ANY},
    {"spans without a key, sinks", 0, {0, 0}, 0, true, NONE},
    {"spans without a key", 0, {0, 0}, 0, false, NONE},
    {"all options", 2, {40, 2}, 2, true, DOCUMENTS},
};

struct trial {
    int64_t nquery, nkey, size, width, first; /* first: position of the first query in the complete sequence */
    const struct mask *mask;
    const struct option *option;
    bool causal;
    enum dtype dtype;
    enum form form;
    struct type type[OPERANDS + RESULTS];
    struct view view[OPERANDS + RESULTS];
    void *memory[OPERANDS + RESULTS];
};

static uint64_t noise;

static double
uniform(void) /* Returns a random number from -1 to 1. */
{
    return (double)(next_random(&noise) >> 11) * 0x1p-52 - 1;
}

static void
lay_out(struct trial *t, int k)
{
    struct view *v = &t->view[k];
    *v = view_dense(&t->type[k], NULL);
    int64_t n = view_numel(v);
    t->memory[k] = v->data = must_alloc((size_t)n * dtype_bytes(v->dtype) + 1);
    if (t->form != ACROSS || v->ndim != 4 || v->dtype == DT_I64) return;
    v->stride[1] = v->dim[3];
    v->stride[2] = v->dim[3] * v->dim[1];
}

/* Adds an operand of shape {batch, heads, rows, cols}. */
static void
add_operand(struct trial *t, int k, int64_t heads, int64_t rows, int64_t cols)
{
    t->type[k] = type_of(t->dtype, 4, (int64_t[]){BATCH, heads, rows, cols});
    lay_out(t, k);
    for (int64_t i = 0; i < view_numel(&t->view[k]); i++) elem_set_f(t->dtype, t->memory[k], i, 2 * uniform());
}

static void
add_mask(struct trial *t)
{
    const struct mask *m = t->mask;
    int ndim = m->dim ? (int)strlen(m->dim) : 0;
    struct type *type = &t->type[ATT_MASK];
    if (!m->dim) return;
    *type = (struct type){.dtype = (uint8_t)m->dtype, .ndim = (uint8_t)ndim};
    for (int d = 0; d < ndim; d++)
        type->dim[d] = m->dim[d] == 'q' ? t->nquery : m->dim[d] == 'k' ? t->nkey : m->dim[d] == 'h' ? HEADS : 1;
    lay_out(t, ATT_MASK);
    for (int64_t i = 0; i < view_numel(&t->view[ATT_MASK]); i++) {
        bool hidden = m->hides && i / type->dim[ndim - 1] % 5 == 2;
        double f = hidden ? -INFINITY : uniform();
        int64_t key = i % type->dim[ndim - 1], third = m->middle ? t->nkey / 3 : 0;
        bool seen = !hidden && key >= third && key < t->nkey - third && (key == third || uniform() > 0);
        if (m->dtype == DT_BOOL)
            elem_set_i(m->dtype, t->memory[ATT_MASK], i, seen);
        else
            elem_set_f(m->dtype, t->memory[ATT_MASK], i, f);
    }
}

/* Sets the first key and the end of query i of a row of the batch. Documents have 37 + batch keys. */
static void
set_span(const struct trial *t, int64_t batch, int64_t i, int64_t *span)
{
    int64_t each = 37 + batch, start = (t->first + i) / each * each;
    for (int k = 0; k < 2; k++) span[k] = (int64_t)((uniform() + 1) / 2 * (double)(t->nkey + 20)) - 10;
    if (t->option->spans == NONE) span[1] = span[0];
    if (t->option->spans == DOCUMENTS) span[0] = start, span[1] = start + each;
}

static void
add_options(struct trial *t)
{
    if (t->option->sinks) {
        t->type[ATT_SINKS] = type_of(DT_F32, 1, (int64_t[]){HEADS});
        lay_out(t, ATT_SINKS);
        for (int i = 0; i < HEADS; i++) elem_set_f(DT_F32, t->memory[ATT_SINKS], i, 2 * uniform());
    }
    if (t->option->spans == NO_SPANS) return;
    t->type[ATT_SPANS] = type_of(DT_I64, 3, (int64_t[]){1, t->nquery, 2});
    if (t->form != REPEATED) t->type[ATT_SPANS] = type_of(DT_I64, 4, (int64_t[]){BATCH, 1, t->nquery, 2});
    lay_out(t, ATT_SPANS);
    for (int64_t i = 0; i < type_numel(&t->type[ATT_SPANS]) / 2; i++)
        set_span(t, i / t->nquery, i % t->nquery, (int64_t *)t->memory[ATT_SPANS] + 2 * i);
}

static void
trial_open(struct trial *t)
{
    int64_t heads = t->form == REPEATED ? 1 : HEADS;
    add_operand(t, ATT_Q, HEADS, t->nquery, t->size);
    add_operand(t, ATT_K, heads, t->nkey, t->size);
    add_operand(t, ATT_V, heads, t->nkey, t->width);
    add_operand(t, ATT_OUT_GRAD, HEADS, t->nquery, t->width);
    add_operand(t, ATT_OUT, HEADS, t->nquery, t->width);
    add_mask(t);
    add_options(t);
    t->view[ATT_Q].offset[2] = t->first;
}

static void
trial_close(struct trial *t)
{
    for (int k = 0; k < OPERANDS + RESULTS; k++) free(t->memory[k]);
}

/* Runs the reference (threads = 0), or the kernel on the given number of threads. */
static int
run(const struct trial *t, const struct call *c, int threads, struct view *out)
{
    void *in_data[OPERANDS], *out_data[RESULTS];
    struct kcall k = {.call = c, .in = t->view, .out = out, .threads = threads};
    for (int i = 0; i < c->nin; i++) in_data[i] = t->view[i].data;
    for (int i = 0; i < c->nout; i++) out_data[i] = out[i].data;
    if (!threads) return ref_run(&k);
    struct exec *e;
    TRY(exec_new(&k, DEV_CPU, &e));
    const char *variant = t->dtype == DT_F64 ? "rows" : c->nout == 1 && t->nquery <= GEMM_FEW ? "few" : "blocks";
    if (strcmp(exec_variant(e), variant)) return fail(E_KERNEL, "taken: %s", exec_variant(e));
    return exec_once(&e, in_data, out_data, 0);
}

static double
distance(const struct view *got, const struct view *want)
{
    double largest = 1e-2, worst = 0;
    for (int64_t i = 0; i < view_numel(want); i++) {
        double w = elem_get_f(want->dtype, want->data, i);
        if (isfinite(w)) largest = fmax(largest, fabs(w));
    }
    for (int64_t i = 0; i < view_numel(want); i++) {
        double g = elem_get_f(got->dtype, got->data, i), w = elem_get_f(want->dtype, want->data, i);
        if (isnan(g) && isnan(w)) continue;
        worst = fmax(worst, isnan(g) || isnan(w) ? INFINITY : fabs(g - w) / largest);
    }
    return worst;
}

static bool
try_op(const struct trial *t, const char *name)
{
    static const double allowed[NDTYPE] = {[DT_F32] = 5e-6, [DT_BF16] = 2e-2, [DT_F16] = 2e-3, [DT_F64] = 1e-13};
    struct arena arena = {0};
    struct rule rule;
    struct attr attr[OP_ATTR];
    struct type type[RESULTS];
    struct call c = {.op = op_find(name), .in = t->type, .out = type, .attr = attr};
    struct view out[3][RESULTS];
    double worst = 0;
    bool same = true;
    c.nin = op_noperand(c.op), c.nout = c.op->nout ? c.op->nout : 1;
    op_attr_defaults(c.op, attr);
    /* decreases with the size of heads, so that scores are as large as for heads of size 8 */
    attr[ATT_SCALE].f = 0.7 * sqrt(8 / fmax(8, (double)t->size));
    if (t->nkey % 5 == 3) attr[ATT_SCALE].f *= -1;
    attr[ATT_CAUSAL].i = t->causal;
    attr[ATT_SOFTCAP].f = t->option->softcap;
    attr[ATT_WINDOW].n = t->option->nwindow;
    memcpy(attr[ATT_WINDOW].list, t->option->window, sizeof t->option->window);
    int status = call_infer(&arena, &c, &rule);
    for (int pass = 0; pass < 3; pass++) {
        for (int k = 0; k < c.nout; k++) {
            out[pass][k] = view_dense(&type[k], must_alloc((size_t)type_bytes(&type[k]) + 1));
            memcpy(out[pass][k].offset, t->view[ATT_Q].offset, sizeof out[pass][k].offset);
        }
        if (!status) status = run(t, &c, pass == 2 ? 3 : pass, out[pass]);
    }
    for (int k = 0; k < c.nout && !status; k++) {
        worst = fmax(worst, distance(&out[1][k], &out[0][k]));
        same &= !memcmp(out[1][k].data, out[2][k].data, (size_t)type_bytes(&type[k]));
    }
    for (int pass = 0; pass < 3; pass++)
        for (int k = 0; k < c.nout; k++) free(out[pass][k].data);
    arena_fini(&arena);
    bool pass = !status && same && worst <= allowed[t->dtype];
    if (!pass)
        diag("%s, %lld queries from %lld, %lld keys, size %lld, width %lld, %s, %s: %s, off by %g%s", name,
             (long long)t->nquery, (long long)t->first, (long long)t->nkey, (long long)t->size, (long long)t->width,
             dtype_text(t->dtype), form_text[t->form], status ? err_text() : "runs", worst,
             same ? "" : ", other bits on three threads");
    return pass;
}

static void
try_lengths(const struct mask *mask, const struct option *option, bool causal, enum dtype dtype, enum form form)
{
    bool pass[2] = {true, true};
    for (size_t i = 0; i < countof(lengths); i++)
        for (int64_t first = 0; first <= (causal ? 70 : 0); first += 70) {
            struct trial t = {lengths[i].nquery,
                              lengths[i].nkey,
                              lengths[i].size,
                              lengths[i].width,
                              first,
                              mask,
                              option,
                              causal,
                              dtype,
                              form,
                              {{0}},
                              {{0}},
                              {0}};
            trial_open(&t);
            pass[0] &= try_op(&t, "attention");
            pass[1] &= try_op(&t, "attention_grad");
            trial_close(&t);
        }
    for (int k = 0; k < 2; k++)
        ok(pass[k], "%s equals the reference: %s, %s%s, %s%s, %s", k ? "the gradient" : "attention", mask->name,
           option->name, causal ? ", causal" : "", dtype_text(dtype), attention_pairs ? "" : " without pair products",
           form_text[form]);
}

int
main(void)
{
    static const struct {
        enum dtype dtype;
        bool pairs;
    } types[] = {{DT_F32, true},
                 {DT_BF16, true},
                 {DT_F16, true},
                 {DT_F64, true},
                 /* tries only every third mask for bf16 without the machine's instruction for bf16 */
                 {DT_BF16, false}};
    noise = seed_of(1);
    for (size_t m = 0; m < countof(masks); m++)
        for (int causal = 0; causal < 2; causal++)
            for (size_t d = 0; d < countof(types) - (m % 3 > 0); d++) {
                if (!share_next()) continue;
                attention_pairs = types[d].pairs;
                try_lengths(&masks[m], &options[0], causal, types[d].dtype,
                            (enum form)((m + (size_t)causal + d) % NFORM));
            }
    for (size_t o = 1; o < countof(options); o++)
        for (int causal = 0; causal < 2; causal++)
            for (size_t d = 0; d < countof(types); d++) {
                if (!share_next()) continue;
                attention_pairs = types[d].pairs;
                const struct mask *mask = &masks[(o + d) % 4 == 0 ? 4 : 0];
                try_lengths(mask, &options[o], causal, types[d].dtype, (enum form)((o + (size_t)causal + d) % NFORM));
            }
    return done();
}
