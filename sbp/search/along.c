/* along.c - improves a choice by searching networks whose candidates differ on one mesh axis only. */
#include "sbp/search/along.h"

#include "runtime/data/hash.h"
#include "sbp/search/around.h"
#include "sbp/search/explore.h"
#include "sbp/search/fewer.h"
#include "sbp/search/local.h"

#include <string.h>

enum {
    LOOKS = 24,   /* maximum number of bounding rounds of the search along one mesh axis */
    RACE = 8,     /* the same maximum when the search starts from two choices and keeps the better result */
    LITTLE = 256, /* another pass follows a gain of at least 1 / LITTLE of the cost */
    /* maximum number of bounding rounds for the complete net, after the net with few layers was solved */
    GLANCE = 4,
    LAYERS = 8, /* nets with at least this many layers are first solved with few of them */
};

/* The remaining candidates of a node. Nodes with equal lists share one struct. */
struct left {
    int32_t n;
    uint16_t *candidate;
};
struct shortened { /* an array by candidate, reduced to the remaining candidates */
    const void *was;
    const struct left *left;
    void *is;
};
struct along {
    struct arena arena;
    const struct net *net;
    struct net few;
    const struct left **left; /* by node: its remaining candidates */
    /* hold: applies to nodes whose candidates have no decision on each mesh axis (net_node.part is NULL). true:
     * such a node keeps its candidate; false: it may take any candidate */
    bool hold;
    struct hash_table lists, arrays;
};

/* ---- listing the candidates that differ on one axis ---- */

/* Returns true if candidate k agrees with `now` on all axes except `level`. */
static bool
stays(const struct along *w, const struct net_node *v, int32_t k, int32_t now, int32_t level)
{
    const struct net *n = w->net;
    if (!v->part) return !w->hold;
    for (int32_t l = 0; l < n->nlevel; l++)
        if (l != level && v->part[k * n->nlevel + l] != v->part[now * n->nlevel + l]) return false;
    return true;
}

static const struct left *
list_left(struct along *w, const struct net_node *v, int32_t now, int32_t level)
{
    struct arena tmp = {0};
    uint16_t *list = ARENA_ARRAY(&tmp, uint16_t, v->ncand);
    int32_t n = 0;
    for (int32_t k = 0; k < v->ncand; k++)
        if (k == now || (v->cost[k] < NET_NEVER && stays(w, v, k, now, level))) list[n++] = (uint16_t)k;
    uint64_t hash = hash_bytes(0, list, sizeof *list * (size_t)n);
    uint32_t at = 0;
    struct left *l;
    while ((l = hash_next(&w->lists, hash, &at)) && (l->n != n || memcmp(l->candidate, list, sizeof *list * (size_t)n)))
        continue;
    if (!l) {
        l = ARENA_NEW(&w->arena, struct left);
        *l = (struct left){n, arena_dup(&w->arena, list, sizeof *list * (size_t)n)};
        hash_add(&w->lists, hash, l);
    }
    arena_fini(&tmp);
    return l;
}

/* Returns true if the candidates of some node differ on this axis. */
static bool
is_used(const struct net *n, int32_t level)
{
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 1; n->node[i].part && k < n->node[i].ncand; k++)
            if (n->node[i].part[k * n->nlevel + level] != n->node[i].part[level]) return true;
    return false;
}

/* ---- making the net that has only these candidates ---- */

/* Reduces an array to the remaining candidates of a list. Caches the result by (array, list), so that nodes which
 * shared an array share the result, too. */
static const void *
shorten_left(struct along *w, const void *was, size_t size, const struct left *left)
{
    uint64_t hash = hash_number((uint64_t)(uintptr_t)was, (uint64_t)(uintptr_t)left);
    uint32_t at = 0;
    struct shortened *s;
    while ((s = hash_next(&w->arrays, hash, &at)))
        if (s->was == was && s->left == left) return s->is;
    s = ARENA_NEW(&w->arena, struct shortened);
    *s = (struct shortened){was, left, arena_alloc(&w->arena, size * (size_t)left->n)};
    for (int32_t k = 0; k < left->n; k++)
        memcpy((char *)s->is + size * (size_t)k, (const char *)was + size * left->candidate[k], size);
    hash_add(&w->arrays, hash, s);
    return s->is;
}

static void
make_level_net(struct along *w, const int32_t *choice, int32_t level)
{
    const struct net *n = w->net;
    w->few = (struct net){.nnode = n->nnode, .ntensor = n->ntensor, .rank = n->rank};
    w->left = ARENA_ARRAY(&w->arena, const struct left *, n->nnode);
    w->few.node = ARENA_ARRAY(&w->arena, struct net_node, n->nnode);
    w->few.tensor = arena_dup(&w->arena, n->tensor, sizeof *n->tensor * (size_t)n->ntensor);
    for (int32_t i = 0; i < n->nnode; i++) {
        w->left[i] = list_left(w, &n->node[i], choice[i], level);
        w->few.node[i].ncand = w->left[i]->n;
        w->few.node[i].cost = shorten_left(w, n->node[i].cost, sizeof(int64_t), w->left[i]);
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        struct net_tensor *t = &w->few.tensor[i];
        struct net_use *use = ARENA_ARRAY(&w->arena, struct net_use, t->nuse + 1);
        t->form = shorten_left(w, t->form, sizeof *t->form, w->left[t->maker]);
        for (int32_t k = 0; k < t->nuse; k++) {
            use[k] = t->use[k];
            use[k].form = shorten_left(w, use[k].form, sizeof *use[k].form, w->left[use[k].node]);
        }
        t->use = use;
    }
}

/* Searches for a better choice of a net, starting from the current choice. */
static void
glance_along(const struct net *n, struct explore *s, int32_t *choice)
{
    struct cfn *c = cfn_new(n, s->scale, NULL);
    struct around near = {.net = n};
    s->choice = choice;
    around_ask(&near, s);
    s->nlook = 0;
    explore(s, c);
    around_end(&near);
    cfn_free(&c);
}

/* Searches for a better choice in which candidates change on one mesh axis only. Returns true if the cost fell by
 * at least 1 / LITTLE. */
static bool
along_axis(const struct net *n, int32_t level, bool hold, struct explore *s, int32_t *choice)
{
    struct along w = {.net = n, .hold = hold};
    w.lists.arena = w.arrays.arena = &w.arena;
    make_level_net(&w, choice, level);
    int32_t *pick = ARENA_ARRAY(&w.arena, int32_t, n->nnode);
    for (int32_t i = 0; i < n->nnode; i++)
        while (w.left[i]->candidate[pick[i]] != choice[i]) pick[i]++;
    int64_t before = s->best;
    glance_along(&w.few, s, pick);
    for (int32_t i = 0; i < n->nnode && s->best < before; i++) choice[i] = w.left[i]->candidate[pick[i]];
    arena_fini(&w.arena);
    return s->best < before - before / LITTLE;
}

/* Improves two choices along each axis, in few rounds. If `other` becomes the better one, moves it to `choice` and
 * returns true. */
static bool
race(const struct net *n, struct explore *s, const int32_t *other, int32_t *choice)
{
    struct arena tmp = {0};
    struct explore x = *s;
    int32_t *from = arena_dup(&tmp, other, sizeof *from * (size_t)n->nnode);
    int64_t cost = net_cost(n, other);
    bool differs = cost < NET_NEVER && cost != s->best / s->scale;
    x.best = differs ? cost * s->scale : s->best;
    s->looks = x.looks = RACE;
    for (int32_t level = 0; level < n->nlevel && differs; level++) {
        if (!is_used(n, level)) continue;
        along_axis(n, level, true, s, choice);
        along_axis(n, level, true, &x, from);
    }
    bool better = differs && x.best < s->best;
    if (better) {
        s->best = x.best;
        memcpy(choice, from, sizeof *from * (size_t)n->nnode);
    }
    s->stopped = s->stopped || x.stopped;
    s->looks = LOOKS;
    arena_fini(&tmp);
    return better;
}

/* Improves the choice along one axis after the other until no axis gains enough. */
static void
all_axes(const struct net *n, struct explore *s, int32_t used, bool hold, int32_t *choice)
{
    for (int32_t level = 0, idle = 0; idle < used && !s->stopped; level = (level + 1) % n->nlevel)
        if (is_used(n, level)) idle = along_axis(n, level, hold, s, choice) ? 1 : idle + 1;
}

/* Extends a choice of the net with few layers to all layers. Nodes outside layers take their candidates from `from`.
 * Improves the result node by node, and keeps it if it is better. */
static void
all_layers(const struct fewer *f, const int32_t *now, const int32_t *from, struct explore *s, int32_t *choice)
{
    struct arena tmp = {0};
    int32_t n = f->whole->nnode, *all = arena_dup(&tmp, from, sizeof *from * (size_t)n);
    struct local l;
    fewer_whole(f, now, all);
    local_begin(&l, f->whole, all);
    choose_beside(&l, NULL);
    int64_t cost = net_cost(f->whole, l.choice);
    if (cost < s->best / s->scale) {
        s->best = cost * s->scale;
        memcpy(choice, l.choice, sizeof *choice * (size_t)n);
    }
    local_end(&l);
    arena_fini(&tmp);
}

/* Solves a net with few layers, and then the complete net with a few bounding rounds. Returns true if the choice
 * improved and the layers proved similar: per node, the choice costs at most as much in the complete net as in the
 * net with few layers. */
static bool
few_layers(const struct net *n, struct explore *s, int32_t used, const int32_t *other, int32_t *choice)
{
    struct fewer f;
    struct arena tmp = {0};
    int64_t before = s->best;
    bool alike = false;
    if (!fewer_begin(&f, n)) return false;
    struct explore few = *s;
    int32_t *now = ARENA_ARRAY(&tmp, int32_t, f.net.nnode + 1);
    fewer_of(&f, choice, now);
    few.nchoice = f.net.nnode;
    int64_t cost = f.like.nlayer < LAYERS ? NET_NEVER : net_cost(&f.net, now);
    if (cost < NET_NEVER) {
        few.best = cost * s->scale;
        const int32_t *from = arena_dup(&tmp, choice, sizeof *choice * (size_t)n->nnode);
        int32_t *then = ARENA_ARRAY(&tmp, int32_t, f.net.nnode + 1);
        if (other) fewer_of(&f, other, then);
        if (other && race(&f.net, &few, then, now)) from = other;
        all_axes(&f.net, &few, used, true, now);
        all_layers(&f, now, from, s, choice);
        all_axes(&f.net, &few, used, false, now);
        few.looks = GLANCE;
        glance_along(&f.net, &few, now);
        all_layers(&f, now, from, s, choice);
        alike = s->best / n->nnode <= few.best / f.net.nnode;
    }
    s->stopped = few.stopped;
    fewer_end(&f);
    arena_fini(&tmp);
    return alike && s->best < before;
}

bool
along_axes(const struct net *n, int64_t scale, bool (*stop)(void *arg), void *arg, const int32_t *other,
           int32_t *choice, int64_t *cost)
{
    struct explore s = {.stop = stop, .arg = arg, .scale = scale, .root = true, .looks = LOOKS, .nchoice = n->nnode};
    int32_t used = 0;
    for (int32_t level = 0; level < n->nlevel; level++) used += is_used(n, level);
    if (used < 2 || n->nnode == 0) return false;
    int64_t also = other ? net_cost(n, other) : NET_NEVER;
    struct arena tmp = {0};
    if (also < *cost) { /* the search continues with the cheaper choice */
        const int32_t *was = arena_dup(&tmp, choice, sizeof *choice * (size_t)n->nnode);
        memcpy(choice, other, sizeof *choice * (size_t)n->nnode);
        other = was;
        *cost = also;
    }
    s.best = *cost * scale;
    if (!few_layers(n, &s, used, other, choice)) {
        if (other) race(n, &s, other, choice);
        for (int hold = 1; hold >= 0; hold--) all_axes(n, &s, used, hold, choice);
    }
    *cost = s.best / scale;
    arena_fini(&tmp);
    return true;
}
