/* packing.c - tests that registers of training steps are packed within 5 % of the lower bound.
 *
 * The bound is the larger of two numbers: the peak of bytes in use, and the bytes of results that may never share
 * memory. The steps train transformers and perceptrons of several depths, on one and two devices, with and without
 * micro-batches, with zero 0 to 3, recompute and offload. The pipelines have all schedules, few and many layers per
 * stage, too many acts for per-act offsets, and gated layers below a wide head. t/plan/packing-models.sh tests
 * language models in stages. */
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify.h"
#include "actors/plan/verify/verify_program.h"
#include "actors/session/step/compiled.h"
#include "t/lib/plan/clique.h"
#include "t/lib/plan/net.h"
#include "t/lib/tap.h"

enum { WIDTH = 32, HEADS = 4, TIME = 16, ROWS = 16 };

static const struct rille_layout *split, *all;

/* Returns op(a, b, c) and frees the handle of a. */
static struct rille_tensor *
call3(struct net *n, const char *op, struct rille_tensor *a, struct rille_tensor *b, struct rille_tensor *c)
{
    struct rille_arg arg[3] = {
        {RILLE_ARG_TENSOR, .tensor = a}, {RILLE_ARG_TENSOR, .tensor = b}, {RILLE_ARG_TENSOR, .tensor = c}};
    struct rille_tensor *out;
    must(rille_call(n->s, rille_op_find(op), 1 + (b != NULL) + (c != NULL), arg, 0, NULL, &out), op);
    rille_tensor_free(&a);
    return out;
}

static struct rille_tensor *
call(struct net *n, const char *op, struct rille_tensor *a, struct rille_tensor *b)
{
    return call3(n, op, a, b, NULL);
}

static struct rille_tensor *
again(struct rille_tensor *t)
{
    return rille_tensor_hold(t);
}

static struct rille_tensor *
product(struct net *n, struct rille_tensor *x, int64_t in, int64_t out)
{
    return call(n, "matmul", x, net_param(n, in, out, all));
}

/* Returns x + more and frees the handles of both. */
static struct rille_tensor *
plus(struct net *n, struct rille_tensor *x, struct rille_tensor *more)
{
    struct rille_tensor *y = call(n, "add", x, more);
    rille_tensor_free(&more);
    return y;
}

static struct rille_tensor *
perceptron(struct net *n, struct rille_tensor *x, int layers)
{
    for (int i = 0; i < layers; i++) x = call(n, "gelu", product(n, x, WIDTH, WIDTH), NULL);
    return x;
}

/* Computes one attention head over TIME positions: softmax(q k^T) v. */
static struct rille_tensor *
attention(struct net *n, struct rille_tensor *x)
{
    struct rille_tensor *q = product(n, again(x), WIDTH, WIDTH), *k = product(n, again(x), WIDTH, WIDTH);
    struct rille_tensor *v = product(n, x, WIDTH, WIDTH), *y = call3(n, "scaled_dot_product_attention", q, k, v);
    rille_tensor_free(&k);
    rille_tensor_free(&v);
    return product(n, y, WIDTH, WIDTH);
}

static struct rille_tensor *
transformer(struct net *n, struct rille_tensor *x, int layers)
{
    for (int i = 0; i < layers; i++) {
        struct rille_tensor *h = attention(n, call(n, "silu", again(x), NULL));
        x = plus(n, x, h);
        h = call(n, "gelu", product(n, call(n, "tanh", again(x), NULL), WIDTH, 4 * WIDTH), NULL);
        x = plus(n, x, product(n, h, 4 * WIDTH, WIDTH));
    }
    return x;
}

/* Computes a layer as in a language model: the hidden layer is gated, and the hidden width has few divisors. */
static struct rille_tensor *
gated(struct net *n, struct rille_tensor *x, int layers)
{
    enum { HIDDEN = 5 * WIDTH / 2 };
    for (int i = 0; i < layers; i++) {
        x = plus(n, x, attention(n, call(n, "tanh", again(x), NULL)));
        struct rille_tensor *h = call(n, "tanh", again(x), NULL), *up = product(n, again(h), WIDTH, HIDDEN);
        h = call(n, "mul", call(n, "silu", product(n, h, WIDTH, HIDDEN), NULL), up);
        rille_tensor_free(&up);
        x = plus(n, x, product(n, h, HIDDEN, WIDTH));
    }
    return x;
}

/* Makes stages with equal numbers of layers; stage q is on device dealt[q]. head: factor of the width of an
 * additional last layer; 0: no such layer. */
static struct rille_tensor *
pipeline(struct net *n, struct rille_tensor *x, const int *dealt, int nstage, int layers, int head)
{
    for (int q = 0; q < nstage; q++) {
        all = net_layout(n, dealt[q], 1, "B");
        if (q) net_move(&x, all);
        x = head ? gated(n, x, layers) : transformer(n, x, layers);
    }
    return head ? call(n, "gelu", product(n, x, WIDTH, head * WIDTH), NULL) : x;
}

/* Opens a session and makes the input, with the rows of all heads, on devices 0 to n - 1. */
static void
open_net(struct net *b, int32_t n)
{
    static const float v[ROWS * HEADS * TIME * WIDTH];
    const int64_t shape[] = {ROWS, HEADS, TIME, WIDTH};
    struct rille_options o = {.devices = "cpu:8", .threads = 2, .bus = "zmq"};
    must(rille_open(&o, &b->s), "open");
    split = net_layout(b, 0, n, "S(0)");
    all = net_layout(b, 0, n, "B");
    must(rille_tensor_from_host(b->s, "f32", 4, shape, v, split, &b->x), "from_host");
}

typedef struct rille_tensor *net_fn(struct net *n, struct rille_tensor *x, int layers);

static double worst;

/* Checks that each device's arena is at least the lower bound, and at most 1.05 times it. The bound is the larger of
 * the bytes live at once (live_most()) and the bytes of uses that may overlap pairwise (clique_most()). */
static void
check_plan(const struct plan *p, const char *name)
{
    double least = 1, ratio = 0;
    for (int32_t d = 0; d < p->ndevice; d++) {
        int64_t scratch = p->device[d].scratch, bytes = scratch ? live_most(p, d) : 0;
        if (scratch == 0) continue;
        if (bytes > 0 && 20 * scratch > 21 * bytes) bytes = MAX(bytes, clique_most(p, d));
        double of = (double)scratch / (double)MAX(bytes, 1);
        least = MIN(least, of);
        ratio = MAX(ratio, of);
    }
    worst = MAX(worst, ratio);
    ok(least >= 1 && ratio <= 1.05, "%s: registers take %.3f of the lower bound", name, ratio);
}

/* Returns the index of the task's first input that is stored at per-act offsets on the device; -1: none. */
static int32_t
berth_that_is_read(const struct plan *p, const struct task *t, int32_t device)
{
    for (int32_t k = 0; k < t->nin; k++) {
        const struct out_port *o = &p->task[t->in[k].task].out[t->in[k].out];
        if (o->where.kind == IN_ARENA && o->where.index == device && o->where.nact_offset > 0) return k;
    }
    return -1;
}

static int nread;

/* Stores the result of an act at the offset of an input of the same act. The verifier must reject the plan. */
static void
test_berths(const struct plan *p, const char *name)
{
    int n = 0, refused = 0;
    for (int32_t i = 0; i < p->ntask; i += 7) {
        const struct task *t = &p->task[i];
        const struct where *w = t->nresult > 0 ? &t->out[0].where : NULL;
        int32_t k = w && w->kind == IN_ARENA && w->nact_offset > 0 ? berth_that_is_read(p, t, w->index) : -1;
        if (k < 0) continue;
        int64_t *berth = (int64_t *)&w->berth[i % w->nact_offset], was = *berth;
        *berth = p->task[t->in[k].task].out[t->in[k].out].where.berth[i % w->nact_offset];
        refused += plan_verify(p) != 0;
        *berth = was;
        n++;
    }
    nread += n;
    ok(refused == n && plan_verify(p) == 0, "%s: %d results were placed over an operand, the verifier refused %d", name,
       n, refused);
}

/* Ends the trace of a training step and checks its plan. */
static void
check_step(struct net *n, struct rille_tensor *loss, const char *name)
{
    struct rille_graph *graph;
    loss = call(n, "sum", loss, NULL);
    net_train(n, loss);
    must(rille_trace_end(n->s, 1, &loss, &graph), name);
    check_plan(graph->runner->plan, name);
    test_berths(graph->runner->plan, name);
    rille_graph_free(&graph);
}

static struct rille_tensor *
begin_step(struct net *n, const struct rille_graph_options *g)
{
    struct rille_tensor *piece;
    must(rille_trace_begin(n->s, g, 1, &n->x, &piece), "trace");
    return again(piece);
}

static void
test_step(const char *what, net_fn *fn, int layers, int32_t devices, bool storage, const struct rille_graph_options *g)
{
    struct net n = {0};
    struct rille_graph_options o = *g;
    char name[200];
    open_net(&n, devices);
    static const int32_t rank[] = {4, 5};
    if (storage) must(rille_place(n.s, "cpu", 1, &devices, rank, &o.offload), "placement for offload");
    snprintf(name, sizeof name, "%s of %d layers, %d devices, %d micro-batches, zero %d%s%s", what, layers, devices,
             g->micro_batches, g->zero, g->recompute ? ", recomputed" : "", storage ? ", offload" : "");
    check_step(&n, fn(&n, begin_step(&n, &o), layers), name);
    net_close(&n);
}

static void
test_pipeline(const struct dealt *how, int layers, int pieces, int head)
{
    struct net n = {0};
    struct rille_graph_options g = {.micro_batches = pieces, .schedule = how->schedule};
    char name[200];
    open_net(&n, 1);
    snprintf(name, sizeof name, "%s, %d stages of %d %slayers, %d micro-batches", how->schedule, how->nstage, layers,
             head ? "gated " : "", pieces);
    check_step(&n, pipeline(&n, begin_step(&n, &g), how->stage, how->nstage, layers, head), name);
    net_close(&n);
}

static void
test_steps(void)
{
    static const struct {
        const char *name;
        net_fn *fn;
        int layers;
    } nets[] = {{"a perceptron", perceptron, 3},
                {"a perceptron", perceptron, 30},
                {"a transformer", transformer, 1},
                {"a transformer", transformer, 8}};
    for (size_t i = 0; i < countof(nets); i++)
        for (int devices = 1; devices <= 2; devices++)
            for (int pieces = 1; pieces <= 8; pieces *= 8)
                for (int zero = 0; zero <= (devices > 1 ? 3 : 0); zero++)
                    for (int how = 0; how < 4; how++) {
                        struct rille_graph_options g = {.micro_batches = pieces, .zero = zero, .recompute = how & 1};
                        if (!share_next()) continue;
                        test_step(nets[i].name, nets[i].fn, nets[i].layers, devices, how & 2, &g);
                    }
}

static void
test_pipelines(void)
{
    static const struct {
        /* layers: number of layers per stage. least, most: the test tries `least` micro-batches, then twice as
         * many, up to `most`. */
        int layers, least, most;
    } size[] = {{1, 4, 16}, {2, 4, 16}, {4, 8, 8}, {12, 8, 8}};
    for (size_t i = 0; i < countof(net_schedules); i++)
        for (size_t k = 0; k < countof(size); k++)
            for (int pieces = size[k].least; pieces <= size[k].most; pieces *= 2)
                if (share_next()) test_pipeline(&net_schedules[i], size[k].layers, pieces, 0);
    for (size_t i = 0; i < countof(net_schedules); i++)
        if (share_next()) test_pipeline(&net_schedules[i], 2, 8, 8);
    if (share_next())
        test_pipeline(&net_schedules[4], 3, 16, 8); /* a pipeline with some 3,000 uses of registers per device */
    if (share_next()) test_pipeline(&net_schedules[6], 3, 16, 8);
    static const struct dealt deep[] = {{"1f1b", {0, 1}, 2}, {"zb-v", {0, 1, 1, 0}, 4}};
    for (size_t i = 0; i < countof(deep); i++)
        if (share_next()) test_pipeline(&deep[i], 144 / deep[i].nstage, 8, 0); /* pipelines with 2,230 results */
}

/* ---- stored programs ---- */

static void
check_file(const char *path)
{
    struct atlas *at = atlas_new();
    struct str bytes = {0};
    struct program *g;
    struct plan *p;
    FILE *f = fopen(path, "rb");
    char part[4096];
    for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;) str_addn(&bytes, part, n);
    if (f) fclose(f);
    must(program_read(str_text(&bytes), bytes.len, at, &g), path);
    g->dry_run = true; /* plans for meta devices */
    must(plan_compile(g, at, &p), path);
    check_plan(p, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    plan_free(&p);
    atlas_free(&at);
    str_free(&bytes);
}

/* Checks the stored programs that the arguments name; without arguments, checks the steps that this test makes. */
int
main(int argc, char **argv)
{
    alarm(HANG);
    for (int i = 1; i < argc; i++) check_file(argv[i]);
    if (argc > 1) return done();
    test_steps();
    diag("the worst step: %.3f", worst);
    worst = 0;
    test_pipelines();
    diag("the worst pipeline: %.3f", worst);
    ok(covered(nread > 10), "%d results were placed over an operand", nread);
    return done();
}
