/* cluster.c - latency and bandwidth between two processes of one host, compared with the limits of shared memory,
 * tcp and ZeroMQ.
 *
 *   bench/cluster [round trips [ROWS]]   bench/cluster.sh adds Open MPI and gloo; ROWS: prefix of the rows' names
 *
 * Latency: a round trip carries 64 bytes in each direction. With shared memory, the sender writes the bytes and
 * sends a message on the bus. With tcp, the sender sends a message of the transport thread (carry.h). The waiting
 * side spins, or sleeps at once.
 *
 * Bandwidth: blocks of 64 MiB are sent one after the other, and the receiver copies each block to private memory,
 * although a plan would read shared memory in place.
 *
 * The limits are: a word of shared memory to spin on, a futex, memcpy; a tcp socket with one thread per side;
 * ZeroMQ with an I/O thread per side. All rows are measured in turns, ROUNDS times. The least time counts, because
 * other programs on the machine only add time. */
#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/transport/carrier.h"
#include "actors/cluster/transport/carrier_channels.h"
#include "actors/cluster/memory/segment.h"
#include "actors/plan/model/plan.h"
#include "bench/clock.h"
#include "runtime/base/error.h"

#include <arpa/inet.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

enum {
    ROUNDS = 4,
    PARTS = 8,
    SMALL = 64,
    LARGE = 64 << 20,
    ZMQ_PIECE = 1 << 20,
    ACTS = 4,
    AHEAD = 2,
    SPIN_NS = 1000000,
    PORTS = 2 * CARRIER_PORT + 8
};

/* Memory that both processes map. */
struct board {
    _Alignas(64) _Atomic uint32_t ball; /* number of messages sent in both directions */
    _Alignas(64) _Atomic int met;
    char port[2][CARRIER_PORT];
    _Alignas(64) char small[SMALL], large[LARGE];
};

/* State of one of the two processes. Side 0 sends first. */
struct side {
    int side;
    bool spins;
    struct board *board;
    char *own; /* private block of LARGE bytes of this process */
    uint32_t turn;
    int socket;
    void *context, *in, *out; /* ZeroMQ context, receiving and sending socket */
    struct bus *bus;
    struct segment *segment; /* shared-memory segment of the bus */
    struct carrier *carrier;
    struct carrier_channels *carrying;
    struct plan plan;
    struct task task;
    struct channel channel;
    struct channel_slice slice;
    struct view view;
};

/* A method to transfer data. send and hear: send and receive SMALL bytes. give and get: send and receive a block
 * of LARGE bytes. ahead: maximum number of blocks that are sent before one must be acknowledged. */
struct method {
    const char *name;
    int ahead;
    bool secret;
    void (*open)(struct side *s, const struct method *w), (*close)(struct side *s);
    void (*send)(struct side *s), (*hear)(struct side *s), (*give)(struct side *s), (*get)(struct side *s);
};
static struct key key;

static void
must(int status)
{
    if (status) exit((fprintf(stderr, "cluster: %s\n", err_text()), 1));
}

static void
must_be(bool good)
{
    if (!good) exit((perror("cluster"), 1));
}

/* Waits until both sides have called this function equally often: a barrier of the two processes. */
static void
meet(struct side *s, int n)
{
    atomic_fetch_add(&s->board->met, 1);
    while (atomic_load(&s->board->met) < 2 * n) sched_yield();
}

/* ---- limit: a word of shared memory ---- */

static void
word_open(struct side *s, const struct method *w)
{
    UNUSED(s), UNUSED(w);
}

static void
word_close(struct side *s)
{
    UNUSED(s);
}

static void
word_send(struct side *s)
{
    memcpy(s->board->small, s->own, SMALL);
    atomic_store(&s->board->ball, ++s->turn);
    if (!s->spins) syscall(SYS_futex, &s->board->ball, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void
word_hear(struct side *s)
{
    uint32_t is;
    s->turn++;
    while ((is = atomic_load(&s->board->ball)) != s->turn)
        if (!s->spins) syscall(SYS_futex, &s->board->ball, FUTEX_WAIT, is, NULL, NULL, 0);
    memcpy(s->own, s->board->small, SMALL);
}

static void
word_get(struct side *s)
{
    word_hear(s);
    memcpy(s->own, s->board->large, LARGE);
}

/* ---- Rille: the bus, which carries messages between the processes of a host ---- */

static void
bus_open(struct side *s, void *segment, int nslot, const uint32_t *owner)
{
    struct bus_options o = {.process = s->side, .nthread = 1, .spin_ns = s->spins ? SPIN_NS : 0};
    must(bus_host_map(segment, bus_host_bytes(nslot), nslot, owner, &o.with));
    must(bus_host.open(&o, &s->bus));
    s->bus->kind->admit(s->bus, 1);
}

static void
host_open(struct side *s, const struct method *w)
{
    static const uint32_t owner[2] = {0, 1};
    UNUSED(w);
    bus_open(s, segment_base(s->segment), 2, owner);
}

static void
host_close(struct side *s)
{
    s->bus->kind->close(&s->bus);
}

static struct msg
message(const struct side *s, enum msg_kind kind)
{
    return (struct msg){
        .kind = kind, .out = MSG_FAR, .run = 1, .from = addr_of(s->side, 0), .to = addr_of(!s->side, 0)};
}

static void
bus_hear(struct side *s)
{
    struct msg m;
    while (bus_recv(s->bus, addr_of(s->side, 0), &m, 1, BUS_WAIT) == 0) continue;
}

static void
host_send(struct side *s)
{
    struct msg m = message(s, MSG_FULL);
    memcpy(s->board->small, s->own, SMALL);
    must(bus_send(s->bus, &m));
}

static void
host_hear(struct side *s)
{
    bus_hear(s);
    memcpy(s->own, s->board->small, SMALL);
}

static void
host_get(struct side *s)
{
    bus_hear(s);
    memcpy(s->own, s->board->large, LARGE);
}

/* ---- limit: a tcp socket ---- */

static void
socket_open(struct side *s, const struct method *w)
{
    static const int one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    UNUSED(w);
    must_be(fd >= 0);
    if (s->side == 0) {
        must_be(!bind(fd, (struct sockaddr *)&a, n) && !listen(fd, 1) && !getsockname(fd, (struct sockaddr *)&a, &n));
        memcpy(s->board->port[0], &a, sizeof a);
        meet(s, 1);
        s->socket = accept(fd, NULL, NULL);
        close(fd);
    } else {
        meet(s, 1);
        memcpy(&a, s->board->port[0], sizeof a);
        must_be(!connect(fd, (struct sockaddr *)&a, n));
        s->socket = fd;
    }
    must_be(!setsockopt(s->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
}

static void
socket_close(struct side *s)
{
    close(s->socket);
}

static void
socket_write(struct side *s, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = send(s->socket, s->own + at, size - at, 0);
        must_be(n > 0);
        at += (size_t)n;
    }
}

static void
socket_read(struct side *s, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = recv(s->socket, s->own + at, size - at, s->spins ? MSG_DONTWAIT : 0);
        must_be(n > 0 || (n < 0 && s->spins));
        if (n > 0) at += (size_t)n;
    }
}

static void
socket_send(struct side *s)
{
    socket_write(s, SMALL);
}

static void
socket_hear(struct side *s)
{
    socket_read(s, SMALL);
}

static void
socket_give(struct side *s)
{
    socket_write(s, LARGE);
}

static void
socket_get(struct side *s)
{
    socket_read(s, LARGE);
}

/* ---- limit: ZeroMQ, a socket pair in each direction ---- */

static void
zmq_open(struct side *s, const struct method *w)
{
    size_t n = CARRIER_PORT;
    UNUSED(w);
    s->context = zmq_ctx_new();
    s->in = zmq_socket(s->context, ZMQ_PULL);
    s->out = zmq_socket(s->context, ZMQ_PUSH);
    must_be(!zmq_bind(s->in, "tcp://127.0.0.1:*"));
    must_be(!zmq_getsockopt(s->in, ZMQ_LAST_ENDPOINT, s->board->port[s->side], &n));
    meet(s, 1);
    must_be(!zmq_connect(s->out, s->board->port[!s->side]));
}

static void
zmq_leave(struct side *s)
{
    zmq_close(s->in);
    zmq_close(s->out);
    zmq_ctx_term(s->context);
}

static void
zmq_say(struct side *s)
{
    must_be(zmq_send(s->out, s->own, SMALL, 0) == SMALL);
}

static void
zmq_hear(struct side *s)
{
    while (zmq_recv(s->in, s->own, SMALL, s->spins ? ZMQ_DONTWAIT : 0) < 0) must_be(s->spins);
}

/* Sends a block in pieces, so that ZeroMQ need not copy it. */
static void
zmq_give(struct side *s)
{
    for (size_t at = 0; at < LARGE; at += ZMQ_PIECE) {
        zmq_msg_t piece;
        zmq_msg_init_data(&piece, s->own + at, ZMQ_PIECE, NULL, NULL);
        must_be(zmq_msg_send(&piece, s->out, 0) == ZMQ_PIECE);
    }
}

static void
zmq_get(struct side *s)
{
    for (size_t at = 0; at < LARGE; at += ZMQ_PIECE) {
        zmq_msg_t piece;
        zmq_msg_init(&piece);
        must_be(zmq_msg_recv(&piece, s->in, 0) == ZMQ_PIECE);
        memcpy(s->own + at, zmq_msg_data(&piece), ZMQ_PIECE);
        zmq_msg_close(&piece);
    }
}

/* ---- Rille: the transport between hosts, with a single channel ---- */

static void
make_part(struct side *s)
{
    s->view = (struct view){.ndim = 1, .dim = {LARGE}, .stride = {1}};
    s->slice = (struct channel_slice){.view = &s->view};
    s->channel = (struct channel){
        .sends = s->side == 0, .peer = !s->side, .nreg = AHEAD, .bytes = LARGE, .nslice = 1, .slice = &s->slice};
    s->plan = (struct plan){.ntask = 1, .task = &s->task, .nchannel = 1, .channel = &s->channel};
}

static void
carrier_open(struct side *s, const struct method *w)
{
    static const unsigned char job[CLUSTER_ID] = "a benchmark's.";
    struct channel_far far = {.addr = addr_of(!s->side, 0)};
    uint32_t owner = (uint32_t)s->side;
    char ports[PORTS];
    must(segment_new(bus_host_bytes(1), &s->segment));
    bus_host_format(segment_base(s->segment), 1);
    bus_open(s, segment_base(s->segment), 1, &owner);
    struct carrier_options o = {.host = "127.0.0.1", .key = w->secret ? &key : NULL};
    must(carrier_new(&o, &s->carrier));
    carrier_port(s->carrier, s->board->port[s->side]);
    meet(s, 1);
    snprintf(ports, sizeof ports, "0 %s\n1 %s\n", s->board->port[0], s->board->port[1]);
    struct carrier_epoch e = {.epoch = 1, .job = job, .rank = s->side, .world = 2, .ports = ports, .bus = s->bus};
    must(carrier_join(s->carrier, &e));
    make_part(s);
    s->carrying = carrier_channels_new(s->carrier, &s->plan, &far);
    carrier_begin(s->carrier, s->carrying, 1);
}

static void
carrier_close(struct side *s)
{
    carrier_end(s->carrier);
    carrier_channels_free(&s->carrying);
    carrier_leave(s->carrier);
    carrier_free(&s->carrier);
    host_close(s);
    segment_free(&s->segment);
}

static void
carrier_send(struct side *s)
{
    struct msg m = message(s, MSG_FREE);
    must(bus_send(s->bus, &m));
}

static void
carrier_give(struct side *s)
{
    const struct transport *t = carrier_channels_transport(s->carrying);
    struct msg m = message(s, MSG_FULL);
    int64_t ticket;
    must(t->put(t->of, 0, &s->channel, s->own, &ticket));
    must(bus_send(s->bus, &m));
}

static void
carrier_get(struct side *s)
{
    const struct transport *t = carrier_channels_transport(s->carrying);
    bus_hear(s);
    must(t->take(t->of, 0, &s->channel, s->own));
}

/* ---- all methods ---- */

static const struct method methods[] = {
    {"shared memory, limit", 1, false, word_open, word_close, word_send, word_hear, word_send, word_get},
    {"shared memory, Rille", 1, false, host_open, host_close, host_send, host_hear, host_send, host_get},
    {"tcp, a socket", AHEAD, false, socket_open, socket_close, socket_send, socket_hear, socket_give, socket_get},
    {"tcp, ZeroMQ", AHEAD, false, zmq_open, zmq_leave, zmq_say, zmq_hear, zmq_give, zmq_get},
    {"tcp, Rille", AHEAD, false, carrier_open, carrier_close, carrier_send, bus_hear, carrier_give, carrier_get},
    {"tcp, Rille with a key", AHEAD, true, carrier_open, carrier_close, carrier_send, bus_hear, carrier_give,
     carrier_get},
};
enum { NWAY = countof(methods) };

static void
play_round_trips(struct side *s, const struct method *w, int n)
{
    for (int i = 0; i < n; i++) {
        if (s->side == 0) w->send(s);
        w->hear(s);
        if (s->side == 1) w->send(s);
    }
}

static void
play_gifts(struct side *s, const struct method *w, int n)
{
    for (int i = 0; i < n && s->side == 1; i++) {
        w->get(s);
        w->send(s);
    }
    for (int i = 0; i < n + w->ahead && s->side == 0; i++) {
        if (i >= w->ahead) w->hear(s);
        if (i < n) w->give(s);
    }
}

typedef void player(struct side *s, const struct method *w, int n);

static double
play_side(struct side *s, const struct method *w, player *play, int n)
{
    double best = 1e30;
    s->own = must_alloc(LARGE);
    memset(s->own, 1, LARGE);
    w->open(s, w);
    play(s, w, n / 8 + 1);
    for (int i = 0; i < PARTS; i++) {
        double begin = now_us();
        play(s, w, n);
        best = MIN(best, (now_us() - begin) / n);
    }
    while (atomic_load(&s->board->met) % 2 != s->side) usleep(1000); /* side 1 waits until side 0 has arrived */
    atomic_fetch_add(&s->board->met, 1);
    w->close(s);
    free(s->own);
    return best;
}

/* Measures, on side 0, the microseconds per message or block. */
static double
measure(const struct method *w, player *play, bool spins, int n)
{
    size_t bus = (bus_host_bytes(2) + 63) / 64 * 64;
    struct side s = {.spins = spins};
    struct segment *shared;
    must(segment_new(bus + sizeof *s.board, &shared));
    bus_host_format(segment_base(shared), 2);
    s.segment = shared;
    s.board = (void *)(segment_base(shared) + bus);
    memset(s.board->large, 1, LARGE);
    pid_t child = fork();
    must_be(child >= 0);
    s.side = child == 0;
    double took = play_side(&s, w, play, n);
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    segment_free(&shared);
    return took;
}

int
main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 500;
    const char *rows = argc > 2 ? argv[2] : "";
    double best[NWAY][3];
    struct str text = {0};
    must(key_new(&text));
    must(key_parse(text.text, text.len, &key));
    str_free(&text);
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < NWAY; i++) {
            if (strncmp(methods[i].name, rows, strlen(rows))) continue;
            double us[3] = {measure(&methods[i], play_round_trips, true, n),
                            measure(&methods[i], play_round_trips, false, n),
                            measure(&methods[i], play_gifts, false, ACTS)};
            for (int j = 0; j < 3; j++) best[i][j] = k == 0 || us[j] < best[i][j] ? us[j] : best[i][j];
        }
    printf("%-28s %12s %12s %12s\n", "two processes", "spinning us", "sleeping us", "GB/s");
    for (int i = 0; i < NWAY; i++)
        if (!strncmp(methods[i].name, rows, strlen(rows)))
            printf("%-28s %12.2f %12.2f %12.2f\n", methods[i].name, best[i][0], best[i][1], LARGE / best[i][2] * 1e-3);
    return 0;
}
