/* async.c - tests that a value known before the last micro-batch is not fused with a value known only after the last
 * micro-batch.
 *
 * If another task reads the early value, the value must not wait for the sum over micro-batches. Each program has a
 * sum over micro-batches and two calls. The first call reads no micro-batch; the second call reads the first call's
 * result and the sum. The two calls could be fused, but another task reads the result of the first call. The test
 * plans and runs each program on one host and in plan partitions. */
#include "actors/plan/compile.h"
#include "actors/plan/plan_print.h"
#include "t/lib/plan/parts.h"

static const struct cut cut[] = {{2, {2, 2}}, {2, {1, 3}}, {4, {1, 1, 1, 1}}, {3, {1, 2, 1}}};

/* A program under construction. Values in layout `whole` differ between micro-batches. A move from layout `whole`
 * to layout `split` sums them over the micro-batches. */
struct program_of {
    struct maker m;
    /* split: layout of the sum over micro-batches; far: a layout on other devices */
    const struct layout *whole, *split, *far;
    struct val *piece;
    struct val *sum, *rate;
    struct val *early, *late; /* results of the two calls that could be fused */
};

static struct val *
moved(struct program_of *x, struct val *v, const struct layout *l)
{
    struct val *out;
    return build_to_global(&x->m.s->context, v, l, &out) ? NULL : out;
}

/* ---- making the two calls that could be fused ---- */

static void
element_wise(struct program_of *x)
{
    struct val *w = leaf(&x->m, x->split);
    x->early = call(&x->m, "relu", 1, &w);
    x->late = call(&x->m, "add", 2, (struct val *[]){x->early, x->sum});
}

static struct val *
updated(struct program_of *x, struct val *g)
{
    struct val *in[] = {leaf(&x->m, x->split), NULL, g, x->rate};
    return call_with(&x->m, "sgd", 4, in, "momentum", (struct attr){.f = 0});
}

static void
updates(struct program_of *x)
{
    x->early = updated(x, leaf(&x->m, x->split));
    x->late = updated(x, x->sum);
}

/* ---- making readers of the first call's result ---- */

static struct val *
elsewhere(struct program_of *x)
{
    return moved(x, x->early, x->far);
}

static struct val *
nobody(struct program_of *x)
{
    return x->late;
}

static struct val *
each_piece(struct program_of *x)
{
    return call(&x->m, "mul", 2, (struct val *[]){moved(x, x->early, x->whole), x->piece});
}

static struct val *
each_piece_elsewhere(struct program_of *x)
{
    struct val *there = moved(x, x->piece, x->far);
    return call(&x->m, "mul", 2, (struct val *[]){moved(x, x->early, x->far), there});
}

static const struct {
    const char *name;
    void (*calls)(struct program_of *x);
    struct val *(*reader)(struct program_of *x);
    const char *one; /* expected name of the task that fuses both calls; NULL: the calls must stay two tasks */
} row[] = {
    {"element-wise calls; only the second call reads the first result", element_wise, nobody, "relu+add"},
    {"element-wise calls; other devices read the first result", element_wise, elsewhere, NULL},
    {"element-wise calls; each micro-batch reads the first result", element_wise, each_piece, NULL},
    {"element-wise calls; each micro-batch reads the first result on other devices", element_wise, each_piece_elsewhere,
     NULL},
    {"updates; other devices read the first result", updates, elsewhere, NULL},
    {"updates; each micro-batch reads the first result", updates, each_piece, NULL},
    {"updates; each micro-batch reads the first result on other devices", updates, each_piece_elsewhere, NULL},
};

/* ---- programs ---- */

static void
mark_pieces(const struct program_of *x, struct program *g)
{
    g->pieces = 4;
    g->lag = 1;
    for (int32_t i = 0; i < g->nleaf; i++) g->leaf[i].piece = g->leaf[i].layout == x->whole;
    for (int32_t i = 0; i < g->nnode; i++) {
        struct prog_node *n = &g->node[i];
        for (int32_t k = 0; k < n->nin; k++) n->piece = n->piece || ref_varies(g, n->in[k]);
        n->accumulate = n->piece && n->op->flags & OP_MOVE && n->layout[0] == x->split;
    }
    for (int32_t k = 0; k < g->nroot; k++) {
        g->root[k].join = ref_varies(g, g->root[k].ref);
        g->root[k].overwrites_leaf = -1;
    }
}

static const struct layout *
layout_at(struct rille_session *s, int32_t first, const char *text)
{
    const int32_t axis = 2, rank[] = {first, first + 1};
    const struct place *p;
    const struct layout *l;
    assert(place_new(s->atlas, DEV_CPU, 1, &axis, rank, &p) == 0);
    assert(layout_parse(s->atlas, p, text, 2, &l) == 0);
    return l;
}

static struct program *
program_of(struct rille_session *s, int i)
{
    struct program_of x = {.m = {.s = s, .n = 4},
                           .whole = layout_at(s, 0, "B"),
                           .split = layout_at(s, 0, "S(0)"),
                           .far = layout_at(s, 2, "B")};
    struct val *in = leaf(&x.m, x.whole);
    x.rate = build_number(s, false, 0.1, 0);
    x.piece = call(&x.m, "neg", 1, &in);
    x.sum = moved(&x, x.piece, x.split);
    row[i].calls(&x);
    struct val *root[] = {x.late, row[i].reader(&x)};
    assert(root[0] && root[1] && collect(s, 2, root, COLLECT_RUN) == 0);
    struct program *g = collection_program(s, &s->collection);
    mark_pieces(&x, g);
    build_settle(s, 0);
    return g;
}

static void
try_row(struct rille_session *s, int i)
{
    struct program *g = program_of(s, i);
    struct str bytes = {0};
    struct plan *p;
    int same = 0;
    program_write(g, &bytes);
    bool planned = !plan_compile(g, s->atlas, &p);
    ok(planned, "%s: is planned on one host", row[i].name);
    if (planned) {
        struct engine *e = simulator(1);
        struct bench whole;
        struct str text = {0};
        plan_print(p, false, &text);
        if (row[i].one) ok(strstr(str_text(&text), row[i].one) != NULL, "%s: the two calls are one task", row[i].name);
        str_free(&text);
        bench_open(&whole, p);
        ok(!engine_run(e, &whole.run), "%s: runs on one host", row[i].name);
        for (int k = 0; k < (int)countof(cut); k++) same += same_in_parts(&whole, &bytes, &cut[k], s->atlas);
        is_int(same, countof(cut), "plan partitions give the same bits");
        bench_close(&whole);
        engine_free(&e);
    } else {
        diag("%s", err_text());
    }
    plan_free(&p);
    str_free(&bytes);
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    for (int i = 0; i < (int)countof(row); i++) try_row(s, i);
    rille_close(&s);
    return done();
}
