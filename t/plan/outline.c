/* outline.c - tests that another process makes the same outline and the same plan from a program's bytes.
 * (t/cluster/program.c tests damaged bytes.)
 *
 * A plan must have the hops that its outline decides. The outline's digest must cover each decision. The size of an
 * outline must not depend on the number of devices. A second, newly created atlas simulates the other process. */
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify_program.h"
#include "t/lib/plan/plans.h"

#include "actors/plan/outline/outline.h"
#include "actors/plan/outline/redistribute.h"
#include "boxing/name.h"
#include "actors/plan/model/program_bytes.h"

/* ---- counts ---- */

struct count {
    int programs, read, same, equal_plans, apart;
    /* numbers of decisions of each kind in all outlines */
    int numbered, hops, moves, ordered, changes, count_differing, credits;
};

/* ---- checking the decisions of an outline ---- */

/* Checks the hops (single steps of moves) of an outline. They must be sorted by step and operand and numbered
 * without gaps. Each hop must start from the layout at which the previous hop ends. */
static bool
in_order(const struct outline *o)
{
    int32_t number = 0;
    bool good = true;
    for (int32_t i = 0; i < o->nhop; i++) {
        const struct hop *h = &o->hop[i], *b = i ? h - 1 : NULL;
        bool goes_on = b && b->step == h->step && b->operand == h->operand;
        struct type t = ref_type(o->program, h->value);
        good = good && h->number == (layout_same_boxes(h->from, h->to, &t) ? -1 : number);
        good = good && !strcmp(h->name, box_name(&t, h->from, h->to));
        good = good && (!b || h->step > b->step || (h->step == b->step && h->operand >= b->operand));
        good = good && h->turn == (goes_on ? b->turn + 1 : 0) && (!goes_on || h->from == b->to);
        number += h->number >= 0;
    }
    return good && number == o->nmove;
}

/* Checks that the moves of a one-host plan are the numbered hops of its outline, in the same order. */
static bool
as_numbered(const struct outline *o, const struct plan *p)
{
    int32_t move = 0;
    for (int32_t i = 0; i < o->nhop; i++) {
        const struct hop *h = &o->hop[i];
        if (h->number < 0) continue;
        if (move >= p->nmove) return false;
        const struct plan_move *m = p->move[move++];
        if (m->from != h->from || m->to != h->to || memcmp(&m->value, &h->value, sizeof m->value)) return false;
        if (strcmp(m->name, h->name) != 0) return false;
    }
    return move == p->nmove && move == o->nmove && o->nshare == p->nshare;
}

static void
count_differing(const struct outline *o, struct count *c)
{
    unsigned char other[16];
    outline_digest(o, other);
    c->changes++;
    c->count_differing += memcmp(o->digest, other, sizeof other) != 0;
}

/* Changes one decision, a field of an outline; the outline's digest must differ. Then restores the field. */
#define TELL(field, otherwise)                                                                                         \
    do {                                                                                                               \
        __typeof__(field) kept_ = (field);                                                                             \
        (field) = (otherwise);                                                                                         \
        count_differing(o, c);                                                                                         \
        (field) = kept_;                                                                                               \
    } while (0)

static void
change_steps(struct outline *o, int32_t i, struct count *c)
{
    TELL(o->nshare, o->nshare + 1);
    TELL(o->fusion.group[i], o->fusion.group[i] + 1);
    TELL(o->stages.stage[i], o->stages.stage[i] + 1);
    TELL(o->stages.phase[i], (uint8_t)(o->stages.phase[i] ^ 1));
    TELL(o->stages.late[i], !o->stages.late[i]);
}

static void
change_hop(struct outline *o, int32_t i, struct count *c)
{
    struct hop *h = &o->hop[i];
    TELL(o->nhop, o->nhop - 1);
    TELL(h->number, h->number + 1);
    TELL(h->step, h->step + 1);
    TELL(h->operand, (int16_t)(h->operand + 1));
    TELL(h->turn, (int16_t)(h->turn + 1));
    TELL(h->value.index, h->value.index + 1);
    TELL(h->value.kind, (uint8_t)(h->value.kind ^ 1));
    TELL(h->from, h->to);
    TELL(h->to, h->from);
    TELL(h->name, "by hand");
}

/* Makes each stage's pool larger by one micro-batch. If this changes the credits, the digest must differ. */
static void
change_credits(struct outline *o, struct count *c)
{
    const struct program *p = o->program;
    struct prog_pool *room = must_copy(o->stages.pool, sizeof *room * (size_t)o->stages.n);
    struct stages more = o->stages;
    bool others = false;
    for (int32_t q = 0; q < more.n; q++)
        room[q] = (struct prog_pool){room[q].backward + 1, room[q].weight + 1, room[q].behind + 1, room[q].hop + 1};
    more.pool = room;
    for (int32_t i = 0; i < p->nnode; i++)
        for (int32_t k = 0; k < p->node[i].nin; k++) {
            struct ref r = p->node[i].in[k];
            if (r.kind != REF_NODE) continue;
            struct moment a = {more.stage[r.index], more.phase[r.index]}, b = {more.stage[i], more.phase[i]};
            others = others || stages_credits(p, &more, a, b) != outline_credits(o, a, b);
        }
    if (others) {
        c->credits++;
        TELL(o->stages.pool, room);
    }
    free(room);
}

/* Checks the outline of a plan that was made with this atlas. Then changes each decision of the outline, one at a
 * time; the outline's digest must differ after each change. */
static void
try_decisions(struct rille_session *s, const struct plan *p, uint64_t *rng, struct count *c)
{
    struct outline *o;
    if (outline_new(p->program, s->atlas, &o)) return;
    c->numbered += as_numbered(o, p);
    c->ordered += in_order(o);
    c->hops += o->nhop;
    c->moves += p->nmove;
    if (p->program->nnode) change_steps(o, (int32_t)(next_random(rng) % (uint64_t)p->program->nnode), c);
    if (o->nhop) change_hop(o, (int32_t)(next_random(rng) % (uint64_t)o->nhop), c);
    change_credits(o, c);
    outline_free(&o);
}

/* ---- the size of outlines ---- */

/* Returns a program on n devices: a product of a split and a replicated matrix, a product with a partial result, and
 * a move of each product. */
static struct program *
program_on(struct rille_session *s, int32_t n)
{
    struct maker m = {.s = s, .n = 4096};
    struct program *g = NULL;
    const struct place *p;
    const struct layout *rows, *columns, *whole;
    struct val *root[2];
    int32_t *rank = must_alloc(sizeof *rank * (size_t)n);
    for (int32_t i = 0; i < n; i++) rank[i] = i;
    assert(place_new(s->atlas, DEV_CPU, 1, &n, rank, &p) == 0);
    free(rank);
    assert(!layout_parse(s->atlas, p, "S(0)", 2, &rows) && !layout_parse(s->atlas, p, "S(1)", 2, &columns));
    whole = layout_broadcast(s->atlas, p);
    struct val *x = call(&m, "matmul", 2, (struct val *[]){leaf(&m, rows), leaf(&m, whole)});
    struct val *y = call(&m, "matmul", 2, (struct val *[]){leaf(&m, columns), leaf(&m, rows)});
    x = x ? call(&m, "relu", 1, &x) : NULL;
    bool made = x && y && !build_to_global(&s->context, x, columns, &root[0]) &&
                !build_to_global(&s->context, y, whole, &root[1]);
    if (made && !collect(s, 2, root, COLLECT_RUN)) g = collection_program(s, &s->collection);
    build_settle(s, 0);
    return g;
}

static void
sizes(struct rille_session *s)
{
    struct program *few = program_on(s, 4), *many = program_on(s, 1024);
    struct outline *a = NULL, *b = NULL;
    bool made = few && many && !outline_new(few, s->atlas, &a) && !outline_new(many, s->atlas, &b);
    ok(made && a->nmove >= 2, "the program moves values on 4 and on 1,024 devices");
    ok(made && a->nhop == b->nhop && a->nmove == b->nmove, "both outlines have the same number of hops");
    ok(made && a->arena.used_bytes == b->arena.used_bytes, "both outlines have the same number of bytes");
    if (made) diag("%d hops, %lld bytes", (int)b->nhop, (long long)b->arena.used_bytes);
    outline_free(&a);
    outline_free(&b);
    if (few) program_free(&few);
    if (many) program_free(&many);
}

/* Compares two plans task by task. Also compares the bits that the plans compute. */
static bool
plans_agree(struct engine *e, struct program *g, struct atlas *at, struct plan *p)
{
    struct plan *other;
    if (plan_compile(g, at, &other)) return false;
    bool same = p->ntask == other->ntask && !memcmp(p->digest, other->digest, sizeof p->digest);
    for (int32_t i = 0; same && i < p->ntask; i++) {
        const struct task *x = &p->task[i], *y = &other->task[i];
        same = x->kind == y->kind && x->node == y->node && x->pos == y->pos && x->nin == y->nin && x->nout == y->nout;
    }
    same = same && outcome(e, p) == outcome(e, other);
    plan_free(&other);
    return same;
}

static void
try_program(struct engine *e, struct plan *p, struct count *c, const unsigned char *last)
{
    struct str bytes = {0};
    struct atlas *at = atlas_new();
    struct program *g;
    struct outline *o = NULL;
    program_write(p->program, &bytes);
    c->programs++;
    c->apart += memcmp(p->digest, last, sizeof p->digest) != 0;
    if (!program_read(str_text(&bytes), bytes.len, at, &g)) {
        c->read++;
        c->same += !outline_new(g, at, &o) && !memcmp(o->digest, p->digest, sizeof p->digest);
        outline_free(&o);
        c->equal_plans += plans_agree(e, g, at, p);
    } else {
        diag("%s", err_text());
    }
    str_free(&bytes);
    atlas_free(&at);
}

/* Computes the contract of a channel for each pair of a source and a target layout. All contracts must differ, also
 * for layouts that differ only in their ranks. */
static void
contracts(struct rille_session *s)
{
    static const int32_t ranks[][2] = {{0, 1}, {1, 0}, {0, 2}, {2, 3}}, axis = 2;
    static const struct sbp entry[] = {{.kind = SBP_S}, {.kind = SBP_S, .axis = 1}, {.kind = SBP_B}};
    enum { LAYOUTS = countof(ranks) * countof(entry) };
    const struct layout *l[LAYOUTS];
    const struct place *p;
    uint64_t hash[LAYOUTS * LAYOUTS];
    int n = 0, equal = 0;
    for (size_t i = 0; i < LAYOUTS; i++) {
        assert(place_new(s->atlas, 0, 1, &axis, ranks[i / countof(entry)], &p) == 0);
        assert(layout_new(s->atlas, p, &entry[i % countof(entry)], NULL, &l[i]) == 0);
    }
    for (size_t i = 0; i < LAYOUTS; i++)
        for (size_t k = 0; k < LAYOUTS; k++) {
            struct box_plan own = {.type = {.dtype = DT_F32, .ndim = 2, .dim = {4, 4}}, .from = l[i], .to = l[k]};
            struct redistribution x = {.own = &own, .hash = redistribute_hash(&own)};
            hash[n] = redistribute_what(&x, (struct ref){0}, &(struct redistribute_channel){0});
            for (int q = 0; q < n; q++) equal += hash[q] == hash[n];
            n++;
        }
    is_int(equal, 0, "the contract of a channel names the entries and the ranks of both layouts");
}

int
main(void)
{
    uint64_t seed = seed_of(3);
    struct rille_options o = {.devices = "cpu:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    struct count c = {0};
    unsigned char last[16] = {0};
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    struct engine *e = simulator(seed);
    for (int i = 0; i < (getenv("RILLE_LONG") ? 10000 : 500); i++) {
        struct plan *p = random_plan(s, &seed, i % 3 == 2);
        if (!p) continue;
        try_program(e, p, &c, last);
        try_decisions(s, p, &seed, &c);
        memcpy(last, p->digest, sizeof last);
        plan_free(&p);
    }
    is_int(c.read, c.programs, "written programs can be read");
    is_int(c.same, c.programs, "the outline of the program read has the digest of the original");
    is_int(c.equal_plans, c.programs, "its plan equals the original task by task and bit by bit");
    ok(c.apart >= c.programs - 5, "different programs have different digests");
    is_int(c.numbered, c.programs, "the hops that move bytes are the moves of the plan, in order");
    is_int(c.ordered, c.programs,
           "hops are sorted by step and operand, numbered without gaps, and named by their method");
    is_int(c.count_differing, c.changes, "the digest changes with any decision");
    ok(c.credits > 0, "changes of credits alone were tried");
    ok(c.moves > c.programs / 2 && c.hops > c.moves, "there are hops that move bytes, and hops that move none");
    diag("%d hops, %d moves, %d changes, %d of them of credits", c.hops, c.moves, c.changes, c.credits);
    sizes(s);
    contracts(s);
    engine_free(&e);
    rille_close(&s);
    return done();
}
