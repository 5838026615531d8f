/* batch_numbers.c - numbers that a step's function computes from the size of the batch. */
#include "actors/session/step/batch_numbers.h"

#include "actors/session/core/session.h"
#include "runtime/base/arena.h"

#include <stdlib.h>

struct batch_number {
    const struct op *op; /* operator that reads the number */
    struct rille_arg arg;
};

struct batch_numbers {
    struct batch_number *of; /* in the order of the calls */
    int32_t n, capacity;
    int32_t next; /* index of the next number of the trace in progress */
};

static void
forget_numbers(struct rille_session *s)
{
    if (s->trace.numbers) free(s->trace.numbers->of);
    free(s->trace.numbers);
    s->trace.numbers = NULL;
}

void
batch_numbers_begin(struct rille_session *s)
{
    if (s->trace.whole) forget_numbers(s);
    if (s->trace.whole) *(s->trace.numbers = must_alloc(sizeof *s->trace.numbers)) = (struct batch_numbers){0};
    if (s->trace.numbers) s->trace.numbers->next = 0;
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
batch_numbers_end(struct rille_session *s)
{
    if (!s->trace.whole) forget_numbers(s);
    s->trace.whole = false;
}
