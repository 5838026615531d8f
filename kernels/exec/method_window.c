/* method_window.c - computes a view operator (slice, transpose...) whose result must be stored, by copying the view. */
#include "kernels/exec/stage.h"

#include "kernels/cpu/base/copies.h"
#include "runtime/base/error.h"

struct window {
    struct view view; /* view of the operand that the result copies; a run sets its data */
    int64_t skip;     /* offset of the view from the start of the operand, elements */
};

/* Stages the operand first if strides cannot express the view, as for a reshape of a transpose. */
static int
make_window(struct exec *e, int device)
{
    const struct op *op = e->call->op;
    if (!exec_by_host(device) || e->fused || !(op->flags & OP_VIEW)) return 0;
    struct window *w = ARENA_NEW(&e->arena, struct window);
    w->view = e->out[0];
    if (op->host.view(e->call, &e->in[0], &w->view, &w->skip)) {
        stage_operand(e, 0, e->in[0].dtype);
        w->view = e->out[0];
        TRY(op->host.view(e->call, &e->seen_in[0], &w->view, &w->skip));
    }
    w->view.dtype = e->in[0].dtype;
    return exec_accept(e, &method_window, "copy", w, e->scratch_bytes);
}

static int
run_window(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    const struct window *w = e->own;
    struct stage_views v;
    struct view window = w->view, to = e->out[0];
    stage_in(e, &v, in, r->scratch);
    window.data = (char *)v.in[0].data + w->skip * (int64_t)dtype_bytes(window.dtype);
    to.data = out[0];
    copies_run(&to, &window, e->k.threads);
    return 0;
}

const struct method method_window = {.make = make_window, .run = run_window, .waits = true, .reference = true};
