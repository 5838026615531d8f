/* Tests of actors/cluster/wire/plan_digest.c and actors/plan/model/program_bytes.c. A process that reads the program
 * of another process must make the same plan. Invalid bytes must be rejected. The programs are those of a training
 * step, of its partitions, and of a chain of moves. */
#include "actors/cluster/wire/plan_digest.h"
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify_program.h"
#include "actors/session/core/session.h"
#include "actors/session/run/cache.h"
#include "actors/session/step/compiled.h"
#include "t/lib/plan/train.h"
#include "actors/plan/model/program_bytes.h"

enum { PROGRAMS = 64 };

static uint64_t state;
static struct plan *plans[PROGRAMS]; /* plans that the sessions own */
static int nplan;

static void
gather(struct train *t)
{
    struct rille_session *s = t->s;
    for (struct cached *e = s->cache.latest; e && nplan < PROGRAMS; e = e->after) plans[nplan++] = e->runner->plan;
    if (t->graph && nplan < PROGRAMS) plans[nplan++] = t->graph->runner->plan;
}

/* A program's bytes, read with a new atlas (the table of layouts). plan: NULL: the program was rejected, or cannot
 * be planned. */
struct made {
    struct atlas *atlas;
    struct plan *plan;
    bool legal; /* the program was accepted */
};

static struct made
make(const void *bytes, size_t n)
{
    struct made m = {.atlas = atlas_new()};
    struct program *g;
    m.legal = !program_read(bytes, n, m.atlas, &g);
    if (m.legal && plan_compile(g, m.atlas, &m.plan)) m.plan = NULL;
    return m;
}

static void
made_free(struct made *m)
{
    plan_free(&m->plan);
    atlas_free(&m->atlas);
}

static void
test_round(void)
{
    int same = 0, digests = 0;
    for (int i = 0; i < nplan; i++) {
        struct str first = {0}, again = {0};
        unsigned char a[16], b[16];
        program_write(plans[i]->program, &first);
        struct made m = make(first.text, first.len);
        struct plan *p = m.plan;
        if (!p) diag("%s", err_text());
        if (p) program_write(p->program, &again);
        same += p && again.len == first.len && !memcmp(again.text, first.text, first.len);
        plan_digest(plans[i], a);
        if (p) plan_digest(p, b);
        digests += p && !memcmp(a, b, sizeof a);
        made_free(&m);
        str_free(&first);
        str_free(&again);
    }
    ok(nplan > 1 && same == nplan, "%d programs are read back unchanged", nplan);
    ok(digests == nplan, "the programs read back have the same plans");
    int pairs = 0;
    for (int i = 0; i < nplan; i++)
        for (int k = 0; k < i; k++) {
            unsigned char a[16], b[16];
            plan_digest(plans[i], a);
            plan_digest(plans[k], b);
            pairs += !memcmp(a, b, sizeof a);
        }
    ok(!pairs, "different plans have different digests");
}

/* Runs a program in which the user moves a value twice to devices {0, 1}: once by way of devices {2, 3}, and once
 * directly. */
static void
move_twice(struct train *t)
{
    const struct rille_layout *near = train_layout(t, 0, "B"), *far = train_layout(t, 1, "B");
    struct rille_tensor *x = train_tensor(t, ROWS, WIDTH, 0, "S(1, unit 2)", 5), *there, *back, *at_once, *sum;
    must(rille_tensor_to_global(x, far, &there), "there");
    must(rille_tensor_to_global(there, near, &back), "and back");
    must(rille_tensor_to_global(x, near, &at_once), "at once");
    must(train_call(t, "add", 8, back, at_once, &sum), "their sum");
    must(rille_eval(t->s, 1, &sum), "eval");
    rille_tensor_free(&x);
    rille_tensor_free(&there);
    rille_tensor_free(&back);
    rille_tensor_free(&at_once);
    rille_tensor_free(&sum);
}

/* Checks that truncated programs, and programs with an additional byte, are rejected. */
static void
test_cuts(void)
{
    struct str s = {0};
    int taken = 0;
    program_write(plans[0]->program, &s);
    struct atlas *atlas = atlas_new();
    struct program *g;
    for (size_t n = 0; n < s.len; n++) taken += !program_read(s.text, n, atlas, &g);
    str_addn(&s, "", 1);
    taken += !program_read(s.text, s.len, atlas, &g);
    ok(!taken, "a program that is truncated or too long is refused");
    atlas_free(&atlas);
    str_free(&s);
}

/* Checks that a damaged program is rejected, or is a valid program that can be planned and verified. */
static void
test_mutations(void)
{
    int n = getenv("RILLE_LONG") ? 2000000 : 4000, taken = 0, made = 0;
    for (int i = 0; i < n; i++) {
        struct str s = {0};
        program_write(plans[next_random(&state) % (uint64_t)nplan]->program, &s);
        for (int k = (int)(next_random(&state) % 3); k >= 0; k--) {
            size_t at = next_random(&state) % s.len;
            if (next_random(&state) % 2)
                s.text[at] = (char)(s.text[at] ^ (char)(1u << next_random(&state) % 8));
            else
                s.text[at] = (char)next_random(&state);
        }
        struct made m = make(s.text, s.len);
        taken += m.legal;
        made += m.plan != NULL;
        made_free(&m);
        str_free(&s);
    }
    ok(taken > 0 && made > 0, "%d damaged programs do no harm: %d are valid, %d have plans", n, taken, made);
}

int
main(void)
{
    struct train step, plain;
    struct train_state left;
    state = seed_of(11);
    train_open(&step, &(struct train_options){.schedule = "1f1b"});
    train_open(&plain, &(struct train_options){.exact = true});
    must(train_run(&step, 2, &left), "compiled steps");
    must(train_run(&plain, 2, &left), "plain steps");
    move_twice(&plain);
    gather(&step);
    gather(&plain);
    test_round();
    test_cuts();
    test_mutations();
    train_close(&step);
    train_close(&plain);
    return done();
}
