/* call.c - public functions that call operators: operators by name, attributes, operands, autocast. */
#include "actors/session/build/call.h"
#include "actors/session/build/build.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/tracer.h"

#include "kernels/loaded/loaded.h"
#include "kernels/loaded/loaded_library.h"
#include "kernels/op/base/table.h"
#include "sbp/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int
named(int status, const char *who)
{
    if (status) err_of(who);
    return status;
}

/* ---- finding operators and reading their records ---- */

const struct rille_op *
rille_op_find(const char *name)
{
    if (face_given(name, "the name", __func__)) return NULL;
    return (const struct rille_op *)op_find(name);
}

const struct rille_op *
rille_op_at(int i)
{
    return (const struct rille_op *)op_at(i);
}

int
rille_load_operators(struct rille_session *s, const char *path)
{
    TRY(face_session(s, __func__));
    TRY(face_given(path, "the path", __func__));
    return named(loaded_open(path), "load_operators");
}

const char *
rille_op_name(const struct rille_op *op)
{
    if (face_given(op, "the operator", __func__)) return NULL;
    return ((const struct op *)op)->name;
}

int
rille_op_operands(const struct rille_op *rop, struct rille_operand_info out[16])
{
    if (face_given(rop, "the operator", __func__) || face_given(out, "out", __func__)) return 0;
    const struct op *op = (const struct op *)rop;
    int n = op_noperand(op);
    for (int i = 0; i < n; i++) {
        unsigned f = op->in[i].flags;
        out[i] = (struct rille_operand_info){.name = op->in[i].name,
                                             .number = f & IN_NUMBER,
                                             .optional = f & IN_OPTIONAL,
                                             .list = f & IN_LIST,
                                             .hidden = f & IN_HIDDEN};
    }
    return n;
}

int
rille_op_attrs(const struct rille_op *rop, struct rille_attr_info out[16])
{
    if (face_given(rop, "the operator", __func__) || face_given(out, "out", __func__)) return 0;
    const struct op *op = (const struct op *)rop;
    int n = 0;
    for (const struct attr_def *d = op->attr; d < op->attr + op_nattr(op); d++)
        if (!(d->flags & ATTR_HIDDEN))
            out[n++] = (struct rille_attr_info){.name = d->name,
                                                .kind = (enum rille_attr_kind)d->kind,
                                                .required = d->flags & ATTR_REQUIRED,
                                                .words = d->kind == ATTR_TEXT ? d->text : NULL,
                                                .doc = d->doc};
    return n;
}
_Static_assert((int)RILLE_INT == (int)ATTR_INT && (int)RILLE_DTYPE == (int)ATTR_DTYPE, "one list of attribute kinds");

int
rille_op_results(const struct rille_op *op)
{
    if (face_given(op, "the operator", __func__)) return 0;
    int n = ((const struct op *)op)->nout;
    return n ? n : 1;
}

bool
rille_op_hidden(const struct rille_op *op)
{
    if (face_given(op, "the operator", __func__)) return false;
    return ((const struct op *)op)->flags & OP_HIDDEN;
}

bool
rille_op_source(const struct rille_op *op)
{
    if (face_given(op, "the operator", __func__)) return false;
    return ((const struct op *)op)->flags & OP_SOURCE;
}

bool
rille_op_elementwise(const struct rille_op *op)
{
    if (face_given(op, "the operator", __func__)) return false;
    return ((const struct op *)op)->flags & OP_ELTWISE;
}

const char *
rille_op_library(const struct rille_op *op)
{
    if (face_given(op, "the operator", __func__)) return NULL;
    return ((const struct op *)op)->flags & OP_LIBRARY ? ((const struct op *)op)->source : NULL;
}

/* ---- parsing attributes ---- */

static int
attr_text(const struct op *op, const struct attr_def *d, const char *text, struct attr *out)
{
    const char *p = d->text ? d->text : "";
    for (int word = 0; *p; word++) {
        size_t n = strcspn(p, "|");
        if (strlen(text) == n && !strncmp(p, text, n)) {
            out->i = word;
            return 0;
        }
        p += n + (p[n] == '|');
    }
    struct str words = {0};
    for (p = d->text ? d->text : ""; *p; p++) str_addf(&words, *p == '|' ? "\" or \"" : "%c", *p);
    int status = fail(E_ATTR, "%s: %s must be \"%s\", found \"%s\"", op->name, d->name, str_text(&words), text);
    str_free(&words);
    return status;
}

static int
attr_list(const struct op *op, const struct attr_def *d, const struct rille_attr *a, struct attr *out)
{
    if (a->n > ATTR_LIST)
        return fail(E_ATTR, "%s: %s must have at most %d entries, found %d", op->name, d->name, ATTR_LIST, a->n);
    out->n = a->n;
    if (a->n > 0) memcpy(out->list, a->list, sizeof(int64_t) * (size_t)a->n);
    return 0;
}

static int
attr_wrong(const struct op *op, const struct attr_def *d, enum rille_attr_kind got)
{
    static const char *const kind[] = {"nothing",  "an integer",         "a number", "true or false",
                                       "a string", "a list of integers", "a dtype"};
    return fail(E_ATTR, "%s: %s must be %s, found %s", op->name, d->name, kind[d->kind], kind[got]);
}

static int
attr_value(const struct op *op, const struct attr_def *d, const struct rille_attr *a, struct attr *out)
{
    out->set = true;
    if (d->kind == ATTR_INT && a->kind == RILLE_INT) {
        out->i = a->i;
    } else if (d->kind == ATTR_INT && a->kind == RILLE_FLOAT && a->f == floor(a->f) && fabs(a->f) < 1e15) {
        out->i = (int64_t)a->f;
    } else if (d->kind == ATTR_FLOAT && (a->kind == RILLE_INT || a->kind == RILLE_FLOAT)) {
        out->f = a->kind == RILLE_INT ? (double)a->i : a->f;
    } else if (d->kind == ATTR_BOOL && a->kind == RILLE_BOOL) {
        out->i = a->i;
    } else if (d->kind == ATTR_TEXT && a->kind == RILLE_TEXT) {
        return attr_text(op, d, a->text, out);
    } else if (d->kind == ATTR_INTS && a->kind == RILLE_INTS) {
        return attr_list(op, d, a, out);
    } else if (d->kind == ATTR_INTS && a->kind == RILLE_INT) {
        out->n = 1;
        out->list[0] = a->i;
    } else if (d->kind == ATTR_DTYPE && (a->kind == RILLE_TEXT || a->kind == RILLE_DTYPE)) {
        enum dtype t = dtype_parse(a->text);
        if (t == DT_NONE) return named(err_last(), op->name);
        out->i = t;
    } else {
        return attr_wrong(op, d, a->kind);
    }
    return 0;
}

/* Parses the attributes of a call by the operator's record. nin, in: operands, for error texts. */
static int
attributes(const struct op *op, int n, const struct rille_attr *given, int nin, struct val *const *in, struct attr *out)
{
    op_attr_defaults(op, out);
    for (int i = 0; i < n; i++) {
        int k = op_attr_find(op, given[i].name);
        if (k < 0 || op->attr[k].flags & ATTR_HIDDEN) {
            struct str names = {0};
            for (int j = 0; j < op_nattr(op); j++)
                if (!(op->attr[j].flags & ATTR_HIDDEN))
                    str_addf(&names, "%s%s", names.len ? ", " : "", op->attr[j].name);
            int status = build_refuse(E_ATTR, op, nin, in, "%s: unknown attribute '%s'; it has: %s", op->name,
                                      given[i].name, names.len ? names.text : "none");
            str_free(&names);
            return status;
        }
        int status = attr_value(op, &op->attr[k], &given[i], &out[k]);
        if (status) return build_refuse(status, op, nin, in, "%s", err_text());
    }
    for (int k = 0; k < op_nattr(op); k++)
        if (op->attr[k].flags & ATTR_REQUIRED && !out[k].set)
            return build_refuse(E_ATTR, op, nin, in, "%s: %s must be given", op->name, op->attr[k].name);
    return 0;
}

/* ---- converting operands ---- */

static struct val *
live_value(struct rille_session *s, struct rille_live *live)
{
    struct number n = {.kind = NUM_FIXED};
    if (tracing(s)) {
        n = (struct number){.kind = NUM_LIVE, .is_int = live->whole, .live = live};
        live->nref++; /* a reference for the number operand, which the graph drops */
    } else {
        double f;
        if (live->fn(live->arg, &f)) return NULL;
        return build_number(s, live->whole, f, (int64_t)f);
    }
    return build_fresh(s, graph_number(s->graph, n));
}

static const struct operand *
operand_at(const struct op *op, int noperand, int i)
{
    if (i < noperand) return &op->in[i];
    return noperand > 0 && op->in[noperand - 1].flags & IN_LIST ? &op->in[noperand - 1] : NULL;
}

/* Sets *out to an operand that is no tensor: a constant, a live number (the value of a user function), or none. */
static int
operand(struct rille_session *s, const struct op *op, const struct operand *d, const struct rille_arg *given,
        struct val **out)
{
    struct rille_arg arg = *given, *a = &arg;
    *out = NULL;
    if (a->kind == RILLE_ARG_NONE)
        return d->flags & IN_OPTIONAL ? 0 : fail(E_ARG, "%s: %s must be a tensor, found none", op->name, d->name);
    if (!(d->flags & IN_NUMBER)) return fail(E_ARG, "%s: %s must be a tensor, found a number", op->name, d->name);
    trace_number(s, op, a);
    if (a->kind == RILLE_ARG_LIVE)
        *out = live_value(s, a->live);
    else
        *out = build_number(s, a->kind == RILLE_ARG_INT, a->f, a->i);
    return *out ? 0 : fail(E_VALUE, "%s: a live number's function failed", op->name);
}

/* Returns the number operand for a random operator's seed or its ordinal (number of earlier random calls). In a
 * trace, the ordinal counts from the start of the trace. */
static struct val *
hidden_number(struct rille_session *s, enum number_kind kind)
{
    struct number n = {.kind = (uint8_t)(tracing(s) ? kind : NUM_FIXED), .is_int = true};
    if (kind == NUM_ORDINAL)
        n.i = tracing(s) ? trace_ordinal(s) : (int64_t)s->random.ordinal++;
    else if (!tracing(s))
        n.i = (int64_t)s->random.seed;
    return build_fresh(s, graph_number(s->graph, n));
}

static int
operands(struct rille_session *s, const struct op *op, int n, const struct rille_arg *args, struct val **in,
         int capacity, int *nin)
{
    int noperand = op_noperand(op), count = 0;
    for (int i = 0; i < MAX(n, noperand); i++) {
        const struct operand *d = operand_at(op, noperand, i);
        if (!d) return fail(E_ARG, "%s: expected at most %d operands, found %d", op->name, noperand, n);
        if (i >= n && d->flags & IN_LIST && i > 0) break;
        if (count == capacity) return fail(E_ARG, "%s: expected at most %d operands, found more", op->name, capacity);
        if (d->flags & IN_HIDDEN) {
            in[count++] = hidden_number(s, i == noperand - 1 ? NUM_ORDINAL : NUM_SEED);
            continue;
        }
        if (i < n && args[i].kind == RILLE_ARG_TENSOR) {
            in[count++] = args[i].tensor->val;
            continue;
        }
        struct rille_arg none = {.kind = RILLE_ARG_NONE};
        int status = operand(s, op, d, i < n ? &args[i] : &none, &in[count]);
        if (status) return build_refuse(status, op, count, in, "%s", err_text());
        count++;
    }
    *nin = count;
    return 0;
}

/* Returns the dtype to which autocast casts an operand. Products: f32 becomes the 16-bit dtype. Sums and powers:
 * 16-bit dtypes become f32. */
static enum dtype
autocast_dtype(const struct rille_session *s, const struct op *op, enum dtype d)
{
    if (op->flags & OP_NARROW && d == DT_F32) return s->calls.autocast;
    return op->flags & OP_WIDE && dtype_is_half(d) ? DT_F32 : d;
}

/* Casts an operand for autocast. The cast is a node before the operator's node, so a move in between moves cast
 * values. The call's strategy does not apply to the cast. */
static int
autocast(const struct call_context *ctx, const struct op *op, int nin, struct val **in)
{
    const struct rille_session *s = ctx->s;
    struct call_context plain = build_plain(ctx);
    if (s->calls.autocast == DT_NONE || !(op->flags & (OP_NARROW | OP_WIDE))) return 0;
    for (int i = 0; i < nin; i++)
        if (in[i] && !in[i]->is_number)
            TRY(build_cast_below(&plain, in[i], autocast_dtype(s, op, in[i]->type.dtype), &in[i]));
    return 0;
}

int
rille_autocast(struct rille_session *s, const char *dtype)
{
    TRY(face_session(s, __func__));
    enum dtype d = dtype ? dtype_parse(dtype) : DT_NONE;
    if (dtype && d == DT_NONE) return named(err_last(), "autocast");
    if (dtype && d != DT_BF16 && d != DT_F16)
        return fail(E_DTYPE, "autocast: dtype must be bf16 or f16, found %s", dtype);
    s->calls.autocast = d;
    return 0;
}

const char *
rille_autocast_dtype(const struct rille_session *s)
{
    return face_session(s, __func__) || s->calls.autocast == DT_NONE ? NULL : dtype_text(s->calls.autocast);
}

bool
rille_allow_tf32(struct rille_session *s, bool on)
{
    if (face_session(s, __func__)) return false;
    bool was = s->calls.tf32;
    s->calls.tf32 = on;
    return was;
}

bool
rille_detect_nan(struct rille_session *s, bool on)
{
    if (face_session(s, __func__)) return false;
    bool was = s->runs.find_nan;
    s->runs.find_nan = on;
    if (on != was) s->generation++;
    return was;
}

struct call_context
call_context_of(const struct rille_session *s)
{
    struct call_context ctx = s->context;
    ctx.strategy = s->calls.strategy;
    return ctx;
}

/* The arguments of a call by the user. */
struct given_args {
    int nargs, nattrs;
    const struct rille_arg *args;
    const struct rille_attr *attrs;
};

/* Calls an operator once, and sets attr to the call's attributes. */
static int
call_once(const struct call_context *ctx, const struct op *op, const struct given_args *g, struct attr *attr,
          struct val **in, int *nin, struct val **res)
{
    TRY(operands(ctx->s, op, g->nargs, g->args, in, CALL_OPERANDS, nin));
    TRY(autocast(ctx, op, *nin, in));
    TRY(attributes(op, g->nattrs, g->attrs, *nin, in, attr));
    trace_user_call(ctx->s, op, *nin, in, attr);
    TRY(build_call(ctx, op, *nin, in, attr, NULL, res));
    return trace_user_results(ctx, op, *nin, in, op_nresult(op, attr), res);
}

/* Calls an operator on parts of a long list, and joins the results. */
static int
call_in_parts(const struct call_context *ctx, const struct op *op, const struct given_args *g, struct val **in,
              int *nin, struct val **res)
{
    const struct op *join = op->rewrite.joins_with;
    struct attr attr[OP_ATTR], joining[OP_ATTR];
    int most = CALL_OPERANDS * CALL_OPERANDS, npart = 0;
    struct val *part[CALL_OPERANDS];
    if (g->nargs > most)
        return fail(E_ARG, "%s: expected at most %d tensors, found %d; join them in several calls", op->name, most,
                    g->nargs);
    for (int k = 0; k < g->nargs; k += CALL_OPERANDS) {
        struct given_args some = *g;
        some.args += k;
        some.nargs = MIN(CALL_OPERANDS, g->nargs - k);
        TRY(call_once(ctx, op, &some, attr, in, nin, &part[npart++]));
    }
    op_attr_defaults(join, joining);
    memcpy(joining, attr, sizeof *attr * (size_t)op_nattr(op));
    return build_call(ctx, join, npart, part, joining, NULL, res);
}

/* Returns true if the sizes given to a view, as in reshape, are sizes for the whole batch. Such sizes have n
 * times as many elements as v, which is a value of one of n micro-batches. */
static bool
has_batch_sizes(const struct op *op, const struct attr *sizes, const struct val *v, int n)
{
    int64_t total = type_numel(&v->type) * n, known = 1;
    bool open = false;
    if (!op_lists_sizes(op) || n < 2 || !trace_per_microbatch(v)) return false;
    for (int d = 0; d < sizes->n; d++) {
        if (sizes->list[d] < 0)
            open = true;
        else if (__builtin_mul_overflow(known, sizes->list[d], &known))
            return false;
    }
    return open ? known > 0 && total % known == 0 : total == known;
}

int
call_operator(const struct call_context *ctx, const struct op *op, int nargs, const struct rille_arg *args, int nattrs,
              const struct rille_attr *attrs, struct val **in, int *nin, struct val **res)
{
    struct attr attr[OP_ATTR];
    struct given_args given = {nargs, nattrs, args, attrs};
    *nin = attr[0].n = 0;
    int status = nargs > CALL_OPERANDS && op->rewrite.joins_with ? call_in_parts(ctx, op, &given, in, nin, res)
                                                                 : call_once(ctx, op, &given, attr, in, nin, res);
    int n = trace_microbatches(ctx->s);
    if (status != E_SHAPE || *nin != 1 || !has_batch_sizes(op, attr, in[0], n)) return status;
    return fail(status,
                "%s; with micro_batches = %d, a tensor that depends on the step's arguments has the rows of one "
                "micro-batch: write -1 for their number",
                err_text(), n);
}

int
rille_strategy(struct rille_session *s, int noperand, const int *naxis, const int32_t *pieces)
{
    TRY(face_session(s, __func__));
    TRY(face_given(naxis, "naxis", __func__));
    TRY(face_given(pieces, "pieces", __func__));
    if (noperand < 0 || noperand > STRATEGY_OPERAND)
        return fail(E_ARG, "strategy: the number of operands must be from 0 to %d, found %d", STRATEGY_OPERAND,
                    noperand);
    struct strategy *to = must_alloc(sizeof *to);
    to->noperand = noperand;
    for (int i = 0; i < noperand; i++) {
        to->naxis[i] = naxis[i];
        for (int d = 0; d < naxis[i] && d < MAX_DIM; d++) to->pieces[i][d] = *pieces++;
    }
    free(s->calls.strategy);
    s->calls.strategy = to;
    return 0;
}

int
rille_call(struct rille_session *s, const struct rille_op *rop, int nargs, const struct rille_arg *args, int nattrs,
           const struct rille_attr *attrs, struct rille_tensor **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(rop, "the operator", __func__));
    TRY(face_args(s, nargs, args, __func__));
    TRY(face_attrs(nattrs, attrs, __func__));
    TRY(face_given(out, "out", __func__));
    const struct op *op = (const struct op *)rop;
    struct val *in[CALL_OPERANDS], *res[OP_OUT];
    int nin;
    if (op->flags & OP_SOURCE) return fail(E_ARG, "%s: expected a shape; call rille_create()", op->name);
    if (op->flags & OP_MOVE) return fail(E_ARG, "%s: expected a layout", op->name);
    struct call_context ctx = call_context_of(s);
    int status = call_operator(&ctx, op, nargs, args, nattrs, attrs, in, &nin, res);
    for (int k = 0; !status && k < rille_op_results(rop); k++) out[k] = tensor_new(s, res[k], false);
    return build_settle(s, status);
}

/* Rejects an in-place call whose result does not fit the target's dtype class, because values would be truncated:
 * 1.5 in an integer, 2 in a bool. */
static int
call_into(struct rille_session *s, struct rille_tensor *leaf, const struct op *op, int nargs,
          const struct rille_arg *args, int nattrs, const struct rille_attr *attrs, struct rille_tensor **out)
{
    struct val *in[CALL_OPERANDS], *res[OP_OUT];
    int nin;
    enum dtype has = leaf->val->type.dtype;
    struct call_context ctx = call_context_of(s);
    bool grad = ctx.grad;
    ctx.grad = grad && !leaf->requires_grad;
    TRY(call_operator(&ctx, op, nargs, args, nattrs, attrs, in, &nin, res));
    for (int i = 1; i < nin && grad && leaf->requires_grad; i++)
        if (in[i] && in[i]->needs_grad)
            return build_refuse(E_STATE, op, nin, in,
                                "%s_: operand %d needs a gradient, which cannot be recorded because the variable "
                                "requires a gradient itself; detach the operand, or call %s_ under rille.no_grad",
                                op->name, i + 1, op->name);
    if (!dtype_class_fits(res[0]->type.dtype, has))
        return build_refuse(E_DTYPE, op, nin, in,
                            "%s_: the result is %s, but the variable is %s and cannot change its type", op->name,
                            dtype_text(res[0]->type.dtype), dtype_text(has));
    *out = tensor_new(s, res[0], false);
    return 0;
}

int
rille_call_into(struct rille_session *s, struct rille_tensor *leaf, const struct rille_op *op, int nargs,
                const struct rille_arg *args, int nattrs, const struct rille_attr *attrs)
{
    TRY(face_session(s, __func__));
    TRY(face_tensors(s, 1, &leaf, __func__));
    TRY(face_given(op, "the operator", __func__));
    TRY(face_args(s, nargs, args, __func__));
    TRY(face_attrs(nattrs, attrs, __func__));
    struct rille_tensor *out = NULL;
    int status = build_settle(s, call_into(s, leaf, (const struct op *)op, nargs, args, nattrs, attrs, &out));
    if (!status) status = rille_tensor_assign(leaf, out);
    rille_tensor_free(&out);
    return status;
}

int
rille_create(struct rille_session *s, const struct rille_op *rop, int nargs, const struct rille_arg *args, int ndim,
             const int64_t *shape, const char *dtype, const struct rille_layout *layout, struct rille_tensor **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(rop, "the operator", __func__));
    TRY(face_args(s, nargs, args, __func__));
    TRY(face_shape(ndim, shape, __func__));
    TRY((layout ? face_layout(s, layout, __func__) : 0));
    TRY(face_given(out, "out", __func__));
    const struct op *op = (const struct op *)rop;
    struct val *in[CALL_OPERANDS], *res[OP_OUT];
    int nin, status;
    enum dtype d = DT_F32;
    if (!(op->flags & OP_SOURCE)) return fail(E_ARG, "%s: expected at least 1 tensor, found none", op->name);
    if (dtype && (d = dtype_parse(dtype)) == DT_NONE) return named(err_last(), op->name);
    if (!dtype && op->shape.dtype == OUT_I64) d = DT_I64;
    if (op->flags & OP_RANDOM && op->shape.dtype != OUT_I64 && !dtype_is_float(d))
        return fail(E_DTYPE, "%s: dtype must be float, found %s", op->name, dtype_text(d));
    if (ndim < 0 || ndim > MAX_DIM)
        return fail(E_SHAPE, "%s: expected at most %d dimensions, found %d", op->name, MAX_DIM, ndim);
    struct type t = type_of(d, ndim, shape);
    const struct layout *l = layout ? (const struct layout *)layout : session_layout(s);
    struct build_source source = {.type = &t};
    status = type_check(&t);
    if (!status) status = place_exists(s, l->place);
    if (!status) status = layout_summed(s->atlas, l, &source.layout);
    if (!status) status = operands(s, op, nargs, args, in, CALL_OPERANDS, &nin);
    if (!status) status = build_call(&s->context, op, nin, in, NULL, &source, res);
    if (!status && source.layout != l) status = build_to_global(&s->context, res[0], l, &res[0]);
    if (!status) res[0]->unplaced = !layout;
    if (!status) *out = tensor_new(s, res[0], true);
    return build_settle(s, named(status, op->name));
}
