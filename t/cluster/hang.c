/* Tests of actors/cluster/coordinator/coordinator.c on simulated clusters (t/lib/plan/simulated.h). In each trial
 * one worker hangs, at another moment of the training. The coordinator must lose exactly this worker, and the
 * training must end with the numbers of a training without faults. Slow workers must not be lost. */
#include "t/lib/plan/simulated.h"

/* number of lost workers that had hung, by phase of the coordinator at the loss */
static int in[CLUSTER_BROKEN];

static void
test_moments(int world, int hosts, uint64_t kind)
{
    struct trial trial = trial_of(world, hosts, kind);
    struct outcome out;
    uint64_t want[WORLD] = {0};
    int bad = 0, n = 0;
    trial.faults = trial.flaps = 0;
    trial.may_fail = trial.restarts = false;
    ok(play(1, trial, want, &out) && !out.lost, "%d workers on %d hosts: without a hang no worker is lost", world,
       hosts);
    for (int k = 0, steps = out.steps; k < steps * world; k++) {
        if (!share(k)) continue;
        trial.hangs_at = 1 + k / world;
        trial.hanging = k % world;
        bool fits = play(1, trial, want, &out) && out.lost == out.hung && out.hung <= 1;
        for (int phase = 0; phase < CLUSTER_BROKEN; phase++) in[phase] += out.hung_in[phase];
        n++;
        if (!fits && !bad++) diag("worker %d, step %d: %s", trial.hanging, trial.hangs_at, out.why);
    }
    ok(!bad, "whenever one of them hangs, it alone is lost, and the numbers are right (%d moments)", n);
}

/* Checks that slow workers are never lost if they progress. */
static void
test_slow(void)
{
    struct cluster *s = must_alloc(sizeof *s);
    struct trial trial = {.world = 2, .hosts = 1};
    int k = 0;
    sim_begin(s, 1, trial);
    for (; k < STEPS && coordinator_phase(s->c) != CLUSTER_RUN; k++) sim_step(s);
    for (; k < STEPS; k++) {
        if (!(k % 64)) tick(s);
        for (int w = 0; w < s->nworker; w++)
            if (s->worker[w].down.n) deliver(s, &s->worker[w], &s->worker[w].down);
    }
    is_int(s->lost, 0, "workers that progress in a long run are not lost");
    s->worker[0].hung = true;
    for (k = 0; k < 64 && !s->hung; k++)
        for (int i = 0; i < 64; i++) tick(s);
    is_int(s->hung, 0, "as long as one worker progresses, the run does not hang");
    sim_end(s);
}

int
main(void)
{
    static const uint64_t kind[] = {0, 3, 5, 8};
    for (int i = 0; i < (int)countof(kind); i++) {
        test_moments(1 + i % 3, 1, kind[i]);
        test_moments(2 + i % 3, 2, kind[i]);
    }
    ok(in[CLUSTER_MAKE] && in[CLUSTER_FORM] && in[CLUSTER_SHIP] && in[CLUSTER_RUN] && in[CLUSTER_IDLE],
       "workers were lost while they made (%d) and mapped (%d) memory, compiled (%d), ran (%d), handled files (%d)",
       in[CLUSTER_MAKE], in[CLUSTER_FORM], in[CLUSTER_SHIP], in[CLUSTER_RUN], in[CLUSTER_IDLE]);
    test_slow();
    return done();
}
