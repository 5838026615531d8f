/* plan-outline.c - a program's bytes make the same outline and the same plan in another process; bytes that are none
 * are refused, whatever they are.
 *
 * The other process is another atlas: other numbers of placements and layouts. */
#include "t/plans.h"

#include "actors/plan/outline.h"

#include <unistd.h>

/* ---- there and back ---- */

struct count {
    int programs, read, same, equal_plans, apart;
};

/* Task by task, and in the bits that they compute. */
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

/* ---- bytes that are none ---- */

/* What is read of them is refused, or a program like any other: it can be planned, or that is refused. */
static bool
is_safe(const char *bytes, size_t n, int *accepted)
{
    struct atlas *at = atlas_new();
    struct program *g;
    int status = program_read(bytes, n, at, &g);
    bool safe = status ? strlen(err_text()) > 10 && !g : true;
    if (!status) {
        struct plan *p;
        ++*accepted;
        if (!plan_compile(g, at, &p)) plan_free(&p);
    }
    atlas_free(&at);
    return safe;
}

static void
spoil(const struct plan *p, uint64_t *rng, int *tried, int *unsafe, int *accepted)
{
    struct str bytes = {0};
    program_write(p->program, &bytes);
    char *copy = must_alloc(bytes.len + 8);
    for (int i = 0; i < 40; i++) {
        size_t n = bytes.len;
        memcpy(copy, str_text(&bytes), n);
        for (int k = (int)(next_random(rng) % 3); k >= 0; k--) copy[next_random(rng) % n] = (char)next_random(rng);
        if (next_random(rng) % 4 == 0) n = next_random(rng) % (n + 8);
        *unsafe += !is_safe(copy, n, accepted);
        ++*tried;
    }
    free(copy);
    str_free(&bytes);
}

int
main(void)
{
    uint64_t seed = seed_of(3);
    int tried = 0, unsafe = 0, accepted = 0;
    struct rille_options o = {.devices = "cpu:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    struct count c = {0};
    unsigned char last[16] = {0};
    alarm(300);
    if (rille_open(&o, &s)) return 1;
    struct engine *e = simulator(seed);
    for (int i = 0; i < (getenv("RILLE_LONG") ? 10000 : 500); i++) {
        struct plan *p = random_plan(s, &seed, i % 3 == 2);
        if (!p) continue;
        try_program(e, p, &c, last);
        memcpy(last, p->digest, sizeof last);
        spoil(p, &seed, &tried, &unsafe, &accepted);
        plan_free(&p);
    }
    is_int(c.read, c.programs, "what is written can be read");
    is_int(c.same, c.programs, "and has the digest of the outline that it was written with");
    is_int(c.equal_plans, c.programs, "and is planned as that was, task by task and bit by bit");
    ok(c.apart >= c.programs - 5, "other programs have other digests");
    diag("%d programs; %d spoilt, %d of them another program", c.programs, tried, accepted);
    is_int(unsafe, 0, "bytes that are spoilt are refused with a reason, or are a program");
    ok(accepted < tried / 2, "most are refused");
    engine_free(&e);
    rille_close(&s);
    return done();
}
