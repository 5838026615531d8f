/* fusion.c - fuses a chain of element-wise operators into one task, and groups small updates into one task.
 *
 * Two nodes are fused if the second reads the result of the first without a move, and both have the same shape,
 * layout, virtual stage and phase. A member may have readers outside the chain if all of them come after the last
 * node of the chain; the chain then stores that result, too. Because all these readers come later, no input of the
 * chain can depend on the chain. Fusing must not delay a result until after the last micro-batch if a reader outside
 * the chain needs it earlier. An operator may also be computed beside another one (struct eltwise): the two are
 * members of one chain because they read the same value.
 *
 * The inputs of a chain stay alive until its end. So two chains with other tasks between them are not joined if more
 * bytes of inputs stay alive than bytes of results are saved. This rule matters for sums of many addends: each
 * addend is added as soon as it is made, instead of being kept until the end.
 *
 * A matrix product may begin a chain. The bias, activation or residual that follows is computed on the product's
 * result while that result is in the caches, and no register holds the result. A scatter-add into the product's
 * result (OP_FOLLOWS) may follow, too, and then ends the chain. On devices that compile kernels, an operator along
 * rows (a norm, for instance) may also begin a chain: the following steps are applied to each element of its first
 * result as soon as it is computed. For example, the kernel of a norm's gradient also adds the residual's gradient.
 *
 * Small updates that differ only in their variables are grouped into one task, because the overhead of an act, or of
 * a kernel launch on a GPU, is as large as the work of updating a bias. A group waits for the last of its gradients,
 * and keeps all gradients until then, so its bytes are bounded. On devices that compile kernels, casts of variables
 * are grouped, too. A group of casts waits for nothing. The group is placed where its first cast was, before all its
 * readers (hoist.c).
 *
 * On devices without compiled kernels, a dtype is fused only if kernels compute in its precision. Compiled kernels
 * round the result of each step as a store to memory would. Fused and unfused results are bit-identical, unless a
 * library computes a product together with the steps that follow. */
#include "actors/plan/outline/fusion.h"
#include "actors/plan/outline/shared_update.h"

#include "runtime/device/device.h"

#include <string.h>

static bool
fuses_dtype(const struct prog_node *n)
{
    uint8_t d = n->type[0].dtype;
    return d == DT_F32 || d == DT_F64 || d == DT_I64 || device_kind(n->layout[0]->place->kind)->flags & COMPILES;
}

static bool
fusible(const struct prog_node *n)
{
    unsigned flags = device_kind(n->layout[0]->place->kind)->flags;
    return n->op->flags & OP_ELTWISE && n->nout == 1 && !n->accumulate && n->op->eltwise.f && flags & FUSES &&
           (n->op->eltwise.f_text || !(flags & COMPILES));
}

/* Returns true if the node may be the first of a chain. On devices that compile kernels, chains that begin with a
 * product have no generated kernels: the matrix library, or a row kernel, computes the steps after the product. */
static bool
can_lead(const struct prog_node *n)
{
    unsigned flags = device_kind(n->layout[0]->place->kind)->flags;
    bool here = n->op->gpu.product ? flags & MULTIPLIES || !(flags & COMPILES) : flags & COMPILES;
    return n->op->flags & OP_LEADS && !n->accumulate && flags & FUSES && here;
}

/* Returns true if the node may be computed in place on the result of a product. Excludes nodes that run per
 * micro-batch. Such a node may report invalid data by its row in the batch, and the kernel of a chain does not know
 * the micro-batch. */
static bool
can_follow(const struct prog_node *n)
{
    unsigned flags = device_kind(n->layout[0]->place->kind)->flags;
    return n->op->flags & OP_FOLLOWS && n->nout == 1 && !n->accumulate && !n->piece && flags & FUSES;
}

/* ---- readers of nodes ---- */

/* Lists the readers of all nodes: nodes reader[first[i]] to reader[first[i + 1] - 1] read node i. */
static void
fusion_list_readers(struct fusion *l)
{
    const struct program *p = l->program;
    l->reader_first = ARENA_ARRAY(l->arena, int32_t, p->nnode + 2);
    l->roots = ARENA_ARRAY(l->arena, uint8_t, p->nnode + 1);
    int32_t *first = l->reader_first, n = 0;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NODE) first[p->node[i].in[k].index + 2]++;
    for (int32_t i = 2; i <= p->nnode + 1; i++) first[i] = n += first[i];
    l->reader = ARENA_ARRAY(l->arena, int32_t, n);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++)
            if (p->node[i].in[k].kind == REF_NODE) l->reader[first[p->node[i].in[k].index + 1]++] = i;
    for (int32_t k = 0; k < p->nroot; k++)
        if (p->root[k].ref.kind == REF_NODE) l->roots[p->root[k].ref.index] |= (uint8_t)(1 << p->root[k].ref.out);
}

/* Returns true if every reader of `node` comes after node `end`. Ignores readers in the chain of `node` and in
 * the chain that ends at `end`. */
static bool
readers_follow(const struct fusion *l, int32_t node, int32_t end)
{
    for (int32_t r = l->reader_first[node]; r < l->reader_first[node + 1]; r++) {
        int32_t i = l->reader[r];
        if (i < end && l->group[i] != end && l->group[i] != l->group[node]) return false;
    }
    return true;
}

/* Returns true if node n reads the first result of node `other`. */
static bool
reads_first(const struct prog_node *n, int32_t other)
{
    for (int k = 0; k < n->nin; k++)
        if (n->in[k].kind == REF_NODE && n->in[k].index == other && n->in[k].out == 0) return true;
    return false;
}

bool
fusion_shown(const struct fusion *l, int32_t node, int out)
{
    const struct prog_node *n = l->program->node;
    if (out > 0 || l->group[node] == node || n[node].op->flags & OP_UPDATE || l->roots[node] & 1) return true;
    for (int32_t r = l->reader_first[node]; r < l->reader_first[node + 1]; r++)
        if (l->group[l->reader[r]] != l->group[node] && reads_first(&n[l->reader[r]], node)) return true;
    return false;
}

/* ---- chains ---- */

enum { CHAIN_INPUTS = 32, CHAIN_OUTPUTS = 4 };

int
fusion_members(const struct fusion *l, int32_t node, int32_t *member)
{
    memcpy(member, l->member + (size_t)node * FUSE_STEPS, sizeof *member * (size_t)l->group_size[node]);
    return l->group_size[node];
}

static bool
is_fused_member(const int32_t *member, int n, struct ref r)
{
    for (int i = 0; i < n; i++)
        if (r.kind == REF_NODE && member[i] == r.index) return true;
    return false;
}

int
fusion_input(int n, const struct ref *in, const struct layout *const *want, struct ref r, const struct layout *as)
{
    int i = 0;
    while (i < n && !(ref_equal(in[i], r) && want[i] == as)) i++;
    return i;
}

int
fusion_inputs(const struct fusion *l, const int32_t *member, int n, struct ref *in, const struct layout **want)
{
    int nin = 0;
    for (int i = 0; i < n; i++) {
        const struct prog_node *m = &l->program->node[member[i]];
        for (int k = 0; k < m->nin; k++) {
            const struct layout *as = m->in[k].kind == REF_NUMBER ? NULL : m->want[k];
            if (m->in[k].kind == REF_NONE || is_fused_member(member, i, m->in[k])) continue;
            if (fusion_input(nin, in, want, m->in[k], as) < nin) continue;
            in[nin] = m->in[k];
            want[nin++] = as;
        }
    }
    return nin;
}

/* Merges two ascending lists. */
static void
merge(const int32_t *a, int na, const int32_t *b, int nb, int32_t *out)
{
    for (int i = 0, k = 0; i < na || k < nb;) *out++ = k == nb || (i < na && a[i] < b[k]) ? a[i++] : b[k++];
}

/* Counts the operands that a chain reads from outside the chain, and the results that it must store. */
static void
count_ends(const struct fusion *l, const int32_t *member, int n, int *nin, int *nout)
{
    const struct program *p = l->program;
    *nin = *nout = 0;
    for (int i = 0; i < n; i++) {
        const struct prog_node *m = &p->node[member[i]];
        for (int k = 0; k < m->nin; k++)
            if (m->in[k].kind != REF_NONE &&
                !(m->in[k].kind == REF_NODE && l->group[m->in[k].index] == l->group[member[i]]))
                ++*nin;
        for (int k = 0; k < m->nout; k++) *nout += fusion_shown(l, member[i], k);
    }
}

static bool
same_moment(const struct stages *s, int32_t a, int32_t b)
{
    return s->phase[a] == s->phase[b] && (s->phase[a] == PHASE_BATCH || s->stage[a] == s->stage[b]);
}

static bool
fuses_alike(const struct fusion *l, const struct prog_node *x, const struct prog_node *y, int operand)
{
    if (l->any_layout) return x->layout[0]->place == y->layout[0]->place;
    return x->layout[0] == y->want[operand] && x->layout[0] == y->layout[0];
}

static bool
may_join_chain(const struct fusion *l, int32_t a, int32_t b, int operand)
{
    const struct prog_node *x = &l->program->node[a], *y = &l->program->node[b];
    return l->group[a] == a && (fusible(x) || can_lead(x)) && same_moment(l->stages, a, b) && x->piece == y->piece &&
           fuses_alike(l, x, y, operand) && shape_equal(&x->type[0], &y->type[0]) && fuses_dtype(x);
}

/* Returns true if node b and the node before it may share a chain because both read the same value, although
 * neither reads the other (struct eltwise, `beside`). The node before must be the last of its chain. */
static bool
has_beside(const struct fusion *l, int32_t b)
{
    if (b == 0) return false;
    const struct prog_node *x = &l->program->node[b - 1], *y = &l->program->node[b];
    return y->op->eltwise.beside == x->op && x->in[0].kind == y->in[0].kind && x->in[0].index == y->in[0].index &&
           x->in[0].out == y->in[0].out && x->want[0] == y->want[0] && may_join_chain(l, b - 1, b, 0);
}

/* Returns true if there are two members: a product, and an operator that is computed in place on the product's
 * result. */
static bool
is_followed(const struct fusion *l, const int32_t *member, int n)
{
    const struct prog_node *first = &l->program->node[member[0]], *last = &l->program->node[member[n - 1]];
    if (n != 2 || !can_lead(first) || !first->op->gpu.product || !can_follow(last)) return false;
    for (int k = 1; k < last->nin; k++)
        if (is_fused_member(member, 1, last->in[k])) return false;
    return true;
}

/* Returns true if a member reads a result of node m that is not the first result. */
static bool
reads_others(const struct fusion *l, const int32_t *member, int n, int32_t m)
{
    for (int i = 0; i < n; i++) {
        const struct prog_node *x = &l->program->node[member[i]];
        for (int k = 0; k < x->nin; k++)
            if (x->in[k].kind == REF_NODE && x->in[k].index == m && x->in[k].out > 0) return true;
    }
    return false;
}

/* Returns true if all members are element-wise, except at most one, the leader. The leader must read no member, and
 * other members must read only the leader's first result. */
static bool
is_led(const struct fusion *l, const int32_t *member, int n)
{
    int nlead = 0;
    for (int i = 0; i < n; i++) {
        const struct prog_node *m = &l->program->node[member[i]];
        if (fusible(m)) continue;
        if (reads_others(l, member, n, member[i])) return false;
        for (int k = 0; k < m->nin; k++)
            if (is_fused_member(member, n, m->in[k])) return false;
        nlead++;
    }
    return nlead <= 1;
}

/* Returns true if fusing node b with a's chain, whose members these are, would make a result available too late.
 * That is so if only one of a and b runs after the last micro-batch, and nodes outside the two chains read a result
 * that was available before. */
static bool
holds_up(const struct fusion *l, const int32_t *member, int n, int32_t a, int32_t b)
{
    const bool *late = l->stages->late;
    if (late[a] == late[b]) return false;
    for (int i = 0; i < n; i++)
        for (int32_t r = l->reader_first[member[i]]; r < l->reader_first[member[i] + 1]; r++)
            if (l->group[l->reader[r]] != a && l->group[l->reader[r]] != b) return true;
    return late[a];
}

/* Returns true if no member reads another member through a move. may_join_chain() checks one operand only, but a
 * member may read another member twice: directly, and through a move. */
static bool
lie_as_read(const struct fusion *l, const int32_t *member, int n)
{
    const struct prog_node *node = l->program->node;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < node[member[i]].nin; k++) {
            struct ref r = node[member[i]].in[k];
            if (is_fused_member(member, i, r) && !fuses_alike(l, &node[r.index], &node[member[i]], k)) return false;
        }
    return true;
}

/* Returns true if all readers of the node are in the chain that ends at a. */
static bool
dies_in(const struct fusion *l, int32_t node, int32_t a)
{
    for (int32_t r = l->reader_first[node]; r < l->reader_first[node + 1]; r++)
        if (l->group[l->reader[r]] != a) return false;
    return !l->roots[node];
}

/* Returns the bytes, over all ranks, of the chain's inputs that only the chain reads. */
static int64_t
bytes_for(const struct fusion *l, const int32_t *member, int n)
{
    struct ref in[FUSE_STEPS * OP_OPERAND];
    const struct layout *want[FUSE_STEPS * OP_OPERAND];
    int64_t bytes = 0;
    for (int i = 0, nin = fusion_inputs(l, member, n, in, want); i < nin; i++)
        if (in[i].kind == REF_NODE && dies_in(l, in[i].index, member[n - 1]))
            bytes += type_bytes(&l->program->node[in[i].index].type[in[i].out]);
    return bytes;
}

/* Bytes of a chain's inputs that may stay in memory until the end of the chain, whatever the chain saves. That is
 * enough for scalars that are added up, for instance for the norm of all gradients. */
enum { WAITS_FREELY = 4096 };

/* Returns true if another task runs between nodes a and b: some node between the two belongs to neither of their
 * chains. */
static bool
work_between(const struct fusion *l, int32_t a, int32_t b)
{
    for (int32_t i = a + 1; i < b; i++)
        if (l->group[i] != b) return true;
    return false;
}

/* Joins the chain ending at a with the chain ending at b. Does nothing if the joined chain would have too many
 * members, break the order of nodes, or keep more bytes alive. */
static void
try_join(struct fusion *l, int32_t a, int32_t b)
{
    int32_t member[FUSE_STEPS], of_b[FUSE_STEPS], all[FUSE_STEPS];
    int nin, nout, size = l->group_size[a] + l->group_size[b];
    if (size > FUSE_STEPS) return;
    int n = fusion_members(l, a, member);
    for (int i = 0; i < n; i++)
        if (!readers_follow(l, member[i], b)) return;
    if (holds_up(l, member, n, a, b)) return;
    int64_t waiting = work_between(l, a, b) ? bytes_for(l, member, n) : 0;
    if (waiting > MAX(WAITS_FREELY, type_bytes(&l->program->node[a].type[0]))) return;
    for (int i = 0; i < n; i++) l->group[member[i]] = b;
    merge(member, n, of_b, fusion_members(l, b, of_b), all);
    count_ends(l, all, size, &nin, &nout);
    bool fits = nin <= CHAIN_INPUTS && nout <= CHAIN_OUTPUTS && lie_as_read(l, all, size);
    if (fits && (is_led(l, all, size) || is_followed(l, all, size))) {
        memcpy(l->member + (size_t)b * FUSE_STEPS, all, sizeof *all * (size_t)size);
        l->group_size[b] = size;
        return;
    }
    for (int i = 0; i < n; i++) l->group[member[i]] = a;
}

/* ---- groups of updates, and of casts ---- */

/* Returns the largest number of bytes that the variables of a group may have on one rank. The task of a group
 * accesses seven times as many bytes, because it also reads and writes optimiser state and gradients. All these
 * bytes pass through the caches. */
static int64_t
most_grouped(const struct prog_node *n)
{
    return device_kind(n->layout[0]->place->kind)->flags & COMPILES ? 32 << 20 : 1 << 20;
}

/* Returns true if the node casts a leaf to another dtype, in the leaf's layout. */
static bool
casts_leaf(const struct fusion *l, const struct prog_node *n)
{
    if (!fusible(n) || n->nin != 1 || n->in[0].kind != REF_LEAF || n->recompute) return false;
    return n->want[0] == l->program->leaf[n->in[0].index].layout &&
           call_follow(program_call(l->program, n, l->arena)) == FOLLOW_CAST;
}

bool
fusion_casts(const struct fusion *l, int32_t node)
{
    const struct prog_node *n = &l->program->node[node];
    bool ends = l->group[node] == node; /* true for the last node of a chain; a cast of a leaf cannot be part of a
                                           longer chain, because it reads only a leaf */
    return ends && !n->piece && device_kind(n->layout[0]->place->kind)->flags & COMPILES && casts_leaf(l, n);
}

static bool
groups(const struct fusion *l, int32_t i)
{
    const struct prog_node *n = &l->program->node[i];
    bool updates = n->op->flags & OP_UPDATE && device_kind(n->layout[0]->place->kind)->flags & FUSES && !n->piece;
    return updates || fusion_casts(l, i);
}

/* Returns true if two updates (or casts) have the same operator, attributes, dtypes and devices. */
static bool
nodes_alike(const struct fusion *l, int32_t a, int32_t b)
{
    const struct prog_node *x = &l->program->node[a], *y = &l->program->node[b];
    if (x->op != y->op || x->nin != y->nin || x->layout[0]->place != y->layout[0]->place) return false;
    for (int k = 0; k < x->nin; k++) {
        bool number = x->in[k].kind == REF_NUMBER;
        bool absent = x->in[k].kind == REF_NONE;
        if (number != (y->in[k].kind == REF_NUMBER) || absent != (y->in[k].kind == REF_NONE)) return false;
        if (number || absent) continue;
        if (ref_type(l->program, x->in[k]).dtype != ref_type(l->program, y->in[k]).dtype) return false;
    }
    return same_moment(l->stages, a, b) && l->stages->late[a] == l->stages->late[b] &&
           op_attr_same(x->op, x->attr, y->attr);
}

/* Returns the value whose memory r may share: follows r back through views and moves, to the value from which they
 * were made. */
static struct ref
source_behind(const struct program *p, struct ref r)
{
    while (r.kind == REF_NODE && p->node[r.index].op->flags & (OP_VIEW | OP_MOVE) && !p->node[r.index].accumulate)
        r = p->node[r.index].in[0];
    return r;
}

/* Returns true if y reads a result of x, or reads a value that x overwrites. */
static bool
reads_written(const struct program *p, const struct prog_node *y, int32_t x)
{
    for (int k = 0; k < y->nin; k++) {
        struct ref r = source_behind(p, y->in[k]);
        if (r.kind == REF_NODE && r.index == x) return true;
        for (int i = 0; i < p->node[x].op->ninplace && i < p->node[x].nin; i++) {
            struct ref over = source_behind(p, p->node[x].in[i]);
            if (r.kind != REF_NONE && ref_equal(r, over)) return true;
        }
    }
    return false;
}

static int64_t
bytes_here(const struct prog_node *n)
{
    struct type t = layout_shard(n->layout[0], &n->type[0], 0);
    return type_bytes(&t);
}

/* Returns true if the node is too large for a group. If an operand is moved for the node (a gradient that is
 * reduced or sliced), the operand stays in memory in its source layout until the group runs. So operands must be
 * small, too. */
static bool
is_large_node(const struct program *p, const struct prog_node *n)
{
    enum { SMALL = 16 };
    for (int k = 0; k < n->nin; k++) {
        if (n->in[k].kind != REF_NODE || n->want[k] == ref_layout(p, n->in[k])) continue;
        struct type whole = ref_type(p, n->in[k]), t = layout_shard(ref_layout(p, n->in[k]), &whole, 0);
        if (type_bytes(&t) > most_grouped(n) / SMALL) return true;
    }
    return bytes_here(n) > most_grouped(n);
}

/* Returns true if node b may join the group that ends at node a. */
static bool
may_group(const struct fusion *l, int32_t a, int32_t b)
{
    const struct program *p = l->program;
    struct ref in[FUSE_STEPS * OP_OPERAND];
    const struct layout *want[FUSE_STEPS * OP_OPERAND];
    int32_t member[FUSE_STEPS + 1];
    bool follows = !l->hoists || !fusion_casts(l, b);
    int n = fusion_members(l, a, member);
    int64_t bytes = bytes_here(&p->node[b]);
    member[n] = b;
    if (n == FUSE_STEPS || fusion_inputs(l, member, n + 1, in, want) > FUSE_INPUTS) return false;
    for (int i = 0; i < n; i++) {
        bytes += bytes_here(&p->node[member[i]]);
        if ((follows && !readers_follow(l, member[i], b)) || reads_written(p, &p->node[b], member[i]) ||
            reads_written(p, &p->node[member[i]], b))
            return false;
    }
    return bytes <= most_grouped(&p->node[b]);
}

static void
group_with(struct fusion *l, int32_t a, int32_t b)
{
    int32_t *of_a = l->member + (size_t)a * FUSE_STEPS, *of_b = l->member + (size_t)b * FUSE_STEPS;
    int32_t n = l->group_size[b] = l->group_size[a] + 1;
    memcpy(of_b, of_a, sizeof *of_b * (size_t)(n - 1));
    of_b[n - 1] = b;
    for (int i = 0; i < n; i++) l->group[of_b[i]] = b;
}

/* Groups updates and casts. Only one group of each kind is open at a time. A node that does not fit in the open
 * group begins the next group. A node that is too large for any group stays alone; the open group remains open.
 * Sliced updates (shared_update.h) are never grouped, because they are large. */
static void
group_updates(struct fusion *l)
{
    const struct program *p = l->program;
    int32_t *open = ARENA_ARRAY(l->arena, int32_t, p->nnode + 1), nopen = 0;
    const bool *shares = shared_update_nodes(p, l->arena);
    for (int32_t b = 0; b < p->nnode; b++) {
        int32_t i = 0;
        if (shares[b] || !groups(l, b) || is_large_node(p, &p->node[b])) continue;
        while (i < nopen && !nodes_alike(l, open[i], b)) i++;
        if (i < nopen && may_group(l, open[i], b)) group_with(l, open[i], b);
        open[i] = b;
        nopen = MAX(nopen, i + 1);
    }
}

/* ---- sums ---- */

/* Returns true if a product may add directly to its sum over micro-batches, because only the sum reads its results. */
static bool
adds(const struct fusion *l, int32_t i, const struct prog_node *sum)
{
    const struct prog_node *n = &l->program->node[i];
    return can_lead(n) && n->op->gpu.product && l->group[i] == i && n->piece && n->type[0].dtype == DT_F32 &&
           sum->type[0].dtype == DT_F32 && n->layout[0] == sum->layout[0];
}

static void
find_sums(struct fusion *l)
{
    const struct program *p = l->program;
    l->sum = program_sums(p, l->arena);
    for (int32_t i = 0; i < p->nnode; i++)
        if (l->sum[i] >= 0 && !adds(l, i, &p->node[l->sum[i]])) l->sum[i] = -1;
}

static void
join_nodes(struct fusion *l)
{
    const struct program *p = l->program;
    for (int32_t b = 0; b < p->nnode; b++) {
        const struct prog_node *n = &p->node[b];
        if (!fusible(n) && !can_follow(n)) continue;
        if (fusible(n) && has_beside(l, b)) try_join(l, b - 1, b);
        for (int k = 0; k < (fusible(n) ? n->nin : 1); k++)
            if (n->in[k].kind == REF_NODE && may_join_chain(l, n->in[k].index, b, k)) try_join(l, n->in[k].index, b);
    }
    group_updates(l);
}

void
fusion_nodes(struct fusion *l)
{
    const struct program *p = l->program;
    l->group = ARENA_ARRAY(l->arena, int32_t, p->nnode + 1);
    l->group_size = ARENA_ARRAY(l->arena, int32_t, p->nnode + 1);
    l->member = ARENA_ARRAY(l->arena, int32_t, (size_t)(p->nnode + 1) * FUSE_STEPS);
    fusion_list_readers(l);
    for (int32_t b = 0; b < p->nnode; b++) {
        l->group[b] = l->member[(size_t)b * FUSE_STEPS] = b;
        l->group_size[b] = 1;
    }
    /* with one operator per task, an error can name the operator that made the NaN */
    if (!p->find_nan) join_nodes(l);
    find_sums(l);
}
