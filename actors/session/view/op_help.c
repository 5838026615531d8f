/* op_help.c - the help page of an operator, made from its record: call, meaning, result, errors, layouts.
 *
 * The shell's ?name and operators.md (docs/operators.lua) print this text. The signatures come from the rule of one
 * of the record's samples, as for a call. op_forms.c prints composite operators. */
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/view/op_forms.h"

#include "kernels/op/base/build.h"
#include "kernels/exec/sample.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "sbp/sig.h"
#include "sbp/infer.h"
#include "sbp/write.h"

#include <string.h>

enum { TEXT_COLUMN = 17 }; /* column at which the texts of a section begin */

static const char *const kind_text[] = {"",       "integer",  "number",          "boolean",
                                        "one of", "integers", "name of a dtype", "body"};

/* ---- printing how the operator is called ---- */

static void
print_default(const struct attr_def *d, struct str *s)
{
    switch (d->flags & ATTR_ABSENT ? ATTR_NONE : d->kind) {
    case ATTR_INT: str_addf(s, "%lld", (long long)d->i); break;
    case ATTR_FLOAT: str_addf(s, "%g", d->f); break;
    case ATTR_BOOL: str_add(s, d->i ? "true" : "false"); break;
    case ATTR_TEXT: str_addf(s, "\"%.*s\"", (int)strcspn(d->text, "|"), d->text); break;
    default: str_add(s, d->kind == ATTR_INTS && d->text ? d->text : "nil"); break;
    }
}

static void
print_call(const struct op *op, struct str *s)
{
    int shown = 0;
    str_addf(s, "%s(", op->name);
    for (int i = 0, n = op_noperand(op); i < n; i++) {
        unsigned f = op->in[i].flags;
        if (f & IN_HIDDEN) continue;
        str_addf(s, "%s%s%s%s", shown++ ? ", " : "", f & IN_LIST ? "{" : "", op->in[i].name,
                 f & IN_LIST ? ", ...}" : "");
        if (f & IN_OPTIONAL) str_add(s, " = nil");
    }
    for (int i = 0; i < op_nattr(op); i++) {
        if (op->attr[i].flags & ATTR_HIDDEN) continue;
        str_addf(s, "%s%s", shown++ ? ", " : "", op->attr[i].name);
        if (op->attr[i].flags & ATTR_REQUIRED) continue;
        str_add(s, " = ");
        print_default(&op->attr[i], s);
    }
    str_add(s, ")\n");
}

/* Prints what an operand may be: "a tensor of floats or a number". */
static void
print_operand_kind(const struct op *op, int i, struct str *s)
{
    unsigned f = op->in[i].flags;
    const char *set = f & IN_INDEX ? "I" : f & IN_FLOAT ? "F" : op->shape.accepts ? op->shape.accepts : "";
    bool source = op->flags & OP_SOURCE; /* a source operator, whose operands are numbers */
    str_add(s, source ? "a number" : f & IN_LIST ? "a list of tensors" : "a tensor");
    for (const char *c = set; *c; c++)
        str_addf(s, "%s%s", c == set ? " of " : " or ", *c == 'F' ? "floats" : *c == 'I' ? "integers" : "bools");
    if (f & IN_NUMBER && !source) str_add(s, f & IN_OPTIONAL ? ", a number" : " or a number");
    if (f & IN_OPTIONAL) str_add(s, " or nil");
}

static void
print_operands(const struct op *op, struct str *s)
{
    for (int i = 0, n = op_noperand(op); i < n; i++) {
        if (op->in[i].flags & IN_HIDDEN) continue;
        str_addf(s, "  %-14s ", op->in[i].name);
        print_operand_kind(op, i, s);
        str_add(s, "\n");
    }
}

static void
print_attributes(const struct op *op, struct str *s)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *d = &op->attr[i];
        if (d->flags & ATTR_HIDDEN) continue;
        int words = 0;
        str_addf(s, "  %-14s %s", d->name, kind_text[d->kind]);
        for (const char *w = d->kind == ATTR_TEXT ? d->text : ""; *w;) {
            size_t n = strcspn(w, "|");
            str_add(s, w == d->text ? "" : ",");
            if (++words % 9 == 0) str_addf(s, "\n  %-14s", "");
            str_addf(s, " %.*s", (int)n, w);
            w += n + (w[n] == '|');
        }
        bool list = d->kind == ATTR_INTS && d->text, value = d->kind >= ATTR_INT && d->kind <= ATTR_TEXT;
        if (!(d->flags & (ATTR_REQUIRED | ATTR_ABSENT)) && (value || list)) {
            str_add(s, ", default ");
            print_default(d, s);
        }
        if (d->doc) str_addf(s, ": %s", d->doc);
        str_add(s, "\n");
    }
}

/* ---- printing the type of the result ---- */

static void
print_result_shape(const struct op *op, struct str *s)
{
    const char *x = op->in[0].name;
    str_add(s, "  returns        ");
    if (op->result)
        str_add(s, op->result);
    else if (op_attr_find(op, "keepdim") >= 0)
        str_addf(s, "a tensor of %s's shape without the dimensions in axis; keepdim keeps them, with size 1", x);
    else if (op->shape.make_rule == rule_broadcast)
        str_add(s, "a tensor of the shape to which the operands broadcast");
    else
        str_addf(s, "a tensor of %s's shape", x);
    str_add(s, "\n");
}

/* Prints the dtype that follows from the operands: "that of x", "promoted from a and b". */
static void
print_promoted(const struct op *op, struct str *s)
{
    const char *name[OP_OPERAND];
    int n = 0;
    for (int i = 0, all = op_noperand(op); i < all; i++)
        if (!(op->in[i].flags & (IN_INDEX | IN_HIDDEN))) name[n++] = op->in[i].name;
    bool list = op->in[0].flags & IN_LIST;
    str_add(s, n > 1 || list ? "promoted from " : "that of ");
    for (int i = 0; i < n; i++) str_addf(s, "%s%s", i == 0 ? "" : i < n - 1 ? ", " : " and ", name[i]);
    if (list) str_add(s, "'s tensors");
}

/* Prints that an argument sets the dtype, and returns true if the argument must be given. */
static bool
print_dtype_argument(const struct op *op, struct str *s)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *d = &op->attr[i];
        if (d->kind != ATTR_DTYPE || d->flags & ATTR_HIDDEN) continue;
        str_addf(s, "the argument %s%s", d->name, d->flags & ATTR_REQUIRED ? "" : ", else ");
        return d->flags & ATTR_REQUIRED;
    }
    return false;
}

static void
print_result_dtype(const struct op *op, struct str *s)
{
    enum out_dtype from = op->shape.dtype;
    str_pad(s, TEXT_COLUMN);
    str_add(s, "dtype: ");
    if (from == OUT_BOOL || from == OUT_I64)
        str_add(s, from == OUT_BOOL ? "bool" : "i64");
    else if (from == OUT_IN0 || from == OUT_IN1)
        str_addf(s, "that of %s", op->in[from == OUT_IN1].name);
    else if (!print_dtype_argument(op, s))
        print_promoted(op, s);
    if (from == OUT_FLOAT || from == OUT_SUM)
        str_addf(s, "; %s for integers and bools", from == OUT_FLOAT ? "f32" : "i64");
    str_add(s, "\n");
}

static void
print_result(const struct op *op, struct str *s)
{
    bool zero = op->grad.build == b_zero_grad;
    if (op->flags & OP_SOURCE) {
        str_add(s, "  returns        a leaf of the given shape, dtype and layout\n");
        return;
    }
    print_result_shape(op, s);
    if (!op->result || !strstr(op->result, "dtype")) print_result_dtype(op, s);
    str_pad(s, TEXT_COLUMN);
    str_addf(s, "differentiable: %s\n", zero ? "the gradient is 0" : op->grad.build || op->build ? "yes" : "no");
}

/* ---- printing the errors ---- */

/* Begins the next line of the part "errors". */
static void
begin_condition(struct str *s, int *n)
{
    if ((*n)++ == 0)
        str_add(s, "  errors         ");
    else
        str_pad(s, TEXT_COLUMN);
}

/* Prints the kinds of the operands, with one line for operands of the same kind. */
static void
print_operand_conditions(const struct op *op, struct str *s, int *lines)
{
    int tensors = 0, n = op_noperand(op);
    bool number = true;
    for (int i = 0, k; i < n && !(op->in[i].flags & IN_HIDDEN); i = k) {
        begin_condition(s, lines);
        for (k = i; k < n && op->in[k].flags == op->in[i].flags; k++)
            str_addf(s, "%s%s", k > i ? ", " : "", op->in[k].name);
        str_add(s, k > i + 1 ? " must each be " : " must be ");
        print_operand_kind(op, i, s);
        str_add(s, "\n");
        tensors += op->in[i].flags & IN_LIST ? 2 : k - i;
        number = number && op->in[i].flags & IN_NUMBER;
    }
    if (tensors < 2 || op->flags & OP_SOURCE) return;
    begin_condition(s, lines);
    str_addf(s, "%stensors created with a placement must be on one placement\n",
             number ? "one operand must be a tensor; " : "");
    if (op->shape.make_rule != rule_broadcast) return;
    begin_condition(s, lines);
    str_add(s, "shapes must broadcast: sizes of a dimension, counted from the last, are equal or 1\n");
}

static void
print_axis_conditions(const struct op *op, struct str *s, int *lines)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *d = &op->attr[i];
        const char *x = op->in[0].name, *list = d->kind == ATTR_INTS ? ", without repeats" : "";
        if (!(d->flags & (ATTR_AXIS | ATTR_AXIS_NEW)) || d->flags & ATTR_HIDDEN) continue;
        begin_condition(s, lines);
        if (d->flags & ATTR_AXIS_NEW)
            str_addf(s, "%s must be from -(n + 1) to n for the n dimensions of %s\n", d->name, x);
        else
            str_addf(s, "%s must be from -n to n - 1 for the n dimensions of %s%s\n", d->name, x, list);
    }
}

static void
print_errors(const struct op *op, struct str *s)
{
    int lines = 0;
    print_operand_conditions(op, s, &lines);
    print_axis_conditions(op, s, &lines);
    for (const char *text = op->errors ? op->errors : ""; *text;) {
        size_t n = strcspn(text, "\n");
        begin_condition(s, &lines);
        str_addf(s, "%.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* ---- printing the layouts ---- */

/* Returns true if the signature is legal on two ranks. It is illegal if it splits a dimension whose size in the
 * sample cannot be split. */
static bool
legal(const struct rule *r, const struct sig_list *list, int i)
{
    int32_t rank[2] = {0, 1};
    struct place two = {.naxis = 1, .nrank = 2, .axis = {2}, .rank = rank};
    return sig_legal(&two, r, list, &i, NULL);
}

static bool
same_row(const struct sig *a, const struct sig *b, int n)
{
    return !memcmp(a->v, b->v, sizeof(*a->v) * (size_t)n);
}

static void
print_signature(const struct call *c, const struct rule *r, const struct sig *sig, struct str *s)
{
    str_add(s, "    ");
    for (int k = 0, shown = 0; k < c->nin + c->nout; k++) {
        if (k == c->nin) {
            str_add(s, shown ? " -> " : "-> ");
            shown = 0;
        }
        if (k < c->nin && r->operand[k].ignored) continue;
        if (shown++) str_add(s, ", ");
        sbp_print(sig->v[k], s);
    }
    str_add(s, "\n");
}

static void
print_layouts(const struct op *op, const char *sample, struct str *s)
{
    struct arena a = {0};
    struct sample *m = ARENA_NEW(&a, struct sample);
    struct rule rule;
    struct sig_list list;
    bool usable =
        sample_read(op, sample, m) && !call_infer(&a, &m->call, &rule) && !sig_axis(&a, &m->call, &rule, NULL, &list);
    if (usable) {
        str_add(s, "  layouts on a mesh axis, for the operands ");
        op_forms_sample(sample, s);
        str_add(s, " (of several axes: any of these on each)\n");
        for (int i = 0; i < list.nsig; i++) {
            bool seen = !legal(&rule, &list, i);
            for (int k = 0; k < i && !seen; k++) seen = same_row(&list.sig[k], &list.sig[i], list.noperand);
            if (!seen) print_signature(&m->call, &rule, &list.sig[i], s);
        }
    }
    arena_fini(&a);
}

char *
rille_op_help(struct rille_session *session, const struct rille_op *rop)
{
    if (face_session(session, __func__) || face_given(rop, "the operator", __func__)) return NULL;
    const struct op *op = (const struct op *)rop;
    struct str s = {0};
    print_call(op, &s);
    if (op->doc) str_addf(&s, "  %s\n", op->doc);
    print_operands(op, &s);
    print_attributes(op, &s);
    print_result(op, &s);
    print_errors(op, &s);
    bool has_rule = (op->shape.rule || op->shape.make_rule) && !(op->flags & (OP_MOVE | OP_SOURCE));
    if (has_rule && op->sample[0]) print_layouts(op, op->sample[0], &s);
    if (op->build) op_forms_print(session, op, &s);
    if (op->source) str_addf(&s, "  source         %s\n", op->source);
    err_clear();
    return s.text;
}
