/* append.c - replaces a sum over micro-batches of products by one product of appended operands. */
#include "actors/plan/rewrite/append.h"

#include "actors/plan/rewrite/rewrite.h"

#include "kernels/op/base/table.h"
#include "runtime/base/error.h"
#include "sbp/infer.h"
#include "sbp/rule.h"

struct appender {
    struct program *p;
    struct arena *tmp;
    struct insertion *list; /* nodes that append or sum an operand */
    int32_t n;
};

static bool
has_factor(const struct rule_operand *o, int f, int first)
{
    for (int d = first; d < o->ndim; d++)
        for (int k = 0; k < o->dim[d].nfactor; k++)
            if (o->dim[d].factor[k] == f) return true;
    return false;
}

/* Returns true if dimension 0 of the operand is factor f alone, and no other dimension of the operand has f. */
static bool
begins_with(const struct rule_operand *o, int f)
{
    return !o->ignored && o->ndim > 0 && o->dim[0].nfactor == 1 && o->dim[0].factor[0] == f && !has_factor(o, f, 1);
}

/* Returns a factor that the call sums over and that is dimension 0 of an operand that differs per micro-batch; -1:
 * none. */
static int
summed_factor(const struct program *p, const struct prog_node *n, const struct rule *r)
{
    for (int k = 0; k < n->nin; k++) {
        const struct rule_operand *o = &r->operand[k];
        if (!ref_varies(p, n->in[k]) || o->ignored || o->ndim == 0 || o->dim[0].nfactor != 1) continue;
        const struct rule_factor *f = &r->factor[o->dim[0].factor[0]];
        if (!f->in_output && !f->unsplit) return o->dim[0].factor[0];
    }
    return -1;
}

/* Returns true if the result is operand k plus a sum over another operand. The field `linear` of such an operator's
 * record begins with the two operands, because the result is linear in both together. */
static bool
adds_operand(const struct prog_node *n, int k)
{
    const char *linear = n->op->partial.linear;
    return linear && linear[0] == '0' + k && linear[1] >= '0' && linear[1] < '0' + n->nin && k < n->op->ninplace;
}

/* Returns true if operand k is added to the result and may be summed over the micro-batches first. */
static bool
is_addend(const struct program *p, const struct prog_node *n, int k)
{
    bool single = ref_varies(p, n->in[k]) && ref_type(p, n->in[k]).dtype == DT_F32;
    return single && adds_operand(n, k) && ref_varies(p, n->in[n->op->partial.linear[1] - '0']);
}

/* Returns true if one call with the appended operands returns the sum of all calls. The call must sum over dimension 0
 * of the operands that differ per micro-batch, except addends. No other operand may have the summed factor. An operand
 * that is the same in each micro-batch must not be added, because one call adds it once. */
static bool
sums_leading_rows(const struct program *p, const struct prog_node *n, const struct rule *r)
{
    int f = summed_factor(p, n, r);
    if (f < 0) return false;
    for (int k = 0; k < n->nin; k++) {
        const struct rule_operand *o = &r->operand[k];
        bool varies = ref_varies(p, n->in[k]), addend = is_addend(p, n, k);
        bool without = o->ignored || !has_factor(o, f, 0);
        if (!varies && adds_operand(n, k)) return false;
        if (varies && !addend ? !begins_with(o, f) : !without) return false;
    }
    return true;
}

/* Returns true if operand k can be appended: it is not fetched for each micro-batch, all shards have equally many
 * rows, and no mesh axis is partial. */
static bool
can_append(const struct program *p, const struct prog_node *n, int k)
{
    struct type t = ref_type(p, n->in[k]);
    bool fetched = n->in[k].kind == REF_NODE && p->node[n->in[k].index].again;
    return !fetched && layout_appends(n->want[k], &t);
}

/* Returns true if the operands that differ per micro-batch can be appended, and then take no more bytes than the
 * result. */
static bool
operands_are_small(const struct program *p, const struct prog_node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < n->nin; k++) {
        struct type t = ref_type(p, n->in[k]);
        if (!ref_varies(p, n->in[k]) || is_addend(p, n, k)) continue;
        if (!can_append(p, n, k)) return false;
        bytes += type_bytes(&t) * p->pieces;
    }
    return bytes <= type_bytes(&n->type[0]);
}

/* Returns true if one call can compute the sum of node n's results over the micro-batches. */
static bool
is_one_call(struct appender *a, const struct prog_node *n, const struct prog_node *sum, int64_t least)
{
    struct rule rule;
    if (n->recompute || n->again || type_bytes(&n->type[0]) < least || sum->layout[0] != n->layout[0]) return false;
    if (!type_equal(&sum->type[0], &n->type[0]) || !operands_are_small(a->p, n)) return false;
    struct call *c = program_call(a->p, n, a->tmp);
    if (call_infer(a->tmp, c, &rule)) return err_clear(), false;
    return type_equal(&c->out[0], &n->type[0]) && sums_leading_rows(a->p, n, &rule);
}

/* Returns the node that appends the values of operand k of node i, or sums them if the operand is an addend. Makes the
 * node unless the list has an equal node. */
static struct ref
combined(struct appender *a, int32_t i, int k)
{
    struct program *p = a->p;
    const struct prog_node *n = &p->node[i];
    const struct layout *l = n->want[k];
    bool append = !is_addend(p, n, k);
    for (int32_t j = 0; j < a->n; j++) {
        const struct prog_node *m = &a->list[j].node;
        if (ref_equal(m->in[0], n->in[k]) && m->layout[0] == l && m->append == append)
            return (struct ref){.kind = REF_NODE, .index = p->nnode + j};
    }
    struct type t = ref_type(p, n->in[k]);
    if (append) t.dim[0] *= p->pieces;
    struct prog_node node = {.op = op_find("to_global"), .nin = 1, .nout = 1, .line = n->line, .phase = n->phase};
    node.in = arena_dup(&p->arena, &n->in[k], sizeof n->in[k]);
    node.want = node.layout = arena_dup(&p->arena, &l, sizeof l);
    node.type = arena_dup(&p->arena, &t, sizeof t);
    node.name = node.op->name;
    node.piece = node.accumulate = true;
    node.append = append;
    a->list[a->n] = (struct insertion){.node = node, .before = i};
    return (struct ref){.kind = REF_NODE, .index = p->nnode + a->n++};
}

static void
compute_once(struct appender *a, int32_t i)
{
    struct prog_node *n = &a->p->node[i];
    for (int k = 0; k < n->nin; k++)
        if (ref_varies(a->p, n->in[k])) rewrite_operand(a->p, i, k, combined(a, i, k));
    n->piece = false;
    n->phase = PHASE_BATCH;
}

/* Replaces the sum by the result of node `by` in all readers and roots. */
static void
replace_sum(struct program *p, int32_t sum, int32_t by)
{
    for (int32_t i = 0; i < p->nnode; i++)
        for (int k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NODE && p->node[i].in[k].index == sum)
                rewrite_operand(p, i, k, (struct ref){.kind = REF_NODE, .index = by});
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE && p->root[k].ref.index == sum) p->root[k].ref.index = by;
}

/* ---- order after the last micro-batch ---- */

/* Returns the largest number of changes of placement on a path from a sum over micro-batches to node i; -1: node i does
 * not depend on a sum. hops: these numbers for all nodes before i. */
static int32_t
hops_after_sums(const struct program *p, const int32_t *hops, int32_t i)
{
    const struct prog_node *n = &p->node[i];
    int32_t most = -1;
    for (int k = 0; k < n->nin; k++) {
        struct ref r = n->in[k];
        if (r.kind != REF_NODE || (hops[r.index] < 0 && !p->node[r.index].accumulate)) continue;
        bool moves = p->node[r.index].layout[r.out]->place != n->layout[0]->place;
        most = MAX(most, MAX(hops[r.index], 0) + moves);
    }
    return most;
}

/* Moves nodes that depend on a sum behind all other nodes, in ascending order of hops_after_sums(). The order of nodes
 * determines which results share memory. Without this order, weight gradients would wait for the bytes of a gradient
 * that another stage still reads. Does nothing if a node that runs per micro-batch depends on a sum. */
static void
order_by_hops(struct program *p, struct arena *a)
{
    int32_t *hops = ARENA_ARRAY(a, int32_t, p->nnode + 1), *index = ARENA_ARRAY(a, int32_t, p->nnode + 1);
    int32_t at = 0, most = -1;
    for (int32_t i = 0; i < p->nnode; i++) {
        hops[i] = hops_after_sums(p, hops, i);
        if (hops[i] >= 0 && p->node[i].piece) return;
        most = MAX(most, hops[i]);
    }
    for (int32_t level = -1; level <= most; level++)
        for (int32_t i = 0; i < p->nnode; i++)
            if (hops[i] == level) index[i] = at++;
    rewrite_order(p, index);
}

/* Rewrites each sum that one call can compute. Returns the number of inserted nodes. */
static int32_t
append_once(struct program *p, int64_t least, struct arena *tmp)
{
    struct appender a = {.p = p, .tmp = tmp};
    int32_t most = 0;
    const int32_t *sum = program_sums(p, tmp);
    for (int32_t i = 0; i < p->nnode; i++) most += sum[i] >= 0 ? p->node[i].nin : 0;
    a.list = ARENA_ARRAY(tmp, struct insertion, most + 1);
    for (int32_t i = 0; i < p->nnode; i++) {
        if (sum[i] < 0 || !p->node[i].piece || !is_one_call(&a, &p->node[i], &p->node[sum[i]], least)) continue;
        compute_once(&a, i);
        replace_sum(p, sum[i], i);
    }
    rewrite_insert(p, a.list, a.n);
    rewrite_sweep(p);
    return a.n;
}

void
append_operands(struct program *p, int64_t least)
{
    struct arena tmp = {0};
    bool any = false;
    /* the sum of an addend is a new sum over micro-batches, which the next pass may rewrite */
    while (p->pieces > 1 && append_once(p, least, &tmp) > 0) any = true;
    if (any) order_by_hops(p, &tmp);
    arena_fini(&tmp);
}
