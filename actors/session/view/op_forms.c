/* op_forms.c - the layouts of a composite call, found by building the call for all combinations of operand layouts.
 *
 * The operands of the record's first sample get layouts on two meta devices, in all combinations. The call is built
 * like any other, and rille_explain lists the operators and the moves between them. The help page shows combinations
 * without moves. If a layout of the first operand has no such combination, the page shows the cheapest combination
 * that moves no operand. A combination that moves operands equals another combination after the move. The page shows
 * such a combination only if no combination without moves of operands has the same operators. */
#include "actors/session/view/op_forms.h"
#include "actors/session/build/build.h"
#include "actors/session/core/session.h"

#include "kernels/exec/sample.h"
#include "runtime/data/arena.h"
#include "runtime/device/device.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = MAX_DIM + 2 };

/* A combination of operand layouts for which the call can be built, with the resulting operators. */
struct made {
    struct made *next;
    const char *of, *layouts;  /* texts of operators and layouts: "sum, div"; "S(0), B -> P" */
    const struct layout *lead; /* layout of the first operand */
    int64_t bytes;
    int nmove;        /* number of moves, including moves that only split */
    bool moved, told; /* moved: an operand is moved; told: already printed */
};

struct maker {
    struct rille_session *s;
    struct arena a;
    struct sample sample;
    const struct layout *way[SAMPLE_IN][WAYS]; /* possible layouts of each operand */
    /* nway: number of layouts of the operand, 0 for a number or an absent operand; at: index of the operand's
     * present layout */
    int nway[SAMPLE_IN], at[SAMPLE_IN];
    struct made *first, **end;
};

static const struct layout *
layout_of(struct maker *m, struct sbp sbp)
{
    const struct place *two;
    const struct layout *l;
    int32_t size = 2, rank[2] = {0, 1};
    int status = place_new(m->s->atlas, DEV_META, 1, &size, rank, &two);
    if (!status) status = layout_new(m->s->atlas, two, &sbp, NULL, &l);
    assert(!status);
    return l;
}

/* Lists the possible layouts of an operand: S of each dimension, B, P. Integer indices and bool values have no P. */
static void
list_operand_ways(struct maker *m, int i)
{
    const struct type *t = &m->sample.in[i];
    const struct operand *in = &m->sample.call.op->in[MIN(i, op_noperand(m->sample.call.op) - 1)];
    int *n = &m->nway[i];
    if (t->dtype == DT_NONE || t->weak) return;
    for (int d = 0; d < t->ndim; d++)
        if (t->dim[d] > 1) m->way[i][(*n)++] = layout_of(m, (struct sbp){.kind = SBP_S, .axis = (uint8_t)d});
    m->way[i][(*n)++] = layout_of(m, (struct sbp){.kind = SBP_B});
    if (t->dtype != DT_BOOL && !(in->flags & IN_INDEX))
        m->way[i][(*n)++] = layout_of(m, (struct sbp){.kind = SBP_P, .reduce = RED_SUM});
}

static int
make_operand(struct maker *m, int i, struct rille_tensor **handle, struct val **out)
{
    const struct type *t = &m->sample.in[i];
    *handle = NULL;
    *out = NULL;
    if (t->weak) *out = build_number(m->s, t->dtype == DT_I64, m->sample.number[i], (int64_t)m->sample.number[i]);
    if (t->weak || t->dtype == DT_NONE) return 0;
    TRY(rille_create(m->s, rille_op_find("empty"), 0, NULL, t->ndim, t->dim, dtype_text(t->dtype),
                     (const struct rille_layout *)m->way[i][m->at[i]], handle));
    *out = (*handle)->val;
    return 0;
}

static const char *
keep_form_text(struct maker *m, struct str *s)
{
    const char *text = arena_strdup(&m->a, str_text(s));
    str_free(s);
    return text;
}

static const char *
layouts_text(struct maker *m, struct rille_tensor *y)
{
    struct str s = {0};
    for (int i = 0; i < m->sample.call.nin; i++)
        if (m->nway[i])
            str_addf(&s, "%s%s", s.len ? ", " : "",
                     rille_layout_text(m->s, (const struct rille_layout *)m->way[i][m->at[i]]));
    str_addf(&s, " -> %s", rille_layout_text(m->s, rille_tensor_layout(y)));
    return keep_form_text(m, &s);
}

static void
add_form_made(struct maker *m, struct rille_tensor *y, const struct rille_explain *e)
{
    struct str of = {0};
    struct made *made = ARENA_NEW(&m->a, struct made);
    for (int k = 0; k < e->nop; k++) str_addf(&of, "%s%s", k ? ", " : "", e->ops[k].name);
    for (int k = 0; k < e->nboxing; k++) made->moved |= e->boxing[k].of_leaf && e->boxing[k].bytes > 0;
    made->of = keep_form_text(m, &of);
    made->layouts = layouts_text(m, y);
    made->lead = m->way[0][m->at[0]];
    made->bytes = e->bytes;
    made->nmove = e->nboxing;
    *m->end = made;
    m->end = &made->next;
}

/* Builds the call with the present operand layouts. Skips combinations that cannot be built. */
static void
make_form(struct maker *m)
{
    const struct call *c = &m->sample.call;
    struct rille_tensor *handle[SAMPLE_IN] = {NULL}, *y = NULL;
    struct val *in[SAMPLE_IN], *res[OP_OUT];
    struct rille_explain *e;
    int status = 0;
    for (int i = 0; !status && i < c->nin; i++) status = make_operand(m, i, &handle[i], &in[i]);
    if (!status) status = build_call(&m->s->context, c->op, c->nin, in, c->attr, NULL, res);
    if (!status) y = tensor_new(m->s, res[0], false);
    build_settle(m->s, status);
    if (y && !rille_explain(m->s, 1, &y, &e)) {
        if (e->nop != 1 || strcmp(e->ops[0].name, c->op->name)) add_form_made(m, y, e);
        rille_explain_free(&e);
    }
    rille_tensor_free(&y);
    for (int i = 0; i < c->nin; i++) rille_tensor_free(&handle[i]);
}

/* Advances to the next combination; returns false after the last. */
static bool
next_form(struct maker *m)
{
    for (int i = m->sample.call.nin - 1; i >= 0; i--) {
        if (m->nway[i] && ++m->at[i] < m->nway[i]) return true;
        m->at[i] = 0;
    }
    return false;
}

/* ---- printing the layouts as text ---- */

static void
print_made(const struct made *m, struct str *s)
{
    str_addf(s, "      %s", m->layouts);
    if (m->bytes) str_addf(s, "   moves %lld bytes", (long long)m->bytes);
    str_add(s, "\n");
}

static bool
fits_group(const struct made *m, const struct made *group, const struct layout *lead)
{
    return !strcmp(m->of, group->of) && (!lead || m->lead == lead);
}

/* Returns the cheapest combination of a group in which the first operand has layout `lead` (NULL: any layout). If
 * several combinations cost the same, returns the first of them. */
static const struct made *
cheapest_form(const struct made *group, const struct layout *lead, bool moved)
{
    const struct made *best = NULL;
    for (const struct made *m = group; m; m = m->next)
        if (fits_group(m, group, lead) && m->moved <= moved && (!best || m->bytes < best->bytes)) best = m;
    return best;
}

static bool
leads_at_rest(const struct made *group, const struct layout *lead)
{
    for (const struct made *m = group; m; m = m->next)
        if (fits_group(m, group, lead) && m->nmove == 0) return true;
    return false;
}

/* Prints a group: all combinations that have the same operators. group: the first combination of the group. */
static void
print_form_group(struct made *group, struct str *s)
{
    int n = 0;
    str_addf(s, "    computed by %s:\n", group->of);
    for (struct made *m = group; m; m = m->next) {
        if (!fits_group(m, group, NULL)) continue;
        bool best = m == cheapest_form(group, m->lead, false) && !leads_at_rest(group, m->lead);
        m->told = true;
        if (m->nmove && !best) continue;
        print_made(m, s);
        n++;
    }
    if (!n) print_made(cheapest_form(group, NULL, true), s);
}

void
op_forms_sample(const char *sample, struct str *s)
{
    for (const char *p = sample; *p; p += strcspn(p, " "), p += *p == ' ') {
        bool number = *p == '#';
        str_addf(s, "%s%.*s", p > sample ? ", " : "", (int)strcspn(p + number, " <>"), p + number);
    }
}

void
op_forms_print(struct rille_session *s, const struct op *op, struct str *out)
{
    struct maker *m = must_alloc(sizeof *m);
    *m = (struct maker){.s = s, .end = &m->first};
    bool paused = rille_trace_pause(s, true), grad = rille_grad_mode(s, false);
    if (op->sample[0] && sample_read(op, op->sample[0], &m->sample)) {
        for (int i = 0; i < m->sample.call.nin; i++) list_operand_ways(m, i);
        do make_form(m);
        while (next_form(m));
    }
    if (m->first) {
        str_add(out, "  layouts on a mesh axis of two ranks, for the operands ");
        op_forms_sample(op->sample[0], out);
        str_add(out, "\n");
    }
    for (struct made *i = m->first; i; i = i->next)
        if (!i->told) print_form_group(i, out);
    rille_grad_mode(s, grad);
    rille_trace_pause(s, paused);
    arena_fini(&m->a);
    free(m);
}
