/* sim.c - how many random orders of events the simulators try per second.
 *
 *   bench/sim [SEEDS]      SEEDS: number of cluster runs, default 1,000,000
 *
 * A seed of a session runs two training steps over two stages, four devices and four micro-batches. The step has
 * every kind of move and real kernels; freed registers are filled with NaN. Loss and weights must have the same
 * bits as in a run with real threads (t/act/sim.c).
 *
 * A seed of a cluster runs a coordinator and its workers with faults, snapshots and recovery. The faults are
 * packets lost or doubled, connections that end or carry nothing, workers killed, silent or hanging, and coordinators
 * killed and replaced. The results must equal those of a run without faults (t/lib/plan/simulated.h). hours: simulated
 * time, all seeds together. */
#include "bench/clock.h"
#include "t/lib/plan/simulated.h"
#include "t/lib/plan/train.h"

#include <stdlib.h>

enum { SEEDS = 2000, TRAIN_STEPS = 2 };
static const double TICK_S = 0.1; /* time between two ticks of a real cluster, s */

/* Runs one seed; adds the numbers of its acts and messages to the totals. */
static bool
agrees(struct train_options o, uint64_t seed, const struct train_state *want, struct rille_counters *sum)
{
    char bus[40];
    struct train t;
    struct train_state got;
    struct rille_counters c;
    snprintf(bus, sizeof bus, "sim:%llu", (unsigned long long)seed);
    o.bus = bus;
    train_open(&t, &o);
    int status = train_run(&t, TRAIN_STEPS, &got);
    rille_count(t.s, &c);
    train_close(&t);
    sum->acts += c.acts;
    sum->thread_messages += c.thread_messages;
    return !status && !memcmp(&got, want, sizeof got);
}

static void
row(const char *name, struct train_options o)
{
    struct train_state want;
    struct rille_counters sum = {0};
    int wrong = 0;
    o.bus = "zmq";
    must(train_once(&o, TRAIN_STEPS, &want), "on threads");
    double begin = now_us();
    for (uint64_t seed = 0; seed < SEEDS; seed++) wrong += !agrees(o, seed, &want, &sum);
    double seconds = 1e-6 * (now_us() - begin);
    printf("%-22s %6d %6d %8.2f %9.0f %12.0f %12.0f\n", name, SEEDS, wrong, seconds, SEEDS / seconds,
           (double)sum.acts / seconds, (double)sum.thread_messages / seconds);
}

static void
cluster_row(int world, int hosts, long seeds)
{
    uint64_t want[WORLD] = {0};
    struct outcome out;
    long lost = 0, restarts = 0, hung = 0, muted = 0, wrong = 0;
    double ticks = 0;
    play(1, (struct trial){.world = world, .hosts = hosts}, want, &out);
    double begin = now_us();
    for (long i = 0; i < seeds; i++) {
        bool fits = play((uint64_t)i + 1, trial_of(world, hosts, (uint64_t)i), want, &out);
        if (!fits && !wrong++) printf("seed %ld: %s\n", i + 1, out.why);
        lost += out.lost;
        restarts += out.restarts;
        hung += out.hung;
        muted += out.muted;
        ticks += out.ticks;
    }
    double seconds = 1e-6 * (now_us() - begin);
    printf("%d workers, %d host%-8s %8ld %6ld %8.2f %9.0f %9ld %9ld %9ld %9ld %9.0f\n", world, hosts,
           hosts == 1 ? "" : "s", seeds, wrong, seconds, (double)seeds / seconds, lost, restarts, hung, muted,
           ticks * TICK_S / 3600);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    long seeds = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    printf("%-22s %6s %6s %8s %9s %12s %12s\n", "", "seeds", "wrong", "seconds", "seeds/s", "acts/s", "messages/s");
    row("1f1b", (struct train_options){.schedule = "1f1b"});
    row("gpipe", (struct train_options){.schedule = "gpipe"});
    row("1f1b, async devices", (struct train_options){.schedule = "1f1b", .kind = "async"});
    row("a plain loop", (struct train_options){0});
    printf("\n%-25s %8s %6s %8s %9s %9s %9s %9s %9s %9s\n", "a cluster with faults", "seeds", "wrong", "seconds",
           "seeds/s", "losses", "restarts", "hung", "muted", "hours");
    cluster_row(3, 1, seeds);
    cluster_row(4, 2, seeds);
    return 0;
}
