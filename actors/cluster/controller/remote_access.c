/* remote_access.c - numbered requests to read and write bytes on other hosts; answers arrive in the order of
 * requests. */
#include "actors/cluster/controller/remote_access.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNDER_WAY = 8,
    LOOK_UP_MS = 50,
    /* time without an answer, ms, after which a BRING (request to copy between hosts) is repeated: a worker that has
     * not joined the epoch does not answer */
    PATIENCE_MS = 2000,
};

struct reach {
    struct remote_access_options options;
    pthread_mutex_t lock; /* lock for all fields; held during a whole request */
    pthread_mutex_t peer_lock;
    /* by rank: number of the link; -1: no link yet. gone: the link's worker was lost. Guarded by peer_lock */
    int *peer;
    bool *gone;
    /* by rank: epoch in which the link was established, and number of its last connection; guarded by peer_lock */
    uint32_t *joined;
    uint64_t *connection;
    struct str packet;
    uint64_t count; /* number of requests sent */
};

/* One request to read, write, allocate, copy or digest bytes. It is sent in several packets if it is about many
 * bytes. */
struct wish {
    enum packet_kind kind;
    int memory, rank;
    int source, source_rank; /* (BRING) memory of the source bytes, and rank of the worker there that sends them */
    uint64_t at, from;
    char *bytes; /* (FETCH) destination of the bytes; (STORE) their source */
    size_t n, asked, answered;
    uint64_t first;        /* number of the request's first packet */
    int64_t heard_ns;      /* time, ns, of the last answer or repetition */
    int64_t still_ns;      /* time, ns, of the last answer or request for a new connection */
    int64_t patience;      /* time without an answer after which a new connection is requested, ns */
    int64_t begun_ns;      /* start time, ns, of the wait for an answer (options.deadline_ns) */
    uint32_t flags;        /* flags of HOLD or FETCH */
    bool of_rank;          /* only the worker `rank` can answer; false: the worker that answers for the memory */
    const uint64_t *place; /* (SUM, one packet) the blocks to digest, as pairs: position, size in bytes */
    int nplace;
    uint64_t *digest;
};

struct reach *
remote_access_new(const struct remote_access_options *o)
{
    struct reach *r = must_alloc(sizeof *r);
    r->options = *o;
    r->peer = must_alloc(sizeof *r->peer * (size_t)o->world);
    r->gone = must_alloc(sizeof *r->gone * (size_t)o->world);
    r->joined = must_alloc(sizeof *r->joined * (size_t)o->world);
    r->connection = must_alloc(sizeof *r->connection * (size_t)o->world);
    for (int i = 0; i < o->world; i++) r->peer[i] = -1;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->peer_lock, NULL);
    return r;
}

void
remote_access_free(struct reach **rp)
{
    struct reach *r = *rp;
    *rp = NULL;
    if (!r) return;
    str_free(&r->packet);
    free(r->peer);
    free(r->gone);
    free(r->joined);
    free(r->connection);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->peer_lock);
    free(r);
}

static int
peer_of_rank(struct reach *r, int rank)
{
    pthread_mutex_lock(&r->peer_lock);
    int peer = r->gone[rank] ? -1 : r->peer[rank];
    pthread_mutex_unlock(&r->peer_lock);
    return peer;
}

/* ---- a request ---- */

static size_t
piece_bytes(const struct wish *w, size_t done)
{
    return w->kind == PACKET_HOLD ? w->n : MIN(w->n - done, (size_t)WIRE_PIECE);
}

static int
ask_memory(struct reach *r, struct wish *w)
{
    size_t n = piece_bytes(w, w->asked);
    struct packet p = {.kind = (uint8_t)w->kind,
                       .count = ++r->count,
                       .flags = w->flags,
                       .offset = w->at + w->asked,
                       .total = n,
                       .rank = w->source_rank,
                       .source = w->from + w->asked};
    if (w->kind == PACKET_STORE) p.bytes = (struct span){(const unsigned char *)w->bytes + w->asked, (uint32_t)n};
    if (w->kind == PACKET_SUM) p.places = (struct span){(const void *)w->place, (uint32_t)(16 * w->nplace)};
    w->asked += n;
    str_clear(&r->packet);
    packet_write(&p, &r->packet);
    return link_send(r->options.link, LINK_BULK, peer_of_rank(r, w->rank), r->packet.text, r->packet.len);
}

/* Handles an answer. The answer's number says which packet of the request is answered; answers to abandoned requests
 * are dropped. */
static int
receive_answer(struct reach *r, struct wish *w, const struct packet *p)
{
    size_t n = piece_bytes(w, w->answered);
    uint64_t want = w->first + w->answered / WIRE_PIECE;
    if (p->kind != PACKET_VALUE || p->count != want) return 0;
    if (p->status) {
        struct str text = {0};
        span_print(p->bytes, &text);
        int status = fail((enum err_code)p->status, "%s", str_text(&text));
        str_free(&text);
        return status;
    }
    size_t came = w->kind == PACKET_SUM ? sizeof *w->digest * (size_t)w->nplace : w->kind == PACKET_FETCH ? n : 0;
    if (came && p->bytes.n != came) {
        char how[100];
        snprintf(how, sizeof how, "sent a value of %u bytes, expected %zu", p->bytes.n, came);
        r->options.lose(r->options.of, w->rank, how);
        return 0;
    }
    if (w->kind == PACKET_SUM) memcpy(w->digest, p->bytes.bytes, came);
    if (w->kind == PACKET_FETCH) memcpy(w->bytes + w->answered, p->bytes.bytes, n);
    w->answered += n;
    w->heard_ns = w->still_ns = w->begun_ns = now_ns();
    return 0;
}

/* Prepares the unanswered packets of a request to be sent again to worker `rank`. */
static void
ask_another(struct reach *r, struct wish *w, int rank)
{
    w->rank = rank;
    w->asked = w->answered;
    w->first = r->count + 1 - w->answered / WIRE_PIECE;
    w->heard_ns = now_ns();
}

/* Records the link of a rank. A link belongs to a process, and a packet of a lost process may arrive after the first
 * packet of its successor. So only a packet with a later epoch, or of a later connection, changes the rank's link.
 * Packets that were sent over the former link, or their answers, may be lost, so the request `w` sends them again. */
static void
know_peer(struct reach *r, struct wish *w, int peer, const struct packet *p)
{
    bool ours = p->kind == PACKET_BEAT && span_is(p->job, (struct span){r->options.job, CLUSTER_ID}) &&
                link_is_of(r->options.link, LINK_BULK, peer, p->rank);
    if (!ours || p->rank < 0 || p->rank >= r->options.world) return;
    pthread_mutex_lock(&r->peer_lock);
    int32_t later = (int32_t)(p->epoch - r->joined[p->rank]);
    bool newer = later > 0 || (later == 0 && p->count > r->connection[p->rank]);
    if (newer) {
        if (r->peer[p->rank] >= 0 && r->peer[p->rank] != peer)
            link_release(r->options.link, LINK_BULK, r->peer[p->rank]);
        r->peer[p->rank] = peer;
        r->gone[p->rank] = false;
        r->joined[p->rank] = p->epoch;
        r->connection[p->rank] = p->count;
    }
    pthread_mutex_unlock(&r->peer_lock);
    if (newer && w && w->rank == p->rank) ask_another(r, w, p->rank);
}

/* Returns true if a rank has this link. */
static bool
knows_peer(struct reach *r, int peer)
{
    bool known = false;
    pthread_mutex_lock(&r->peer_lock);
    for (int i = 0; i < r->options.world && !known; i++) known = r->peer[i] == peer && !r->gone[i];
    pthread_mutex_unlock(&r->peer_lock);
    return known;
}

/* Receives the messages that have arrived. w: the request that waits for answers; NULL: no request waits. */
static int
receive_answers(struct reach *r, struct wish *w)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (link_receive(r->options.link, LINK_BULK, &peer, &bytes, &n)) {
        bool malformed = packet_read(bytes, n, &p);
        if (malformed)
            err_clear();
        else
            know_peer(r, w, peer, &p);
        if (!w || peer != peer_of_rank(r, w->rank)) {
            if (!knows_peer(r, peer)) link_release(r->options.link, LINK_BULK, peer);
        } else if (malformed) {
            r->options.lose(r->options.of, w->rank, "sent a malformed packet");
        } else {
            TRY(receive_answer(r, w, &p));
        }
    }
    return 0;
}

void
remote_access_forget(struct reach *r, int rank)
{
    pthread_mutex_lock(&r->peer_lock);
    r->gone[rank] = true;
    pthread_mutex_unlock(&r->peer_lock);
    /* Receives once from the socket, because ZeroMQ frees connections of lost processes only when their socket is
     * used. If a request is in progress (lock held), the request uses the socket. */
    if (pthread_mutex_trylock(&r->lock)) return;
    receive_answers(r, NULL);
    pthread_mutex_unlock(&r->lock);
}

/* Finds the worker that must answer the request. If this worker has changed, prepares the unanswered packets to be
 * sent again. E_LOST: there is no such worker. For a BRING (copy between two hosts), E_LOST also means that the
 * epoch is over, because its two workers cannot connect then. */
static int
find_wish_keepers(struct reach *r, struct wish *w)
{
    if (w->of_rank) return r->options.broken(r->options.of);
    int rank = r->options.keeper(r->options.of, w->memory), source = -1;
    if (rank < 0) return err_last();
    if (w->kind == PACKET_BRING && (source = r->options.keeper(r->options.of, w->source)) < 0) return err_last();
    bool waits = w->kind == PACKET_BRING && now_ns() - w->heard_ns > PATIENCE_MS * 1000000ll;
    if (waits) TRY(r->options.broken(r->options.of));
    if (rank != w->rank || source != w->source_rank || waits) ask_another(r, w, rank);
    w->source_rank = source;
    return 0;
}

/* After a failed send, prepares the unanswered packets to be sent again. By then the link may work again, or another
 * worker may have taken over the memory. */
static bool
give_up_wish(struct reach *r, struct wish *w)
{
    err_clear();
    ask_another(r, w, w->rank);
    return false;
}

/* Declares a worker lost, because it has not answered in time. The request then looks for another worker, or
 * fails. */
static void
check_deadline(struct reach *r, struct wish *w)
{
    if (!r->options.deadline_ns || now_ns() - w->begun_ns < r->options.deadline_ns) return;
    r->options.lose(r->options.of, w->rank, "did not answer a request for values");
    w->begun_ns = now_ns();
}

/* Requests a new connection to a worker that does not answer. The next request follows after twice the time, because
 * the connection may be up, and the worker slow. */
static void
check_connection(struct reach *r, struct wish *w)
{
    if (now_ns() - w->still_ns < w->patience) return;
    r->options.connect(r->options.of, w->rank);
    w->still_ns = now_ns();
    w->patience *= 2;
}

static int
carry_out_wish(struct reach *r, struct wish *w)
{
    if (!w->of_rank) w->rank = -1;
    w->source_rank = -1;
    if (w->of_rank) ask_another(r, w, w->rank);
    w->begun_ns = w->still_ns = now_ns();
    w->patience = r->options.link_ns / 2;
    while (w->answered < w->n) {
        TRY(find_wish_keepers(r, w));
        bool met = peer_of_rank(r, w->rank) >= 0, known = met;
        while (known && w->asked < w->n && w->asked - w->answered < (size_t)UNDER_WAY * WIRE_PIECE)
            if (ask_memory(r, w)) known = give_up_wish(r, w);
        TRY(receive_answers(r, w));
        if (w->answered == w->n || (!met && peer_of_rank(r, w->rank) >= 0)) continue;
        struct pollfd fd = {.fd = link_fd(r->options.link, LINK_BULK), .events = POLLIN};
        poll(&fd, 1, known ? LOOK_UP_MS : 1);
        TRY(receive_answers(r, w));
        check_connection(r, w);
        check_deadline(r, w);
    }
    return 0;
}

static int
fulfil(struct reach *r, struct wish w)
{
    if (w.n == 0) return 0;
    pthread_mutex_lock(&r->lock);
    int status = carry_out_wish(r, &w);
    pthread_mutex_unlock(&r->lock);
    return status;
}

int
remote_access_hold(struct reach *r, int memory, uint64_t at, size_t bytes, bool give)
{
    return fulfil(
        r, (struct wish){.kind = PACKET_HOLD, .memory = memory, .at = at, .n = bytes, .flags = give ? HOLD_GIVE : 0});
}

int
remote_access_store(struct reach *r, int memory, uint64_t at, const void *from, size_t bytes)
{
    return fulfil(
        r,
        (struct wish){.kind = PACKET_STORE, .memory = memory, .at = at, .bytes = (char *)(uintptr_t)from, .n = bytes});
}

int
remote_access_fetch(struct reach *r, int memory, uint64_t at, void *to, size_t bytes)
{
    return fulfil(r, (struct wish){.kind = PACKET_FETCH, .memory = memory, .at = at, .bytes = to, .n = bytes});
}

int
remote_access_fetch_kept(struct reach *r, int rank, uint32_t flags, uint64_t at, void *to, size_t bytes)
{
    return fulfil(r, (struct wish){.kind = PACKET_FETCH,
                                   .rank = rank,
                                   .of_rank = true,
                                   .flags = FETCH_KEPT | flags,
                                   .at = at,
                                   .bytes = to,
                                   .n = bytes});
}

int
remote_access_hold_kept(struct reach *r, int rank, bool all)
{
    uint32_t flags = HOLD_KEPT | (all ? HOLD_GIVE : 0);
    return fulfil(r, (struct wish){.kind = PACKET_HOLD, .rank = rank, .of_rank = true, .flags = flags, .n = 1});
}

int
remote_access_digests(struct reach *r, int memory, const uint64_t *place, int n, uint64_t *out)
{
    assert(n <= REMOTE_ACCESS_DIGESTS);
    return fulfil(
        r, (struct wish){.kind = PACKET_SUM, .memory = memory, .n = n > 0, .place = place, .nplace = n, .digest = out});
}

int
remote_access_copy(struct reach *r, int memory, uint64_t at, int source, uint64_t from, size_t bytes)
{
    return fulfil(
        r, (struct wish){.kind = PACKET_BRING, .memory = memory, .at = at, .source = source, .from = from, .n = bytes});
}
