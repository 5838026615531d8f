/* batch_numbers.c - numbers that a step's function computes from the size of the batch. */
#include "actors/session/step/batch_numbers.h"

#include "actors/session/core/session.h"
#include "kernels/op/lib/table.h"
#include "runtime/base/arena.h"

#include <stdlib.h>
#include <string.h>

struct batch_number {
    const struct op *op; /* operator that reads the number */
    struct rille_arg arg;
};

/* sizes of a reshape */
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
    struct batch_number *of; /* in the order of the calls */
    int32_t n, capacity;
    struct batch_sizes *sizes; /* likewise */
    int32_t nsizes, sizes_capacity;
    struct batch_source *source; /* likewise */
    int32_t nsource, source_capacity;
    /* indices of the next number, sizes and source of the trace in progress */
    int32_t next, next_sizes, next_source;
    unsigned scales; /* of the trace's last reshape: bit d: the size of dimension d depends on the batch */
};

static void
forget_numbers(struct rille_session *s)
{
    if (s->trace.numbers) free(s->trace.numbers->of);
    if (s->trace.numbers) free(s->trace.numbers->sizes);
    if (s->trace.numbers) free(s->trace.numbers->source);
    free(s->trace.numbers);
    s->trace.numbers = NULL;
}

void
batch_numbers_begin(struct rille_session *s)
{
    if (s->trace.whole || s->trace.pieces == 1) forget_numbers(s);
    if (s->trace.whole) *(s->trace.numbers = must_alloc(sizeof *s->trace.numbers)) = (struct batch_numbers){0};
    if (s->trace.numbers) s->trace.numbers->next = s->trace.numbers->next_sizes = s->trace.numbers->next_source = 0;
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
    if (!b) return;
    if (s->trace.whole) {
        store_number(b, op, a);
        return;
    }
    const struct batch_number *like = b->next < b->n ? &b->of[b->next++] : NULL;
    bool fits = like && like->op == op && (like->arg.kind == a->kind || a->kind == RILLE_ARG_LIVE);
    if (!fits)
        forget_numbers(s); /* the function calls other operators for the whole batch */
    else if (a->kind != RILLE_ARG_LIVE)
        *a = like->arg;
}

void
batch_numbers_sizes(struct rille_session *s, const struct op *op, const struct attr *attr)
{
    struct batch_numbers *b = s->trace.numbers;
    if (!b) return;
    b->scales = ~0U;
    if (op != op_find("reshape")) return;
    const struct attr *shape = &attr[op_attr_find(op, "shape")];
    if (s->trace.whole) {
        GROW(b->sizes, b->nsizes + 1, b->sizes_capacity);
        b->sizes[b->nsizes].n = MIN(shape->n, MAX_DIM);
        memcpy(b->sizes[b->nsizes++].size, shape->list, sizeof *shape->list * (size_t)MIN(shape->n, MAX_DIM));
        return;
    }
    b->scales = (1U << MIN(shape->n, MAX_DIM)) - 1;
    const struct batch_sizes *whole = b->next_sizes < b->nsizes ? &b->sizes[b->next_sizes++] : NULL;
    if (!whole || whole->n != shape->n) {
        b->next_sizes = b->nsizes; /* the function calls other operators for the whole batch */
        b->scales = ~0U;
        return;
    }
    for (int d = 0; d < shape->n; d++)
        if (shape->list[d] >= 0 && shape->list[d] == whole->size[d]) b->scales &= ~(1U << d);
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
    if (!b) return -1;
    if (s->trace.whole) {
        GROW(b->source, b->nsource + 1, b->source_capacity);
        b->source[b->nsource++] = (struct batch_source){n->op, *t};
        return -1;
    }
    const struct batch_source *whole = b->next_source < b->nsource ? &b->source[b->next_source++] : NULL;
    if (!whole || whole->op != n->op || whole->type.ndim != t->ndim) {
        b->next_source = b->nsource; /* the function calls other operators for the whole batch */
        return -1;
    }
    for (int d = 0; d < t->ndim; d++)
        if (t->dim[d] != whole->type.dim[d]) axis = d;
    return axis;
}

void
batch_numbers_end(struct rille_session *s)
{
    if (!s->trace.whole) forget_numbers(s);
    s->trace.whole = false;
}
