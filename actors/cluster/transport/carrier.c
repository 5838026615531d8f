/* carrier.c - links to workers of other hosts, and the thread that owns the links. A net carries the messages
 * (net_zmq.c, net_mpi.c).
 *
 * Device threads send messages and parcels. A parcel is the bytes that one act of a SEND task sends. If the links are
 * free, the device thread itself sends. If a link is busy, it queues an item for the carrier's thread. A message is
 * sent in one piece, a parcel in several. Received data is not trusted: job, epoch, run, task and offset are checked.
 * Received pieces stay in ZeroMQ's memory until the RECV task acts and copies the bytes into its register.
 *
 * ZeroMQ calls released() on a thread of its own when it no longer needs a piece's memory. An act of a
 * SEND is complete (its ticket is done, struct transport) when ZeroMQ has released all pieces of its parcel. */
#include "actors/cluster/transport/net_zmq.h"
#include "actors/cluster/transport/carrier_channels.h"
#include "actors/cluster/transport/traffic.h"

#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/wire/curve.h"
#include "actors/act/bus/context.h"
#include "actors/plan/model/plan.h"
#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 100 };

void
carrier_wake(struct carrier *c)
{
    if (atomic_exchange(&c->asleep, false)) system_raise(&c->wake);
}

/* ---- links ---- */

static void
close_peer(struct carrier *c, int rank)
{
    struct peer *p = &c->peer[rank];
    c->net->close(c, rank);
    p->first = NULL;
    p->last = &p->first;
    p->down_ns = 0;
}

static void
close_peers(struct carrier *c)
{
    for (int r = 0; r < c->world; r++) close_peer(c, r);
    c->joined = false;
}

static void
carrier_lose(struct carrier *c, int unreached, const char *fmt, int rank)
{
    char how[256];
    if (c->told_lost) return;
    c->told_lost = true;
    snprintf(how, sizeof how, fmt, rank);
    c->hear.lost(c->hear.of, unreached, how);
}

/* Acknowledges messages of a worker. Reports the worker as lost if the link to it stays down for link_ms. If the
 * link is down because the worker ended, the coordinator usually ends the epoch before that. */
static void
look_after(struct carrier *c, int rank)
{
    struct peer *p = &c->peer[rank];
    bool down = c->net->is_down(c, rank);
    if (down && !p->down_ns) p->down_ns = now_ns();
    if (!down && c->net->ready(c, rank)) p->down_ns = 0;
    carrier_acknowledge(c, rank);
    if (p->down_ns && now_ns() - p->down_ns > c->link_ms * 1000000ll)
        carrier_lose(c, rank, "lost its connection to worker %d", rank);
}

/* ---- sending ---- */

static void
forget_body(void *data, void *hint)
{
    UNUSED(hint);
    free(data);
}

struct head
carrier_head(const struct carrier *c, const struct msg *m)
{
    struct head h = {.m = *m};
    memcpy(h.job, c->job, CLUSTER_ID);
    h.m.epoch = c->epoch;
    return h;
}

static struct peer *
carrier_peer(struct carrier *c, int rank)
{
    if (!c->joined || rank < 0 || rank >= c->world || rank == c->rank) return NULL;
    struct peer *p = &c->peer[rank];
    if (c->net == &net_zmq && !p->port[MESSAGES][0]) return NULL;
    if (!c->net->connect(c, rank)) return p;
    err_clear();
    p->down_ns = p->down_ns ? p->down_ns : now_ns();
    return NULL;
}

bool
carrier_knows(struct carrier *c, int rank)
{
    return carrier_peer(c, rank) != NULL;
}

static void
send_message(struct carrier *c, const struct msg *m)
{
    int rank = addr_process(m->to);
    struct head h = carrier_head(c, m);
    if (carrier_peer(c, rank)) c->net->send(c, rank, MESSAGES, &h, NULL);
}

/* Counts a piece (part of an act's bytes) as released. ZeroMQ calls released() on its own thread when it no longer
 * needs the piece's memory. */
static void
released(void *data, void *hint)
{
    struct parcel *parcel = hint;
    struct carrier_channel *l = parcel->lane;
    struct carrier *c = l->of->carrier;
    uint32_t from = parcel->m.from;
    struct peer *p = &c->peer[addr_process(l->far_addr)];
    UNUSED(data);
    if (atomic_fetch_sub(&parcel->left, 1) == 1) {
        atomic_fetch_add(&l->gone, 1);
        bus_host.nudge(c->bus, from);
    }
    atomic_fetch_sub(&p->flying, 1);
    /* must be last: a thread that waits for 0 may free the channels */
    atomic_fetch_sub(&c->flying, 1);
    carrier_wake(c);
}

static void
send_piece(struct carrier *c, struct peer *p, struct parcel *parcel)
{
    int64_t n = MIN(parcel->lane->c->bytes - parcel->sent, (int64_t)PIECE);
    struct head h = carrier_head(c, &parcel->m);
    zmq_msg_t piece;
    h.offset = (uint64_t)parcel->sent;
    atomic_fetch_add(&p->flying, 1);
    atomic_fetch_add(&c->flying, 1);
    zmq_msg_init_data(&piece, (void *)(uintptr_t)(parcel->bytes + parcel->sent), (size_t)n, released, parcel);
    parcel->sent += n;
    c->net->send(c, addr_process(parcel->m.to), BYTES, &h, &piece);
}

/* Sends further pieces (parts of acts' bytes) to a peer, as long as fewer than CREDITS pieces to this peer are in
 * flight. */
static void
send_peer_pieces(struct carrier *c, struct peer *p)
{
    while (p->first && atomic_load(&p->flying) < CREDITS) {
        struct parcel *parcel = p->first;
        /* the last piece of the parcel: the parcel leaves the queue first, because it may be reused as soon as the
         * piece is sent */
        if (parcel->sent + PIECE >= parcel->lane->c->bytes) {
            p->first = parcel->next;
            if (!p->first) p->last = &p->first;
        }
        send_piece(c, p, parcel);
    }
}

static void
line_up_parcel(struct carrier *c, struct parcel *parcel)
{
    struct peer *p = carrier_peer(c, addr_process(parcel->m.to));
    if (!p || atomic_load(&c->dropping)) return;
    parcel->next = NULL;
    *p->last = parcel;
    p->last = &parcel->next;
}

static void
send_item(struct carrier *c, const struct item *i)
{
    if (i->parcel)
        line_up_parcel(c, i->parcel);
    else if (i->m.kind == CARRIER_FETCH)
        carrier_send_fetch(c, i);
    else
        send_message(c, &i->m);
}

static void
drain_queue(struct carrier *c)
{
    pthread_mutex_lock(&c->queue_lock);
    struct item *item = c->queue;
    int32_t n = c->nqueue, capacity = c->queue_capacity;
    c->queue = c->draining;
    c->queue_capacity = c->draining_capacity;
    c->nqueue = 0;
    pthread_mutex_unlock(&c->queue_lock);
    c->draining = item;
    c->draining_capacity = capacity;
    for (int32_t i = 0; i < n; i++) send_item(c, &item[i]);
    for (int r = 0; r < c->world; r++)
        if (c->peer[r].first) send_peer_pieces(c, &c->peer[r]);
}

static bool
has_queue(struct carrier *c)
{
    pthread_mutex_lock(&c->queue_lock);
    bool has = c->nqueue > 0;
    pthread_mutex_unlock(&c->queue_lock);
    return has;
}

/* Sends an item on the calling device thread if the carrier's lock is free, the link is open and the queue is empty;
 * returns false if not. Sending on the device thread saves waking the carrier's thread. */
static bool
send_now(struct carrier *c, const struct item *i)
{
    int rank = addr_process(i->m.to);
    if (pthread_mutex_trylock(&c->lock)) return false;
    bool now = c->joined && rank < c->world && !atomic_load(&c->cut) && c->net->ready(c, rank) && !has_queue(c);
    if (now) send_item(c, i);
    if (now && i->parcel) send_peer_pieces(c, &c->peer[rank]);
    pthread_mutex_unlock(&c->lock);
    return now;
}

void
carrier_post(struct carrier *c, const struct item *i)
{
    pthread_mutex_lock(&c->queue_lock);
    GROW(c->queue, c->nqueue + 1, c->queue_capacity);
    c->queue[c->nqueue++] = *i;
    pthread_mutex_unlock(&c->queue_lock);
    carrier_wake(c);
}

/* Sends a message to a worker of another host. If a FULL message announces bytes of a channel, it is sent behind the
 * bytes. Device thread. */
static int
send_far(void *of, const struct msg *m)
{
    struct carrier *c = of;
    struct carrier_channels *k = c->carrying;
    struct carrier_channel *l = k && m->kind == MSG_FULL && m->out == MSG_FAR ? carrier_channels_find(k, m) : NULL;
    struct item i = {.m = *m, .parcel = l ? &l->parcel[l->told++ % l->c->nreg] : NULL};
    if (i.parcel) i.parcel->m = *m;
    if (!send_now(c, &i)) carrier_post(c, &i);
    return 0;
}

/* ---- receiving ---- */

/* Receives the next message of a road, one of the two streams from other workers (MESSAGES or BYTES); false: none
 * has arrived. */
static bool
take_next(struct carrier *c, enum road road)
{
    zmq_msg_close(&c->body[road]);
    zmq_msg_init(&c->body[road]);
    return net_zmq.receive(c, road, &c->head[road], &c->body[road]) ||
           (c->mpi && net_mpi.receive(c, road, &c->head[road], &c->body[road]));
}

/* Returns this worker's end of the channel whose RECV task is named by a message of the current run; NULL: the
 * message is invalid. */
static struct carrier_channel *
lane_for(const struct carrier *c, const struct head *h)
{
    const struct carrier_channels *k = h->m.run == c->run ? c->carrying : NULL;
    const struct task *t = k && h->m.task < (uint32_t)k->plan->ntask ? &k->plan->task[h->m.task] : NULL;
    return t && t->channel >= 0 ? &k->lane[t->channel] : NULL;
}

static enum fate
carrier_take_message(struct carrier *c, const struct head *h, zmq_msg_t *body)
{
    int from = addr_process(h->m.from);
    if (h->m.kind == CARRIER_ASK) {
        c->hear.asked(c->hear.of, c->epoch, from, h->program);
        return FATE_DONE;
    }
    if (h->m.kind == CARRIER_LIST) {
        c->hear.listed(c->hear.of, c->epoch, from, h->program, zmq_msg_data(body), zmq_msg_size(body));
        return FATE_DONE;
    }
    if (h->m.kind == CARRIER_FETCH) return carrier_take_fetch(c, h, body);
    bool known = h->m.kind == MSG_FULL || h->m.kind == MSG_FREE || h->m.kind == MSG_STOP;
    if (!known || h->m.out != MSG_FAR) return FATE_STRANGE;
    if (run_after(h->m.run, c->run)) return FATE_LATER;
    const struct carrier_channel *l = h->m.kind == MSG_FULL ? lane_for(c, h) : NULL;
    /* FULL announces received bytes. If its channel has bytes, it must arrive behind them, on the road BYTES */
    if (l && l->piece) return FATE_STRANGE;
    return bus_host_fetch(c->bus, &h->m) ? FATE_DONE : FATE_LATER;
}

static enum fate
take_piece(struct carrier *c, const struct head *h, zmq_msg_t *body)
{
    if (h->m.kind == CARRIER_VOID) return FATE_DONE;
    if (h->m.kind == CARRIER_FETCHED) return carrier_take_fetched(c, h, body);
    if (run_after(h->m.run, c->run)) return FATE_LATER;
    if (h->m.run != c->run || !c->carrying) return FATE_DONE;
    struct carrier_channel *l = lane_for(c, h);
    if (!l || !l->piece || h->m.kind != MSG_FULL || h->m.out != MSG_FAR) return FATE_STRANGE;
    size_t want = (size_t)MIN(l->c->bytes - l->offset, (int64_t)PIECE);
    if (h->offset != (uint64_t)l->offset || zmq_msg_size(body) != want ||
        l->came - atomic_load(&l->taken) >= l->c->nreg)
        return FATE_STRANGE;
    bool last = l->offset + (int64_t)want == l->c->bytes;
    if (last && !bus_host_fetch_room(c->bus, &h->m)) return FATE_LATER;
    zmq_msg_move(&l->piece[l->came % l->c->nreg * l->npiece + l->offset / PIECE], body);
    l->offset += (int64_t)want;
    if (!last) return FATE_DONE;
    l->offset = 0;
    l->came++;
    bus_host_fetch(c->bus, &h->m);
    return FATE_DONE;
}

enum fate
carrier_take(struct carrier *c, enum road road, const struct head *h, zmq_msg_t *body)
{
    if (memcmp(h->job, c->job, CLUSTER_ID) || h->m.epoch != c->epoch || !c->joined)
        return run_after(h->m.epoch, c->epoch) ? FATE_LATER : FATE_DONE;
    if (!carrier_admit(c, road, h)) return FATE_DONE;
    size_t nbyte = zmq_msg_size(body);
    enum fate fate = road == MESSAGES ? carrier_take_message(c, h, body) : take_piece(c, h, body);
    if (fate == FATE_DONE) carrier_accept(c, road, h, nbyte);
    return fate;
}

static void
carrier_receive(struct carrier *c, enum road road)
{
    if (!c->look[road] && !c->held[road]) return;
    c->look[road] = false;
    while (c->held[road] || take_next(c, road)) {
        enum fate fate = carrier_take(c, road, &c->head[road], &c->body[road]);
        c->held[road] = fate == FATE_LATER;
        if (fate == FATE_LATER) return;
        if (fate == FATE_STRANGE)
            carrier_lose(c, -1, "received an invalid message from worker %d: it belongs to no channel of the run",
                         addr_process(c->head[road].m.from));
    }
}

/* ---- the thread ---- */

/* Opens MPI. If MPI's ranks differ from the cluster's ranks, every worker detects the difference and uses tcp. */
static void
carrier_open_mpi(struct carrier *c)
{
    c->net = &net_mpi;
    if (mpi_open(c)) {
        snprintf(c->why, sizeof c->why, "%s", err_text());
        mpi_break(c);
        c->net = &net_zmq;
    }
    atomic_store(&c->opens, false);
}

static void
carrier_pump(struct carrier *c)
{
    if (atomic_load(&c->lost)) mpi_break(c);
    if (atomic_exchange(&c->cut, false)) close_peers(c);
    if (atomic_load(&c->opens)) carrier_open_mpi(c);
    drain_queue(c);
    carrier_receive(c, MESSAGES);
    carrier_receive(c, BYTES);
    if (now_ns() < c->tick_ns) return;
    for (int r = 0; c->joined && r < c->world; r++) look_after(c, r);
    c->tick_ns = now_ns() + TICK_MS * 1000000ll;
}

static bool
is_carrier_idle(struct carrier *c)
{
    pthread_mutex_lock(&c->queue_lock);
    bool idle = c->nqueue == 0;
    pthread_mutex_unlock(&c->queue_lock);
    for (int r = 0; r < c->world && idle; r++) idle = !c->peer[r].first || atomic_load(&c->peer[r].flying) >= CREDITS;
    return idle && !atomic_load(&c->cut);
}

static int
fd_of(void *socket)
{
    int fd = -1;
    size_t n = sizeof fd;
    zmq_getsockopt(socket, ZMQ_FD, &fd, &n);
    return fd;
}

/* Returns the time at which the thread wakes even without an event. */
static struct timespec
nap_of(const struct carrier *c)
{
    int64_t us = c->mpi && mpi_is_busy(c) ? 20 : c->mpi || c->held[MESSAGES] || c->held[BYTES] ? 1000 : TICK_MS * 1000;
    return (struct timespec){.tv_nsec = us * 1000};
}

static void *
carrier_thread(void *arg)
{
    struct carrier *c = arg;
    struct pollfd fd[] = {{.fd = c->wake.fd, .events = POLLIN},
                          {.fd = fd_of(c->in[MESSAGES]), .events = POLLIN},
                          {.fd = fd_of(c->in[BYTES]), .events = POLLIN}};
    pthread_mutex_lock(&c->lock);
    while (!c->quit) {
        carrier_pump(c);
        struct timespec nap = nap_of(c);
        atomic_store(&c->asleep, true);
        bool idle = is_carrier_idle(c), always = !idle || c->mpi;
        pthread_mutex_unlock(&c->lock);
        int ready = idle ? system_poll(fd, countof(fd), &nap, NULL) : 0;
        atomic_store(&c->asleep, false);
        for (int road = 0; road < NROAD; road++) c->look[road] = always || ready < 0 || fd[1 + road].revents;
        if (fd[0].revents) system_lower(&c->wake);
        pthread_mutex_lock(&c->lock);
    }
    mpi_close(c);
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->over, true);
    return NULL;
}

static int
find_mpi(struct carrier *c)
{
    if (c->wants == CARRIER_TCP) return 0;
    int status = mpi_find(&c->plugin);
    snprintf(c->why, sizeof c->why, "%s", status ? err_text() : "");
    return c->wants == CARRIER_MPI ? status : 0;
}

static int
carrier_open(struct carrier *c, const char *host)
{
    TRY(find_mpi(c));
    TRY(context_new(1, 1 << 16, &c->context));
    if (c->has_key) TRY(curve_new(c->context, &c->key, &c->curve));
    TRY(net_zmq_bind(c, MESSAGES, host));
    TRY(net_zmq_bind(c, BYTES, host));
    if (system_event_open(&c->wake)) return fail(E_IO, "cannot create an event descriptor: %s", strerror(errno));
    TRY(thread_start(&c->thread, carrier_thread, c));
    c->runs = true;
    return 0;
}

int
carrier_new(const struct carrier_options *o, struct carrier **out)
{
    struct carrier *c = must_alloc(sizeof *c);
    c->hear = o->hear;
    c->net = &net_zmq;
    c->wants = o->mpi;
    c->link_ms = o->link_ms ? o->link_ms : LINK_MS;
    c->has_key = o->key != NULL;
    if (o->key) key_copy(o->key, &c->key);
    c->wake = SYSTEM_NO_EVENT;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->queue_lock, NULL);
    for (int road = 0; road < NROAD; road++) zmq_msg_init(&c->body[road]);
    int status = carrier_open(c, o->host);
    if (status) carrier_free(&c);
    *out = c;
    return status;
}

/* Joins the carrier's thread. Closing MPI waits for every worker, but some workers may no longer exist. So after
 * WAIT_S seconds the function returns false, and MPI stays open until the process ends. */
static bool
join_thread(struct carrier *c, bool has_mpi)
{
    enum { WAIT_S = 3 };
    int64_t until = now_ns() + WAIT_S * 1000000000ll;
    while (c->runs && has_mpi && !atomic_load(&c->over)) {
        struct timespec nap = {.tv_nsec = 1000000};
        if (now_ns() > until) return false;
        nanosleep(&nap, NULL);
    }
    return !c->runs || !pthread_join(c->thread, NULL);
}

void
carrier_free(struct carrier **cp)
{
    struct carrier *c = *cp;
    *cp = NULL;
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    bool has_mpi = c->mpi != NULL;
    pthread_mutex_unlock(&c->lock);
    carrier_wake(c);
    if (!join_thread(c, has_mpi)) return;
    close_peers(c);
    for (int road = 0; road < NROAD; road++) {
        zmq_msg_close(&c->body[road]);
        if (c->in[road]) zmq_close(c->in[road]);
    }
    if (c->context) zmq_ctx_shutdown(c->context);
    curve_free(&c->curve);
    while (c->context && zmq_ctx_term(c->context) && errno == EINTR) continue;
    system_event_close(&c->wake);
    key_forget(&c->key);
    free(c->peer);
    free(c->queue);
    free(c->draining);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->queue_lock);
    free(c);
}

void
carrier_port(const struct carrier *c, char text[CARRIER_PORT])
{
    int n = snprintf(text, CARRIER_PORT, "%s %s", c->port[MESSAGES], c->port[BYTES]);
    assert(n < CARRIER_PORT);
}

bool
carrier_has_mpi(const struct carrier *c)
{
    return c->plugin && !c->was_joined;
}

/* ---- epochs ---- */

/* Reads a line "3 tcp://10.0.0.1:40000 tcp://10.0.0.1:40001": a rank and the addresses of its two roads. Keeps an
 * address that is already known. */
static void
read_port(struct carrier *c, const char *line, size_t n)
{
    char text[2 * CARRIER_PORT], *rest = text;
    if (n >= sizeof text) return;
    snprintf(text, sizeof text, "%.*s", (int)n, line);
    char *end;
    long rank = strtol(strsep(&rest, " "), &end, 10);
    if (*end || rank < 0 || rank >= c->world || c->peer[rank].port[MESSAGES][0]) return;
    for (int road = 0; road < NROAD; road++) {
        const char *port = strsep(&rest, " ");
        snprintf(c->peer[rank].port[road], CARRIER_PORT, "%s", port ? port : "");
    }
}

static void
read_ports(struct carrier *c, const char *line)
{
    while (*line) {
        size_t n = strcspn(line, "\n");
        read_port(c, line, n);
        line += n + (line[n] == '\n');
    }
}

static void
new_peers(struct carrier *c, int world)
{
    free(c->peer);
    c->peer = must_alloc(sizeof *c->peer * (size_t)world);
    for (int r = 0; r < world; r++) c->peer[r].last = &c->peer[r].first;
    c->world = world;
}

void
carrier_meet(struct carrier *c, const char *ports)
{
    pthread_mutex_lock(&c->lock);
    read_ports(c, ports);
    pthread_mutex_unlock(&c->lock);
}

/* Returns true if every worker has MPI in this epoch; if not, stores the reason in c->why. */
static bool
all_have_mpi(struct carrier *c, int lacks)
{
    if (c->wants == CARRIER_TCP) return false;
    if (lacks >= 0 && !*c->why)
        snprintf(c->why, sizeof c->why, "worker %d has no MPI%s", lacks, c->was_joined ? " any more" : "");
    return lacks < 0;
}

static void
await_mpi(struct carrier *c)
{
    carrier_wake(c);
    while (atomic_load(&c->opens)) {
        struct timespec nap = {.tv_nsec = 200000};
        nanosleep(&nap, NULL);
    }
}

int
carrier_join(struct carrier *c, const struct carrier_epoch *e)
{
    struct bus_far far = {c, send_far};
    carrier_leave(c);
    pthread_mutex_lock(&c->lock);
    new_peers(c, e->world);
    read_ports(c, e->ports);
    c->rank = e->rank;
    c->epoch = e->epoch;
    memcpy(c->job, e->job, CLUSTER_ID);
    c->bus = e->bus;
    bus_host_far(e->bus, &far);
    atomic_store(&c->cut, false);
    c->net = &net_zmq;
    atomic_store(&c->opens, all_have_mpi(c, e->lacks));
    c->joined = c->was_joined = true;
    c->told_lost = false;
    pthread_mutex_unlock(&c->lock);
    await_mpi(c);
    if (c->wants == CARRIER_MPI && c->net != &net_mpi) return fail(E_BUS, "%s", c->why);
    return 0;
}

const char *
carrier_why_tcp(const struct carrier *c)
{
    return c->wants != CARRIER_TCP && c->net != &net_mpi ? c->why : NULL;
}

/* Releases the pieces that are kept for repetition, without waiting for acknowledgements. An acknowledgement can be
 * behind a message that waits for the next run. */
void
carrier_await(struct carrier *c)
{
    pthread_mutex_lock(&c->lock);
    for (int r = 0; r < c->world; r++) traffic_void(&c->peer[r].traffic[BYTES]);
    pthread_mutex_unlock(&c->lock);
    while (atomic_load(&c->flying) > 0) {
        struct timespec nap = {.tv_nsec = 50000};
        nanosleep(&nap, NULL);
    }
}

void
carrier_cut(struct carrier *c, bool lost)
{
    if (lost) atomic_store(&c->lost, true);
    atomic_store(&c->cut, true);
    carrier_wake(c);
}

/* Waits until the carrier's thread has closed all links, because only that thread may call MPI. */
static void
await_cut(struct carrier *c)
{
    carrier_cut(c, false);
    while (atomic_load(&c->cut)) {
        struct timespec nap = {.tv_nsec = 50000};
        nanosleep(&nap, NULL);
    }
}

void
carrier_leave(struct carrier *c)
{
    if (c->mpi) await_cut(c);
    pthread_mutex_lock(&c->lock);
    close_peers(c);
    c->carrying = NULL;
    pthread_mutex_lock(&c->queue_lock);
    c->nqueue = 0; /* drops the queued items, because they belong to the epoch that ends */
    pthread_mutex_unlock(&c->queue_lock);
    pthread_mutex_unlock(&c->lock);
    carrier_await(c);
    pthread_mutex_lock(&c->lock);
    c->bus = NULL;
    pthread_mutex_unlock(&c->lock);
}

/* ---- lists ---- */

struct msg
carrier_speech(const struct carrier *c, int kind, int rank)
{
    return (struct msg){.kind = (uint8_t)kind, .from = addr_of(c->rank, 0), .to = addr_of(rank, 0)};
}

void
carrier_ask(struct carrier *c, int rank, uint64_t program)
{
    struct msg m = carrier_speech(c, CARRIER_ASK, rank);
    pthread_mutex_lock(&c->lock);
    struct head h = carrier_head(c, &m);
    h.program = program;
    if (carrier_peer(c, rank)) c->net->send(c, rank, MESSAGES, &h, NULL);
    pthread_mutex_unlock(&c->lock);
}

void
carrier_list(struct carrier *c, int rank, uint64_t program, const void *bytes, size_t n)
{
    struct msg m = carrier_speech(c, CARRIER_LIST, rank);
    zmq_msg_t body;
    pthread_mutex_lock(&c->lock);
    struct head h = carrier_head(c, &m);
    h.program = program;
    if (n <= LIST_MOST && carrier_peer(c, rank) && !zmq_msg_init_data(&body, must_copy(bytes, n), n, forget_body, NULL))
        c->net->send(c, rank, MESSAGES, &h, &body);
    pthread_mutex_unlock(&c->lock);
}
