/* move_table.c - table of move costs by tensor type, source layout and destination layout. The rows of the table
 * grow on demand. */
#include "actors/plan/assign/move_table.h"
#include "actors/plan/assign/price.h"

struct pair_type {
    struct type type;
    bool asked;
    struct pair_row **row; /* by number of the source layout; NULL: no move from this layout has been priced yet */
    int32_t n;
    struct pair_type *next;
};

void
move_table_begin(struct pairs *p, struct arena *a, const struct assign_prices *prices)
{
    *p = (struct pairs){.arena = a, .prices = prices};
}

static int32_t
layout_number(struct pairs *p, const struct layout *l)
{
    if (l->id >= p->nnumber) {
        int32_t was = p->nnumber;
        p->nnumber = 2 * l->id + 1;
        p->number =
            arena_extend(p->arena, p->number, sizeof *p->number * (size_t)was, sizeof *p->number * (size_t)p->nnumber);
    }
    if (!p->number[l->id]) p->number[l->id] = ++p->n;
    return p->number[l->id];
}

static struct pair_type *
pairs_of(struct pairs *p, const struct type *t, bool asked)
{
    struct pair_type *x = p->type;
    while (x && (x->asked != asked || !type_equal(&x->type, t))) x = x->next;
    if (x) return x;
    x = ARENA_NEW(p->arena, struct pair_type);
    *x = (struct pair_type){.type = *t, .asked = asked, .next = p->type};
    return p->type = x;
}

struct pair_row *
move_table_from(struct pairs *p, const struct type *t, bool asked, const struct layout *from)
{
    struct pair_type *x = pairs_of(p, t, asked);
    int32_t i = layout_number(p, from);
    if (i >= x->n) {
        int32_t was = x->n;
        x->n = 2 * i;
        x->row = arena_extend(p->arena, x->row, sizeof *x->row * (size_t)was, sizeof *x->row * (size_t)(x->n));
    }
    if (!x->row[i]) {
        x->row[i] = ARENA_NEW(p->arena, struct pair_row);
        *x->row[i] = (struct pair_row){.type = x, .from = from};
    }
    return x->row[i];
}

int64_t
move_table_price(struct pairs *p, struct pair_row *r, const struct layout *to, int64_t part, int64_t *bytes)
{
    int32_t i = layout_number(p, to);
    if (i >= r->n) {
        int32_t was = r->n;
        r->n = p->n + p->n / 4 + 1;
        r->pair = arena_extend(p->arena, r->pair, sizeof *r->pair * (size_t)was, sizeof *r->pair * (size_t)r->n);
    }
    struct pair *x = &r->pair[i];
    if (!x->costs)
        x->costs = 1 + assign_price_part(p->prices, &r->type->type, r->from, to, part, r->type->asked, &x->sends);
    *bytes = x->sends;
    return x->costs - 1;
}
