/* shape.c - tests that every operator's record is well formed, and that every sample has the right types.
 *
 * infer() must return the types that the reference needs. infer() must reject a wrong size or dtype with a message
 * that names the operator. */
#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"
#include "sbp/write.h"

static bool
is_source(const struct op *op)
{
    return op->flags & OP_SOURCE;
}

/* Returns false for a composite without a shape rule, because the types of its results follow from the operators
 * that compute it. */
static bool
has_rule(const struct op *op)
{
    return op->shape.rule || op->shape.make_rule || is_source(op);
}

/* ---- operator records ---- */

static bool
digits_fit(const char *groups, int n)
{
    for (; groups && *groups; groups++) {
        int k = *groups >= '0' && *groups <= '9'   ? *groups - '0'
                : *groups >= 'a' && *groups <= 'f' ? *groups - 'a' + 10
                                                   : -1;
        if (*groups != '|' && *groups != '*' && (k < 0 || k >= n)) return false;
    }
    return true;
}

static bool
saves_fit(const struct op *op)
{
    int nout = op->nout ? op->nout : 1;
    for (const char *s = op->grad.saves; s && *s; s++) {
        if (*s == '*') continue;
        bool operand = *s >= '0' && *s < '0' + op_noperand(op), result = *s >= 'a' && *s < 'a' + nout;
        if (!operand && !result) return false;
    }
    return true;
}

static bool
attrs_fit(const struct op *op)
{
    for (int i = 0; i < op_nattr(op); i++) {
        const struct attr_def *a = &op->attr[i];
        if (!a->doc || a->kind == ATTR_NONE || (a->kind == ATTR_TEXT && !a->text)) return false;
        if (op_attr_find(op, a->name) != i) return false;
    }
    return true;
}

static void
check_record(const struct op *op, const struct op *previous)
{
    const char *name = op->name;
    int n = op_noperand(op);
    bool list = n > 0 && op->in[n - 1].flags & IN_LIST;
    ok(!previous || strcmp(previous->name, name) < 0, "%s comes after %s", name, previous ? previous->name : "nothing");
    ok(op_find(name) == op, "%s is found by its name", name);
    ok(op->doc && *op->doc, "%s says what it computes", name);
    ok(has_rule(op) || op->build, "%s has a rule or is made of others", name);
    ok(!has_rule(op) || op->host.ref || op->flags & (OP_ELTWISE | OP_VIEW),
       "%s has a reference, is element-wise or is a view", name);
    ok(!(op->flags & OP_ELTWISE) || op->eltwise.f, "%s is element-wise and has a function of reals", name);
    ok(!(op->flags & OP_VIEW) == !op->host.view, "%s is a view if and only if it has a view function", name);
    ok(list || (digits_fit(op->partial.linear, n) && digits_fit(op->partial.increasing, n) &&
                digits_fit(op->partial.decreasing, n)),
       "%s: partial groups name existing operands", name);
    ok(list || saves_fit(op), "%s saves existing operands and results", name);
    ok(attrs_fit(op), "%s: attributes have a kind, a text and one name each", name);
    ok(op->sample[0] != NULL, "%s has a sample", name);
}

/* ---- samples ---- */

static int
infer(struct sample *s)
{
    struct arena a = {0};
    struct rule rule;
    if (is_source(s->call.op)) s->out[0] = (struct type){.ndim = 2, .dim = {3, 4}};
    int status = call_infer(&a, &s->call, &rule);
    arena_fini(&a);
    return status;
}

/* Makes dimension d of operand k longer by one. Returns true if infer() accepts the call, or rejects it with a
 * message that begins with the operator's name. */
static bool
names_itself(const struct sample *s, int k, int d)
{
    struct sample longer = *s;
    longer.call.in = longer.in;
    longer.call.out = longer.out;
    longer.call.attr = longer.attr;
    longer.in[k].dim[d]++;
    if (!infer(&longer)) return true;
    if (!strncmp(err_text(), s->call.op->name, strlen(s->call.op->name))) return true;
    diag("%s", err_text());
    return false;
}

/* Returns true unless an operator's help page may state a wrong shape. The page of an operator without a stated
 * shape, keepdim or broadcasting says that the result has the shape of the first operand. This must be true of the
 * sample. */
static bool
shape_is_stated(const struct sample *s)
{
    const struct op *op = s->call.op;
    if (op->result || op->flags & (OP_HIDDEN | OP_SOURCE) || op_attr_find(op, "keepdim") >= 0) return true;
    return op->shape.make_rule == rule_broadcast || shape_equal(&s->out[0], &s->in[0]);
}

static void
check_sample(const struct op *op, const char *text)
{
    struct sample s;
    if (!ok(sample_read(op, text, &s), "%s: sample \"%s\" can be read", op->name, text) || !has_rule(op)) return;
    if (!ok(!infer(&s), "%s %s has a type", op->name, text)) {
        diag("%s", err_text());
        return;
    }
    bool good = true;
    for (int k = 0; k < s.call.nout; k++) good &= s.out[k].dtype != DT_NONE && !s.out[k].weak;
    ok(good, "%s %s: every result has a dtype", op->name, text);
    ok(shape_is_stated(&s), "%s %s: the help page states the shape of the result", op->name, text);
    good = true;
    for (int k = 0; k < s.call.nin; k++)
        for (int d = 0; d < s.in[k].ndim; d++) good &= names_itself(&s, k, d);
    ok(good, "%s %s: the error for a wrong size names the operator", op->name, text);
}

/* ---- shapes of results, worked out by hand ---- */

static const struct {
    const char *op, *sample, *want; /* type expected of the first result */
} shapes[] = {
    {"add", "f32{4,1} f32{3,1,5}", "f32{3, 4, 5}"},
    {"add", "i64{2} #0.5", "f32{2}"},
    {"add", "i32{2} #3", "i32{2}"},
    {"add", "bf16{2} f32{2}", "f32{2}"},
    {"add", "bf16{2} #0.5", "bf16{2}"},
    {"div", "i64{2} i64{2}", "f32{2}"},
    {"floor_divide", "i64{2} #2", "i64{2}"},
    {"lt", "f64{2} #1", "bool{2}"},
    {"where", "bool{3} #1 #0", "i64{3}"},
    {"where", "bool{3} f32{2,1} #0", "f32{2, 3}"},
    {"cast", "f32{2} dtype=u8", "u8{2}"},
    {"exp", "i32{2}", "f32{2}"},
    {"neg", "i32{2}", "i32{2}"},
    {"sum", "f32{2,3,4} axis=1", "f32{2, 4}"},
    {"sum", "bf16{2,3} keepdim=1", "bf16{1, 1}"},
    {"sum", "i32{2,3}", "i64{}"},
    {"max", "i32{2,3} axis=0", "i32{3}"},
    {"any", "bool{2,3} axis=1", "bool{2}"},
    {"argmax", "f32{2,3,4} axis=1 keepdim=1", "i64{2, 1, 4}"},
    {"argmax", "f32{2,3}", "i64{}"},
    {"cumsum", "u8{2,3} axis=1", "i64{2, 3}"},
    {"transpose", "f32{2,3,4} axis0=0 axis1=2", "f32{4, 3, 2}"},
    {"permute", "f32{2,3,4} axes=1,2,0", "f32{3, 4, 2}"},
    {"reshape", "f32{2,3,4} shape=4,-1", "f32{4, 6}"},
    {"expand", "f32{3,1} sizes=2,-1,4", "f32{2, 3, 4}"},
    {"squeeze", "f32{1,3,1}", "f32{3}"},
    {"squeeze", "f32{1,3,1} axis=2", "f32{1, 3}"},
    {"unsqueeze", "f32{2,3} axis=-1", "f32{2, 3, 1}"},
    {"slice", "f32{7,2} axis=0 start=1 stop=-1 step=2", "f32{3, 2}"},
    {"slice", "f32{7} axis=0 start=5 stop=99", "f32{2}"},
    {"slice", "f32{7} axis=0 start=5 stop=3", "f32{0}"},
};

static void
check_shape(const char *name, const char *text, const char *want)
{
    struct sample s;
    struct str got = {0};
    bool read = sample_read(op_find(name), text, &s) && !infer(&s);
    if (read) type_print(&s.out[0], &got);
    if (!ok(read && !strcmp(str_text(&got), want), "%s %s is %s", name, text, want))
        diag("found %s", read ? str_text(&got) : err_text());
    str_free(&got);
}

static const struct {
    const char *op, *sample, *says;
} refused[] = {
    {"add", "f32{4,5} f32{6,5}", "dimension 0"},
    {"neg", "bool{2}", "integer"},
    {"sub", "bool{2} bool{2}", "bool"},
    {"pow", "bool{2} bool{}", "bool"},
    {"floor_divide", "bool{2} bool{2}", "bool"},
    {"remainder", "bool{2} bool{2}", "bool"},
    {"reshape", "f32{2,3} shape=4,2", "6 elements"},
    {"expand", "f32{2,3} sizes=2,4", "cannot become 4"},
    {"expand", "f32{2,3} sizes=3", "expected 2"},
    {"permute", "f32{2,3} axes=0,0", "once"},
    {"slice", "f32{7} axis=0 stop=5 step=0", "step"},
    {"max", "f32{0,3} axis=0", "empty"},
    {"argmax", "f32{0,3} axis=0", "empty"},
    {"dropout", "f32{3} #1 #1 p=1.5", "1.5"},
    {"dropout", "i64{3} #1 #1", "float"},
};

static void
check_refused(const char *name, const char *text, const char *says)
{
    struct sample s;
    bool read = sample_read(op_find(name), text, &s);
    bool no = read && infer(&s) != 0;
    if (!ok(no && strstr(err_text(), says), "%s %s is refused: %s", name, text, says))
        diag("%s", no ? err_text() : "it was not");
}

int
main(void)
{
    for (int i = 0; i < op_count; i++) {
        check_record(op_table[i], i ? op_table[i - 1] : NULL);
        for (int k = 0; k < OP_SAMPLE && op_table[i]->sample[k]; k++) check_sample(op_table[i], op_table[i]->sample[k]);
    }
    for (size_t i = 0; i < countof(shapes); i++) check_shape(shapes[i].op, shapes[i].sample, shapes[i].want);
    for (size_t i = 0; i < countof(refused); i++) check_refused(refused[i].op, refused[i].sample, refused[i].says);
    ok(!op_find("sine"), "an unknown operator is not found");
    return done();
}
