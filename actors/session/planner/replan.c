/* replan.c - remembers the calls of a planned trace, and decides the form of each call in the next round. */
#include "actors/session/planner/replan.h"

#include "actors/session/planner/planned.h"
#include "actors/session/step/trace.h"
#include "actors/session/planner/call_cost.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

struct wish { /* layouts of a call's operands in an earlier plan; NULL: unchanged */
    const struct op *op;
    int nin;
    const struct layout **layout;
};
struct way {                 /* the form of a call in a round */
    const struct wish *wish; /* NULL: operands keep their layouts */
    bool whole;              /* in one piece, whatever the call moves */
};
struct written { /* a call that may be made of several operators */
    const struct op *op;
    int nin;
    struct val **in; /* held */
    struct attr attr[OP_ATTR];
    uint64_t spelled; /* hash of the operators of the call */
    bool parts;       /* in parts, which move fewer bytes */
};
struct past { /* a finished round, by call */
    int32_t n;
    int64_t step; /* cost of all calls */
    struct past_call {
        struct way way;
        uint64_t spelled;
        int64_t cost; /* as in call_cost.h: ns, or bytes while no plan fits */
        bool parts;
    } * call;
};
struct replan {
    struct planned_clock clock; /* clock of all rounds */
    int64_t begun;              /* work_done when this round began */
    int32_t round, nwritten, capacity, npast;
    struct written *written; /* calls traced in this round */
    struct way *way, other;  /* way: form of call 0 to nway - 1; other: of all later calls */
    int32_t nway;
    bool trying, whole_was;  /* trying: inside any_otherwise; whole_was: no whole round is due any more */
    bool mixed;              /* this is the mixed round */
    bool held;               /* past[npast] is a plan of this round over the limit */
    bool looked;             /* replan_look was asked */
    enum solve_mode rule[2]; /* rules that have rounds of their own, nrule; the current mode is rule[at], or the step's
                                if at == nrule */
    int32_t nrule, at;
    int64_t ruled; /* work_done after which no rule round begins */
    struct past past[REPLAN_MOST];
    struct rille_graph *best;
    int32_t best_past;    /* index in `past` of the best round; -1: without calls, or of another mode */
    struct way *best_way; /* forms of the calls of `best`, nbest */
    int32_t nbest;
    bool best_ruled;           /* `best` was planned by a rule, without a search */
    struct replan_least least; /* INT64_MAX: no round exceeded the limit */
    struct arena arena;        /* for ways, wishes and past rounds */
};

int64_t
replan_limit_ns(const struct rille_graph_options *o)
{
    return (int64_t)((o->time_limit > 0 ? MIN(o->time_limit, 1e9) : 1) * 1e9);
}

int64_t
replan_search_ns(const struct rille_graph_options *o)
{
    enum { BOUND_NS = 100000000 };
    bool simple = !strcmp(o->auto_parallel, "propagate") || !strcmp(o->auto_parallel, "greedy");
    return simple && !o->memory_limit && !(o->time_limit > 0) ? BOUND_NS : replan_limit_ns(o);
}

static bool
is_ruled(const struct replan *r)
{
    return r->at < r->nrule;
}

enum solve_mode
replan_mode(const struct rille_session *s, enum solve_mode mode, bool *rule)
{
    const struct replan *r = s->trace.rounds;
    *rule = r && is_ruled(r);
    return *rule ? r->rule[r->at] : mode;
}

const struct planned_clock *
replan_clock(const struct rille_session *s)
{
    return &s->trace.rounds->clock;
}

void
replan_end(struct rille_session *s, bool all)
{
    struct replan *r = s->trace.rounds;
    if (!r) return;
    for (int32_t k = 0; k < r->nwritten; k++) {
        for (int i = 0; i < r->written[k].nin; i++)
            if (r->written[k].in[i]) val_drop(s->graph, &r->written[k].in[i]);
        free(r->written[k].in);
    }
    r->nwritten = 0;
    if (!all) return;
    if (r->best) rille_graph_free(&r->best);
    arena_fini(&r->arena);
    free(r->written);
    free(r);
    s->trace.rounds = NULL;
    s->trace.forms = NULL;
}

bool
replan_have_best(const struct rille_session *s)
{
    return s->trace.rounds && s->trace.rounds->best;
}

/* Adds to the best plan the costs of each call in parts and in one piece, over all rounds. */
static void
tell_calls(const struct replan *r, struct assigned *a)
{
    if (r->best_past < 0) return;
    const struct past *best = &r->past[r->best_past];
    struct assign_call *call = ARENA_ARRAY(&a->arena, struct assign_call, best->n + 1);
    for (int32_t k = 0; k < best->n; k++) {
        struct assign_call *c = &call[k + 1];
        *c = (struct assign_call){-1, -1, best->call[k].parts};
        for (int32_t q = 0; q < r->npast; q++) {
            const struct past_call *x = k < r->past[q].n ? &r->past[q].call[k] : &best->call[k];
            int64_t *ns = x->parts ? &c->parts_ns : &c->whole_ns;
            if (*ns < 0 || x->cost < *ns) *ns = x->cost;
        }
        *(c->parts ? &c->parts_ns : &c->whole_ns) = best->call[k].cost;
    }
    a->ncall = best->n;
    a->call = call;
}

struct rille_graph *
replan_best(struct rille_session *s)
{
    struct rille_graph *best = s->trace.rounds ? s->trace.rounds->best : NULL;
    if (!best) return NULL;
    tell_calls(s->trace.rounds, best->assigned);
    if (s->trace.rounds->best_ruled)
        best->assigned->mode = SOLVE_OPTIMAL; /* no time was left for the step's own mode */
    s->trace.rounds->best = NULL;
    return best;
}

/* ---- while tracing ---- */

/* Returns the form of call k, from 0. */
static struct way
past_way(const struct replan *r, int32_t k)
{
    return k >= 0 && k < r->nway ? r->way[k] : r->other;
}

static bool
form_whole(const struct call_context *ctx)
{
    return ctx->s->trace.rounds && past_way(ctx->s->trace.rounds, ctx->call - 1).whole;
}

/* Only calls of the forward pass have forms: the forward pass is the same in each round, and gradients follow from
 * it. */
static bool
form_due(const struct call_context *ctx, const struct op *op)
{
    const struct replan *r = ctx->s->trace.rounds;
    return r && !r->trying && tracing(ctx->s) && !ctx->composite && !ctx->strategy && ctx->phase == PHASE_FORWARD &&
           (op->build || op->split_form);
}

/* Returns the requested layout of operand i; NULL: as it is. */
static const struct layout *
wished(const struct wish *w, const struct op *op, int nin, struct val *const *in, int i)
{
    if (w->op != op || w->nin != nin || !w->layout[i] || !in[i] || !in[i]->layout) return NULL;
    const struct layout *l = w->layout[i];
    if (l == in[i]->layout || l->place != in[i]->layout->place) return NULL;
    return layout_fits(l, &in[i]->type) ? (err_clear(), NULL) : l;
}

/* Moves the operands to the layouts of the request. */
static int
move_operands(const struct call_context *ctx, const struct wish *w, const struct op *op, int nin, struct val *const *in,
              struct val **moved)
{
    for (int i = 0; i < nin; i++) {
        const struct layout *l = w ? wished(w, op, nin, in, i) : NULL;
        moved[i] = in[i];
        if (l) TRY(build_to_global(ctx, in[i], l, &moved[i]));
    }
    return 0;
}

static void
remember_operands(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    struct replan *r = s->trace.rounds;
    GROW(r->written, r->nwritten + 1, r->capacity);
    struct written *w = &r->written[r->nwritten++];
    *w = (struct written){.op = op, .nin = nin, .spelled = s->trace.spelled, .parts = s->trace.parts};
    w->in = must_alloc(sizeof *w->in * (size_t)(nin + 1));
    for (int i = 0; i < nin; i++)
        if ((w->in[i] = in[i])) val_hold(in[i]);
    memcpy(w->attr, attr, sizeof *attr * (size_t)op_nattr(op));
}

/* Writes call k with its operands in the layouts of the request; `moved` receives the operands. */
static int
write_call(const struct call_context *ctx, int32_t k, const struct wish *w, const struct op *op, int nin,
           struct val *const *in, const struct attr *attr, struct val **moved, struct val **out)
{
    TRY(move_operands(ctx, w, op, nin, in, moved));
    struct call_context numbered = *ctx;
    numbered.call = k + 1;
    ctx->s->trace.spelled = 0;
    ctx->s->trace.parts = false;
    return build_written(&numbered, op, nin, moved, attr, out);
}

static int
form_call(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
          struct val **out)
{
    struct rille_session *s = ctx->s;
    int32_t k = s->trace.rounds->nwritten;
    struct val **moved = ARENA_ARRAY(&s->scratch, struct val *, nin + 1);
    TRY(write_call(ctx, k, past_way(s->trace.rounds, k).wish, op, nin, in, attr, moved, out));
    remember_operands(s, op, nin, moved, attr);
    return 0;
}

static const struct call_forms forms = {.due = form_due, .call = form_call, .whole = form_whole};

void
replan_begin(struct rille_session *s, const struct rille_graph_options *o)
{
    if (!s->trace.rounds) {
        s->trace.rounds = must_alloc(sizeof *s->trace.rounds);
        s->trace.rounds->clock = planned_clock(s, replan_search_ns(o));
        s->trace.rounds->least = (struct replan_least){INT64_MAX, {INT64_MAX, INT64_MAX}};
    }
    s->trace.forms = &forms;
    s->trace.rounds->begun = work_done();
}

/* ---- after the plan ---- */

/* Returns the layout of a traced value in the plan; NULL: the value is not computed there, or is partial. */
static const struct layout *
planned_layout(const struct rille_session *s, const struct program *p, const int32_t *became, const struct val *v)
{
    const struct collection *c = &s->collection;
    const struct layout *l = NULL;
    if (!v || v->is_number) return NULL;
    if (!v->node && v->index >= 0 && v->index < c->nleaf && c->leaf[v->index] == v) l = p->leaf[v->index].layout;
    if (v->node && v->node->index >= 0 && v->node->index < c->nnode && c->node[v->node->index] == v->node)
        l = p->node[became[v->node->index]].layout[v->out];
    return l && !layout_has_partial(l) ? l : NULL;
}

/* Returns, by call, a request for the layouts in the plan. */
static struct way *
wish_for(struct rille_session *s, const struct program *p)
{
    struct replan *r = s->trace.rounds;
    const int32_t *became = trace_became(s);
    struct way *way = ARENA_ARRAY(&r->arena, struct way, r->nwritten + 1);
    for (int32_t k = 0; k < r->nwritten; k++) {
        const struct written *w = &r->written[k];
        struct wish *x = ARENA_NEW(&r->arena, struct wish);
        *x = (struct wish){.op = w->op, .nin = w->nin};
        x->layout = ARENA_ARRAY(&r->arena, const struct layout *, w->nin + 1);
        for (int i = 0; i < w->nin; i++) x->layout[i] = planned_layout(s, p, became, w->in[i]);
        way[k].wish = x;
    }
    return way;
}

/* Writes call k once more with the requested layouts. Returns true if that takes other operators. */
static bool
is_otherwise(struct rille_session *s, int32_t k, const struct wish *x)
{
    const struct written *w = &s->trace.rounds->written[k];
    struct val *out[OP_OUT], **moved = ARENA_ARRAY(&s->scratch, struct val *, w->nin + 1);
    bool same = true;
    for (int i = 0; i < w->nin; i++) same = same && !wished(x, w->op, w->nin, w->in, i);
    if (same) return false;
    int status = write_call(&s->context, k, x, w->op, w->nin, w->in, w->attr, moved, out);
    if (status) err_clear();
    return !status && s->trace.spelled != w->spelled;
}

static bool
any_otherwise(struct rille_session *s, const struct way *way)
{
    struct replan *r = s->trace.rounds;
    bool paused = rille_trace_pause(s, false), any = false;
    r->trying = true;
    for (int32_t k = 0; k < r->nwritten && !any; k++) any = is_otherwise(s, k, way[k].wish);
    r->trying = false;
    rille_trace_pause(s, paused);
    return any;
}

bool
replan_look(struct rille_session *s, const struct rille_graph_options *o)
{
    enum { SHARE = 4, ROUNDS = 2 * REPLAN_MOST }; /* rules may use 1 / SHARE of the time; their rounds at most */
    struct replan *r = s->trace.rounds;
    if (!r || r->looked || !r->nwritten || o->memory_limit) return false;
    int64_t now = work_done();
    r->looked = true;
    r->ruled = now + (r->clock.until - now) / SHARE;
    return (now - r->begun) * ROUNDS <= r->ruled - now;
}

bool
replan_glance(void *session, enum solve_mode mode, const struct program *p)
{
    struct rille_session *s = session;
    struct replan *r = s->trace.rounds;
    if (any_otherwise(s, wish_for(s, p))) r->rule[r->nrule++] = mode;
    return r->nrule > 0;
}

/* Requests another round with the plan's layouts, if some call would then be made of other operators. */
static bool
try_there(struct rille_session *s, const struct rille_graph *g)
{
    struct replan *r = s->trace.rounds;
    struct way *way = wish_for(s, g->runner->plan->program);
    if (!any_otherwise(s, way)) return false;
    r->way = way;
    r->nway = r->nwritten;
    return true;
}

static void
keep_best_plan(struct replan *r, struct rille_graph **g)
{
    int64_t cost = (*g)->assigned->solved.cost;
    bool searched = r->best_ruled && !is_ruled(r); /* a search also has a better bound */
    if (r->best && r->best->assigned->solved.cost <= cost - searched) {
        rille_graph_free(g);
        return;
    }
    if (r->best) rille_graph_free(&r->best);
    r->best = *g;
    r->best_past = r->npast - 1;
    r->best_ruled = is_ruled(r);
    r->nbest = r->best_ruled ? r->past[r->best_past].n : 0; /* a rule round comes first only if there are calls */
    r->best_way = ARENA_ARRAY(&r->arena, struct way, r->nbest + 1);
    for (int32_t k = 0; k < r->nbest; k++) r->best_way[k] = r->past[r->best_past].call[k].way;
    *g = NULL;
}

static bool
has_parts(const struct replan *r)
{
    for (int32_t k = 0; k < r->nwritten; k++)
        if (r->written[k].parts) return true;
    return false;
}

bool
replan_follow(const struct rille_session *s)
{
    const struct replan *r = s->trace.rounds;
    return r && has_parts(r) && !r->whole_was;
}

/* Requests a whole round, if there was none and this round made some call in parts. */
static bool
try_whole(struct rille_session *s)
{
    struct replan *r = s->trace.rounds;
    bool due = replan_follow(s);
    r->whole_was = true;
    if (!due) return false;
    r->nway = 0;
    r->other.whole = true;
    return true;
}

/* Records the costs of this round: of the step, and of each call (cost[1] is the first). */
static void
write_past(struct replan *r, int64_t step, const int64_t *cost)
{
    struct past *p = &r->past[r->npast];
    *p = (struct past){.n = r->nwritten, .step = step};
    p->call = ARENA_ARRAY(&r->arena, struct past_call, p->n);
    for (int32_t k = 0; k < p->n; k++)
        p->call[k] = (struct past_call){past_way(r, k), r->written[k].spelled, cost[k + 1], r->written[k].parts};
}

static void
keep_past(struct rille_session *s, const struct rille_graph *g)
{
    struct replan *r = s->trace.rounds;
    if (!r->best) r->npast = 0; /* earlier rounds exceeded the limit */
    if (!r->nwritten) return;
    int64_t *ns = ARENA_ARRAY(&s->scratch, int64_t, r->nwritten + 1);
    call_cost_times(g->assigned, g->runner->plan->program, r->nwritten, ns);
    write_past(r, g->assigned->solved.cost, ns);
    r->npast++;
}

void
replan_hold(struct rille_session *s, const struct rille_graph *g, int64_t held)
{
    struct replan *r = s->trace.rounds;
    if (!r || !r->nwritten || (r->held && r->past[r->npast].step <= held)) return;
    int64_t *bytes = ARENA_ARRAY(&s->scratch, int64_t, r->nwritten + 1);
    call_cost_bytes(g->assigned, g->traced, r->nwritten, bytes);
    write_past(r, held, bytes);
    r->held = true;
}

/* Returns the round in which call k cost least; if equal, the one with the cheaper plan. */
static int32_t
cheapest_call(const struct replan *r, int32_t k)
{
    int32_t best = 0;
    for (int32_t q = 1; q < r->npast; q++) {
        const struct past *x = &r->past[q], *y = &r->past[best];
        if (x->call[k].cost < y->call[k].cost || (x->call[k].cost == y->call[k].cost && x->step < y->step)) best = q;
    }
    return best;
}

/* Returns true if round p makes each call of the same operators as the call's cheapest round. */
static bool
is_mixed_so(const struct replan *r, const struct past *p)
{
    for (int32_t k = 0; k < p->n; k++)
        if (r->past[cheapest_call(r, k)].call[k].spelled != p->call[k].spelled) return false;
    return true;
}

/* Requests the mixed round, if no round was like that. */
static bool
try_mixed(struct replan *r)
{
    for (int32_t q = 0; q < r->npast; q++)
        if (r->past[q].n != r->past[0].n || is_mixed_so(r, &r->past[q])) return false;
    if (!r->npast) return false;
    r->mixed = true;
    r->nway = r->past[0].n;
    r->way = ARENA_ARRAY(&r->arena, struct way, r->nway);
    for (int32_t k = 0; k < r->nway; k++) r->way[k] = r->past[cheapest_call(r, k)].call[k].way;
    return true;
}

/* Returns true if no time is left for another round. The part of a round that no clock can end (trace, net, plan) is
 * at least an eighth of the last round, or the complete round if a rule chooses. */
static bool
is_clock_over(struct replan *r)
{
    int64_t now = work_done(), last = now - r->begun;
    if (is_ruled(r) && r->ruled - now < last) return true;
    return planned_is_late(&r->clock) || r->clock.until - now < (is_ruled(r) ? last : last / 8);
}

/* Ends the rounds of a rule: begins those of the next rule, or the step's own with the calls of the best round. */
static bool
next_mode(struct replan *r)
{
    if (!is_ruled(r)) return false;
    r->at = is_clock_over(r) ? r->nrule : r->at + 1;
    r->way = is_ruled(r) ? NULL : r->best_way;
    r->nway = is_ruled(r) ? 0 : r->nbest;
    r->other = (struct way){0};
    r->round = r->npast = 0;
    r->mixed = r->whole_was = false;
    r->best_past = -1; /* past rounds are of another mode */
    return true;
}

/* Decides whether another round is worth the time, and in which forms. */
static bool
find_another(struct rille_session *s, const struct rille_graph *g)
{
    struct replan *r = s->trace.rounds;
    if (r->mixed || is_clock_over(r)) return false;
    if (!has_parts(r)) r->whole_was = true;
    int32_t left = REPLAN_MOST - 1 - r->round;
    bool last_whole = left == 1 && !r->whole_was; /* the last round before the mixed one must be whole if none was */
    if (left > 0 && ((!r->other.whole && !last_whole && try_there(s, g)) || try_whole(s))) return true;
    return try_mixed(r);
}

bool
replan_after_failure(struct rille_session *s)
{
    struct replan *r = s->trace.rounds;
    if (!r || r->best || r->mixed || r->round++ == REPLAN_MOST - 1) return false;
    r->npast += r->held;
    r->held = false;
    return try_whole(s) || try_mixed(r);
}

struct replan_least
replan_least(struct rille_session *s, const struct replan_least *here)
{
    if (!s->trace.rounds) return *here;
    struct replan_least *l = &s->trace.rounds->least;
    l->held = MIN(l->held, here->held);
    l->counted.bytes = MIN(l->counted.bytes, here->counted.bytes);
    l->counted.floor = MIN(l->counted.floor, here->counted.floor);
    return *l;
}

bool
replan_again(struct rille_session *s, struct rille_graph **g)
{
    struct replan *r = s->trace.rounds;
    if (!r) return false;
    r->round++;
    keep_past(s, *g);
    bool another = find_another(s, *g);
    keep_best_plan(r, g);
    if (!another) another = next_mode(r);
    if (!another) *g = replan_best(s);
    return another;
}
