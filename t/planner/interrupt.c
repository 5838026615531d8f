/* interrupt.c - tests that an interrupt ends the call of a planned step, even if no search is running when it arrives.
 *
 * The interrupt arrives during tracing, between two searches. An interrupt before the call must have no effect. */
#include "rille.h"
#include "t/lib/tap.h"

static struct rille_tensor *
ones(struct rille_session *s, const struct rille_layout *at)
{
    struct rille_tensor *t = NULL;
    int64_t shape[] = {8, 8};
    rille_create(s, rille_op_find("ones"), 0, NULL, 2, shape, "f32", at, &t);
    rille_eval(s, 1, &t);
    return t;
}

/* Plans the product of x and x. interrupted: true: sends an interrupt during tracing. Returns the status of
 * rille_trace_end(). */
static int
plan(struct rille_session *s, struct rille_tensor *x, const char *mode, int64_t limit, bool interrupted)
{
    struct rille_graph_options o = {.auto_parallel = mode, .memory_limit = limit};
    struct rille_tensor *in = NULL, *y = NULL;
    struct rille_graph *g = NULL;
    if (rille_trace_begin(s, &o, 1, &x, &in)) return -1;
    struct rille_arg arg[] = {{.kind = RILLE_ARG_TENSOR, .tensor = in}, {.kind = RILLE_ARG_TENSOR, .tensor = in}};
    int status = rille_call(s, rille_op_find("matmul"), 2, arg, 0, NULL, &y);
    if (interrupted) rille_interrupt(s);
    status = status ? -1 : rille_trace_end(s, 1, &y, &g);
    rille_graph_free(&g);
    rille_tensor_free(&y);
    rille_tensor_free(&in);
    return status;
}

int
main(void)
{
    static const char *const modes[] = {"optimal", "propagate", "greedy"};
    struct rille_session *s;
    const struct rille_place *p;
    const struct rille_layout *at;
    int32_t size = 2, rank[] = {0, 1};
    const char *sbp[] = {"S(0)"};
    if (rille_open(&(struct rille_options){.devices = "cpu:2"}, &s)) return 1;
    if (rille_place(s, "cpu", 1, &size, rank, &p) || rille_layout(s, p, 1, sbp, NULL, 2, &at)) return 1;
    struct rille_tensor *x = ones(s, at);
    for (int m = 0; m < 3; m++)
        for (int64_t limit = 0; limit <= 1 << 20; limit += 1 << 20) {
            int status = plan(s, x, modes[m], limit, true);
            ok(status != 0 && strstr(rille_error(), "interrupted"), "%s, limit %d: the call ends: %s", modes[m],
               (int)limit, rille_error());
            rille_interrupt(s);
            is_int(plan(s, x, modes[m], limit, false), 0, "an interrupt before a call has no effect");
        }
    rille_tensor_free(&x);
    is_int(rille_close(&s), 0, "the session closes without leaks");
    return done();
}
