/* plan-parts.c - parts of memories that do not reach each other give the bits of one plan in one memory.
 *
 * Random programs, and every move between layouts, are planned whole and in parts; the parts have heaps of their own,
 * and run together on one simulator in orders that a seed decides. */
#include "t/parts.h"

#include <unistd.h>

static const struct cut cut[] = {{2, {2, 2}}, {2, {1, 3}}, {2, {3, 1}}, {3, {1, 2, 1}}, {4, {1, 1, 1, 1}}};

struct count {
    int programs, parts, refused, compiled, connected, same, channels, tasks;
};

/* Whole and in parts. */
static void
try_cut(struct rille_session *s, const struct bench *whole, int status, const struct str *bytes, const struct cut *c,
        uint64_t seed, struct count *n)
{
    struct parts x = {0};
    int got[MOST_PARTS];
    n->parts++;
    parts_map(&x, c);
    bool good = !parts_compile(&x, bytes, s->atlas);
    if (!good && strstr(err_text(), "acts for each piece, and waits for the last")) { /* no order of pieces is one */
        n->parts--;
        n->refused++;
        parts_close(&x);
        return;
    }
    n->compiled += good;
    if (good) n->connected += good = !parts_connect(&x);
    if (!good) diag("seed %llu: %s", (unsigned long long)seed, err_text());
    if (good && !parts_open(&x, seed)) {
        parts_run(&x, got);
        for (int m = 0; m < x.n; m++) {
            if (!got[m] != !status) diag("seed %llu: part %d: %d, %s", (unsigned long long)seed, m, got[m], err_text());
            good = good && !got[m] == !status;
            n->channels += x.plan[m]->nchannel;
            n->tasks += x.plan[m]->ntask;
        }
        good = good && (status || parts_agree(&x, whole));
        n->same += good;
        if (!good) diag("seed %llu: another result with %d parts", (unsigned long long)seed, x.n);
    }
    parts_close(&x);
}

static void
try_program(struct rille_session *s, struct plan *p, uint64_t seed, struct count *n)
{
    struct engine *e = simulator(seed);
    struct bench whole;
    struct str bytes = {0};
    program_write(p->program, &bytes);
    bench_open(&whole, p);
    int status = engine_run(e, &whole.run);
    n->programs++;
    try_cut(s, &whole, status, &bytes, &cut[seed % countof(cut)], seed, n);
    bench_close(&whole);
    engine_free(&e);
    str_free(&bytes);
}

static void
random_programs(struct rille_session *s, uint64_t seed)
{
    struct count n = {0};
    for (int i = 0; i < (getenv("RILLE_LONG") ? 20000 : 1000); i++) {
        uint64_t rng = seed + (uint64_t)i;
        struct plan *p = random_plan(s, &rng, i % 3 == 2);
        if (p) try_program(s, p, seed + (uint64_t)i, &n);
        plan_free(&p);
    }
    is_int(n.compiled, n.parts, "each part of a random program is planned and proved");
    is_int(n.connected, n.compiled, "parts agree about the channels between them");
    is_int(n.same, n.compiled, "and give the bits of one memory");
    diag("%d programs, %d refused, %d tasks, %d ends of channels", n.programs, n.refused, n.tasks, n.channels);
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    alarm(300);
    if (rille_open(&o, &s)) return 1;
    random_programs(s, seed_of(1));
    rille_close(&s);
    return done();
}
