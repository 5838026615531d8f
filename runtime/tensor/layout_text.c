/* layout_text.c - prints and parses layouts and placements.
 *
 *   sbp    = "S(" integer [", unit" integer] ")" | "B" | "P" | "P(" ("sum" | "max" | "min") ")"
 *   layout = (sbp | "(" sbp {"," sbp} ")") ["order" "(" integer {"," integer} ")"]
 *
 * Spaces may separate words. A parsing function advances the cursor and returns true if it found its words. Only
 * the function that received the complete text reports errors. */
#include "runtime/tensor/layout.h"

#include "runtime/base/device_kinds.h"
#include "runtime/base/error.h"

#include <string.h>

/* ---- printing layouts ---- */

static void
mesh_print(const struct place *p, int axis, int first, int n, struct str *s)
{
    if (axis == p->naxis) {
        str_addf(s, "%d", (int)p->rank[first]);
        return;
    }
    int each = n / p->axis[axis];
    str_add(s, "[");
    for (int i = 0; i < p->axis[axis]; i++) {
        if (i) str_add(s, ", ");
        mesh_print(p, axis + 1, first + i * each, each, s);
    }
    str_add(s, "]");
}

void
place_print(const struct place *p, struct str *s)
{
    str_add(s, device_kind_text(p->kind));
    mesh_print(p, 0, 0, p->nrank, s);
}

void
sbp_print(struct sbp s, struct str *out)
{
    if (s.kind == SBP_S && s.unit)
        str_addf(out, "S(%d, unit %d)", s.axis, (int)s.unit);
    else if (s.kind == SBP_S)
        str_addf(out, "S(%d)", s.axis);
    else if (s.kind == SBP_B)
        str_add(out, "B");
    else if (s.reduce == RED_SUM)
        str_add(out, "P");
    else
        str_addf(out, "P(%s)", reduce_text(s.reduce));
}

void
layout_print(const struct layout *l, struct str *out)
{
    int n = l->place->naxis;
    bool mesh_order = true;

    if (n > 1) str_add(out, "(");
    for (int i = 0; i < n; i++) {
        if (i) str_add(out, ", ");
        sbp_print(l->sbp[i], out);
        mesh_order = mesh_order && l->order[i] == i;
    }
    if (n > 1) str_add(out, ")");
    if (mesh_order) return;
    str_add(out, " order (");
    for (int i = 0; i < n; i++) str_addf(out, "%s%d", i ? ", " : "", l->order[i]);
    str_add(out, ")");
}

/* ---- parsing layouts ---- */

struct cursor {
    const char *at;
};

static void
skip_layout_spaces(struct cursor *c)
{
    while (*c->at == ' ' || *c->at == '\t') c->at++;
}

/* Accepts a word at the cursor: skips it and returns true. */
static bool
accept_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_layout_spaces(c);
    if (strncmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

static bool
take_integer(struct cursor *c, int *out)
{
    bool minus = accept_word(c, "-");
    const char *first;
    skip_layout_spaces(c);
    first = c->at;
    for (*out = 0; *c->at >= '0' && *c->at <= '9' && c->at - first < 9; c->at++) *out = *out * 10 + (*c->at - '0');
    if (minus) *out = -*out;
    return c->at > first;
}

static bool
at_end(struct cursor *c)
{
    skip_layout_spaces(c);
    return *c->at == '\0';
}

static bool
take_reduce(struct cursor *c, uint8_t *out)
{
    static const enum reduce partials[] = {RED_SUM, RED_MAX, RED_MIN};
    for (size_t i = 0; i < countof(partials); i++) {
        *out = (uint8_t)partials[i];
        if (accept_word(c, reduce_text(partials[i]))) return true;
    }
    return false;
}

/* Parses the unit of S( ), if there is one. */
static bool
take_unit(struct cursor *c, struct sbp *out)
{
    int unit = 1;
    bool fits = !accept_word(c, ",") || (accept_word(c, "unit") && take_integer(c, &unit) && unit > 0);
    out->unit = unit > 1 ? unit : 0;
    return fits;
}

/* Parses one entry. *axis: the number in S( ), which may be negative. */
static bool
take_sbp(struct cursor *c, struct sbp *out, int *axis)
{
    *out = (struct sbp){0};
    *axis = 0;
    if (accept_word(c, "B")) {
        out->kind = SBP_B;
        return true;
    }
    if (accept_word(c, "S")) {
        out->kind = SBP_S;
        return accept_word(c, "(") && take_integer(c, axis) && take_unit(c, out) && accept_word(c, ")");
    }
    if (!accept_word(c, "P")) return false;
    out->kind = SBP_P;
    out->reduce = RED_SUM;
    return !accept_word(c, "(") || (take_reduce(c, &out->reduce) && accept_word(c, ")"));
}

/* Converts an axis number. Negative numbers count from the last dimension, and need the tensor's number of
 * dimensions. */
static int
resolve_axis(const char *text, int axis, int ndim, struct sbp *s)
{
    int n = ndim < 0 ? MAX_DIM : ndim;
    if (s->kind != SBP_S) return 0;
    if (axis < 0 && ndim < 0)
        return fail(E_SBP, "\"%s\": S(%d) needs a tensor with a known number of axes", text, axis);
    if (axis >= n || axis < -n) {
        if (ndim < 0) return fail(E_SBP, "\"%s\": a tensor has at most %d axes", text, MAX_DIM);
        return fail(E_SBP, "\"%s\" splits axis %d, but the tensor has %d ax%s", text, axis, ndim,
                    ndim == 1 ? "is" : "es");
    }
    s->axis = (uint8_t)(axis < 0 ? axis + n : axis);
    return 0;
}

int
sbp_parse(const char *text, int ndim, struct sbp *out)
{
    struct cursor c = {text};
    int axis;
    if (!take_sbp(&c, out, &axis) || !at_end(&c))
        return fail(E_SBP, "\"%s\" is not an SBP: expected S(axis), B, P, P(max) or P(min)", text);
    return resolve_axis(text, axis, ndim, out);
}

static int
bad_layout(const char *text, const struct place *p)
{
    if (p->naxis == 1) return fail(E_SBP, "\"%s\" is not an SBP: expected S(axis), B, P, P(max) or P(min)", text);
    return fail(E_SBP, "\"%s\" is not an SBP of a mesh of %d axes: expected one entry per axis, as in \"(B, S(0))\"",
                text, p->naxis);
}

/* Parses "(" integer {"," integer} ")" with p->naxis integers. */
static bool
take_order(struct cursor *c, const struct place *p, uint8_t *order)
{
    int n = 0, axis;
    if (!accept_word(c, "(")) return false;
    do {
        if (n == p->naxis || !take_integer(c, &axis) || axis < 0 || axis >= p->naxis) return false;
        order[n++] = (uint8_t)axis;
    } while (accept_word(c, ","));
    return n == p->naxis && accept_word(c, ")");
}

/* Fails because the number of entries is wrong; the text shows the expected form. */
static int
wrong_count(const char *text, int n, const struct place *p)
{
    if (n != 1)
        return fail(E_SBP, "\"%s\" has %d entries, but the mesh has %d ax%s", text, n, p->naxis,
                    p->naxis == 1 ? "is" : "es");
    struct str full = {0};
    size_t len = strlen(text), brackets = text[0] == '(' && text[len - 1] == ')';
    str_addf(&full, "{\"%.*s\"", (int)(len - 2 * brackets), text + brackets);
    for (int k = 1; k < p->naxis; k++) str_addf(&full, ", \"B\"");
    int status = fail(E_SBP, "\"%s\" has 1 entry, but the mesh has %d axes: write one entry per axis, as in %s}", text,
                      p->naxis, str_text(&full));
    str_free(&full);
    return status;
}

int
layout_parse(struct atlas *a, const struct place *p, const char *text, int ndim, const struct layout **out)
{
    struct cursor c = {text};
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    bool parenthesised = accept_word(&c, "("), ordered;
    int n = 0, axis;

    do {
        struct sbp entry;
        if (!take_sbp(&c, &entry, &axis)) return bad_layout(text, p);
        TRY(resolve_axis(text, axis, ndim, &entry));
        if (n < p->naxis) sbp[n] = entry;
        n++;
    } while (parenthesised && accept_word(&c, ","));
    if (parenthesised && !accept_word(&c, ")")) return bad_layout(text, p);
    ordered = accept_word(&c, "order");
    if ((ordered && !take_order(&c, p, order)) || !at_end(&c)) return bad_layout(text, p);
    if (n == 1 && !parenthesised && sbp[0].kind == SBP_B) /* "B" alone stands for all axes */
        while (n < p->naxis) sbp[n++] = sbp[0];
    if (n != p->naxis) return wrong_count(text, n, p);
    return layout_new(a, p, sbp, ordered ? order : NULL, out);
}
