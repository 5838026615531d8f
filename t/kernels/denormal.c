/* denormal.c - tests functions that inspect bits. They must treat denormals as zeros, as arithmetic on compute
 * threads does. Tests every kernel and the reference. */
#include "runtime/base/denormal.h"
#include "t/lib/kernel/trial.h"

static const double least[] = {[DT_F32] = 0x1p-126, [DT_F64] = 0x1p-1022};

/* Operators, operands and expected results. Operands and some results are multiples of d, half of the smallest
 * normal number. */
static const struct {
    const char *op;
    /* x: operand, in units of d; y: second operand of a binary operator: 1 stands for d, any other value for
     * itself */
    double x, y;
    double want;
} cases[] = {
    {"pow", 1, 0.5, 0},        {"pow", 1, -0.5, INFINITY}, {"pow", -1, -0.5, INFINITY}, {"pow", -1, -3, -INFINITY},
    {"pow", 1, 1, 1},          {"pow", 0, 1, 1},           {"pow_derivative", 1, 3, 0}, {"pow_derivative", -1, 1.5, 0},
    {"abs", 1, 0, 0},          {"abs", -1, 0, 0},          {"log", 1, 0, -INFINITY},    {"sqrt", 1, 0, 0},
    {"rsqrt", 1, 0, INFINITY}, {"sign", -1, 0, 0},         {"ceil", 1, 0, 0},
};

static bool
all_are(const struct tensor *t, double want)
{
    for (int64_t i = 0; i < view_numel(&t->view); i++)
        if (elem_get_f(t->view.dtype, t->view.data, i) != want) return false;
    return true;
}

static void
fill(const struct tensor *t, double x)
{
    for (int64_t i = 0; i < view_numel(&t->view); i++) elem_set_f(t->view.dtype, t->view.data, i, x);
}

static void
try_case(size_t i, enum dtype d, int n)
{
    struct trial t;
    char text[60];
    const struct op *op = op_find(cases[i].op);
    bool two = op->in[1].name != NULL;
    snprintf(text, sizeof text, two ? "%s{%d} %s{%d}" : "%s{%d}", dtype_text(d), n, dtype_text(d), n);
    if (!trial_open(&t, op, text, DENSE, 1)) return;
    fill(&t.in[0], cases[i].x * (least[d] / 2));
    if (two) fill(&t.in[1], cases[i].y == 1 ? least[d] / 2 : cases[i].y);
    uint64_t mode = denormals_flush();
    bool ref = !trial_reference(&t) && all_are(&t.want[0], cases[i].want);
    bool good = !trial_run(&t, &t.sample.call, 1, t.got, NULL) && all_are(&t.got[0], cases[i].want);
    denormals_restore(mode);
    ok(ref && good, "%s of %g d and %g, %d of %s, is %g%s%s", op->name, cases[i].x, cases[i].y, n, dtype_text(d),
       cases[i].want, ref ? "" : ": wrong by the reference", good ? "" : ": wrong by the kernel");
    trial_close(&t);
}

int
main(void)
{
    static const int sizes[] = {1, 7, 8, 300};
    for (size_t i = 0; i < countof(cases); i++)
        for (size_t s = 0; s < countof(sizes); s++) {
            try_case(i, DT_F64, sizes[s]);
            try_case(i, DT_F32, sizes[s]);
        }
    return done();
}
