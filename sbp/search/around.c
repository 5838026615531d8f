/* around.c - large neighbourhood search in a net. */
#include "sbp/search/around.h"

#include "sbp/search/explore.h"
#include "sbp/net/work.h"

#include <string.h>

enum {
    SMALL = 16, /* number of nodes of the first neighbourhoods */
    LARGE = 60,
    HUB = 32,  /* maximum number of readers of one tensor that are visited */
    SETUP = 3, /* factor by which the work of a search is multiplied, to count its setup, too */
};

static int32_t
draw_index(struct around *w, int32_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((w->random >> 33) % (uint64_t)n);
}

void
around_begin(struct around *w, const struct net *n, const int32_t *choice, int64_t scale)
{
    *w = (struct around){.net = n, .scale = scale, .random = 1, .size = SMALL, .most = MIN(LARGE, n->nnode)};
    local_begin(&w->local, n, choice);
    w->cost = net_cost(n, choice);
    w->near = ARENA_ARRAY(&w->local.arena, int32_t, n->nnode + 1);
    w->at = ARENA_ARRAY(&w->local.arena, int32_t, n->nnode + 1);
    w->met = ARENA_ARRAY(&w->local.arena, int32_t, n->ntensor + 1);
    memset(w->at, 0xff, sizeof *w->at * (size_t)n->nnode);
}

void
around_end(struct around *w)
{
    local_end(&w->local);
}

/* ---- choosing the nodes of a neighbourhood ---- */

static void
add_near_node(struct around *w, int32_t node)
{
    if (w->at[node] >= 0 || w->nnear >= w->size || w->net->node[node].ncand == 1) return;
    w->at[node] = w->nnear;
    w->near[w->nnear++] = node;
}

static void
take_around_node(struct around *w, int32_t node)
{
    for (int32_t i = w->local.first[node]; i < w->local.first[node + 1]; i++) {
        const struct net_tensor *t = &w->net->tensor[w->local.tensor[i]];
        int32_t from = t->nuse > HUB ? w->turn % t->nuse : 0;
        add_near_node(w, t->maker);
        for (int32_t k = 0; k < MIN(t->nuse, HUB); k++) add_near_node(w, t->use[(from + k) % t->nuse].node);
    }
}

/* Collects nodes breadth first, so that similar nodes with similar neighbours get neighbourhoods in the same order. */
static void
choose_near_nodes(struct around *w, int32_t seed)
{
    w->nnear = 0;
    add_near_node(w, seed);
    for (int32_t k = 0; k < w->nnear; k++) take_around_node(w, w->near[k]);
}

static void
release(struct around *w, const int32_t *node, int32_t n)
{
    for (int32_t k = 0; k < n; k++) w->at[node[k]] = -1;
}

/* ---- making a small network of a neighbourhood ---- */

struct making {
    struct around *w;
    struct arena *a;
    struct net *to;
    int32_t *outer, nouter; /* nodes outside the neighbourhood that share a tensor with it */
};

/* Returns a node's number in the small network. A node outside the neighbourhood gets only its current candidate,
 * with cost 0. */
static int32_t
number_node(struct making *m, int32_t node)
{
    static const int64_t nothing = 0;
    if (m->w->at[node] >= 0) return m->w->at[node];
    m->outer[m->nouter++] = node;
    m->to->node[m->to->nnode] = (struct net_node){.ncand = 1, .cost = &nothing};
    return m->w->at[node] = m->to->nnode++;
}

/* Returns the forms of a node. Copies the forms of a node outside the neighbourhood, because cfn.c treats forms at
 * one address as equal. */
static const uint16_t *
form_of(const struct making *m, int32_t node, const uint16_t *form)
{
    if (m->w->at[node] < m->w->nnear) return form;
    return arena_dup(m->a, &form[m->w->local.choice[node]], sizeof *form);
}

/* Adds a tensor. Several readers outside the neighbourhood may need the same form: keeps only one reader of each
 * form. */
static void
add_tensor(struct making *m, const struct net_tensor *t)
{
    struct net_tensor *x = &m->to->tensor[m->to->ntensor++];
    struct net_use *use = ARENA_ARRAY(m->a, struct net_use, t->nuse + 1);
    uint8_t *wanted = ARENA_ARRAY(m->a, uint8_t, t->nto + 1);
    *x = *t;
    x->nuse = 0;
    x->maker = number_node(m, t->maker);
    x->form = form_of(m, t->maker, t->form);
    for (int32_t k = 0; k < t->nuse; k++) {
        const struct net_use *u = &t->use[k];
        if (m->w->at[u->node] < 0 || m->w->at[u->node] >= m->w->nnear) {
            uint8_t *once = &wanted[u->form[m->w->local.choice[u->node]]];
            if (*once) continue;
            *once = 1;
        }
        use[x->nuse].node = number_node(m, u->node);
        use[x->nuse++].form = form_of(m, u->node, u->form);
    }
    x->use = use;
}

static void
make_near_net(struct making *m)
{
    struct around *w = m->w;
    int32_t nnode = w->nnear, ntensor = 0;
    w->tries++;
    for (int pass = 0; pass < 2; pass++) { /* the first pass counts, the second adds each tensor once */
        for (int32_t k = 0; k < w->nnear; k++) {
            int32_t node = w->near[k];
            if (pass) m->to->node[k] = w->net->node[node];
            for (int32_t i = w->local.first[node]; i < w->local.first[node + 1]; i++) {
                const struct net_tensor *t = &w->net->tensor[w->local.tensor[i]];
                int32_t mark = 2 * w->tries + pass;
                if (w->met[w->local.tensor[i]] == mark) continue;
                w->met[w->local.tensor[i]] = mark;
                if (pass) add_tensor(m, t);
                nnode += 1 + MIN(t->nuse, t->nto + w->nnear);
                ntensor++;
            }
        }
        if (pass) break;
        m->to->node = ARENA_ARRAY(m->a, struct net_node, nnode);
        m->to->tensor = ARENA_ARRAY(m->a, struct net_tensor, ntensor + 1);
        m->outer = ARENA_ARRAY(m->a, int32_t, nnode);
        m->to->nnode = w->nnear;
    }
}

/* ---- solving a neighbourhood ---- */

/* A neighbourhood as a network of its own, with its current choice. small_end() frees it. */
struct small {
    struct arena arena;
    struct net net;
    struct making making;
    int32_t *choice;
    int64_t cost;
};

static void
small_begin(struct small *m, struct around *w)
{
    *m = (struct small){0};
    m->making = (struct making){.w = w, .a = &m->arena, .to = &m->net};
    make_near_net(&m->making);
    m->choice = ARENA_ARRAY(&m->arena, int32_t, m->net.nnode + 1);
    for (int32_t k = 0; k < w->nnear; k++) m->choice[k] = w->local.choice[w->near[k]];
    m->cost = net_cost(&m->net, m->choice);
    w->work += m->net.nnode;
    work_add(100 * (int64_t)m->net.nnode);
}

static void
small_end(struct small *m, struct around *w)
{
    release(w, w->near, w->nnear);
    release(w, m->making.outer, m->making.nouter);
    arena_fini(&m->arena);
}

static void
keep_step(struct around *w, const int32_t *choice, int64_t gain)
{
    for (int32_t k = 0; k < w->nnear; k++) w->local.choice[w->near[k]] = choice[k];
    w->cost -= gain;
}

/* Tries to make the same improvement at all similar places, because layers of a model are similar. */
static void
repeat_choice(struct around *w, const int32_t *near, const int32_t *was, const int32_t *then, int32_t n)
{
    const struct net *net = w->net;
    int32_t seed = near[0];
    work_add(2 * (int64_t)net->nnode);
    for (int32_t j = 0; j < net->nnode; j++) {
        struct small m;
        bool alike = j != seed;
        if (net->node[j].cost != net->node[seed].cost || net->node[j].ncand != net->node[seed].ncand) continue;
        w->size = n;
        if (alike) choose_near_nodes(w, j);
        alike = alike && w->nnear == n;
        for (int32_t k = 0; k < n && alike; k++)
            alike = net->node[w->near[k]].cost == net->node[near[k]].cost &&
                    net->node[w->near[k]].ncand == net->node[near[k]].ncand && w->local.choice[w->near[k]] == was[k];
        if (!alike) {
            release(w, w->near, w->nnear);
            continue;
        }
        small_begin(&m, w);
        memcpy(m.choice, then, sizeof *then * (size_t)n);
        int64_t cost = net_cost(&m.net, m.choice);
        if (cost < m.cost) keep_step(w, then, m.cost - cost);
        small_end(&m, w);
    }
}

static bool
try_near_nodes(struct around *w)
{
    struct small m;
    small_begin(&m, w);
    struct cfn *c = cfn_new(&m.net, w->scale, NULL);
    struct explore s = {.stop = w->stop, .arg = w->arg, .scale = w->scale, .patience = 3, .looks = 150};
    int32_t n = w->nnear;
    int32_t *was = arena_dup(&m.arena, m.choice, sizeof *was * (size_t)n);
    int32_t *near = arena_dup(&m.arena, w->near, sizeof *near * (size_t)n);
    s.best = m.cost * w->scale;
    s.nchoice = m.net.nnode;
    s.choice = m.choice;
    explore(&s, c);
    w->work += SETUP * s.work;
    cfn_free(&c);
    bool better = s.best < m.cost * w->scale;
    if (better) keep_step(w, m.choice, m.cost - s.best / w->scale);
    struct arena kept = m.arena;
    m.arena = (struct arena){0};
    int32_t *then = m.choice;
    small_end(&m, w);
    if (better) repeat_choice(w, near, was, then, n);
    arena_fini(&kept);
    return better;
}

bool
around_look(struct around *w, int64_t work)
{
    bool any = false;
    for (work += w->work; w->work < work && !(w->stop && w->stop(w->arg));) {
        int32_t size = w->size;
        w->work++;
        w->turn = draw_index(w, INT32_MAX);
        choose_near_nodes(w, draw_index(w, w->net->nnode));
        if (w->nnear == 0) continue;
        bool better = try_near_nodes(w);
        any = any || better;
        w->size = better ? MAX(SMALL, size - size / 16) : size + 1 + size / 32;
        if (w->size > w->most) w->size = SMALL;
    }
    return any;
}

/* ---- sharing the time of a branch and bound search ---- */

/* SHARE: work of a search relative to the work of bounding. After each search that found nothing better, the next
 * search gets half the work. The work is halved at most IDLE times; a search that succeeds restores it. */
enum { SHARE = 3, IDLE = 2 };

/* Restarts from a cheaper choice that the search found. */
static void
keep_choice(struct around *w, const int32_t *choice, int64_t cost)
{
    memcpy(w->local.choice, choice, sizeof *choice * (size_t)w->net->nnode);
    w->cost = cost;
}

static bool
better(struct explore *s, int64_t work)
{
    struct around *w = s->of;
    if (s->best >= NET_NEVER) return false;
    if (!w->near) around_begin(w, w->net, s->choice, s->scale);
    if (s->best < w->cost * s->scale) keep_choice(w, s->choice, s->best / s->scale);
    w->stop = s->stop;
    w->arg = s->arg;
    bool found = around_look(w, SHARE * work >> w->idle);
    w->idle = found ? 0 : MIN(w->idle + 1, IDLE);
    if (!found) return false;
    s->best = w->cost * s->scale;
    memcpy(s->choice, w->local.choice, sizeof *s->choice * (size_t)s->nchoice);
    return true;
}

void
around_ask(struct around *w, struct explore *s)
{
    s->better = better;
    s->of = w;
}
