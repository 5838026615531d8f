/* price.c - cost model of the planner: the compute time of nodes, and the time of moves between layouts. */
#include "actors/plan/assign/price.h"

#include "sbp/strategy.h"
#include "boxing/bytes.h"

#include <math.h>
#include <string.h>

/* Sets the cost NET_NEVER for candidates that do not split the operands as the strategy demands. */
static void
forbid(const struct program *p, const struct prog_node *n, const struct candidate_list *l, int64_t *cost)
{
    struct type in[STRATEGY_OPERAND * 2];
    const struct layout *layout[STRATEGY_OPERAND * 2];
    if (!n->strategy || n->nin > STRATEGY_OPERAND * 2) return;
    for (int i = 0; i < n->nin; i++) {
        in[i] = ref_type(p, n->in[i]);
        layout[i] = ref_layout(p, n->in[i]);
    }
    struct call c = {.op = n->op, .nin = n->nin, .in = in, .layout = layout};
    for (int32_t k = 0; k < l->n; k++)
        if (!strategy_fits(n->strategy, &c, l->candidate[k].layout)) cost[k] = NET_NEVER;
}

void
candidates_work(const struct program *p, const struct prog_node *n, const struct candidate_list *l,
                const struct compute_rates *r, int64_t times, int64_t *cost)
{
    double whole = MAX(l->flops / r->flops_per_ns, l->bytes / r->bytes_per_ns);
    for (int32_t k = 0; k < l->n && !(n->op->flags & OP_VIEW); k++) {
        double ns = (r->act_ns + whole * l->candidate[k].share) * (double)times;
        cost[k] = ns >= 1e17 ? NET_NEVER - 1 : (int64_t)ceil(ns);
    }
    forbid(p, n, l, cost);
}

/* Returns true if the planner may insert this move. A partial result is allowed on a mesh axis if the source has
 * the same partial entry there. A partial sum is also allowed if the source is replicated there. All other moves to
 * partial layouts need a request of the user. */
static bool
may_move(const struct layout *from, const struct layout *to)
{
    if (layout_partial(to) == RED_NONE) return true;
    if (from->place != to->place || memcmp(from->order, to->order, sizeof from->order)) return false;
    for (int a = 0; a < to->place->naxis; a++) {
        struct sbp x = from->sbp[a], y = to->sbp[a];
        if (y.kind != SBP_P || to->place->axis[a] == 1) continue;
        if (x.kind == SBP_P && x.reduce == y.reduce) continue;
        if (x.kind != SBP_B || y.reduce != RED_SUM) return false;
    }
    return true;
}

/* Returns true if the mesh axis has the same entry in both layouts, so that the move does not use it. */
static bool
axis_stays(const struct layout *from, const struct layout *to, int a)
{
    struct sbp x = from->sbp[a], y = to->sbp[a];
    return from->place == to->place && x.kind == y.kind && x.axis == y.axis && x.reduce == y.reduce && x.unit == y.unit;
}

int
assign_axis(const struct layout *from, const struct layout *to, const struct assign_links *links)
{
    int slow = -1;
    for (int a = 0; a < to->place->naxis; a++) {
        if (axis_stays(from, to, a) || (from->place == to->place && to->place->axis[a] == 1)) continue;
        if (slow < 0 || (links && links->beta_ns_per_byte[a] > links->beta_ns_per_byte[slow])) slow = a;
    }
    return slow;
}

static double
alpha_of(const struct assign_prices *p, int axis)
{
    return p->links ? p->links->alpha_ns[axis] : p->cost->alpha_ns;
}

/* Returns the latency of a move, ns. A move from another placement has at least the latency of one message. */
double
assign_latency(const struct assign_prices *p, const struct layout *from, const struct layout *to)
{
    double alpha = 0;
    for (int a = 0; a < to->place->naxis; a++)
        if (!axis_stays(from, to, a)) alpha += alpha_of(p, a) * (to->place->axis[a] - 1);
    return from->place != to->place && to->place->nrank == 1 ? alpha_of(p, assign_axis(from, to, p->links)) : alpha;
}

/* Returns the transfer time of a move, ns. The bytes per rank are the mean over the ranks: `bytes`, which all ranks
 * receive together, divided by the number of ranks. If shards are equal, the mean is also the maximum. The slowest
 * mesh axis that the move uses limits the rate. */
double
assign_sending(const struct assign_prices *p, const struct layout *from, const struct layout *to, int64_t bytes)
{
    const struct assign_links *links = p->links;
    int slow = assign_axis(from, to, links);
    double beta = !links ? p->cost->beta_ns_per_byte : slow < 0 ? 0 : links->beta_ns_per_byte[slow];
    return beta * (double)bytes / to->place->nrank;
}

int64_t
assign_price_part(const struct assign_prices *p, const struct type *t, const struct layout *from,
                  const struct layout *to, int64_t part, bool asked, int64_t *bytes)
{
    *bytes = 0;
    if (from == to) return 0;
    if (!asked && !may_move(from, to)) return NET_NEVER;
    int64_t all = box_bytes_known(t, from, to, p->known);
    if (all == INT64_MAX) return NET_NEVER;
    if (box_renames(t, from, to, all)) return 0; /* the move only renames the layout */
    *bytes = all;
    double own = (double)part, ns = p->cost->hop_ns + p->cost->copy_ns_per_byte * own;
    if (layout_partial(from) != RED_NONE && layout_partial(to) == RED_NONE)
        ns += p->cost->gamma_ns_per_byte * (own + (double)all / to->place->nrank);
    if (all > 0) ns += assign_latency(p, from, to) + assign_sending(p, from, to, all);
    return ns >= 1e17 ? NET_NEVER : (int64_t)ceil(ns);
}

int64_t
assign_price(const struct assign_prices *p, const struct type *t, const struct layout *from, const struct layout *to,
             bool asked, int64_t *bytes)
{
    return assign_price_part(p, t, from, to, assign_part(t, to), asked, bytes);
}

int64_t
assign_part(const struct type *t, const struct layout *l)
{
    struct type local = layout_shard(l, t, 0);
    return type_bytes(&local);
}

int64_t
assign_aligned(int64_t part)
{
    enum { ALIGN = 64 };
    return (part + ALIGN - 1) & ~(int64_t)(ALIGN - 1);
}

int64_t
assign_register(const struct type *t, const struct layout *l)
{
    return assign_aligned(assign_part(t, l));
}
