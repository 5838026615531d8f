/* method_scan.c - runs the body of a scan once per position of an axis. A body is a small program of operators
 * (kernels/op/base/body.h). Each operator of the body has an exec of its own.
 *
 * A state has two buffers in scratch: the operators of a position read one buffer and write the next state to the
 * other. The address of a slice or output advances by a fixed distance per position, so no slice is copied. */
#include "kernels/exec/stage.h"

#include "kernels/op/base/body_bind.h"
#include "kernels/op/base/table.h"
#include "runtime/base/error.h"
#include "runtime/base/stop.h"
#include "runtime/device/device.h"

#include <limits.h>
#include <string.h>

enum { BODY, AXIS, LENGTH, REVERSE };

/* Address of a value of the body: `bytes` after the start of operand `index` or result `index` of the scan, of a
 * buffer of state `index`, or of scratch. IN_STATE: the buffer that the present position reads; IN_NEXT: the buffer
 * that it writes. step: distance from one position to the next, bytes. */
enum base { IN_OPERAND, IN_RESULT, IN_STATE, IN_NEXT, IN_SCRATCH, ABSENT };
struct address {
    enum base base;
    int index;
    int64_t bytes, step;
};

/* One call of a part: part number `part` of the exec, with the addresses of its operands and results. */
struct action {
    int part, nin, nout;
    struct address *in, *out;
};

struct scan {
    struct bound_body b;
    struct view *view;       /* [nvalue] views of the body's values */
    struct address *address; /* [nvalue] addresses of the body's values */
    int64_t *buffer;         /* [2 * states] offsets in scratch of the two buffers of each state, bytes */
    struct action *begin, *each, *end;
    int nbegin, neach, nend;
    int64_t parts_at; /* offset in scratch of the parts' own scratch, bytes */
};

/* ---- making the parts of a scan ---- */

/* Element-wise operators of the body that are computed together, as one fused exec. */
enum { CHAIN_STEPS = 24, CHAIN_OPERANDS = 32 };
struct chain {
    int n, noperand; /* noperand: number of operands of all members together */
    int node[CHAIN_STEPS];
};

/* State of making a scan. */
struct making {
    struct exec *e;
    struct scan *s;
    int device;
    int64_t bytes; /* size of scratch reserved so far, bytes */
    int64_t most;  /* largest scratch that a part needs, bytes */
    int *last;     /* by value: last operator that reads the value; INT_MAX: the body returns it */
    struct chain chain;
};

static int64_t
take_scratch(struct making *m, const struct view *v)
{
    int64_t at = m->bytes;
    m->bytes += (int64_t)align_64((size_t)view_bytes(v));
    return at;
}

/* Adds an action that runs the part e->part[e->npart], which the caller has just made, and counts that part. The
 * caller sets the addresses of the operands and results. */
static struct action *
part_action(struct making *m, int nin, int nout, struct action *list, int *n)
{
    struct exec *e = m->e;
    m->most = MAX(m->most, (int64_t)exec_scratch(e->part[e->npart]));
    struct action *a = &list[(*n)++];
    *a = (struct action){.part = e->npart++, .nin = nin, .nout = nout};
    a->in = ARENA_ARRAY(&e->arena, struct address, nin + 1);
    a->out = ARENA_ARRAY(&e->arena, struct address, nout);
    return a;
}

/* Adds an action that computes a call on these views. */
static int
add_action(struct making *m, const struct call *c, const struct view *in, const struct view *out, struct action *list,
           int *n)
{
    struct kcall k = {.call = c, .in = in, .out = out, .threads = m->e->k.threads};
    TRY(exec_new(&k, m->device, &m->e->part[m->e->npart]));
    part_action(m, c->nin, c->nout, list, n);
    return 0;
}

/* Adds an action that copies `from` to `to`. If `from` is ABSENT, the action fills `to` with zeros. */
static int
copy_action(struct making *m, const struct type *t, const struct view *in, struct address from, const struct view *out,
            struct address to, struct action *list, int *n)
{
    bool zeros = from.base == ABSENT;
    struct type type[2] = {*t, *t};
    type[1].dtype = out->dtype; /* a partial sum of 16-bit floats is f32 */
    const struct op *op = op_find(zeros ? "zeros" : "contiguous");
    struct attr attr[OP_ATTR];
    op_attr_defaults(op, attr);
    struct call c = {.op = op, .nin = zeros ? 0 : 1, .nout = 1, .in = type, .out = type + 1, .attr = attr};
    TRY(add_action(m, &c, in, out, list, n));
    list[*n - 1].in[0] = from;
    list[*n - 1].out[0] = to;
    return 0;
}

static int
scan_states(const struct scan *s)
{
    return s->b.body->nstate + s->b.body->nsum;
}

/* Returns the view of one position of the scan's result k; sets *at to its address. */
static struct view
output_view(const struct making *m, int k, struct address *at)
{
    const struct view *whole = &m->e->out[k];
    int64_t stride = whole->stride[body_axis(m->e->call->attr[AXIS].i, whole->ndim)];
    *at = (struct address){IN_RESULT, k, 0, stride * (int64_t)dtype_bytes(whole->dtype)};
    return body_slice(whole, m->e->call->attr[AXIS].i);
}

static void
place_inputs(struct making *m)
{
    const struct body *b = m->s->b.body;
    int slices = scan_states(m->s);
    m->s->buffer = ARENA_ARRAY(&m->e->arena, int64_t, 2 * slices + 1);
    for (int i = 0; i < b->ninput; i++) {
        int from = body_operand(b, i);
        struct address *at = &m->s->address[i];
        if (i < slices) {
            *at = (struct address){.base = IN_STATE, .index = i};
            m->s->view[i] = stage_view(&m->s->view[i], m->s->view[i].dtype);
            for (int k = 0; k < 2; k++) m->s->buffer[2 * i + k] = take_scratch(m, &m->s->view[i]);
            continue;
        }
        *at = (struct address){.base = IN_OPERAND, .index = from};
        if (i >= slices + b->nslice) continue;
        const struct view *whole = &m->e->in[from];
        int64_t stride = whole->stride[body_axis(m->e->call->attr[AXIS].i, whole->ndim)];
        at->step = stride * (int64_t)dtype_bytes(whole->dtype);
    }
}

/* Chooses where an operator writes value v. A next state or an output is written to its final place, so that no copy
 * is needed. Any other value is written to scratch. */
static struct address
value_address(struct making *m, int v)
{
    const struct body *b = m->s->b.body;
    struct address at;
    for (int i = 0; i < scan_states(m->s); i++)
        if (b->result[i] == v) return (struct address){.base = IN_NEXT, .index = i};
    for (int k = scan_states(m->s); k < body_nresult(b); k++) {
        struct view out = output_view(m, k, &at);
        if (b->result[k] == v && view_is_dense(&out) && out.dtype == m->s->view[v].dtype) return at;
    }
    return (struct address){.base = IN_SCRATCH, .bytes = take_scratch(m, &m->s->view[v])};
}

/* Makes the result of a view operator share the bytes of the operand, so that no action is needed. Returns false if
 * n is no view operator, or if strides cannot express the view. */
static bool
place_view(struct making *m, const struct body_node *n, const struct call *c)
{
    int64_t skip = 0;
    const struct view *in = &m->s->view[n->in[0]];
    struct view view = m->s->view[n->first];
    if (!(n->op->flags & OP_VIEW)) return false;
    if (n->op->host.view(c, in, &view, &skip)) return err_clear(), false;
    view.dtype = in->dtype;
    m->s->view[n->first] = view;
    m->s->address[n->first] = m->s->address[n->in[0]];
    m->s->address[n->first].bytes += skip * (int64_t)dtype_bytes(in->dtype);
    return true;
}

static int
make_call(struct making *m, int i)
{
    struct scan *s = m->s;
    const struct body_node *n = &s->b.body->node[i];
    struct view *in = ARENA_ARRAY(&m->e->arena, struct view, n->nin + 1);
    for (int k = 0; k < n->nin; k++)
        if (n->in[k] >= 0) in[k] = s->view[n->in[k]];
    TRY(add_action(m, &s->b.call[i], in, &s->view[n->first], s->each, &s->neach));
    struct action *a = &s->each[s->neach - 1];
    for (int k = 0; k < n->nin; k++) a->in[k] = n->in[k] < 0 ? (struct address){.base = ABSENT} : s->address[n->in[k]];
    for (int k = 0; k < n->nout; k++) a->out[k] = s->address[n->first + k] = value_address(m, n->first + k);
    return 0;
}

/* ---- chains of element-wise operators ---- */

static bool
is_chain_value(const struct making *m, int v, int *step)
{
    for (*step = 0; *step < m->chain.n; ++*step)
        if (m->s->b.body->node[m->chain.node[*step]].first == v) return true;
    return false;
}

/* Returns true if operator i can be the next member of the chain. */
static bool
may_chain(const struct making *m, int i)
{
    const struct body_node *n = &m->s->b.body->node[i], *first;
    unsigned flags = device_kind(m->device)->flags;
    bool fits = flags & FUSES && !(flags & COMPILES) && n->op->flags & OP_ELTWISE && n->op->eltwise.f && n->nout == 1;
    /* Values of other dtypes than f32, f64 and i64 must be rounded after each operator, which a chain does not do. */
    enum dtype d = (enum dtype)m->s->view[n->first].dtype;
    fits = fits && (d == DT_F32 || d == DT_F64 || d == DT_I64);
    for (int k = 0; k < n->nin; k++) fits = fits && n->in[k] >= 0;
    if (!fits || m->chain.n == 0) return fits;
    first = &m->s->b.body->node[m->chain.node[0]];
    const struct view *x = &m->s->view[first->first], *y = &m->s->view[n->first];
    if (m->chain.n == CHAIN_STEPS || m->chain.noperand + n->nin > CHAIN_OPERANDS || x->ndim != y->ndim) return false;
    return !memcmp(x->dim, y->dim, sizeof x->dim[0] * x->ndim);
}

/* Makes the part that computes the chain, and empties the chain. */
static int
end_chain(struct making *m)
{
    struct scan *s = m->s;
    struct fuse_step step[CHAIN_STEPS] = {{0}};
    struct view in[CHAIN_OPERANDS], out[CHAIN_STEPS];
    int nin = 0, nout = 0, from[CHAIN_OPERANDS], to[CHAIN_STEPS], n = m->chain.n, end = n ? m->chain.node[n - 1] : 0;
    if (n == 1) {
        m->chain = (struct chain){0};
        return make_call(m, end);
    }
    for (int i = 0; i < n; i++) {
        const struct body_node *node = &s->b.body->node[m->chain.node[i]];
        step[i] = (struct fuse_step){.call = &s->b.call[m->chain.node[i]], .out = -1};
        for (int k = 0; k < node->nin; k++) {
            struct fuse_arg *arg = &step[i].arg[k];
            arg->step = is_chain_value(m, node->in[k], &arg->index);
            if (arg->step) continue;
            for (arg->index = 0; arg->index < nin && from[arg->index] != node->in[k];) arg->index++;
            if (arg->index == nin) in[nin] = s->view[node->in[k]], from[nin++] = node->in[k];
        }
        if (m->last[node->first] > end) step[i].out = nout, out[nout] = s->view[node->first], to[nout++] = node->first;
    }
    m->chain = (struct chain){0};
    if (n == 0 || nout == 0) return 0;
    TRY(exec_fused(n, step, nin, in, nout, out, m->device, m->e->k.threads, &m->e->part[m->e->npart]));
    struct action *a = part_action(m, nin, nout, s->each, &s->neach);
    for (int k = 0; k < nin; k++) a->in[k] = s->address[from[k]];
    for (int k = 0; k < nout; k++) a->out[k] = s->address[to[k]] = value_address(m, to[k]);
    return 0;
}

/* Prepares operator i: as a view of its operand, as the next member of the chain, or as a separate part. */
static int
make_node(struct making *m, int i)
{
    const struct body_node *n = &m->s->b.body->node[i];
    int step;
    if (n->op->flags & OP_VIEW && is_chain_value(m, n->in[0], &step)) TRY(end_chain(m));
    if (place_view(m, n, &m->s->b.call[i])) return 0;
    if (!may_chain(m, i)) TRY(end_chain(m));
    if (!may_chain(m, i)) return make_call(m, i);
    m->chain.node[m->chain.n++] = i;
    m->chain.noperand += n->nin;
    return 0;
}

static int *
last_readers(struct making *m)
{
    const struct body *b = m->s->b.body;
    int *last = ARENA_ARRAY(&m->e->arena, int, b->nvalue);
    for (int i = 0; i < b->nnode; i++)
        for (int k = 0; k < b->node[i].nin; k++)
            if (b->node[i].in[k] >= 0) last[b->node[i].in[k]] = i;
    for (int k = 0; k < body_nresult(b); k++) last[b->result[k]] = INT_MAX;
    return last;
}

/* ---- copies of states and outputs ---- */

static bool
is_at(const struct address *a, enum base base, int index)
{
    return a->base == base && a->index == index;
}

/* Adds the copies of values that are next states or outputs, but were not written there. */
static int
make_result_copies(struct making *m)
{
    struct scan *s = m->s;
    const struct body *b = s->b.body;
    for (int k = 0; k < body_nresult(b); k++) {
        int v = b->result[k];
        bool state = k < scan_states(s);
        struct address to = {.base = IN_NEXT, .index = k};
        struct view out = state ? s->view[k] : output_view(m, k, &to);
        if (is_at(&s->address[v], to.base, k)) continue;
        TRY(copy_action(m, &s->b.value[v].type, &s->view[v], s->address[v], &out, to, s->each, &s->neach));
    }
    return 0;
}

/* Adds the copies that fill the states before the first position, and the copies that return the states after the
 * last position. */
static int
make_ends(struct making *m)
{
    struct scan *s = m->s;
    for (int i = 0; i < scan_states(s); i++) {
        int from = body_operand(s->b.body, i);
        struct address in = {.base = from < 0 ? ABSENT : IN_OPERAND, .index = from}, state = s->address[i];
        const struct type *t = &s->b.value[i].type;
        const struct view *first = from < 0 ? NULL : &m->e->in[from];
        TRY(copy_action(m, t, first, in, &s->view[i], state, s->begin, &s->nbegin));
        struct address out = {.base = IN_RESULT, .index = i};
        TRY(copy_action(m, t, &s->view[i], state, &m->e->out[i], out, s->end, &s->nend));
    }
    return 0;
}

static int
make_scan_parts(struct making *m)
{
    struct scan *s = m->s;
    const struct body *b = s->b.body;
    int most = b->nnode + body_nresult(b);
    m->e->part = ARENA_ARRAY(&m->e->arena, struct exec *, most + 2 * scan_states(s));
    s->begin = ARENA_ARRAY(&m->e->arena, struct action, scan_states(s) + 1);
    s->end = ARENA_ARRAY(&m->e->arena, struct action, scan_states(s) + 1);
    s->each = ARENA_ARRAY(&m->e->arena, struct action, most);
    s->address = ARENA_ARRAY(&m->e->arena, struct address, b->nvalue);
    place_inputs(m);
    m->last = last_readers(m);
    for (int i = 0; i < b->nnode; i++) TRY(make_node(m, i));
    TRY(end_chain(m));
    TRY(make_result_copies(m));
    return make_ends(m);
}

static int
make_scan(struct exec *e, int device)
{
    if (e->fused || e->call->op->attr[0].kind != ATTR_BODY) return 0;
    struct scan *s = ARENA_NEW(&e->arena, struct scan);
    struct making m = {.e = e, .s = s, .device = device};
    TRY(body_bind(&e->arena, e->call, e->call->attr[AXIS].i, &s->b));
    s->view = body_views(&e->arena, &s->b, &e->k, e->call->attr[AXIS].i);
    TRY(make_scan_parts(&m));
    s->parts_at = m.bytes;
    return exec_accept(e, &method_scan, "scan", s, (size_t)(m.bytes + m.most));
}

/* ---- running a scan ---- */

/* One position of a run. odd: the states are in their second buffers. */
struct moment {
    const struct scan *s;
    void *const *in;
    void *const *out;
    const struct run_args *r;
    int64_t position;
    bool odd;
};

static void *
address_now(const struct moment *m, const struct address *a)
{
    char *base = NULL;
    switch (a->base) {
    case ABSENT: return NULL;
    case IN_OPERAND: base = m->in[a->index]; break;
    case IN_RESULT: base = m->out[a->index]; break;
    case IN_STATE: base = m->r->scratch + m->s->buffer[2 * a->index + m->odd]; break;
    case IN_NEXT: base = m->r->scratch + m->s->buffer[2 * a->index + !m->odd]; break;
    case IN_SCRATCH: base = m->r->scratch; break;
    }
    return base + a->bytes + m->position * a->step;
}

static int
perform_actions(const struct exec *e, const struct moment *m, int n, const struct action *list)
{
    void *in[EXEC_IN], *out[OP_OUT], *scratch = m->r->scratch + m->s->parts_at;
    for (int i = 0; i < n; i++) {
        const struct action *a = &list[i];
        for (int k = 0; k < a->nin; k++) in[k] = address_now(m, &a->in[k]);
        for (int k = 0; k < a->nout; k++) out[k] = address_now(m, &a->out[k]);
        TRY(exec_on(e->part[a->part], in, out, scratch, m->r->device, 0, NULL));
    }
    return 0;
}

static int
run_scan(const struct exec *e, void *const *in, void *const *out, const struct run_args *r)
{
    const struct scan *s = e->own;
    int64_t length = e->call->attr[LENGTH].i;
    struct moment m = {.s = s, .in = in, .out = out, .r = r};
    TRY(perform_actions(e, &m, s->nbegin, s->begin));
    for (int64_t t = 0; t < length && !stop_now(); t++) {
        m.position = e->call->attr[REVERSE].i ? length - 1 - t : t;
        m.odd = t & 1;
        TRY(perform_actions(e, &m, s->neach, s->each));
    }
    m.position = 0;
    m.odd = length & 1;
    return perform_actions(e, &m, s->nend, s->end);
}

const struct method method_scan = {.make = make_scan, .run = run_scan, .launches = exec_parts_launch};
