/* plan-packing.c - registers of training steps are packed within 5 % of the bytes that are in use at the worst moment:
 * transformers and perceptrons of several depths, on one device and on two.
 *
 * In pieces the bound is looser: what is reduced once a batch lies beside the block of the pieces, though it is made
 * when that is free (a transformer of one layer has few pieces' bytes, and many of weights). */
#include "actors/session/compiled.h"
#include "t/live.h"
#include "t/tap.h"

#include <unistd.h>

enum { WIDTH = 32, HEADS = 4, TIME = 16, ROWS = 16, MOST = 64 };

struct net {
    struct rille_session *s;
    const struct rille_layout *split, *all;
    struct rille_tensor *param[MOST];
    int nparam;
};

static void
must(int status, const char *what)
{
    if (!status) return;
    printf("Bail out! %s: %s\n", what, rille_error());
    exit(1);
}

static struct rille_tensor *
constant(struct net *n, int ndim, const int64_t *shape, const struct rille_layout *l)
{
    int64_t numel = 1;
    for (int d = 0; d < ndim; d++) numel *= shape[d];
    float *v = must_alloc((size_t)numel * sizeof *v);
    for (int64_t i = 0; i < numel; i++) v[i] = (float)(i % 7) * 0.05f - 0.1f;
    struct rille_tensor *t;
    must(rille_tensor_from_host(n->s, "f32", ndim, shape, v, l, &t), "from_host");
    free(v);
    return t;
}

static struct rille_tensor *
param(struct net *n, int64_t rows, int64_t columns)
{
    struct rille_tensor *t = constant(n, 2, (int64_t[]){rows, columns}, n->all);
    must(rille_tensor_set_requires_grad(t, true), "parameter");
    return n->param[n->nparam++] = t;
}

/* op(a, b, c), of which a is given back. */
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
    return call(n, "matmul", x, param(n, in, out));
}

/* x + what f makes of it, which is given back. */
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

/* One head over TIME positions: softmax(q k^T) v. */
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

/* Backward, and plain gradient descent. */
static void
train(struct net *n, struct rille_tensor *loss)
{
    must(rille_tensor_backward(loss), "backward");
    for (int i = 0; i < n->nparam; i++) {
        struct rille_tensor *g = rille_tensor_grad(n->param[i]);
        struct rille_arg arg[4] = {{RILLE_ARG_TENSOR, .tensor = n->param[i]},
                                   {.kind = RILLE_ARG_NONE},
                                   {RILLE_ARG_TENSOR, .tensor = g},
                                   {.kind = RILLE_ARG_FLOAT, .f = 0.1}};
        must(rille_update(n->s, rille_op_find("sgd"), 4, arg, 0, NULL), "sgd");
        rille_tensor_free(&g);
    }
    must(rille_step(n->s), "step");
    for (int i = 0; i < n->nparam; i++) must(rille_tensor_set_grad(n->param[i], NULL), "zero_grad");
}

static void
open_net(struct net *n, int32_t devices)
{
    const int32_t rank[] = {0, 1};
    const struct rille_place *p;
    struct rille_options o = {.devices = "cpu:2", .threads = 2, .bus = "zmq"};
    *n = (struct net){0};
    must(rille_open(&o, &n->s), "open");
    must(rille_place(n->s, "cpu", 1, &devices, rank, &p), "placement");
    must(rille_layout(n->s, p, 1, (const char *[]){"S(0)"}, NULL, -1, &n->split), "layout");
    must(rille_layout(n->s, p, 1, (const char *[]){"B"}, NULL, -1, &n->all), "layout");
}

typedef struct rille_tensor *net_fn(struct net *n, struct rille_tensor *x, int layers);

static void
test_step(const char *name, net_fn *fn, int layers, int devices, int pieces)
{
    struct net n;
    struct rille_graph_options g = {.micro_batches = pieces};
    struct rille_graph *graph;
    struct rille_tensor *piece, *loss;
    int64_t arena, live;
    open_net(&n, devices);
    struct rille_tensor *x = constant(&n, 4, (int64_t[]){ROWS, HEADS, TIME, WIDTH}, n.split);
    must(rille_trace_begin(n.s, &g, 1, &x, &piece), "trace");
    loss = call(&n, "sum", fn(&n, again(piece), layers), NULL);
    train(&n, loss);
    must(rille_trace_end(n.s, 1, &loss, &graph), "end of trace");
    live_bytes(graph->runner->plan, &arena, &live);
    ok(live > 0 && (double)arena <= (pieces > 1 ? 1.3 : 1.05) * (double)live,
       "%s of %d layers, %d devices, %d pieces: %lld bytes are %.3f of those in use", name, layers, devices, pieces,
       (long long)arena, (double)arena / (double)live);
    rille_graph_free(&graph);
    rille_close(&n.s);
}

int
main(void)
{
    static const struct {
        const char *name;
        net_fn *fn;
        int layers;
    } nets[] = {{"a perceptron", perceptron, 3},
                {"a perceptron", perceptron, 30},
                {"a transformer", transformer, 1},
                {"a transformer", transformer, 8}};
    alarm(120);
    for (size_t i = 0; i < countof(nets); i++)
        for (int devices = 1; devices <= 2; devices++)
            for (int pieces = 1; pieces <= 8; pieces *= 8)
                test_step(nets[i].name, nets[i].fn, nets[i].layers, devices, pieces);
    return done();
}
