/* explain.c - describes a program: its operators with their layout candidates, and its moves with costs and lower
 * bounds.
 *
 * The program computes requested values (which may be computed already), or belongs to a traced graph. The same pure
 * functions that chose the layouts derive the candidates again. */
#include "actors/session/view/explain.h"
#include "actors/cluster/controller/memories.h"
#include "actors/plan/compile.h"
#include "actors/plan/plan_print.h"
#include "actors/session/build/build_node.h"
#include "actors/session/build/derive.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/planner/candidates.h"
#include "actors/session/planner/hint_conflict.h"
#include "actors/session/planner/planned.h"
#include "actors/session/run/collect.h"
#include "actors/session/view/explain_move.h"

#include "sbp/choose.h"
#include "sbp/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
print_list(struct str *s, const char *const *list)
{
    for (int i = 0; list[i]; i++) str_addf(s, "%s%s", i ? ", " : "", list[i]);
}

static void
print_regret(struct str *s, const struct rille_explain_candidate *c)
{
    str_addf(s, "  %lld bytes moved, %.3g of the work per rank", (long long)c->bytes, c->share);
    if (c->regret_high == c->regret)
        str_addf(s, ", +%lld ns\n", (long long)c->regret);
    else if (c->regret_high == INT64_MAX)
        str_addf(s, ", at least +%lld ns\n", (long long)c->regret);
    else
        str_addf(s, ", +%lld to %lld ns\n", (long long)c->regret, (long long)c->regret_high);
}

static void
print_shape(struct str *s, int ndim, const int64_t *shape)
{
    str_add(s, "{");
    for (int d = 0; d < ndim; d++) str_addf(s, "%s%lld", d ? ", " : "", (long long)shape[d]);
    str_add(s, "}");
}

static void
print_op_results(struct str *s, const struct rille_explain_op *op)
{
    for (int i = 0; i < op->noutput; i++) {
        const struct rille_explain_result *r = &op->results[i];
        bool whole = !memcmp(r->part, r->shape, sizeof(r->shape[0]) * (size_t)r->ndim), even = true;
        for (int d = 0; d < r->ndim; d++) even &= r->part[d] == 0 || r->shape[d] % r->part[d] == 0;
        str_add(s, whole ? "      each rank has all of " : even ? "      each rank has " : "      a rank has at most ");
        if (!whole) print_shape(s, r->ndim, r->part);
        if (!whole) str_add(s, " of ");
        print_shape(s, r->ndim, r->shape);
        str_add(s, "\n");
    }
}

/* Prints the record of one operator in a few lines. */
static void
explain_op_print(struct str *s, const struct rille_explain_op *op)
{
    str_addf(s, "%-14s ", op->name);
    print_list(s, op->inputs);
    str_add(s, " -> ");
    print_list(s, op->outputs);
    str_pad(s, 60);
    str_addf(s, "  %s\n", op->line);
    print_op_results(s, op);
    enum { SHOWN = 6 };
    for (int k = 0; k < op->ncandidate && k < SHOWN; k++) {
        str_add(s, k ? "      or       " : "      chosen   ");
        print_list(s, op->candidates[k].inputs);
        str_add(s, " -> ");
        print_list(s, op->candidates[k].outputs);
        str_pad(s, 60);
        if (op->candidates[k].regret >= 0)
            print_regret(s, &op->candidates[k]);
        else
            str_addf(s, "  %lld bytes moved, %lld pending, %.3g of the work per rank\n",
                     (long long)op->candidates[k].bytes, (long long)op->candidates[k].owed, op->candidates[k].share);
    }
    if (op->ncandidate > SHOWN) str_addf(s, "      and %d more\n", op->ncandidate - SHOWN);
}

static void
begin_explanation(struct explainer *t)
{
    const struct cluster *c = t->s->cluster;
    t->explained.arena = t->a;
    explain_candidates_begin(&t->alternatives, t->s, t->p, t->planned, t->a);
    if (c && cluster_memories(c) > 1) local_set_init(&t->mines, cluster_map(c, cluster_home(c)), t->a);
}

/* ---- describing operators ---- */

/* Moves the chosen candidate to the front of the list. The chosen candidate may not be the cheapest for its
 * operands: a view may read a value that was moved for other readers. */
static void
chosen_first(const struct prog_node *n, struct sig_choice *all)
{
    for (int k = 1; k < all->ncandidate; k++) {
        struct sig_candidate c = all->candidate[k];
        bool same = true;
        for (int i = 0; i < n->nin + n->nout; i++)
            same = same && c.layout[i] == (i < n->nin ? n->want[i] : n->layout[i - n->nin]);
        if (!same) continue;
        memmove(&all->candidate[1], &all->candidate[0], sizeof c * (size_t)k);
        all->candidate[0] = c;
        return;
    }
}

static int
tell_candidates(struct explainer *t, const struct prog_node *n, struct rille_explain_op *op)
{
    struct type in[64], out[OP_OUT] = {0};
    const struct layout *layout[64];
    uint8_t same[64];
    const struct place *place = NULL;
    if (n->op->flags & (OP_SOURCE | OP_MOVE) || n->nin > 64) return 0;
    for (int i = 0; i < n->nin; i++) {
        in[i] = ref_type(t->p, n->in[i]);
        layout[i] = ref_layout(t->p, n->in[i]);
        if (layout[i]) place = layout[i]->place;
        for (same[i] = 0; !ref_equal(n->in[same[i]], n->in[i]); same[i]++) {
        }
    }
    struct call c = {.op = n->op,
                     .nin = n->nin,
                     .nout = n->nout,
                     .in = in,
                     .out = out,
                     .attr = n->attr,
                     .layout = layout,
                     .same = same};
    struct rule rule;
    struct sig_choice choice;
    TRY(call_infer(&t->s->calls.scratch, &c, &rule));
    struct sig_question q = {t->s->atlas, place, &c, &rule, price_move, t->s};
    TRY(sig_list_all(&t->s->calls.scratch, &q, &choice));
    chosen_first(n, &choice);
    op->ncandidate = choice.ncandidate;
    op->candidates = ARENA_ARRAY(t->a, struct rille_explain_candidate, choice.ncandidate + 1);
    for (int k = 0; k < choice.ncandidate; k++) {
        const struct sig_candidate *s = &choice.candidate[k];
        op->candidates[k] = (struct rille_explain_candidate){
            .inputs = explain_candidates_texts(&t->alternatives, n->nin, s->layout, NULL),
            .outputs = explain_candidates_texts(&t->alternatives, n->nout, s->layout + n->nin, NULL),
            .bytes = s->bytes,
            .owed = s->owed,
            .regret = -1,
            .regret_high = -1,
            .share = s->share};
    }
    return 0;
}

/* Returns the size of dimension d in the largest shard. Shards are assumed to be balanced. */
static int64_t
largest_part_of_dim(const struct layout *l, const struct type *type, int d)
{
    int64_t ways = 1;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == d) ways *= l->place->axis[a];
    return (type->dim[d] + ways - 1) / ways;
}

static void
tell_results(struct explainer *t, const struct prog_node *n, struct rille_explain_op *op)
{
    op->results = ARENA_ARRAY(t->a, struct rille_explain_result, op->noutput + 1);
    for (int i = 0, k = 0; i < n->nout; i++) {
        if (!n->layout[i]) continue;
        struct rille_explain_result *r = &op->results[k++];
        r->ndim = n->type[i].ndim;
        for (int d = 0; d < r->ndim; d++) {
            r->shape[d] = n->type[i].dim[d];
            r->part[d] = largest_part_of_dim(n->layout[i], &n->type[i], d);
        }
    }
}

static int
tell_op(struct explainer *t, const struct prog_node *n)
{
    if (n->op->flags & OP_MOVE) return 0;
    struct rille_explain_op *op = &t->e->ops[t->e->nop++];
    op->name = n->op->name;
    op->line = explain_line(t, &n->line);
    op->inputs = explain_candidates_texts(&t->alternatives, n->nin, n->want, &op->ninput);
    op->outputs = explain_candidates_texts(&t->alternatives, n->nout, n->layout, &op->noutput);
    tell_results(t, n, op);
    int32_t i = (int32_t)(n - t->p->node), node = t->planned && i < t->planned->nprog ? t->planned->node[i] : -1;
    if (node < 0 || !t->planned->candidate[node]) return tell_candidates(t, n, op);
    explain_candidates_report(&t->alternatives, node, n, op);
    return 0;
}

/* ---- printing the description as text ---- */

/* Prints, for mode "propagate", the moves that are caused by conflicts between hints (layouts that the program
 * fixes). */
static void
print_meetings(struct explainer *t)
{
    int64_t bytes = 0, ns = 0;
    for (int i = 0; i < t->e->nmeeting; i++) {
        const struct rille_explain_meeting *x = &t->e->meetings[i];
        str_addf(&t->text, "the layouts of two hints conflict at %s (%s): %s (%s) and %s (%s)\n", x->op, x->line,
                 x->hint[0].what, x->hint[0].line, x->hint[1].what, x->hint[1].line);
        str_addf(&t->text, "      %s -> %s: %lld bytes, %lld ns\n", x->from, x->to, (long long)x->bytes,
                 (long long)x->ns);
        bytes += x->bytes;
        ns += x->ns;
    }
    if (t->e->nmeeting)
        str_addf(&t->text, "%d conflict%s between hints: moves cost %lld bytes, %lld ns per step\n", t->e->nmeeting,
                 t->e->nmeeting == 1 ? "" : "s", (long long)bytes, (long long)ns);
    else if (t->conflicts.a)
        str_add(&t->text, "no hints conflict\n");
}

/* Prints how many candidates' regrets (cost above the best plan) are known only as an interval. */
static void
print_open(struct explainer *t)
{
    int n = 0, open = 0;
    for (int i = 0; i < t->e->nop; i++)
        for (int k = 0; k < t->e->ops[i].ncandidate; k++, n++)
            open += t->e->ops[i].candidates[k].regret < t->e->ops[i].candidates[k].regret_high;
    if (open) str_addf(&t->text, "the extra cost of a candidate is known only as a range for %d of %d\n", open, n);
}

static void
print_all(struct explainer *t)
{
    struct str *s = &t->text;
    for (int i = 0; i < t->e->nop; i++) explain_op_print(s, &t->e->ops[i]);
    for (int i = 0; i < t->e->nboxing; i++) str_add(s, t->e->boxing[i].text);
    str_addf(s, "%d operator%s, %d move%s, %lld bytes moved%s\n", t->e->nop, t->e->nop == 1 ? "" : "s", t->e->nboxing,
             t->e->nboxing == 1 ? "" : "s", (long long)t->e->bytes, t->p->pieces > 1 ? " per batch" : "");
    print_open(t);
    print_meetings(t);
    for (int a = 0; a < t->e->naxis; a++)
        str_addf(s, "  over axis %d: %lld bytes\n", a, (long long)t->e->axis_bytes[a]);
}

/* Fills in the planner's results: cost, bound, gap, search time and memory. */
static void
tell_plan(struct explainer *t)
{
    const struct solved *s = &t->planned->solved;
    t->e->planned = true;
    t->e->cost = s->cost;
    t->e->time = t->planned->time;
    t->e->bound = s->bound;
    t->e->gap = s->cost ? (double)(s->cost - s->bound) / (double)s->cost : 0;
    t->e->peak = t->planned->held ? t->planned->held : t->planned->peak + t->planned->scratch;
    t->e->scratch = t->planned->scratch;
    t->e->search = (double)t->planned->search_ns * 1e-9;
    if (t->planned->links && t->p->nnode) t->e->naxis = t->p->node[0].layout[0]->place->naxis;
    str_addf(&t->text, "planned: %lld ns per step, bound %lld ns%s", (long long)s->cost, (long long)s->bound,
             s->cost == s->bound ? ": no plan of these operators costs less\n" : "");
    if (s->cost != s->bound)
        str_addf(&t->text, ": within %.3f %% of the best plan of these operators\n", 100 * t->e->gap);
    if (t->e->time != s->cost)
        str_addf(&t->text, "         in %d micro-batches, stages at the same time: %lld ns\n", (int)t->p->pieces,
                 (long long)t->e->time);
    str_addf(&t->text, "         at most %lld bytes per device, %lld of them scratch memory of kernels\n",
             (long long)t->e->peak, (long long)t->e->scratch);
}

/* ---- public functions ---- */

static struct rille_explain *
explain_new(struct arena **a)
{
    struct rille_explain *e = must_alloc(sizeof *e);
    *a = must_alloc(sizeof **a);
    e->memory = *a;
    return e;
}

void
rille_explain_free(struct rille_explain **ep)
{
    if (face_given(ep, "the pointer to the record", __func__)) return;
    struct rille_explain *e = *ep;
    *ep = NULL;
    if (!e) return;
    arena_fini(e->memory);
    free(e->memory);
    free(e->text);
    free(e);
}

int
explain_program(struct rille_session *s, const struct program *p, struct assigned *planned, const struct origin *origin,
                struct rille_explain **out)
{
    struct explainer t = {.s = s, .p = p, .planned = planned};
    int32_t operands = 1;
    t.e = explain_new(&t.a);
    begin_explanation(&t);
    hint_conflict_begin(&t.conflicts, p, planned, origin, t.a);
    for (int32_t i = 0; i < p->nnode; i++) operands += p->node[i].nin;
    if (t.conflicts.a) t.e->meetings = ARENA_ARRAY(t.a, struct rille_explain_meeting, operands);
    t.e->ops = ARENA_ARRAY(t.a, struct rille_explain_op, p->nnode + 1);
    t.e->boxing = ARENA_ARRAY(t.a, struct rille_explain_boxing, operands);
    t.moved = ARENA_ARRAY(t.a, struct ref, operands);
    t.moved_to = ARENA_ARRAY(t.a, const struct layout *, operands);
    int status = 0;
    for (int32_t i = 0; !status && i < p->nnode; i++) {
        status = explain_moves(&t, &p->node[i]);
        if (!status) status = tell_op(&t, &p->node[i]);
    }
    explain_candidates_end(&t.alternatives);
    if (planned) tell_plan(&t);
    print_all(&t);
    t.e->text = t.text.text;
    if (status) rille_explain_free(&t.e);
    *out = t.e;
    return build_settle(s, status);
}

static int
program_of(struct rille_session *s, int n, struct rille_tensor *const *t, struct program **out)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(n + 1));
    for (int i = 0; i < n; i++) v[i] = t[i]->val;
    int status = collect(s, n, v, COLLECT_EXPLAIN);
    free(v);
    if (!status) *out = collection_program(s, &s->collection);
    return status;
}

int
rille_explain(struct rille_session *s, int n, struct rille_tensor *const *t, struct rille_explain **out)
{
    TRY(face_tensors(s, n, t, __func__));
    TRY(face_given(out, "out", __func__));
    struct program *p;
    TRY(program_of(s, n, t, &p));
    int status = explain_program(s, p, NULL, NULL, out);
    program_free(&p);
    return status;
}

int
rille_graph_explain(struct rille_graph *g, struct rille_explain **out)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(out, "out", __func__));
    TRY(planned_regret(g));
    TRY(planned_told(g));
    return explain_program(g->s, graph_program(g), graph_assigned(g), g->origin, out);
}

int
rille_plan(struct rille_session *s, int n, struct rille_tensor *const *t, bool physical, char **out)
{
    TRY(face_tensors(s, n, t, __func__));
    TRY(face_given(out, "out", __func__));
    struct program *p;
    struct plan *plan;
    struct str text = {0};
    TRY(program_of(s, n, t, &p));
    for (int32_t k = 0; k < p->nroot; k++) p->root[k].overwrites_leaf = -1;
    p->dry_run = true;
    TRY(plan_compile(p, s->atlas, &plan));
    plan_print(plan, physical, &text);
    plan_free(&plan);
    *out = text.text;
    return 0;
}

int
rille_boxing(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
             const struct rille_layout *from, const struct rille_layout *to, struct rille_explain **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(out, "out", __func__));
    struct type type;
    TRY(face_type(dtype, ndim, shape, __func__, &type));
    TRY(face_move(s, &type, from, to, __func__));
    const struct layout *f = (const struct layout *)from, *g = (const struct layout *)to;
    int32_t nrank = f->place->nrank + g->place->nrank;
    if (type_bytes(&type) > INT64_MAX / 4 / nrank)
        return fail(E_SHAPE, "boxing: the bytes that %d ranks receive of %lld bytes are too many to count", (int)nrank,
                    (long long)type_bytes(&type));
    struct explainer t = {.s = s};
    t.e = explain_new(&t.a);
    begin_explanation(&t);
    t.e->boxing = ARENA_ARRAY(t.a, struct rille_explain_boxing, 1);
    int status = explain_move(&t, &type, f, g, NULL, 1);
    if (!status) str_add(&t.text, t.e->boxing[0].text);
    t.e->text = t.text.text;
    if (status) rille_explain_free(&t.e);
    *out = t.e;
    return status;
}
