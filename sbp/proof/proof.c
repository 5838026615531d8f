/* proof.c - checks a certificate by replaying its steps.
 *
 * The network has the simplest data structures: a variable keeps all its values, and a mark tells which of them
 * remain; edges have full tables; removed edges leave the lists. Bounds are summed in 128 bits; an impossible cost
 * stays impossible. */
#include "sbp/proof/proof.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "sbp/proof/proof_read.h"

#include <stdio.h>
#include <string.h>

__extension__ typedef __int128 wide;
enum { MOST = 1 << 22, MOST_ENTRIES = 1 << 28, SHIFT = 24, DEPTH = 1000 };
#define FAR ((wide)1 << 96) /* a number larger than any sum of costs */

struct edge {
    int64_t end[2]; /* the edge's two variables */
    int64_t *cost;  /* [value of end 0][value of end 1] */
    /* messages: costs that were moved from the edge to the values of each end; NULL: none */
    int64_t *to[2];
    int64_t *room[2]; /* memory to which `to` points */
    wide low;         /* least cost of the edge, after its messages are subtracted */
};
struct var {
    int64_t n, nedge, capacity, *cost;
    uint8_t *here; /* by value: true until the value is removed */
    struct edge **edge;
    wide low;
    bool out;
};
struct state { /* the network at some step of the proof */
    struct arena arena;
    struct proof *r;
    /* entries: number of entries of all tables, at most MOST_ENTRIES */
    int64_t nvar, capacity, constant, below, entries;
    struct var *var;
    int depth;
    bool closed; /* true: no solution below the claimed bound is left */
};

/* Adds two costs. A sum that is too large is capped, which can only weaken the proof. A sum that is too small ends
 * the proof. */
static int64_t
add_saturated(const struct state *s, int64_t a, int64_t b)
{
    wide sum = (wide)a + b;
    if (a >= PROOF_NEVER || b >= PROOF_NEVER) return PROOF_NEVER;
    if (sum < -(wide)PROOF_NEVER) s->r->fell = true;
    return (int64_t)MAX(-(wide)PROOF_NEVER, MIN(sum, PROOF_NEVER - 1));
}

/* ---- summing the cost of the choice that the certificate states ---- */

/* Returns the cost of the conversions of tensor i: each form (layout) that a reader needs is converted once.
 * seen[form]: 1 + index of the last tensor for which the form was counted. */
static wide
cost_of_tensor(const struct proof *r, int64_t i, int64_t *seen)
{
    const struct proof_tensor *t = &r->tensor[i];
    wide sum = 0;
    int64_t from = t->form->x[r->choice[t->maker]];
    for (int64_t k = 0; k < t->nuse; k++) {
        int64_t to = t->use[k].form->x[r->choice[t->use[k].node]];
        if (seen[to] == i + 1) continue;
        seen[to] = i + 1;
        sum += t->price->x[from * t->nto + to];
    }
    return sum;
}

static int
check_choice(struct proof *r)
{
    wide sum = 0, live = 0, *change = ARENA_ARRAY(&r->arena, wide, r->ntime + 2);
    int64_t forms = 1;
    for (int64_t i = 0; i < r->ntensor; i++) forms = MAX(forms, r->tensor[i].nto);
    int64_t *seen = ARENA_ARRAY(&r->arena, int64_t, forms);
    for (int64_t i = 0; i < r->nnode; i++) {
        const struct proof_node *v = &r->node[i];
        sum += v->cost->x[r->choice[i]];
        if (v->memory) change[v->time] += v->memory->x[r->choice[i]], change[v->time + 1] -= v->memory->x[r->choice[i]];
    }
    for (int64_t i = 0; i < r->ntensor; i++) {
        const struct proof_tensor *t = &r->tensor[i];
        sum += cost_of_tensor(r, i, seen);
        if (!t->bytes || t->dies <= t->born) continue;
        change[t->born] += t->bytes->x[t->form->x[r->choice[t->maker]]];
        change[t->dies] -= t->bytes->x[t->form->x[r->choice[t->maker]]];
    }
    if (sum != r->cost) return fail(E_PLAN, "the cost of the choice differs from the claim");
    for (int64_t t = 0; r->limit && t < r->ntime; t++)
        if ((live += change[t]) > r->limit) return fail(E_PLAN, "the choice exceeds the memory limit");
    return 0;
}

/* ---- keeping the network of the proof ---- */

static int
var_new(struct state *s, int64_t n)
{
    if (s->nvar == MOST) return proof_wrong(s->r, "more variables than can be checked");
    ARENA_GROW(&s->arena, s->var, s->nvar + 1, s->capacity);
    struct var *x = &s->var[s->nvar++];
    *x = (struct var){.n = n, .cost = ARENA_ARRAY(&s->arena, int64_t, n)};
    x->here = memset(ARENA_ARRAY(&s->arena, uint8_t, n), 1, (size_t)n);
    return 0;
}

static struct edge *
find_edge(const struct state *s, int64_t u, int64_t v)
{
    int64_t from = s->var[u].nedge <= s->var[v].nedge ? u : v, to = from == u ? v : u;
    for (int64_t k = 0; k < s->var[from].nedge; k++) {
        struct edge *e = s->var[from].edge[k];
        if (e->end[0] == to || e->end[1] == to) return e;
    }
    return NULL;
}

static void
link_edge(struct state *s, struct edge *e)
{
    for (int side = 0; side < 2; side++) {
        struct var *x = &s->var[e->end[side]];
        ARENA_GROW(&s->arena, x->edge, x->nedge + 1, x->capacity);
        x->edge[x->nedge++] = e;
    }
}

static void
unlink_edge(struct state *s, const struct edge *e)
{
    for (int side = 0; side < 2; side++) {
        struct var *x = &s->var[e->end[side]];
        int64_t k = 0;
        while (x->edge[k] != e) k++;
        x->edge[k] = x->edge[--x->nedge];
    }
}

static int
tables_too_large(const struct state *s)
{
    return fail(E_PLAN,
                "line %d: the tables of costs must have at most %d entries in all, found %lld or more; "
                "this certificate is too large to be checked",
                s->r->line, MOST_ENTRIES, (long long)s->entries);
}

static int
proof_add_edge(struct state *s, int64_t u, int64_t v, struct edge **out)
{
    int64_t n = s->var[u].n * s->var[v].n;
    if ((s->entries += n) > MOST_ENTRIES) return tables_too_large(s);
    *out = ARENA_NEW(&s->arena, struct edge);
    **out = (struct edge){.end = {u, v}, .cost = ARENA_ARRAY(&s->arena, int64_t, n)};
    link_edge(s, *out);
    return 0;
}

/* Returns the edge between two variables; makes a new edge if there is none. */
static int
between(struct state *s, int64_t u, int64_t v, struct edge **out)
{
    *out = find_edge(s, u, v);
    return *out ? 0 : proof_add_edge(s, u, v, out);
}

static int64_t
far_end(const struct edge *e, int64_t v)
{
    return e->end[e->end[0] == v];
}

/* Returns the table entry for value i of v and value j at the edge's other end. */
static int64_t *
edge_entry(const struct state *s, const struct edge *e, int64_t v, int64_t i, int64_t j)
{
    return &e->cost[e->end[0] == v ? i * s->var[e->end[1]].n + j : j * s->var[v].n + i];
}

/* ---- making the network from the net ---- */

static int64_t
proof_scaled(const struct proof *r, int64_t x)
{
    return (wide)x * r->scale >= PROOF_NEVER ? PROOF_NEVER : x * r->scale;
}

/* Returns the cost of bytes at a price, capped. A lower cost can only weaken the proof. */
static int64_t
proof_worth(int64_t price, int64_t bytes)
{
    return (int64_t)MIN((wide)price * bytes >> SHIFT, PROOF_NEVER / 1024);
}

static int
add_one_reader(struct state *s, const struct proof_tensor *t)
{
    const struct proof_use *u = &t->use[0];
    struct edge *e = NULL;
    if (u->node != t->maker) TRY(between(s, t->maker, u->node, &e));
    for (int64_t i = 0; i < t->form->n; i++)
        for (int64_t j = e ? 0 : i; j < (e ? u->form->n : i + 1); j++) {
            int64_t *x = e ? edge_entry(s, e, t->maker, i, j) : &s->var[t->maker].cost[i];
            *x = add_saturated(s, *x, proof_scaled(s->r, t->price->x[t->form->x[i] * t->nto + u->form->x[j]]));
        }
    return 0;
}

/* Adds a variable for each form (layout) of a tensor: value 0 means "not made", value 1 means "made". The maker
 * pays the cost of "made". made[form]: receives the variable; -1: the form is free or never needed. */
static int
prove_made(struct state *s, const struct proof_tensor *t, int64_t *made)
{
    struct edge *e;
    for (int64_t k = 0; k < t->nuse; k++)
        for (int64_t i = 0; i < t->use[k].form->n; i++) made[t->use[k].form->x[i]] = 1;
    for (int64_t f = 0; f < t->nto; f++) {
        bool costs = false;
        for (int64_t i = 0; i < t->nfrom && made[f]; i++) costs = costs || t->price->x[i * t->nto + f] != 0;
        made[f] = costs ? s->nvar : -1;
        if (!costs) continue;
        TRY(var_new(s, 2));
        TRY(proof_add_edge(s, t->maker, made[f], &e));
        for (int64_t m = 0; m < t->form->n; m++)
            *edge_entry(s, e, t->maker, m, 1) = proof_scaled(s->r, t->price->x[t->form->x[m] * t->nto + f]);
    }
    return 0;
}

/* Adds a tensor with several readers, which share the tensor's conversions. Each reader forbids the value "not
 * made" of the form (layout) that the reader needs. reads: by node, 1 + the last tensor that the node made or
 * read. If a node made or already read tensor i, edges between the node and the tensor's forms may exist already. */
static int
add_forms(struct state *s, int64_t i, int64_t *reads, struct arena *tmp)
{
    const struct proof_tensor *t = &s->r->tensor[i];
    int64_t *made = ARENA_ARRAY(tmp, int64_t, t->nto + 1), *by = ARENA_ARRAY(tmp, int64_t, t->nto + 1);
    struct edge **to = ARENA_ARRAY(tmp, struct edge *, t->nto + 1);
    TRY(prove_made(s, t, made));
    reads[t->maker] = i + 1;
    for (int64_t k = 0; k < t->nuse; k++) {
        const struct proof_use *u = &t->use[k];
        bool again = reads[u->node] == i + 1;
        reads[u->node] = i + 1;
        for (int64_t j = 0; j < u->form->n; j++) {
            int64_t f = u->form->x[j];
            if (made[f] < 0) continue;
            if (by[f] != k + 1) TRY((again ? between : proof_add_edge)(s, u->node, made[f], &to[f]));
            by[f] = k + 1;
            *edge_entry(s, to[f], u->node, j, 0) = PROOF_NEVER;
        }
    }
    return 0;
}

/* Builds the network. A byte costs the sum of the prices of the times at which it is live. These costs raise the
 * cost of every choice, so the claimed bound rises, too: by the sum of all prices times the limit. */
static int
prove_build(struct state *s)
{
    const struct proof *r = s->r;
    int64_t sum = 0, *before = ARENA_ARRAY(&s->arena, int64_t, r->ntime + 1);
    int64_t *reads = ARENA_ARRAY(&s->arena, int64_t, r->nnode);
    for (int64_t t = 0; t < r->ntime; before[++t] = sum)
        if ((sum += r->price[t]) > (int64_t)1 << 61)
            return fail(E_PLAN,
                        "line %d: the sum of the prices of memory must be at most %lld, found %lld at time "
                        "%lld",
                        r->line, 1LL << 61, (long long)sum, (long long)t);
    for (int64_t i = 0; i < r->nnode; i++)
        if ((s->entries += r->node[i].cost->n) > MOST_ENTRIES) return tables_too_large(s);
    for (int64_t i = 0; i < r->nnode; i++) {
        const struct proof_node *v = &r->node[i];
        TRY(var_new(s, v->cost->n));
        for (int64_t k = 0; k < v->cost->n; k++)
            s->var[i].cost[k] = add_saturated(s, proof_scaled(r, v->cost->x[k]),
                                              v->memory ? proof_worth(r->price[v->time], v->memory->x[k]) : 0);
    }
    for (int64_t i = 0; i < r->ntensor; i++) {
        const struct proof_tensor *t = &r->tensor[i];
        int64_t price = t->bytes && t->dies > t->born ? before[t->dies] - before[t->born] : 0;
        for (int64_t k = 0; k < t->form->n && price; k++)
            s->var[t->maker].cost[k] =
                add_saturated(s, s->var[t->maker].cost[k], proof_worth(price, t->bytes->x[t->form->x[k]]));
        if (t->nuse == 1) TRY(add_one_reader(s, t));
        if (t->nuse < 2) continue;
        struct arena tmp = {0};
        int status = add_forms(s, i, reads, &tmp);
        arena_fini(&tmp);
        TRY(status);
    }
    wide below = (wide)(r->bound - 1) * r->scale + (sum ? ((wide)sum * r->limit >> SHIFT) + 1 : 0) + 1;
    if (below >= PROOF_NEVER) return proof_wrong(r, "costs larger than can be checked");
    s->below = (int64_t)below;
    return 0;
}

/* ---- replaying the steps that reduce the network ---- */

static int64_t
count_open_values(const struct var *x)
{
    int64_t n = 0;
    for (int64_t i = 0; i < x->n; i++) n += x->here[i];
    return n;
}

static int
read_variable(struct state *s, int64_t *v)
{
    TRY(proof_number(s->r, 0, s->nvar - 1, v));
    return s->var[*v].out ? proof_wrong(s->r, "a variable that was already removed") : 0;
}

/* Reads the numbers of two variables that have an edge. */
static int
read_variables(struct state *s, int64_t *u, int64_t *v, struct edge **e)
{
    TRY(read_variable(s, u));
    TRY(read_variable(s, v));
    *e = *u == *v ? NULL : find_edge(s, *u, *v);
    return *e ? 0 : proof_wrong(s->r, "an unknown edge");
}

static void
drop_variable(struct state *s, int64_t v)
{
    while (s->var[v].nedge) unlink_edge(s, s->var[v].edge[0]);
    s->var[v].out = true;
}

static void
no_messages(struct state *s)
{
    for (int64_t v = 0; v < s->nvar; v++)
        for (int64_t k = 0; k < s->var[v].nedge; k++) s->var[v].edge[k]->to[0] = s->var[v].edge[k]->to[1] = NULL;
}

/* Returns the least cost of the edge with value i of v, minus the messages. */
static wide
message_left(const struct state *s, const struct edge *e, int64_t v, int64_t i)
{
    const struct var *o = &s->var[far_end(e, v)];
    const int64_t *own = e->to[e->end[1] == v], *its = e->to[e->end[0] == v];
    wide best = FAR;
    for (int64_t j = 0; j < o->n; j++)
        if (o->here[j]) best = MIN(best, (wide)*edge_entry(s, e, v, i, j) - (its ? its[j] : 0));
    return best - (own ? own[i] : 0);
}

/* Returns true if each neighbour has a value that is possible together with value i. */
static bool
has_support(const struct state *s, int64_t v, int64_t i)
{
    bool has = s->var[v].cost[i] < PROOF_NEVER;
    for (int64_t k = 0; k < s->var[v].nedge && has; k++) has = message_left(s, s->var[v].edge[k], v, i) < PROOF_NEVER;
    return has;
}

static int
support(struct state *s)
{
    no_messages(s);
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t v = 0; v < s->nvar; v++)
            for (int64_t i = 0; !s->var[v].out && i < s->var[v].n; i++) {
                if (!s->var[v].here[i] || has_support(s, v, i)) continue;
                s->var[v].here[i] = 0;
                changed = true;
                s->closed = s->closed || count_open_values(&s->var[v]) == 0;
            }
    }
    return 0;
}

/* Removes an edge whose cost is the sum of a cost of each end: every entry equals (first entry of its row) + (first
 * entry of its column) - (first entry of the table). */
static int
proof_cut(struct state *s)
{
    int64_t u, v, u0 = 0, v0 = 0;
    struct edge *e;
    TRY(read_variables(s, &u, &v, &e));
    struct var *a = &s->var[u], *b = &s->var[v];
    while (!a->here[u0]) u0++;
    while (!b->here[v0]) v0++;
    int64_t corner = *edge_entry(s, e, u, u0, v0);
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < b->n; j++) {
            if (!a->here[i] || !b->here[j]) continue;
            int64_t x = *edge_entry(s, e, u, i, j), row = *edge_entry(s, e, u, i, v0),
                    column = *edge_entry(s, e, u, u0, j);
            if (x >= PROOF_NEVER || (wide)x - row != (wide)column - corner)
                return proof_wrong(s->r, "an edge that is not a sum");
        }
    for (int64_t i = 0; i < a->n; i++)
        if (a->here[i]) a->cost[i] = add_saturated(s, a->cost[i], *edge_entry(s, e, u, i, v0) - corner);
    for (int64_t j = 0; j < b->n; j++)
        if (b->here[j]) b->cost[j] = add_saturated(s, b->cost[j], *edge_entry(s, e, u, u0, j));
    unlink_edge(s, e);
    return 0;
}

/* Returns the least cost over v's values, given value i at the other end of edge a and value j at the other end of
 * edge b (NULL: no edge). */
static int64_t
least_pair(const struct state *s, int64_t v, const struct edge *a, int64_t i, const struct edge *b, int64_t j)
{
    int64_t best = PROOF_NEVER;
    for (int64_t k = 0; k < s->var[v].n; k++) {
        if (!s->var[v].here[k]) continue;
        int64_t x = s->var[v].cost[k];
        if (a) x = add_saturated(s, x, *edge_entry(s, a, v, k, i));
        if (b) x = add_saturated(s, x, *edge_entry(s, b, v, k, j));
        best = MIN(best, x);
    }
    return best;
}

/* Eliminates a variable. If the variable has one value, adds that value's costs to its neighbours. If it has several
 * values, it may have at most two neighbours. With two, adds the variable's least cost for each pair of their values
 * to the edge between them; with one, to the neighbour's costs. */
static int
prove_removal(struct state *s)
{
    int64_t v, only = 0;
    struct edge *q = NULL;
    TRY(read_variable(s, &v));
    struct var *x = &s->var[v];
    while (!x->here[only]) only++;
    while (count_open_values(x) == 1 && x->nedge) {
        struct var *o = &s->var[far_end(x->edge[0], v)];
        for (int64_t j = 0; j < o->n; j++)
            o->cost[j] = add_saturated(s, o->cost[j], *edge_entry(s, x->edge[0], v, only, j));
        unlink_edge(s, x->edge[0]);
    }
    if (x->nedge > 2) return proof_wrong(s->r, "a variable with more than two neighbours");
    const struct edge *e = x->nedge > 0 ? x->edge[0] : NULL, *f = x->nedge > 1 ? x->edge[1] : NULL;
    if (!e) s->constant = add_saturated(s, s->constant, least_pair(s, v, NULL, 0, NULL, 0));
    if (f) TRY(between(s, far_end(e, v), far_end(f, v), &q));
    struct var *a = e ? &s->var[far_end(e, v)] : NULL;
    for (int64_t i = 0; e && i < a->n; i++)
        for (int64_t j = 0; j < (f ? s->var[far_end(f, v)].n : 1); j++) {
            int64_t *to = f ? edge_entry(s, q, far_end(e, v), i, j) : &a->cost[i];
            *to = add_saturated(s, *to, least_pair(s, v, e, i, f, j));
        }
    drop_variable(s, v);
    return 0;
}

/* Replaces v by u, after checking that every value of u leaves v exactly one possible value. */
static int
prove_substitution(struct state *s)
{
    int64_t v, u;
    struct edge *by, *q;
    TRY(read_variables(s, &v, &u, &by));
    struct var *x = &s->var[v], *to = &s->var[u];
    int64_t *map = ARENA_ARRAY(&s->arena, int64_t, to->n);
    for (int64_t j = 0; j < to->n; j++) {
        int64_t found = 0;
        for (int64_t i = 0; i < x->n && to->here[j]; i++)
            if (x->here[i] && *edge_entry(s, by, v, i, j) < PROOF_NEVER) map[j] = i, found++;
        if (!to->here[j]) continue;
        if (found != 1) return proof_wrong(s->r, "a variable that the other one does not determine");
        to->cost[j] =
            add_saturated(s, to->cost[j], add_saturated(s, x->cost[map[j]], *edge_entry(s, by, v, map[j], j)));
    }
    for (int64_t k = 0; k < x->nedge; k++) {
        int64_t o = far_end(x->edge[k], v);
        if (x->edge[k] == by) continue;
        TRY(between(s, u, o, &q));
        for (int64_t j = 0; j < to->n; j++)
            for (int64_t i = 0; i < s->var[o].n && to->here[j]; i++) {
                int64_t *at = edge_entry(s, q, u, j, i);
                *at = add_saturated(s, *at, *edge_entry(s, x->edge[k], v, map[j], i));
            }
    }
    drop_variable(s, v);
    return 0;
}

/* Removes value a, after checking that value b costs no more for all values of the neighbours. */
static int
proof_drop(struct state *s)
{
    int64_t v, a, b;
    TRY(read_variable(s, &v));
    struct var *x = &s->var[v];
    TRY(proof_number(s->r, 0, x->n - 1, &a));
    TRY(proof_number(s->r, 0, x->n - 1, &b));
    if (a == b || !x->here[a] || !x->here[b]) return proof_wrong(s->r, "a value that was already removed");
    wide worse = x->cost[b] >= PROOF_NEVER ? FAR : (wide)x->cost[b] - x->cost[a];
    for (int64_t k = 0; k < x->nedge; k++) {
        const struct edge *e = x->edge[k];
        const struct var *o = &s->var[far_end(e, v)];
        wide most = -(wide)PROOF_NEVER;
        for (int64_t j = 0; j < o->n; j++) {
            int64_t from = *edge_entry(s, e, v, a, j), to = *edge_entry(s, e, v, b, j);
            if (o->here[j] && from < PROOF_NEVER) most = MAX(most, to >= PROOF_NEVER ? FAR : (wide)to - from);
        }
        worse += most;
    }
    if (worse > 0) return proof_wrong(s->r, "a value that no other value dominates");
    x->here[a] = 0;
    return 0;
}

/* ---- replaying messages and the bound that they prove ---- */

static int
messages(struct state *s)
{
    int64_t u, v;
    struct edge *e;
    TRY(read_variables(s, &u, &v, &e));
    for (int side = 0; side < 2; side++) {
        const struct var *x = &s->var[side ? v : u];
        int end = e->end[1] == (side ? v : u);
        if (!e->room[end]) e->room[end] = ARENA_ARRAY(&s->arena, int64_t, x->n);
        int64_t *to = e->to[end] = e->room[end];
        for (int64_t i = 0; i < x->n; i++)
            if (x->here[i]) TRY(proof_number(s->r, -PROOF_NEVER, PROOF_NEVER - 1, &to[i]));
    }
    return proof_line_ends(s->r);
}

/* Returns the cost of value i of v plus all messages to that value. */
static wide
sum_handed(const struct state *s, int64_t v, int64_t i)
{
    const struct var *x = &s->var[v];
    wide sum = x->cost[i];
    for (int64_t k = 0; k < x->nedge; k++) {
        const int64_t *to = x->edge[k]->to[x->edge[k]->end[1] == v];
        sum += to ? to[i] : 0;
    }
    return sum;
}

/* Returns the lower bound: the sum of the least costs of all variables and edges. */
static wide
prove_lower_bound(struct state *s)
{
    wide sum = s->constant;
    for (int64_t v = 0; v < s->nvar; v++) {
        struct var *x = &s->var[v];
        if (x->out) continue;
        x->low = FAR;
        for (int64_t i = 0; i < x->n; i++)
            if (x->here[i]) x->low = MIN(x->low, sum_handed(s, v, i));
        sum += x->low;
        for (int64_t k = 0; k < x->nedge; k++) {
            struct edge *e = x->edge[k];
            if (e->end[0] != v) continue;
            e->low = FAR;
            for (int64_t i = 0; i < x->n; i++)
                if (x->here[i]) e->low = MIN(e->low, message_left(s, e, v, i));
            sum += e->low;
        }
    }
    return sum;
}

/* Returns how much the lower bound rises if v takes value i. */
static wide
rise(const struct state *s, int64_t v, int64_t i)
{
    wide sum = sum_handed(s, v, i) - s->var[v].low;
    for (int64_t k = 0; k < s->var[v].nedge; k++) {
        const struct edge *e = s->var[v].edge[k];
        sum += message_left(s, e, v, i) - e->low;
    }
    return sum;
}

/* Reads one round of messages, and removes all values that these messages rule out. */
static int
bound_round(struct state *s)
{
    enum { GOES = 2 };
    int64_t below;
    TRY(proof_line_ends(s->r));
    no_messages(s);
    while (proof_word(s->r, "to")) TRY(messages(s));
    TRY(proof_wants(s->r, "prune"));
    TRY(proof_number(s->r, 0, PROOF_NEVER, &below));
    if (below < s->below)
        return fail(E_PLAN, "line %d: the bound for pruning must be at least %lld, the claimed bound, found %lld",
                    s->r->line, (long long)s->below, (long long)below);
    wide bound = prove_lower_bound(s);
    s->closed = bound >= s->below;
    for (int64_t v = 0; v < s->nvar && !s->closed; v++)
        for (int64_t i = 0; i < s->var[v].n && !s->var[v].out; i++)
            if (s->var[v].here[i] && bound + rise(s, v, i) >= below) s->var[v].here[i] = GOES;
    for (int64_t v = 0; v < s->nvar && !s->closed; v++) {
        for (int64_t i = 0; i < s->var[v].n; i++) s->var[v].here[i] = s->var[v].here[i] == 1;
        s->closed = !s->var[v].out && count_open_values(&s->var[v]) == 0;
    }
    return 0;
}

/* ---- replaying the cases of a split ---- */

/* Returns the number of current table entries. */
static int64_t
prove_entries(const struct state *s)
{
    int64_t n = 0;
    for (int64_t v = 0; v < s->nvar; v++) {
        n += s->var[v].n;
        for (int64_t k = 0; k < s->var[v].nedge; k++)
            if (s->var[v].edge[k]->end[0] == v) n += s->var[v].n * s->var[s->var[v].edge[k]->end[1]].n;
    }
    return n;
}

/* Copies a network for a case. The caller frees the copy's arena, even on failure. */
static int
state_copy(const struct state *from, struct state *s)
{
    *s = *from;
    s->arena = (struct arena){0};
    s->depth++;
    s->entries += prove_entries(from);
    if (s->entries > MOST_ENTRIES) return tables_too_large(s);
    s->capacity = s->nvar;
    s->var = arena_dup(&s->arena, from->var, sizeof *s->var * (size_t)s->nvar);
    for (int64_t v = 0; v < s->nvar; v++) {
        struct var *x = &s->var[v];
        x->nedge = x->capacity = 0;
        x->cost = arena_dup(&s->arena, x->cost, sizeof *x->cost * (size_t)x->n);
        x->here = arena_dup(&s->arena, x->here, (size_t)x->n);
        x->edge = NULL;
    }
    for (int64_t v = 0; v < s->nvar; v++)
        for (int64_t k = 0; k < from->var[v].nedge; k++) {
            const struct edge *e = from->var[v].edge[k];
            size_t n = (size_t)(s->var[e->end[0]].n * s->var[e->end[1]].n);
            if (e->end[0] != v) continue;
            struct edge *to = arena_dup(&s->arena, e, sizeof *e);
            to->cost = arena_dup(&s->arena, e->cost, sizeof *e->cost * n);
            to->room[0] = to->room[1] = NULL;
            link_edge(s, to);
        }
    return 0;
}

static int steps(struct state *s);

/* Replays a split. Every value that is left needs a case, and every case must end with no solution below the claim. */
static int
proof_split(struct state *s)
{
    int64_t v, value;
    TRY(read_variable(s, &v));
    TRY(proof_line_ends(s->r));
    uint8_t *open = arena_dup(&s->arena, s->var[v].here, (size_t)s->var[v].n);
    while (proof_word(s->r, "case")) {
        struct state one;
        TRY(proof_number(s->r, 0, s->var[v].n - 1, &value));
        TRY(proof_line_ends(s->r));
        int status = state_copy(s, &one);
        if (!status) {
            memset(one.var[v].here, 0, (size_t)one.var[v].n);
            one.var[v].here[value] = 1;
            status = steps(&one);
        }
        arena_fini(&one.arena);
        TRY(status);
        if (!one.closed) return proof_wrong(s->r, "a case is not closed");
        open[value] = 0;
    }
    for (int64_t i = 0; i < s->var[v].n; i++)
        if (open[i]) return proof_wrong(s->r, "a value without a case");
    s->closed = true;
    return 0;
}

static const struct {
    const char *name;
    int (*step)(struct state *s);
    bool has_lines; /* true: the step reads several lines, including the end of the last line */
} step_of[] = {{"support", support, false}, {"out", prove_removal, false}, {"as", prove_substitution, false},
               {"cut", proof_cut, false},   {"drop", proof_drop, false},   {"round", bound_round, false},
               {"split", proof_split, true}};

/* Skips the remaining steps up to "end" if no solution below the claim is left. The proof does not need these
 * steps, which the search took before it found its best choice. */
static int
pass_steps(struct state *s)
{
    for (int64_t cases = 0; !proof_word(s->r, "end") || cases-- > 0;) {
        cases += proof_word(s->r, "case");
        TRY(proof_pass_line(s->r));
    }
    return 0;
}

/* Replays steps up to the line "end". */
static int
steps(struct state *s)
{
    if (s->depth > DEPTH) return proof_wrong(s->r, "cases are nested too deeply");
    while (!s->closed && !proof_word(s->r, "end")) {
        size_t k = 0;
        while (k < countof(step_of) && !proof_word(s->r, step_of[k].name)) k++;
        if (k == countof(step_of)) return proof_wrong(s->r, "an unknown proof step");
        TRY(step_of[k].step(s));
        if (s->r->fell) return proof_wrong(s->r, "a cost is below the least number that this check supports");
        if (!step_of[k].has_lines) TRY(proof_line_ends(s->r));
    }
    if (s->closed) {
        TRY(pass_steps(s));
    } else {
        no_messages(s);
        s->closed = prove_lower_bound(s) >= s->below;
    }
    return proof_line_ends(s->r);
}

/* ---- checking a complete certificate ---- */

static void
print_proof_error(const struct proof *r, struct str *said)
{
    double part = r->cost ? 100.0 / (double)r->cost : 0.0;
    str_addf(said, "%d operators, %d tensors: the plan costs %lld ns", (int)r->nnode, (int)r->ntensor,
             (long long)r->cost);
    if (r->limit) str_addf(said, " within %lld byte%s per device", (long long)r->limit, r->limit == 1 ? "" : "s");
    str_add(said, ", and no plan costs less");
    if (r->bound < r->cost)
        str_addf(said, " than %lld ns (gap %.3f %%)", (long long)r->bound, part * (double)(r->cost - r->bound));
    if (r->searched)
        str_addf(said, "; the search found that no plan costs less than %lld ns (gap %.3f %%), without a proof",
                 (long long)r->searched, part * (double)(r->cost - r->searched));
}

/* Checks the last line: the digest of the text above. */
static int
check_digest(struct proof *r, const char *text)
{
    struct digest d = DIGEST_BEGIN;
    char want[40];
    digest_bytes(&d, text, (size_t)(r->at - text));
    snprintf(want, sizeof want, "%016llx%016llx", (unsigned long long)d.a, (unsigned long long)d.b);
    TRY(proof_wants(r, "digest"));
    if (!proof_word(r, want)) return proof_wrong(r, "the checksum does not match: the text above was changed");
    TRY(proof_line_ends(r));
    return r->at == r->end ? 0 : proof_wrong(r, "unexpected text after the end");
}

static int
proof_check_step(struct state *s)
{
    const char *text = s->r->at;
    TRY(proof_read(s->r));
    TRY(check_choice(s->r));
    TRY(prove_build(s));
    TRY(steps(s));
    if (!s->closed)
        return fail(E_PLAN, "the proof ends before it excludes every choice cheaper than the claimed bound");
    return check_digest(s->r, text);
}

int
proof_check(const char *text, size_t bytes, struct str *said)
{
    struct proof r = {.at = text, .end = text + bytes, .line = 1};
    struct state s = {.r = &r};
    int status = proof_check_step(&s);
    if (!status) print_proof_error(&r, said);
    arena_fini(&r.arena);
    arena_fini(&s.arena);
    return status;
}
