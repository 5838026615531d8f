/* Tests of actors/cluster/coordinator/coordinator_hang.c on simulated clusters (t/lib/simulated.h): one worker hangs at
 * every moment of a training. The coordinator must lose exactly this worker, and the training must end with the numbers
 * of a training without faults. Further tests: slow workers, and answers that make no sense. */
#include "t/lib/simulated.h"

static int in[CLUSTER_BROKEN]; /* by phase: number of hung workers that were lost */

static void
test_moments(int world, int hosts, uint64_t kind)
{
    struct trial trial = trial_of(world, hosts, kind);
    struct outcome out;
    uint64_t want[WORLD] = {0};
    int bad = 0, n = 0;
    trial.faults = 0;
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

/* A worker whose work takes any time, but progresses, is never lost. */
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

/* ---- answers that make no sense ---- */

static void
ignore_send(void *arg, int peer, const struct packet *p)
{
    UNUSED(arg);
    UNUSED(peer);
    UNUSED(p);
}

static void
ignore_cut(void *arg, int peer)
{
    UNUSED(arg);
    UNUSED(peer);
}

static void
count_losses(void *arg, const struct notice *n)
{
    if (n->kind == NOTICE_LOST && strstr(n->text, "unexpected")) ++*(int *)arg;
}

/* Brings a coordinator with one worker to a phase. Returns the number of the worker's last packet. */
static uint32_t
reach_phase(struct coordinator *c, enum coordinator_phase phase)
{
    static const struct slot slot[] = {{0, 0}};
    static const uint64_t bytes[] = {4096};
    static const struct places places[1];
    static const struct packet answer[] = {{.kind = PACKET_READY}, {.kind = PACKET_HAVE, .program = 7}};
    struct packet hello = {.kind = PACKET_HELLO,
                           .seq = 1,
                           .protocol = WIRE_VERSION,
                           .version = span_text("1"),
                           .machine = span_text("m"),
                           .devices = span_text("cpu:1")};
    coordinator_receive(c, 0, &hello);
    if (phase == CLUSTER_GATHER) return 1;
    coordinator_form(c,
                     &(struct form){.threads = 1, .segment = "", .bus = "", .nslot = 1, .slot = slot, .bytes = bytes});
    uint32_t seq = 1;
    while (coordinator_phase(c) != phase) {
        struct packet p = answer[seq - 1];
        p.seq = ++seq;
        p.epoch = 1;
        p.digest = p.outline = (struct span){(const unsigned char *)"plan of the work", CLUSTER_ID};
        coordinator_receive(c, 0, &p);
        if (coordinator_phase(c) != CLUSTER_IDLE || phase == CLUSTER_IDLE) continue;
        struct start start = {.program = 7, .bytes = "", .memory = -1, .places = places, .run = 1};
        memcpy(start.outline, "plan of the work", CLUSTER_ID);
        coordinator_start(c, &start);
    }
    return seq;
}

/* In each phase, sends each kind of answer. Only the expected one keeps the worker. */
static void
test_nonsense(void)
{
    static const enum packet_kind kind[] = {PACKET_MADE, PACKET_READY, PACKET_HAVE, PACKET_END, PACKET_FILED};
    static const enum packet_kind expected[CLUSTER_BROKEN] = {
        [CLUSTER_FORM] = PACKET_READY, [CLUSTER_SHIP] = PACKET_HAVE, [CLUSTER_RUN] = PACKET_END};
    for (int phase = CLUSTER_GATHER; phase < CLUSTER_BROKEN; phase++)
        for (int k = 0; k < (int)countof(kind) && phase != CLUSTER_MAKE; k++)
            for (uint32_t other = 0; other < 2; other++) { /* other: the answer is about another program or run */
                int lost = 0;
                struct coordinator_env env = {&lost, ignore_send, ignore_cut, count_losses};
                struct coordinator_options o = {.world = 1, .silence = 3, .version = "1", .machine = "m"};
                struct coordinator *c = coordinator_new(&o, &env);
                uint32_t seq = reach_phase(c, (enum coordinator_phase)phase);
                struct packet p = {
                    .kind = (uint8_t)kind[k], .epoch = 1, .seq = seq + 1, .program = 7 + other, .run = 1 + other};
                coordinator_receive(c, 0, &p);
                bool fits = kind[k] == expected[phase] && (!other || phase == CLUSTER_FORM);
                ok(lost == !fits, "%s: %s of %s program and run %s the worker",
                   coordinator_phase_text((enum coordinator_phase)phase), packet_name(kind[k]),
                   other ? "another" : "the", fits ? "keeps" : "ends");
                coordinator_free(&c);
            }
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
    test_nonsense();
    return done();
}
