/* Tests of actors/cluster/coordinator/coordinator.c: how long a worker may send no heartbeats. */
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "t/lib/tap.h"

static const unsigned char job[CLUSTER_ID] = "job of the seed";

struct heard {
    int lost; /* number of reports of a lost worker */
    char text[256];
};

static void
keep_send(void *arg, int peer, const struct packet *p)
{
    UNUSED(arg);
    UNUSED(peer);
    UNUSED(p);
}

static void
keep_cut(void *arg, int peer)
{
    UNUSED(arg);
    UNUSED(peer);
}

static void
keep_tell(void *arg, const struct notice *n)
{
    struct heard *t = arg;
    if (n->kind != NOTICE_LOST) return;
    t->lost++;
    snprintf(t->text, sizeof t->text, "%s", n->text);
}

static void
say(struct coordinator *c, struct packet p, uint32_t epoch, uint32_t seq)
{
    p.epoch = epoch;
    p.seq = seq;
    coordinator_receive(c, 0, &p);
}

/* Returns the coordinator of one worker, which has joined. formed: the epoch is formed. */
static struct coordinator *
open_alone(struct heard *t, int silence, bool formed)
{
    static const uint64_t bytes[] = {4096};
    static const struct slot slot[] = {{0, 0}};
    struct coordinator_env env = {t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 1, .silence = silence, .version = "1", .machine = "m"};
    memcpy(o.job, job, sizeof job);
    struct coordinator *c = coordinator_new(&o, &env);
    say(c,
        (struct packet){.kind = PACKET_HELLO,
                        .protocol = WIRE_VERSION,
                        .version = span_text("1"),
                        .host = span_text("h"),
                        .machine = span_text("m"),
                        .devices = span_text("cpu:1"),
                        .rank = -1},
        0, 1);
    if (!formed) return c;
    coordinator_form(c,
                     &(struct form){.threads = 1, .segment = "", .bus = "", .nslot = 1, .slot = slot, .bytes = bytes});
    say(c, (struct packet){.kind = PACKET_READY}, 1, 2);
    return c;
}

static void
test_repeated(void)
{
    struct heard t = {0};
    struct coordinator *c = open_alone(&t, 3, true);
    struct packet beat = {.kind = PACKET_BEAT, .job = {job, CLUSTER_ID}};
    ok(coordinator_phase(c) == CLUSTER_IDLE, "the epoch of the only worker is formed");
    for (int i = 0; i < 20; i++) {
        beat.count++;
        coordinator_beat(c, &beat);
        coordinator_tick(c);
    }
    is_int(t.lost, 0, "a worker with heartbeats is not lost");
    for (int i = 0; i < 3; i++) {
        coordinator_beat(c, &beat);
        coordinator_tick(c);
    }
    ok(t.lost == 1 && !strcmp(t.text, "stopped responding"), "a repeated old heartbeat does not count");
    coordinator_free(&c);
}

/* Sends 40 heartbeats of a worker, one every `gap` ticks, and then none. formed: the epoch is formed. Returns the
 * number of ticks after the last heartbeat until the worker is lost; 0: it was lost earlier. */
static int
ticks_until_lost(int silence, int gap, bool formed)
{
    struct heard t = {0};
    struct coordinator *c = open_alone(&t, silence, formed);
    struct packet beat = {.kind = PACKET_BEAT, .job = {job, CLUSTER_ID}};
    for (beat.count = 1; beat.count <= 40; beat.count++) {
        for (int i = 0; i < gap; i++) coordinator_tick(c);
        coordinator_beat(c, &beat);
    }
    int ticks = 0;
    for (; !t.lost; ticks++) coordinator_tick(c);
    coordinator_free(&c);
    return ticks;
}

/* Checks that a worker's time limit grows with the average gap between its heartbeats, from the option on. */
static void
test_limits(void)
{
    int wrong = 0, early = 0;
    for (int silence = 1; silence <= 12; silence++)
        for (int gap = 1; gap <= 14; gap++) {
            int ticks = ticks_until_lost(silence, gap, true), most = silence * SILENCE_GROWTH;
            /* a first gap that exceeds the option is a loss: the worker is not known to be slow yet */
            wrong += ticks != (gap > silence ? 0 : silence * MIN(gap, SILENCE_GROWTH) + 1);
            early += ticks_until_lost(silence, gap, false) != (gap > most ? 0 : most + 1);
        }
    is_int(wrong, 0, "the time without a heartbeat that is a loss grows with their average gap, up to four times");
    is_int(early, 0, "until the epoch is formed it is four times the option");
}

int
main(void)
{
    test_repeated();
    test_limits();
    return done();
}
