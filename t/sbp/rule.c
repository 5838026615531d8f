/* rule.c - tests of dimension rules: accepted and rejected texts, sizes, rules that are made for a call, messages. */
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "sbp/write.h"
#include "sbp/infer.h"
#include "kernels/exec/sample.h"
#include "t/lib/tap.h"
#include "runtime/tensor/atlas.h"

static struct arena arena;

/* ---- reading ---- */

/* Writes a parsed rule as text. "[x]": a letter that may not be split; "x+": a letter of results alone, along which
 * each rank can make its own shard. */
static void
write_back(const struct rule *r, struct str *s)
{
    for (int k = 0; k < r->nin + r->nout; k++) {
        const struct rule_operand *o = &r->operand[k];
        str_add(s, k == 0 ? "" : k == r->nin ? "->" : ",");
        if (o->ignored) str_add(s, "=");
        for (int d = 0; d < o->ndim; d++) {
            const struct rule_dim *dim = &o->dim[d];
            if (dim->nfactor == 0) str_add(s, "1");
            if (dim->nfactor > 1) str_add(s, "(");
            for (int i = 0; i < dim->nfactor; i++) {
                const struct rule_factor *f = &r->factor[dim->factor[i]];
                str_addf(s, f->unsplit ? "[%c]" : f->made && k >= r->nin ? "%c+" : "%c", f->letter);
            }
            if (dim->nfactor > 1) str_add(s, ")");
        }
    }
}

static void
test_forms(void)
{
    static const struct {
        const char *text, *same; /* text: a rule; same: the expected text of the parsed rule, NULL: `text` itself */
    } form[] = {
        {"mk,kn->mn", NULL},
        {"a[b]c->a[b]c", NULL},
        {"a[b]c->abc", "a[b]c->a[b]c"},
        {"ab,1b->ab", NULL},
        {"ab->a", NULL},
        {"ab->1b", NULL},
        {"(ab)c->abc", NULL},
        {"(a[b])c->abc", "(a[b])c->a[b]c"},
        {"(a)b->ab", "ab->ab"},
        {"a->a[n]", NULL},
        {"a->an", "a->a[n]"},
        {"a->an+", NULL},
        {"a->n+a,n", "a->n+a,n+"},
        {"ab,=->ab", NULL},
        {"=,ab->ab", NULL},
        {"->", NULL},
        {"a,->a", NULL},
        {"ab->,ab,b", NULL},
        {"aZ->Za", NULL},
        {"abcdefgh->(abcdefgh)", NULL},
        {"n[c]hw,[o][c][x][y]->n[o]hw", NULL},
        {"n(c)hw,o[x][y]->nohw", "nchw,o[x][y]->nohw"},
        {"=->[a]", NULL},
    };
    for (size_t i = 0; i < countof(form); i++) {
        struct rule r;
        struct str s = {0};
        int status = rule_parse(&arena, form[i].text, &r);
        if (!status) write_back(&r, &s);
        is_str(status ? err_text() : str_text(&s), form[i].same ? form[i].same : form[i].text,
               "a parsed rule is written back with the same meaning");
        str_free(&s);
    }
}

static void
test_refused(void)
{
    static const char *const wrong[] = {
        "",         "a",      "a-a",       "a->b->c",   "a,b",          "ab->a-",         "a b->ab",
        "a->a ",    "[a->a",  "a]->a",     "[]->a",     "[ab]->a",      "[[a]]->a",       "(ab->ab",
        "ab)->a",   "()->a",  "((a)b)->a", "[(ab)]->a", "(1a)->a",      "[1]->a",         "aa->a",
        "(ab)a->a", "a->aa",  "a=->a",     "=a->a",     "a->=",         "==->a",          "2->a",
        "a,->b->",  "a->a,=", "a.->a",     "...a->a",   "abcdefghi->a", "(abcdefghi)->a", "a>->a",
        "a+->a",    "a->a+",  "a->a[n+]",  "a->a[n]+",  "a->+",         "a-->a",          "11111111a->a",
        "a->(",     "a->[",
    };
    for (size_t i = 0; i < countof(wrong); i++) {
        struct rule r;
        err_clear();
        int status = rule_parse(&arena, wrong[i], &r);
        ok(status == E_ARG && strstr(err_text(), wrong[i]), "\"%s\" is refused with its text: %s", wrong[i],
           err_text());
    }
    struct rule r;
    rule_parse(&arena, "ab,[cd]->a", &r);
    is_str(err_text(), "rule \"ab,[cd]->a\", position 5: expected ']', found 'd'",
           "the message of a refused rule has the position and the character");
    rule_parse(&arena, "ab->(a", &r);
    is_str(err_text(), "rule \"ab->(a\", position 6: expected a letter, found the end",
           "the message reports an unexpected end");
    struct str many = {0};
    for (int i = 0; i < RULE_OPERAND; i++) str_add(&many, i ? ",a" : "a");
    str_add(&many, "->a");
    ok(rule_parse(&arena, str_text(&many), &r) == E_ARG, "more operands than a rule may have are refused");
    str_free(&many);
}

static void
test_sides(void)
{
    struct rule r;
    rule_parse(&arena, "ab,bc->ac[d]", &r);
    ok(r.nfactor == 4, "each letter is one factor");
    ok(r.factor[0].in_output && !r.factor[1].in_output && r.factor[2].in_output, "only b is reduced");
    ok(r.factor[3].unsplit && !r.factor[3].in_input && r.factor[3].in_output,
       "a letter only on the right is new and unsplit");
}

/* ---- binding ---- */

static int64_t given[RULE_FACTOR];

static int
give_sizes(const struct call *c, int64_t *size)
{
    UNUSED(c);
    memcpy(size, given, sizeof given);
    return 0;
}

/* Returns, as text, the result types of a call of an operator with this rule, or the error. */
static const char *
infer(const struct op *op, const char *sample)
{
    static struct str s;
    static struct sample sm;
    struct rule r;
    str_clear(&s);
    str_add(&s, "");
    if (!sample_read(op, sample, &sm)) return "unreadable sample";
    if (call_infer(&arena, &sm.call, &r)) return err_text();
    for (int k = 0; k < sm.call.nout; k++) {
        if (k) str_add(&s, " ");
        type_print(&sm.out[k], &s);
    }
    return str_text(&s);
}

static const char *
infer_rule(const char *rule, int nout, const char *sample)
{
    struct op op = {.name = "op",
                    .shape.rule = rule,
                    .nout = nout,
                    .in = {{"a", IN_NUMBER | IN_OPTIONAL}, {"b", IN_NUMBER | IN_OPTIONAL}, {"c", IN_OPTIONAL}},
                    .shape.infer = give_sizes};
    return infer(&op, sample);
}

static void
test_shapes(void)
{
    static const struct {
        const char *rule;
        int nout;
        const char *sample, *shape;
        int64_t size[3];
    } t[] = {
        {"mk,kn->mn", 1, "f32{4,5} f32{5,8}", "f32{4, 8}", {-1}},
        {"ab,1b->ab", 1, "f32{4,5} f32{1,5}", "f32{4, 5}", {-1}},
        {"ab->1b", 1, "f32{4,5}", "f32{1, 5}", {-1}},
        {"ab->", 1, "f32{4,5}", "f32{}", {-1}},
        {"a->a[n]", 1, "f32{4}", "f32{4, 7}", {7}},
        {"a->[m]a[n]", 1, "f32{4}", "f32{2, 4, 3}", {2, 3}},
        {"(ab)c->abc", 1, "f32{12,5}", "f32{3, 4, 5}", {3, 4}},
        {"(ab)c->a(bc)", 1, "f32{12,5}", "f32{3, 20}", {3, 4}},
        {"abc->(ab)c", 1, "f32{3,4,5}", "f32{12, 5}", {-1}},
        {"(ab)->b", 1, "f32{12}", "f32{4}", {4}},
        {"(ab),a->b", 1, "f32{12} f32{3}", "f32{4}", {4}},
        {"(ab)->ab", 1, "f32{0}", "f32{0, 3}", {0, 3}},
        {"ab->ab,a,b", 3, "f32{2,3}", "f32{2, 3} f32{2} f32{3}", {-1}},
        {"ab,b->ab", 1, "f32{2,3} -", "f32{2, 3}", {-1}},
        {"ab,b->ab", 1, "f32{2,3} #2", "f32{2, 3}", {-1}},
        {"ab->ab", 1, "f32{2,3} #2", "f32{2, 3}", {-1}},
        {"ab,=,=->ab", 1, "f32{2,3}", "f32{2, 3}", {-1}},
        {"ab->(ab)", 1, "f32{0,3}", "f32{0}", {-1}},
    };
    for (size_t i = 0; i < countof(t); i++) {
        memset(given, -1, sizeof given);
        memcpy(given, t[i].size, sizeof t[i].size);
        if (given[0] < 0) given[1] = given[2] = -1;
        is_str(infer_rule(t[i].rule, t[i].nout, t[i].sample), t[i].shape, t[i].rule);
    }
}

static const struct op matmul = {.name = "matmul", .in = {{"a"}, {"b"}}, .shape.rule = "mk,kn->mn"};

static void
test_shape_errors(void)
{
    static const struct {
        const char *rule, *sample, *error;
        int64_t size;
    } t[] = {
        {"mk,kn->mn", "f32{4,5} f32{6,8}",
         "op: dimension 1 of a is 5 but dimension 0 of b is 6, expected equal sizes; a is f32{4, 5}, b is f32{6, 8}",
         -1},
        {"mk,kn->mn", "f32{4,5} f32{5}", "op: b has 1 dimension, expected 2; a is f32{4, 5}, b is f32{5}", -1},
        {"ab,1b->ab", "f32{4,5} f32{2,5}", "op: dimension 0 of b is 2, expected 1; a is f32{4, 5}, b is f32{2, 5}", -1},
        {"(ab),a->a", "f32{12} f32{5}",
         "op: dimension 0 of a is 12, expected a multiple of 5; a is f32{12}, b is f32{5}", -1},
        {"(ab),a,b->b", "f32{12} f32{5} f32{2}",
         "op: dimension 0 of a is 12, expected 10; a is f32{12}, b is f32{5}, c is f32{2}", -1},
        {"a->a[n]", "f32{5}", "op: the rule's letter n has no size, and infer() returned none", -1},
        {"(ab)->", "f32{5}", "op: the rule's letters a and b have no size", -1},
        {"a->a", "f32{5} f32{5}", "op: the rule has 1 operands, the call has 3", -1},
        {"a->a,a", "f32{5}", "op: the rule has 2 results, the call has 1", -1},
        {"a->(an)", "f32{5}", NULL, INT64_MAX / 4},
    };
    for (size_t i = 0; i < countof(t); i++) {
        memset(given, -1, sizeof given);
        given[0] = t[i].size;
        const char *got = infer_rule(t[i].rule, 1, t[i].sample);
        if (t[i].error)
            is_str(got, t[i].error, "an error of sizes names the dimension");
        else
            ok(err_last() == E_SHAPE && strstr(got, "op"), "a result that is too large is refused: %s", got);
    }
    struct rule r;
    struct sample s;
    sample_read(&matmul, "f32{4,5} f32{6,8}", &s);
    ok(call_infer(&arena, &s.call, &r) == E_SHAPE, "sizes that do not fit are E_SHAPE");
}

static void
test_layout_in_message(void)
{
    struct atlas *at = atlas_new();
    const struct place *p;
    const int32_t axis[] = {2}, rank[] = {0, 1};
    place_new(at, 0, 1, axis, rank, &p);
    const struct layout *layout[2];
    layout_parse(at, p, "S(0)", -1, &layout[0]);
    layout_parse(at, p, "B", -1, &layout[1]);
    struct sample s;
    struct rule r;
    sample_read(&matmul, "f32{4,5} f32{7,8}", &s);
    s.call.layout = layout;
    call_infer(&arena, &s.call, &r);
    is_str(err_text(),
           "matmul: dimension 1 of a is 5 but dimension 0 of b is 7, expected equal sizes; a is f32{4, 5} S(0) on "
           "cpu[0, 1], b is f32{7, "
           "8} B "
           "on cpu[0, 1]",
           "the message prints operands with their layouts");
    atlas_free(&at);
}

/* ---- dtypes of results ---- */

static void
test_dtypes(void)
{
    static const struct {
        enum out_dtype kind;
        const char *sample, *type;
    } t[] = {
        {OUT_PROMOTE, "i32{2} f32{2}", "f32{2}"}, {OUT_PROMOTE, "i32{2} i64{2}", "i64{2}"},
        {OUT_PROMOTE, "u8{2} #300", "u8{2}"},     {OUT_PROMOTE, "i32{2} #1.5", "f32{2}"},
        {OUT_PROMOTE, "bf16{2} #1.5", "bf16{2}"}, {OUT_PROMOTE, "bf16{2} f16{2}", "f32{2}"},
        {OUT_PROMOTE, "bool{2} #3", "i64{2}"},    {OUT_PROMOTE, "f32{2} -", "f32{2}"},
        {OUT_FLOAT, "i64{2} i64{2}", "f32{2}"},   {OUT_FLOAT, "i64{2} #2", "f32{2}"},
        {OUT_FLOAT, "f64{2} i64{2}", "f64{2}"},   {OUT_FLOAT, "bf16{2} #2.5", "bf16{2}"},
        {OUT_BOOL, "f32{2} f32{2}", "bool{2}"},   {OUT_I64, "f32{2} -", "i64{2}"},
        {OUT_SUM, "u8{2} -", "i64{2}"},           {OUT_SUM, "bool{2} -", "i64{2}"},
        {OUT_SUM, "bf16{2} -", "bf16{2}"},        {OUT_IN0, "i32{2} f32{2}", "i32{2}"},
        {OUT_IN1, "i32{2} f32{2}", "f32{2}"},     {OUT_ATTR, "i32{2} - dtype=bf16", "bf16{2}"},
        {OUT_ATTR, "i32{2} -", "i32{2}"},         {OUT_PROMOTE, "f16{2} i64{2}", "f16{2}"},
    };
    for (size_t i = 0; i < countof(t); i++) {
        struct op op = {.name = "op",
                        .shape.rule = "a,a->a",
                        .shape.dtype = t[i].kind,
                        .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER | IN_OPTIONAL}},
                        .attr = {{"dtype", ATTR_DTYPE, 0, 0, 0, NULL, NULL}}};
        is_str(infer(&op, t[i].sample), t[i].type, t[i].sample);
    }
    struct op lookup = {.name = "lookup", .shape.rule = "n,[v]c->nc", .in = {{"ids", IN_INDEX}, {"table"}}};
    is_str(infer(&lookup, "i64{3} bf16{7,2}"), "bf16{3, 2}", "indices do not affect promotion");
}

static void
test_dtype_errors(void)
{
    static const struct {
        const char *accepts;
        unsigned flags;
        const char *sample, *error;
    } t[] = {
        {"F", 0, "i32{2}", "op: a must be float, found i32; a is i32{2}"},
        {"FI", 0, "bool{2}", "op: a must be float or integer, found bool; a is bool{2}"},
        {"B i64", 0, "i32{2}", "op: a must be bool i64, found i32; a is i32{2}"},
        {"B i64", 0, "i64{2}", "i64{2}"},
        {"f32", 0, "f32{2}", "f32{2}"},
        {"f32", 0, "f64{2}", "op: a must be f32, found f64; a is f64{2}"},
        {NULL, IN_INDEX, "f32{2}", "op: a must be integer, found f32; convert it with to(\"i64\"); a is f32{2}"},
        {NULL, IN_INDEX, "bool{2}",
         "op: a must be integer, found bool; a mask selects with masked_select; a is bool{2}"},
        {"F", IN_INDEX, "i32{2}", "i32{2}"},
        {NULL, IN_FLOAT, "i32{2}", "op: a must be float, found i32; a is i32{2}"},
        {NULL, IN_OPTIONAL, "#2", "op: a must be a tensor, found a number; a is a number"},
        {"I", IN_NUMBER, "#2.5", "op: a must be integer, found a number, f64; a is a number"},
        {NULL, 0, "-", "op: a is missing"},
    };
    for (size_t i = 0; i < countof(t); i++) {
        struct op op = {.name = "op", .shape.rule = "a->a", .shape.accepts = t[i].accepts, .in = {{"a", t[i].flags}}};
        if (t[i].flags & IN_INDEX) op.shape.dtype = OUT_IN0;
        is_str(infer(&op, t[i].sample), t[i].error, "dtypes are checked against the record");
    }
}

/* ---- rules made for a call ---- */

static int64_t axes[MAX_DIM];
static int naxes;
static bool keepdim;

static int
write_keep(const struct call *c, struct str *s)
{
    return rule_keep(c, (int)axes[0], s);
}
static int
write_reduce(const struct call *c, struct str *s)
{
    return rule_reduce(c, axes, naxes, keepdim, s);
}
static int
write_reshape(const struct call *c, struct str *s)
{
    return rule_reshape(c, naxes, axes, s, NULL);
}
static int
size_reshape(const struct call *c, int64_t *size)
{
    return rule_reshape(c, naxes, axes, NULL, size);
}

static const char *
written(int (*writer)(const struct call *, struct str *), const char *sample)
{
    static struct str s;
    struct op op = {.name = "add", .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER | IN_OPTIONAL}, {"c", IN_OPTIONAL}}};
    struct sample sm;
    if (!sample_read(&op, sample, &sm)) return "unreadable sample";
    while (sm.call.nin && sm.in[sm.call.nin - 1].dtype == DT_NONE) sm.call.nin--;
    str_clear(&s);
    return writer(&sm.call, &s) ? err_text() : str_text(&s);
}

static void
test_writers(void)
{
    is_str(written(rule_same, "f32{2,3} f32{2,3} #1"), "ab,ab,=->ab",
           "rule_same writes the same letters for every tensor");
    axes[0] = 1;
    is_str(written(write_keep, "f32{2,3,4}"), "a[b]c->a[b]c", "rule_keep keeps one dimension unsplit");
    is_str(written(write_keep, "f32{}"), "->", "a scalar has no dimension to keep");
    is_str(written(rule_broadcast, "f32{4,5} f32{5}"), "ab,b->ab", "broadcasting aligns on the right");
    is_str(written(rule_broadcast, "f32{4,1} f32{3,1,5}"), "b1,a1c->abc",
           "size 1 repeats if another operand is longer");
    is_str(written(rule_broadcast, "f32{1} f32{1}"), "a,a->a", "a dimension of size 1 in all operands is a factor");
    is_str(written(rule_broadcast, "f32{4,0} f32{1,1}"), "ab,11->ab", "empty dimensions broadcast, too");
    is_str(written(rule_broadcast, "#2 f32{4}"), "=,a->a", "a number is ignored");
    is_str(written(rule_broadcast, "f32{} f32{4}"), ",a->a", "a scalar broadcasts");
    is_str(written(rule_broadcast, "f32{4,5} f32{6,8}"),
           "add: dimension 0 of the operands is 4 and 6, expected equal sizes or 1; a is f32{4, 5}, b is f32{6, 8}",
           "two shapes that do not broadcast are refused");
    is_str(written(rule_broadcast, "f32{7,5} f32{1} f32{2,1}"),
           "add: dimension 0 of the operands is 7 and 2, expected equal sizes or 1; a is f32{7, 5}, b is f32{1}, c is "
           "f32{2, 1}",
           "three shapes that do not broadcast are refused");
    axes[0] = 0, axes[1] = 2, naxes = 2, keepdim = false;
    is_str(written(write_reduce, "f32{2,3,4}"), "abc->b", "reduced dimensions are removed");
    keepdim = true;
    is_str(written(write_reduce, "f32{2,3,4}"), "abc->1b1", "with keepdim, reduced dimensions stay with size 1");
    naxes = 0;
    is_str(written(write_reduce, "f32{2,3}"), "ab->11", "an empty list of axes means all axes");
    keepdim = false;
    is_str(written(write_reduce, "f32{2,3}"), "ab->", "without keepdim, a reduction of all axes leaves a scalar");
}

static void
test_reshape(void)
{
    static const struct {
        const char *from;
        int ndim;
        int64_t dim[MAX_DIM];
        const char *rule, *to;
    } t[] = {
        {"f32{12}", 3, {2, 2, 3}, "(abc)->abc", "f32{2, 2, 3}"},
        {"f32{3,4,5}", 2, {12, 5}, "abc->(ab)c", "f32{12, 5}"},
        {"f32{12,5}", 2, {3, 20}, "(ab)c->a(bc)", "f32{3, 20}"},
        {"f32{4,6}", 2, {6, 4}, "(a[b])[d]->(a[c])[e]", "f32{6, 4}"},
        {"f32{3,2}", 2, {2, 3}, "[a][d]->[b][c]", "f32{2, 3}"},
        {"f32{4,6}", 1, {-1}, "ab->(ab)", "f32{24}"},
        {"f32{4,6}", 3, {2, -1, 6}, "(ab)c->abc", "f32{2, 2, 6}"},
        {"f32{1,4,1}", 2, {4, 1}, "1a1->a1", "f32{4, 1}"},
        {"f32{1}", 0, {0}, "1->", "f32{}"},
        {"f32{}", 2, {1, 1}, "->11", "f32{1, 1}"},
        {"f32{0,3}", 3, {3, 0, 2}, "[a][b]->[c][d][e]", "f32{3, 0, 2}"},
        {"f32{5,2,3}", 2, {5, 6}, "abc->a(bc)", "f32{5, 6}"},
        {"f32{2,3,7}", 3, {3, 2, 7}, NULL, "f32{3, 2, 7}"},
        {"f32{8,9}", 2, {12, 6}, NULL, "f32{12, 6}"},
        {"f32{4,6}", 2, {5, 5}, NULL, "reshape: expected a shape of 24 elements, found {5, 5}; x is f32{4, 6}"},
        {"f32{4,6}", 2, {5, -1}, NULL, "reshape: expected a shape of 24 elements, found {5, -1}; x is f32{4, 6}"},
        {"f32{4,6}",
         2,
         {-1, -1},
         NULL,
         "reshape: expected a shape of 24 elements, with -1 at most once, found {-1, -1}; x is f32{4, 6}"},
        {"f32{0,6}", 2, {0, -1}, NULL, "reshape: expected a shape of 0 elements, found {0, -1}; x is f32{0, 6}"},
    };
    struct op op = {.name = "reshape", .in = {{"x"}}, .shape.make_rule = write_reshape, .shape.infer = size_reshape};
    for (size_t i = 0; i < countof(t); i++) {
        naxes = t[i].ndim;
        memcpy(axes, t[i].dim, sizeof axes);
        if (t[i].rule) is_str(written(write_reshape, t[i].from), t[i].rule, t[i].rule);
        is_str(infer(&op, t[i].from), t[i].to, "a reshape has the shape asked for");
    }
}

/* Lists all factorisations of n into at most four sizes, for test_all_reshapes(). */
static int
all_shapes(int64_t n, int64_t *dim, int ndim, int64_t (*shape)[5], int count)
{
    if (ndim < 4) {
        memcpy(shape[count], dim, sizeof *dim * (size_t)ndim);
        shape[count][ndim] = n;
        shape[count][4] = ndim + 1;
        count++;
    }
    for (int64_t f = 1; f <= n && ndim < 3; f++)
        if (n % f == 0) {
            dim[ndim] = f;
            count = all_shapes(n / f, dim, ndim + 1, shape, count);
        }
    return count;
}

static void
test_all_reshapes(void)
{
    static int64_t shape[600][5];
    int64_t dim[4];
    int n = all_shapes(48, dim, 0, shape, 0), wrong = 0;
    struct op op = {.name = "reshape", .in = {{"x"}}, .shape.make_rule = write_reshape, .shape.infer = size_reshape};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j += 7) {
            struct type in = type_of(DT_F32, (int)shape[i][4], shape[i]), out, want;
            naxes = (int)shape[j][4];
            memcpy(axes, shape[j], sizeof *axes * (size_t)naxes);
            want = type_of(DT_F32, naxes, axes);
            struct call c = {.op = &op, .nin = 1, .nout = 1, .in = &in, .out = &out};
            struct rule r;
            wrong += call_infer(&arena, &c, &r) || !type_equal(&out, &want);
            arena_reset(&arena);
        }
    ok(n > 150 && wrong == 0, "every reshape of 48 elements among %d shapes binds to its sizes", n);
}

/* ---- operators with a list of operands, operators without operands, and the number of points ---- */

static void
test_lists(void)
{
    struct op op = {.name = "concat", .in = {{"x", IN_LIST}}, .shape.make_rule = rule_same};
    is_str(infer(&op, "f32{2} f32{2} f32{3}"),
           "concat: dimension 0 of x[0] is 2 but dimension 0 of x[2] is 3, expected equal sizes; x[0] is "
           "f32{2}, x[1] is f32{2}, x[2] is f32{3}",
           "the message names list members by position");
    struct op source = {.name = "rand", .in = {{"seed", IN_HIDDEN}}, .flags = OP_SOURCE};
    struct type in = {.dtype = DT_I64, .weak = 1}, out = {.ndim = 2, .dim = {3, 4}};
    struct call c = {.op = &source, .nin = 1, .nout = 1, .in = &in, .out = &out};
    struct rule r;
    ok(!call_infer(&arena, &c, &r) && out.ndim == 2 && out.dim[1] == 4, "a source keeps the shape of the call");
    c.nin = 0;
    ok(!call_infer(&arena, &c, &r) && r.nin == 0 && r.factor[0].unsplit,
       "a source without operands keeps the shape, too");
    struct sample s;
    sample_read(&matmul, "f32{4,5} f32{5,8}", &s);
    call_infer(&arena, &s.call, &r);
    ok(rule_points(&r) == 4 * 5 * 8, "rule_points counts the points of a matrix product");
}

int
main(void)
{
    test_forms();
    test_refused();
    test_sides();
    test_shapes();
    test_shape_errors();
    test_layout_in_message();
    test_dtypes();
    test_dtype_errors();
    test_writers();
    test_reshape();
    test_all_reshapes();
    test_lists();
    arena_fini(&arena);
    return done();
}
