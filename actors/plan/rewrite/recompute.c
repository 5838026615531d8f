/* recompute.c - divides the forward pass of each stage into parts, chooses the parts to recompute, and makes
 * backward read the recomputed values. */
#include "actors/plan/rewrite/recompute.h"

#include "actors/plan/outline/estimate.h"
#include "actors/plan/rewrite/rewrite.h"
#include "actors/plan/outline/stage.h"

#include <stdlib.h>

/* The forward nodes of a stage that backward may recompute, in order. */
struct passage {
    int32_t n, *node;
};

struct recomputer {
    struct program *p;
    struct arena tmp;
    struct stages stages;
    struct passage *passage; /* by stage: its forward nodes */
    double *work;            /* by node: estimated work, ns */
    /* by node, per micro-batch. made: bytes of all results; kept: bytes of the results that backward reads */
    int64_t *made, *kept;
    int32_t *last; /* by node: last forward node that reads one of its results; -1: none */
    int32_t *part; /* by node: index of the part of forward with which it is recomputed; -1: not recomputed */
    int32_t *twin; /* by node: the node that recomputes its results; -1: none */
    struct insertion *list;
    int32_t n, capacity;
};

/* ---- nodes that may be recomputed ---- */

static bool
may_recompute(const struct recomputer *r, int32_t i)
{
    const struct prog_node *n = &r->p->node[i];
    bool leaves = n->op->flags & OP_MOVE && ref_layout(r->p, n->in[0])->place != n->layout[0]->place;
    return n->phase == PHASE_FORWARD && n->piece && !n->accumulate && !leaves &&
           !(n->op->flags & (OP_UPDATE | OP_INPLACE));
}

static void
note_recomputed_reader(struct recomputer *r, struct ref of, int32_t reader)
{
    const struct program *p = r->p;
    struct ref whole = program_whole(p, of);
    if (of.kind == REF_NODE && p->node[reader].phase == PHASE_FORWARD) r->last[of.index] = reader;
    if (whole.kind != REF_NODE || p->node[whole.index].phase != PHASE_FORWARD) return;
    if (p->node[reader].phase == PHASE_FORWARD)
        r->last[whole.index] = reader;
    else
        r->kept[whole.index] = r->made[whole.index];
}

static void
find_values(struct recomputer *r)
{
    const struct program *p = r->p;
    for (int32_t i = 0; i < p->nnode; i++) {
        const struct prog_node *n = &p->node[i];
        r->last[i] = r->part[i] = r->twin[i] = -1;
        for (int32_t k = 0; k < n->nout && !(n->op->flags & OP_VIEW); k++) {
            struct type local = layout_shard(n->layout[k], &n->type[k], 0);
            r->made[i] += type_bytes(&local);
        }
    }
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++) note_recomputed_reader(r, p->node[i].in[k], i);
}

static void
find_passages(struct recomputer *r)
{
    const struct program *p = r->p;
    struct arena reckoned = {0};
    int32_t *room = ARENA_ARRAY(&r->tmp, int32_t, r->stages.n);
    for (int32_t i = 0; i < p->nnode; i++) room[r->stages.stage[i]] += may_recompute(r, i);
    for (int32_t q = 0; q < r->stages.n; q++) r->passage[q].node = ARENA_ARRAY(&r->tmp, int32_t, room[q] + 1);
    for (int32_t i = 0; i < p->nnode; i++) {
        if (!may_recompute(r, i)) continue;
        struct passage *s = &r->passage[r->stages.stage[i]];
        r->work[i] = 1 + (double)node_estimate(p, i, &reckoned);
        s->node[s->n++] = i;
    }
    arena_fini(&reckoned);
}

static void
recomputer_init(struct recomputer *r, struct program *p)
{
    *r = (struct recomputer){.p = p};
    r->work = ARENA_ARRAY(&r->tmp, double, p->nnode + 1);
    r->made = ARENA_ARRAY(&r->tmp, int64_t, p->nnode + 1);
    r->kept = ARENA_ARRAY(&r->tmp, int64_t, p->nnode + 1);
    r->last = ARENA_ARRAY(&r->tmp, int32_t, p->nnode + 1);
    r->part = ARENA_ARRAY(&r->tmp, int32_t, p->nnode + 1);
    r->twin = ARENA_ARRAY(&r->tmp, int32_t, p->nnode + 1);
    find_values(r);
}

/* ---- parts ---- */

/* Returns, by node k of a passage, the bytes of values that nodes up to k make and later nodes read. */
static int64_t *
find_alive_nodes(struct recomputer *r, const struct passage *s)
{
    int64_t *alive = ARENA_ARRAY(&r->tmp, int64_t, s->n), *ends = ARENA_ARRAY(&r->tmp, int64_t, r->p->nnode), now = 0;
    for (int32_t k = 0, at = 0; k < s->n; k++) {
        int32_t i = s->node[k];
        for (; at <= i; at++) now -= ends[at];
        if (r->last[i] > i) {
            now += r->made[i];
            ends[r->last[i]] += r->made[i];
        }
        alive[k] = now;
    }
    return alive;
}

void
recompute_cut(int32_t n, const double *work, const int64_t *alive, bool *ends)
{
    int32_t best[RECOMPUTE_PARTS + 1];
    double all = 0, done = 0;
    for (int32_t c = 0; c <= RECOMPUTE_PARTS; c++) best[c] = -1;
    for (int32_t k = 0; k < n; k++) all += work[k];
    for (int32_t k = 0; k < n - 1 && all > 0; k++) {
        done += work[k];
        int32_t *b = &best[(int32_t)(done / all * RECOMPUTE_PARTS + 0.5)];
        if (*b < 0 || alive[k] < alive[*b]) *b = k;
    }
    for (int32_t c = 1; c < RECOMPUTE_PARTS; c++)
        if (best[c] >= 0) ends[best[c]] = true;
}

static void
find_passage_ends(struct recomputer *r, const struct passage *s, bool *ends)
{
    double *work = ARENA_ARRAY(&r->tmp, double, s->n);
    for (int32_t k = 0; k < s->n; k++) work[k] = r->work[s->node[k]];
    recompute_cut(s->n, work, find_alive_nodes(r, s), ends);
}

struct part {
    int64_t bytes; /* bytes that recomputing this part of forward frees */
    int32_t index, last;
};

static int
by_bytes_down(const void *x, const void *y)
{
    const struct part *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->index - b->index;
}

/* Chooses those n parts of a stage's forward pass whose recomputation frees the most bytes. */
static void
choose_parts(struct recomputer *r, const struct passage *s, int32_t n)
{
    struct part part[RECOMPUTE_PARTS] = {{0}};
    bool *ends = ARENA_ARRAY(&r->tmp, bool, s->n), chosen[RECOMPUTE_PARTS] = {false};
    int32_t nparts = 1;
    find_passage_ends(r, s, ends);
    for (int32_t k = 0; k < s->n; k++) {
        r->part[s->node[k]] = nparts - 1;
        part[nparts - 1].last = s->node[k];
        nparts += ends[k];
    }
    for (int32_t k = 0; k < s->n; k++) {
        struct part *of = &part[r->part[s->node[k]]];
        if (r->last[s->node[k]] <= of->last) of->bytes += r->kept[s->node[k]];
    }
    for (int32_t c = 0; c < nparts; c++) part[c].index = c;
    int32_t *last = ARENA_ARRAY(&r->tmp, int32_t, nparts);
    for (int32_t c = 0; c < nparts; c++) last[c] = part[c].last;
    qsort(part, (size_t)nparts, sizeof *part, by_bytes_down);
    for (int32_t c = 0; c < MIN(n, nparts); c++) chosen[part[c].index] = true;
    for (int32_t k = 0; k < s->n; k++) {
        int32_t *own = &r->part[s->node[k]];
        /* a node whose results are read after the end of its part is kept, not recomputed */
        if (!chosen[*own] || r->last[s->node[k]] > last[*own]) *own = -1;
    }
}

/* ---- recomputed operands of backward ---- */

static struct ref
recompute_standing_for(struct recomputer *r, struct ref of, int32_t reader)
{
    if (of.kind != REF_NODE || r->part[of.index] < 0) return of;
    if (r->twin[of.index] < 0) {
        struct prog_node n = r->p->node[of.index];
        struct ref *in = arena_dup(&r->p->arena, n.in, sizeof *in * (size_t)n.nin);
        for (int32_t k = 0; k < n.nin; k++) {
            bool within = in[k].kind == REF_NODE && r->stages.stage[in[k].index] == r->stages.stage[of.index] &&
                          r->part[in[k].index] == r->part[of.index];
            if (within) in[k] = recompute_standing_for(r, in[k], reader);
        }
        n.in = in;
        n.phase = PHASE_BACKWARD;
        n.recompute = of.index + 1;
        GROW(r->list, r->n + 1, r->capacity);
        r->list[r->n] = (struct insertion){n, reader};
        r->twin[of.index] = r->p->nnode + r->n++;
    }
    return (struct ref){.kind = REF_NODE, .out = of.out, .index = r->twin[of.index]};
}

/* ---- values that were recomputed before the stages were known ---- */

/* Returns the forward value of which r is a recomputation, if r is in another stage than its reader, node i, and
 * the forward value precedes node i; else r. */
static struct ref
left_by_forward(const struct program *p, const struct stages *s, struct ref r, int32_t i)
{
    int32_t of = r.kind == REF_NODE ? p->node[r.index].recompute - 1 : -1;
    bool there = of >= 0 && of < i && p->node[of].phase == PHASE_FORWARD && s->stage[r.index] != s->stage[i];
    return there ? (struct ref){.kind = REF_NODE, .out = r.out, .index = of} : r;
}

/* ---- interface ---- */

int32_t
recompute_stages(const struct program *p)
{
    struct arena tmp = {0};
    struct stages s;
    int32_t n = p->pieces > 1 && !stages_find(&s, p, &tmp) ? s.n : 1;
    arena_fini(&tmp);
    return n;
}

int
recompute_parts(struct program *p, const int32_t *parts, int32_t n)
{
    struct recomputer r;
    recomputer_init(&r, p);
    int status = stages_find(&r.stages, p, &r.tmp);
    if (!status) {
        r.passage = ARENA_ARRAY(&r.tmp, struct passage, r.stages.n);
        find_passages(&r);
    }
    assert(status || r.stages.n == n);
    for (int32_t q = 0; !status && q < n; q++) {
        const struct passage *s = &r.passage[q];
        if (parts[q] >= RECOMPUTE_PARTS)
            for (int32_t k = 0; k < s->n; k++) r.part[s->node[k]] = 0;
        else if (parts[q] > 0)
            choose_parts(&r, s, parts[q]);
    }
    for (int32_t i = 0; !status && i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && p->node[i].phase == PHASE_BACKWARD; k++) {
            struct ref now = p->node[i].in[k], again = recompute_standing_for(&r, now, i);
            if (again.index != now.index) rewrite_operand(p, i, k, again);
        }
    if (!status) {
        rewrite_insert(p, r.list, r.n);
        rewrite_sweep(p); /* removes forward nodes that nothing reads any more */
    }
    free(r.list);
    arena_fini(&r.tmp);
    return status;
}

int
recompute_apart(struct program *p)
{
    struct arena tmp = {0};
    struct stages s;
    int status = stages_find(&s, p, &tmp);
    for (int32_t i = 0; !status && i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin && p->node[i].recompute; k++) {
            struct ref now = p->node[i].in[k], kept = left_by_forward(p, &s, now, i);
            if (kept.index != now.index) rewrite_operand(p, i, k, kept);
        }
    if (!status) rewrite_sweep(p);
    arena_fini(&tmp);
    return status;
}
