/* rows.c - tests kernels that work along an axis: rows longer than a block, sums in lanes, several threads, and ids
 * that a lookup rejects.
 *
 * The operators' own samples are small, because tests of gradients use finite differences. Here rows have every
 * length around the sizes of blocks and lanes, and two threads must give the same bits as one. */
#include "kernels/cpu/rows/rows.h"
#include "kernels/exec/kernel.h"
#include "kernels/op/lib/table.h"
#include "kernels/exec/sample.h"
#include "runtime/base/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "sbp/rule.h"
#include "t/lib/tap.h"

struct trial {
    struct sample sample;
    struct arena arena;
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
};

/* ---- one call ---- */

static void
choose_values(struct trial *t, int k, uint64_t *random)
{
    struct view *v = &t->view[k];
    const struct sample *s = &t->sample;
    for (int64_t i = 0; i < view_numel(v); i++) {
        double u = (double)(next_random(random) >> 11) * 0x1p-53;
        int64_t below = s->below[k] ? s->below[k] : 5;
        double f = s->in[k].weak ? s->number[k] : s->above[k] ? s->above[k] + u : u * 8 - 4;
        if (dtype_is_float((enum dtype)v->dtype))
            elem_set_f(v->dtype, v->data, i, f);
        else
            elem_set_i(v->dtype, v->data, i,
                       s->in[k].weak ? (int64_t)f
                                     : (int64_t)s->above[k] + (int64_t)(next_random(random) % (uint64_t)below));
    }
}

static bool
trial_open(struct trial *t, const char *op, const char *text, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    struct call *c = &t->sample.call;
    if (!sample_read(op_find(op), text, &t->sample) || call_infer(&t->arena, c, &t->rule)) return false;
    for (int k = 0; k < c->nin + c->nout; k++) {
        const struct type *type = k < c->nin ? &c->in[k] : &c->out[k - c->nin];
        if (type->dtype == DT_NONE) continue;
        t->data[k] = must_alloc((size_t)type_bytes(type) + 1);
        t->view[k] = view_dense(type, t->data[k]);
        if (k < c->nin) choose_values(t, k, &seed);
    }
    return true;
}

static void
trial_close(struct trial *t)
{
    for (int k = 0; k < SAMPLE_IN + OP_OUT; k++) free(t->data[k]);
    arena_fini(&t->arena);
}

static void
results(const struct trial *t, void **to)
{
    const struct call *c = &t->sample.call;
    for (int k = 0; k < c->nout; k++) to[k] = must_alloc((size_t)type_bytes(&c->out[k]) + 1);
}

/* Runs the operator. Sets *variant to the name of the variant, or to NULL for the reference. */
static int
run(struct trial *t, int threads, void **to, const char **variant)
{
    const struct call *c = &t->sample.call;
    struct kcall k = {.call = c, .in = t->view, .out = t->view + c->nin, .threads = threads};
    struct exec *e;
    TRY(exec_new(&k, DEV_CPU, &e));
    char *scratch = aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64);
    int status = exec_run(e, t->data, to, scratch, 0);
    *variant = strcmp(exec_variant(e), "ref") ? "variant" : NULL;
    free(scratch);
    exec_free(&e);
    return status;
}

static int
run_ref(struct trial *t)
{
    const struct call *c = &t->sample.call;
    struct kcall k = {.call = c, .in = t->view, .out = t->view + c->nin, .threads = 1};
    return ref_run(&k);
}

/* Returns the largest error of result k, relative to the largest value. For norms of two elements and sums close to
 * 1, the result is a small difference of numbers near 1, so the error is relative to 1. */
static double
distance(const struct trial *t, int k, const void *got)
{
    const struct view *want = &t->view[t->sample.call.nin + k];
    const char *op = t->sample.call.op->name;
    double largest = strcmp(op, "norm_grad") && strcmp(op, "cross_entropy_rows") ? 1e-3 : 1, worst = 0;
    for (int64_t i = 0; i < view_numel(want); i++)
        largest = fmax(largest, fabs(elem_get_f(want->dtype, want->data, i)));
    for (int64_t i = 0; i < view_numel(want); i++)
        worst = fmax(worst, fabs(elem_get_f(want->dtype, got, i) - elem_get_f(want->dtype, want->data, i)) / largest);
    return worst;
}

static double
tolerance(enum dtype d)
{
    return d == DT_BF16 ? 1e-2 : d == DT_F16 ? 2e-3 : 4e-6;
}

static void
try_call(const char *op, const char *text, uint64_t seed)
{
    struct trial t;
    void *one[OP_OUT] = {NULL}, *two[OP_OUT] = {NULL};
    const char *variant = NULL;
    if (!ok(trial_open(&t, op, text, seed), "%s %s can be called", op, text)) return;
    results(&t, one);
    results(&t, two);
    int status = run_ref(&t);
    if (!status) status = run(&t, 1, one, &variant);
    if (!status) status = run(&t, 2, two, &variant);
    if (!ok(!status && variant, "%s %s is computed by a variant", op, text)) diag("%s", err_text());
    for (int k = 0; k < t.sample.call.nout && !status; k++) {
        double worst = distance(&t, k, one[k]);
        if (!ok(worst <= tolerance((enum dtype)t.sample.call.out[k].dtype), "%s %s equals the reference, result %d", op,
                text, k))
            diag("off by %g", worst);
        ok(!memcmp(one[k], two[k], (size_t)type_bytes(&t.sample.call.out[k])), "two threads give the same bits");
    }
    for (int k = 0; k < OP_OUT; k++) free(one[k]), free(two[k]);
    trial_close(&t);
}

/* ---- lengths: %N stands for the length of a row ---- */

static const struct {
    const char *op, *text;
} lines[] = {
    {"softmax", "f32{3,%N}"},
    {"softmax", "bf16{3,%N}"},
    {"softmax", "f32{2,%N,3} axis=1"},
    {"softmax", "f32{%N,530} axis=0"},
    {"log_softmax", "bf16{%N,515} axis=0"},
    {"log_softmax", "f32{3,%N}"},
    {"log_softmax", "f16{%N,2} axis=0"},
    {"softmax_grad", "f32{3,%N} f32{3,%N}"},
    {"softmax_grad", "bf16{3,%N} bf16{3,%N}"},
    {"attention_softmax", "f32{2,3,%N} - scale=0.5"},
    {"attention_softmax", "f32{2,37,%N} - is_causal=true"},
    {"attention_softmax", "bf16{2,3,%N} f32{%N} is_causal=true"},
    {"cross_entropy_parts", "f32{3,%N} i64{3}<%N f32{3}>9 label_smoothing=0.1"},
    {"cross_entropy_parts", "bf16{2,%N,3} i32{2,3}<%N bf16{2,3}>9"},
    {"cross_entropy_parts_grad", "f32{3,%N} i64{3}<%N f32{3}>9 f32{3} f32{3} label_smoothing=0.1"},
    {"cross_entropy_parts_grad", "f16{2,%N,3} i32{2,3}<%N f32{2,3}>9 f32{2,3} f32{2,3}"},
    {"cross_entropy_rows", "f32{3,%N} i64{3}<%N label_smoothing=0.1"},
    {"cross_entropy_rows", "bf16{2,%N,3} i32{2,3}<%N"},
    {"cross_entropy_grad", "f32{3,%N} i64{3}<%N f32{3}>9 f32{3} f32{3} label_smoothing=0.1"},
    {"cross_entropy_grad", "f16{2,%N,3} i32{2,3}<%N f32{2,3}>9 f32{2,3} f32{2,3}"},
    {"layer_norm", "f32{3,%N} f32{%N} f32{%N}"},
    {"layer_norm", "bf16{3,%N} - bf16{%N}"},
    {"rms_norm", "f32{3,%N}"},
    {"norm_grad", "f32{3,%N} f32{3,%N} f32{%N}"},
    {"norm_grad", "f32{7,%N} f32{7,%N} -"},
    {"norm_grad", "bf16{3,%N} bf16{3,%N} - center=0"},
    {"index_add", "f32{3,%N} i64{5}<3 f32{5,%N} axis=0"},
    {"index_add", "bf16{3,%N} i64{2}<3 bf16{2,%N} axis=0"},
    {"index_add_to", "f32{3,%N} i64{5}<3 f32{5,%N} axis=0"},
    {"index_add_to", "bf16{3,%N} i64{2}<3 bf16{2,%N} axis=0"},
    {"adamw", "f32{%N} f32{%N} f32{%N}>0.1 f32{%N} #0.1 #3 weight_decay=0.1"},
    {"adamw", "bf16{%N} f32{%N} f32{%N}>0.1 bf16{%N} #0.1 #1 weight_decay=0.1 decoupled=0"},
    {"sgd", "f32{%N} f32{%N} f32{%N} #0.1 momentum=0.9"},
    {"sgd", "f32{%N} - f32{%N} #0.1 weight_decay=0.1"},
};
static const int lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 1023, 1024, 1025, 2100};

static void
try_lengths(size_t i, uint64_t seed)
{
    for (size_t n = 0; n < countof(lengths); n++) {
        char text[200] = "", *to = text;
        for (const char *p = lines[i].text; *p; p++) {
            bool length = p[0] == '%';
            to += sprintf(to, length ? "%d" : "%c", length ? lengths[n] : *p);
            p += length;
        }
        try_call(lines[i].op, text, seed + n);
    }
}

/* Calls large enough to be split among threads. */
static const struct {
    const char *op, *text;
} large[] = {
    {"softmax", "f32{2000,40}"},
    {"softmax", "f64{2,50,1500} axis=1"},
    {"softmax_grad", "f32{2000,40} f32{2000,40}"},
    {"attention_softmax", "f32{4,100,100} - is_causal=true"},
    {"cross_entropy_parts", "f32{5000,10} i64{5000}<10 f32{5000}>9"},
    {"cross_entropy_parts_grad", "f32{5000,10} i64{5000}<10 f32{5000}>9 f32{5000} f32{5000}"},
    {"cross_entropy_rows", "f32{5000,10} i64{5000}<10"},
    {"cross_entropy_grad", "f32{5000,10} i64{5000}<10 f32{5000}>9 f32{5000} f32{5000}"},
    {"layer_norm", "f32{1000,64} f32{64} f32{64}"},
    {"norm_grad", "f32{1000,64} f32{1000,64} f32{64}"},
    {"norm_grad", "f32{300,900} f32{300,900} -"},
    {"index_add", "f32{3000,8} i64{500}<3000 f32{500,8} axis=0"},
    {"index_add_to", "f32{3000,8} i64{500}<3000 f32{500,8} axis=0"},
    {"adamw", "f32{100000} f32{100000} f32{100000}>0.1 f32{100000} #0.1 #3"},
    {"sgd", "f32{100000} f32{100000} f32{100000} #0.1 momentum=0.9"},
};

/* ---- exponentials ---- */

static void
test_exponentials(void)
{
    double worst = 0;
    bool sums = true;
    for (int n = 1; n < 200; n += 7)
        for (int part = 0; part < 40; part++) {
            float x[200], y[200];
            double sum = 0;
            for (int i = 0; i < n; i++) x[i] = 3 - (float)(part * n + i) * (87.0f / (40 * 200));
            float got = vec_exp_sum(n, x, 3, y);
            for (int i = 0; i < n; i++) {
                double want = exp((double)(x[i] - 3.0f));
                worst = fmax(worst, fabs(y[i] - want) / want * 0x1p23);
                sum += want;
            }
            sums &= fabs(got - sum) <= 1e-6 * sum;
        }
    ok(worst <= 2, "exponentials are right within 2 units in the last place");
    ok(sums, "the sum of exponentials is right");
    float odd[] = {-INFINITY, -200, NAN, nanf("0x155"), 0}, y[5];
    vec_exp_sum(5, odd, 0, y);
    ok(y[0] == 0 && y[1] == 0 && isnan(y[2]) && isnan(y[3]) && y[4] == 1,
       "values far below the maximum give 0, NaN stays NaN, the maximum gives 1");
}

/* ---- long rows whose maximum comes late ---- */

enum { LONG = 4000 };
enum shape { RISES, FALLS, STARTS_EMPTY, EMPTY, NAN_FIRST, NAN_LAST, NAN_AND_EMPTY, INFINITE, NSHAPE };

static double
of_shape(enum shape shape, int64_t i)
{
    bool first = i == 3, last = i == LONG - 3, head = i < LONG / 2;
    switch (shape) {
    case RISES: return (double)i / 40;
    case FALLS: return -(double)i / 40;
    case STARTS_EMPTY: return head ? -INFINITY : (double)(i % 7);
    case EMPTY: return -INFINITY;
    case NAN_FIRST: return first ? NAN : (double)(i % 5);
    case NAN_LAST: return last ? NAN : (double)(i % 5);
    case NAN_AND_EMPTY: return first ? NAN : head ? -INFINITY : 1;
    default: return last ? INFINITY : (double)(i % 3);
    }
}

static void
test_long(enum dtype d)
{
    struct trial t;
    void *got[OP_OUT] = {NULL};
    const char *variant = NULL;
    char text[60];
    sprintf(text, "%s{%d,%d} i64{%d}<%d", dtype_text(d), NSHAPE, LONG, NSHAPE, LONG);
    if (!ok(trial_open(&t, "cross_entropy_rows", text, 1), "cross_entropy_rows %s can be called", text)) return;
    for (int64_t i = 0; i < NSHAPE * LONG; i++) elem_set_f(d, t.data[0], i, of_shape((enum shape)(i / LONG), i % LONG));
    results(&t, got);
    ok(!run_ref(&t) && !run(&t, 1, got, &variant) && variant, "%s is computed by a variant", text);
    for (int s = 0; s < NSHAPE; s++)
        for (int k = 0; k < 3; k++) {
            const struct view *want = &t.view[2 + k];
            double a = elem_get_f(want->dtype, got[k], s), b = elem_get_f(want->dtype, want->data, s);
            if (!ok(isnan(b) ? isnan(a) : a == b || fabs(a - b) <= 1e-6 * fabs(b),
                    "%s row %d: result %d equals the reference", text, s, k))
                diag("%g for %g", a, b);
        }
    for (int k = 0; k < OP_OUT; k++) free(got[k]);
    trial_close(&t);
}

/* ---- ids that a lookup refuses ---- */

static void
refuses(const char *op, const char *text, int ids, int64_t at, int64_t id, const char *want)
{
    struct trial t;
    void *to[OP_OUT] = {NULL};
    const char *variant;
    if (!ok(trial_open(&t, op, text, 5), "%s %s can be called", op, text)) return;
    results(&t, to);
    elem_set_i(t.view[ids].dtype, t.data[ids], at, id);
    is_int(run(&t, 1, to, &variant), E_VALUE, "an id out of range is refused");
    is_str(err_text(), want, "the error names the id and its position");
    is_int(run_ref(&t), E_VALUE, "the reference refuses the id, too");
    for (int k = 0; k < OP_OUT; k++) free(to[k]);
    trial_close(&t);
}

static void
test_refusals(void)
{
    refuses("embedding", "i64{3}<4 f32{4,2}", 0, 1, 9,
            "embedding: id 9 at position 1 is not in a table of 4 rows (positions count from 0)");
    refuses("embedding", "i32{2,3}<4 f32{4,2}", 0, 5, -1,
            "embedding: id -1 at position {1, 2} is not in a table of 4 rows (positions count from 0)");
    refuses("cross_entropy_rows", "f32{3,10} i64{3}<10", 1, 2, 10,
            "cross_entropy: label 10 at position 2 is not one of 10 classes (positions count from 0)");
    refuses("cross_entropy_parts", "f32{3,10} i64{3}<10 f32{3}>9", 1, 0, -3,
            "cross_entropy: label -3 at position 0 is not one of 10 classes (positions count from 0)");
    refuses("gather", "f32{2,4} i64{2,3}<4 axis=1", 1, 3, 4,
            "gather: id 4 at position {1, 0} is not in an axis of 4 elements (positions count from 0)");
    refuses("index_select", "f32{2,4} i64{3}<4 axis=1", 1, 0, 7,
            "index_select: id 7 at position 0 is not in an axis of 4 entries (positions count from 0)");
    refuses("one_hot", "i64{3}<4 n=4", 0, 2, 4,
            "one_hot: id 4 at position 2 is not in a range of 4 (positions count from 0)");
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    for (size_t i = 0; i < countof(lines); i++) try_lengths(i, seed + 100 * i);
    for (size_t i = 0; i < countof(large); i++) try_call(large[i].op, large[i].text, seed + i);
    test_exponentials();
    test_long(DT_F32);
    test_long(DT_F64);
    test_refusals();
    return done();
}
