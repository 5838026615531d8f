/* candidates.c - lists the layout candidates of a planned step's nodes, in order of regret. Equal lists are stored
 * once. */
#include "actors/session/planner/candidates.h"
#include "actors/plan/assign/price.h"

#include <string.h>

struct sent { /* memo entry: bytes of a move that a candidate would need; 0: the candidate needs no move */
    struct type type;
    const struct layout *from, *to;
    int64_t bytes;
};
/* layout candidates of one node, in order of regret (cost above the best plan) */
struct ranked {
    int32_t choice, n;
    const int64_t *low, *high;
    struct rille_explain_candidate *candidates;
    struct ranked *next;
};
/* memo entry: layout candidates of a node with given operand types and layouts, without data that depend on the
 * choice */
struct told {
    const struct assign_candidate *of;
    int nin;
    struct type *type; /* types and layouts of the operands */
    const struct layout **has;
    struct rille_explain_candidate *row;
    struct ranked *ranked; /* rankings of all nodes so far */
};

void
explain_candidates_begin(struct explain_candidates *t, struct rille_session *s, const struct program *p,
                         const struct assigned *planned, struct arena *a)
{
    *t = (struct explain_candidates){
        .s = s, .p = p, .planned = planned, .a = a, .sent = {.arena = a}, .told = {.arena = a}};
    t->counted.arena = &t->tmp;
}

void
explain_candidates_end(struct explain_candidates *t)
{
    arena_fini(&t->tmp);
    t->counted = (struct hash_table){.arena = &t->tmp};
}

const char **
explain_candidates_texts(struct explain_candidates *t, int n, const struct layout *const *l, int *count)
{
    const char **out = ARENA_ARRAY(t->a, const char *, n + 1);
    int k = 0;
    for (int i = 0; i < n; i++)
        if (l[i]) out[k++] = rille_layout_text(t->s, (const struct rille_layout *)l[i]);
    if (count) *count = k;
    return out;
}

/* Returns the bytes of a move. Computes each move once, because layers and candidates repeat. */
static int64_t
candidate_bytes_sent(struct explain_candidates *t, const struct type *type, const struct layout *from,
                     const struct layout *to)
{
    uint64_t hash = layout_hash_move(type, from, to);
    uint32_t at = 0;
    for (const struct sent *x; (x = hash_next(&t->sent, hash, &at));)
        if (x->from == from && x->to == to && type_equal(&x->type, type)) return x->bytes;
    struct sent *made = ARENA_NEW(t->a, struct sent);
    *made = (struct sent){.type = *type, .from = from, .to = to};
    struct assign_prices prices = {.cost = &t->s->devices.cost, .known = &t->counted};
    if (assign_price(&prices, type, from, to, false, &made->bytes) >= NET_NEVER) made->bytes = 0;
    hash_add(&t->sent, hash, made);
    return made->bytes;
}

static int64_t
moved_by(struct explain_candidates *t, const struct told *x, const struct assign_candidate *c)
{
    int64_t sum = 0;
    for (int i = 0; i < x->nin; i++)
        if (x->has[i] && c->layout[i]) sum += candidate_bytes_sent(t, &x->type[i], x->has[i], c->layout[i]);
    return sum;
}

static bool
is_candidate_told(const struct told *x, const struct told *y)
{
    if (x->of != y->of || x->nin != y->nin) return false;
    for (int i = 0; i < x->nin; i++)
        if (x->has[i] != y->has[i] || !type_equal(&x->type[i], &y->type[i])) return false;
    return true;
}

/* Returns the layout candidates of a node. Layers repeat, so nodes with equal candidates and operands share one
 * list. */
static struct told *
told_of(struct explain_candidates *t, const struct prog_node *n, const struct assign_candidate *c, int32_t count)
{
    struct told *x = ARENA_NEW(t->a, struct told), *y;
    uint64_t hash = hash_address(c);
    uint32_t at = 0;
    *x = (struct told){.of = c, .nin = n->nin};
    x->type = ARENA_ARRAY(t->a, struct type, n->nin + 1);
    x->has = ARENA_ARRAY(t->a, const struct layout *, n->nin + 1);
    for (int i = 0; i < n->nin; i++) {
        x->type[i] = ref_type(t->p, n->in[i]);
        x->has[i] = ref_layout(t->p, n->in[i]);
        hash = hash_number(hash, (uintptr_t)x->has[i]);
    }
    while ((y = hash_next(&t->told, hash, &at)))
        if (is_candidate_told(x, y)) return y;
    x->row = ARENA_ARRAY(t->a, struct rille_explain_candidate, count + 1);
    for (int32_t k = 0; k < count; k++)
        x->row[k] = (struct rille_explain_candidate){
            .inputs = explain_candidates_texts(t, n->nin, c[k].layout, NULL),
            .outputs = explain_candidates_texts(t, n->nout, c[k].layout + n->nin, NULL),
            .bytes = moved_by(t, x, &c[k]),
            .share = c[k].share};
    hash_add(&t->told, hash, x);
    return x;
}

static bool
is_better_candidate(const struct rille_explain_candidate *x, const struct rille_explain_candidate *y)
{
    return x->regret != y->regret ? x->regret < y->regret : x->regret_high < y->regret_high;
}

/* Orders the candidates: the chosen one first, then by regret. */
static void
rank_candidates(struct explain_candidates *t, const struct told *x, int32_t count, struct ranked *r)
{
    int32_t first = 0;
    r->candidates = ARENA_ARRAY(t->a, struct rille_explain_candidate, count + 1);
    for (int32_t i = 0; i < count; i++) {
        if (r->low[i] >= NET_NEVER) continue;
        struct rille_explain_candidate c = x->row[i];
        c.regret = r->low[i];
        c.regret_high = r->high[i] >= NET_NEVER ? INT64_MAX : r->high[i];
        bool chosen = i == r->choice;
        int32_t at = r->n++;
        for (; at > (chosen ? 0 : first) && (chosen || is_better_candidate(&c, &r->candidates[at - 1])); at--)
            r->candidates[at] = r->candidates[at - 1];
        r->candidates[at] = c;
        first += chosen;
    }
}

void
explain_candidates_report(struct explain_candidates *t, int32_t node, const struct prog_node *n,
                          struct rille_explain_op *op)
{
    const struct assigned *a = t->planned;
    int32_t count = a->net.node[node].ncand;
    size_t bytes = sizeof(int64_t) * (size_t)count;
    struct ranked now = {.choice = a->solved.choice[node], .low = a->regret[node], .high = a->regret_high[node]};
    struct told *x = told_of(t, n, a->candidate[node], count);
    struct ranked *r = x->ranked;
    while (r && (r->choice != now.choice || memcmp(r->low, now.low, bytes) || memcmp(r->high, now.high, bytes)))
        r = r->next;
    if (!r) {
        rank_candidates(t, x, count, &now);
        now.next = x->ranked;
        r = x->ranked = arena_dup(t->a, &now, sizeof now);
    }
    op->candidates = r->candidates;
    op->ncandidate = r->n;
}
