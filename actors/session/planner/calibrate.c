/* calibrate.c - measures the cost of moves and of computing on this machine.
 *
 * A value moves back and forth between two layouts in one compiled step, so that only moves are timed. To measure
 * rates, two devices compute at the same time. The file uses only rille.h, so it measures times that a user sees. */
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/step/compiled.h"

#include "runtime/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A compiled step that moves a value n times between two layouts. */
struct shuttle {
    const struct rille_layout *at[2];
    int64_t shape[2];
    int n;
};

static int
calibrate_line(struct rille_session *s, int n, bool reversed, const char *sbp, const struct rille_layout **out)
{
    int32_t size = n, rank[4];
    const struct rille_place *p;
    for (int i = 0; i < n; i++) rank[i] = reversed ? n - 1 - i : i;
    TRY(rille_place(s, "cpu", 1, &size, rank, &p));
    return rille_layout(s, p, 1, &sbp, NULL, 2, out);
}

static int
trace_moves(const struct shuttle *m, struct rille_tensor *start, struct rille_tensor **out)
{
    *out = rille_tensor_hold(start);
    for (int i = 1; i <= m->n; i++) {
        struct rille_tensor *next;
        int status = rille_tensor_to_global(*out, m->at[i % 2], &next);
        rille_tensor_free(out);
        TRY(status);
        *out = next;
    }
    return 0;
}

static int
trace_shuttle(struct rille_session *s, const struct shuttle *m, struct rille_tensor *x, struct rille_graph **g)
{
    struct rille_graph_options o = {0};
    struct rille_tensor *piece, *y;
    TRY(rille_trace_begin(s, &o, 1, &x, &piece));
    int status = trace_moves(m, piece, &y);
    if (!status)
        status = rille_trace_end(s, 1, &y, g);
    else
        rille_trace_abort(s);
    rille_tensor_free(&y);
    rille_tensor_free(&piece);
    return status;
}

enum { LAYERS = 2, RESULTS = 2 * LAYERS + 1 };

/* Returns the shortest time of several runs, because disturbances only add time. */
static int
best_run(struct rille_graph *g, int n, struct rille_tensor *const *x, double *ns)
{
    enum { RUNS = 30 };
    for (int i = 0; i < RUNS; i++) {
        struct rille_tensor *y[RESULTS] = {NULL};
        int64_t start = now_ns();
        TRY(rille_graph_run(g, n, x, y));
        double took = (double)(now_ns() - start);
        for (int k = 0; k < RESULTS; k++) rille_tensor_free(&y[k]);
        if (i == 0 || took < *ns) *ns = took;
    }
    return 0;
}

static int
time_shuttle(struct rille_session *s, const struct shuttle *m, double *ns)
{
    struct rille_tensor *x;
    struct rille_graph *g = NULL;
    TRY(rille_create(s, rille_op_find("zeros"), 0, NULL, 2, m->shape, "f32", m->at[0], &x));
    int status = rille_eval(s, 1, &x);
    if (!status) status = trace_shuttle(s, m, x, &g);
    if (!status) status = best_run(g, 1, &x, ns);
    rille_graph_free(&g);
    rille_tensor_free(&x);
    return status;
}

/* Returns the time of one move, without the fixed cost of a run. */
static int
time_move(struct rille_session *s, struct shuttle m, int moves, double *ns)
{
    double one, many;
    m.n = 1;
    TRY(time_shuttle(s, &m, &one));
    m.n = 1 + moves;
    TRY(time_shuttle(s, &m, &many));
    *ns = MAX(0, many - one) / moves;
    return 0;
}

/* Times a small all-to-all over n devices: one collective step, in which each device sends n - 1 messages. */
static int
time_small(struct rille_session *s, int n, double *ns)
{
    struct shuttle m = {.shape = {8, 8}};
    TRY(calibrate_line(s, n, false, "S(0)", &m.at[0]));
    TRY(calibrate_line(s, n, false, "S(1)", &m.at[1]));
    return time_move(s, m, 64, ns);
}

enum { ROWS = 4096, COLUMNS = 2048 }; /* 32 MiB of f32: larger than caches */

/* Times an exchange of shards between two devices. Each of the two devices receives a complete shard. */
static int
time_copy(struct rille_session *s, double *ns)
{
    struct shuttle m = {.shape = {ROWS, COLUMNS}};
    TRY(calibrate_line(s, 2, false, "S(0)", &m.at[0]));
    TRY(calibrate_line(s, 2, true, "S(0)", &m.at[1]));
    return time_move(s, m, 4, ns);
}

/* Times a reduction over two devices. Each of the two devices adds half of the elements. */
static int
time_sum(struct rille_session *s, double *ns)
{
    struct shuttle m = {.shape = {ROWS, COLUMNS}, .n = 1};
    TRY(calibrate_line(s, 2, false, "P", &m.at[0]));
    TRY(calibrate_line(s, 2, false, "S(0)", &m.at[1]));
    return time_shuttle(s, &m, ns);
}

/* Traces op(a, b) on sharded operands; returns a new graph. */
static int
trace_op(struct rille_session *s, const char *op, struct rille_tensor *const x[2], struct rille_graph **g)
{
    struct rille_tensor *in[2], *y;
    TRY(rille_trace_begin(s, &(struct rille_graph_options){0}, 2, x, in));
    struct rille_arg arg[] = {{.kind = RILLE_ARG_TENSOR, .tensor = in[0]}, {.kind = RILLE_ARG_TENSOR, .tensor = in[1]}};
    int status = rille_call(s, rille_op_find(op), 2, arg, 0, NULL, &y);
    if (!status)
        status = rille_trace_end(s, 1, &y, g);
    else
        rille_trace_abort(s);
    for (int i = 0; i < 2; i++) rille_tensor_free(&in[i]);
    rille_tensor_free(&y);
    return status;
}

/* Times an operator on two n x n matrices, each split over two devices. */
static int
time_op(struct rille_session *s, const char *op, int64_t n, const char *const sbp[2], double *ns)
{
    int64_t shape[] = {n, n};
    struct rille_tensor *x[2] = {NULL};
    struct rille_graph *g = NULL;
    int status = 0;
    for (int i = 0; i < 2 && !status; i++) {
        const struct rille_layout *at;
        status = calibrate_line(s, 2, false, sbp[i], &at);
        if (!status) status = rille_create(s, rille_op_find("ones"), 0, NULL, 2, shape, "f32", at, &x[i]);
    }
    if (!status) status = rille_eval(s, 2, x);
    if (!status) status = trace_op(s, op, x, &g);
    if (!status) status = best_run(g, 2, x, ns);
    rille_graph_free(&g);
    for (int i = 0; i < 2; i++) rille_tensor_free(&x[i]);
    return status;
}

static int
multiply_timed(struct rille_session *s, struct rille_tensor *a, struct rille_tensor *b, struct rille_tensor **out)
{
    struct rille_arg arg[] = {{.kind = RILLE_ARG_TENSOR, .tensor = a}, {.kind = RILLE_ARG_TENSOR, .tensor = b}};
    return rille_call(s, rille_op_find("matmul"), 2, arg, 0, NULL, out);
}

static int
calibrate_transposed(struct rille_session *s, struct rille_tensor *a, struct rille_tensor **out)
{
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = a};
    struct rille_attr at[] = {{.name = "axis0", .kind = RILLE_INT, .i = 0},
                              {.name = "axis1", .kind = RILLE_INT, .i = 1}};
    return rille_call(s, rille_op_find("transpose"), 1, &arg, 2, at, out);
}

/* Adds three products like those of a layer with input x and weight w: y = x w for forward; y w^T and x^T y for
 * backward, with y in place of the gradient. */
static int
trace_layer(struct rille_session *s, struct rille_tensor *x, struct rille_tensor *w, struct rille_tensor **y,
            struct rille_tensor *back[2])
{
    struct rille_tensor *wt = NULL, *xt = NULL;
    int status = multiply_timed(s, x, w, y);
    if (!status) status = calibrate_transposed(s, w, &wt);
    if (!status) status = calibrate_transposed(s, x, &xt);
    if (!status) status = multiply_timed(s, *y, wt, &back[0]);
    if (!status) status = multiply_timed(s, xt, *y, &back[1]);
    rille_tensor_free(&wt);
    rille_tensor_free(&xt);
    return status;
}

static int
trace_layers(struct rille_session *s, struct rille_tensor *const x[1 + LAYERS], struct rille_graph **g)
{
    struct rille_tensor *in[1 + LAYERS], *y[1 + LAYERS] = {NULL}, *out[RESULTS] = {NULL};
    TRY(rille_trace_begin(s, &(struct rille_graph_options){0}, 1 + LAYERS, x, in));
    int status = 0;
    y[0] = in[0];
    for (int i = 0; i < LAYERS && !status; i++) status = trace_layer(s, y[i], in[i + 1], &y[i + 1], &out[2 * i]);
    out[RESULTS - 1] = y[LAYERS];
    if (!status)
        status = rille_trace_end(s, RESULTS, out, g);
    else
        rille_trace_abort(s);
    for (int k = 0; k < RESULTS - 1; k++) rille_tensor_free(&out[k]);
    for (int i = 0; i <= LAYERS; i++) rille_tensor_free(&in[i]);
    for (int i = 1; i <= LAYERS; i++) rille_tensor_free(&y[i]);
    return status;
}

/* Times products as in a training step: all three forms in turn, on random numbers. Such products are slower than
 * repetitions of one product whose operands stay in cache. */
static int
time_products(struct rille_session *s, int64_t n, double *ns)
{
    int64_t shape[] = {n, n};
    struct rille_tensor *x[1 + LAYERS] = {NULL};
    struct rille_graph *g = NULL;
    int status = 0;
    for (int i = 0; i <= LAYERS && !status; i++) {
        const struct rille_layout *at;
        status = calibrate_line(s, 2, false, i ? "B" : "S(0)", &at);
        if (!status) status = rille_create(s, rille_op_find("randn"), 0, NULL, 2, shape, "f32", at, &x[i]);
    }
    if (!status) status = rille_eval(s, 1 + LAYERS, x);
    if (!status) status = trace_layers(s, x, &g);
    if (!status) status = best_run(g, 1 + LAYERS, x, ns);
    rille_graph_free(&g);
    for (int i = 0; i <= LAYERS; i++) rille_tensor_free(&x[i]);
    return status;
}

/* Measures the rates: products of layers, and a sum of values in cache, because activations and gradients of a step
 * may be in cache. */
static int
time_rates(struct rille_session *s, struct rille_cost *out)
{
    enum { PRODUCT = 1024, SUM = 2048 };
    static const char *const parts[] = {"S(0)", "S(0)"};
    double products, sum, bytes = 3.0 * 4 * SUM * SUM / 2;
    TRY(time_products(s, PRODUCT, &products));
    TRY(time_op(s, "add", SUM, parts, &sum));
    out->flops_per_ns = 3.0 * LAYERS * 2 * PRODUCT * PRODUCT * PRODUCT / 2 / MAX(1, products);
    out->bytes_per_ns = bytes / MAX(1, sum);
    return 0;
}

int
rille_calibrate(struct rille_session *s, struct rille_cost *out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(out, "out", __func__));
    double two, four, copy, sum, bytes = 4.0 * ROWS * COLUMNS;
    if (rille_device_count(s, "cpu") < 4)
        return fail(E_PLACE,
                    "calibrate: expected at least 4 cpu devices, found %d; open the session with devices = \"cpu:4\" "
                    "(on the command line: -d cpu:4)",
                    rille_device_count(s, "cpu"));
    TRY(time_small(s, 2, &two));
    TRY(time_small(s, 4, &four));
    TRY(time_copy(s, &copy));
    TRY(time_sum(s, &sum));
    rille_cost(s, out);
    TRY(time_rates(s, out));
    out->alpha_ns = MAX(1, (four - two) / 2);
    out->hop_ns = MAX(0, two - out->alpha_ns);
    out->beta_ns_per_byte = MAX(0, copy - two) / (bytes / 2);
    /* within a single process, receiving bytes is the same copy loop as copying bytes */
    out->copy_ns_per_byte = out->beta_ns_per_byte;
    out->gamma_ns_per_byte = MAX(0, sum - two - out->beta_ns_per_byte * bytes / 2) / bytes;
    return 0;
}
