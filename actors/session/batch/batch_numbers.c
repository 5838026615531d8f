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

/* values from which the user's code made a tensor */
struct batch_data {
    struct type type;
    uint64_t hash;
    void *bytes; /* the values' bytes, owned; NULL: more than DATA_MOST bytes, so only their hash is stored */
};
enum { DATA_MOST = 1 << 16 };

/* a tensor that an operator without operands made */
struct batch_source {
    const struct op *op;
    struct type type;
};

struct batch_numbers {
    struct batch_number *of; /* numbers that the user passed to operators, in order of the calls */
    int32_t n, capacity;
    struct batch_source *source; /* tensors that calls without operands made, in order of the calls */
    int32_t nsource, source_capacity;
    struct batch_data *data; /* values from which tensors were made, in order of creation */
    int32_t ndata, data_capacity;
    /* true: the trace in progress has read another number, source or tensor than the call with the whole batch, so
     * later stored ones do not match */
    bool lost;
    /* indices of the next stored number, source and data with which the trace in progress is compared */
    int32_t next, next_source, next_data;
};

static void
forget_numbers(struct rille_session *s)
{
    struct batch_numbers *b = s->trace.numbers;
    s->trace.numbers = NULL;
    if (!b) return;
    for (int32_t i = 0; i < b->ndata; i++) free(b->data[i].bytes);
    free(b->of);
    free(b->source);
    free(b->data);
    free(b);
}

void
batch_numbers_begin(struct rille_session *s)
{
    if (s->trace.whole || s->trace.pieces == 1) forget_numbers(s);
    if (s->trace.whole) *(s->trace.numbers = must_alloc(sizeof *s->trace.numbers)) = (struct batch_numbers){0};
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
    if (!b || b->lost || s->trace.alone) return;
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

bool
batch_numbers_known(const struct rille_session *s)
{
    return s->trace.numbers && !s->trace.numbers->lost;
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

/* Fails unless the type for the whole batch is `t` with n times the size of dimension `axis`, for n micro-batches. */
static int
check_rows_of_source(const struct rille_session *s, const struct node *n, const struct type *whole, int axis)
{
    struct type scaled = n->out[0]->type;
    scaled.dim[axis] *= s->trace.pieces;
    if (shape_equal(&scaled, whole)) return 0;
    struct str here = {0}, there = {0};
    type_print(&n->out[0]->type, &here);
    type_print(whole, &there);
    int status =
        fail(E_PLAN,
             "%s: with micro_batches = %d, the result is %s for one micro-batch and %s for the whole batch; "
             "its sizes must be constant, or one size must be the number of rows. Pass the tensor to the step as "
             "an argument, or make it in rille.per_micro_batch(fn)",
             n->name, (int)s->trace.pieces, str_text(&here), str_text(&there));
    str_free(&here);
    str_free(&there);
    return status;
}

int
batch_numbers_source(struct rille_session *s, const struct node *n, int *axis)
{
    struct batch_numbers *b = s->trace.numbers;
    const struct type *t = &n->out[0]->type;
    *axis = -1;
    if (!b || b->lost || s->trace.alone) return 0;
    if (s->trace.whole) {
        GROW(b->source, b->nsource + 1, b->source_capacity);
        b->source[b->nsource++] = (struct batch_source){n->op, *t};
        return 0;
    }
    const struct batch_source *whole = b->next_source < b->nsource ? &b->source[b->next_source++] : NULL;
    int scaled = whole && whole->op == n->op ? scaled_dimension(t, &whole->type) : -2;
    b->lost = scaled == -2;
    if (scaled < 0) return 0;
    *axis = scaled;
    return check_rows_of_source(s, n, &whole->type, scaled);
}

int
batch_numbers_data(struct rille_session *s, const struct type *t, const void **data)
{
    struct batch_numbers *b = s->trace.numbers;
    size_t bytes = (size_t)type_bytes(t);
    if (!b || b->lost || s->trace.alone) return 0;
    struct batch_data d = {*t, hash_bytes(0, *data, bytes), NULL};
    if (s->trace.whole) {
        if (bytes <= DATA_MOST) d.bytes = must_copy(*data, bytes);
        GROW(b->data, b->ndata + 1, b->data_capacity);
        b->data[b->ndata++] = d;
        return 0;
    }
    const struct batch_data *whole = b->next_data < b->ndata ? &b->data[b->next_data++] : NULL;
    int axis = whole ? scaled_dimension(t, &whole->type) : -2;
    b->lost = axis == -2;
    if (b->lost) return 0;
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

bool
batch_numbers_same(const struct rille_session *s)
{
    const struct batch_numbers *b = s->trace.numbers;
    return !b || (!b->lost && b->next == b->n && b->next_source == b->nsource && b->next_data == b->ndata);
}

void
batch_numbers_end(struct rille_session *s)
{
    if (!s->trace.whole) forget_numbers(s);
    s->trace.whole = false;
}
