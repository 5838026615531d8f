/* kernels-long.c - a sum of reals is exact however long it is: no operator adds up in f32 what its user may make as
 * long as he likes. Twenty million ones, of which f32 counts 16,777,216. */
#include "kernels/kernel.h"
#include "kernels/op/table.h"
#include "kernels/sample.h"
#include "runtime/arena.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "sbp/rule.h"
#include "t/tap.h"

/* Operands are ones, ids zeros; nothing is of what is absent. */
static const struct {
    const char *op, *text;
    double want;
    int result; /* its last element is looked at */
} sums[] = {
    {"sum", "f32{20000000}", 2e7, 0},
    {"sum", "f32{20000000,1} axis=0", 2e7, 0},
    {"sum", "f32{10000001,2} axis=0", 10000001, 0},
    {"cumsum", "f32{20000000} axis=0", 2e7, 0},
    {"index_add", "f32{1} i32{20000000}<1 f32{20000000} axis=0", 2e7, 0},
    {"gather_grad", "f32{1} i32{20000000}<1 f32{20000000} axis=0", 2e7, 0},
    {"norm_grad", "f32{20000000,1} f32{20000000,1} f32{1} eps=0 center=0", 2e7, 1},
    {"norm_grad", "f32{20000000,1} f32{20000000,1} f32{1} eps=0 center=0", 2e7, 2},
    {"exp_sum", "f32{20000000} f32{1} axis=0", 2e7, 0},
    {"cross_entropy_parts", "f32{20000000} i64{}<20000000 f32{}", 2e7, 0},
};

static void *
ones(const struct type *t)
{
    char *p = must_alloc((size_t)type_bytes(t) + 1);
    bool real = dtype_is_float((enum dtype)t->dtype);
    for (int64_t i = 0; t->dtype && i < type_numel(t); i++) elem_set_f(t->dtype, p, i, real);
    return p;
}

static void
try_sum(const char *op, const char *text, double want, int result)
{
    struct arena a = {0};
    struct sample s;
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    if (!ok(sample_read(op_find(op), text, &s) && !call_infer(&a, &s.call, &rule), "%s %s is a call", op, text)) return;
    int n = s.call.nin + s.call.nout;
    for (int i = 0; i < n; i++) {
        const struct type *t = i < s.call.nin ? &s.in[i] : &s.out[i - s.call.nin];
        view[i] = view_dense(t, NULL);
        data[i] = ones(t);
    }
    struct kcall k = {.call = &s.call, .in = view, .out = view + s.call.nin, .threads = 2};
    struct exec *e;
    int status = exec_new(&k, DEV_CPU, &e);
    if (!status) {
        char *scratch = aligned_alloc(64, (exec_scratch(e) + 127) / 64 * 64);
        status = exec_run(e, data, data + s.call.nin, scratch, 0);
        free(scratch);
        exec_free(&e);
    }
    const struct type *last = &s.out[result];
    double got = elem_get_f(last->dtype, data[s.call.nin + result], type_numel(last) - 1);
    if (!ok(!status && got == want, "%s %s of ones: result %d is their number", op, text, result))
        diag("%.1f, not %.1f", got, want);
    for (int i = 0; i < n; i++) free(data[i]);
    arena_fini(&a);
}

int
main(void)
{
    for (size_t i = 0; i < countof(sums); i++) try_sum(sums[i].op, sums[i].text, sums[i].want, sums[i].result);
    return done();
}
