/* op_help.c - the help page of an operator, made from its record: calls, meaning, layouts.
 *
 * The shell's ?name and operators.md (docs/operators.lua) print this text. The signatures come from the rule of one
 * of the record's samples, as for a call. op_forms.c prints composite operators. */
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/view/op_forms.h"

#include "kernels/op/lib/build.h"
#include "kernels/exec/sample.h"
#include "runtime/base/arena.h"
#include "runtime/base/error.h"
#include "sbp/sig.h"

#include <string.h>

static const char *const kind_text[] = {"", "integer", "number", "boolean", "one of", "integers", "dtype"};

/* ---- calls ---- */

static void
print_default(const struct attr_def *d, struct str *s)
{
    switch (d->flags & ATTR_ABSENT ? ATTR_NONE : d->kind) {
    case ATTR_INT: str_addf(s, "%lld", (long long)d->i); break;
    case ATTR_FLOAT: str_addf(s, "%g", d->f); break;
    case ATTR_BOOL: str_add(s, d->i ? "true" : "false"); break;
    case ATTR_TEXT: str_addf(s, "\"%.*s\"", (int)strcspn(d->text, "|"), d->text); break;
    default: str_add(s, "none"); break;
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

static void
print_operands(const struct op *op, struct str *s)
{
    for (int i = 0, n = op_noperand(op); i < n; i++) {
        unsigned f = op->in[i].flags;
        if (f & IN_HIDDEN || !(f & (IN_NUMBER | IN_OPTIONAL | IN_INDEX | IN_FLOAT | IN_LIST))) continue;
        str_addf(s, "  %-14s", op->in[i].name);
        if (f & IN_INDEX) str_add(s, " integers");
        if (f & IN_FLOAT) str_add(s, " float");
        if (f & IN_LIST) str_add(s, " a list of tensors");
        if (f & IN_NUMBER) str_add(s, op->flags & OP_SOURCE ? " a number" : " tensor or number");
        if (f & IN_OPTIONAL) str_add(s, f == IN_OPTIONAL ? " optional" : ", optional");
        str_add(s, "\n");
    }
}

static void
print_attributes(const struct op *op, struct str *s)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *d = &op->attr[i];
        if (d->flags & ATTR_HIDDEN) continue;
        str_addf(s, "  %-14s %s", d->name, kind_text[d->kind]);
        for (const char *w = d->kind == ATTR_TEXT ? d->text : ""; *w;) {
            size_t n = strcspn(w, "|");
            str_addf(s, "%s %.*s", w == d->text ? "" : ",", (int)n, w);
            w += n + (w[n] == '|');
        }
        if (!(d->flags & (ATTR_REQUIRED | ATTR_ABSENT)) && d->kind >= ATTR_INT && d->kind <= ATTR_TEXT) {
            str_add(s, ", default ");
            print_default(d, s);
        }
        if (d->doc) str_addf(s, ": %s", d->doc);
        str_add(s, "\n");
    }
}

/* ---- layouts ---- */

/* Returns true if the signature is legal on two ranks. The sample's sizes may be indivisible for some signatures. */
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
        sample_read(op, sample, m) && !call_infer(&a, &m->call, &rule) && !sig_axis(&a, &m->call, &rule, &list);
    if (usable) {
        str_addf(s, "  layouts of %s on a mesh axis (of several axes: any of these on each)\n", sample);
        for (int i = 0; i < list.nsig; i++) {
            bool seen = !legal(&rule, &list, i);
            for (int k = 0; k < i && !seen; k++) seen = same_row(&list.sig[k], &list.sig[i], list.noperand);
            if (!seen) print_signature(&m->call, &rule, &list.sig[i], s);
        }
    }
    arena_fini(&a);
}

static void
print_rule(const struct op *op, struct str *s)
{
    struct str made = {0};
    struct arena a = {0};
    struct sample *m = ARENA_NEW(&a, struct sample);
    if (op->shape.rule) {
        str_addf(s, "  rule           %s\n", op->shape.rule);
    } else if (op->shape.make_rule && op->sample[0] && sample_read(op, op->sample[0], m) &&
               !op->shape.make_rule(&m->call, &made)) {
        str_addf(s, "  rule           %s  for %s\n", str_text(&made), op->sample[0]);
    }
    str_free(&made);
    arena_fini(&a);
}

static void
print_rows(const struct op *op, struct str *s)
{
    str_add(s, "  computed by    ");
    if (op->flags & OP_ELTWISE) str_add(s, "element-wise blocks, ");
    if (op->flags & OP_VIEW) str_add(s, "no kernel: it is a view; ");
    const char *last = "";
    for (const struct kernel_variant *r = op->host.kernel; r && r->name; last = r->name, r++)
        if (strcmp(r->name, last)) str_addf(s, "%s, ", r->name);
    str_add(s, "the reference\n");
}

/* Returns a text that says how the operator is differentiated. An operator with a zero gradient adds no nodes. */
static const char *
gradient_text(const struct op *op)
{
    if (op->grad.build == b_zero_grad) return "none: it is zero everywhere";
    if (op->flags & OP_MOVE) return "a redistribution back";
    return op->grad.build || op->build ? "yes" : "none";
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
    bool has_rule = (op->shape.rule || op->shape.make_rule) && !(op->flags & OP_MOVE);
    if (has_rule) {
        print_rule(op, &s);
        if (op->sample[0] && !(op->flags & OP_SOURCE)) print_layouts(op, op->sample[0], &s);
        print_rows(op, &s);
    }
    if (op->build) op_forms_print(session, op, &s);
    str_addf(&s, "  gradient       %s\n", gradient_text(op));
    if (op->source) str_addf(&s, "  source         %s\n", op->source);
    err_clear();
    return s.text;
}
