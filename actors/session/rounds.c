/* rounds.c - calls of a planned trace, remembered; where the next round has their operands. */
#include "actors/session/rounds.h"

#include "actors/plan/assign.h"
#include "runtime/clock.h"

#include <stdlib.h>
#include <string.h>

struct written { /* a call that may be made of several operators */
    const struct op *op;
    int nin;
    struct val **in; /* held */
    struct attr attr[OP_ATTR];
    uint64_t spelled; /* which operators it was made of */
    bool parts;       /* for the bytes that it moves */
};
struct wish { /* where the operands of the call of the same number lay in the plan before; NULL: as they do */
    const struct op *op;
    int nin;
    const struct layout **layout;
};
struct rounds {
    int64_t deadline, begun; /* computed_ns: of all rounds, and of this one */
    int32_t round, nwritten, capacity, nwish;
    struct written *written;       /* of this round's trace */
    struct wish *wish;             /* of the round before */
    bool trying, whole, whole_was; /* this round makes calls in one piece; so did one before */
    struct rille_graph *best;
    struct rounds_least least; /* INT64_MAX: no round held too much */
};

int64_t
rounds_limit_ns(double time_limit)
{
    return (int64_t)((time_limit > 0 ? MIN(time_limit, 1e9) : 1) * 1e9);
}

void
rounds_begin(struct rille_session *s, double time_limit)
{
    int64_t now = computed_ns();
    if (!s->rounds) {
        s->rounds = must_alloc(sizeof *s->rounds);
        s->rounds->deadline = now + rounds_limit_ns(time_limit);
        s->rounds->least = (struct rounds_least){INT64_MAX, {INT64_MAX, INT64_MAX}};
    }
    s->rounds->begun = now;
}

int64_t
rounds_deadline(const struct rille_session *s)
{
    return s->rounds->deadline;
}

static void
forget_wishes(struct rounds *r)
{
    for (int32_t k = 0; k < r->nwish; k++) free(r->wish[k].layout);
    free(r->wish);
    r->wish = NULL;
    r->nwish = 0;
}

void
rounds_end(struct rille_session *s, bool all)
{
    struct rounds *r = s->rounds;
    if (!r) return;
    for (int32_t k = 0; k < r->nwritten; k++) {
        for (int i = 0; i < r->written[k].nin; i++)
            if (r->written[k].in[i]) val_drop(s->graph, &r->written[k].in[i]);
        free(r->written[k].in);
    }
    r->nwritten = 0;
    if (!all) return;
    forget_wishes(r);
    if (r->best) rille_graph_free(&r->best);
    free(r->written);
    free(r);
    s->rounds = NULL;
}

bool
rounds_have_best(const struct rille_session *s)
{
    return s->rounds && s->rounds->best;
}

struct rille_graph *
rounds_best(struct rille_session *s)
{
    struct rille_graph *best = s->rounds ? s->rounds->best : NULL;
    if (best) s->rounds->best = NULL;
    return best;
}

/* ---- while tracing ---- */

/* The forward pass is called alike in each round; what its gradients are follows from it. */
bool
rounds_due(const struct rille_session *s, const struct op *op)
{
    return s->rounds && !s->rounds->trying && tracing(s) && !s->composite && !s->strategy &&
           s->phase == PHASE_FORWARD && (op->build || op->split_form);
}

/* Where the operand is to lie; NULL: where it does. */
static const struct layout *
wished(const struct wish *w, const struct op *op, int nin, struct val *const *in, int i)
{
    if (w->op != op || w->nin != nin || !w->layout[i] || !in[i] || !in[i]->layout) return NULL;
    const struct layout *l = w->layout[i];
    if (l == in[i]->layout || l->place != in[i]->layout->place) return NULL;
    return layout_fits(l, &in[i]->type) ? (err_clear(), NULL) : l;
}

/* moved: the operands as the wish has them. */
static int
move_operands(struct rille_session *s, const struct wish *w, const struct op *op, int nin, struct val *const *in,
              struct val **moved)
{
    for (int i = 0; i < nin; i++) {
        const struct layout *l = w ? wished(w, op, nin, in, i) : NULL;
        moved[i] = in[i];
        if (l) TRY(build_to_global(s, in[i], l, &moved[i]));
    }
    return 0;
}

static void
remember(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr)
{
    struct rounds *r = s->rounds;
    GROW(r->written, r->nwritten + 1, r->capacity);
    struct written *w = &r->written[r->nwritten++];
    *w = (struct written){.op = op, .nin = nin, .spelled = s->spelled, .parts = s->parts};
    w->in = must_alloc(sizeof *w->in * (size_t)(nin + 1));
    for (int i = 0; i < nin; i++)
        if ((w->in[i] = in[i])) val_hold(in[i]);
    memcpy(w->attr, attr, sizeof *attr * (size_t)op_nattr(op));
}

int
rounds_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr,
            struct val **out)
{
    struct rounds *r = s->rounds;
    struct val **moved = ARENA_ARRAY(&s->scratch, struct val *, nin + 1);
    TRY(move_operands(s, r->nwritten < r->nwish ? &r->wish[r->nwritten] : NULL, op, nin, in, moved));
    s->spelled = 0;
    s->parts = false;
    TRY(build_written(s, op, nin, moved, attr, out));
    remember(s, op, nin, moved, attr);
    return 0;
}

/* ---- after the plan ---- */

/* Where a value of the trace lies in the plan; NULL: it is not computed there, or as a part of a sum. */
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

static void
wish_for(struct rille_session *s, const struct program *p, const int32_t *became)
{
    struct rounds *r = s->rounds;
    forget_wishes(r);
    r->wish = must_alloc(sizeof *r->wish * (size_t)(r->nwritten + 1));
    for (r->nwish = 0; r->nwish < r->nwritten; r->nwish++) {
        const struct written *w = &r->written[r->nwish];
        struct wish *x = &r->wish[r->nwish];
        *x = (struct wish){.op = w->op, .nin = w->nin};
        x->layout = must_alloc(sizeof *x->layout * (size_t)(w->nin + 1));
        for (int i = 0; i < w->nin; i++) x->layout[i] = planned_layout(s, p, became, w->in[i]);
    }
}

/* Writes the call once more with its operands there: is it made of other operators? */
static bool
is_otherwise(struct rille_session *s, const struct written *w, const struct wish *x)
{
    struct val *out[OP_OUT], **moved = ARENA_ARRAY(&s->scratch, struct val *, w->nin + 1);
    bool same = true;
    for (int i = 0; i < w->nin; i++) same = same && !wished(x, w->op, w->nin, w->in, i);
    if (same) return false;
    int status = move_operands(s, x, w->op, w->nin, w->in, moved);
    s->spelled = 0;
    if (!status) status = build_written(s, w->op, w->nin, moved, w->attr, out);
    if (status) err_clear();
    return !status && s->spelled != w->spelled;
}

static bool
any_otherwise(struct rille_session *s)
{
    struct rounds *r = s->rounds;
    bool paused = rille_trace_pause(s, false), any = false;
    r->trying = true;
    for (int32_t k = 0; k < r->nwritten && !any; k++) any = is_otherwise(s, &r->written[k], &r->wish[k]);
    r->trying = false;
    rille_trace_pause(s, paused);
    return any;
}

static void
keep_best(struct rounds *r, struct rille_graph **g)
{
    if (r->best && r->best->assigned->solved.cost <= (*g)->assigned->solved.cost) {
        rille_graph_free(g);
        return;
    }
    if (r->best) rille_graph_free(&r->best);
    r->best = *g;
    *g = NULL;
}

static bool
has_parts(const struct rounds *r)
{
    for (int32_t k = 0; k < r->nwritten; k++)
        if (r->written[k].parts) return true;
    return false;
}

/* Another round in one piece, if there was none and some call of this one is not. */
static bool
try_whole(struct rounds *r)
{
    r->whole = has_parts(r) && !r->whole_was;
    r->whole_was = true;
    if (r->whole) forget_wishes(r);
    return r->whole;
}

/* Is there no time for another round? What no clock ends of it - trace, net, plan - is an eighth of the last one, or
 * more. */
static bool
is_late(const struct rounds *r)
{
    enum { PART = 8 };
    int64_t now = computed_ns();
    return r->deadline - now < (now - r->begun) / PART;
}

/* Is another round worth its while, and how is it to be written? */
static bool
find_another(struct rille_session *s, const struct rille_graph *g, const int32_t *became)
{
    struct rounds *r = s->rounds;
    if (r->round == MOST_ROUNDS || is_late(r)) return false;
    if (!r->whole) {
        wish_for(s, g->runner->plan->program, became);
        if (any_otherwise(s)) return true;
    }
    return try_whole(r);
}

bool
rounds_after_failure(struct rille_session *s)
{
    struct rounds *r = s->rounds;
    if (!r || r->best || r->round++ == MOST_ROUNDS) return false;
    return try_whole(r);
}

struct rounds_least
rounds_least(struct rille_session *s, const struct rounds_least *here)
{
    if (!s->rounds) return *here;
    struct rounds_least *l = &s->rounds->least;
    l->held = MIN(l->held, here->held);
    l->counted.bytes = MIN(l->counted.bytes, here->counted.bytes);
    l->counted.floor = MIN(l->counted.floor, here->counted.floor);
    return *l;
}

bool
rounds_whole(const struct rille_session *s)
{
    return s->rounds && s->rounds->whole;
}

bool
rounds_again(struct rille_session *s, const int32_t *became, struct rille_graph **g)
{
    struct rounds *r = s->rounds;
    if (!r) return false;
    r->round++;
    bool another = find_another(s, *g, became);
    keep_best(r, g);
    if (!another) *g = rounds_best(s);
    return another;
}
