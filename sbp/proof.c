/* proof.c - a certificate, read and done again.
 *
 * The network is kept as plainly as it can be: every variable has all its values
 * and a mark for those still there, every edge a full table. Sums are of 128
 * bits; what is impossible stays so. */
#include "sbp/proof.h"

#include "runtime/error.h"
#include "runtime/hash.h"
#include "sbp/proof_read.h"

#include <stdio.h>
#include <string.h>

__extension__ typedef __int128 wide;
enum { MOST = 1 << 22, MOST_ENTRIES = 1 << 28, SHIFT = 24 };

struct var {
    int32_t n, nedge, capacity;
    int64_t *cost;
    uint8_t *here; /* by value */
    bool out;
    int32_t *edge;
};
struct pair {
    int32_t u, v;
    bool out;
    int64_t *cost; /* [value of u][value of v] */
    int64_t *to_u, *to_v;
};
struct state { /* a network in the course of the proof */
    struct arena arena;
    int32_t nvar, npair, capacity;
    struct var *var;
    struct pair *pair;
    int64_t constant;
    bool closed; /* nothing below the claim is left */
};

static int64_t
add(int64_t a, int64_t b)
{
    if (a >= PROOF_NEVER || b >= PROOF_NEVER) return PROOF_NEVER;
    wide s = (wide)a + b;
    return s >= PROOF_NEVER - 1 ? PROOF_NEVER - 1 : s < -PROOF_NEVER ? -PROOF_NEVER : (int64_t)s;
}

/* ---- what the choice costs ---- */

static wide
cost_of_tensor(const struct proof *r, const struct proof_tensor *t)
{
    wide sum = 0;
    int64_t from = t->form->x[r->choice[t->maker]];
    for (int32_t k = 0; k < t->nuse; k++) {
        int64_t to = t->use[k].form->x[r->choice[t->use[k].node]];
        bool paid = false;
        for (int32_t i = 0; i < k && !paid; i++) paid = t->use[i].form->x[r->choice[t->use[i].node]] == to;
        if (!paid) sum += t->price->x[from * t->nto + to];
    }
    return sum;
}

static int
check_choice(struct proof *r)
{
    wide sum = 0, live = 0;
    wide *change = (wide *)ARENA_ARRAY(&r->arena, wide, r->ntime + 2);
    for (int32_t i = 0; i < r->nnode; i++) {
        const struct proof_node *v = &r->node[i];
        sum += v->cost->x[r->choice[i]];
        if (v->memory) change[v->time] += v->memory->x[r->choice[i]], change[v->time + 1] -= v->memory->x[r->choice[i]];
    }
    for (int32_t i = 0; i < r->ntensor; i++) {
        const struct proof_tensor *t = &r->tensor[i];
        sum += cost_of_tensor(r, t);
        if (!t->bytes || t->dies <= t->born) continue;
        change[t->born] += t->bytes->x[t->form->x[r->choice[t->maker]]];
        change[t->dies] -= t->bytes->x[t->form->x[r->choice[t->maker]]];
    }
    if (sum != r->cost) return fail(E_PLAN, "certificate: the choice does not cost what is claimed");
    for (int32_t t = 0; r->limit && t < r->ntime; t++)
        if ((live += change[t]) > r->limit)
            return fail(E_PLAN, "certificate: the choice does not keep the memory limit");
    return 0;
}

/* ---- the network ---- */

static int
pair_new(struct proof *r, struct state *s, int32_t u, int32_t v, struct pair **out)
{
    struct var *a = &s->var[u], *b = &s->var[v];
    for (int32_t k = 0; k < a->nedge; k++) {
        struct pair *p = &s->pair[a->edge[k]];
        *out = p;
        if (!p->out && (p->u == v || p->v == v)) return 0;
    }
    if ((r->entries += (int64_t)a->n * b->n) > MOST_ENTRIES) return proof_wrong(r, "tables larger than can be checked");
    ARENA_GROW(&s->arena, s->pair, s->npair + 1, s->capacity);
    for (int side = 0; side < 2; side++) {
        struct var *x = side ? b : a;
        ARENA_GROW(&s->arena, x->edge, x->nedge + 1, x->capacity);
        x->edge[x->nedge++] = s->npair;
    }
    *out = &s->pair[s->npair++];
    **out = (struct pair){.u = u, .v = v};
    (*out)->cost = ARENA_ARRAY(&s->arena, int64_t, (int64_t)a->n * b->n);
    (*out)->to_u = ARENA_ARRAY(&s->arena, int64_t, a->n);
    (*out)->to_v = ARENA_ARRAY(&s->arena, int64_t, b->n);
    return 0;
}

static int64_t *
entry(const struct state *s, const struct pair *p, int32_t v, int64_t i, int64_t j)
{
    return &p->cost[p->u == v ? i * s->var[p->v].n + j : j * s->var[p->v].n + i];
}

static void
var_new(struct state *s, int32_t v, int32_t n)
{
    s->var[v] = (struct var){.n = n};
    s->var[v].cost = ARENA_ARRAY(&s->arena, int64_t, n);
    s->var[v].here = ARENA_ARRAY(&s->arena, uint8_t, n);
    memset(s->var[v].here, 1, (size_t)n);
}

static int64_t
scaled(const struct proof *r, int64_t x)
{
    return x >= PROOF_NEVER || (wide)x * r->scale >= PROOF_NEVER ? PROOF_NEVER : x * r->scale;
}

static int64_t
worth(int64_t price, int64_t bytes)
{
    wide x = (wide)price * bytes >> SHIFT;
    return x >= PROOF_NEVER / 1024 ? PROOF_NEVER / 1024 : (int64_t)x;
}

static int
add_one_reader(struct proof *r, struct state *s, const struct proof_tensor *t)
{
    const struct proof_use *u = &t->use[0];
    struct pair *p;
    if (u->node == t->maker) {
        for (int32_t i = 0; i < s->var[u->node].n; i++)
            s->var[u->node].cost[i] =
                add(s->var[u->node].cost[i], scaled(r, t->price->x[t->form->x[i] * t->nto + u->form->x[i]]));
        return 0;
    }
    TRY(pair_new(r, s, t->maker, u->node, &p));
    for (int32_t i = 0; i < s->var[t->maker].n; i++)
        for (int32_t j = 0; j < s->var[u->node].n; j++) {
            int64_t *x = entry(s, p, t->maker, i, j);
            *x = add(*x, scaled(r, t->price->x[t->form->x[i] * t->nto + u->form->x[j]]));
        }
    return 0;
}

/* A form that costs something from somewhere and that some reader may want has a variable: 1 is "made". */
static bool
has_variable(const struct proof_tensor *t, int32_t form)
{
    bool costs = false, wanted = false;
    for (int32_t f = 0; f < t->nfrom; f++) costs = costs || t->price->x[(int64_t)f * t->nto + form] != 0;
    for (int32_t k = 0; k < t->nuse && costs && !wanted; k++)
        for (int64_t i = 0; i < t->use[k].form->n && !wanted; i++) wanted = t->use[k].form->x[i] == form;
    return costs && wanted;
}

static int
add_form(struct proof *r, struct state *s, const struct proof_tensor *t, int32_t form)
{
    struct pair *p;
    int32_t made = s->nvar++;
    var_new(s, made, 2);
    TRY(pair_new(r, s, t->maker, made, &p));
    for (int32_t i = 0; i < s->var[t->maker].n; i++)
        *entry(s, p, t->maker, i, 1) = scaled(r, t->price->x[t->form->x[i] * t->nto + form]);
    for (int32_t k = 0; k < t->nuse; k++) {
        bool wants = false;
        for (int64_t i = 0; i < t->use[k].form->n; i++) wants = wants || t->use[k].form->x[i] == form;
        if (!wants) continue;
        TRY(pair_new(r, s, t->use[k].node, made, &p));
        for (int32_t i = 0; i < s->var[t->use[k].node].n; i++)
            if (t->use[k].form->x[i] == form) *entry(s, p, t->use[k].node, i, 0) = PROOF_NEVER;
    }
    return 0;
}

static int
build(struct proof *r, struct state *s)
{
    int64_t nvar = r->nnode, sum = 0, *before = ARENA_ARRAY(&r->arena, int64_t, r->ntime + 1);
    for (int32_t t = 0; t < r->ntime; t++) {
        before[t] = sum;
        if ((sum += r->price[t]) > (int64_t)1 << 61) return proof_wrong(r, "prices of memory out of range");
    }
    before[r->ntime] = sum;
    r->worth = r->limit && sum ? worth(sum, r->limit) + 1 : 0;
    for (int32_t i = 0; i < r->ntensor; i++)
        for (int32_t f = 0; r->tensor[i].nuse > 1 && f < r->tensor[i].nto; f++) nvar += has_variable(&r->tensor[i], f);
    if (nvar > MOST) return proof_wrong(r, "more variables than can be checked");
    s->var = ARENA_ARRAY(&s->arena, struct var, nvar);
    s->nvar = r->nnode;
    for (int32_t i = 0; i < r->nnode; i++) {
        const struct proof_node *v = &r->node[i];
        var_new(s, i, (int32_t)v->cost->n);
        for (int32_t k = 0; k < s->var[i].n; k++) {
            s->var[i].cost[k] = scaled(r, v->cost->x[k]);
            if (v->memory) s->var[i].cost[k] = add(s->var[i].cost[k], worth(r->price[v->time], v->memory->x[k]));
        }
    }
    for (int32_t i = 0; i < r->ntensor; i++) {
        const struct proof_tensor *t = &r->tensor[i];
        if (t->bytes && t->dies > t->born && before[t->dies] > before[t->born])
            for (int32_t k = 0; k < s->var[t->maker].n; k++)
                s->var[t->maker].cost[k] =
                    add(s->var[t->maker].cost[k], worth(before[t->dies] - before[t->born], t->bytes->x[t->form->x[k]]));
        if (t->nuse == 1) TRY(add_one_reader(r, s, t));
        for (int32_t f = 0; t->nuse > 1 && f < t->nto; f++)
            if (has_variable(t, f)) TRY(add_form(r, s, t, f));
    }
    return 0;
}

/* ---- steps ---- */

static int32_t
other(const struct pair *p, int32_t v)
{
    return p->u == v ? p->v : p->u;
}

static int32_t
values(const struct var *x)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->n; i++) n += x->here[i];
    return n;
}

static int32_t
degree(const struct state *s, int32_t v)
{
    int32_t n = 0;
    for (int32_t k = 0; k < s->var[v].nedge; k++) n += !s->pair[s->var[v].edge[k]].out;
    return n;
}

static int
variable(struct proof *r, struct state *s, int32_t *v)
{
    TRY(proof_number32(r, 0, s->nvar - 1, v));
    return s->var[*v].out ? proof_wrong(r, "a variable that is gone") : 0;
}

static bool
has_support(const struct state *s, int32_t v, int32_t i)
{
    if (s->var[v].cost[i] >= PROOF_NEVER) return false;
    for (int32_t k = 0; k < s->var[v].nedge; k++) {
        const struct pair *p = &s->pair[s->var[v].edge[k]];
        if (p->out) continue;
        const struct var *o = &s->var[other(p, v)];
        bool found = false;
        for (int32_t j = 0; j < o->n && !found; j++) found = o->here[j] && *entry(s, p, v, i, j) < PROOF_NEVER;
        if (!found) return false;
    }
    return true;
}

static void
support(struct state *s)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t v = 0; v < s->nvar; v++)
            for (int32_t i = 0; !s->var[v].out && i < s->var[v].n; i++) {
                if (!s->var[v].here[i] || has_support(s, v, i)) continue;
                s->var[v].here[i] = 0;
                changed = true;
                if (values(&s->var[v]) == 0) s->closed = true;
            }
    }
}

static int
cut(struct proof *r, struct state *s)
{
    int32_t u, v, u0 = 0, v0 = 0;
    struct pair *p;
    TRY(variable(r, s, &u));
    TRY(variable(r, s, &v));
    int32_t had = s->npair;
    TRY(pair_new(r, s, u, v, &p));
    if (s->npair > had) return proof_wrong(r, "an edge that is not there");
    struct var *a = &s->var[u], *b = &s->var[v];
    while (!a->here[u0]) u0++;
    while (!b->here[v0]) v0++;
    int64_t corner = *entry(s, p, u, u0, v0);
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t j = 0; j < b->n; j++) {
            if (!a->here[i] || !b->here[j]) continue;
            int64_t x = *entry(s, p, u, i, j), y = *entry(s, p, u, i, v0), z = *entry(s, p, u, u0, j);
            if (x >= PROOF_NEVER || (wide)x - y != (wide)z - corner) return proof_wrong(r, "an edge that is no sum");
        }
    for (int32_t i = 0; i < a->n; i++)
        if (a->here[i]) a->cost[i] = add(a->cost[i], *entry(s, p, u, i, v0) - corner);
    for (int32_t j = 0; j < b->n; j++)
        if (b->here[j]) b->cost[j] = add(b->cost[j], *entry(s, p, u, u0, j));
    p->out = true;
    return 0;
}

static void
take_out(struct state *s, int32_t v)
{
    for (int32_t k = 0; k < s->var[v].nedge; k++) s->pair[s->var[v].edge[k]].out = true;
    s->var[v].out = true;
}

/* The least of v's values beside value i of the one and value j of the other end of its edges. */
static int64_t
least(const struct state *s, int32_t v, const struct pair *a, int32_t i, const struct pair *b, int32_t j)
{
    int64_t best = PROOF_NEVER;
    for (int32_t k = 0; k < s->var[v].n; k++) {
        if (!s->var[v].here[k]) continue;
        int64_t x = s->var[v].cost[k];
        if (a) x = add(x, *entry(s, a, v, k, i));
        if (b) x = add(x, *entry(s, b, v, k, j));
        best = MIN(best, x);
    }
    return best;
}

static int
out(struct proof *r, struct state *s)
{
    int32_t v, n = 0;
    struct pair *p[2] = {NULL, NULL}, *q;
    TRY(variable(r, s, &v));
    bool decided = values(&s->var[v]) == 1;
    if (!decided && degree(s, v) > 2) return proof_wrong(r, "a variable with more than two neighbours");
    if (decided || degree(s, v) == 0) s->constant = add(s->constant, least(s, v, NULL, 0, NULL, 0));
    for (int32_t k = 0; k < s->var[v].nedge; k++) {
        q = &s->pair[s->var[v].edge[k]];
        if (q->out) continue;
        if (!decided) {
            p[n++] = q;
            continue;
        }
        int32_t i = 0;
        while (!s->var[v].here[i]) i++;
        struct var *o = &s->var[other(q, v)];
        for (int32_t j = 0; j < o->n; j++) o->cost[j] = add(o->cost[j], *entry(s, q, v, i, j));
    }
    if (n == 1) {
        struct var *o = &s->var[other(p[0], v)];
        for (int32_t j = 0; j < o->n; j++) o->cost[j] = add(o->cost[j], least(s, v, p[0], j, NULL, 0));
    } else if (n == 2) {
        int32_t a = other(p[0], v), b = other(p[1], v);
        int64_t ia = p[0] - s->pair, ib = p[1] - s->pair;
        TRY(pair_new(r, s, a, b, &q)); /* may move the pairs */
        for (int32_t i = 0; i < s->var[a].n; i++)
            for (int32_t j = 0; j < s->var[b].n; j++) {
                int64_t *x = entry(s, q, a, i, j);
                *x = add(*x, least(s, v, &s->pair[ia], i, &s->pair[ib], j));
            }
    }
    take_out(s, v);
    return 0;
}

static int
as(struct proof *r, struct state *s)
{
    int32_t v, u, had = s->npair;
    struct pair *p;
    TRY(variable(r, s, &v));
    TRY(variable(r, s, &u));
    if (u == v) return proof_wrong(r, "a variable is not decided by itself");
    TRY(pair_new(r, s, v, u, &p));
    if (s->npair > had) return proof_wrong(r, "an edge that is not there");
    int64_t by = p - s->pair;
    int32_t *map = ARENA_ARRAY(&s->arena, int32_t, s->var[u].n);
    for (int32_t j = 0; j < s->var[u].n; j++) {
        int32_t found = 0;
        for (int32_t i = 0; i < s->var[v].n && s->var[u].here[j]; i++)
            if (s->var[v].here[i] && *entry(s, p, v, i, j) < PROOF_NEVER) map[j] = i, found++;
        if (s->var[u].here[j] && found != 1) return proof_wrong(r, "a variable that the other does not decide");
        int64_t cost = add(s->var[v].cost[map[j]], *entry(s, p, v, map[j], j));
        if (s->var[u].here[j]) s->var[u].cost[j] = add(s->var[u].cost[j], cost);
    }
    for (int32_t k = 0; k < s->var[v].nedge; k++) {
        int32_t e = s->var[v].edge[k], o = other(&s->pair[e], v);
        struct pair *q;
        if (s->pair[e].out || e == by) continue;
        TRY(pair_new(r, s, u, o, &q));
        for (int32_t j = 0; j < s->var[u].n; j++)
            for (int32_t i = 0; i < s->var[o].n && s->var[u].here[j]; i++) {
                int64_t *x = entry(s, q, u, j, i);
                *x = add(*x, *entry(s, &s->pair[e], v, map[j], i));
            }
    }
    take_out(s, v);
    return 0;
}

static int
drop(struct proof *r, struct state *s)
{
    int32_t v, a, b;
    TRY(variable(r, s, &v));
    struct var *x = &s->var[v];
    TRY(proof_number32(r, 0, x->n - 1, &a));
    TRY(proof_number32(r, 0, x->n - 1, &b));
    if (a == b || !x->here[a] || !x->here[b]) return proof_wrong(r, "a value that is gone");
    wide worse = (wide)x->cost[b] - x->cost[a];
    if (x->cost[b] >= PROOF_NEVER) return proof_wrong(r, "a value that is not beaten");
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct pair *p = &s->pair[x->edge[k]];
        if (p->out) continue;
        const struct var *o = &s->var[other(p, v)];
        wide most = -(wide)PROOF_NEVER;
        for (int32_t j = 0; j < o->n; j++) {
            int64_t from = *entry(s, p, v, a, j), to = *entry(s, p, v, b, j);
            if (!o->here[j] || from >= PROOF_NEVER) continue;
            if (to >= PROOF_NEVER) return proof_wrong(r, "a value that is not beaten");
            most = MAX(most, (wide)to - from);
        }
        worse += most;
    }
    if (worse > 0) return proof_wrong(r, "a value that is not beaten");
    x->here[a] = 0;
    return 0;
}

/* ---- the dual ---- */

static void
no_messages(struct state *s)
{
    for (int32_t k = 0; k < s->npair; k++) {
        struct pair *p = &s->pair[k];
        if (p->out) continue;
        memset(p->to_u, 0, sizeof *p->to_u * (size_t)s->var[p->u].n);
        memset(p->to_v, 0, sizeof *p->to_v * (size_t)s->var[p->v].n);
    }
}

static int
messages(struct proof *r, struct state *s)
{
    int32_t u, v, had = s->npair;
    struct pair *p;
    TRY(variable(r, s, &u));
    TRY(variable(r, s, &v));
    TRY(pair_new(r, s, u, v, &p));
    if (s->npair > had || u == v) return proof_wrong(r, "an edge that is not there");
    for (int side = 0; side < 2; side++) {
        const struct var *x = &s->var[side ? v : u];
        int64_t *to = p->u == (side ? v : u) ? p->to_u : p->to_v;
        for (int32_t i = 0; i < x->n; i++)
            if (x->here[i]) TRY(proof_number(r, -PROOF_NEVER, PROOF_NEVER - 1, &to[i]));
    }
    return proof_line_ends(r);
}

/* What value i of v costs with all that is handed to it. */
static wide
handed(const struct state *s, int32_t v, int32_t i)
{
    wide sum = s->var[v].cost[i];
    for (int32_t k = 0; k < s->var[v].nedge; k++) {
        const struct pair *p = &s->pair[s->var[v].edge[k]];
        if (!p->out) sum += p->u == v ? p->to_u[i] : p->to_v[i];
    }
    return sum;
}

/* The least of what is left of an edge beside value i of v. */
static wide
left(const struct state *s, const struct pair *p, int32_t v, int32_t i)
{
    const struct var *o = &s->var[other(p, v)];
    const int64_t *own = p->u == v ? p->to_u : p->to_v, *its = p->u == v ? p->to_v : p->to_u;
    wide best = (wide)PROOF_NEVER * 4;
    for (int32_t j = 0; j < o->n; j++)
        if (o->here[j]) best = MIN(best, (wide)*entry(s, p, v, i, j) - own[i] - its[j]);
    return best;
}

/* Lower bounds on solutions with each value of v, less the sum of all leasts, to `rise`; returns v's own least. */
static wide
rises(const struct state *s, int32_t v, wide *rise)
{
    const struct var *x = &s->var[v];
    wide low = (wide)PROOF_NEVER * 8;
    for (int32_t i = 0; i < x->n; i++)
        if (x->here[i]) low = MIN(low, rise[i] = handed(s, v, i));
    for (int32_t i = 0; i < x->n; i++) rise[i] -= low;
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct pair *p = &s->pair[x->edge[k]];
        wide all = (wide)PROOF_NEVER * 8;
        if (p->out) continue;
        for (int32_t i = 0; i < x->n; i++)
            if (x->here[i]) all = MIN(all, left(s, p, v, i));
        for (int32_t i = 0; i < x->n; i++)
            if (x->here[i]) rise[i] += left(s, p, v, i) - all;
    }
    return low;
}

static wide
lower_bound(const struct state *s)
{
    wide sum = s->constant;
    for (int32_t v = 0; v < s->nvar; v++) {
        wide low = (wide)PROOF_NEVER * 8;
        if (s->var[v].out) continue;
        for (int32_t i = 0; i < s->var[v].n; i++)
            if (s->var[v].here[i]) low = MIN(low, handed(s, v, i));
        sum += low;
    }
    for (int32_t k = 0; k < s->npair; k++) {
        const struct pair *p = &s->pair[k];
        wide low = (wide)PROOF_NEVER * 8;
        if (p->out) continue;
        for (int32_t i = 0; i < s->var[p->u].n; i++)
            if (s->var[p->u].here[i]) low = MIN(low, left(s, p, p->u, i));
        sum += low;
    }
    return sum;
}

static int
prune(struct proof *r, struct state *s)
{
    int64_t below;
    struct arena tmp = {0};
    TRY(proof_number(r, 0, PROOF_NEVER, &below));
    if (below < r->below) return proof_wrong(r, "values are ruled out that the claim needs");
    wide bound = lower_bound(s);
    if (bound >= r->below) s->closed = true;
    uint8_t **keep = ARENA_ARRAY(&tmp, uint8_t *, s->nvar);
    for (int32_t v = 0; v < s->nvar && !s->closed; v++) {
        struct var *x = &s->var[v];
        if (x->out) continue;
        wide *rise = ARENA_ARRAY(&tmp, wide, x->n);
        keep[v] = ARENA_ARRAY(&tmp, uint8_t, x->n);
        rises(s, v, rise);
        for (int32_t i = 0; i < x->n; i++) keep[v][i] = x->here[i] && bound + rise[i] < below;
    }
    for (int32_t v = 0; v < s->nvar && !s->closed; v++) {
        if (s->var[v].out) continue;
        memcpy(s->var[v].here, keep[v], (size_t)s->var[v].n);
        if (values(&s->var[v]) == 0) s->closed = true;
    }
    arena_fini(&tmp);
    return 0;
}

static int
bound_round(struct proof *r, struct state *s)
{
    TRY(proof_line_ends(r));
    no_messages(s);
    while (proof_word(r, "to")) TRY(messages(r, s));
    if (!proof_word(r, "prune")) return proof_wrong(r, "a round ends with prune");
    return prune(r, s);
}

/* ---- cases ---- */

static void
state_copy(const struct state *from, struct state *s)
{
    *s = *from;
    s->arena = (struct arena){0};
    s->capacity = s->npair;
    s->var = arena_dup(&s->arena, from->var, sizeof *s->var * (size_t)s->nvar);
    s->pair = arena_dup(&s->arena, from->pair, sizeof *s->pair * (size_t)MAX(1, s->npair));
    for (int32_t v = 0; v < s->nvar; v++) {
        struct var *x = &s->var[v];
        x->capacity = x->nedge;
        x->cost = arena_dup(&s->arena, x->cost, sizeof *x->cost * (size_t)x->n);
        x->here = arena_dup(&s->arena, x->here, (size_t)x->n);
        if (x->nedge) x->edge = arena_dup(&s->arena, x->edge, sizeof *x->edge * (size_t)x->nedge);
    }
    for (int32_t k = 0; k < s->npair; k++) {
        struct pair *p = &s->pair[k];
        size_t n = (size_t)s->var[p->u].n * (size_t)s->var[p->v].n;
        if (p->out) continue;
        p->cost = arena_dup(&s->arena, p->cost, sizeof *p->cost * n);
        p->to_u = arena_dup(&s->arena, p->to_u, sizeof *p->to_u * (size_t)s->var[p->u].n);
        p->to_v = arena_dup(&s->arena, p->to_v, sizeof *p->to_v * (size_t)s->var[p->v].n);
    }
}

static int steps(struct proof *r, struct state *s, int depth);

/* Every value that is left has a case, and every case closes. */
static int
split(struct proof *r, struct state *s, int depth)
{
    int32_t v, value;
    TRY(variable(r, s, &v));
    TRY(proof_line_ends(r));
    uint8_t *done = ARENA_ARRAY(&s->arena, uint8_t, s->var[v].n);
    while (proof_word(r, "case")) {
        struct state one;
        int64_t entries = r->entries;
        TRY(proof_number32(r, 0, s->var[v].n - 1, &value));
        TRY(proof_line_ends(r));
        state_copy(s, &one);
        memset(one.var[v].here, 0, (size_t)one.var[v].n);
        one.var[v].here[value] = 1;
        int status = steps(r, &one, depth + 1);
        bool closed = one.closed;
        arena_fini(&one.arena);
        r->entries = entries;
        TRY(status);
        if (!closed) return proof_wrong(r, "a case that is left open");
        done[value] = 1;
    }
    for (int32_t i = 0; i < s->var[v].n; i++)
        if (s->var[v].here[i] && !done[i]) return proof_wrong(r, "a value without a case");
    s->closed = true;
    return 0;
}

static int
step(struct proof *r, struct state *s, int depth)
{
    if (proof_word(r, "split")) return split(r, s, depth);
    if (proof_word(r, "support"))
        support(s);
    else if (proof_word(r, "out"))
        TRY(out(r, s));
    else if (proof_word(r, "as"))
        TRY(as(r, s));
    else if (proof_word(r, "cut"))
        TRY(cut(r, s));
    else if (proof_word(r, "drop"))
        TRY(drop(r, s));
    else if (proof_word(r, "round"))
        TRY(bound_round(r, s));
    else
        return proof_wrong(r, "no step of a proof");
    return proof_line_ends(r);
}

/* Up to the line "end". */
static int
steps(struct proof *r, struct state *s, int depth)
{
    enum { DEPTH = 1000 };
    if (depth > DEPTH) return proof_wrong(r, "cases within too many cases");
    while (!proof_word(r, "end")) {
        if (s->closed) return proof_wrong(r, "a step after nothing was left");
        TRY(step(r, s, depth));
    }
    if (!s->closed) {
        no_messages(s);
        s->closed = lower_bound(s) >= r->below;
    }
    return proof_line_ends(r);
}

/* In per cent of the cost. */
static double
gap(const struct proof *r, int64_t bound)
{
    return r->cost ? 100.0 * (double)(r->cost - bound) / (double)r->cost : 0.0;
}

static void
say(const struct proof *r, struct str *said)
{
    str_addf(said, "%d operators, %d tensors: the plan costs %lld ns", (int)r->nnode, (int)r->ntensor,
             (long long)r->cost);
    if (r->limit) str_addf(said, " within %lld byte%s a device", (long long)r->limit, r->limit == 1 ? "" : "s");
    if (r->bound == r->cost)
        str_add(said, ", and no plan costs less");
    else
        str_addf(said, ", and no plan costs less than %lld ns (gap %.3f %%)", (long long)r->bound, gap(r, r->bound));
    if (r->searched)
        str_addf(said, "; the search found that none costs less than %lld ns (gap %.3f %%), which is not proven here",
                 (long long)r->searched, gap(r, r->searched));
}

/* The last line: what was read is what was written. */
static int
check_digest(struct proof *r, const char *text)
{
    struct digest d = DIGEST_BEGIN;
    char want[40];
    digest_bytes(&d, text, (size_t)(r->at - text));
    snprintf(want, sizeof want, "%016llx%016llx", (unsigned long long)d.a, (unsigned long long)d.b);
    if (!proof_word(r, "digest")) return proof_wrong(r, "the digest is wanted");
    if (!proof_word(r, want)) return proof_wrong(r, "the digest is of another text: something above was changed");
    return proof_line_ends(r);
}

static int
check(struct proof *r, struct state *s)
{
    const char *text = r->at;
    TRY(proof_read(r));
    TRY(check_choice(r));
    TRY(build(r, s));
    wide below = (wide)(r->bound - 1) * r->scale + r->worth + 1;
    if (below >= PROOF_NEVER) return proof_wrong(r, "costs larger than can be checked");
    r->below = (int64_t)below;
    TRY(steps(r, s, 0));
    if (!s->closed) return fail(E_PLAN, "certificate: the proof does not show the bound");
    TRY(check_digest(r, text));
    if (r->at != r->end) return proof_wrong(r, "something stands after the end");
    return 0;
}

int
proof_check(const char *text, size_t bytes, struct str *said)
{
    struct proof r = {.at = text, .end = text + bytes, .line = 1};
    struct state s = {0};
    int status = check(&r, &s);
    if (!status) say(&r, said);
    arena_fini(&r.arena);
    arena_fini(&s.arena);
    return status;
}
