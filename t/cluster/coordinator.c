/* Tests of actors/cluster/coordinator/coordinator.c: single cases. (sim.c simulates complete trainings.) */
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/coordinator/coordinator_admit.h"
#include "runtime/base/error.h"
#include "runtime/device/communicator.h"
#include "t/lib/tap.h"

struct notices {
    struct notice last;
    char text[256];
    int n[NOTICE_ENDED + 1], sent[NPACKET], cuts;
    /* program numbers; arenas: in the last HAVE notice; forgotten: in the last FORGET packet */
    uint64_t arenas, forgotten;
    char refusal[256];
    int slow;                   /* rank in the last SLOW notice */
    uint32_t flags[6], made[6]; /* by peer; flags: of the last MAKE packet; made: memory epoch in the last FORM */
    char ports[6][64];          /* by peer: ports in the last FORM or PORTS packet */
};

static void
keep_send(void *arg, int peer, const struct packet *p)
{
    struct notices *t = arg;
    t->sent[p->kind]++;
    if (p->kind == PACKET_FORGET) t->forgotten = p->program;
    if (p->kind == PACKET_MAKE) t->flags[peer] = p->flags;
    if (p->kind == PACKET_FORM) t->made[peer] = p->made;
    if (p->kind == PACKET_FORM || p->kind == PACKET_PORTS)
        snprintf(t->ports[peer], sizeof *t->ports, "%.*s", (int)p->ports.n, (const char *)p->ports.bytes);
    if (p->kind == PACKET_REFUSE)
        snprintf(t->refusal, sizeof t->refusal, "%.*s", (int)p->text.n, (const char *)p->text.bytes);
}
static void
keep_cut(void *arg, int peer)
{
    UNUSED(peer);
    ((struct notices *)arg)->cuts++;
}
static void
keep_tell(void *arg, const struct notice *n)
{
    struct notices *t = arg;
    t->last = *n;
    t->n[n->kind]++;
    if (n->kind == NOTICE_SLOW) t->slow = n->rank;
    if (n->kind == NOTICE_HAVE && n->packet->arenas.n) memcpy(&t->arenas, n->packet->arenas.bytes, sizeof t->arenas);
    snprintf(t->text, sizeof t->text, "%s", n->text ? n->text : "");
}

static struct packet
hello(int rank, const char *version, const char *machine)
{
    return (struct packet){.kind = PACKET_HELLO,
                           .seq = 1,
                           .protocol = WIRE_VERSION,
                           .version = span_text(version),
                           .host = span_text("b\x1b[2J"),
                           .machine = span_text(machine),
                           .devices = span_text("cpu:1"),
                           .rank = rank};
}

/* Makes a coordinator that reports to t. */
static struct coordinator *
open_world(struct notices *t, int world)
{
    struct coordinator_env env = {t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = world, .silence = 3, .version = "1", .machine = "m"};
    return coordinator_new(&o, &env);
}

/* Forms an epoch of n workers. If `hosts`, each worker has a separate host with its own memory segment; otherwise
 * all workers share one host and one segment. */
static void
form_world(struct coordinator *c, int n, bool hosts)
{
    static const uint64_t bytes[] = {4096, 4096, 4096, 4096, 4096};
    static const struct slot slot[][5] = {{{0, 0}, {0, 1}, {0, 2}, {0, 3}}, {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}}};
    coordinator_form(
        c, &(struct form){.threads = 1, .segment = "", .bus = "", .nslot = n, .slot = slot[hosts], .bytes = bytes});
}

/* Checks that a worker with an invalid device list is rejected with a reason. The rank must stay free for another
 * worker. */
static void
test_devices(void)
{
    static const struct {
        const char *devices, *why;
    } row[] = {
        {"", "this list has none"},
        {"junk", "unknown device kind \"junk\""},
        {"cpu:0", "must be from 1 to 4096, found \"0\""},
        {"cpu:-1", "must be from 1 to 4096, found \"-1\""},
        {"cpu:4097", "must be from 1 to 4096, found \"4097\""},
        {"cpu:", "must be from 1 to 4096, found \"\""},
        {"cpu:1,cpu:2", "\"cpu\" is named twice"},
        {",cpu:1", "expected kind:count, separated by commas"},
        {"cpu1:1", "unknown device kind \"cpu1\""},
        {"meta:1", "of kind cpu and cuda, not meta"},
        {"async:1", "a worker must have cpu devices, as in \"cpu:1\""},
        {"cuda:0", "a worker must have cpu devices, as in \"cpu:1\""},
        {"cuda:all,cpu:1", "did not report its number of GPUs"},
        {"cuda:0,cpu:1", "malformed description of 1 GPUs"},
        {"cpu:1,meta:1", "of kind cpu and cuda, not meta"},
        {"\x1b[2J", "unknown device kind"},
    };
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 1);
    for (int i = 0; i < (int)countof(row); i++) {
        struct packet p = hello(i % 2 - 1, "1", "m");
        p.devices = span_text(row[i].devices);
        coordinator_receive(c, i, &p);
        ok(strstr(t.refusal, row[i].why) && t.n[NOTICE_REFUSED] == i + 1 && t.cuts == i + 1 && !err_last(),
           "devices \"%s\" are refused: %s", i + 1 == (int)countof(row) ? "ESC[2J" : row[i].devices, t.refusal);
    }
    struct packet p = hello(0, "1", "m");
    coordinator_receive(c, 100, &p);
    ok(t.n[NOTICE_FULL] == 1, "the rank is still free for a worker with cpu devices");
    coordinator_free(&c);
}

static void
test_refusals(void)
{
    static const struct {
        int rank;
        const char *version, *machine, *text;
    } row[] = {
        {-1, "2", "m", "the coordinator is rille 1, the worker is rille 2"},
        {2, "1", "m", "rank 2 is out of range: the job has 2 workers"},
        /* Rank 1 is reserved for the worker that was started with its secret. */
        {1, "1", "m", "rank 1 is already taken by another worker"},
    };
    static const unsigned char secret[2][CLUSTER_ID] = {{0}, "only the started"};
    struct notices t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 2, .silence = 3, .version = "1", .machine = "m", .secret = secret};
    struct coordinator *c = coordinator_new(&o, &env);
    struct packet first = hello(0, "1", "m");
    coordinator_receive(c, 0, &first);
    ok(t.sent[PACKET_WELCOME] == 1, "a worker is welcomed");
    for (size_t i = 0; i < countof(row); i++) {
        struct packet p = hello(row[i].rank, row[i].version, row[i].machine);
        coordinator_receive(c, 1 + (int)i, &p);
        ok(strstr(t.refusal, row[i].text) && t.n[NOTICE_REFUSED] == 1 + (int)i && t.cuts == 1 + (int)i,
           "the worker is refused and disconnected: %s", row[i].text);
        coordinator_receive(c, 1 + (int)i, &p);
        ok(t.n[NOTICE_REFUSED] == 1 + (int)i, "further packets of a refused worker are ignored");
    }
    coordinator_foreign(c, 30, WIRE_VERSION + 1);
    ok(strstr(t.refusal, "it uses protocol") && strstr(t.text, "was refused: it uses protocol"),
       "a worker of another protocol version is refused with a reason");
    coordinator_foreign(c, 0, WIRE_VERSION + 1);
    ok(t.n[NOTICE_LOST] == 0 && strstr(t.text, "was refused"),
       "a member with another protocol version is not counted as lost");
    struct packet p = hello(1, "1", "m");
    p.secret = (struct span){secret[1], CLUSTER_ID};
    coordinator_receive(c, 40, &p);
    ok(t.n[NOTICE_FULL] == 1, "the started worker gets the rank with its secret");
    p = hello(-1, "1", "m");
    coordinator_receive(c, 41, &p);
    ok(strstr(t.refusal, "the job already has its 2 workers") != NULL,
       "a worker beyond the job's size is refused with a reason");
    p = (struct packet){.kind = PACKET_BYE, .seq = 2, .epoch = 1};
    coordinator_receive(c, 0, &p);
    ok(t.n[NOTICE_LOST] == 1 && t.last.rank == 0, "a member that sends a coordinator's packet is expelled");
    ok(coordinator_recover(c, 3) == E_ARG && coordinator_recover(c, 0) == E_ARG && !coordinator_recover(c, 1),
       "recovery accepts from 1 worker to the job's size");
    coordinator_free(&c);
}

/* Tests workers that prove their rank by a key. Links 0 and 1 have the key of rank 1, link 2 that of rank 4. */
static void
test_vouched(void)
{
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 2);
    struct packet p = hello(0, "1", "m");
    for (int peer = 0; peer < 2; peer++) coordinator_vouch(c, peer, 1);
    coordinator_vouch(c, 2, 4);
    coordinator_receive(c, 0, &p);
    ok(strstr(t.refusal, "the worker has the key of rank 1, but asks for rank 0") && !t.sent[PACKET_WELCOME],
       "a worker with a rank's key cannot join as another rank");
    p.rank = -1;
    coordinator_receive(c, 1, &p);
    ok(t.sent[PACKET_WELCOME] == 1 && coordinator_member(c, 1)->peer == 1,
       "a worker with a rank's key gets that rank without asking");
    coordinator_receive(c, 2, &p);
    ok(strstr(t.refusal, "rank 4 is out of range: the job has 2 workers"),
       "a worker with the key of a rank beyond the job is refused");
    coordinator_free(&c);
}

static void
say(struct coordinator *c, int peer, struct packet p, uint32_t epoch, uint32_t seq)
{
    p.epoch = epoch;
    p.seq = seq;
    coordinator_receive(c, peer, &p);
}

/* Tests two workers on a host other than the coordinator's. Checks which of them creates their shared memory, and
 * when they need a new one. */
static void
test_memory(void)
{
    const struct packet made = {.kind = PACKET_MADE, .segment = span_text("s"), .bus = span_text("b")};
    const struct packet ready = {.kind = PACKET_READY};
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 2);
    for (int r = 0; r < 2; r++) say(c, r, hello(r, "1", "other"), 0, 1);
    form_world(c, 2, false);
    is_int(t.flags[0], MAKE_MEMORY | MAKE_FRESH, "the first worker of a host creates the host's memory");
    say(c, 0, made, 1, 2);
    ok(t.made[0] == 1 && t.made[1] == 1, "all workers receive the memory's epoch");
    coordinator_cut(c, 0, "was killed"); /* cuts the link while the other worker's READY packet is in flight */
    coordinator_recover(c, 2);
    say(c, 2, hello(0, "1", "other"), 0, 1);
    form_world(c, 2, false);
    is_int(t.flags[2], MAKE_MEMORY | MAKE_FRESH,
           "without a READY from a worker that maps the memory, it is created afresh");
    say(c, 1, ready, 1, 2);
    say(c, 2, made, 2, 2);
    ok(t.made[1] == 2 && t.made[2] == 2, "a worker with the old memory receives the name of the new memory");
    say(c, 1, ready, 2, 3);
    coordinator_cut(c, 2, "was killed");
    coordinator_recover(c, 2);
    say(c, 3, hello(0, "1", "other"), 0, 1);
    form_world(c, 2, false);
    is_int(t.flags[1], MAKE_MEMORY, "a worker that has confirmed its mapping keeps the memory for the others");
    coordinator_free(&c);
}

/* Checks that the cluster cannot shrink before all workers have joined once, because until then the devices of
 * missing workers are unknown. */
static void
test_never_full(void)
{
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 3);
    for (int r = 0; r < 2; r++) say(c, r, hello(r, "1", "m"), 0, 1);
    coordinator_cut(c, 0, "was killed");
    ok(coordinator_recover(c, 2) == E_ARG && !coordinator_recover(c, 3),
       "a world that was never full cannot recover with fewer workers");
    coordinator_free(&c);
}

/* Loses two of three workers. The second is lost while the coordinator waits for the replacement of the first. */
static void
test_lost_meanwhile(void)
{
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 3);
    for (int r = 0; r < 3; r++) say(c, r, hello(r, "1", "m"), 0, 1);
    form_world(c, 3, false);
    for (int r = 0; r < 3; r++) say(c, r, (struct packet){.kind = PACKET_READY}, 1, 2);
    coordinator_cut(c, 1, "was killed");
    coordinator_recover(c, 3);
    coordinator_cut(c, 2, "stopped responding");
    ok(coordinator_recover(c, 4) == E_ARG && !coordinator_recover(c, 3),
       "recovery still expects the worker that had not joined yet");
    for (int r = 1; r < 3; r++) say(c, 2 + r, hello(r, "1", "m"), 0, 1);
    is_int(t.n[NOTICE_FULL], 2, "the world is full when both successors have joined");
    coordinator_cut(c, 3, "was killed");
    coordinator_recover(c, 3);
    coordinator_cut(c, 4, "was killed");
    ok(!coordinator_recover(c, 1) && t.n[NOTICE_FULL] == 3, "recovery with one worker continues without the lost ones");
    coordinator_free(&c);
}

/* Checks which ports the coordinator sends to a worker. Hosts form a ring; a worker gets the ports of the two
 * neighbouring hosts, and those that it requests. There are five hosts with one worker each. */
static void
test_meeting(void)
{
    enum { HOSTS = 5 };
    static const char *const machine[] = {"a", "b", "c", "d", "e"}, *const port[] = {"A", "B", "C", "D", "E"};
    const uint32_t two = 2;
    struct notices t = {0};
    struct coordinator *c = open_world(&t, HOSTS);
    for (int r = 0; r < HOSTS; r++) say(c, r, hello(r, "1", machine[r]), 0, 1);
    form_world(c, HOSTS, true);
    for (int r = 0; r < HOSTS; r++)
        say(c, r, (struct packet){.kind = PACKET_MADE, .segment = span_text("s"), .port = span_text(port[r])}, 1, 2);
    ok(!strcmp(t.ports[0], "1 B\n4 E\n"), "a worker receives only its neighbours' ports");
    for (int r = 0; r < HOSTS; r++) say(c, r, (struct packet){.kind = PACKET_READY}, 1, 3);
    say(c, 0, (struct packet){.kind = PACKET_MEET, .memories = {(const void *)&two, sizeof two}}, 1, 4);
    ok(!strcmp(t.ports[0], "2 C\n") && !strcmp(t.ports[2], "0 A\n"),
       "a worker that requests another's port receives it, and the other receives the worker's");
    is_int(t.sent[PACKET_PORTS], 2, "no other worker receives a port");
    coordinator_cut(c, 4, "was killed");
    coordinator_recover(c, HOSTS);
    say(c, 5, hello(4, "1", "e"), 0, 1);
    form_world(c, HOSTS, true);
    for (int r = 0; r < HOSTS - 1; r++)
        say(c, r, (struct packet){.kind = PACKET_MADE, .segment = span_text("s"), .port = span_text(port[r])}, 2,
            r ? 4 : 5);
    say(c, 5, (struct packet){.kind = PACKET_MADE, .segment = span_text("s"), .port = span_text("F")}, 2, 2);
    ok(!strcmp(t.ports[0], "1 B\n4 F\n2 C\n") && !strcmp(t.ports[2], "3 D\n1 B\n0 A\n"),
       "the next epoch begins with the ports that were requested before");
    coordinator_free(&c);
}

/* Starts a run of the program. Returns the number of packets sent that contain the program's text. */
static int
ship_one(struct coordinator *c, struct notices *t, uint64_t program, uint32_t *seq)
{
    static const unsigned char digest[CLUSTER_ID] = "plan";
    const uint64_t arenas[] = {program, 64};
    struct start s = {.program = program, .bytes = "program", .nbyte = 8, .flags = START_SHIPS};
    int before = t->sent[PACKET_PROGRAM];
    memcpy(s.digest, digest, CLUSTER_ID);
    memcpy(s.outline, digest, CLUSTER_ID);
    t->arenas = 0;
    coordinator_start(c, &s);
    if (t->sent[PACKET_PROGRAM] > before)
        say(c, 0,
            (struct packet){.kind = PACKET_HAVE,
                            .program = program,
                            .digest = {digest, CLUSTER_ID},
                            .outline = {digest, CLUSTER_ID},
                            .arenas = {(const void *)arenas, sizeof arenas}},
            1, ++*seq);
    return t->sent[PACKET_PROGRAM] - before;
}

static void
test_found_again(void)
{
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 1);
    uint32_t seq = 2;
    say(c, 0, hello(0, "1", "m"), 0, 1);
    form_world(c, 1, false);
    say(c, 0, (struct packet){.kind = PACKET_READY}, 1, 2);
    is_int(ship_one(c, &t, 7, &seq), 1, "a program is shipped");
    is_int(ship_one(c, &t, 7, &seq), 0, "a worker that has the program is not sent it again");
    ok(t.arenas == 7, "the run's owner receives the arenas of a known program");
    coordinator_forget(c, 7);
    ok(ship_one(c, &t, 7, &seq) == 0 && t.arenas == 7, "a program that was unused for a while is not sent again");
    coordinator_forget(c, 7);
    for (uint64_t p = 100; p < 100 + COORDINATOR_IDLE; p++) {
        ship_one(c, &t, p, &seq);
        if (t.sent[PACKET_FORGET]) break;
        coordinator_forget(c, p);
    }
    ok(t.sent[PACKET_FORGET] == 1 && t.forgotten == 7, "of too many unused programs the oldest is forgotten");
    is_int(ship_one(c, &t, 7, &seq), 1, "a forgotten program is shipped again");
    coordinator_forget(c, 100);
    is_int(ship_one(c, &t, 101, &seq), 0, "a program that was not forgotten is not shipped again");
    coordinator_free(&c);
}

/* Sends a heartbeat of worker `from` that also contains the heartbeats of all other workers. */
static void
speak(struct coordinator *c, const unsigned char *job, int from, uint32_t count)
{
    uint32_t others[3][NBEAT] = {0};
    int n = 0;
    for (uint32_t r = 0; r < 4; r++) {
        if ((int)r == from) continue;
        others[n][BEAT_RANK] = r;
        others[n++][BEAT_COUNT] = r == 3 ? 1 : count; /* rank 3 makes no progress: its heartbeat count stays 1 */
    }
    struct packet p = {.kind = PACKET_BEAT,
                       .rank = from,
                       .job = {job, CLUSTER_ID},
                       .count = count,
                       .others = {(const void *)others, sizeof others}};
    coordinator_beat(c, &p);
}

/* Number of workers, all on one host; rank 0 relays the heartbeats. */
enum { FOUR = 4 };
static const struct coordinator_options spoken = {
    .world = FOUR, .silence = 3, .direct = FOUR - 1, .version = "1", .machine = "m", .job = "job of the seed"};

static struct coordinator *
gather_four(struct notices *t)
{
    struct coordinator_env env = {t, keep_send, keep_cut, keep_tell};
    struct coordinator *c = coordinator_new(&spoken, &env);
    for (int r = 0; r < FOUR; r++) say(c, r, hello(r, "1", "m"), 0, 1);
    return c;
}

static void
form_four(struct coordinator *c)
{
    form_world(c, FOUR, false);
    for (int r = 0; r < FOUR; r++) say(c, r, (struct packet){.kind = PACKET_READY}, 1, 2);
}

/* Lets worker `from` relay heartbeats for 20 ticks. on: true: continues after the coordinator has lost a worker;
 * false: stops at the first loss. */
static void
speak_on(struct coordinator *c, const struct notices *t, int from, uint32_t first, bool on)
{
    for (uint32_t i = first; i < first + 20 && (on || !t->n[NOTICE_LOST]); i++) {
        speak(c, spoken.job, from, i);
        coordinator_tick(c);
    }
}

static void
test_speaker(void)
{
    struct notices t = {0};
    struct coordinator *c = gather_four(&t);
    struct packet p;
    ok(coordinator_pulse(c, 1, &p) && p.others.n == 0,
       "until the epoch is formed each worker sends its own heartbeats");
    form_four(c);
    ok(!coordinator_pulse(c, 1, &p) && coordinator_pulse(c, 0, &p) && p.others.n == 4 * NBEAT * 3,
       "then the heartbeat relay sends the heartbeats of all workers of its host");
    speak_on(c, &t, 0, 1, false);
    ok(t.n[NOTICE_LOST] == 1 && t.last.rank == 3, "a silent worker behind the relay is lost");
    speak_on(c, &t, 0, 21, true);
    is_int(t.n[NOTICE_LOST], 3, "after the epoch is over relayed heartbeats do not count");
    coordinator_free(&c);
}

static void
test_silent_speaker(void)
{
    struct notices t = {0};
    struct coordinator *c = gather_four(&t);
    form_four(c);
    speak_on(c, &t, 1, 1, false); /* rank 1 relays heartbeats, although rank 0 is the relay */
    ok(t.n[NOTICE_LOST] == 1 && t.last.rank == 0, "a silent relay is lost, and no worker behind it");
    coordinator_free(&c);
}

/* Simulates n runs of the schedule `rows`. In each run, rank r performs acts[r] acts and is busy for ms[r] ms. */
static void
run_four(struct coordinator *c, uint32_t *seq, int n, const int acts[FOUR], const int ms[FOUR], const struct str *rows,
         uint32_t number)
{
    static const unsigned char digest[CLUSTER_ID] = "plan";
    static const struct places places[] = {{NULL, 0}};
    static const uint64_t arenas[] = {0, 64};
    static uint32_t run;
    struct start s = {
        .program = 7, .bytes = "program", .nbyte = 8, .places = places, .rows = rows, .rows_number = number};
    memcpy(s.digest, digest, CLUSTER_ID);
    memcpy(s.outline, digest, CLUSTER_ID);
    for (int i = 0; i < n; i++) {
        s.run = ++run;
        coordinator_start(c, &s);
        if (coordinator_phase(c) == CLUSTER_SHIP) {
            const struct packet have = {.kind = PACKET_HAVE,
                                        .program = 7,
                                        .digest = {digest, CLUSTER_ID},
                                        .outline = {digest, CLUSTER_ID},
                                        .arenas = {(const void *)arenas, sizeof arenas}};
            ++*seq;
            for (int r = 0; r < FOUR; r++) say(c, r, have, 1, *seq);
        }
        ++*seq;
        for (int r = 0; r < FOUR; r++) {
            const uint64_t busy[] = {(uint64_t)r, (uint64_t)ms[r] * 1000000};
            say(c, r,
                (struct packet){.kind = PACKET_END,
                                .run = s.run,
                                .node = -1,
                                .count = (uint64_t)acts[r],
                                .busy = {(const void *)busy, sizeof busy}},
                1, *seq);
        }
    }
}

static void
test_slow(void)
{
    static const struct {
        /* acts: number of acts by rank; ms: busy time by rank, ms; slow: rank that must be reported as slow, -1:
         * none */
        int acts[FOUR], ms[FOUR], slow;
        const char *name;
    } row[] = {
        {{9, 9, 9, 9}, {50, 51, 49, 50}, -1, "of equally fast workers none is slow"},
        {{9, 9, 9, 9}, {50, 51, 140, 50}, 2, "a worker that takes nearly three times as long as others is slow"},
        {{9, 9, 9, 9}, {50, 51, 90, 50}, -1, "a worker that takes less than twice as long is not slow"},
        {{9, 9, 8, 9}, {50, 51, 140, 50}, -1, "a worker with another number of acts is not compared"},
        {{9, 9, 8, 8}, {50, 51, 40, 140}, 3, "two workers with the same number of acts are compared"},
        {{9, 9, 9, 9}, {1, 1, 9, 1}, -1, "runs of a few milliseconds are not compared"},
        {{9, 9, 9, 9}, {140, 140, 140, 50}, -1, "one faster worker does not make the others slow"},
    };
    for (size_t i = 0; i < countof(row); i++) {
        struct notices t = {0};
        struct coordinator *c = gather_four(&t);
        uint32_t seq = 2;
        form_four(c);
        run_four(c, &seq, 40, row[i].acts, row[i].ms, NULL, 0);
        double times = row[i].slow >= 0 ? coordinator_slow(c, row[i].slow) : 2;
        ok(t.n[NOTICE_SLOW] == (row[i].slow >= 0) && t.slow == (row[i].slow >= 0 ? row[i].slow : 0) && times >= 2,
           "%s; reported at most once", row[i].name);
        coordinator_free(&c);
    }
}

static void
test_rows(void)
{
    static const int acts[FOUR] = {9, 9, 9, 9}, ms[FOUR] = {1, 1, 1, 1};
    static char text[WIRE_PIECE + 1];
    static const struct str none, few = {.text = text, .len = 24}, many = {.text = text, .len = sizeof text};
    static const struct {
        const struct str *rows;
        uint32_t number;
        int packets; /* number of packets sent to each worker so far */
        const char *name;
    } row[] = {
        {NULL, 0, 0, "runs without schedule rows send none"},
        {&few, 1, 1, "rows are sent to each worker once for several runs"},
        {&few, 1, 0, "known rows are not sent again"},
        {&many, 2, 2, "other rows are sent, in two packets"},
        {&none, 3, 1, "empty rows are sent once"},
    };
    struct notices t = {0};
    struct coordinator *c = gather_four(&t);
    uint32_t seq = 2;
    form_four(c);
    for (size_t i = 0; i < countof(row); i++) {
        t.sent[PACKET_ROWS] = 0;
        run_four(c, &seq, 3, acts, ms, row[i].rows, row[i].number);
        is_int(t.sent[PACKET_ROWS], FOUR * row[i].packets, row[i].name);
    }
    coordinator_free(&c);
}

/* Checks that the coordinator uses little memory in a large cluster. */
static void
test_scale(void)
{
    enum { MANY = 8192 };
    struct notices t = {0};
    struct coordinator *c = open_world(&t, MANY);
    struct packet p = hello(-1, "1", "m");
    for (int r = 0; r < MANY; r++) {
        p.rank = r;
        coordinator_receive(c, r, &p);
    }
    ok(t.n[NOTICE_FULL] == 1, "%d workers join", MANY);
    ok(coordinator_bytes(c) < (size_t)MANY * 320, "the coordinator uses less than 320 bytes per worker");
    coordinator_free(&c);
}

/* Starts runs whose programs declare collectives on two hosts. A run must begin if row.why is NULL; otherwise it
 * must end with the error row.why. */
static void
test_comm_ranks(void)
{
    static const uint64_t two[] = {1ull << 32, 9, 2, 4}, other[] = {1ull << 32, 8, 2, 4}, odd[] = {1, 2, 3};
    static const struct {
        struct span a, b;
        const char *why;
    } row[] = {
        {{NULL, 0}, {NULL, 0}, NULL},
        {{(const void *)two, sizeof two}, {(const void *)two, sizeof two}, NULL},
        {{(const void *)two, sizeof two}, {(const void *)other, sizeof other}, "host 1 takes part in another"},
        {{(const void *)two, sizeof two},
         {NULL, 0},
         "host 0 takes part in a collective in which some positions have no communicator rank"},
        {{(const void *)two, sizeof two}, {(const void *)odd, sizeof odd}, "impossible size, 24 bytes"},
    };
    static const unsigned char digest[2][CLUSTER_ID] = {"part 0", "part 1"}, outline[CLUSTER_ID] = "outline";
    static const uint64_t arenas[] = {4096, 4096};
    static const struct places places[2];
    for (size_t i = 0; i < countof(row); i++) {
        struct notices t = {0};
        struct coordinator *c = open_world(&t, 2);
        for (int r = 0; r < 2; r++) say(c, r, hello(r, "1", r ? "b" : "a"), 0, 1);
        form_world(c, 2, true);
        for (int r = 0; r < 2; r++)
            say(c, r, (struct packet){.kind = PACKET_MADE, .segment = span_text("s"), .port = span_text("p")}, 1, 2);
        for (int r = 0; r < 2; r++) say(c, r, (struct packet){.kind = PACKET_READY}, 1, 3);
        struct start s = {.program = 7, .bytes = "program", .nbyte = 8, .memory = -1, .places = places, .run = 1};
        memcpy(s.outline, outline, CLUSTER_ID);
        coordinator_start(c, &s);
        for (int r = 0; r < 2; r++)
            say(c, r,
                (struct packet){.kind = PACKET_HAVE,
                                .program = 7,
                                .digest = {digest[r], CLUSTER_ID},
                                .outline = {outline, CLUSTER_ID},
                                .arenas = {(const void *)arenas, sizeof arenas},
                                .comm_ranks = r ? row[i].b : row[i].a},
                1, 4);
        bool ran = t.sent[PACKET_START] == 2;
        ok(row[i].why ? !ran && t.n[NOTICE_ENDED] == 1 && strstr(t.text, row[i].why) : ran, "lists of collectives: %s",
           row[i].why ? t.text : "equal lists run");
        if (ran) {
            const uint32_t memory = 1;
            unsigned char id[COMMUNICATOR_ID] = {1};
            struct packet unite = {.kind = PACKET_UNITE, .run = 1, .bytes = {id, sizeof id}};
            unite.memories = (struct span){(const void *)&memory, sizeof memory};
            say(c, 0, unite, 1, 5);
            unite.run = 2;
            say(c, 0, unite, 1, 6);
            is_int(t.sent[PACKET_UNITE], 1,
                   "a communicator id is forwarded to its memory, but not an id of another run");
            say(c, 1, (struct packet){.kind = PACKET_END, .run = 1, .status = E_CANCEL, .text = span_text("ended")}, 1,
                5);
            say(c, 0, (struct packet){.kind = PACKET_END, .run = 1, .status = E_VALUE, .text = span_text("why")}, 1, 7);
            ok(t.n[NOTICE_ENDED] == 1 && t.last.status == E_VALUE && !strcmp(t.text, "why"),
               "the reported failure is the original one, though a cancelled worker reports first");
        }
        coordinator_free(&c);
    }
}

/* A worker of a new host joins an elastic job and is lost before an epoch is formed. Its memory stays, and a program
 * that was sent before runs again. Checks with the address sanitizer that the program has a partition for the memory.
 */
static void
test_added_memory(void)
{
    static const unsigned char digest[CLUSTER_ID] = "part", outline[CLUSTER_ID] = "outline";
    static const struct places places[2];
    struct notices t = {0};
    struct coordinator_env env = {&t, keep_send, keep_cut, keep_tell};
    struct coordinator_options o = {.world = 2, .least = 1, .silence = 3, .version = "1", .machine = "m"};
    struct coordinator *c = coordinator_new(&o, &env);
    struct start s = {.program = 7, .bytes = "program", .nbyte = 8, .memory = -1, .places = places};
    memcpy(s.outline, outline, CLUSTER_ID);
    say(c, 0, hello(0, "1", "a"), 0, 1);
    for (uint32_t epoch = 1, seq = 2; epoch <= 3; epoch += 2) {
        form_world(c, 2, false);
        say(c, 0, (struct packet){.kind = PACKET_MADE, .segment = span_text("s"), .port = span_text("p")}, epoch,
            seq++);
        say(c, 0, (struct packet){.kind = PACKET_READY}, epoch, seq++);
        s.run = epoch;
        coordinator_start(c, &s);
        if (epoch == 1)
            say(c, 0,
                (struct packet){.kind = PACKET_HAVE,
                                .program = 7,
                                .digest = {digest, CLUSTER_ID},
                                .outline = {outline, CLUSTER_ID}},
                epoch, seq++);
        say(c, 0, (struct packet){.kind = PACKET_END, .run = epoch}, epoch, seq++);
        if (epoch == 3) break;
        say(c, 1, hello(-1, "1", "b"), 0, 1);
        ok(!coordinator_recover(c, 2) && coordinator_memories(c) == 2, "a worker of another host adds a memory");
        coordinator_gone(c, 1, "ended");
        ok(!coordinator_recover(c, 1), "the job continues without this worker");
    }
    ok(coordinator_memories(c) == 2 && t.sent[PACKET_PROGRAM] == 1 && t.n[NOTICE_ENDED] == 2 && !t.last.status,
       "after its loss, the memory stays, and a program that was sent before runs");
    coordinator_free(&c);
}

/* Leads a coordinator with one worker into a phase. Returns the sequence number of the worker's last packet. */
static uint32_t
reach_phase(struct coordinator *c, enum coordinator_phase phase)
{
    static const struct places places[1];
    static const struct packet answer[] = {{.kind = PACKET_READY}, {.kind = PACKET_HAVE, .program = 7}};
    say(c, 0, hello(0, "1", "m"), 0, 1);
    if (phase == CLUSTER_GATHER) return 1;
    form_world(c, 1, false);
    uint32_t seq = 1;
    while (coordinator_phase(c) != phase) {
        struct packet p = answer[seq - 1];
        p.digest = p.outline = (struct span){(const unsigned char *)"plan of the work", CLUSTER_ID};
        say(c, 0, p, 1, ++seq);
        if (coordinator_phase(c) != CLUSTER_IDLE || phase == CLUSTER_IDLE) continue;
        struct start start = {.program = 7, .bytes = "", .memory = -1, .places = places, .run = 1};
        memcpy(start.outline, "plan of the work", CLUSTER_ID);
        coordinator_start(c, &start);
    }
    return seq;
}

/* Sends every kind of answer in every phase. The coordinator must keep the worker if the phase expects this answer,
 * and lose the worker otherwise. */
static void
test_nonsense(void)
{
    static const enum packet_kind kind[] = {PACKET_MADE, PACKET_READY, PACKET_HAVE, PACKET_END, PACKET_FILED};
    static const enum packet_kind expected[CLUSTER_BROKEN] = {
        [CLUSTER_FORM] = PACKET_READY, [CLUSTER_SHIP] = PACKET_HAVE, [CLUSTER_RUN] = PACKET_END};
    for (int phase = CLUSTER_GATHER; phase < CLUSTER_BROKEN; phase++)
        for (int k = 0; k < (int)countof(kind) && phase != CLUSTER_MAKE; k++)
            /* other: 0: the answer names the expected program or run; 1: the answer names another program or run */
            for (uint32_t other = 0; other < 2; other++) {
                struct notices t = {0};
                struct coordinator *c = open_world(&t, 1);
                uint32_t seq = reach_phase(c, (enum coordinator_phase)phase);
                say(c, 0, (struct packet){.kind = (uint8_t)kind[k], .program = 7 + other, .run = 1 + other}, 1,
                    seq + 1);
                bool fits = kind[k] == expected[phase] && (!other || phase == CLUSTER_FORM);
                ok(t.n[NOTICE_LOST] == !fits && (fits || strstr(t.text, "unexpected")),
                   "%s: %s of %s program and run %s the worker", coordinator_phase_text((enum coordinator_phase)phase),
                   packet_name(kind[k]), other ? "another" : "the", fits ? "keeps" : "ends");
                coordinator_free(&c);
            }
}

/* Lets worker 1 of 3 report signals. handled: true: the user's program handles signals, so the coordinator must
 * report the signal and keep the worker; false: the coordinator must drop the worker. Returns true if this holds. */
static bool
pass(uint32_t number, uint64_t signals, bool handled)
{
    struct notices t = {0};
    char how[64];
    struct coordinator *c = open_world(&t, 3);
    coordinator_hear(c, signals);
    for (int r = 0; r < 2; r++) say(c, r, hello(r, "1", "m"), 0, 1);
    say(c, 1, (struct packet){.kind = PACKET_SIGNAL, .status = number}, 0, 2);
    bool stays = coordinator_member(c, 1)->state == MEMBER_PRESENT;
    coordinator_free(&c);
    if (t.last.rank != 1 || t.n[NOTICE_SIGNAL] != handled || t.n[NOTICE_LOST] == handled) return false;
    if (handled) return stays && !t.sent[PACKET_REFUSE] && t.last.status == (int)number;
    snprintf(how, sizeof how, "was ended by signal %u", number);
    return !stays && t.sent[PACKET_REFUSE] == 1 && !strcmp(t.text, how) && !strcmp(t.refusal, how);
}

/* Checks signals that workers report. If the program handles the signal, the coordinator must report it. Otherwise
 * the coordinator must dismiss the worker and count it as lost. */
static void
test_signals(void)
{
    static const uint32_t beyond[] = {64, 65, 79, 128, 1u << 31, UINT32_MAX};
    int wrong = 0;
    for (uint32_t number = 0; number < 64; number++)
        for (uint32_t bit = 0; bit < 64; bit++) wrong += !pass(number, 1ull << bit, number == bit);
    is_int(wrong, 0, "each number is reported if the program handles it, and else ends its worker");
    for (size_t i = 0; i < countof(beyond); i++) wrong += !pass(beyond[i], UINT64_MAX, false);
    is_int(wrong, 0, "a number that is no signal ends its worker");
}

/* Lets rank 0 of two workers report that it cannot reach rank `other`. The last heartbeat of that rank is `missed`
 * ticks old. Returns the rank that the coordinator declares lost. */
static int
lost_unreached(int other, int missed)
{
    struct notices t = {0};
    struct coordinator *c = open_world(&t, 2);
    for (int r = 0; r < 2; r++) say(c, r, hello(r, "1", "m"), 0, 1);
    for (int i = 0; i < missed; i++) coordinator_tick(c);
    say(c, 0, (struct packet){.kind = PACKET_UNREACHED, .rank = other}, 1, 2);
    coordinator_free(&c);
    return t.last.rank;
}

static void
test_unreached(void)
{
    int wrong = 0;
    for (int i = 0; i < 16; i++) wrong += lost_unreached(i / 4 - 1, i % 4) != (i / 4 == 2 && i % 4 == 3);
    is_int(wrong, 0, "a worker that cannot be reached is lost if it is silent, and else the one that cannot reach it");
}

int
main(void)
{
    test_devices();
    test_refusals();
    test_vouched();
    test_memory();
    test_never_full();
    test_lost_meanwhile();
    test_meeting();
    test_found_again();
    test_speaker();
    test_silent_speaker();
    test_slow();
    test_rows();
    test_scale();
    test_comm_ranks();
    test_added_memory();
    test_nonsense();
    test_signals();
    test_unreached();
    return done();
}
