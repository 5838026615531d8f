/* net_mpi.c - links over MPI, by the plug-in: a message is a header, followed by its body. The MPI tag says whether
 * the bytes are a header or a body, and on which road (messages or bytes).
 *
 * A worker's MPI rank is its rank in the cluster. MPI has no descriptor to sleep on, so the carrier's thread polls.
 * MPI does not report the end of a link; the coordinator reports lost workers. After a loss MPI is broken for this
 * process: pending sends are abandoned, and no MPI function is called any more. */
#include "actors/cluster/transport/carrier_inner.h"

#include "actors/cluster/transport/net_mpi.h"
#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/device/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plug-in ---- */

/* Returns the name of the MPI library whose launcher started this process; NULL: unknown. */
static const char *
launched_by(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") ? "Open MPI" : getenv("MPI_LOCALRANKID") ? "MPICH" : NULL;
}

static int
load_mpi_plugin(const struct mpi_plugin **out)
{
    void *file = plugin_open("librille-mpi.so", true);
    mpi_plugin_get *get;
    if (!file) return fail(E_BUS, "no MPI plug-in: %s", dlerror());
    *(void **)&get = dlsym(file, "rille_mpi_plugin");
    const struct mpi_plugin *p = get ? get() : NULL;
    const char *launcher = launched_by();
    if (!p || p->version != MPI_PLUGIN_VERSION)
        return fail(E_BUS,
                    "librille-mpi.so has interface version %d, expected %d: install the one of this version of Rille",
                    p ? p->version : 0, MPI_PLUGIN_VERSION);
    if (launcher && strncmp(launcher, p->library, strlen(launcher)))
        return fail(E_BUS,
                    "librille-mpi.so was built for %s, and this process was started by the launcher of %s: build Rille "
                    "with that MPI, or set RILLE_TRANSPORT=tcp",
                    p->library, launcher);
    *out = p;
    return 0;
}

int
mpi_find(const struct mpi_plugin **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct mpi_plugin *found;
    pthread_mutex_lock(&lock);
    int status = found ? 0 : load_mpi_plugin(&found);
    *out = found;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- pending operations ---- */

struct mpi_head {
    struct head head;
    uint64_t body; /* size of the body in bytes */
    uint64_t has_body;
};

enum { HEAD, BODY };
enum { FINISH_MS = 200 };

struct sending {
    struct sending *next;
    struct mpi_head head;
    zmq_msg_t body;
    void *ticket[2]; /* tickets of the sends of header and body; NULL: complete */
};

struct receiving { /* by road: the header received last, and its body while the body is being received */
    void *ticket;
    char *bytes;
    struct mpi_head head;
};

struct line { /* pending sends to one worker, in order of sending */
    struct sending *first, **last;
};

struct mpi {
    const struct mpi_plugin *plugin;
    struct line *to; /* pending sends to the worker of each rank */
    int world, nsending;
    struct receiving road[NROAD];
    bool broken;
};

static int
tag_of(enum road road, int part)
{
    return 2 * (int)road + part;
}

int
mpi_open(struct carrier *c)
{
    int rank = -1, size = 0;
    if (c->plugin->open(&rank, &size)) return fail(E_BUS, "MPI cannot be initialised");
    c->mpi = must_alloc(sizeof *c->mpi);
    c->mpi->plugin = c->plugin;
    c->mpi->world = c->world;
    c->mpi->to = must_alloc(sizeof *c->mpi->to * (size_t)c->world);
    for (int r = 0; r < c->world; r++) c->mpi->to[r].last = &c->mpi->to[r].first;
    if (rank == c->rank && size == c->world) return 0;
    return fail(E_BUS, "MPI reports rank %d of %d, which is not this worker's: its library is not the launcher's", rank,
                size);
}

static struct sending *
remove_first(struct mpi *m, struct line *l)
{
    struct sending *s = l->first;
    l->first = s->next;
    if (!l->first) l->last = &l->first;
    m->nsending--;
    return s;
}

static void
free_sending(struct sending *s)
{
    if (s->head.has_body) zmq_msg_close(&s->body);
    free(s);
}

/* Keeps an abandoned send until the process ends, because MPI may still read its bytes. A piece (part of an act's
 * bytes) is counted as released, because the end of the run waits for that. */
static void
keep_sending(struct sending *s, bool piece)
{
    static struct sending *kept;
    if (piece) zmq_msg_close(&s->body);
    s->next = kept;
    kept = s;
}

/* Abandons the pending sends to a worker. After abandoning a send, MPI is broken. */
static void
give_up_mpi(struct mpi *m, int rank)
{
    m->broken = m->broken || m->to[rank].first;
    while (m->to[rank].first) {
        struct sending *s = remove_first(m, &m->to[rank]);
        if (s->ticket[HEAD] || s->ticket[BODY])
            keep_sending(s, s->head.has_body && s->head.head.m.kind == MSG_FULL);
        else
            free_sending(s);
    }
}

static void
give_up_all(struct mpi *m)
{
    for (int r = 0; r < m->world; r++) give_up_mpi(m, r);
}

void
mpi_break(struct carrier *c)
{
    if (!c->mpi) return;
    c->mpi->broken = true;
    give_up_all(c->mpi);
}

void
mpi_close(struct carrier *c)
{
    struct mpi *m = c->mpi;
    c->mpi = NULL;
    if (!m) return;
    give_up_all(m);
    if (!m->broken) m->plugin->close();
    free(m->to);
    free(m);
}

/* Returns true if the operation of a ticket is complete. If the operation failed, marks MPI as broken. */
static bool
mpi_is_over(struct mpi *m, void **ticket)
{
    if (!*ticket) return true;
    enum mpi_done done = m->plugin->done(*ticket);
    if (done == MPI_NOT_YET) return false;
    *ticket = NULL;
    m->broken = m->broken || done == MPI_FAILED;
    return true;
}

/* Frees completed sends. For each worker, frees them in the order of sending only, because a channel's ticket (its
 * state for the engine) is a number of acts and is done when that many acts are released. */
static void
mpi_collect(struct mpi *m)
{
    for (int r = 0; r < m->world && m->nsending && !m->broken; r++)
        for (struct sending *s;
             (s = m->to[r].first) && mpi_is_over(m, &s->ticket[HEAD]) && mpi_is_over(m, &s->ticket[BODY]);)
            free_sending(remove_first(m, &m->to[r]));
}

/* ---- the net ---- */

static int
connect_mpi(struct carrier *c, int rank)
{
    UNUSED(rank);
    return c->mpi && !c->mpi->broken ? 0 : fail(E_BUS, "MPI is closed, or has failed");
}

/* Waits for pending sends to the worker for at most FINISH_MS, then abandons sends that are still pending. Does not
 * wait if MPI is broken. */
static void
carrier_close_mpi(struct carrier *c, int rank)
{
    struct mpi *m = c->mpi;
    int64_t until = now_ns() + FINISH_MS * 1000000ll;
    while (m && m->to[rank].first && !m->broken && now_ns() < until) mpi_collect(m);
    if (m) give_up_mpi(m, rank);
}

static void
carrier_send_mpi(struct carrier *c, int rank, enum road road, const struct head *h, zmq_msg_t *body)
{
    struct mpi *m = c->mpi;
    struct sending *s = must_alloc(sizeof *s);
    size_t n = body ? zmq_msg_size(body) : 0;
    s->head = (struct mpi_head){*h, n, body != NULL};
    if (body) {
        zmq_msg_init(&s->body);
        zmq_msg_move(&s->body, body);
    }
    *m->to[rank].last = s;
    m->to[rank].last = &s->next;
    m->nsending++;
    s->ticket[HEAD] = m->plugin->send(rank, tag_of(road, HEAD), &s->head, sizeof s->head);
    if (n) s->ticket[BODY] = m->plugin->send(rank, tag_of(road, BODY), zmq_msg_data(&s->body), n);
    if (!s->ticket[HEAD] || (n && !s->ticket[BODY])) m->broken = true;
}

static void
free_bytes(void *data, void *hint)
{
    UNUSED(hint);
    free(data);
}

/* Begins to receive the body of a received header. Returns false if the body is too long, or MPI failed. */
static bool
expect_body(struct mpi *m, enum road road, int rank)
{
    struct receiving *r = &m->road[road];
    if (r->head.body > LIST_MOST) return false;
    r->bytes = must_alloc(r->head.body);
    r->ticket = m->plugin->receive(rank, tag_of(road, BODY), r->bytes, r->head.body);
    return r->ticket != NULL;
}

/* Receives the next header; false: none has arrived. The loop that waits for it is short: look() has reported that
 * the header has arrived, and a header is small. */
static bool
take_head(struct mpi *m, enum road road, int *rank)
{
    struct receiving *r = &m->road[road];
    if (!m->plugin->look(tag_of(road, HEAD), rank)) return false;
    void *ticket = m->plugin->receive(*rank, tag_of(road, HEAD), &r->head, sizeof r->head);
    m->broken = !ticket;
    while (!mpi_is_over(m, &ticket)) continue;
    return !m->broken;
}

static bool
carrier_receive_mpi(struct carrier *c, enum road road, struct head *h, zmq_msg_t *body)
{
    struct mpi *m = c->mpi;
    struct receiving *r = &m->road[road];
    int rank;
    if (m->broken) return false;
    mpi_collect(m);
    if (!r->bytes) {
        if (!take_head(m, road, &rank)) return false;
        if (r->head.body && !expect_body(m, road, rank)) m->broken = true;
    }
    if (m->broken || !mpi_is_over(m, &r->ticket) || m->broken) return false;
    *h = r->head.head;
    if (r->bytes) zmq_msg_init_data(body, r->bytes, r->head.body, free_bytes, NULL);
    r->bytes = NULL;
    return true;
}

static bool
ready_mpi(struct carrier *c, int rank)
{
    UNUSED(c), UNUSED(rank);
    return false;
}

static bool
is_down_mpi(struct carrier *c, int rank)
{
    UNUSED(rank);
    return !c->mpi || c->mpi->broken;
}

bool
mpi_is_busy(const struct carrier *c)
{
    return c->mpi && !c->mpi->broken && (c->mpi->nsending || c->mpi->road[BYTES].bytes || c->carrying);
}

const struct net net_mpi = {"MPI",     connect_mpi, carrier_close_mpi, carrier_send_mpi, carrier_receive_mpi,
                            ready_mpi, is_down_mpi};
