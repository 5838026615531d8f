/* train.h - a training step of a two-stage pipeline, written with rille.h, for tests of actors.
 *
 *   x -> matmul w1 -> gelu | to the second stage | -> matmul w2 -> loss -> backward -> sgd
 *
 * Each stage is a placement of two ranks. The layouts of producer and consumer always differ, so every kind of
 * redistribution occurs. The batch is split, so gradients of w1 are partial sums. The hidden features change from
 * S(0) to S(1) between the stages. w2 is split by rows, so its product is a partial sum.
 *
 * There are two networks: a classifier (gelu, cross_entropy), and an exact network (relu, a weighted sum). The
 * numbers of the exact network are small multiples of powers of two, so any order of computation gives the same bits
 * as one device. */
#ifndef RILLE_T_TRAIN_H
#define RILLE_T_TRAIN_H

#include "t/lib/must.h"
#include "t/lib/tap.h"

enum { ROWS = 16, WIDTH = 6, HIDDEN = 8, CLASSES = 4, PIECES = 4 };

struct train_options {
    const char *bus, *kind; /* bus: kind of message bus, as "zmq" or "sim:3"; kind: device kind, "cpu" or "async" */
    const char *second;     /* device kind of the second stage; NULL: `kind` */
    int threads;            /* number of threads; 0: the default of 4 */
    const char *schedule;   /* schedule of the compiled step; NULL: no compilation, a plain loop */
    int pieces;             /* number of micro-batches; 0: the default PIECES */
    bool exact, single;     /* exact: uses the exact network, not the classifier; single: one device computes all */
    size_t memory_limit;
};

struct train {
    struct train_options options;
    struct rille_session *s;
    struct rille_tensor *x, *y, *w1, *w2;
    struct rille_graph *graph;
    struct rille_live *rate; /* learning rate of train_update() as a live number; NULL: a constant */
};

/* Results of a step, compared bit by bit. */
struct train_state {
    float loss, w1[WIDTH * HIDDEN], w2[HIDDEN * CLASSES];
};

/* Returns the device kinds of the pipeline as text, for example "cpu and async". */
static inline const char *
train_kinds(const struct train_options *o)
{
    static char text[40];
    snprintf(text, sizeof text, "%s%s%s", o->kind, o->second ? " and " : "", o->second ? o->second : "");
    return text;
}

static inline const struct rille_layout *
train_layout(struct train *t, int stage, const char *sbp)
{
    const int32_t one = 1, two = 2, rank[2][2] = {{0, 1}, {2, 3}};
    const struct rille_place *p;
    const struct rille_layout *l;
    const char *kind = stage && t->options.second ? t->options.second : t->options.kind;
    if (t->options.single) {
        sbp = "B";
        stage = 0;
        kind = t->options.kind;
    }
    must(rille_place(t->s, kind, 1, t->options.single ? &one : &two, rank[stage], &p), "placement");
    must(rille_layout(t->s, p, 1, &sbp, NULL, -1, &l), "layout");
    return l;
}

static inline struct rille_tensor *
train_tensor(struct train *t, int rows, int columns, int stage, const char *sbp, uint64_t seed)
{
    float v[ROWS * HIDDEN];
    int64_t shape[2] = {rows, columns};
    struct rille_tensor *out;
    for (int i = 0; i < rows * columns; i++)
        v[i] =
            t->options.exact ? (float)(next_random(&seed) % 3) - 1 : (float)(next_random(&seed) >> 40) * 0x1p-23f - 1;
    must(rille_tensor_from_host(t->s, "f32", 2, shape, v, train_layout(t, stage, sbp), &out), "from_host");
    return out;
}

static inline struct rille_tensor *
train_labels(struct train *t)
{
    int64_t v[ROWS], shape[1] = {ROWS};
    struct rille_tensor *out;
    for (int i = 0; i < ROWS; i++) v[i] = i * 7 % CLASSES;
    must(rille_tensor_from_host(t->s, "i64", 1, shape, v, train_layout(t, 1, "S(0)"), &out), "labels");
    return out;
}

static inline int
train_call(struct train *t, const char *op, int line, struct rille_tensor *a, struct rille_tensor *b,
           struct rille_tensor **out)
{
    struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = a}, {.kind = RILLE_ARG_TENSOR, .tensor = b}};
    rille_at(t->s, "train.lua", line, NULL, 0);
    return rille_call(t->s, rille_op_find(op), b ? 2 : 1, arg, 0, NULL, out);
}

/* Computes the loss. Calls the operators with the source positions "train.lua", lines 1 to 5, so that errors name
 * them; the file does not exist. */
static inline int
train_loss(struct train *t, struct rille_tensor *x, struct rille_tensor *y, struct rille_tensor **loss)
{
    struct rille_tensor *h = NULL, *a = NULL, *moved = NULL, *o = NULL, *p = NULL;
    bool exact = t->options.exact;
    int status = train_call(t, "matmul", 1, x, t->w1, &h);
    if (!status) status = train_call(t, exact ? "relu" : "gelu", 2, h, NULL, &a);
    if (!status) status = rille_tensor_to_global(a, train_layout(t, 1, "S(1)"), &moved);
    if (!status) status = train_call(t, "matmul", 3, moved, t->w2, &o);
    if (!status) status = train_call(t, exact ? "mul" : "cross_entropy", 4, o, y, exact ? &p : loss);
    if (!status && exact) status = train_call(t, "sum", 5, p, NULL, loss);
    rille_tensor_free(&h);
    rille_tensor_free(&a);
    rille_tensor_free(&moved);
    rille_tensor_free(&o);
    rille_tensor_free(&p);
    return status;
}

static inline int
train_update(struct train *t, struct rille_tensor *w, int line)
{
    struct rille_tensor *g = rille_tensor_grad(w);
    struct rille_arg arg[4] = {{.kind = RILLE_ARG_TENSOR, .tensor = w},
                               {.kind = RILLE_ARG_NONE},
                               {.kind = RILLE_ARG_TENSOR, .tensor = g},
                               {.kind = RILLE_ARG_FLOAT, .f = t->options.exact ? 1 : 0.1}};
    if (t->rate) arg[3] = (struct rille_arg){.kind = RILLE_ARG_LIVE, .live = t->rate};
    rille_at(t->s, "train.lua", line, NULL, 0);
    int status = rille_update(t->s, rille_op_find("sgd"), 4, arg, 0, NULL);
    rille_tensor_free(&g);
    return status;
}

/* Updates the weights by the gradients of a loss. */
static inline int
train_descend(struct train *t, struct rille_tensor *loss)
{
    int status = rille_tensor_backward(loss);
    if (!status) status = train_update(t, t->w1, 6);
    if (!status) status = train_update(t, t->w2, 7);
    if (!status) status = rille_step(t->s);
    if (!status) status = rille_tensor_set_grad(t->w1, NULL);
    if (!status) status = rille_tensor_set_grad(t->w2, NULL);
    return status;
}

static inline int
train_body(struct train *t, struct rille_tensor *x, struct rille_tensor *y, struct rille_tensor **loss)
{
    int status = train_loss(t, x, y, loss);
    if (!status) status = train_descend(t, *loss);
    if (status) rille_tensor_free(loss);
    return status;
}

static inline int
train_trace(struct train *t)
{
    struct rille_tensor *in[2] = {t->x, t->y}, *piece[2], *loss = NULL;
    struct rille_graph_options o = {.micro_batches = t->options.pieces, .schedule = t->options.schedule};
    int status = rille_trace_begin(t->s, &o, 2, in, piece);
    if (status) return status;
    status = train_body(t, piece[0], piece[1], &loss);
    if (!status)
        status = rille_trace_end(t->s, 1, &loss, &t->graph);
    else
        rille_trace_abort(t->s);
    rille_tensor_free(&piece[0]);
    rille_tensor_free(&piece[1]);
    rille_tensor_free(&loss);
    return status;
}

/* Resets the weights to their initial values, without gradients. */
static inline void
train_reset(struct train *t)
{
    rille_tensor_free(&t->w1);
    rille_tensor_free(&t->w2);
    rille_graph_free(&t->graph);
    t->w1 = train_tensor(t, WIDTH, HIDDEN, 0, "B", 2);
    t->w2 = train_tensor(t, HIDDEN, CLASSES, 1, "S(0)", 3);
    rille_tensor_set_name(t->w1, "w1");
    rille_tensor_set_name(t->w2, "w2");
    must(rille_tensor_set_requires_grad(t->w1, true), "w1");
    must(rille_tensor_set_requires_grad(t->w2, true), "w2");
}

static inline void
train_open(struct train *t, const struct train_options *given)
{
    *t = (struct train){.options = *given};
    struct train_options *o = &t->options;
    if (!o->kind) o->kind = "cpu";
    if (!o->threads) o->threads = 4;
    if (!o->pieces) o->pieces = PIECES;
    struct rille_options so = {
        .devices = "cpu:4,async:4", .bus = o->bus, .threads = o->threads, .memory_limit = o->memory_limit};
    must(rille_open(&so, &t->s), "open");
    t->x = train_tensor(t, ROWS, WIDTH, 0, "S(0)", 1);
    t->y = o->exact ? train_tensor(t, ROWS, CLASSES, 1, "S(0)", 4) : train_labels(t);
    train_reset(t);
}

static inline void
train_close(struct train *t)
{
    rille_graph_free(&t->graph);
    rille_tensor_free(&t->x);
    rille_tensor_free(&t->y);
    rille_tensor_free(&t->w1);
    rille_tensor_free(&t->w2);
    rille_close(&t->s);
}

/* Runs one step. The first call of a compiled step traces it. */
static inline int
train_step(struct train *t, struct rille_tensor **loss)
{
    struct rille_tensor *in[2] = {t->x, t->y};
    *loss = NULL;
    if (!t->options.schedule) return train_body(t, t->x, t->y, loss);
    if (!t->graph) {
        int status = train_trace(t);
        if (status) return status;
    }
    return rille_graph_run(t->graph, 2, in, loss);
}

static inline int
train_state(struct train *t, struct rille_tensor *loss, struct train_state *out)
{
    int status = rille_tensor_read(loss, &out->loss);
    if (!status) status = rille_tensor_read(t->w1, out->w1);
    if (!status) status = rille_tensor_read(t->w2, out->w2);
    return status;
}

/* Runs n steps from the current weights. Returns loss and weights after the last one. */
static inline int
train_run(struct train *t, int n, struct train_state *out)
{
    int status = 0;
    for (int i = 0; !status && i < n; i++) {
        struct rille_tensor *loss;
        status = train_step(t, &loss);
        if (!status && i == n - 1) status = train_state(t, loss, out);
        rille_tensor_free(&loss);
    }
    return status;
}

/* Runs n steps in a new session and closes the session. */
static inline int
train_once(const struct train_options *o, int n, struct train_state *out)
{
    struct train t;
    train_open(&t, o);
    int status = train_run(&t, n, out);
    train_close(&t);
    return status;
}

#endif
