/* units.c - propagates units from merged dimensions through the factors of a program's calls. */
#include "actors/plan/assign/units.h"

#include "actors/plan/assign/candidate.h"
#include "runtime/base/error.h"
#include "sbp/infer.h"
#include "sbp/sig.h"

#include <string.h>

enum { ROUNDS = 16 }; /* maximum number of passes over the program */

struct units {
    const struct program *p;
    struct arena *tmp;
    units_row *row;
    struct rule **rule; /* by node: dimension rule; NULL: not needed so far, or none */
    bool changed;
};

int32_t
units_at(const struct program *p, struct ref r)
{
    if (r.kind == REF_LEAF) return p->nnode * OP_OUT + r.index;
    return r.kind == REF_NODE ? r.index * OP_OUT + r.out : -1;
}

/* Returns the index of the row of operand or result k of node i; -1: none. */
static int32_t
operand_row(const struct program *p, int32_t i, int k)
{
    const struct prog_node *n = &p->node[i];
    return k < n->nin ? units_at(p, n->in[k]) : i * OP_OUT + k - n->nin;
}

void
units_of_call(const struct program *p, units_row *row, int32_t i, int32_t **unit)
{
    for (int k = 0; k < p->node[i].nin + p->node[i].nout; k++) {
        int32_t at = operand_row(p, i, k);
        unit[k] = at < 0 || !row ? NULL : row[at];
    }
}

/* Returns the rule of a node; NULL: the node has none. */
static struct rule *
rule_of_node(struct units *u, int32_t i)
{
    const struct prog_node *n = &u->p->node[i];
    if (u->rule[i] || n->op->flags & (OP_MOVE | OP_SHIFT | OP_SOURCE) || n->nin > RULE_OPERAND) return u->rule[i];
    struct type *in = ARENA_ARRAY(u->tmp, struct type, n->nin + 1), *out = ARENA_ARRAY(u->tmp, struct type, OP_OUT);
    struct call call = candidate_call(u->p, n, in, out, u->tmp);
    struct rule *r = ARENA_NEW(u->tmp, struct rule);
    if (call_infer(u->tmp, &call, r)) {
        err_clear();
        return NULL;
    }
    return u->rule[i] = r;
}

static void
raise_row(struct units *u, int32_t at, int d, int64_t unit)
{
    if (at < 0 || u->row[at][d] < 0 || unit > INT32_MAX || unit <= MAX(1, u->row[at][d])) return;
    u->row[at][d] = (int32_t)unit;
    u->changed = true;
}

/* Marks a dimension as split by elements. */
static void
fix_row(struct units *u, int32_t at, int d)
{
    if (at < 0 || u->row[at][d] < 0) return;
    u->row[at][d] = -1;
    u->changed = true;
}

/* Propagates units through a call: from dimensions of operands and results to the call's factors, and back. */
static void
spread_call(struct units *u, int32_t i)
{
    const struct rule *r = rule_of_node(u, i);
    int32_t of[RULE_FACTOR], *unit[RULE_OPERAND + OP_OUT];
    if (!r) return;
    units_of_call(u->p, u->row, i, unit);
    uint64_t fixed = sig_units_of_dims(r, u->p->node[i].layout[0]->place, unit, of);
    for (int k = 0; k < r->nin + r->nout; k++)
        for (int d = 0; unit[k] && !r->operand[k].ignored && d < r->operand[k].ndim; d++) {
            const struct rule_dim *dim = &r->operand[k].dim[d];
            if (dim->nfactor == 1 && fixed >> dim->factor[0] & 1) fix_row(u, operand_row(u->p, i, k), d);
            raise_row(u, operand_row(u->p, i, k), d, sig_unit_of_dim(r, dim, of));
        }
}

/* Propagates units between the operand and the result of a move, which have the same dimensions. Skips a move that the
 * user requested, because such a move may convert a value from one unit to another. */
static void
spread_move(struct units *u, int32_t i)
{
    int32_t from = units_at(u->p, u->p->node[i].in[0]), to = i * OP_OUT;
    for (int d = 0; from >= 0 && d < MAX_DIM && !u->p->node[i].asked; d++) {
        if (u->row[to][d] < 0) fix_row(u, from, d);
        if (u->row[from][d] < 0) fix_row(u, to, d);
        raise_row(u, from, d, u->row[to][d]);
        raise_row(u, to, d, u->row[from][d]);
    }
}

static void
spread_node(struct units *u, int32_t i)
{
    if (u->p->node[i].op->flags & OP_MOVE)
        spread_move(u, i);
    else
        spread_call(u, i);
}

/* Reads the units of a traced layout. given: the user has given the layout. */
static void
read_layout(struct units *u, int32_t at, const struct layout *l, bool given)
{
    for (int a = 0; l && a < l->place->naxis; a++) {
        struct sbp s = l->sbp[a];
        if (s.unit) raise_row(u, at, s.axis, s.unit);
        if (given && s.kind == SBP_S && !s.unit && l->place->axis[a] > 1) fix_row(u, at, s.axis);
    }
}

static bool
is_given(const struct prog_node *n)
{
    return n->op->flags & OP_SOURCE || (n->asked && n->op->flags & OP_MOVE);
}

/* Finds the first units: those of the traced layouts, and those of reshaped dimensions. */
static void
find_first(struct units *u)
{
    const struct program *p = u->p;
    for (int32_t i = 0; i < p->nleaf; i++) read_layout(u, p->nnode * OP_OUT + i, p->leaf[i].layout, true);
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        for (int k = 0; k < n->nout; k++) read_layout(u, i * OP_OUT + k, n->layout[k], is_given(n));
    }
    u->changed = false;
    for (int32_t i = 0; i < p->nnode; i++)
        if (p->node[i].op->flags & OP_VIEW) spread_call(u, i);
}

/* Returns true if a value has a unit. */
static bool
has_unit(const struct units *u)
{
    int64_t n = (int64_t)u->p->nnode * OP_OUT + u->p->nleaf;
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < MAX_DIM; d++)
            if (u->row[i][d] > 1) return true;
    return false;
}

units_row *
units_find(struct arena *a, const struct program *p)
{
    struct arena tmp = {0};
    struct units u = {.p = p, .tmp = &tmp};
    u.row = ARENA_ARRAY(a, units_row, p->nnode * OP_OUT + p->nleaf + 1);
    u.rule = ARENA_ARRAY(&tmp, struct rule *, p->nnode + 1);
    find_first(&u);
    bool any = has_unit(&u);
    u.changed = any;
    for (int round = 0; u.changed && round < ROUNDS; round++) {
        u.changed = false;
        for (int32_t i = 0; i < p->nnode; i++) spread_node(&u, round % 2 ? p->nnode - 1 - i : i);
    }
    arena_fini(&tmp);
    return any ? u.row : NULL;
}
