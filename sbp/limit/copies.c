/* copies.c - builds the net with copies as nodes. */
#include "sbp/limit/copies.h"

#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

struct parting {
    struct arena *a;
    const struct net *net;
    struct copies *c;
    double *rank;
    int32_t tensor_capacity;
    int32_t *before; /* by time, with an end mark: number of earlier times at which the limit may be exceeded */
    const uint16_t *same;
};

static int64_t
copies_entry(const struct net_tensor *t, const int64_t *table, int32_t from, int32_t to)
{
    return table[(int64_t)from * t->nto + to];
}

/* Returns the most bytes of a copy in this form. */
static int64_t
most_bytes_of_form(const struct net_tensor *t, int32_t form)
{
    int64_t most = 0;
    for (int32_t f = 0; f < t->nfrom; f++)
        if (copies_entry(t, t->price, f, form) < NET_NEVER) most = MAX(most, copies_entry(t, t->copy, f, form));
    return most;
}

static bool
copy_may_want(const struct net *n, const struct net_use *u, int32_t form)
{
    for (int32_t k = 0; k < n->node[u->node].ncand; k++)
        if (u->form[k] == form && n->node[u->node].cost[k] < NET_NEVER) return true;
    return false;
}

/* Finds when readers may need the form; returns false if no reader may. */
static bool
wanted_times(const struct net *n, const struct net_tensor *t, int32_t form, int32_t *begin, int32_t *end)
{
    *begin = INT32_MAX;
    *end = 0;
    for (int32_t k = 0; k < t->nuse; k++) {
        if (!copy_may_want(n, &t->use[k], form)) continue;
        *begin = MIN(*begin, t->use[k].begin);
        *end = MAX(*end, t->use[k].end);
    }
    return *end > 0;
}

/* Returns the most copies of a tensor that other rounds hold. */
static int64_t
most_others(const struct net *n, const struct net_tensor *t)
{
    int64_t most = 1;
    for (int32_t k = 0; t->credit && k < n->nmoment * n->nmoment; k++) most = MAX(most, t->credit[k]);
    return most - 1;
}

/* ---- times that matter ---- */

static void
change(int64_t *live, int32_t begin, int32_t end, int64_t bytes)
{
    if (end <= begin) return;
    live[begin] += bytes;
    live[end] -= bytes;
}

/* Counts the times at which some choice may exceed the limit. */
static void
find_part_times(struct parting *p)
{
    const struct net *n = p->net;
    int32_t end = net_times(n), from, to;
    int64_t *live = must_alloc(sizeof *live * (size_t)(end + 1)), sum = 0;
    for (int32_t i = 0; i < n->nnode; i++) {
        int64_t most = 0;
        for (int32_t k = 0; n->node[i].memory && k < n->node[i].ncand; k++) most = MAX(most, n->node[i].memory[k]);
        change(live, n->node[i].time, n->node[i].time + 1, most);
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        int64_t most = 0;
        for (int32_t f = 0; t->bytes && f < t->nfrom; f++) most = MAX(most, t->bytes[f]);
        change(live, t->born, t->dies, most);
        for (int32_t f = 0; t->copy && t->nuse && f < t->nto; f++)
            if (wanted_times(n, t, f, &from, &to)) {
                change(live, from, to, most_bytes_of_form(t, f));
                change(live, n->round_begin, n->round_end, most_bytes_of_form(t, f) * most_others(n, t));
            }
    }
    p->before = ARENA_ARRAY(p->a, int32_t, end + 1);
    for (int32_t t = 0; t < end; t++) {
        sum += live[t];
        p->before[t + 1] = p->before[t] + (sum > n->memory_limit);
    }
    free(live);
}

static bool
matters(const struct parting *p, const struct net_tensor *t, int32_t form)
{
    int32_t begin, end;
    if (!wanted_times(p->net, t, form, &begin, &end) || most_bytes_of_form(t, form) == 0) return false;
    if (most_others(p->net, t) > 0) begin = MIN(begin, p->net->round_begin), end = MAX(end, p->net->round_end);
    return p->before[end] > p->before[begin];
}

/* ---- live ranges ---- */

static int
compare_copy_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts x and removes duplicates. Returns the number left. */
static int32_t
sorted(int64_t *x, int32_t n)
{
    int32_t count = 0;
    if (n) qsort(x, (size_t)n, sizeof *x, compare_copy_numbers);
    for (int32_t k = 0; k < n; k++)
        if (count == 0 || x[count - 1] != x[k]) x[count++] = x[k];
    return count;
}

/* Lists the sizes that a copy in this form may have. Returns their number. */
static int32_t
list_bytes(const struct net_tensor *t, int32_t form, int64_t *bytes)
{
    int32_t n = 0;
    for (int32_t f = 0; f < t->nfrom; f++)
        if (copies_entry(t, t->price, f, form) < NET_NEVER) bytes[n++] = copies_entry(t, t->copy, f, form);
    return sorted(bytes, n);
}

static void
add_span(struct parting *p, struct copied *x, int32_t *capacity, struct copy_span s)
{
    ARENA_GROW(p->a, x->span, x->nspan + 1, *capacity);
    x->span[x->nspan++] = s;
}

/* Adds the candidates for a form, short live ranges first, because a search takes the first of equals. */
static void
add_spans(struct parting *p, struct copied *x, int32_t *capacity, int32_t form)
{
    const struct net_tensor *t = &p->net->tensor[x->tensor];
    struct arena tmp = {0};
    int64_t *bytes = ARENA_ARRAY(&tmp, int64_t, t->nfrom + 1), *begin = ARENA_ARRAY(&tmp, int64_t, t->nuse + 1),
            *end = ARENA_ARRAY(&tmp, int64_t, t->nuse + 1);
    int32_t nbytes = list_bytes(t, form, bytes), n = 0;
    for (int32_t k = 0; k < t->nuse; k++) {
        if (!copy_may_want(p->net, &t->use[k], form)) continue;
        begin[n] = t->use[k].begin;
        end[n++] = t->use[k].end;
    }
    int32_t nbegin = sorted(begin, n), nend = sorted(end, n);
    for (int32_t b = 0; b < nbytes; b++) {
        if (bytes[b] == 0) add_span(p, x, capacity, (struct copy_span){form, 0, 0, 0});
        for (int32_t i = nbegin - 1; i >= 0 && bytes[b]; i--)
            for (int32_t j = 0; j < nend; j++)
                if (begin[i] < end[j])
                    add_span(p, x, capacity, (struct copy_span){form, bytes[b], (int32_t)begin[i], (int32_t)end[j]});
    }
    arena_fini(&tmp);
}

static bool
covers(const struct copy_span *s, int32_t form, int32_t begin, int32_t end)
{
    return s->form == form && (s->bytes == 0 || (s->begin <= begin && s->end >= end));
}

/* ---- nodes and tensors ---- */

static struct net_tensor *
copies_tensor_new(struct parting *p)
{
    struct net *to = &p->c->apart;
    ARENA_GROW(p->a, to->tensor, to->ntensor + 1, p->tensor_capacity);
    to->tensor[to->ntensor] = (struct net_tensor){0};
    return &to->tensor[to->ntensor++];
}

/* Adds a tensor for the joint cost of two nodes, which both keep their forms. Returns the zeroed price table. */
static int64_t *
copies_beside(struct parting *p, int32_t maker, const uint16_t *from, int32_t nfrom, int32_t reader, const uint16_t *to,
              int32_t nto)
{
    struct net_use *use = ARENA_NEW(p->a, struct net_use);
    struct net_tensor *t = copies_tensor_new(p);
    int64_t *price = ARENA_ARRAY(p->a, int64_t, (int64_t)nfrom * nto);
    *use = (struct net_use){.node = reader, .form = to};
    *t = (struct net_tensor){.maker = maker, .form = from, .nfrom = nfrom, .nto = nto, .nuse = 1, .use = use};
    t->price = price;
    return price;
}

static void
pay(struct parting *p, const struct copied *x, int32_t node)
{
    const struct net_tensor *t = &p->net->tensor[x->tensor];
    int64_t *price = copies_beside(p, t->maker, t->form, t->nfrom, node, p->same, x->nspan);
    for (int32_t f = 0; f < t->nfrom; f++)
        for (int32_t k = 0; k < x->nspan; k++) {
            const struct copy_span *s = &x->span[k];
            bool fits = s->form < 0 || copies_entry(t, t->copy, f, s->form) == s->bytes;
            price[(int64_t)f * x->nspan + k] = s->form < 0 ? 0
                                               : fits      ? copies_entry(t, t->price, f, s->form)
                                                           : NET_NEVER;
        }
}

static void
read_copy(struct parting *p, const struct copied *x, int32_t node, const struct net_use *u)
{
    const struct net_tensor *t = &p->net->tensor[x->tensor];
    int64_t *price = copies_beside(p, node, p->same, x->nspan, u->node, u->form, t->nto);
    for (int32_t k = 0; k < x->nspan; k++)
        for (int32_t g = 0; g < t->nto; g++)
            if ((x->form < 0 || x->form == g) && !covers(&x->span[k], g, u->begin, u->end))
                price[(int64_t)k * t->nto + g] = NET_NEVER;
}

static void
add_copy_tensor(struct parting *p, const struct copied *x, int32_t node, const int64_t *bytes, int32_t born,
                int32_t dies)
{
    struct net_tensor *t = copies_tensor_new(p);
    *t = (struct net_tensor){.maker = node, .form = p->same, .nfrom = x->nspan, .bytes = bytes};
    t->born = born;
    t->dies = dies;
}

/* Adds the bytes of a copy node: a tensor for each interval between successive ends of its spans, where the bytes
 * are constant, and one for the copies of other rounds. */
static void
copies_take_bytes(struct parting *p, const struct copied *x, int32_t node)
{
    struct arena tmp = {0};
    int64_t *point = ARENA_ARRAY(&tmp, int64_t, 2 * x->nspan + 1);
    int32_t n = 0;
    for (int32_t k = 0; k < x->nspan; k++) {
        if (x->span[k].bytes == 0) continue;
        point[n++] = x->span[k].begin;
        point[n++] = x->span[k].end;
    }
    n = sorted(point, n);
    for (int32_t i = 0; i + 1 < n; i++) {
        int64_t *bytes = ARENA_ARRAY(p->a, int64_t, x->nspan);
        for (int32_t k = 0; k < x->nspan; k++)
            if (x->span[k].begin <= point[i] && x->span[k].end >= point[i + 1]) bytes[k] = x->span[k].bytes;
        add_copy_tensor(p, x, node, bytes, (int32_t)point[i], (int32_t)point[i + 1]);
    }
    const struct net_tensor *of = &p->net->tensor[x->tensor];
    int64_t *others = ARENA_ARRAY(p->a, int64_t, x->nspan);
    for (int32_t k = 0; k < x->nspan && of->credit; k++)
        if (x->span[k].bytes) others[k] = x->span[k].bytes * net_others(p->net, of, x->span[k].begin, x->span[k].end);
    if (of->credit) add_copy_tensor(p, x, node, others, p->net->round_begin, p->net->round_end);
    arena_fini(&tmp);
}

static void
add_copied(struct parting *p, int32_t tensor, int32_t form)
{
    const struct net_tensor *t = &p->net->tensor[tensor];
    struct net *to = &p->c->apart;
    struct copied x = {.tensor = tensor, .form = form};
    int32_t capacity = 0, node = to->nnode++;
    add_span(p, &x, &capacity, (struct copy_span){.form = -1});
    for (int32_t f = 0, begin, end; f < t->nto; f++)
        if ((form < 0 || form == f) && wanted_times(p->net, t, f, &begin, &end)) add_spans(p, &x, &capacity, f);
    to->node[node] = (struct net_node){.ncand = x.nspan, .cost = ARENA_ARRAY(p->a, int64_t, x.nspan)};
    p->c->copied[node - p->net->nnode] = x;
    p->rank[node] = p->rank[t->maker] + 0.5;
    pay(p, &x, node);
    for (int32_t k = 0; k < t->nuse; k++)
        if (form < 0 || copy_may_want(p->net, &t->use[k], form)) read_copy(p, &x, node, &t->use[k]);
    copies_take_bytes(p, &x, node);
}

/* Returns the tensor without copies: forms whose copies are nodes cost nothing here. */
static struct net_tensor
rest_of_tensor(struct parting *p, const struct net_tensor *t, const uint8_t *gone)
{
    struct net_tensor rest = *t;
    int64_t *price = arena_dup(p->a, t->price, sizeof *price * (size_t)t->nfrom * (size_t)t->nto);
    rest.copy = NULL;
    rest.credit = NULL;
    rest.price = price;
    for (int32_t f = 0; f < t->nfrom; f++)
        for (int32_t g = 0; g < t->nto; g++)
            if (gone[g]) price[(int64_t)f * t->nto + g] = 0;
    return rest;
}

static void
part_tensor(struct parting *p, int32_t tensor)
{
    struct net_tensor t = p->net->tensor[tensor], rest = t;
    bool any = false;
    rest.copy = NULL;
    rest.credit = NULL;
    if (t.copy && t.nuse) {
        uint8_t *gone = must_alloc((size_t)t.nto);
        for (int32_t f = 0; f < t.nto; f++) any = (gone[f] = matters(p, &t, f)) || any;
        if (any && t.nuse > 1) rest = rest_of_tensor(p, &t, gone);
        if (any && t.nuse == 1) rest.nuse = 0;
        if (any && t.nuse == 1) add_copied(p, tensor, -1);
        for (int32_t f = 0; f < t.nto && t.nuse > 1; f++)
            if (gone[f]) add_copied(p, tensor, f);
        free(gone);
    }
    *copies_tensor_new(p) = rest;
}

static int64_t
most_nodes(const struct net *n)
{
    int64_t most = n->nnode;
    for (int32_t i = 0; i < n->ntensor; i++) most += n->tensor[i].nuse > 1 ? n->tensor[i].nto : n->tensor[i].nuse;
    return most;
}

bool
copies_begin(struct arena *a, const struct net *n, struct copies *c)
{
    bool any = false;
    for (int32_t i = 0; i < n->ntensor && !any; i++) any = n->tensor[i].copy && n->tensor[i].nuse;
    if (!any || !n->memory_limit) return false;
    struct parting p = {.a = a, .net = n, .c = c};
    *c = (struct copies){.net = n, .apart = *n};
    c->apart.tensor = NULL;
    c->apart.ntensor = 0;
    find_part_times(&p);
    c->apart.node = ARENA_ARRAY(a, struct net_node, most_nodes(n));
    memcpy(c->apart.node, n->node, sizeof *n->node * (size_t)n->nnode);
    c->copied = ARENA_ARRAY(a, struct copied, most_nodes(n) - n->nnode + 1);
    p.rank = ARENA_ARRAY(a, double, most_nodes(n));
    for (int32_t i = 0; i < n->nnode; i++) p.rank[i] = n->rank ? n->rank[i] : i;
    p.same = net_identity(a);
    for (int32_t i = 0; i < n->ntensor; i++) part_tensor(&p, i);
    c->apart.rank = p.rank;
    return true;
}

/* ---- shortest live ranges ---- */

static int32_t
shortest(const struct copies *c, const struct copied *x, const int32_t *choice)
{
    const struct net_tensor *t = &c->net->tensor[x->tensor];
    int32_t form = x->form < 0 ? t->use[0].form[choice[t->use[0].node]] : x->form, begin = INT32_MAX, end = 0;
    int64_t bytes = copies_entry(t, t->copy, t->form[choice[t->maker]], form);
    for (int32_t k = 0; k < t->nuse; k++) {
        if (t->use[k].form[choice[t->use[k].node]] != form) continue;
        begin = MIN(begin, t->use[k].begin);
        end = MAX(end, t->use[k].end);
    }
    work_add(2 * (int64_t)t->nuse + x->nspan);
    if (end == 0) return 0;
    for (int32_t k = 1; k < x->nspan; k++) {
        const struct copy_span *s = &x->span[k];
        if (s->form == form && s->bytes == bytes && (bytes == 0 || (s->begin == begin && s->end == end))) return k;
    }
    return 0; /* the conversion is impossible */
}

void
copies_settle(const struct copies *c, int32_t *choice)
{
    for (int32_t i = c->net->nnode; i < c->apart.nnode; i++)
        choice[i] = shortest(c, &c->copied[i - c->net->nnode], choice);
}
