/* sig.c - derives the SBP signatures of an operator, and checks which fit a mesh.
 *
 * On one mesh axis a signature is a row of entries, one per operand:
 *
 *     split f     S wherever factor f occurs, B elsewhere; a result without f holds a partial value
 *     B           all operands broadcast
 *     pass        partial values pass through operands in which the operator is linear or monotone
 *
 * On several axes each axis has its own signature, and axes that split the same factor do so in the cutting order. A
 * dimension with a single factor is split like the factor, in every operand. A layout splits a merged dimension into
 * contiguous pieces, whereas a signature splits its factors. The signature is legal only if both give every rank the
 * same piece (cuts_agree). If a factor does not divide evenly, the entries of its dimensions have units (layout.h): a
 * merged dimension [H*D], split along H, has the unit D. */
#include "sbp/sig.h"
#include "sbp/infer.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"

#include <ctype.h>
#include <string.h>

static const struct sbp broadcast = {.kind = SBP_B};

static struct sbp
partial(enum reduce r)
{
    return (struct sbp){.kind = SBP_P, .reduce = (uint8_t)r};
}

/* ---- signatures on one mesh axis ---- */

/* Returns the dimension of an operand that contains factor f; -1: none. */
static int
factor_dim(const struct rule_operand *o, int f)
{
    if (o->ignored) return -1;
    for (int d = 0; d < o->ndim; d++)
        for (int i = 0; i < o->dim[d].nfactor; i++)
            if (o->dim[d].factor[i] == f) return d;
    return -1;
}

/* Returns the product of the sizes of the factors after factor i of a dimension. */
static int64_t
tail_size(const struct rule *r, const struct rule_dim *dim, int i)
{
    int64_t n = 1;
    while (++i < dim->nfactor) n *= r->factor[dim->factor[i]].size;
    return n;
}

/* Raises the unit of the factor that an entry with this unit splits. This is the first factor of the dimension of which
 * the unit holds a number of complete values that divides the factor's size. */
static void
raise_unit(const struct rule *r, const struct rule_dim *dim, int32_t unit, int32_t *of)
{
    for (int i = 0; i < dim->nfactor; i++) {
        int64_t tail = tail_size(r, dim, i);
        int f = dim->factor[i];
        if (tail == 0 || unit % tail || r->factor[f].size % (unit / tail)) continue;
        of[f] = MAX(of[f], (int32_t)(unit / tail));
        return;
    }
}

/* Sets the unit of a factor to 0 if the placement's ranks divide the factor's number of units. */
static void
drop_even_units(const struct rule *r, const struct place *p, int32_t *unit)
{
    for (int f = 0; f < RULE_FACTOR; f++)
        if (f >= r->nfactor || r->factor[f].size % ((int64_t)unit[f] * p->nrank) == 0) unit[f] = 0;
}

void
sig_units(const struct rule *r, const struct place *p, const struct layout *const *layout, int n,
          int32_t unit[RULE_FACTOR])
{
    for (int f = 0; f < RULE_FACTOR; f++) unit[f] = 1;
    for (int k = 0; layout && k < n; k++)
        for (int x = 0; layout[k] && !r->operand[k].ignored && x < layout[k]->place->naxis; x++) {
            struct sbp s = layout[k]->sbp[x];
            if (s.unit && s.axis < r->operand[k].ndim) raise_unit(r, &r->operand[k].dim[s.axis], s.unit, unit);
        }
    drop_even_units(r, p, unit);
}

uint64_t
sig_units_of_dims(const struct rule *r, const struct place *p, int32_t *const *unit, int32_t of[RULE_FACTOR])
{
    uint64_t fixed = 0;
    for (int f = 0; f < RULE_FACTOR; f++) of[f] = 1;
    for (int k = 0; k < r->nin + r->nout; k++)
        for (int d = 0; unit[k] && !r->operand[k].ignored && d < r->operand[k].ndim; d++) {
            const struct rule_dim *dim = &r->operand[k].dim[d];
            if (unit[k][d] > 1) raise_unit(r, dim, unit[k][d], of);
            if (unit[k][d] < 0 && dim->nfactor == 1) fixed |= 1ull << dim->factor[0];
        }
    for (int f = 0; f < r->nfactor; f++)
        if (fixed >> f & 1) of[f] = 1;
    drop_even_units(r, p, of);
    return fixed;
}

int64_t
sig_unit_of_dim(const struct rule *r, const struct rule_dim *dim, const int32_t *of)
{
    int i = 0;
    while (i < dim->nfactor && r->factor[dim->factor[i]].size == 1) i++;
    return i < dim->nfactor ? of[dim->factor[i]] * tail_size(r, dim, i) : 0;
}

/* Returns the entry that splits factor f in dimension d of an operand. A unit that is too large is left out; the
 * signature is then illegal. */
static struct sbp
split_of_dim(const struct rule *r, const struct rule_dim *dim, int d, int f, const int32_t *unit)
{
    const int8_t *at = memchr(dim->factor, f, dim->nfactor);
    int64_t n = unit && unit[f] ? unit[f] * tail_size(r, dim, (int)(at - dim->factor)) : 0;
    return (struct sbp){.kind = SBP_S, .axis = (uint8_t)d, .unit = n > 1 && n <= INT32_MAX ? (int32_t)n : 0};
}

static enum reduce
reduce_of(const struct call *c)
{
    enum reduce r = c->op->partial.reduce_of ? c->op->partial.reduce_of(c) : c->op->partial.reduce;
    /* partial products are not passed on, because there is no SBP entry P(prod) */
    return r == RED_PROD ? RED_NONE : r;
}

static struct sig *
sig_new(struct arena *a, struct sig_list *list, int factor)
{
    struct sig *s = &list->sig[list->nsig++];
    *s = (struct sig){.v = ARENA_ARRAY(a, struct sbp, list->noperand), .factor = (int8_t)factor};
    for (int k = 0; k < list->noperand; k++) s->v[k] = broadcast;
    return s;
}

/* Returns true if the result has no elements, like the momentum of an optimiser without momentum. A result without
 * elements is always broadcast. */
static bool
is_empty(const struct rule *r, int k)
{
    const struct rule_operand *o = &r->operand[k];
    for (int d = 0; d < o->ndim; d++)
        for (int i = 0; i < o->dim[d].nfactor; i++)
            if (r->factor[o->dim[d].factor[i]].size == 0) return true;
    return false;
}

static bool
splits(const struct rule *r, int f, enum reduce red)
{
    if (r->factor[f].unsplit) return false;
    for (int k = r->nin; k < r->nin + r->nout; k++)
        if (factor_dim(&r->operand[k], f) < 0 && red == RED_NONE && !is_empty(r, k)) return false;
    return true;
}

/* ---- signatures that pass partial values on ---- */

/* A property of an operator and the signatures it permits: P(in) on a group of operands gives P(out) on the results. */
static const struct pass {
    enum { LINEAR, INCREASING, DECREASING } property;
    enum reduce in, out;
} passes[] = {
    {LINEAR, RED_SUM, RED_SUM},     {INCREASING, RED_MAX, RED_MAX}, {INCREASING, RED_MIN, RED_MIN},
    {DECREASING, RED_MAX, RED_MIN}, {DECREASING, RED_MIN, RED_MAX},
};

static const char *
rule_groups(const struct call *c, const struct pass *p)
{
    const char *const text[] = {
        [LINEAR] = c->op->partial.linear_of ? c->op->partial.linear_of(c) : c->op->partial.linear,
        [INCREASING] = c->op->partial.increasing,
        [DECREASING] = c->op->partial.decreasing,
    };
    return text[p->property] ? text[p->property] : "";
}

static int
hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* Returns the operands of the group at `text` (up to '|' or the end), as bits. Skips absent operands. A number makes
 * the whole linear group invalid, because a number is no partial sum: x + 5 is not linear in x. */
static uint64_t
group_members(const struct call *c, const struct rule *r, const char *text, bool linear)
{
    uint64_t members = 0, all = 0;
    for (int k = 0; k < r->nin; k++)
        if (!r->operand[k].ignored) all |= 1ull << k;
    for (; *text && *text != '|'; text++) {
        if (*text == '*') {
            members |= all;
            continue;
        }
        assert(isxdigit((unsigned char)*text));
        int k = hex(*text);
        if (k >= r->nin || c->in[k].dtype == DT_NONE) continue;
        if (linear && r->operand[k].ignored) return 0;
        members |= 1ull << k & all;
    }
    return members;
}

/* Returns, as bits, the operands of the linear group that has an operand with factor f. Splitting f turns that
 * operand's sum into partial sums. The operands added to it must then be partial, too, or every rank would add the
 * full addend. */
static uint64_t
added_to(const struct call *c, const struct rule *r, int f, enum reduce red)
{
    static const struct pass linear = {LINEAR, RED_SUM, RED_SUM};
    if (red != RED_SUM) return 0;
    for (const char *g = rule_groups(c, &linear); *g; g += strcspn(g, "|"), g += *g == '|') {
        uint64_t members = group_members(c, r, g, true);
        for (int k = 0; k < r->nin; k++)
            if (members >> k & 1 && factor_dim(&r->operand[k], f) >= 0) return members;
    }
    return 0;
}

static void
add_split(struct arena *a, const struct call *c, const struct rule *r, int f, enum reduce red, struct sig_list *list)
{
    struct sig *s = sig_new(a, list, f);
    bool sums = false;
    for (int k = 0; k < list->noperand; k++) {
        int d = factor_dim(&r->operand[k], f);
        if (d >= 0)
            s->v[k] = split_of_dim(r, &r->operand[k].dim[d], d, f, list->unit);
        else if (k >= r->nin && !is_empty(r, k)) {
            s->v[k] = partial(red);
            sums = true;
        }
    }
    uint64_t added = sums ? added_to(c, r, f, red) : 0;
    for (int k = 0; k < r->nin; k++)
        if (added >> k & 1 && factor_dim(&r->operand[k], f) < 0) s->v[k] = partial(red);
}

static bool
reduces_any(const struct rule *r)
{
    for (int f = 0; f < r->nfactor; f++)
        for (int k = r->nin; k < r->nin + r->nout; k++)
            if (r->factor[f].in_input && factor_dim(&r->operand[k], f) < 0) return true;
    return false;
}

/* Removes the last signature of the list if it equals an earlier one. Groups of operands that differ only in
 * absent operands produce equal signatures. */
static void
drop_repeated(struct sig_list *list)
{
    size_t bytes = sizeof(struct sbp) * (size_t)list->noperand;
    for (int i = 0; i < list->nsig - 1; i++)
        if (!memcmp(list->sig[i].v, list->sig[list->nsig - 1].v, bytes)) {
            list->nsig--;
            return;
        }
}

static void
add_pass(struct arena *a, const struct rule *r, const struct pass *p, uint64_t members, struct sig_list *list)
{
    struct sig *s = sig_new(a, list, -1);
    for (int k = 0; k < list->noperand; k++) {
        if (k >= r->nin)
            s->v[k] = partial(p->out);
        else if (members >> k & 1)
            s->v[k] = partial(p->in);
    }
    drop_repeated(list);
}

/* Returns true if the operator is monotone even at the identity of a maximum, which a rank without an addend
 * holds. For floats and bools every monotone operator is. For integers the identity is the least integer, where
 * arithmetic wraps around, so the operator must pass elements on unchanged. */
static bool
reaches_identity(const struct call *c, const struct rule *r, uint64_t members, bool hands_on)
{
    for (int k = 0; k < r->nin; k++)
        if (members >> k & 1 && dtype_is_int((enum dtype)c->in[k].dtype) && !hands_on) return false;
    return true;
}

/* Returns true if a sum of results wraps around on overflow like a sum of operands. Integer sums wrap around in
 * the dtype of the operands, but not in a wider dtype of the result. If each rank widened its partial sum before
 * the ranks' addition, the result could differ. */
static bool
wraps_alike(const struct call *c, const struct rule *r, uint64_t members)
{
    for (int k = 0; k < r->nin; k++) {
        enum dtype in = (enum dtype)c->in[k].dtype;
        for (int i = 0; members >> k & 1 && dtype_is_int(in) && i < c->nout; i++)
            if (!dtype_is_int((enum dtype)c->out[i].dtype) || dtype_bytes(c->out[i].dtype) > dtype_bytes(in))
                return false;
    }
    return true;
}

/* Adds the signatures that pass partial values on. If the operator reduces a factor, a monotone operator passes only
 * partial values of the same kind: a maximum of maxima is a maximum, but a maximum of minima is not. A view reduces
 * nothing, even if it renames letters. */
static void
add_passes(struct arena *a, const struct call *c, const struct rule *r, enum reduce red, struct sig_list *list)
{
    bool reduces = reduces_any(r);
    for (size_t i = 0; i < countof(passes); i++) {
        const struct pass *p = &passes[i];
        bool monotone = p->property != LINEAR, view = c->op->flags & OP_VIEW;
        if (monotone && reduces && !view && p->out != red) continue;
        for (const char *g = rule_groups(c, p); *g; g += strcspn(g, "|"), g += *g == '|') {
            uint64_t members = group_members(c, r, g, !monotone);
            if (monotone && !reaches_identity(c, r, members, view || reduces)) continue;
            if (!monotone && !wraps_alike(c, r, members)) continue;
            if (members) add_pass(a, r, p, members, list);
        }
    }
}

static int
count_passes(const struct call *c)
{
    int n = 0;
    for (size_t i = 0; i < countof(passes); i++) n += (int)strlen(rule_groups(c, &passes[i]));
    return n;
}

/* Returns true if a view repeats this dimension, as expand does. The repeated dimension needs no memory, so it is
 * split only if the user requests it. */
static bool
is_repeated_factor(const struct call *c, const struct rule *r, int f)
{
    return r->factor[f].made && c->op->flags & OP_VIEW;
}

int
sig_axis(struct arena *a, const struct call *c, const struct rule *r, const int32_t *unit, struct sig_list *out)
{
    enum reduce red = reduce_of(c);
    *out = (struct sig_list){.noperand = r->nin + r->nout};
    for (int f = 0; unit && f < r->nfactor && !out->unit; f++)
        if (unit[f]) out->unit = arena_dup(a, unit, sizeof *unit * RULE_FACTOR);
    out->sig = ARENA_ARRAY(a, struct sig, r->nfactor + 1 + count_passes(c));
    for (int f = 0; f < r->nfactor; f++)
        if (!is_repeated_factor(c, r, f) && splits(r, f, red)) add_split(a, c, r, f, red, out);
    sig_new(a, out, -1);
    for (int f = 0; f < r->nfactor; f++)
        if (is_repeated_factor(c, r, f) && splits(r, f, red)) add_split(a, c, r, f, red, out);
    add_passes(a, c, r, red, out);
    if (out->nsig <= SIG_AXIS) return 0;
    return fail(E_ARG, "%s: expected at most %d signatures, found %d", c->op->name, SIG_AXIS, out->nsig);
}

/* ---- combining one signature per mesh axis ---- */

/* A signature per mesh axis, and the cutting order of the axes. */
struct spread {
    const struct place *place;
    const struct sig_list *list;
    const int *choice;
    const uint8_t *order;
};

static const uint8_t mesh_order[MAX_AXIS] = {0, 1, 2, 3, 4, 5};

static int
factor_on(const struct spread *s, int axis)
{
    return s->list->sig[s->choice[axis]].factor;
}

static int32_t
unit_on(const struct spread *s, int f)
{
    return s->list->unit ? s->list->unit[f] : 0;
}

/* Lists the axes that split a merged dimension, in cutting order. Skips axes with one rank. */
static int
axes_of_dim(const struct spread *s, const struct rule_dim *dim, int axis[MAX_AXIS])
{
    int n = 0;
    for (int i = 0; i < s->place->naxis; i++) {
        int x = s->order[i];
        if (s->place->axis[x] > 1 && memchr(dim->factor, factor_on(s, x), dim->nfactor)) axis[n++] = x;
    }
    return n;
}

struct range {
    int64_t lo, hi;
};

static struct range
cut_range(struct range r, int32_t unit, int64_t parts, int64_t i)
{
    int64_t lo, hi;
    shard_range(r.hi - r.lo, unit, parts, i, &lo, &hi);
    return (struct range){r.lo + lo, r.lo + hi};
}

/* Combines one range per factor into a range of positions in the merged dimension. Returns false if these positions
 * are not contiguous. They are contiguous if the leading factors have a single value and the trailing factors their
 * full range; the factor in between may have any range. */
static bool
merge_ranges(const struct rule *r, const struct rule_dim *dim, const struct range *of, struct range *out)
{
    bool open = false; /* true once an earlier factor has more than one value */
    *out = (struct range){0, 0};
    for (int i = 0; i < dim->nfactor; i++)
        if (of[i].hi == of[i].lo) return true; /* an empty piece equals any other empty piece */
    *out = (struct range){0, 1};
    for (int i = 0; i < dim->nfactor; i++) {
        int64_t n = r->factor[dim->factor[i]].size, count = of[i].hi - of[i].lo;
        if (open && count != n) return false;
        out->hi = (out->hi - 1) * n + of[i].hi;
        out->lo = out->lo * n + of[i].lo;
        open |= count > 1;
    }
    return true;
}

/* Compares two pieces of a merged dimension at mesh position `at`: the range that the layout's splits leave, and the
 * range to which the ranges of the split factors combine. Returns true if both are equal. `at` counts over the axes
 * that split the dimension. */
static bool
piece_agrees(const struct spread *s, const struct rule *r, const struct rule_dim *dim, const int *axis, int naxis,
             int64_t at)
{
    struct range of[RULE_MERGE], got = {0, 1}, want;
    for (int i = 0; i < dim->nfactor; i++) {
        of[i] = (struct range){0, r->factor[dim->factor[i]].size};
        got.hi *= of[i].hi;
    }
    for (int i = 0; i < naxis; i++) {
        int64_t parts = s->place->axis[axis[i]], part = at % parts;
        at /= parts;
        const int8_t *f = memchr(dim->factor, factor_on(s, axis[i]), dim->nfactor);
        int64_t unit = unit_on(s, *f), all = unit * tail_size(r, dim, (int)(f - dim->factor));
        of[f - dim->factor] = cut_range(of[f - dim->factor], (int32_t)unit, parts, part);
        got = cut_range(got, all <= INT32_MAX ? (int32_t)all : 0, parts, part);
    }
    if (!merge_ranges(r, dim, of, &want)) return false;
    return want.hi - want.lo == got.hi - got.lo && (want.hi == want.lo || want.lo == got.lo);
}

/* Returns true if the axes split the factors of a merged dimension in order, from the major factor on, and each
 * split divides evenly. This is the usual case; in this case, cuts_agree holds at every position. */
static bool
cuts_divide(const struct spread *s, const struct rule *r, const struct rule_dim *dim, const int *axis, int naxis)
{
    int i = 0;
    int64_t rest = r->factor[dim->factor[0]].size;
    for (int x = 0; x < naxis; x++) {
        while (rest == 1 && i + 1 < dim->nfactor) rest = r->factor[dim->factor[++i]].size;
        if (dim->factor[i] != factor_on(s, axis[x]) || rest == 0) return false;
        if (rest % (s->place->axis[axis[x]] * (int64_t)MAX(1, unit_on(s, dim->factor[i])))) return false;
        rest /= s->place->axis[axis[x]];
    }
    return true;
}

static bool
dim_agrees(const struct spread *s, const struct rule *r, const struct rule_dim *dim)
{
    int axis[MAX_AXIS], naxis = axes_of_dim(s, dim, axis);
    if (!naxis || cuts_divide(s, r, dim, axis, naxis)) return true;
    int64_t pieces = 1;
    for (int i = 0; i < naxis; i++) pieces *= s->place->axis[axis[i]];
    for (int64_t at = 0; at < pieces; at++)
        if (!piece_agrees(s, r, dim, axis, naxis, at)) return false;
    return true;
}

static bool
cuts_agree(const struct spread *s, const struct rule *r)
{
    for (int k = 0; k < s->list->noperand; k++) {
        const struct rule_operand *o = &r->operand[k];
        if (o->ignored) continue;
        for (int d = 0; d < o->ndim; d++)
            if (o->dim[d].nfactor > 1 && !dim_agrees(s, r, &o->dim[d])) return false;
    }
    return true;
}

/* Checks that no tensor is a partial sum on one axis and a partial maximum or minimum on another. */
static bool
partials_agree(const struct spread *s)
{
    for (int k = 0; k < s->list->noperand; k++) {
        int kind = RED_NONE;
        for (int x = 0; x < s->place->naxis; x++) {
            struct sbp v = s->list->sig[s->choice[x]].v[k];
            if (v.kind != SBP_P) continue;
            if (kind != RED_NONE && v.reduce != kind) return false;
            kind = v.reduce;
        }
    }
    return true;
}

bool
sig_legal(const struct place *p, const struct rule *r, const struct sig_list *list, const int *choice,
          const uint8_t *order)
{
    const struct spread s = {p, list, choice, order ? order : mesh_order};
    return partials_agree(&s) && cuts_agree(&s, r);
}

static const struct type *
operand_type(const struct call *c, int k)
{
    return k < c->nin ? &c->in[k] : &c->out[k - c->nin];
}

bool
sig_layouts(struct atlas *at, const struct place *p, const struct call *c, const struct rule *r,
            const struct sig_list *list, const int *choice, const uint8_t *order, const struct layout **layout)
{
    if (!sig_legal(p, r, list, choice, order)) return false;
    for (int k = 0; k < list->noperand; k++) {
        struct sbp sbp[MAX_AXIS];
        layout[k] = NULL;
        if (r->operand[k].ignored) continue;
        for (int x = 0; x < p->naxis; x++) sbp[x] = list->sig[choice[x]].v[k];
        if (list->unit) layout_drop_units(p, operand_type(c, k), order ? order : mesh_order, sbp);
        int status = layout_new(at, p, sbp, order, &layout[k]);
        assert(!status);
        UNUSED(status);
    }
    return true;
}

/* Returns true if all entries are B: every other signature splits a factor or passes a partial value. */
static bool
sig_is_broadcast(const struct sig *s, int noperand)
{
    return s->v[noperand - 1].kind == SBP_B;
}

int
sig_whole(const struct sig_list *list)
{
    int k = 0;
    while (k < list->nsig - 1 && !sig_is_broadcast(&list->sig[k], list->noperand)) k++;
    return k;
}

/* ---- fraction of a call's work that the busiest rank does ---- */

/* Returns the fraction of dimension d that the largest shard has. */
static double
largest_cut(const struct type *t, const struct layout *l, int d)
{
    struct type part = layout_shard(l, t, 0);
    return t->dim[d] ? (double)part.dim[d] / (double)t->dim[d] : 1;
}

/* Lowers cut[f] (the fraction of factor f that the busiest rank has) of a dimension's factors, until their product
 * is `is`, the rank's fraction of the dimension. Lowers the major factor first, at most to a single value, then
 * the next factor. */
static void
cut_dim(const struct rule *r, const struct rule_dim *dim, double is, double *cut)
{
    for (int i = 0; i < dim->nfactor; i++) is /= cut[dim->factor[i]];
    for (int i = 0; i < dim->nfactor && is < 1; i++) {
        double *had = &cut[dim->factor[i]], least = 1 / (double)MAX(1, r->factor[dim->factor[i]].size);
        double now = MAX(least, *had * is);
        is *= *had / now;
        *had = now;
    }
}

/* Lowers the fractions cut[f] of all factors f to those that the layouts of operands and results imply. merged
 * false: uses dimensions that consist of one factor. merged true: uses dimensions that merge several factors. */
static void
cut_factors(const struct call *c, const struct rule *r, const struct layout *const *layout, bool merged, double *cut)
{
    for (int k = 0; k < r->nin + r->nout; k++) {
        const struct rule_operand *o = &r->operand[k];
        const struct type *t = k < r->nin ? &c->in[k] : &c->out[k - r->nin];
        for (int d = 0; !o->ignored && layout[k] && d < o->ndim && d < t->ndim; d++)
            if (o->dim[d].nfactor && (o->dim[d].nfactor > 1) == merged)
                cut_dim(r, &o->dim[d], largest_cut(t, layout[k], d), cut);
    }
}

/* Returns the product of the fractions of all factors. A factor that is split in one operand counts as split in all
 * operands. */
double
sig_share(const struct call *c, const struct rule *r, const struct layout *const *layout)
{
    double cut[RULE_FACTOR], share = 1;
    for (int f = 0; f < r->nfactor; f++) cut[f] = 1;
    cut_factors(c, r, layout, false, cut);
    cut_factors(c, r, layout, true, cut);
    for (int f = 0; f < r->nfactor; f++) share *= cut[f];
    return share;
}

/* ---- checking that layouts form a signature ---- */

bool
sig_entry_is(const struct layout *l, const struct type *t, int x, struct sbp v)
{
    struct sbp got = l->sbp[x], was[MAX_AXIS], is[MAX_AXIS];
    if (got.kind != v.kind) return false;
    if (got.kind == SBP_P) return got.reduce == v.reduce;
    if (got.kind == SBP_B || got.axis != v.axis || got.unit == v.unit) return got.kind == SBP_B || got.axis == v.axis;
    memcpy(was, l->sbp, sizeof was);
    memcpy(is, l->sbp, sizeof is);
    is[x] = v;
    layout_drop_units(l->place, t, l->order, was);
    layout_drop_units(l->place, t, l->order, is);
    return was[x].unit == is[x].unit;
}

/* Returns true if signature s has the layouts' entries on mesh axis x. */
static bool
sig_matches(const struct call *c, const struct rule *r, const struct sig *s, const struct layout *const *layout, int x)
{
    for (int k = 0; k < r->nin + r->nout; k++)
        if (!r->operand[k].ignored && !sig_entry_is(layout[k], operand_type(c, k), x, s->v[k])) return false;
    return true;
}

/* Returns 1 if axes x and y split the same dimension in l and x splits first; -1 if y splits first; 0 if the axes
 * split different dimensions. */
static int
cuts_before(const struct layout *l, int x, int y)
{
    if (l->place->axis[x] == 1 || l->place->axis[y] == 1) return 0;
    if (l->sbp[x].kind != SBP_S || l->sbp[y].kind != SBP_S || l->sbp[x].axis != l->sbp[y].axis) return 0;
    for (int i = 0; i < l->place->naxis; i++) {
        if (l->order[i] == x) return 1;
        if (l->order[i] == y) return -1;
    }
    return 0;
}

/* Finds a cutting order that agrees with every operand (topological sort). Returns false if the operands' orders
 * conflict. */
static bool
common_order(const struct rule *r, const struct layout *const *layout, int noperand, int naxis, uint8_t *order)
{
    unsigned after[MAX_AXIS] = {0}, left = (1u << naxis) - 1;
    for (int k = 0; k < noperand; k++)
        for (int x = 0; x < naxis && !r->operand[k].ignored; x++)
            for (int y = 0; y < naxis; y++)
                if (x != y && cuts_before(layout[k], x, y) > 0) after[y] |= 1u << x;
    for (int i = 0; i < naxis; i++) {
        int x = 0;
        while (x < naxis && (!(left >> x & 1) || after[x] & left)) x++;
        if (x == naxis) return false;
        order[i] = (uint8_t)x;
        left &= ~(1u << x);
    }
    return true;
}

/* Tries all matching signatures, axis by axis (depth first). */
static bool
any_legal(const struct place *p, const struct call *c, const struct rule *r, const struct sig_list *list,
          const struct layout *const *layout, const uint8_t *order, int *choice, int x)
{
    if (x == p->naxis) return sig_legal(p, r, list, choice, order);
    for (choice[x] = 0; choice[x] < list->nsig; choice[x]++) {
        /* all entries mean the same on an axis with one rank, so only the all-B signature is tried */
        const struct sig *s = &list->sig[choice[x]];
        bool fits = p->axis[x] == 1 ? sig_is_broadcast(s, list->noperand) : sig_matches(c, r, s, layout, x);
        if (fits && any_legal(p, c, r, list, layout, order, choice, x + 1)) return true;
    }
    return false;
}

/* Fails with the layouts: "matmul: a S(0), b S(1) -> S(0): not a legal signature" */
static int
no_signature(const struct call *c, const struct rule *r, const struct layout *const *layout, const char *why)
{
    struct str s = {0};
    for (int k = 0; k < r->nin + r->nout; k++) {
        if (r->operand[k].ignored) continue;
        str_add(&s, k == r->nin ? " -> " : s.len ? ", " : "");
        if (k < r->nin) {
            call_print_name(c, k, &s);
            str_add(&s, " ");
        }
        layout_print(layout[k], &s);
    }
    int code = fail(E_SBP, "%s: %s: %s", c->op->name, str_text(&s), why);
    str_free(&s);
    return code;
}

int
sig_check(struct arena *a, const struct call *c, const struct rule *r, const struct layout *const *layout)
{
    const struct place *p = NULL;
    for (int k = 0; k < r->nin + r->nout; k++) {
        if (r->operand[k].ignored) continue;
        if (!layout[k]) return fail(E_SBP, "%s: operand %d has no layout", c->op->name, k);
        if (p && layout[k]->place != p) return no_signature(c, r, layout, "operands are on different placements");
        p = layout[k]->place;
    }
    if (!p) return 0;
    struct sig_list list;
    uint8_t order[MAX_AXIS];
    int choice[MAX_AXIS];
    int32_t unit[RULE_FACTOR];
    sig_units(r, p, layout, r->nin + r->nout, unit);
    TRY(sig_axis(a, c, r, unit, &list));
    if (!common_order(r, layout, list.noperand, p->naxis, order))
        return no_signature(c, r, layout, "mesh axes are split in different orders");
    if (!any_legal(p, c, r, &list, layout, order, choice, 0))
        return no_signature(c, r, layout, "not a legal signature");
    return 0;
}
