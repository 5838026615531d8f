/* close.c - tests that a session can be closed with and without open handles. */
#include "rille.h"
#include "t/lib/tap.h"

static struct rille_session *
open_session(void)
{
    struct rille_session *s;
    return rille_open(&(struct rille_options){.devices = "cpu:2"}, &s) ? NULL : s;
}

static struct rille_tensor *
ones(struct rille_session *s)
{
    struct rille_tensor *t;
    int64_t shape[] = {3, 4};
    rille_create(s, rille_op_find("ones"), 0, NULL, 2, shape, NULL, NULL, &t);
    return t;
}

static struct rille_tensor *
sum(struct rille_session *s, struct rille_tensor *t)
{
    struct rille_tensor *result;
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = t};
    rille_call(s, rille_op_find("sum"), 1, &arg, 0, NULL, &result);
    return result;
}

static void
all_given_back(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s);
    rille_tensor_free(&t);
    ok(rille_close(&s) == 0 && !s, "a session without open handles closes");
    ok(rille_close(&s) == 0, "closing a closed session has no effect");
}

static void
tensors_left(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s);
    rille_tensor_set_name(t, "weight");
    rille_tensor_hold(t);
    ok(rille_close(&s) != 0, "closing a session with an open handle is an error");
    ok(strstr(rille_error(), "1 handle was") && strstr(rille_error(), "f32{3, 4} weight"),
       "the message names the handle: %s", rille_error());
}

static void
gradients_left(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s), *y, *g;
    rille_tensor_set_requires_grad(t, true);
    y = sum(s, t);
    rille_tensor_backward(y);
    g = rille_tensor_grad(t);
    ok(g != NULL, "backward makes a gradient");
    ok(rille_close(&s) != 0 && strstr(rille_error(), "3 handles"), "a gradient's handle is counted: %s", rille_error());
}

static void
updates_left(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s), *y;
    rille_tensor_set_requires_grad(t, true);
    y = sum(s, t);
    rille_tensor_backward(y);
    rille_tensor_free(&y);
    ok(rille_close(&s) != 0 && strstr(rille_error(), "1 handle was"), "a gradient without a handle is not counted");
}

static int
tell(void *arg, double *out)
{
    *out = *(double *)arg;
    return 0;
}

static void
graphs_left(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s), *piece, *result;
    struct rille_live *live;
    struct rille_graph *g;
    double rate = 1;
    rille_live_new(s, tell, NULL, &rate, &live);
    rille_trace_begin(s, &(struct rille_graph_options){0}, 1, &t, &piece);
    result = sum(s, piece);
    rille_trace_end(s, 1, &result, &g);
    ok(rille_close(&s) != 0 && strstr(rille_error(), "a graph"), "the message names an open graph: %s", rille_error());
}

static void
trace_left(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s), *piece;
    rille_trace_begin(s, &(struct rille_graph_options){0}, 1, &t, &piece);
    rille_tensor_free(&piece);
    rille_tensor_free(&t);
    ok(rille_close(&s) == 0, "closing a session abandons an open trace");
}

static void
lines(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s), *made;
    rille_at(s, "train.lua", 14, NULL, 0);
    int code = rille_tensor_to_local(t, 7, &made);
    ok(code && code == rille_error_code(), "an error has a code");
    is_str(rille_error_kind(), "placement does not fit", "an error has a kind");
    is_str(rille_error_line(), "train.lua:14", "an error has the source line set by rille_at");
    rille_tensor_free(&t);
    rille_close(&s);
}

/* Frees the handle of a tensor that a compiled step reads. */
static void
captured_freed(void)
{
    struct rille_session *s = open_session();
    struct rille_tensor *t = ones(s), *captured = ones(s), *piece, *y, *result;
    struct rille_graph *g;
    float value[12] = {0};
    rille_trace_begin(s, &(struct rille_graph_options){0}, 1, &t, &piece);
    const struct rille_arg args[] = {{.kind = RILLE_ARG_TENSOR, .tensor = piece},
                                     {.kind = RILLE_ARG_TENSOR, .tensor = captured}};
    rille_call(s, rille_op_find("add"), 2, args, 0, NULL, &y);
    rille_trace_end(s, 1, &y, &g);
    rille_tensor_free(&captured);
    rille_tensor_free(&piece);
    rille_tensor_free(&y);
    bool right = !rille_graph_run(g, 1, &t, &result) && !rille_tensor_read(result, value) && value[11] == 2;
    ok(right, "a compiled step keeps a tensor that it reads, whose handle was freed: %s", right ? "" : rille_error());
    rille_tensor_free(&result);
    rille_tensor_free(&t);
    rille_graph_free(&g);
    ok(rille_close(&s) == 0, "the session closes");
}

int
main(void)
{
    all_given_back();
    tensors_left();
    gradients_left();
    updates_left();
    graphs_left();
    trace_left();
    lines();
    captured_freed();
    return done();
}
