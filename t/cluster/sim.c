/* Tests of actors/cluster/coordinator/coordinator.c and member.c: simulated clusters in one thread
 * (t/lib/plan/simulated.h). coordinator.c tests single cases. */
#include "actors/cluster/coordinator/coordinator_inner.h"
#include "t/lib/plan/simulated.h"

#include <malloc.h>
#include <time.h>

enum { MINUTE = 600 }; /* ticks */

static void
test_seeds(int hosts)
{
    uint64_t base = seed_of(1);
    int seeds = share_of(getenv("RILLE_LONG") ? 100000 : 2000, &base);
    for (int world = hosts; world <= WORLD; world += 2) {
        uint64_t want[WORLD] = {0};
        struct outcome out;
        int lost = 0, restarts = 0, taken = 0, found = 0, filed = 0, given_up = 0, united = 0, resumed = 0, muted = 0,
            again = 0, hung = 0, bad = 0;
        ok(play(base, (struct trial){.world = world, .hosts = hosts}, want, &out) && out.lost == 0,
           "%d workers on %d hosts without faults: no worker is lost", world, hosts);
        for (int i = 0; i < seeds; i++) {
            bool fits = play(base + (uint64_t)i, trial_of(world, hosts, (uint64_t)i), want, &out);
            lost += out.lost;
            restarts += out.restarts;
            taken += out.taken;
            found += out.found;
            filed += out.filed;
            given_up += out.given_up;
            united += out.united;
            resumed += out.resumed;
            muted += out.muted;
            again += out.muted_again;
            hung += out.hung;
            if (!fits && !bad++) diag("seed %llu: %s", (unsigned long long)(base + (uint64_t)i), out.why);
        }
        ok(!bad, "%d workers, %d seeds of faults: each training ends with the same numbers (%d losses, %d restarts)",
           world, seeds, lost, restarts);
        ok(lost > seeds / 5, "%d workers: many seeds recover from losses", world);
        ok(filed > seeds / 5 && given_up > seeds / 50,
           "%d workers: all saved or loaded files %d times, and cancelled %d times", world, filed, given_up);
        ok(united > seeds / 2, "%d workers: communicators were made %d times, one per run", world, united);
        ok(resumed > seeds / 4 && muted > seeds / 15,
           "%d workers: links continued over a new connection %d times, and %d connections carried nothing", world,
           resumed, muted);
        ok(covered(again > 0), "%d workers: %d of these replaced a connection that had carried nothing", world, again);
        ok(world == 1 || covered(hung > 0), "%d workers: %d workers hung and were lost, and none that progressed",
           world, hung);
        ok(restarts > seeds / 30 && taken > restarts / 10, "%d workers: restarted coordinators took over %d workers",
           world, taken);
        ok(covered(found > restarts / 60), "%d workers: restarted coordinators went back to %d kept snapshots", world,
           found);
    }
}

/* Ends or mutes connections, and nothing else. No worker may be lost. */
static void
test_flaps(void)
{
    uint64_t base = seed_of(1), want[WORLD] = {0};
    int seeds = share_of(getenv("RILLE_LONG") ? 100000 : 1000, &base), bad = 0, resumed = 0, muted = 0;
    struct outcome out;
    play(1, (struct trial){.world = 4, .hosts = 2}, want, &out);
    for (int i = 0; i < seeds; i++) {
        struct trial trial = trial_of(4, 2, (uint64_t)i);
        trial.faults = 0;
        trial.flaps = 40;
        trial.only_flaps = true;
        trial.mutes = i % 2;
        trial.mutes_again = false;
        trial.hangs = trial.restarts = false;
        bool fits = play(base + (uint64_t)i, trial, want, &out) && out.lost == 0;
        resumed += out.resumed;
        muted += out.muted;
        if (!fits && !bad++)
            diag("seed %llu: %d lost, %s", (unsigned long long)(base + (uint64_t)i), out.lost, out.why ? out.why : "");
    }
    ok(!bad && resumed > 10 * seeds && muted > seeds,
       "%d connections ended and %d carried nothing in %d seeds, and no worker is lost", resumed, muted, seeds);
}

/* Elastic jobs with policies drawn from the seed: smallest and largest number of workers, hosts, spares, limits of
 * losses, restarts of the coordinator. No worker is started for a lost one, and newcomers arrive at any time, on any
 * host or on a host that had no workers. */
static void
test_elastic(void)
{
    uint64_t base = seed_of(1), want[WORLD + 1][WORLD] = {{0}};
    int seeds = share_of(getenv("RILLE_LONG") ? 500000 : 2500, &base), bad = 0, fewest = WORLD, most = 0, ended = 0;
    int grown = 0, interrupted = 0, moved = 0, deserted = 0, elsewhere = 0, restarts = 0;
    struct outcome out;
    for (int world = 1; world <= WORLD; world++) play(1, (struct trial){.world = world, .hosts = 1}, want[world], &out);
    for (int i = 0; i < seeds; i++) {
        struct trial trial = elastic_trial(base + (uint64_t)i);
        bool fits = play(base + (uint64_t)i, trial, want[trial.world], &out);
        grown += out.grown;
        interrupted += out.interrupted;
        moved += out.moved;
        deserted += out.deserted;
        elsewhere += out.elsewhere;
        restarts += out.restarts;
        ended += out.ended;
        fewest = out.fewest ? MIN(fewest, out.fewest) : fewest;
        most = MAX(most, out.most);
        if (out.fewest && out.fewest < trial.least && !bad++) diag("seed %llu: too few", (unsigned long long)base + i);
        if (!fits && !bad++) diag("seed %llu: %s", (unsigned long long)(base + (uint64_t)i), out.why);
    }
    ok(!bad, "elastic jobs with policies of %d seeds: the numbers are those without faults", seeds);
    ok(fewest == 1 && most == WORLD && grown > seeds / 10, "elastic jobs had 1 to %d workers, and grew %d times", most,
       grown);
    ok(interrupted > seeds / 50, "a loss interrupted %d of these admissions", interrupted);
    ok(elsewhere > seeds / 50, "spares of another host made up the smallest number of workers %d times", elsewhere);
    ok(moved > seeds / 10, "devices moved to another host %d times", moved);
    ok(deserted > seeds / 100, "the coordinator's host lost all its workers %d times", deserted);
    ok(restarts > seeds / 30, "coordinators were restarted %d times", restarts);
    ok(ended > seeds / 50, "limits of losses ended %d jobs", ended);
}

/* Repeats the trials of seeds that once failed, on two hosts. Causes: in all rows but the last, a disconnected
 * worker wrote into memory that all simulated hosts shared. In the last row, a worker kept its mapped memory
 * although its READY packet was late, and its host created another memory. */
static void
test_known(void)
{
    static const uint64_t seed[] = {24068,  42562,  154289, 173218, 174546, 187170, 253411, 262525, 290214,
                                    306518, 319882, 323588, 333567, 354150, 354558, 381631, 389182, 415440,
                                    517736, 525354, 577652, 622494, 627294, 643843, 669329, 750988, 751002,
                                    772845, 785436, 795342, 796474, 802111, 824286, 984468, 986460, 46232,
                                    46411,  46724,  46775,  47785,  47883,  48165,  48392,  49035};
    uint64_t want[WORLD] = {0};
    struct outcome out;
    int bad = 0;
    play(1, (struct trial){.world = 4, .hosts = 2}, want, &out);
    for (size_t i = 0; i < countof(seed); i++) {
        struct trial trial = trial_of(4, 2, seed[i] - 1);
        trial.restarts = trial.keep = trial.speaks = trial.files = trial.unites = trial.hangs = false;
        trial.flaps = 0;
        if (!play(seed[i], trial, want, &out) && !bad++) diag("seed %llu: %s", (unsigned long long)seed[i], out.why);
    }
    ok(!bad, "seeds that failed once pass");
}

/* When a worker is lost, other workers may still be ending their run. They must not be lost as hung because they did
 * not progress in that run. */
static void
test_hang_after_loss(void)
{
    struct cluster *s = must_alloc(sizeof *s);
    int sum = 0;
    sim_begin(s, 1, (struct trial){.world = 3, .hosts = 1});
    for (int k = 0; k < STEPS && coordinator_phase(s->c) != CLUSTER_RUN; k++) sim_step(s);
    for (int r = 0; r < 3; r++) s->c->member[r].info.still = 5;
    gone(s, &s->worker[0], "ended");
    for (int r = 0; r < 3; r++) sum += s->c->member[r].info.still;
    ok(coordinator_phase(s->c) != CLUSTER_RUN && sum == 0,
       "after a loss, the time without progress begins anew for all workers");
    sim_end(s);
}

/* ---- clusters that live for hours ---- */

/* Returns the bytes that the coordinator and the members have allocated: all bytes without those of the queues. musl
 * has no counters of allocated bytes: there the result is 0. */
static size_t
bytes_of_members(const struct cluster *s)
{
#ifndef __GLIBC__
    UNUSED(s);
    return 0;
#else
    const struct mallinfo2 all = mallinfo2();
    size_t bytes = all.uordblks + all.hblkhd;
    for (int i = 0; i < s->nworker; i++) {
        const struct queue *queue[] = {&s->worker[i].up, &s->worker[i].stale, &s->worker[i].down};
        for (size_t k = 0; k < countof(queue) * QUEUE; k++) {
            void *text = queue[k / QUEUE]->item[k % QUEUE].text;
            bytes -= text ? malloc_usable_size(text) + sizeof(size_t) : 0;
        }
    }
    return bytes;
#endif
}

/* Returns the options of one minute of a cluster. */
static struct trial
options_of(const struct trial *all, int minute)
{
    struct trial trial = trial_of(all->world, all->hosts, (uint64_t)minute);
    trial.ticks = all->ticks;
    trial.least = all->least;
    trial.speaks = all->speaks;
    trial.unites = all->unites;
    trial.restarts &= all->restarts;
    trial.keep = true;
    return trial;
}

struct life {
    int minutes, stall; /* stall: longest time without a new step, ticks */
    size_t early, late; /* largest number of bytes in the first and in the last third of the time */
    struct cluster *s;
};

/* Lets the training run for a minute, with new faults. */
static void
play_minute(struct life *l, const struct trial *all)
{
    struct cluster *s = l->s;
    int last = s->ticks, step = s->modelled, end = MINUTE * (l->minutes + 1);
    s->trial = options_of(all, l->minutes);
    s->faults = 1 + l->minutes % FAULTS;
    s->flaps = s->trial.flaps;
    for (; s->ticks < end && !s->wrong; sim_step(s)) {
        if (s->modelled == step) continue;
        step = s->modelled;
        l->stall = MAX(l->stall, s->ticks - last);
        last = s->ticks;
    }
    l->stall = MAX(l->stall, s->ticks - last);
    size_t bytes = bytes_of_members(s), third = (size_t)l->minutes++ * MINUTE * 3 / (size_t)all->ticks;
    if (third == 0) l->early = MAX(l->early, bytes);
    if (third == 2) l->late = MAX(l->late, bytes);
}

/* Lets one cluster live for HOURS hours of its clock (default: 1), with faults in the first seconds of each minute.
 */
static void
test_hours(const char *what, struct trial all)
{
    const char *hours = getenv("HOURS");
    struct life l = {.s = must_alloc(sizeof *l.s)};
    struct cluster *s = l.s;
    clock_t begin = clock();
    all.ticks = (int)(60 * (hours ? atof(hours) : 1)) * MINUTE;
    size_t before = bytes_of_members(s);
    sim_begin(s, seed_of(1), options_of(&all, 0));
    while (s->ticks < all.ticks && !s->wrong) play_minute(&l, &all);
    if (!ok(!s->wrong, "%s: %d simulated minutes, %d steps, each with the numbers without faults", what, l.minutes,
            s->modelled))
        diag("minute %d: %s", l.minutes, s->why);
    ok(l.stall < MINUTE, "%s: no minute passes without a step (at most %.1f s)", what, l.stall * 0.1);
    ok(l.late - before <= 2 * (l.early - before) + 16384,
       "%s: the state machines use at most %zu bytes at first, and %zu at last", what, l.early - before,
       l.late - before);
    ok(s->hung > 0 && s->resumed > 0 && s->muted > 0 && s->lost > s->hung && (s->life > 1) == all.restarts &&
           (s->found > 0) == all.restarts && (s->grown > 0) == (all.least > 0),
       "%s: %d workers started, %d lost, %d hung; %d coordinators, which took over %d workers and found %d snapshots; "
       "%d links continued, %d carried nothing; grown %d times; %d epochs",
       what, s->nstart, s->lost, s->hung, s->life, s->taken, s->found, s->resumed, s->muted, s->grown, s->nbus);
    diag("%.1f s of CPU", (double)(clock() - begin) / CLOCKS_PER_SEC);
    sim_end(s);
}

/* ---- workers without a coordinator ---- */

/* Runs a cluster of `hosts` hosts without faults for `steps` steps, then removes its coordinator. cut: packets on
 * their way to workers are lost; otherwise they arrive. Returns the number of workers that still run MOST_TICKS
 * ticks later. Sets *over to true if the training ended before the removal. */
static int
left_behind(uint64_t seed, int hosts, int steps, bool cut, bool *over)
{
    enum { MOST_TICKS = 61 };
    struct cluster *s = must_alloc(sizeof *s);
    int left = 0;
    sim_begin(s, seed, (struct trial){.world = 4, .hosts = hosts, .speaks = seed % 2});
    for (int k = 0; k < steps && s->step < RUNS; k++) sim_step(s);
    *over = s->step >= RUNS;
    for (int i = 0; i < s->nworker; i++) {
        struct sim_worker *w = &s->worker[i];
        while (!cut && w->down.n) deliver(s, w, &w->down);
        while (w->njob) worker_execute(s, w);
        for (int t = 0; t < MOST_TICKS; t++) member_tick(w->member);
        left += !w->left || w->status != LEAVE_ORPHAN;
    }
    sim_end(s);
    return left;
}

static void
test_orphans(void)
{
    for (int hosts = 1; hosts <= 2; hosts++) {
        int nleft = 0, nmoment = 0;
        for (int cut = 0; cut < 2; cut++)
            for (uint64_t seed = 1; seed <= 4; seed++) {
                bool over = false;
                for (int steps = 0; !over; steps++) {
                    if (!share_next()) continue;
                    nleft += left_behind(seed, hosts, steps, cut, &over);
                    nmoment++;
                }
            }
        ok(nleft == 0, "%d hosts: all workers end whenever the coordinator disappears (%d moments)", hosts, nmoment);
    }
}

/* Checks that the time limit for joining no longer applies after a worker receives WELCOME, even if another worker
 * relays its heartbeats. */
static void
test_waiting(void)
{
    static const unsigned char job[CLUSTER_ID] = "a job of the sim";
    struct cluster *s = must_alloc(sizeof *s);
    struct sim_worker w = {.of = s, .alive = true, .memory = -1, .bus = -1};
    const struct member_env env = {&w, worker_send, worker_work, worker_word};
    const struct member_options o = {.hello = {.kind = PACKET_HELLO}, .silence = 60, .wait = 20};
    for (int in = 0; in < 2; in++) {
        int ticks = 0;
        w.left = false;
        w.member = member_new(&o, &env);
        if (in) {
            struct packet p = {.kind = PACKET_WELCOME, .seq = 1, .epoch = 1, .job = {job, CLUSTER_ID}};
            member_linked(w.member);
            member_receive(w.member, &p);
        }
        for (; ticks < 40 && !w.left; ticks++) member_tick(w.member);
        ok(in ? !w.left : ticks == 21 && w.status == LEAVE_FAILED, "%s",
           in ? "a welcomed worker has no time limit for joining"
              : "a worker that finds no coordinator within the time limit ends");
        member_free(&w.member);
    }
    queue_free(&w.up);
    queue_free(&w.down);
    free(s);
}

int
main(void)
{
    test_orphans();
    test_waiting();
    test_seeds(1);
    test_seeds(2);
    test_known();
    test_hang_after_loss();
    test_flaps();
    test_elastic();
    test_hours("one coordinator", (struct trial){.world = 4, .hosts = 2, .speaks = true, .unites = true});
    test_hours("many coordinators", (struct trial){.world = 5, .hosts = 2, .restarts = true});
    test_hours("elastic", (struct trial){.world = 5, .hosts = 2, .least = 1, .restarts = true, .unites = true});
    return done();
}
