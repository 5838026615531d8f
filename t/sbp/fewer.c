/* Tests of sbp/net/repeat.c and sbp/search/fewer.c: repeated layers are recognised, and a stack of layers is solved
 * optimally (compared with dynamic programming), also if one layer differs from the others. */
#include "sbp/search/fewer.h"
#include "sbp/solve/solve.h"
#include "t/lib/plan/nets.h"
#include "t/lib/tap.h"

enum { FORTH = 3, BACK = 4, SHARED = 3 };

/* A network of n layers: the node `shared`, then forward nodes forth[0] to forth[n - 1], then backward nodes
 * back[n - 1] to back[0]. Nodes of both passes read the shared node. */
struct stack {
    struct net net;
    int32_t nlayer;
    /* costs of the forward and the backward node of a layer, in all layers except the odd one */
    const int64_t *forth_cost, *back_cost;
    const int64_t *up, *down, *across, *by[2]; /* conversion prices of all layers */
    const int64_t *apart;
    int64_t *odd; /* costs of the forward node in the one layer that differs */
    int32_t odd_layer;
};

static const uint16_t same[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static int32_t
forth(int32_t layer)
{
    return 1 + layer;
}

static int32_t
back(const struct stack *s, int32_t layer)
{
    return 2 * s->nlayer - layer;
}

static int64_t *
draw_costs(struct arena *a, int32_t n, int64_t most)
{
    int64_t *c = ARENA_ARRAY(a, int64_t, n);
    for (int32_t k = 0; k < n; k++) c[k] = draw_cost(most, 0);
    return c;
}

static void
connect(struct arena *a, struct stack *s, int32_t maker, int32_t reader, const int64_t *price)
{
    struct net_tensor *t = &s->net.tensor[s->net.ntensor++];
    struct net_use *use = ARENA_ARRAY(a, struct net_use, 1);
    *use = (struct net_use){.node = reader, .form = same};
    *t = (struct net_tensor){.maker = maker, .form = same, .nuse = 1, .use = use, .price = price};
    t->nfrom = s->net.node[maker].ncand;
    t->nto = s->net.node[reader].ncand;
}

static struct stack
draw_stack(struct arena *a, uint64_t seed, int32_t nlayer, bool odd)
{
    struct stack s = {.nlayer = nlayer, .odd_layer = -1};
    net_state = seed;
    s.net.nnode = 2 * nlayer + 1;
    s.net.nlevel = 1;
    /* leaves room for two updates per layer, which the test adds later */
    s.net.node = ARENA_ARRAY(a, struct net_node, s.net.nnode + 2 * nlayer);
    s.net.tensor = ARENA_ARRAY(a, struct net_tensor, 7 * nlayer);
    s.forth_cost = draw_costs(a, FORTH, 100);
    s.back_cost = draw_costs(a, BACK, 100);
    s.up = draw_costs(a, FORTH * FORTH, 100);
    s.down = draw_costs(a, BACK * BACK, 100);
    s.across = draw_costs(a, FORTH * BACK, 100);
    s.by[0] = draw_costs(a, SHARED * FORTH, 40);
    s.by[1] = draw_costs(a, SHARED * BACK, 40);
    if (odd) {
        s.odd_layer = (int32_t)draw(nlayer);
        s.odd = draw_costs(a, FORTH, 500);
    }
    /* costs of the shared node, which differ so much that few choices compete */
    int64_t *apart = draw_costs(a, SHARED, 1);
    for (int32_t h = 0; h < SHARED; h++) apart[h] = 100 * (nlayer + draw(nlayer)) * h;
    s.net.node[0] = (struct net_node){.ncand = SHARED, .cost = s.apart = apart};
    for (int32_t l = 0; l < nlayer; l++) {
        s.net.node[forth(l)] = (struct net_node){.ncand = FORTH, .cost = l == s.odd_layer ? s.odd : s.forth_cost};
        s.net.node[back(&s, l)] = (struct net_node){.ncand = BACK, .cost = s.back_cost};
    }
    for (int32_t l = 0; l < nlayer; l++) {
        if (l + 1 < nlayer) connect(a, &s, forth(l), forth(l + 1), s.up);
        if (l > 0) connect(a, &s, back(&s, l), back(&s, l - 1), s.down);
        connect(a, &s, forth(l), back(&s, l), s.across);
        connect(a, &s, 0, forth(l), s.by[0]);
        connect(a, &s, 0, back(&s, l), s.by[1]);
    }
    return s;
}

/* Returns the lowest cost, by dynamic programming: for each candidate of the shared node, layer by layer over pairs
 * of forward and backward candidates. */
static int64_t
by_layers(const struct stack *s)
{
    int64_t least = NET_NEVER;
    for (int32_t h = 0; h < SHARED; h++) {
        int64_t now[FORTH][BACK], then[FORTH][BACK], best = NET_NEVER;
        for (int32_t l = 0; l < s->nlayer; l++) {
            for (int32_t x = 0; x < FORTH; x++)
                for (int32_t z = 0; z < BACK; z++) {
                    int64_t before = l ? NET_NEVER : 0;
                    for (int32_t i = 0; l && i < FORTH; i++)
                        for (int32_t j = 0; j < BACK; j++)
                            before = MIN(before, now[i][j] + s->up[i * FORTH + x] + s->down[z * BACK + j]);
                    then[x][z] = before + (l == s->odd_layer ? s->odd : s->forth_cost)[x] + s->back_cost[z] +
                                 s->across[x * BACK + z] + s->by[0][h * FORTH + x] + s->by[1][h * BACK + z];
                }
            memcpy(now, then, sizeof now);
        }
        for (int32_t k = 0; k < FORTH * BACK; k++) best = MIN(best, now[k / BACK][k % BACK]);
        least = MIN(least, best + s->apart[h]);
    }
    return least;
}

static bool
solved_by_layers(uint64_t seed, bool odd)
{
    struct arena a = {0};
    struct stack s = draw_stack(&a, seed, 220 + (int32_t)(seed % 7), odd);
    struct solved out;
    int64_t want = by_layers(&s);
    bool fine = !net_solve(&a, &s.net, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &out) && out.cost == want &&
                out.bound == want && net_cost(&s.net, out.choice) == want;
    if (!fine)
        diag("SEED=%llu: want %lld, found %lld, bound %lld", (unsigned long long)seed, (long long)want,
             (long long)out.cost, (long long)out.bound);
    arena_fini(&a);
    return fine;
}

/* Takes a choice with equal values in all layers. Converts it to the network with fewer layers, and back. The
 * result must be the same choice. */
static bool
comes_back(uint64_t seed)
{
    struct arena a = {0};
    struct stack s = draw_stack(&a, seed, 40, false);
    struct fewer f;
    if (!fewer_begin(&f, &s.net)) return false;
    int32_t *all = ARENA_ARRAY(&a, int32_t, s.net.nnode), *again = ARENA_ARRAY(&a, int32_t, s.net.nnode);
    int32_t *few = ARENA_ARRAY(&a, int32_t, f.net.nnode);
    for (int32_t l = 0; l < s.nlayer; l++) {
        all[forth(l)] = 2;
        all[back(&s, l)] = 3;
    }
    fewer_of(&f, all, few);
    fewer_whole(&f, few, again);
    bool fine = f.net.nnode < s.net.nnode / 2 && !memcmp(all, again, sizeof *all * (size_t)s.net.nnode) &&
                net_cost(&f.net, few) < NET_NEVER;
    fewer_end(&f);
    arena_fini(&a);
    return fine;
}

/* Adds two updates per layer, in the order of the backward pass: the first at once, the second LAG layers later.
 * Checks that each update is assigned to its layer. */
static void
late_updates_are_told(void)
{
    enum { LAG = 3, LAYERS = 40 };
    struct arena a = {0};
    struct stack s = draw_stack(&a, 1, LAYERS, false);
    struct fewer f;
    int32_t update[2][LAYERS];
    for (int32_t turn = LAYERS - 1; turn >= -LAG; turn--)
        for (int32_t k = 0; k < 2; k++) {
            int32_t l = turn + k * LAG;
            if (l < 0 || l >= LAYERS) continue;
            s.net.node[update[k][l] = s.net.nnode++] =
                (struct net_node){.ncand = k ? BACK : FORTH, .cost = k ? s.back_cost : s.forth_cost};
            connect(&a, &s, forth(l), update[k][l], k ? s.across : s.up);
        }
    bool continued = fewer_begin(&f, &s.net);
    for (int32_t l = LAG + 2; continued && l + LAG + 3 < LAYERS; l++)
        for (int32_t k = 0; k < 2; k++) continued = continued && f.like.layer[update[k][l]] == f.like.layer[forth(l)];
    ok(continued, "a late update belongs to the layer that it updates");
    fewer_end(&f);
    arena_fini(&a);
}

static void
layers_are_told(void)
{
    struct arena a = {0};
    struct stack s = draw_stack(&a, 1, 40, false);
    struct fewer f;
    ok(fewer_begin(&f, &s.net), "forty repeated layers are recognised");
    bool continued = true;
    for (int32_t l = 2; l + 3 < s.nlayer; l++) /* permits that the first and the last layers are not recognised */
        continued = continued && f.like.layer[forth(l)] - f.like.layer[forth(2)] == l - 2 &&
                    f.like.layer[back(&s, l)] == f.like.layer[forth(l)] &&
                    repeat_moved(&f.like, forth(l), 1) == forth(l + 1) &&
                    repeat_moved(&f.like, back(&s, l + 1), -1) == back(&s, l);
    ok(continued, "the backward pass has the same layer numbers as the forward pass");
    ok(f.like.layer[0] < 0 && repeat_moved(&f.like, 0, 3) == 0, "a node that all layers read has no layer");
    fewer_end(&f);
    struct net few = draw_stack(&a, 1, 4, false).net;
    ok(!fewer_begin(&f, &few), "four layers are too few to be recognised");
    arena_fini(&a);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 1000 : 40, failed = 0;
    layers_are_told();
    late_updates_are_told();
    for (int k = 0; k < n; k++) failed += !comes_back(seed + (uint64_t)k);
    ok(failed == 0, "a choice equal in all layers survives the conversion to few layers and back");
    for (int k = failed = 0; k < n && failed < 3; k++) failed += !solved_by_layers(seed + (uint64_t)k, false);
    ok(failed == 0, "a stack of equal layers is solved optimally, as by dynamic programming");
    for (int k = failed = 0; k < n && failed < 3; k++) failed += !solved_by_layers(seed + (uint64_t)k, true);
    ok(failed == 0, "a stack with one different layer is solved optimally, too");
    return done();
}
