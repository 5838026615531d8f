/* batch_numbers.c - numbers that a step's function computes from the size of the batch. */
#include "actors/session/batch/batch_numbers.h"

#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "kernels/op/base/table.h"
#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

struct batch_number {
    const struct op *op; /* operator that reads the number */
    struct rille_arg arg;
};

/* a call by the user's function: its operator, and its parameter */
struct batch_call {
    const struct op *op;
    /* first operand that is a parameter, only compared by address; NULL: none */
    const struct rille_tensor *parameter;
};

/* values from which the user's code made a tensor */
struct batch_data {
    struct type type;
    uint64_t hash;
    void *bytes; /* the values' bytes, owned; NULL: more than DATA_MOST bytes, so only their hash is stored */
};
enum { DATA_MOST = 1 << 16 };

/* sizes of a reshape, or start and stop of a slice */
struct batch_sizes {
    int32_t n;
    int64_t size[MAX_DIM];
};

/* a tensor that an operator without operands made */
struct batch_source {
    const struct op *op;
    struct type type;
};

struct batch_numbers {
    struct batch_number *of; /* numbers that the user passed to operators, in order of the calls */
    int32_t n, capacity;
    struct batch_sizes *sizes; /* sizes of reshapes and positions of slices, in order of the calls */
    int32_t nsizes, sizes_capacity;
    struct batch_source *source; /* tensors that calls without operands made, in order of the calls */
    int32_t nsource, source_capacity;
    struct batch_call *call; /* the user's calls, in order */
    int32_t ncall, call_capacity;
    struct batch_data *data; /* values from which tensors were made, in order of creation */
    int32_t ndata, data_capacity;
    /* true: the trace in progress passed a number to another operator than the call with the whole batch did, so
     * later stored numbers do not match */
    bool lost;
    bool complete; /* the call of the function with the whole batch has returned */
    /* indices of the next stored number, sizes, source, call and data with which the trace in progress is compared */
    int32_t next, next_sizes, next_source, next_call, next_data;
    /* here, there: operators of the first call that differs between the trace (here) and the whole batch (there);
     * NULL: no such call */
    const struct op *here, *there;
    struct line line;
    /* true if the positions of the trace's last slice are those for the whole batch, divided by the number of
     * micro-batches */
    bool multiplied;
    /* bits for the trace's last reshape: bit d is set if the size of dimension d depends on the batch */
    unsigned scales;
};

static void
forget_numbers(struct rille_session *s)
{
    struct batch_numbers *b = s->trace.numbers;
    s->trace.numbers = NULL;
    if (!b) return;
    for (int32_t i = 0; i < b->ndata; i++) free(b->data[i].bytes);
    free(b->of);
    free(b->sizes);
    free(b->source);
    free(b->call);
    free(b->data);
    free(b);
}

void
batch_numbers_begin(struct rille_session *s)
{
    if (s->trace.whole || s->trace.pieces == 1) forget_numbers(s);
    if (s->trace.whole) *(s->trace.numbers = must_alloc(sizeof *s->trace.numbers)) = (struct batch_numbers){0};
    s->trace.differs = false;
}

static void
store_number(struct batch_numbers *b, const struct op *op, const struct rille_arg *a)
{
    GROW(b->of, b->n + 1, b->capacity);
    b->of[b->n++] = (struct batch_number){op, *a};
}

void
batch_numbers_next(struct rille_session *s, const struct op *op, struct rille_arg *a)
{
    struct batch_numbers *b = s->trace.numbers;
    if (!b || b->lost) return;
    if (s->trace.whole) {
        store_number(b, op, a);
        return;
    }
    const struct batch_number *like = b->next < b->n ? &b->of[b->next++] : NULL;
    bool fits = like && like->op == op && (like->arg.kind == a->kind || a->kind == RILLE_ARG_LIVE);
    if (!fits)
        b->lost = true; /* the function calls other operators for the whole batch: later numbers cannot match */
    else if (a->kind != RILLE_ARG_LIVE)
        *a = like->arg;
}

static const struct rille_tensor *
first_parameter(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->owner && in[i]->owner->requires_grad && !(in[i]->node && in[i]->node->traced))
            return in[i]->owner;
    return NULL;
}

/* Compares the user's next call with the same call for the whole batch. Calls in rille.per_micro_batch() may
 * differ. */
static void
compare_call(struct rille_session *s, struct batch_numbers *b, const struct op *op, int nin, struct val *const *in)
{
    struct batch_call c = {op, first_parameter(nin, in)};
    if (s->trace.alone || b->here || b->there) return;
    if (s->trace.whole) {
        GROW(b->call, b->ncall + 1, b->call_capacity);
        b->call[b->ncall++] = c;
        return;
    }
    const struct batch_call *whole = b->next_call < b->ncall ? &b->call[b->next_call++] : NULL;
    if (whole && whole->op == c.op && whole->parameter == c.parameter) return;
    b->here = op;
    b->there = whole ? whole->op : NULL;
    b->line = s->context.at;
}

/* Returns the sizes of a reshape, or start and stop of a slice, as a list; an empty list for other operators. */
static struct batch_sizes
sizes_of(const struct op *op, const struct attr *attr)
{
    struct batch_sizes z = {0};
    if (op == op_find("reshape")) {
        const struct attr *shape = &attr[op_attr_find(op, "shape")];
        z.n = MIN(shape->n, MAX_DIM);
        memcpy(z.size, shape->list, sizeof *shape->list * (size_t)z.n);
    } else if (op == op_find("slice")) {
        z.n = 2;
        z.size[0] = attr[op_attr_find(op, "start")].i;
        z.size[1] = attr[op_attr_find(op, "stop")].i;
    }
    return z;
}

/* Returns true if the positions `whole` are n times the positions for a micro-batch. If `stop` is absent in one
 * list, it must be absent in both. */
static bool
is_multiple(const struct batch_sizes *whole, const struct batch_sizes *z, int64_t n)
{
    for (int d = 0; d < z->n; d++) {
        int64_t times;
        if (whole->size[d] == INT64_MAX && z->size[d] == INT64_MAX) continue;
        if (__builtin_mul_overflow(z->size[d], n, &times) || times != whole->size[d]) return false;
    }
    return true;
}

void
batch_numbers_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in,
                   const struct attr *attr)
{
    struct batch_numbers *b = s->trace.numbers;
    if (!b) return;
    compare_call(s, b, op, nin, in);
    b->scales = ~0U;
    b->multiplied = false;
    struct batch_sizes z = sizes_of(op, attr);
    if (!z.n || b->lost) return;
    if (s->trace.whole) {
        GROW(b->sizes, b->nsizes + 1, b->sizes_capacity);
        b->sizes[b->nsizes++] = z;
        return;
    }
    const struct batch_sizes *whole = b->next_sizes < b->nsizes ? &b->sizes[b->next_sizes++] : NULL;
    if (!whole || whole->n != z.n) {
        /* the calls differ from those for the whole batch, so later sizes cannot match */
        b->next_sizes = b->nsizes;
        return;
    }
    b->multiplied = is_multiple(whole, &z, s->trace.pieces);
    b->scales = (1U << z.n) - 1;
    for (int d = 0; d < z.n; d++)
        if (z.size[d] >= 0 && z.size[d] == whole->size[d]) b->scales &= ~(1U << d);
}

bool
batch_numbers_known(const struct rille_session *s)
{
    return s->trace.numbers && !s->trace.numbers->lost;
}

bool
batch_numbers_multiplied(const struct rille_session *s)
{
    return s->trace.numbers && s->trace.numbers->multiplied;
}

unsigned
batch_numbers_scales(const struct rille_session *s, const struct op *op)
{
    const struct batch_numbers *b = s->trace.numbers;
    return b && op == op_find("reshape") ? b->scales : ~0U;
}

int
batch_numbers_source(struct rille_session *s, const struct node *n)
{
    struct batch_numbers *b = s->trace.numbers;
    const struct type *t = &n->out[0]->type;
    int axis = -1;
    if (!b || b->lost) return -1;
    if (s->trace.whole) {
        GROW(b->source, b->nsource + 1, b->source_capacity);
        b->source[b->nsource++] = (struct batch_source){n->op, *t};
        return -1;
    }
    const struct batch_source *whole = b->next_source < b->nsource ? &b->source[b->next_source++] : NULL;
    if (!whole || whole->op != n->op || whole->type.ndim != t->ndim) {
        /* the calls differ from those for the whole batch, so later tensors cannot match */
        b->next_source = b->nsource;
        return -1;
    }
    for (int d = 0; d < t->ndim; d++)
        if (t->dim[d] != whole->type.dim[d]) axis = d;
    return axis;
}

/* Compares two types. Returns the dimension whose size depends on the batch; -1: the types are equal; -2: dtype or
 * number of dimensions differ. */
static int
scaled_dimension(const struct type *t, const struct type *whole)
{
    int axis = -1;
    if (t->ndim != whole->ndim || t->dtype != whole->dtype) return -2;
    for (int d = 0; d < t->ndim; d++)
        if (t->dim[d] != whole->dim[d]) axis = d;
    return axis;
}

int
batch_numbers_data(struct rille_session *s, const struct type *t, const void **data)
{
    struct batch_numbers *b = s->trace.numbers;
    size_t bytes = (size_t)type_bytes(t);
    if (!b || s->trace.alone) return 0;
    struct batch_data d = {*t, hash_bytes(0, *data, bytes), NULL};
    if (s->trace.whole) {
        if (bytes <= DATA_MOST) d.bytes = must_copy(*data, bytes);
        GROW(b->data, b->ndata + 1, b->data_capacity);
        b->data[b->ndata++] = d;
        return 0;
    }
    const struct batch_data *whole = b->next_data < b->ndata ? &b->data[b->next_data++] : NULL;
    int axis = whole ? scaled_dimension(t, &whole->type) : -2;
    if (axis == -2) {
        /* the tensors differ from those for the whole batch, so later values cannot match */
        b->next_data = b->ndata;
        return 0;
    }
    if (axis < 0 && whole->hash == d.hash) return 0;
    if (axis >= 0 || !whole->bytes)
        return fail(E_PLAN,
                    "tensor: the values depend on the number of rows, and with micro_batches = %d they would be made "
                    "for the rows of one micro-batch; pass the tensor to the step as an argument, or make it in "
                    "rille.per_micro_batch(fn)",
                    (int)s->trace.pieces);
    *data = whole->bytes;
    return 0;
}

int
batch_numbers_same(struct rille_session *s)
{
    const struct batch_numbers *b = s->trace.numbers;
    if (!b || s->trace.whole || !b->complete) return 0;
    const struct op *here = b->here, *there = b->there;
    if (!here && !there && b->next_call < b->ncall) there = b->call[b->next_call].op;
    if (!here && !there) return 0;
    s->trace.differs = true;
    struct str text = {0};
    if (!here || !there)
        str_addf(&text, "makes %s calls for the whole batch", here ? "fewer" : "more");
    else if (here == there)
        str_addf(&text, "calls '%s' with another parameter for the whole batch", here->name);
    else
        str_addf(&text, "calls '%s' where it calls '%s' for the whole batch", here->name, there->name);
    fail(E_PLAN,
         "graph: with micro_batches = %d, the function sees the rows of one micro-batch, and %s; a branch must not "
         "depend on the number of rows: decide it outside of the step, or in rille.per_micro_batch(fn)",
         (int)s->trace.pieces, str_text(&text));
    str_free(&text);
    if (here && b->line.file) err_note("%s:%d", b->line.file, b->line.line);
    return E_PLAN;
}

void
rille_trace_returned(struct rille_session *s)
{
    if (face_session(s, __func__)) return;
    if (s->trace.numbers && s->trace.whole) s->trace.numbers->complete = true;
}

bool
rille_trace_differs(const struct rille_session *s)
{
    return !face_session(s, __func__) && s->trace.differs;
}

void
batch_numbers_end(struct rille_session *s)
{
    if (!s->trace.whole) forget_numbers(s);
    s->trace.whole = false;
}
