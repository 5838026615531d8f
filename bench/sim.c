/* sim.c - how many orders of events the simulator tries in a second.
 *
 * A seed is a session of its own: two training steps over a pipeline of two stages and four devices, four pieces, with
 * every kind of move between layouts, real kernels, freed registers filled with NaN. It counts when its loss and
 * weights have the bits that threads give (t/actors-sim.c says more). */
#include "bench/clock.h"
#include "t/train.h"

enum { SEEDS = 2000, STEPS = 2 };

/* One seed; how many acts and messages it took, added. */
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
    int status = train_run(&t, STEPS, &got);
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
    must(train_once(&o, STEPS, &want), "on threads");
    double begin = now_us();
    for (uint64_t seed = 0; seed < SEEDS; seed++) wrong += !agrees(o, seed, &want, &sum);
    double seconds = 1e-6 * (now_us() - begin);
    printf("%-22s %6d %6d %8.2f %9.0f %12.0f %12.0f\n", name, SEEDS, wrong, seconds, SEEDS / seconds,
           (double)sum.acts / seconds, (double)sum.thread_messages / seconds);
}

int
main(void)
{
    printf("%-22s %6s %6s %8s %9s %12s %12s\n", "", "seeds", "wrong", "seconds", "seeds/s", "acts/s", "messages/s");
    row("1f1b", (struct train_options){.schedule = "1f1b"});
    row("gpipe", (struct train_options){.schedule = "gpipe"});
    row("1f1b, late devices", (struct train_options){.schedule = "1f1b", .kind = "late"});
    row("a plain loop", (struct train_options){0});
    return 0;
}
