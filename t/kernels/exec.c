/* exec.c - tests how the kernel variant of a call is chosen: the first variant that accepts the call; if none does,
 * the first that accepts the call with dense operands; else the reference. Also tests RILLE_CHECK. */
#include "kernels/exec/exec_inner.h"
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"
#include "sbp/write.h"

enum { N = 6 };

/* Kernel variants of y = 2 x in f64. A variant's name states which calls it accepts. */
static int
twice(const struct kcall *k)
{
    for (int64_t i = 0; i < view_numel(&k->out[0]); i++)
        ((double *)k->out[0].data)[i] = 2 * ((const double *)k->in[0].data)[i];
    return 0;
}

static int
variant_twice(const struct kcall *k, const void *state)
{
    const struct view *x = &k->in[0];
    for (int64_t i = 0; i < N; i++) ((float *)k->out[0].data)[i] = 2 * ((const float *)x->data)[i * x->stride[0]];
    return state ? 0 : fail(E_KERNEL, "prepare() was not called");
}

static int
variant_thrice(const struct kcall *k, const void *state)
{
    (void)state;
    for (int64_t i = 0; i < N; i++) ((float *)k->out[0].data)[i] = 3 * ((const float *)k->in[0].data)[i];
    return 0;
}

static int prepared, dropped;
static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    ok(!k->in[0].data, "prepare sees no data");
    *state = &prepared;
    *scratch_bytes = 100;
    prepared++;
    return 0;
}
static void
drop(void *state)
{
    dropped += state == &prepared;
}
static bool
dense(const struct kcall *k)
{
    return view_is_dense(&k->in[0]);
}
static bool
takes_gaps(const struct kcall *k, int i)
{
    return k->in[i].stride[0] == 2;
}
static bool
never(const struct kcall *k)
{
    (void)k;
    return false;
}

static struct op
record(const struct kernel_variant *variants)
{
    return (struct op){.name = "twice",
                       .doc = "y = 2 x",
                       .in = {{.name = "x"}},
                       .shape.make_rule = rule_same,
                       .host.ref = twice,
                       .host.kernel = variants};
}

struct run {
    struct type in, out;
    struct call call;
    struct view view[2];
    float x[2 * N], y[N];
    struct exec *e;
    const char *variant;
    size_t scratch;
};

/* Computes the operator twice(x). x has the elements 1, 2, ..., which are `stride` elements apart in memory. */
static int
run(struct run *r, const struct op *op, int64_t stride, int device)
{
    *r = (struct run){.in = type_of(DT_F32, 1, (int64_t[]){N})};
    r->out = r->in;
    r->call = (struct call){.op = op, .nin = 1, .nout = 1, .in = &r->in, .out = &r->out};
    for (int i = 0; i < 2 * N; i++) r->x[i] = -100;
    for (int i = 0; i < N; i++) r->x[i * stride] = (float)(i + 1);
    r->view[0] = r->view[1] = view_dense(&r->in, NULL);
    r->view[0].stride[0] = stride;
    struct kcall k = {.call = &r->call, .in = r->view, .out = r->view + 1, .threads = 1};
    TRY(exec_new(&k, device, &r->e));
    r->variant = exec_variant(r->e);
    r->scratch = exec_scratch(r->e);
    void *in = r->x, *out = r->y;
    return exec_once(&r->e, &in, &out, 0);
}

static bool
is_times(const struct run *r, float factor)
{
    for (int i = 0; i < N; i++)
        if (r->y[i] != factor * (float)(i + 1)) return false;
    return true;
}

static void
test_choice(void)
{
    const struct kernel_variant variants[] = {
        {"no", .accepts = never, .run = variant_thrice},
        {"yes", .accepts = dense, .prepare = prepare, .run = variant_twice, .drop = drop},
        {"late", .run = variant_thrice},
        {NULL}};
    struct op op = record(variants);
    struct run r;
    ok(!run(&r, &op, 1, DEV_CPU) && is_times(&r, 2), "the call is computed");
    is_str(r.variant, "yes", "the first variant that accepts the call computes it");
    ok(prepared == 1 && dropped == 1, "the prepared state is dropped once");
    ok(r.scratch >= 100, "the variant's scratch is counted");
    ok(!run(&r, &op, 2, DEV_CPU), "a call with a strided operand is computed");
    is_str(r.variant, "late", "a later variant accepts the strided operand");
    ok(!run(&r, &op, 1, DEV_ASYNC) && !strcmp(r.variant, "yes"), "the async test device has the variants of the cpu");
    ok(run(&r, &op, 1, DEV_CUDA) == E_KERNEL && strstr(err_text(), "twice"),
       "without a variant the error names the operator");
}

static void
test_dense(void)
{
    const struct kernel_variant variants[] = {
        {"dense", .dense_in = true, .accepts = dense, .prepare = prepare, .run = variant_twice}, {NULL}};
    struct op op = record(variants), bare = record(NULL);
    struct run r;
    ok(!run(&r, &op, 2, DEV_CPU) && is_times(&r, 2), "a variant that needs dense operands gets a dense copy");
    is_str(r.variant, "dense", "the variant's accepts() sees the dense copy");
    const struct kernel_variant gaps[] = {
        {"gaps", .dense_in = true, .takes = takes_gaps, .prepare = prepare, .run = variant_twice}, {NULL}};
    struct op taking = record(gaps);
    ok(!run(&r, &taking, 2, DEV_CPU) && is_times(&r, 2) && r.scratch < 192,
       "an operand accepted by takes() is not copied");
    ok(!run(&r, &taking, 0, DEV_CPU) && r.scratch >= 192, "an operand not accepted by takes() is copied");
    ok(!run(&r, &bare, 2, DEV_CPU) && is_times(&r, 2),
       "the reference computes calls without a variant, with conversions");
    is_str(r.variant, "ref", "the variant's name is as expected");
}

static void
test_checks(void)
{
    const struct kernel_variant variants[] = {{"wrong", .run = variant_thrice}, {NULL}};
    struct op op = record(variants);
    struct run r;
    ok(!run(&r, &op, 1, DEV_CPU) && is_times(&r, 3), "without RILLE_CHECK a wrong kernel goes unnoticed");
    kernel_check(true);
    int status = run(&r, &op, 1, DEV_CPU);
    ok(status == E_KERNEL && strstr(err_text(), "wrong"), "with RILLE_CHECK a wrong kernel is an error");
    diag("%s", err_text());
    kernel_check(false);
}

/* Values at and near the limits of dtypes. */
enum { EDGES = 12 };
static const double edge_f[EDGES] = {0, -0.0, 1, -1, 3, 12, -100, 300, 60000, -65504, 3e38, -3e38};
static const int64_t edge_i[EDGES] = {0, 1, 2, 3, 100, 200, -1, -128, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};

/* Checks op(x, y) for all pairs of edge values; if op has one operand, checks op(x). Returns NULL if all results are
 * right or op does not accept the dtype, otherwise an error text. */
static const char *
check_edges(const struct op *op, int nin, enum dtype d, enum dtype to)
{
    struct arena a = {0};
    struct rule rule;
    struct attr attr[OP_ATTR];
    struct type in[2] = {type_of(d, 2, (int64_t[]){EDGES, 1}), type_of(d, 1, (int64_t[]){EDGES})}, out = in[0];
    struct call c = {.op = op, .nin = nin, .nout = 1, .in = in, .out = &out, .attr = attr};
    _Alignas(64) char x[EDGES * 8], y[EDGES * EDGES * 8];
    op_attr_defaults(op, attr);
    for (int i = 0; i < OP_ATTR && op->attr[i].name; i++)
        if (op->attr[i].kind == ATTR_DTYPE) attr[i].i = to;
    for (int i = 0; i < EDGES; i++)
        if (dtype_is_float(d))
            elem_set_f(d, x, i, edge_f[i]);
        else
            elem_set_i(d, x, i, edge_i[i]);
    if (call_infer(&a, &c, &rule)) {
        arena_fini(&a);
        return NULL;
    }
    struct view view[3] = {view_dense(&in[0], NULL), view_dense(&in[1], NULL), view_dense(&out, NULL)};
    struct kcall k = {.call = &c, .in = view, .out = view + 2, .threads = 1};
    bool good = !kcall_once(&k, (void *[]){x, x}, (void *[]){y}, NULL);
    arena_fini(&a);
    return good ? NULL : err_text();
}

/* Checks operators at edge values. Results that wrap around or overflow in the result's dtype are right, although the
 * reference computes in 64 bits. */
static void
test_edges(void)
{
    static const struct {
        const char *op;
        int nin;
    } ops[] = {{"neg", 1}, {"abs", 1},  {"square", 1},  {"cast", 1},    {"exp", 1}, {"relu", 1},
               {"sum", 1}, {"prod", 1}, {"max", 1},     {"cumsum", 1},  {"add", 2}, {"sub", 2},
               {"mul", 2}, {"pow", 2},  {"maximum", 2}, {"minimum", 2}, {"eq", 2},  {"lt", 2}};
    kernel_check(true);
    for (size_t o = 0; o < countof(ops); o++)
        for (int d = DT_NONE + 1; d < NDTYPE; d++)
            for (int to = DT_NONE + 1; to < NDTYPE; to++) {
                const struct op *op = op_find(ops[o].op);
                if (to > DT_NONE + 1 && strcmp(op->name, "cast")) break;
                const char *wrong = check_edges(op, ops[o].nin, (enum dtype)d, (enum dtype)to);
                ok(!wrong, "%s of %s at the limits passes RILLE_CHECK%s%s", op->name, dtype_text((enum dtype)d),
                   wrong ? ": " : "", wrong ? wrong : "");
            }
    kernel_check(false);
}

/* Runs a call of one operand with RILLE_CHECK, which searches for NaN and infinities. Returns the error text; "": the
 * call succeeded. */
static const char *
searched(const char *name, const float x[2], bool find)
{
    struct type t = type_of(DT_F32, 1, (int64_t[]){2}), out = t;
    struct call call = {.op = op_find(name), .nin = 1, .nout = 1, .in = &t, .out = &out};
    struct view view[2] = {view_dense(&t, NULL), view_dense(&t, NULL)};
    struct kcall k = {.call = &call, .in = view, .out = view + 1, .threads = 1, .find_nan = find};
    float y[2];
    void *in = (void *)x, *result = y;
    return kcall_once(&k, &in, &result, NULL) == E_KERNEL ? err_text() : "";
}

static void
test_nan(void)
{
    static const struct {
        const char *op;
        float x[2];
        const char *text;
    } cases[] = {
        {"log", {1, -1}, "log: element 1 is NaN, though the operands are finite"},
        {"log", {0, 1}, "log: element 0 is -inf, though the operands are finite"},
        {"exp", {1, 200}, "exp: element 1 is inf, though the operands are finite"},
        {"neg", {1, NAN}, "neg: element 1 is NaN, because operand 0 has NaN"},
        {"neg", {1, INFINITY}, ""},
        {"neg", {1, 2}, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        ok(!*searched(cases[i].op, cases[i].x, false), "case %zu: %s runs without a search", i, cases[i].op);
        ok(!strcmp(searched(cases[i].op, cases[i].x, true), cases[i].text), "case %zu: %s is searched: %s", i,
           cases[i].op, *cases[i].text ? cases[i].text : "no error");
    }
}

/* Checks results that no kernel reads soon (`unread`). From 1 MiB on, the kernel writes such a result past the
 * caches, whatever the alignment of its begin and end. */
static void
test_unread(void)
{
    enum { MOST = (1 << 18) + 40 };
    _Alignas(64) static float x[MOST], y[MOST + 32];
    for (int i = 0; i < MOST; i++) x[i] = (float)(i % 8191);
    for (int64_t n = (1 << 18) - 1; n <= MOST; n += 13)
        for (int skip = 0; skip <= 16; skip += 5) {
            struct type t[] = {type_of(DT_F32, 1, &n), type_of(DT_F32, 1, &n)}, out = t[0];
            struct call call = {.op = op_find("add"), .nin = 2, .nout = 1, .in = t, .out = &out};
            struct view view[3] = {view_dense(&t[0], NULL), view_dense(&t[1], NULL), view_dense(&out, NULL)};
            struct kcall k = {.call = &call, .in = view, .out = view + 2, .threads = 1, .unread = true};
            struct exec *e;
            memset(y, 0xff, sizeof y);
            bool good = !exec_new(&k, DEV_CPU, &e) && e->k.unread;
            exec_free(&e);
            good = good && !kcall_once(&k, (void *[]){x, x}, (void *[]){y + skip}, NULL);
            for (int64_t i = 0; good && i < n; i++) good = y[skip + i] == 2 * x[i];
            for (int64_t i = 0; good && i < MOST + 32; i++) good = (i >= skip && i < skip + n) || isnan(y[i]);
            if (!good) ok(false, "%lld elements from %d on", (long long)n, skip);
        }
    ok(true, "results that bypass the caches are complete");
}

/* Checks a reshape of a transposed tensor: no strides express the result, so the data must be copied. */
static void
test_window(void)
{
    struct type in = type_of(DT_I32, 2, (int64_t[]){2, 3}), out = type_of(DT_I32, 1, (int64_t[]){6});
    struct attr attr = {.set = true, .n = 1, .list = {6}};
    struct call call = {.op = op_find("reshape"), .nin = 1, .nout = 1, .in = &in, .out = &out, .attr = &attr};
    struct view view[2] = {view_dense(&in, NULL), view_dense(&out, NULL)};
    view[0].stride[0] = 1, view[0].stride[1] = 2;
    struct kcall k = {.call = &call, .in = view, .out = view + 1, .threads = 1};
    int32_t x[6] = {0, 3, 1, 4, 2, 5}, y[6];
    void *from = x, *to = y;
    const char *variant = "";
    int64_t skip;
    struct view shown = view[1];
    ok(call.op->host.view(&call, &view[0], &shown, &skip) == E_STATE, "a reshape of a transpose has no view");
    bool good = !kcall_once(&k, &from, &to, &variant);
    for (int i = 0; i < 6; i++) good &= y[i] == i;
    ok(good, "a reshape of a transpose is copied");
    is_str(variant, "copy", "the variant's name is as expected");
}

int
main(void)
{
    test_choice();
    test_dense();
    test_checks();
    test_edges();
    test_nan();
    test_window();
    test_unread();
    return done();
}
