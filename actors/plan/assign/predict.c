/* predict.c - predicts the time of a planned step. Divides the planner's costs into work of pipeline stages and
 * one-time work, and simulates the pipeline. */
#include "actors/plan/assign/predict.h"
#include "actors/plan/assign/price.h"

#include "actors/plan/sim/pipeline.h"
#include "actors/plan/rewrite/rewrite.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <math.h>
#include <string.h>

/* A conversion of a value to a layout, made once for all readers. reader: work on the reader's lane, ns over all
 * acts; links: transfer between lanes, ns over all acts; latency: delay of one transfer, ns. */
struct move {
    struct ref value;
    const struct layout *to;
    int32_t node; /* first reader */
    bool piece;   /* runs once per micro-batch */
    double reader, links, latency;
    double done; /* time at which a one-time move is done, ns */
};

struct site { /* A placement in the simulation, and its lane. Placements that share devices have one lane. */
    const struct place *place;
    int32_t lane;
};

struct predicting {
    const struct program *p;
    const struct assigned *a;
    struct assign_prices prices;
    struct stages stages;
    struct pipeline line;
    struct site *site;
    /* nsite: number of entries in `site`; site_capacity: allocated entries; nlane: number of lanes, the stages'
     * lanes first */
    int32_t nsite, site_capacity, nlane;
    struct hash_table moves;
    /* by operand, operand k of a node at first_read[node] + k: the move that converts it; NULL: none */
    struct move **reads;
    int32_t *first_read;
    bool *late;    /* by node: true if it runs once, after all micro-batches, because it reads their results */
    double *ready; /* by lane: time until which the lane is busy so far, ns */
    double *done;  /* by late node: time at which it is done, ns */
    struct arena arena;
};

/* ---- lanes ---- */

static int32_t
place_lane(struct predicting *w, const struct place *place)
{
    for (int32_t i = 0; i < w->nsite; i++)
        if (w->site[i].place == place) return w->site[i].lane;
    int32_t lane = -1;
    for (int32_t i = 0; i < w->nsite && lane < 0; i++)
        if (stages_meet(w->site[i].place, place)) lane = w->site[i].lane;
    ARENA_GROW(&w->arena, w->site, w->nsite + 1, w->site_capacity);
    w->site[w->nsite++] = (struct site){place, lane < 0 ? w->nlane++ : lane};
    return w->site[w->nsite - 1].lane;
}

static int32_t
lane_of_node(struct predicting *w, int32_t i)
{
    return place_lane(w, w->p->node[i].layout[0]->place);
}

/* Numbers the lanes: first the lanes of stages, as in the pipeline. */
static void
find_sites(struct predicting *w)
{
    const int32_t *lane = pipeline_lanes(&w->stages, &w->nlane, &w->arena);
    for (int32_t q = 0; q < w->stages.n; q++) {
        if (!w->stages.place[q]) continue;
        ARENA_GROW(&w->arena, w->site, w->nsite + 1, w->site_capacity);
        w->site[w->nsite++] = (struct site){w->stages.place[q], lane[q]};
    }
    for (int32_t i = 0; i < w->p->nnode; i++) lane_of_node(w, i);
    for (int32_t i = 0; i < w->p->nleaf; i++) place_lane(w, w->p->leaf[i].layout->place);
}

/* ---- moves ---- */

static bool
once_a_piece(const struct program *p, struct ref r)
{
    return r.kind == REF_LEAF ? p->leaf[r.index].piece : p->node[r.index].piece && !p->node[r.index].accumulate;
}

static void
price_predicted_move(struct predicting *w, struct move *m, const struct layout *from)
{
    const struct prog_node *n = &w->p->node[m->node];
    struct type type = ref_type(w->p, m->value);
    int64_t bytes, times = m->piece ? w->p->pieces : 1;
    double all = (double)assign_price(&w->prices, &type, from, m->to, n->asked, &bytes);
    bool far = bytes > 0 && m->value.kind == REF_NODE && place_lane(w, from->place) != place_lane(w, m->to->place);
    m->latency = far ? MIN(all, assign_latency(&w->prices, from, m->to)) : 0;
    m->links = far ? MIN(all - m->latency, assign_sending(&w->prices, from, m->to, bytes)) * (double)times : 0;
    m->reader = (all - m->latency) * (double)times - m->links;
}

/* Returns the move that converts operand k of node i; NULL: no conversion is needed. Readers that need a value in
 * the same layout share a move. A fetch or a repeated gather is never shared. */
static struct move *
predicted_move(struct predicting *w, int32_t i, int32_t k)
{
    const struct prog_node *n = &w->p->node[i];
    const struct layout *to = n->op->flags & OP_MOVE ? n->layout[0] : n->want[k], *from = ref_layout(w->p, n->in[k]);
    if (!to || !from || to == from) return NULL;
    struct ref r = program_source(w->p, n->in[k]);
    from = ref_layout(w->p, r);
    uint64_t hash = hash_number(hash_number(hash_address(to), (uint64_t)r.kind << 8 | r.out), (uint64_t)r.index);
    uint32_t at = 0;
    struct move *m;
    while (!n->again && (m = hash_next(&w->moves, hash, &at)))
        if (m->to == to && ref_equal(m->value, r)) return m;
    m = ARENA_NEW(&w->arena, struct move);
    *m = (struct move){.value = r, .to = to, .node = i, .piece = n->again ? n->piece : once_a_piece(w->p, r)};
    price_predicted_move(w, m, from);
    if (!n->again) hash_add(&w->moves, hash, m);
    return m;
}

static void
find_moves(struct predicting *w)
{
    const struct program *p = w->p;
    int32_t n = 0;
    w->first_read = ARENA_ARRAY(&w->arena, int32_t, p->nnode + 1);
    for (int32_t i = 0; i < p->nnode; i++) {
        w->first_read[i] = n;
        n += p->node[i].nin;
    }
    w->reads = ARENA_ARRAY(&w->arena, struct move *, n + 1);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++) w->reads[w->first_read[i] + k] = predicted_move(w, i, k);
}

/* Returns the move that converts operand k of node i, but only if node i is the first reader of the move and k its
 * first operand; else NULL. So a loop over all operands finds each move once. */
static struct move *
moves_first(const struct predicting *w, int32_t i, int32_t k)
{
    struct move *m = w->reads[w->first_read[i] + k];
    for (int32_t j = 0; j < k && m; j++)
        if (w->reads[w->first_read[i] + j] == m) return NULL;
    return m && m->node == i ? m : NULL;
}

/* ---- work ---- */

/* Returns the compute time of all acts of a node, ns. */
static double
predicted_work(const struct predicting *w, int32_t i)
{
    int32_t node = i < w->a->nprog ? w->a->node[i] : -1;
    return node < 0 ? 0 : (double)w->a->net.node[node].cost[w->a->solved.choice[node]];
}

static void
predict_find_late(struct predicting *w)
{
    const struct program *p = w->p;
    w->late = ARENA_ARRAY(&w->arena, bool, p->nnode + 1);
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && !p->node[i].piece; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind == REF_NODE) w->late[i] = w->late[i] || w->late[r.index] || p->node[r.index].piece;
        }
}

/* Sets the stages' compute times and link times per micro-batch. Without a backward pass the simulator runs forward
 * acts only, so all work counts as forward. */
static void
share_out_work(struct predicting *w, const double *work, const double *links)
{
    struct pipeline *l = &w->line;
    bool any = false;
    l->wire = arena_alloc(&w->arena, sizeof *l->wire * (size_t)l->n);
    memset(l->cost, 0, sizeof *l->cost * (size_t)l->n);
    for (int32_t k = 0; k < NACT * l->n; k++) {
        int act = l->trained ? k % NACT : PHASE_FORWARD;
        l->cost[k / NACT][act] += llround(work[k] / l->pieces);
        l->wire[k / NACT][act] += llround(links[k] / l->pieces);
        any = any || l->cost[k / NACT][act];
    }
    if (!any) l->cost[0][PHASE_FORWARD] = 1;
}

/* Adds a move that runs once per micro-batch to the stages. The reader's part of the time counts for the reader's
 * stage, the link time for the stage of the source. The latency of a hop in the pipeline becomes at least the
 * move's latency. */
static void
deal_move(struct predicting *w, const struct move *m, double *work, double *links)
{
    int32_t to = w->stages.stage[m->node] * NACT + w->stages.phase[m->node];
    if (w->stages.phase[m->node] < NACT) work[to] += m->reader;
    if (m->value.kind != REF_NODE || w->stages.phase[m->value.index] >= NACT) return;
    links[w->stages.stage[m->value.index] * NACT + w->stages.phase[m->value.index]] += m->links;
    w->line.hop = MAX(w->line.hop, llround(m->latency));
}

/* Divides the work of all nodes and moves. Work that runs once per micro-batch is added to its stage; one-time work
 * before the first micro-batch is added to its lane. */
static void
deal_costs(struct predicting *w)
{
    const struct program *p = w->p;
    double *work = ARENA_ARRAY(&w->arena, double, NACT * w->line.n), *before = w->ready;
    double *links = ARENA_ARRAY(&w->arena, double, NACT * w->line.n);
    for (int32_t i = 0; i < p->nnode; i++) {
        bool piece = p->node[i].piece && w->stages.phase[i] < NACT;
        if (piece) work[w->stages.stage[i] * NACT + w->stages.phase[i]] += predicted_work(w, i);
        if (!piece && !w->late[i]) before[lane_of_node(w, i)] += predicted_work(w, i);
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            const struct move *m = moves_first(w, i, k);
            if (m && m->piece) deal_move(w, m, work, links);
            if (m && !m->piece && !w->late[i]) before[lane_of_node(w, i)] += m->reader + m->links + m->latency;
        }
    }
    share_out_work(w, work, links);
    w->line.begin = ARENA_ARRAY(&w->arena, int64_t, w->nlane);
    for (int32_t k = 0; k < w->line.nlane; k++) w->line.begin[k] = llround(before[k]);
}

/* ---- simulation ---- */

/* Simulates all micro-batches. Sets ready[lane] to the end of the lane's work. */
static int
play_pieces(struct predicting *w)
{
    static const struct pipeline_sim_aim any = {INT64_MAX, INT64_MAX, 0, INT64_MAX, INT32_MAX};
    struct pipeline_sim_rule rule = pipeline_rule(w->p, &w->stages, &w->arena);
    struct pipeline_sim_result r = {.peak = ARENA_ARRAY(&w->arena, struct prog_pool, w->line.n),
                                    .end = ARENA_ARRAY(&w->arena, int64_t, w->line.nlane)};
    pipeline_sim_run(simulator_open(&w->line, &w->arena), &rule, w->stages.pool, &any, &r);
    if (r.time == 0) return fail(E_PLAN, "internal error: a schedule of %d stages does not end", (int)w->line.n);
    for (int32_t k = 0; k < w->line.nlane; k++) w->ready[k] = (double)r.end[k];
    return 0;
}

/* Returns the time at which the node that computes value r is done, ns. */
static double
made_at(struct predicting *w, struct ref r)
{
    if (r.kind != REF_NODE) return 0;
    return w->late[r.index] ? w->done[r.index] : w->p->node[r.index].piece ? w->ready[lane_of_node(w, r.index)] : 0;
}

/* Simulates the nodes that run after all micro-batches, in program order. Each runs on its lane once its operands
 * have arrived. */
static void
play_late(struct predicting *w)
{
    const struct program *p = w->p;
    for (int32_t i = 0; i < p->nnode; i++) {
        if (!w->late[i]) continue;
        double *ready = &w->ready[lane_of_node(w, i)], there = 0;
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct move *m = moves_first(w, i, k), *has = w->reads[w->first_read[i] + k];
            if (m) {
                double sent = made_at(w, m->value) + m->latency + m->links;
                m->done = *ready = MAX(*ready, sent) + m->reader;
            }
            there = MAX(there, has ? has->done : made_at(w, p->node[i].in[k]));
        }
        w->done[i] = *ready = MAX(*ready, there) + predicted_work(w, i);
    }
}

static int64_t
predicted_time(struct predicting *w)
{
    double most = 0;
    for (int32_t k = 0; k < w->nlane; k++) most = MAX(most, w->ready[k]);
    return llround(most);
}

/* ---- memory ---- */

/* Returns the lane of each net node. */
static int32_t *
net_lanes(struct predicting *w)
{
    const struct assigned *a = w->a;
    int32_t *lane = ARENA_ARRAY(&w->arena, int32_t, a->net.nnode + 1);
    for (int32_t v = 0; v < a->net.nnode; v++)
        if (a->form[v]) lane[v] = place_lane(w, a->form[v][a->solved.choice[v]]->place);
    for (int32_t i = 0; i < MIN(a->nprog, w->p->nnode); i++)
        if (a->node[i] >= 0) lane[a->node[i]] = lane_of_node(w, i);
    return lane;
}

/* Shortens the lifetime of a tensor on one lane to its uses by readers on that lane. */
static void
only_uses(struct net_tensor *t, const int32_t *of, int32_t lane, struct arena *a)
{
    struct net_use *use = ARENA_ARRAY(a, struct net_use, t->nuse + 1);
    int32_t n = 0;
    for (int32_t k = 0; k < t->nuse; k++)
        if (of[t->use[k].node] == lane) use[n++] = t->use[k];
    t->use = use;
    t->nuse = n;
}

/* Returns the peak of bytes on a lane. Counts the values made on the lane, and the copies converted for readers
 * on the lane. */
static int64_t
peak_on(const struct assigned *a, const int32_t *of, int32_t lane)
{
    struct arena tmp = {0};
    struct net own = a->net;
    own.node = arena_dup(&tmp, own.node, sizeof *own.node * (size_t)own.nnode);
    own.tensor = arena_dup(&tmp, own.tensor, sizeof *own.tensor * (size_t)own.ntensor);
    for (int32_t v = 0; v < own.nnode; v++)
        if (of[v] != lane) own.node[v].memory = NULL;
    for (int32_t i = 0; i < own.ntensor; i++) {
        if (of[own.tensor[i].maker] != lane) own.tensor[i].bytes = NULL;
        only_uses(&own.tensor[i], of, lane, &tmp);
    }
    int64_t bytes = net_peak(&own, a->solved.choice);
    arena_fini(&tmp);
    return bytes;
}

static int64_t
peak_of(struct predicting *w)
{
    const int32_t *of = net_lanes(w);
    int64_t peak = 0;
    for (int32_t lane = 0; lane < w->nlane; lane++) {
        int64_t bytes = peak_on(w->a, of, lane);
        peak = MAX(peak, bytes);
    }
    return peak;
}

/* ---- interface ---- */

static int
foretell(struct predicting *w, struct assigned *a)
{
    struct hash_table known = {.arena = &w->arena};
    w->moves.arena = &w->arena;
    w->prices = (struct assign_prices){.cost = &w->p->cost, .links = a->links, .known = &known};
    TRY(stages_find(&w->stages, w->p, &w->arena));
    find_sites(w);
    if (w->nlane > 1) a->peak = peak_of(w);
    if (w->p->pieces == 1 || w->nlane == 1) return 0;
    w->ready = ARENA_ARRAY(&w->arena, double, w->nlane);
    w->done = ARENA_ARRAY(&w->arena, double, w->p->nnode + 1);
    pipeline_find(&w->line, w->p, &w->stages, NULL, &w->arena);
    find_moves(w);
    predict_find_late(w);
    deal_costs(w);
    TRY(play_pieces(w));
    play_late(w);
    a->time = predicted_time(w);
    return 0;
}

int
predict(const struct program *p, struct assigned *a)
{
    struct predicting w = {.p = p, .a = a};
    a->time = a->solved.cost;
    a->peak = a->solved.peak;
    int status = foretell(&w, a);
    arena_fini(&w.arena);
    return status;
}
