/* loaded_record.c - makes an operator's internal record from the public record of a shared library.
 *
 * The public structs of views and attributes have the memory layout of the internal structs, so calls pass them on
 * without a copy. If an internal struct changes, the assertions below fail, and this file must convert. */
#include "kernels/loaded/loaded_record.h"

#include "kernels/op/base/build.h"
#include "kernels/op/base/table.h"
#include "runtime/data/arena.h"
#include "runtime/graph/graph.h"
#include "sbp/rule.h"
#include "sbp/write.h"

#include <string.h>

#define SAME_FIELD(public, internal, field)                                                                            \
    _Static_assert(offsetof(struct public, field) == offsetof(struct internal, field), #public " has another layout")
SAME_FIELD(rille_operator_tensor, view, data);
SAME_FIELD(rille_operator_tensor, view, dtype);
SAME_FIELD(rille_operator_tensor, view, ndim);
SAME_FIELD(rille_operator_tensor, view, dim);
SAME_FIELD(rille_operator_tensor, view, stride);
SAME_FIELD(rille_operator_tensor, view, offset);
SAME_FIELD(rille_operator_tensor, view, global);
SAME_FIELD(rille_operator_value, attr, set);
SAME_FIELD(rille_operator_value, attr, n);
SAME_FIELD(rille_operator_value, attr, i);
SAME_FIELD(rille_operator_value, attr, f);
SAME_FIELD(rille_operator_value, attr, list);
_Static_assert(sizeof(struct rille_operator_tensor) == sizeof(struct view), "arrays of views have another layout");
_Static_assert(sizeof(struct rille_operator_value) == sizeof(struct attr), "arrays of attributes have another layout");
#define SAME_VALUE(public, internal) _Static_assert((int)(public) == (int)(internal), #public " has another value")
SAME_VALUE(RILLE_DTYPE_NONE, DT_NONE);
#define DTYPE(name, text, bytes, class) SAME_VALUE(RILLE_DTYPE_##name, DT_##name);
#include "runtime/tensor/dtypes.def"
#undef DTYPE
SAME_VALUE(RILLE_OPERAND_NUMBER, IN_NUMBER);
SAME_VALUE(RILLE_OPERAND_OPTIONAL, IN_OPTIONAL);
SAME_VALUE(RILLE_OPERAND_INTEGER, IN_INDEX);
SAME_VALUE(RILLE_OPERAND_FLOAT, IN_FLOAT);
SAME_VALUE(RILLE_ATTRIBUTE_INT, ATTR_INT);
SAME_VALUE(RILLE_ATTRIBUTE_FLOAT, ATTR_FLOAT);
SAME_VALUE(RILLE_ATTRIBUTE_BOOL, ATTR_BOOL);
SAME_VALUE(RILLE_ATTRIBUTE_WORD, ATTR_TEXT);
SAME_VALUE(RILLE_ATTRIBUTE_INTS, ATTR_INTS);
SAME_VALUE(RILLE_REDUCE_NONE, RED_NONE);
SAME_VALUE(RILLE_REDUCE_SUM, RED_SUM);
SAME_VALUE(RILLE_REDUCE_MAX, RED_MAX);
SAME_VALUE(RILLE_REDUCE_MIN, RED_MIN);
SAME_VALUE(RILLE_RESULT_PROMOTED, OUT_PROMOTE);
SAME_VALUE(RILLE_RESULT_FLOAT, OUT_FLOAT);
SAME_VALUE(RILLE_RESULT_BOOL, OUT_BOOL);
SAME_VALUE(RILLE_RESULT_I64, OUT_I64);
SAME_VALUE(RILLE_RESULT_FIRST, OUT_IN0);
SAME_VALUE(RILLE_OPERATOR_HIDDEN, OP_HIDDEN);
SAME_VALUE(RILLE_OPERATOR_DIMS, MAX_DIM);
SAME_VALUE(RILLE_OPERATOR_LIST, ATTR_LIST);
_Static_assert((int)RILLE_OPERATOR_OPERANDS <= (int)OP_OPERAND && (int)RILLE_OPERATOR_ATTRIBUTES == (int)OP_ATTR &&
                   (int)RILLE_OPERATOR_SAMPLES == (int)OP_SAMPLE,
               "internal records have other limits");

/* ---- calls of the library's functions ---- */

typedef int public_function(const struct rille_operator_call *c);

static struct rille_operator_call
public_call(const struct call *c, const struct view *in, const struct view *out)
{
    return (struct rille_operator_call){.size = sizeof(struct rille_operator_call),
                                        .nin = c->nin,
                                        .nout = c->nout,
                                        .threads = 1,
                                        .in = (const struct rille_operator_tensor *)in,
                                        .out = (const struct rille_operator_tensor *)out,
                                        .attr = (const struct rille_operator_value *)c->attr};
}

/* Calls a function of the library; fails with the function's error text. */
static int
call_public(public_function *function, struct rille_operator_call *p, enum err_code code, const struct op *op)
{
    char error[512] = "";
    p->error = error;
    p->error_size = sizeof error;
    if (!function(p)) return 0;
    error[sizeof error - 1] = '\0';
    return fail(code, "%s: %s", op->name, *error ? error : "failed, and its library reports no reason");
}

static int
compute_kernel(const struct kcall *k, public_function *function)
{
    struct rille_operator_call p = public_call(k->call, k->in, k->out);
    p.threads = k->threads;
    return call_public(function, &p, E_KERNEL, k->call->op);
}

static int
run_definition(const struct kcall *k)
{
    return compute_kernel(k, loaded_of(k->call->op)->record.run);
}

static int
run_fast(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return compute_kernel(k, loaded_of(k->call->op)->record.fast);
}

static bool
fast_accepts(const struct kcall *k)
{
    const struct call *c = k->call;
    uint32_t dtypes = 1u << DT_NONE;
    for (int i = 0; i < c->nin; i++)
        if (!c->in[i].weak) dtypes |= 1u << k->in[i].dtype;
    for (int i = 0; i < c->nout; i++) dtypes |= 1u << k->out[i].dtype;
    return !(dtypes & ~(loaded_of(c->op)->record.fast_dtypes | 1u << DT_NONE));
}

static double
compute_element(const struct call *c, const double *x)
{
    return loaded_of(c->op)->record.element((const struct rille_operator_value *)c->attr, x);
}

static void
compute_block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    loaded_of(c->op)->record.element_f32((const struct rille_operator_value *)c->attr, n, x, y);
}

/* Makes a dense view without data for each type. Sizes and global sizes are those of the type. */
static void
views_of_types(int n, const struct type *type, struct view *view)
{
    for (int i = 0; i < n; i++) view[i] = view_dense(&type[i], NULL);
}

static int
infer_sizes(const struct call *c, int64_t *size)
{
    struct view in[OP_OPERAND];
    int64_t unused[RULE_FACTOR];
    views_of_types(c->nin, c->in, in);
    struct rille_operator_call p = public_call(c, in, NULL);
    p.letter = size ? size : unused;
    return call_public(loaded_of(c->op)->record.infer, &p, E_SHAPE, c->op);
}

static double
count_operations(const struct call *c)
{
    struct view in[OP_OPERAND], out[OP_OUT];
    views_of_types(c->nin, c->in, in);
    views_of_types(c->nout, c->out, out);
    struct rille_operator_call p = public_call(c, in, out);
    return loaded_of(c->op)->record.operations(&p);
}

/* ---- gradients ---- */

void
loaded_pass_attributes(const struct op *from, const struct attr *given, const struct op *to, struct attr *attr)
{
    op_attr_defaults(to, attr);
    for (int i = 0; i < op_nattr(from); i++) {
        int k = op_attr_find(to, from->attr[i].name);
        if (k >= 0 && to->attr[k].kind == from->attr[i].kind) attr[k] = given[i];
    }
}

/* Returns the gradient of result k, or zeros if no gradient arrived. */
static struct val *
gradient_of_result(struct build *b, const struct node *n, struct val *const *dout, int k)
{
    return dout[k] ? dout[k] : b_where(b, b_true(b, n->out[k]), b_number(b, 0), n->out[k]);
}

static struct val *
gradient_operand(struct build *b, const struct node *n, struct val *const *dout, char what)
{
    if (what >= 'a') return n->out[what - 'a'];
    return what >= 'A' ? gradient_of_result(b, n, dout, what - 'A') : n->in[what - '0'];
}

static void
build_gradient(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    const struct loaded *l = loaded_of(n->op);
    for (int i = 0; i < n->nin; i++) {
        const struct op *op = l->gradient[i];
        if (!op || !b_wants(n, i)) continue;
        struct val *in[RILLE_OPERATOR_OPERANDS];
        struct attr attr[OP_ATTR];
        const char *reads = l->record.gradient[i].reads;
        for (int k = 0; reads[k]; k++) in[k] = gradient_operand(b, n, dout, reads[k]);
        loaded_pass_attributes(n->op, n->attr, op, attr);
        din[i] = b_sum_to(b, b_call(b, op, (int)strlen(reads), in, attr), &n->in[i]->type);
    }
}

/* Lists the values that forward must save because a gradient operator reads them. If no gradient arrives for a
 * result, the gradient operator reads zeros instead; they have the layout of the result. So an operator with several
 * results also saves each result whose gradient is read. */
static void
save_reads(struct loaded *l, const char *reads)
{
    int nout = MAX(1, l->record.results);
    for (; *reads; reads++) {
        char what = *reads >= 'A' && *reads < 'a' ? (char)(*reads - 'A' + 'a') : *reads;
        if (what != *reads && nout == 1) continue;
        size_t n = strlen(l->saves);
        if (!strchr(l->saves, what)) l->saves[n] = what;
    }
}

static const struct op *
find_operator(const char *name, int n, const struct loaded *library)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(library[i].op.name, name)) return &library[i].op;
    return op_find(name);
}

static int
link_gradient(struct loaded *l, int i, int n, const struct loaded *library)
{
    const struct rille_operator_gradient *g = &l->record.gradient[i];
    const struct op *op = find_operator(g->name, n, library);
    const char *who = l->op.name, *operand = l->op.in[i].name;
    if (!op) return fail(E_ARG, "%s: unknown operator '%s' in the gradient of %s", who, g->name, operand);
    bool computes = op->host.ref || op->flags & (OP_ELTWISE | OP_VIEW);
    if (!computes || op->flags & (OP_SOURCE | OP_MOVE | OP_RANDOM | OP_UPDATE))
        return fail(E_ARG,
                    "%s: the operator '%s' cannot be a gradient, because it has no kernel of its own; write a kernel "
                    "for the gradient of %s",
                    who, g->name, operand);
    if ((int)strlen(g->reads) > op_noperand(op))
        return fail(E_ARG, "%s: the gradient of %s passes %d operands, but '%s' has %d", who, operand,
                    (int)strlen(g->reads), g->name, op_noperand(op));
    l->gradient[i] = op;
    return 0;
}

int
loaded_link(struct loaded *l, int n, const struct loaded *library)
{
    for (int i = 0; i < op_noperand(&l->op); i++)
        if (l->record.gradient[i].name) TRY(link_gradient(l, i, n, library));
    return 0;
}

/* ---- checking the fields of a record ---- */

static bool
is_identifier(const char *s)
{
    if (!s || !*s || strlen(s) > 63 || strchr("0123456789_", *s)) return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(s);
}

/* Returns true if one of the first n operands has this name. */
static bool
names_operand(const struct rille_operator *r, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(r->operand[i].name, name)) return true;
    return false;
}

static int
check_record_operands(const struct rille_operator *r)
{
    const unsigned known = RILLE_OPERAND_NUMBER | RILLE_OPERAND_OPTIONAL | RILLE_OPERAND_INTEGER | RILLE_OPERAND_FLOAT;
    int n = 0;
    for (; n < RILLE_OPERATOR_OPERANDS && r->operand[n].name; n++)
        if (!is_identifier(r->operand[n].name) || r->operand[n].flags & ~known ||
            names_operand(r, n, r->operand[n].name))
            return fail(E_ARG, "%s: operand %d, '%.63s', must have a unique lower-case name and known flags", r->name,
                        n, r->operand[n].name);
    return n > 0 ? 0 : fail(E_ARG, "%s: operand must list 1 to %d operands, found 0", r->name, RILLE_OPERATOR_OPERANDS);
}

static int
public_operands(const struct rille_operator *r)
{
    int n = 0;
    while (n < RILLE_OPERATOR_OPERANDS && r->operand[n].name) n++;
    return n;
}

/* Returns true if the text is a list of nonempty words such as "sum|mean". */
static bool
words_are_good(const char *words)
{
    if (!words || !*words || *words == '|' || strstr(words, "||")) return false;
    return words[strlen(words) - 1] != '|';
}

static bool
attribute_is_good(const struct rille_operator *r, int i)
{
    const struct rille_operator_attribute *a = &r->attribute[i];
    if (!is_identifier(a->name) || a->kind < RILLE_ATTRIBUTE_INT || a->kind > RILLE_ATTRIBUTE_INTS) return false;
    if (a->kind == RILLE_ATTRIBUTE_WORD && !words_are_good(a->words)) return false;
    if (names_operand(r, public_operands(r), a->name)) return false;
    for (int k = 0; k < i; k++)
        if (!strcmp(r->attribute[k].name, a->name)) return false;
    return true;
}

static int
check_record_attributes(const struct rille_operator *r)
{
    for (int i = 0; i < RILLE_OPERATOR_ATTRIBUTES && r->attribute[i].name; i++)
        if (!attribute_is_good(r, i))
            return fail(
                E_ARG,
                "%s: attribute %d, '%.63s', must have a unique lower-case name and a known kind, and words if its "
                "kind is RILLE_ATTRIBUTE_WORD",
                r->name, i, r->attribute[i].name);
    return 0;
}

static bool
linear_is_good(const struct rille_operator *r)
{
    for (const char *c = r->linear; c && *c; c++)
        if (*c != '|' && *c != '*' && (*c < '0' || *c - '0' >= public_operands(r))) return false;
    return true;
}

static bool
gradients_are_good(const struct rille_operator *r)
{
    int nout = MAX(1, r->results);
    for (int i = 0; i < RILLE_OPERATOR_OPERANDS; i++) {
        const struct rille_operator_gradient *g = &r->gradient[i];
        if (!g->name) continue;
        if (i >= public_operands(r) || !g->reads || !*g->reads || strlen(g->reads) > RILLE_OPERATOR_OPERANDS)
            return false;
        for (const char *c = g->reads; *c; c++) {
            int k = *c >= 'a' ? *c - 'a' : *c >= 'A' ? *c - 'A' : *c - '0';
            if (k < 0 || k >= (*c >= 'A' ? nout : public_operands(r))) return false;
        }
    }
    return true;
}

/* Checks all fields of a record except the SBP rule. */
static int
check_fields(const struct rille_operator *r)
{
    TRY(check_record_operands(r));
    TRY(check_record_attributes(r));
    const struct {
        bool good;
        const char *must;
    } field[] = {
        {r->doc && *r->doc, "doc must be the formula of the operator"},
        {r->results >= 0 && r->results <= LOADED_OUT, "results must be 0 to 4"},
        {!(r->flags & ~(uint32_t)RILLE_OPERATOR_HIDDEN), "flags must be 0 or RILLE_OPERATOR_HIDDEN"},
        {!r->run != !r->element, "one of run and element must be set"},
        {!r->element == !!r->rule, "rule must be set, or NULL for an operator with element"},
        {!r->element || r->results <= 1, "an operator with element must have one result"},
        {!r->element_f32 || r->element, "element_f32 must be NULL, because element is NULL"},
        {!r->fast == !r->fast_dtypes && !(r->fast && r->element), "fast and fast_dtypes must both be set, with run"},
        {r->reduce >= RILLE_REDUCE_NONE && r->reduce <= RILLE_REDUCE_MIN, "reduce must be one of RILLE_REDUCE_"},
        {(r->result >= 0 && r->result <= RILLE_RESULT_I64) || r->result == RILLE_RESULT_FIRST,
         "result must be one of RILLE_RESULT_"},
        {linear_is_good(r), "linear must have numbers of operands, '|' and '*' only"},
        {!r->accepts || (*r->accepts && strspn(r->accepts, "FIB") == strlen(r->accepts)),
         "accepts must have the letters F, I and B only"},
        {gradients_are_good(r),
         "gradient must read operands '0'..'9', results 'a'..'d' and gradients 'A'..'D' that exist"},
        {r->sample[0], "sample must have at least one call"},
    };
    for (size_t i = 0; i < countof(field); i++)
        if (!field[i].good) return fail(E_ARG, "%s: %s", r->name, field[i].must);
    return 0;
}

static int
check_rule(const struct rille_operator *r)
{
    struct arena a = {0};
    struct rule rule;
    int nin = public_operands(r), nout = MAX(1, r->results);
    int status = r->rule ? rule_parse(&a, r->rule, &rule) : 0;
    if (status) err_note("%s", r->name);
    if (!status && r->rule && (rule.nin != nin || rule.nout != nout))
        status = fail(E_ARG, "%s: rule \"%s\" has %d operands and %d results, expected %d and %d", r->name, r->rule,
                      rule.nin, rule.nout, nin, nout);
    arena_fini(&a);
    return status;
}

/* Size of a record in the first rille_operator.h of this version of the interface, bytes. Later headers add fields
 * at the end; in records of earlier headers these fields are 0. */
static const size_t FIRST_SIZE = offsetof(struct rille_operator, sample) + sizeof(((struct rille_operator *)0)->sample);
enum { LARGEST = 1 << 16 }; /* greatest `size` of a record that is not rejected as nonsense, bytes */

/* Copies the record. Fails if the record has another version, or sets fields that this version does not know. */
static int
copy_record(const struct rille_operator *r, struct rille_operator *copy)
{
    const unsigned char *byte = (const unsigned char *)r;
    if (r->abi != RILLE_OPERATOR_ABI)
        return fail(E_ARG,
                    "the library has version %u of the operator interface, expected %u; build it with the "
                    "rille_operator.h of this version of Rille",
                    (unsigned)r->abi, (unsigned)RILLE_OPERATOR_ABI);
    if (r->size < FIRST_SIZE || r->size > LARGEST)
        return fail(E_ARG, "a record has %u bytes, expected %u; begin each record with RILLE_OPERATOR_HEAD",
                    (unsigned)r->size, (unsigned)FIRST_SIZE);
    for (size_t i = sizeof *r; i < r->size; i++)
        if (byte[i])
            return fail(E_ARG, "a record has a field that this version of Rille does not know; use a later version, or "
                               "set the field to zero");
    if (!is_identifier(r->name))
        return fail(E_ARG, "the name '%s' must have 1 to 63 small letters, digits and '_', and begin with a letter",
                    r->name ? r->name : "");
    memcpy(copy, r, MIN(r->size, sizeof *r));
    return 0;
}

/* ---- making the internal record ---- */

static void
set_names(const struct rille_operator *r, struct op *op)
{
    for (int i = 0; i < public_operands(r); i++) op->in[i] = (struct operand){r->operand[i].name, r->operand[i].flags};
    for (int i = 0; i < RILLE_OPERATOR_ATTRIBUTES && r->attribute[i].name; i++) {
        const struct rille_operator_attribute *a = &r->attribute[i];
        op->attr[i] = (struct attr_def){
            .name = a->name, .kind = (enum attr_kind)a->kind, .i = a->i, .f = a->f, .text = a->words, .doc = a->doc};
    }
    memcpy(op->sample, r->sample, sizeof op->sample);
}

static void
set_kernels(struct loaded *l)
{
    const struct rille_operator *r = &l->record;
    l->variant[0] = (struct kernel_variant){.name = "library", .accepts = fast_accepts, .run = run_fast};
    if (r->fast) l->op.host.kernel = l->variant;
    if (r->run) l->op.host.ref = run_definition;
    if (r->element) l->op.flags |= OP_ELTWISE, l->op.eltwise.f = compute_element;
    if (r->element_f32) l->op.eltwise.block_f32 = compute_block;
    if (r->operations) l->op.flops = count_operations;
}

int
loaded_record(const struct rille_operator *from, const char *path, struct loaded *l)
{
    struct rille_operator *r = &l->record;
    l->from = from;
    TRY(copy_record(from, r));
    TRY(check_fields(r));
    TRY(check_rule(r));
    l->op = (struct op){.name = r->name, .doc = r->doc, .source = path, .nout = r->results};
    l->op.flags = r->flags | OP_LIBRARY;
    l->op.shape = (struct op_shape){.rule = r->rule,
                                    .make_rule = r->element ? rule_broadcast : NULL,
                                    .infer = r->infer ? infer_sizes : NULL,
                                    .dtype = (enum out_dtype)r->result,
                                    .accepts = r->accepts};
    l->op.partial = (struct op_partial){.linear = r->linear, .reduce = (enum reduce)r->reduce};
    if (r->results > 1 && r->reduce == RILLE_REDUCE_SUM) l->op.partial.sums = (1u << r->results) - 1;
    set_names(r, &l->op);
    set_kernels(l);
    for (int i = 0; i < public_operands(r); i++) {
        if (!r->gradient[i].name) continue;
        save_reads(l, r->gradient[i].reads);
        l->op.grad = (struct op_grad){.build = build_gradient, .saves = l->saves};
    }
    return 0;
}
