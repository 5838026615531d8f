/* rule.c - parses a dimension rule and binds it to the sizes of a call.
 *
 * The text is parsed once from left to right, without backtracking:
 *
 *     rule    = list "->" list            list = operand { "," operand }
 *     operand = "=" | { dim }             (no dims: one element)
 *     dim     = "1" | factor | "(" factor { factor } ")"
 *     factor  = letter | "[" letter "]"
 *
 * Binding gives every letter a size: first from operand dimensions of this letter alone, then from infer() for
 * letters that operands do not fix, and last by division inside merged dimensions. */
#include "sbp/rule.h"
#include "sbp/infer.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <ctype.h>
#include <string.h>

/* ---- parsing the text of a rule ---- */

struct reader {
    const char *text, *at;
    struct rule *rule;
    int8_t index[128]; /* by letter: its factor; -1: none yet */
    uint64_t seen;     /* factors that the current operand has, as bits */
};

static int
rule_expected(const struct reader *r, const char *expected)
{
    int position = (int)(r->at - r->text);
    if (!*r->at)
        return fail(E_ARG, "rule \"%s\", position %d: expected %s, found the end", r->text, position, expected);
    return fail(E_ARG, "rule \"%s\", position %d: expected %s, found '%c'", r->text, position, expected, *r->at);
}

/* Returns the factor of the current letter; makes a new factor for a new letter. */
static int
rule_factor_index(struct reader *r)
{
    int8_t *slot = &r->index[(unsigned char)*r->at];
    if (*slot < 0) {
        r->rule->factor[r->rule->nfactor] = (struct rule_factor){.letter = *r->at, .size = -1};
        *slot = (int8_t)r->rule->nfactor++;
    }
    return *slot;
}

static int
read_letter(struct reader *r, struct rule_dim *dim, bool unsplit)
{
    if (!isalpha((unsigned char)*r->at)) return rule_expected(r, "a letter");
    int f = rule_factor_index(r);
    if (r->seen >> f & 1) return rule_expected(r, "each letter once in an operand");
    if (dim->nfactor == RULE_MERGE) return rule_expected(r, "at most 8 letters in a dimension");
    r->seen |= 1ull << f;
    r->rule->factor[f].unsplit |= unsplit;
    dim->factor[dim->nfactor++] = (int8_t)f;
    r->at++;
    return 0;
}

static int
read_factor(struct reader *r, struct rule_dim *dim)
{
    if (*r->at != '[') {
        TRY(read_letter(r, dim, false));
        if (*r->at != '+') return 0;
        r->rule->factor[dim->factor[dim->nfactor - 1]].made = true;
        r->at++;
        return 0;
    }
    r->at++;
    TRY(read_letter(r, dim, true));
    if (*r->at != ']') return rule_expected(r, "']'");
    r->at++;
    return 0;
}

static int
read_dim(struct reader *r, struct rule_dim *dim)
{
    dim->nfactor = 0;
    if (*r->at == '1') {
        r->at++;
        return 0;
    }
    if (*r->at != '(') return read_factor(r, dim);
    r->at++;
    TRY(read_factor(r, dim));
    while (*r->at != ')') TRY(read_factor(r, dim));
    r->at++;
    return 0;
}

static bool
operand_ends(const char *at)
{
    return !*at || *at == ',' || *at == '-';
}

static int
read_operand(struct reader *r, struct rule_operand *o, bool result)
{
    r->seen = 0;
    o->ndim = 0;
    o->ignored = *r->at == '=';
    if (o->ignored) {
        if (result) return rule_expected(r, "the dimensions of a result");
        r->at++;
        return operand_ends(r->at) ? 0 : rule_expected(r, "nothing beside '='");
    }
    while (!operand_ends(r->at)) {
        if (o->ndim == MAX_DIM) return rule_expected(r, "at most 8 dimensions");
        TRY(read_dim(r, &o->dim[o->ndim++]));
    }
    return 0;
}

static int
count_commas(const char *from, const char *to)
{
    int n = 0;
    for (; from < to; from++) n += *from == ',';
    return n;
}

/* Sets nin and nout, and allocates at least `least` operands. */
static int
count_rule_operands(struct arena *a, struct reader *r, int least)
{
    const char *arrow = strstr(r->text, "->");
    if (!arrow) return fail(E_ARG, "rule \"%s\": expected '->' between operands and results", r->text);
    r->rule->nin = count_commas(r->text, arrow) + 1;
    r->rule->nout = count_commas(arrow, arrow + strlen(arrow)) + 1;
    int n = MAX(r->rule->nin, least) + r->rule->nout;
    if (n > RULE_OPERAND)
        return fail(E_ARG, "rule \"%s\": expected at most %d operands, found %d", r->text, RULE_OPERAND, n);
    r->rule->operand = ARENA_ARRAY(a, struct rule_operand, n);
    return 0;
}

static int
read_separator(struct reader *r, int k)
{
    const struct rule *rule = r->rule;
    if (k == rule->nin - 1) {
        if (r->at[0] != '-' || r->at[1] != '>') return rule_expected(r, "'->'");
        r->at += 2;
        return 0;
    }
    if (k == rule->nin + rule->nout - 1) return *r->at ? rule_expected(r, "the end") : 0;
    if (*r->at != ',') return rule_expected(r, "','");
    r->at++;
    return 0;
}

static int
read_rule(struct arena *a, const char *text, int nin, struct rule *out)
{
    struct reader r = {.text = text, .at = text, .rule = out};
    memset(r.index, -1, sizeof r.index);
    out->nfactor = 0;
    TRY(count_rule_operands(a, &r, nin));
    for (int k = 0; k < out->nin + out->nout; k++) {
        TRY(read_operand(&r, &out->operand[k], k >= out->nin));
        TRY(read_separator(&r, k));
    }
    return 0;
}

/* Records on which sides of the rule each factor occurs. A factor that occurs in no operand is new; it must stay
 * unsplit, unless ranks can make their own shards of it. */
static void
mark_sides(struct rule *r)
{
    for (int k = 0; k < r->nin + r->nout; k++) {
        const struct rule_operand *o = &r->operand[k];
        if (o->ignored) continue;
        for (int d = 0; d < o->ndim; d++)
            for (int i = 0; i < o->dim[d].nfactor; i++) {
                struct rule_factor *f = &r->factor[o->dim[d].factor[i]];
                f->in_input |= k < r->nin;
                f->in_output |= k >= r->nin;
            }
    }
    for (int f = 0; f < r->nfactor; f++) r->factor[f].unsplit |= !r->factor[f].in_input && !r->factor[f].made;
}

int
rule_parse(struct arena *a, const char *text, struct rule *out)
{
    TRY(read_rule(a, text, 0, out));
    mark_sides(out);
    for (int f = 0; f < out->nfactor; f++)
        if (out->factor[f].made && out->factor[f].in_input)
            return fail(E_ARG, "rule \"%s\": expected '+' beside letters that only results have", text);
    return 0;
}

/* ---- binding a rule to the sizes of a call ---- */

/* Fails because dimension d of operand k, which is factor f, has another size than the factor. The error text
 * compares dimension d with the dimension that gave f its size: the first one that consists of f alone. */
static int
two_sizes(const struct call *c, const struct rule *r, int f, int k, int d)
{
    struct str here = {0}, there = {0};
    int k0 = 0, d0 = 0;
    bool found = false;
    for (int i = 0; i < r->nin && !found; i++)
        for (int j = 0; j < r->operand[i].ndim && !r->operand[i].ignored && !found; j++) {
            const struct rule_dim *dim = &r->operand[i].dim[j];
            found = dim->nfactor == 1 && dim->factor[0] == f;
            k0 = i, d0 = j;
        }
    assert(found);
    call_print_name(c, k0, &there);
    call_print_name(c, k, &here);
    int code =
        call_fail(E_SHAPE, c, "dimension %d of %s is %lld but dimension %d of %s is %lld, expected equal sizes", d0,
                  str_text(&there), (long long)c->in[k0].dim[d0], d, str_text(&here), (long long)c->in[k].dim[d]);
    str_free(&here);
    str_free(&there);
    return code;
}

static int
wrong_dim(const struct call *c, int k, int d, const char *text, int64_t expected)
{
    struct str name = {0};
    call_print_name(c, k, &name);
    int code = call_fail(E_SHAPE, c, "dimension %d of %s is %lld, expected %s%lld", d, str_text(&name),
                         (long long)c->in[k].dim[d], text, (long long)expected);
    str_free(&name);
    return code;
}

static int
wrong_ndim(const struct call *c, int k, int expected)
{
    struct str name = {0};
    call_print_name(c, k, &name);
    int code = call_fail(E_SHAPE, c, "%s has %d dimension%s, expected %d", str_text(&name), c->in[k].ndim,
                         c->in[k].ndim == 1 ? "" : "s", expected);
    str_free(&name);
    return code;
}

/* Sets the sizes of the factors that alone make up a dimension of some operand. */
static int
bind_single(const struct call *c, struct rule *r)
{
    for (int k = 0; k < r->nin; k++) {
        const struct rule_operand *o = &r->operand[k];
        if (o->ignored) continue;
        if (o->ndim != c->in[k].ndim) return wrong_ndim(c, k, o->ndim);
        for (int d = 0; d < o->ndim; d++) {
            int64_t n = c->in[k].dim[d];
            if (o->dim[d].nfactor == 0 && n != 1) return wrong_dim(c, k, d, "", 1);
            if (o->dim[d].nfactor != 1) continue;
            struct rule_factor *f = &r->factor[o->dim[d].factor[0]];
            if (f->size >= 0 && f->size != n) return two_sizes(c, r, o->dim[d].factor[0], k, d);
            f->size = n;
        }
    }
    return 0;
}

/* Sets the sizes of the factors that no operand dimension determines. new_size: their sizes, as infer() returned
 * them, in order of appearance in the results. */
static int
bind_new(const struct call *c, const int64_t *new_size, struct rule *r)
{
    for (int k = r->nin; k < r->nin + r->nout; k++)
        for (int d = 0; d < r->operand[k].ndim; d++)
            for (int i = 0; i < r->operand[k].dim[d].nfactor; i++) {
                struct rule_factor *f = &r->factor[r->operand[k].dim[d].factor[i]];
                if (f->size >= 0) continue;
                if (!new_size || *new_size < 0)
                    return fail(E_ARG, "%s: the rule's letter %c has no size, and infer() returned none", c->op->name,
                                f->letter);
                f->size = *new_size++;
            }
    return 0;
}

/* Sets the sizes of the factors of a merged dimension of n elements. The product of the sizes must be n, so the
 * size of one unknown factor follows by division. */
static int
bind_merged_dim(const struct call *c, struct rule *r, int k, int d)
{
    const struct rule_dim *dim = &r->operand[k].dim[d];
    struct rule_factor *open = NULL;
    int64_t n = c->in[k].dim[d], known = 1;
    for (int i = 0; i < dim->nfactor; i++) {
        struct rule_factor *f = &r->factor[dim->factor[i]];
        if (f->size >= 0) {
            if (__builtin_mul_overflow(known, f->size, &known)) known = INT64_MAX;
            continue;
        }
        if (open)
            return fail(E_ARG, "%s: the rule's letters %c and %c have no size", c->op->name, open->letter, f->letter);
        open = f;
    }
    if (open) {
        bool divides = known ? n % known == 0 : n == 0;
        if (!divides) return wrong_dim(c, k, d, "a multiple of ", known);
        open->size = known ? n / known : 1;
        return 0;
    }
    return known == n ? 0 : wrong_dim(c, k, d, "", known);
}

static int
bind_merged(const struct call *c, struct rule *r)
{
    for (int k = 0; k < r->nin; k++)
        for (int d = 0; d < r->operand[k].ndim && !r->operand[k].ignored; d++)
            if (r->operand[k].dim[d].nfactor > 1) TRY(bind_merged_dim(c, r, k, d));
    return 0;
}

/* Marks absent operands and numbers as ignored, even if the rule has letters for them. */
static void
ignore_absent(const struct call *c, struct rule *r)
{
    for (int k = 0; k < r->nin; k++)
        if (c->in[k].dtype == DT_NONE || c->in[k].weak) r->operand[k].ignored = true;
}

/* Adapts the rule's operand count to the call: the text may omit trailing ignored operands, and the call may omit
 * absent ones. */
static int
fit_count(const struct call *c, struct rule *r)
{
    if (r->nout != c->nout)
        return fail(E_ARG, "%s: the rule has %d results, the call has %d", c->op->name, r->nout, c->nout);
    if (r->nin == c->nin) return 0;
    for (int k = r->nin; k < c->nin; k++)
        if (c->in[k].dtype != DT_NONE && !c->in[k].weak)
            return fail(E_ARG, "%s: the rule has %d operands, the call has %d", c->op->name, r->nin, c->nin);
    memmove(r->operand + c->nin, r->operand + r->nin, sizeof *r->operand * (size_t)r->nout);
    for (int k = r->nin; k < c->nin; k++) r->operand[k] = (struct rule_operand){.ignored = true};
    r->nin = c->nin;
    return 0;
}

static int
bind_letters(struct arena *a, const struct call *c, const char *text, const int64_t *new_size, struct rule *r)
{
    TRY(read_rule(a, text, c->nin, r));
    TRY(fit_count(c, r));
    ignore_absent(c, r);
    mark_sides(r);
    TRY(bind_single(c, r));
    TRY(bind_new(c, new_size, r));
    TRY(bind_merged(c, r));
    for (int f = 0; f < r->nfactor; f++)
        if (r->factor[f].size < 0) r->factor[f].size = 1; /* the factor occurs only in ignored operands */
    return 0;
}

int
rule_of_call(struct arena *a, const struct call *c, const int64_t *new_size, struct rule *out)
{
    if (!c->op->shape.make_rule) {
        if (!c->op->shape.rule) return fail(E_ARG, "%s: the operator has no rule", c->op->name);
        return bind_letters(a, c, c->op->shape.rule, new_size, out);
    }
    struct str text = {0};
    int status = c->op->shape.make_rule(c, &text);
    if (!status) status = bind_letters(a, c, str_text(&text), new_size, out);
    str_free(&text);
    return status;
}

/* ---- reading results from a bound rule ---- */

void
rule_shape(const struct rule *r, int k, struct type *out)
{
    const struct rule_operand *o = &r->operand[r->nin + k];
    out->ndim = o->ndim;
    for (int d = 0; d < o->ndim; d++) {
        int64_t n = 1;
        for (int i = 0; i < o->dim[d].nfactor; i++) /* cannot overflow, because type_check() rejects such sizes */
            if (__builtin_mul_overflow(n, r->factor[o->dim[d].factor[i]].size, &n)) n = INT64_MAX;
        out->dim[d] = n;
    }
}

double
rule_points(const struct rule *r)
{
    double in = 1, out = 1;
    for (int f = 0; f < r->nfactor; f++) {
        if (r->factor[f].in_input) in *= (double)r->factor[f].size;
        if (r->factor[f].in_output) out *= (double)r->factor[f].size;
    }
    return MAX(in, out);
}
