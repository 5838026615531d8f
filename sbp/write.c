/* write.c - writes common dimension rules from the shapes of a call.
 *
 * Dimension i of the first operand, or of the result when shapes broadcast, gets the i-th letter. Generic code
 * receives only this text, which looks like a rule written by hand. */
#include "sbp/write.h"
#include "sbp/infer.h"

#include "runtime/base/error.h"
#include "sbp/divisor.h"

#include <string.h>

static char
letter(int i)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    assert(i >= 0 && i < RULE_FACTOR);
    return name[i];
}

static void
put_letter(struct str *s, int i)
{
    const char c = letter(i);
    str_addn(s, &c, 1);
}

static bool
takes_part(const struct call *c, int k)
{
    return c->in[k].dtype != DT_NONE && !c->in[k].weak;
}

/* Writes the operands, separated by commas: `text` for a tensor, "=" otherwise. */
static void
write_operands(const struct call *c, const char *text, struct str *rule)
{
    for (int k = 0; k < c->nin; k++) {
        if (k) str_add(rule, ",");
        str_add(rule, takes_part(c, k) ? text : "=");
    }
    str_add(rule, "->");
}

static void
write_results(const struct call *c, const char *text, struct str *rule)
{
    for (int k = 0; k < c->nout; k++) {
        if (k) str_add(rule, ",");
        str_add(rule, text);
    }
}

int
rule_keep(const struct call *c, int axis, struct str *rule)
{
    struct str text = {0};
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(&text, d == axis ? "[%c]" : "%c", letter(d));
    write_operands(c, str_text(&text), rule);
    write_results(c, str_text(&text), rule);
    str_free(&text);
    return 0;
}

int
rule_keep_axis(const struct call *c, struct str *rule)
{
    return rule_keep(c, (int)c->attr[0].i, rule);
}

int
rule_same(const struct call *c, struct str *rule)
{
    return rule_keep(c, -1, rule);
}

int
rule_reduce(const struct call *c, const int64_t *axes, int naxes, bool keepdim, struct str *rule)
{
    bool gone[MAX_DIM] = {false};
    for (int i = 0; i < naxes; i++) gone[axes[i]] = true;
    struct str all = {0}, left = {0};
    for (int d = 0; d < c->in[0].ndim; d++) {
        put_letter(&all, d);
        if (naxes && !gone[d])
            put_letter(&left, d);
        else if (keepdim)
            str_add(&left, "1");
    }
    write_operands(c, str_text(&all), rule);
    write_results(c, str_text(&left), rule);
    str_free(&all);
    str_free(&left);
    return 0;
}

/* ---- writing the rule of a broadcast ---- */

/* Returns the size of operand t in dimension d of the result (which has ndim dimensions); 1 if t has fewer
 * dimensions. */
static int64_t
aligned_size(const struct type *t, int ndim, int d)
{
    int own = d - (ndim - t->ndim);
    return own < 0 ? 1 : t->dim[own];
}

/* Fails with the sizes: "add: dimension 0 of the operands is 4 and 6, expected equal sizes or 1; a is f32{4, 5}, b is
 * ..." */
static int
cannot_broadcast(const struct call *c, int d, int64_t one, int64_t other)
{
    struct str s = {0};
    call_print_operands(c, &s);
    int code = fail(E_SHAPE, "%s: dimension %d of the operands is %lld and %lld, expected equal sizes or 1; %s",
                    c->op->name, d, (long long)one, (long long)other, str_text(&s));
    str_free(&s);
    return code;
}

/* Computes the broadcast shape of all operands. */
static int
broadcast_shape(const struct call *c, struct type *out)
{
    *out = (struct type){0};
    for (int k = 0; k < c->nin; k++)
        if (takes_part(c, k)) out->ndim = MAX(out->ndim, c->in[k].ndim);
    for (int d = 0; d < out->ndim; d++) {
        out->dim[d] = 1;
        for (int k = 0; k < c->nin; k++) {
            if (!takes_part(c, k)) continue;
            int64_t n = aligned_size(&c->in[k], out->ndim, d);
            if (n == 1 || n == out->dim[d]) continue;
            if (out->dim[d] != 1) return cannot_broadcast(c, d, out->dim[d], n);
            out->dim[d] = n;
        }
    }
    return 0;
}

int
rule_broadcast(const struct call *c, struct str *rule)
{
    struct type all;
    TRY(broadcast_shape(c, &all));
    for (int k = 0; k < c->nin; k++) {
        if (k) str_add(rule, ",");
        if (!takes_part(c, k)) {
            str_add(rule, "=");
            continue;
        }
        for (int d = all.ndim - c->in[k].ndim; d < all.ndim; d++) {
            if (aligned_size(&c->in[k], all.ndim, d) == all.dim[d])
                put_letter(rule, d);
            else
                str_add(rule, "1");
        }
    }
    str_add(rule, "->");
    struct str text = {0};
    for (int d = 0; d < all.ndim; d++) put_letter(&text, d);
    write_results(c, str_text(&text), rule);
    str_free(&text);
    return 0;
}

/* ---- reshaping ----
 *
 * The code walks the old and the new shape from the major side. The common major part of two dimensions is one
 * factor of both; the rest is compared with the next dimension of the other shape. If neither size divides the
 * other, the common factor is their greatest common divisor. Both shapes then get unsplit factors, up to the place
 * where the products of their sizes agree again:
 *
 *      {12} -> {2, 2, 3}   (abc)->abc
 *      {4, 6} -> {6, 4}    (a[b])[c]->(a[d])[e]     a = 2 is common */

struct reshape {
    int nletter;
    struct side {
        int ndim, d;  /* number of dimensions, and the current dimension */
        int64_t rest; /* part of the current dimension's size that is not matched yet */
        const int64_t *dim;
        char text[MAX_DIM][4 * MAX_DIM + 4]; /* by dimension: letters of its factors */
        int nfactor[MAX_DIM];
    } in, out;
    int64_t size[RULE_FACTOR]; /* by letter: its size */
};

static void
put_factor(struct side *s, int d, int f, bool unsplit)
{
    size_t used = strlen(s->text[d]);
    const char with[] = {unsplit ? '[' : letter(f), unsplit ? letter(f) : '\0', unsplit ? ']' : '\0', '\0'};
    assert(used + sizeof with <= sizeof s->text[d]);
    memcpy(s->text[d] + used, with, sizeof with);
    s->nfactor[d]++;
}

/* Advances to the next dimension whose size is larger than 1, if the current dimension is used up. */
static void
next_dim(struct side *s)
{
    while (s->d < s->ndim && s->rest == 1) {
        s->d++;
        s->rest = s->d < s->ndim ? s->dim[s->d] : 0;
    }
}

static void
side_start(struct side *s, int ndim, const int64_t *dim)
{
    *s = (struct side){.ndim = ndim, .dim = dim, .rest = ndim ? dim[0] : 0};
    next_dim(s);
}

/* Makes the rest of the current dimension an unsplit factor of this shape only, not of the other shape. Returns the
 * factor's size. */
static int64_t
close_dim(struct reshape *r, struct side *s)
{
    int64_t n = s->rest;
    r->size[r->nletter] = n;
    put_factor(s, s->d, r->nletter++, true);
    s->rest = 1;
    next_dim(s);
    return n;
}

/* Adds unsplit factors to both shapes until the products of their sizes agree. */
static void
close_group(struct reshape *r)
{
    int64_t in = close_dim(r, &r->in), out = close_dim(r, &r->out);
    while (in != out) {
        if (in < out)
            in *= close_dim(r, &r->in);
        else
            out *= close_dim(r, &r->out);
    }
}

/* Takes the greatest common divisor of the remaining sizes of both current dimensions as one factor of both shapes.
 * Returns false if neither remaining size is a multiple of the other. */
static bool
match_factors(struct reshape *r)
{
    int64_t n = common_divisor(r->in.rest, r->out.rest);
    bool divides = n == r->in.rest || n == r->out.rest;
    if (n > 1) {
        r->size[r->nletter] = n;
        put_factor(&r->in, r->in.d, r->nletter, false);
        put_factor(&r->out, r->out.d, r->nletter++, false);
        r->in.rest /= n, r->out.rest /= n;
    }
    if (!divides) return false;
    next_dim(&r->in);
    next_dim(&r->out);
    return true;
}

static void
write_side(const struct side *s, struct str *rule)
{
    for (int d = 0; d < s->ndim; d++)
        str_addf(rule, s->nfactor[d] == 0 ? "1" : s->nfactor[d] == 1 ? "%s" : "(%s)", s->text[d]);
}

/* Makes every dimension unsplit, because an empty tensor has no useful correspondence. */
static void
match_empty(struct reshape *r)
{
    struct side *const both[] = {&r->in, &r->out};
    for (size_t i = 0; i < countof(both); i++)
        for (int d = 0; d < both[i]->ndim; d++) {
            if (both[i]->dim[d] == 1) continue;
            r->size[r->nletter] = both[i]->dim[d];
            put_factor(both[i], d, r->nletter++, true);
        }
}

/* Returns true if factor f is a whole dimension of the operand, so that the factor's size is known. */
static bool
is_lone_factor(const struct side *in, char f)
{
    for (int d = 0; d < in->ndim; d++)
        if (in->nfactor[d] == 1 && strchr(in->text[d], f)) return true;
    return false;
}

static void
write_sizes(const struct reshape *r, int64_t *size)
{
    for (int d = 0; d < r->out.ndim; d++)
        for (const char *t = r->out.text[d]; *t; t++) {
            if (*t == '[' || *t == ']' || is_lone_factor(&r->in, *t)) continue;
            for (int f = 0; f < r->nletter; f++)
                if (letter(f) == *t) *size++ = r->size[f];
        }
}

/* Replaces a size of -1 by the inferred size. E_SHAPE: the number of elements does not match. */
static int
complete_shape(const struct call *c, int ndim, const int64_t *dim, struct type *out)
{
    int64_t n = type_numel(&c->in[0]), known = 1;
    int open = -1, nopen = 0;
    bool fits = ndim >= 0 && ndim <= MAX_DIM;
    *out = (struct type){.ndim = (uint8_t)(fits ? ndim : 0)};
    for (int d = 0; fits && d < ndim; d++) {
        out->dim[d] = dim[d];
        if (dim[d] == -1 && open < 0)
            open = d;
        else
            fits = dim[d] >= 0 && !__builtin_mul_overflow(known, dim[d], &known);
    }
    if (fits && open >= 0) {
        fits = known != 0 && n % known == 0;
        out->dim[open] = fits ? n / known : -1;
    } else {
        fits = fits && known == n;
    }
    if (fits) return 0;
    struct str s = {0}, want = {0};
    call_print_operands(c, &s);
    for (int d = 0; d < ndim; d++) {
        str_addf(&want, d ? ", %lld" : "%lld", (long long)dim[d]);
        nopen += dim[d] == -1;
    }
    int code = fail(E_SHAPE, "%s: expected a shape of %lld elements%s, found {%s}; %s", c->op->name, (long long)n,
                    nopen > 1 ? ", with -1 at most once" : "", str_text(&want), str_text(&s));
    str_free(&s);
    str_free(&want);
    return code;
}

int
rule_reshape(const struct call *c, int ndim, const int64_t *dim, struct str *rule, int64_t *size)
{
    struct type to;
    TRY(complete_shape(c, ndim, dim, &to));
    struct reshape r = {0};
    side_start(&r.in, c->in[0].ndim, c->in[0].dim);
    side_start(&r.out, to.ndim, to.dim);
    if (type_numel(&to) == 0) {
        match_empty(&r);
    } else {
        while (r.in.d < r.in.ndim && r.out.d < r.out.ndim)
            if (!match_factors(&r)) close_group(&r);
    }
    if (size) write_sizes(&r, size);
    if (!rule) return 0;
    write_side(&r.in, rule);
    for (int k = 1; k < c->nin; k++) str_add(rule, ",=");
    str_add(rule, "->");
    write_side(&r.out, rule);
    return 0;
}
