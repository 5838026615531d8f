/* sound.c - tests that every derived signature of every operator is sound. On two ranks also tests that every sound
 * signature is derived, or that the table `reasons` states why not.
 *
 * The test tries all operators of the operator table, so it needs no list of cases. It leaves out sources, which
 * have no operands; composites, whose signatures are those of their parts; and to_global. */
#include "t/lib/kernel/missing.h"
#include "t/lib/kernel/pattern.h"
#include "kernels/op/base/table.h"

static const struct {
    int naxis;
    int32_t axis[2];
    const char *name;
} mesh[] = {{1, {2}, "2"}, {1, {3}, "3"}, {1, {4}, "4"}, {2, {2, 2}, "2x2"}, {2, {2, 3}, "2x3"}};

/* ---- conditions for sound layouts that rules of any operator do not derive ---- */

static bool
is_extreme(struct sbp v)
{
    return v.kind == SBP_P && v.reduce != RED_SUM;
}

static bool
of_integers(const struct sound *s, const struct sbp *v)
{
    for (int k = 0; k < s->rule.nin; k++)
        if (!s->rule.operand[k].ignored && is_extreme(v[k]) && dtype_is_int((enum dtype)s->sample.in[k].dtype))
            return true;
    return false;
}

static bool
of_extremes(const struct sound *s, const struct sbp *v)
{
    for (int k = 0; k < s->rule.nin; k++)
        if (!s->rule.operand[k].ignored && is_extreme(v[k])) return true;
    return false;
}

/* ---- conditions for layouts of one kind of operator ---- */

static bool
is_eltwise(const struct sound *s)
{
    return s->sample.call.op->flags & OP_ELTWISE;
}

static bool
one_sided(const struct sound *s, const struct sbp *v)
{
    return s->sample.call.op->flags & OP_BOUNDED_DOMAIN && of_extremes(s, v);
}

static bool
truth_of_extremes(const struct sound *s, const struct sbp *v)
{
    return is_eltwise(s) && s->sample.call.op->shape.dtype == OUT_BOOL && of_extremes(s, v);
}

static bool
looks_up(const struct sound *s, const struct sbp *v)
{
    bool index = false;
    for (int k = 0; k < s->rule.nin; k++) index |= sound_is_index(s, k);
    return index && s->sample.call.op->partial.reduce == RED_SUM && of_extremes(s, v);
}

static bool
updates(const struct sound *s, const struct sbp *v)
{
    UNUSED(v);
    return s->sample.call.op->flags & OP_UPDATE;
}

static bool
with_number(const struct sound *s, const struct sbp *v)
{
    UNUSED(v);
    if (!is_eltwise(s)) return false;
    for (int k = 0; k < s->rule.nin; k++)
        if (s->sample.in[k].weak) return true;
    return false;
}

static bool
to_integers(const struct sound *s, const struct sbp *v)
{
    UNUSED(v);
    return is_eltwise(s) && !dtype_is_float((enum dtype)s->sample.in[0].dtype);
}

static bool
rounds(const struct sound *s, const struct sbp *v)
{
    UNUSED(v);
    enum dtype from = (enum dtype)s->sample.in[0].dtype, to = (enum dtype)s->sample.out[0].dtype;
    return from != to && (dtype_bytes(to) == 2 || from == DT_F64);
}

/* Returns true if the operator sums integers into a wider type, so that partial sums have another type than the
 * result. */
static bool
widens(const struct sound *s, const struct sbp *v)
{
    for (int k = 0; k < s->rule.nin; k++) {
        enum dtype in = (enum dtype)s->sample.in[k].dtype, out = (enum dtype)s->sample.out[0].dtype;
        if (v[k].kind != SBP_P || !dtype_is_int(in)) continue;
        if (!dtype_is_int(out) || dtype_bytes(out) > dtype_bytes(in)) return true;
    }
    return false;
}

/* Sound signatures that the rules deliberately do not derive, with the reason. op, sig: patterns (pattern.h). A
 * row applies only if when() returns true. A row names operators only if no operator flag selects them, so that
 * the rows apply to new operators, too. */
static const struct reason {
    const char *op, *sig;
    bool (*when)(const struct sound *s, const struct sbp *v);
    const char *why;
} reasons[] = {
    {"*", "*", of_integers,
     "the identity of an integer maximum is a finite number, and arithmetic with it wraps around"},
    {"*", "P -> *", to_integers, "integers are rounded already, and truth values are not summed"},
    {"*", "*", with_number, "the signature depends on the value of a number, which is bound at run time"},
    {"cast|concat", "P*", rounds, "the sum is rounded, not each rank's addend"},
    {"index_add|gather_grad|position", "P*", NULL, "only the shape of the first operand is used, and it is a variable"},
    {"*", "*", truth_of_extremes, "truth of an extreme: no program compares before reducing"},
    {"maximum|minimum|clamp", "*", of_extremes, "groups allow both kinds of extremes, but only one passes at a time"},
    {"*", "P*", widens, "a sum of integers wraps around, a wider sum does not"},
    {"add|sub", "*", of_extremes, "infinity plus the identity of a maximum, -infinity, is NaN"},
    {"*", "*", looks_up, "an axis looked up counts as summed, and an extreme does not pass a sum"},
    {"max_pool2d_pick|exp_sum", "*", of_extremes, "values picked or summed by another operand count as summed"},
    {"dropout|cast|concat|stack|pad|slice_grad|cross_entropy_parts_grad|max_pool2d|put", "*", of_extremes,
     "monotone, but extremes are not passed through, by choice"},
    {"gather|gather_grad", "S*", NULL,
     "a dimension that ids do not cover is split by position: only the indexed axis may be split"},
    {"*", "*", one_sided, "the domain is one-sided: the identity of one kind of extreme is outside"},
    {"attention_softmax", "*, P* -> *", NULL,
     "a mask value added to a whole row does not change the row's softmax, and a hidden row is 0"},
    {"attention_grad", "B, B, P, *, B, P -> P, P, B, *", NULL,
     "the gradient of values does not depend on the values: if partial values pass, all results are partial"},
    {"moments_of", "*", NULL, "x is used only for its gradient, and codes are always replicated"},
    {"product_sum", "P, P, B -> P", NULL, "c is a mean, which is complete"},
    {"recurrence_grad", "*P*", NULL,
     "gradients are linear in dhs and dcs, and `before` copies hs: partial values pass to one kind of results only"},
    {"norm_grad", "B, B, P -> P, B, B", NULL, "gradients of weight and bias do not depend on the weight"},
    {"*", "*", updates, "variables and optimiser state are never partial"},
};

static bool
is_tried(const struct op *op)
{
    bool computes = op->host.ref || op->flags & (OP_ELTWISE | OP_VIEW);
    return computes && !(op->flags & (OP_SOURCE | OP_MOVE));
}

/* ---- testing that derived signatures are sound ---- */

static int total, per_mesh[countof(mesh)];

static void
prove(const struct op *op, uint64_t seed)
{
    int proved = 0, failed = 0, on[countof(mesh)] = {0}, samples = 0;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++, samples++) {
        struct sound s;
        int status = sound_start(&s, op, op->sample[i], seed);
        if (status) diag("%s %s: %s", op->name, op->sample[i], err_text());
        failed += !!status;
        s.shares = true;
        for (size_t m = 0; m < countof(mesh) && !status; m++) {
            struct sound_tally t = sound_each_derived(&s, mesh[m].naxis, mesh[m].axis);
            on[m] += t.proved, per_mesh[m] += t.proved;
            proved += t.proved, failed += t.failed;
        }
        sound_end(&s);
    }
    total += proved;
    ok(proved > 0 && failed == 0, "%s: %d signatures of %d samples are sound", op->name, proved, samples);
    struct str row = {0};
    str_addf(&row, "%-24s", op->name);
    for (size_t m = 0; m < countof(mesh); m++) str_addf(&row, "%6d", on[m]);
    diag("%s", str_text(&row));
    str_free(&row);
}

/* ---- testing that sound signatures are derived ---- */

static bool used[countof(reasons)];

static bool
explained(const struct sound *s, const struct sbp *v, const char *sig)
{
    for (size_t i = 0; i < countof(reasons); i++) {
        const struct reason *r = &reasons[i];
        if (!pattern_matches(r->op, s->sample.call.op->name) || !pattern_matches(r->sig, sig)) continue;
        if (r->when && !r->when(s, v)) continue;
        used[i] = true;
        return true;
    }
    return false;
}

static void
missing(void *arg, const struct sound *s, const struct sbp *v)
{
    const char *sig = sound_combination(s, v, NULL);
    if (explained(s, v, sig)) return;
    diag("%s: %s holds, is not derived, and no reason is given", s->sample.call.op->name, sig);
    ++*(int *)arg;
}

/* Returns true if no dimension of the call is empty. With an empty dimension every layout gives the right values,
 * so the call proves nothing. */
static bool
tells(const struct sound *s)
{
    for (int k = 0; k < s->noperand; k++) {
        const struct type *t = sound_type(s, k);
        for (int d = 0; d < t->ndim; d++)
            if (t->dim[d] == 0) return false;
    }
    return true;
}

static void
complete(const struct op *op, uint64_t seed)
{
    int unexplained = 0;
    for (int i = 0; i < OP_SAMPLE && op->sample[i]; i++) {
        struct sound s;
        int status = sound_start(&s, op, op->sample[i], seed);
        s.shares = true;
        if (!status && tells(&s)) sound_each_missing(&s, missing, &unexplained);
        sound_end(&s);
    }
    ok(unexplained == 0, "%s: what is sound on two ranks is derived, or there is a reason", op->name);
}

int
main(int argc, char **argv)
{
    uint64_t seed = seed_of(1);
    struct str head = {0};
    str_addf(&head, "%-24s", "mesh");
    for (size_t m = 0; m < countof(mesh); m++) str_addf(&head, "%6s", mesh[m].name);
    diag("%s", str_text(&head));
    for (int i = 0; i < op_count; i++) {
        if (!is_tried(op_table[i]) || (argc > 1 && strcmp(argv[1], op_table[i]->name))) continue;
        prove(op_table[i], seed);
        complete(op_table[i], seed);
    }
    ok(total > 0, "signatures were proved: %d", total);
    for (size_t i = 0; i < countof(reasons) && argc == 1 && share_all(); i++)
        ok(used[i], "this reason is used: %s", reasons[i].why);
    str_free(&head);
    return done();
}
