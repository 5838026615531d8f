/* plan-packing.c - registers of training steps are packed within 5 % of the bytes that are in use at the worst moment:
 * transformers and perceptrons of several depths, on one device and on two, whole and in pieces. */
#include "actors/session/compiled.h"
#include "t/live.h"
#include "t/net.h"
#include "t/tap.h"

#include <unistd.h>

enum { WIDTH = 32, HEADS = 4, TIME = 16, ROWS = 16 };

static const struct rille_layout *split, *all;

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
    return call(n, "matmul", x, net_param(n, in, out, all));
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

/* Rows of all heads, on devices 0 to n - 1. */
static void
open_net(struct net *b, int32_t n)
{
    static const float v[ROWS * HEADS * TIME * WIDTH];
    const int64_t shape[] = {ROWS, HEADS, TIME, WIDTH};
    struct rille_options o = {.devices = "cpu:2", .threads = 2, .bus = "zmq"};
    must(rille_open(&o, &b->s), "open");
    split = net_layout(b, 0, n, "S(0)");
    all = net_layout(b, 0, n, "B");
    must(rille_tensor_from_host(b->s, "f32", 4, shape, v, split, &b->x), "from_host");
}

typedef struct rille_tensor *net_fn(struct net *n, struct rille_tensor *x, int layers);

static void
test_step(const char *name, net_fn *fn, int layers, int devices, int pieces)
{
    struct net n = {0};
    struct rille_graph_options g = {.micro_batches = pieces};
    struct rille_graph *graph;
    struct rille_tensor *piece, *loss;
    int64_t arena, live;
    open_net(&n, devices);
    must(rille_trace_begin(n.s, &g, 1, &n.x, &piece), "trace");
    loss = call(&n, "sum", fn(&n, again(piece), layers), NULL);
    net_train(&n, loss);
    must(rille_trace_end(n.s, 1, &loss, &graph), "end of trace");
    live_bytes(graph->runner->plan, &arena, &live);
    ok(live > 0 && (double)arena <= (pieces > 1 ? 1.15 : 1.05) * (double)live,
       "%s of %d layers, %d devices, %d pieces: %lld bytes are %.3f of those in use", name, layers, devices, pieces,
       (long long)arena, (double)arena / (double)live);
    rille_graph_free(&graph);
    net_close(&n);
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
