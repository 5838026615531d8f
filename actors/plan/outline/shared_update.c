/* shared_update.c - finds updates and initial values that the devices of one host share: each device writes a slice
 * of rows. */
#include "actors/plan/outline/shared_update.h"

#include "boxing/grid.h"
#include "runtime/device/device.h"

static bool
has_replicas(const struct layout *l)
{
    bool any = false;
    for (int a = 0; a < l->place->naxis; a++) any = any || (l->sbp[a].kind == SBP_B && l->place->axis[a] > 1);
    return any && !layout_has_partial(l);
}

bool
shared_update_in_place(const struct layout *l, const struct type *t, int64_t least)
{
    enum { IN_PLACE = HOST_READS | ONE_SPACE };
    return has_replicas(l) && (device_kind(l->place->kind)->flags & IN_PLACE) == IN_PLACE && type_bytes(t) >= least;
}

/* Returns true if the operator's result can be computed slice by slice: the operator is an update for which slices
 * of the operands suffice, or it has no operands. */
static bool
has_slices(const struct op *op)
{
    return op->flags & OP_SOURCE || (op->flags & OP_UPDATE && op->flags & OP_INPLACE);
}

/* Returns true if the node's result may be computed in slices. The node must run once per batch, its result must
 * have at least one row per rank, and replicas of the result must share a buffer (shared_update_in_place). */
static bool
may_share_update(const struct program *p, const struct prog_node *n)
{
    const struct layout *l = n->layout[0];
    const struct type *t = &n->type[0];
    return has_slices(n->op) && !n->piece && t->ndim > 0 && t->dim[0] >= l->place->nrank &&
           shared_update_in_place(l, t, p->shared_least);
}

/* Returns true if all operands and results of the node that have the variable's shape also have the variable's
 * layout. */
static bool
updates_alike(const struct program *p, const struct prog_node *n)
{
    for (int k = 0; k < n->nin; k++) {
        struct type t = ref_type(p, n->in[k]);
        if (n->want[k] && shape_equal(&t, &n->type[0]) && n->want[k] != n->layout[0]) return false;
    }
    for (int k = 0; k < n->nout; k++)
        if (shape_equal(&n->type[k], &n->type[0]) ? n->layout[k] != n->layout[0] : type_numel(&n->type[k]) > 0)
            return false;
    return true;
}

/* Returns true if the root is an initial value of a variable, or a new version of a variable in the layout of the
 * old version. */
static bool
is_version(const struct program *p, const struct prog_root *r)
{
    const struct prog_node *n = &p->node[r->ref.index];
    if (n->op->flags & OP_SOURCE) return !r->join;
    if (r->overwrites_leaf < 0 || r->join) return false;
    const struct prog_leaf *f = &p->leaf[r->overwrites_leaf];
    return !f->piece && f->layout == n->layout[r->ref.out] && type_equal(&f->type, &n->type[r->ref.out]);
}

bool *
shared_update_nodes(const struct program *p, struct arena *a)
{
    bool *shares = ARENA_ARRAY(a, bool, p->nnode + 1);
    uint8_t *versions = ARENA_ARRAY(a, uint8_t, p->nnode * OP_OUT + 1);
    if (p->map || p->shared_least == 0) return shares;
    for (int32_t i = 0; i < p->nnode; i++) {
        shares[i] = may_share_update(p, &p->node[i]) && updates_alike(p, &p->node[i]);
        for (int k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NODE) shares[p->node[i].in[k].index] = false;
    }
    for (int32_t k = 0; k < p->nroot; k++) {
        struct ref r = p->root[k].ref;
        if (r.kind != REF_NODE) continue;
        uint8_t *n = &versions[r.index * OP_OUT + r.out];
        *n = is_version(p, &p->root[k]) ? (uint8_t)MIN(*n + 1, 2) : 2;
    }
    for (int32_t i = 0; i < p->nnode; i++)
        for (int k = 0; k < p->node[i].nout && shares[i]; k++)
            shares[i] = versions[i * OP_OUT + k] == (type_numel(&p->node[i].type[k]) > 0);
    return shares;
}

struct view
shared_update_slice(const struct view *part, const struct layout *l, const struct type *t, int pos, int64_t *skip)
{
    struct grid g = grid_of(l, t);
    struct view v = *part;
    int64_t lo, hi;
    shard_range(v.dim[0], 0, g.nreplica, grid_spot(&g, pos).replica, &lo, &hi);
    *skip = lo * v.stride[0];
    v.dim[0] = hi - lo;
    if (v.global[0]) v.offset[0] += lo;
    return v;
}

int64_t
shared_update_offset(const struct layout *l, const struct type *t, int pos)
{
    struct type local = layout_shard(l, t, pos);
    struct view part = view_dense(&local, NULL);
    int64_t skip;
    shared_update_slice(&part, l, t, pos, &skip);
    return skip * (int64_t)dtype_bytes(part.dtype);
}

bool
shared_update_reads_own(const struct task *t, const struct out_port *o, int32_t k, int32_t leaf_part)
{
    for (int32_t a = 0; a < t->narg; a++) {
        if (t->arg[a].kind != ARG_LEAF || t->arg[a].index != leaf_part) continue;
        if (t->arg[a].skip != o->where.offset || !view_same(exec_view(t->exec, a), exec_view(t->exec, t->narg + k)))
            return false;
    }
    return true;
}
