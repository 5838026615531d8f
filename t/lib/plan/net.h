/* net.h - a network and its training step, written with rille.h, for tests and benchmarks of plans.
 *
 * A failure ends the program. Functions that accept struct rille_tensor **a free *a and store their result there. */
#ifndef RILLE_T_NET_H
#define RILLE_T_NET_H

#include "t/lib/must.h"

struct net {
    struct rille_session *s;
    const char *kind;                    /* device kind; NULL: cpu */
    struct rille_tensor *x, *y, **param; /* x: a batch; y: its labels; param: the parameters */
    int nparam;
};

/* Returns a layout on the devices first, first + 1, ..., first + n - 1. */
static inline const struct rille_layout *
net_layout(struct net *b, int32_t first, int32_t n, const char *sbp)
{
    int32_t *rank = malloc((size_t)n * sizeof *rank);
    const struct rille_place *p;
    const struct rille_layout *l;
    for (int32_t i = 0; i < n; i++) rank[i] = first + i;
    must(rille_place(b->s, b->kind ? b->kind : "cpu", 1, &n, rank, &p), "placement");
    must(rille_layout(b->s, p, 1, &sbp, NULL, -1, &l), "layout");
    free(rank);
    return l;
}

static inline struct rille_tensor *
net_floats(struct net *b, int64_t rows, int64_t columns, const struct rille_layout *l)
{
    int64_t shape[2] = {rows, columns};
    float *v = malloc((size_t)(rows * columns) * sizeof *v);
    struct rille_tensor *t;
    for (int64_t i = 0; i < rows * columns; i++) v[i] = (float)(i % 7) * 0.05f - 0.1f;
    must(rille_tensor_from_host(b->s, "f32", 2, shape, v, l, &t), "floats");
    free(v);
    return t;
}

/* Makes labels that are all class 0. */
static inline void
net_labels(struct net *b, int64_t rows, const struct rille_layout *l)
{
    int64_t *v = calloc((size_t)rows, sizeof *v);
    must(rille_tensor_from_host(b->s, "i64", 1, &rows, v, l, &b->y), "labels");
    free(v);
}

static inline struct rille_tensor *
net_param(struct net *b, int64_t rows, int64_t columns, const struct rille_layout *l)
{
    struct rille_tensor *t = net_floats(b, rows, columns, l);
    must(rille_tensor_set_requires_grad(t, true), "parameter");
    b->param = realloc(b->param, sizeof *b->param * (size_t)(b->nparam + 1));
    return b->param[b->nparam++] = t;
}

/* Calls an operator with the operands a and `other`; NULL: only a. */
static inline void
net_call(struct net *b, const char *op, struct rille_tensor **a, struct rille_tensor *other)
{
    struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = *a}, {.kind = RILLE_ARG_TENSOR, .tensor = other}};
    struct rille_tensor *out;
    must(rille_call(b->s, rille_op_find(op), other ? 2 : 1, arg, 0, NULL, &out), op);
    rille_tensor_free(a);
    *a = out;
}

static inline void
net_move(struct rille_tensor **a, const struct rille_layout *l)
{
    struct rille_tensor *out;
    must(rille_tensor_to_global(*a, l, &out), "to_global");
    rille_tensor_free(a);
    *a = out;
}

/* Runs backward, then plain gradient descent on all parameters. */
static inline void
net_train(struct net *b, struct rille_tensor *loss)
{
    must(rille_tensor_backward(loss), "backward");
    for (int i = 0; i < b->nparam; i++) {
        struct rille_tensor *g = rille_tensor_grad(b->param[i]);
        struct rille_arg arg[4] = {{.kind = RILLE_ARG_TENSOR, .tensor = b->param[i]},
                                   {.kind = RILLE_ARG_NONE},
                                   {.kind = RILLE_ARG_TENSOR, .tensor = g},
                                   {.kind = RILLE_ARG_FLOAT, .f = 0.1}};
        must(rille_update(b->s, rille_op_find("sgd"), 4, arg, 0, NULL), "sgd");
        rille_tensor_free(&g);
    }
    must(rille_step(b->s), "step");
    for (int i = 0; i < b->nparam; i++) must(rille_tensor_set_grad(b->param[i], NULL), "zero_grad");
}

/* Traces a training step of nstage layers of `width` features. Each layer is a pipeline stage; stage q runs on
 * device on[q]. The input is b->x, with two rows per micro-batch. */
static inline struct rille_graph *
net_stages_of(struct net *b, const struct rille_graph_options *g, int nstage, const int *on, int width)
{
    struct rille_graph *graph;
    struct rille_tensor *t;
    b->x = net_floats(b, 2 * g->micro_batches, width, net_layout(b, on[0], 1, "B"));
    must(rille_trace_begin(b->s, g, 1, &b->x, &t), "trace");
    t = rille_tensor_hold(t);
    for (int q = 0; q < nstage; q++) {
        const struct rille_layout *l = net_layout(b, on[q], 1, "B");
        if (q) net_move(&t, l);
        net_call(b, "matmul", &t, net_param(b, width, width, l));
        net_call(b, "tanh", &t, NULL);
    }
    net_call(b, "sum", &t, NULL);
    net_train(b, t);
    must(rille_trace_end(b->s, 1, &t, &graph), "the end of a trace");
    return graph;
}

static inline struct rille_graph *
net_stages(struct net *b, const char *schedule, int nstage, const int *on, int pieces, int width)
{
    const struct rille_graph_options g = {.micro_batches = pieces, .schedule = schedule};
    return net_stages_of(b, &g, nstage, on, width);
}

/* Runs a step on b->x and returns its loss. */
static inline double
net_loss(const struct net *b, struct rille_graph *g)
{
    struct rille_tensor *loss;
    int64_t whole;
    double value;
    bool is_int;
    must(rille_graph_run(g, 1, &b->x, &loss), "run");
    must(rille_tensor_item(loss, &value, &whole, &is_int), "loss");
    rille_tensor_free(&loss);
    return value;
}

/* Frees the tensors and closes the session. */
static inline void
net_close(struct net *b)
{
    for (int i = 0; i < b->nparam; i++) rille_tensor_free(&b->param[i]);
    rille_tensor_free(&b->x);
    rille_tensor_free(&b->y);
    free(b->param);
    rille_close(&b->s);
}

/* A schedule, and the devices of its stages. nstage: number of stages; stage: device, by stage. */
struct dealt {
    const char *schedule;
    int stage[8], nstage;
};
static const struct dealt net_schedules[] = {
    {"gpipe", {0, 1, 2, 3}, 4},
    {"1f1b", {0, 1, 2, 3}, 4},
    {"zb-h1", {0, 1, 2, 3}, 4},
    {"zb-h2", {0, 1, 2, 3}, 4},
    {"interleaved", {0, 1, 2, 3, 0, 1, 2, 3}, 8},
    {"zb-v", {0, 1, 2, 3, 3, 2, 1, 0}, 8},
    {"v-half", {0, 1, 2, 3, 3, 2, 1, 0}, 8},
    {"v-min", {0, 1, 2, 3, 3, 2, 1, 0}, 8},
};

#endif
