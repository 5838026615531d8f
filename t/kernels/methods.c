/* methods.c - checks that every operator has a kernel besides the reference. Such a kernel must compute all
 * samples of the operator, in every dtype and along every axis. This file lists the exceptions with the reason.
 * RILLE_LONG=1 prints the whole table. */
#include "t/lib/kernel/exec.h"
#include "t/lib/kernel/pattern.h"
#include "sbp/infer.h"

/* Calls that only the reference needs to compute, with the reason. */
static const struct {
    const char *op, *dtype, *why;
} left[] = {
    {"to_global", "*", "nothing is computed, data is moved"},
    {"logsumexp|exp_sum", "*", "non-adjacent dimensions are made adjacent before"},
    {"recurrence|recurrence_grad", "bf16|f16|f64", "recurrent layers are trained in f32"},
    {"gather_grad", "bool", "truth values have no gradient"},
    {"expert_blocks", "f64", "weights in blocks are decoded to f32"},
    {"linear_blocks", "f64", "weights in blocks are decoded to f32"},
    {"to_blocks", "f64", "models are rounded to blocks from f32, bf16 and f16"},
};

static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_F16, DT_F64, DT_I64, DT_I32, DT_U8, DT_BOOL};

/* Returns the name of the kernel variant that computes a call; NULL if the call has no kernel, like those of
 * composites. */
static const char *
method_of(struct sample *s)
{
    static const struct type source = {.ndim = 2, .dim = {5, 7}};
    struct arena a = {0};
    struct rule rule;
    struct view view[SAMPLE_IN + OP_OUT];
    struct call *c = &s->call;
    const struct op *op = c->op;
    const char *method = NULL;
    if (op->flags & OP_SOURCE) c->out[0] = source;
    if ((op->shape.rule || op->shape.make_rule || op->flags & OP_SOURCE) && !call_infer(&a, c, &rule)) {
        struct exec *e;
        for (int i = 0; i < c->nin + c->nout; i++)
            view[i] = view_dense(i < c->nin ? &s->in[i] : &s->out[i - c->nin], NULL);
        struct kcall k = {.call = c, .in = view, .out = view + c->nin, .threads = 1};
        if (!exec_new(&k, DEV_CPU, &e)) {
            method = exec_variant(e);
            exec_free(&e);
        }
    }
    arena_fini(&a);
    return method;
}

/* Changes all float operands to dtype d. Returns false if the call has no float operand. */
static bool
retype(struct sample *s, enum dtype d)
{
    bool any = s->call.op->flags & OP_SOURCE;
    for (int i = 0; i < s->call.nin; i++) {
        struct type *t = &s->in[i];
        if (t->weak || t->dtype == DT_NONE || !dtype_is_float((enum dtype)t->dtype)) continue;
        t->dtype = (uint8_t)d;
        any = true;
    }
    return any;
}

static const char *
reason(const char *op, enum dtype d)
{
    for (size_t i = 0; i < countof(left); i++)
        if (pattern_matches(left[i].op, op) && pattern_matches(left[i].dtype, dtype_text(d))) return left[i].why;
    return NULL;
}

static void
try_way(struct sample *s, const char *text, enum dtype d, int axis)
{
    const char *name = s->call.op->name, *method = method_of(s);
    if (!method) return;
    if (getenv("RILLE_LONG")) diag("%-20s %-6s axis %2d  %-10s %s", name, dtype_text(d), axis, method, text);
    if (!strcmp(method, "ref") && !reason(name, d))
        ok(false, "%s of %s, axis %d: \"%s\" has a kernel", name, dtype_text(d), axis, text);
}

static void
try_sample(const struct op *op, const char *text, enum dtype d)
{
    struct sample s;
    if (!sample_read(op, text, &s) || !retype(&s, d)) return;
    int axis = op_attr_find(op, "axis");
    try_way(&s, text, d, -1);
    if (axis < 0) return;
    for (int i = 0; i < s.in[0].ndim; i++) {
        struct sample along;
        sample_read(op, text, &along);
        retype(&along, d);
        along.attr[axis].set = true;
        along.attr[axis].i = i;
        if (op->attr[axis].kind == ATTR_INTS) along.attr[axis].n = 1, along.attr[axis].list[0] = i;
        try_way(&along, text, d, i);
    }
}

int
main(void)
{
    for (int i = 0; i < op_count; i++) {
        for (size_t d = 0; d < countof(dtypes); d++)
            for (int k = 0; k < OP_SAMPLE && op_table[i]->sample[k]; k++)
                try_sample(op_table[i], op_table[i]->sample[k], dtypes[d]);
        ok(true, "%s was tried", op_table[i]->name);
    }
    return done();
}
