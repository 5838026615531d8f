/* traffic.c - numbers, acknowledges and repeats the messages between two workers.
 *
 * A sender keeps each message until the receiver has acknowledged its number. After a new connection the sender sends
 * all kept messages again, in order (net_zmq.c). The receiver accepts the next number only: it drops messages that it
 * has, and messages behind a gap, which will be repeated. Every message acknowledges those of the other direction. A
 * message CARRIER_ACK is sent if many messages or a large piece are not acknowledged, or at a tick. The pieces of a
 * SEND keep their register busy until they are acknowledged, so a large piece is acknowledged at once.
 *
 * A worker that has received messages of a later run does not read on until that run begins. It says so at every tick
 * in CARRIER_ACK. Otherwise messages that stay unacknowledged show a connection that carries nothing, although
 * neither end has noticed. A slow connection looks the same, so the time before a connection is replaced is at least
 * twice the time that the last acknowledgement took, and doubles with each replacement. */
#include "actors/cluster/transport/traffic.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"

#include <stdlib.h>

enum { LARGE = 1 << 16 };
static const uint32_t most_untold[NROAD] = {[MESSAGES] = 64, [BYTES] = CREDITS / 2};

struct kept *
traffic_kept(const struct traffic *t, int32_t i)
{
    return &t->kept[(t->first + i) % t->capacity];
}

static void
widen_ring(struct traffic *t)
{
    int32_t capacity = MAX(16, 2 * t->capacity);
    struct kept *wider = must_alloc(sizeof *wider * (size_t)capacity);
    for (int32_t i = 0; i < t->n; i++) {
        struct kept *from = traffic_kept(t, i);
        wider[i] = *from;
        if (!from->has_body) continue;
        zmq_msg_init(&wider[i].body);
        zmq_msg_move(&wider[i].body, &from->body);
        zmq_msg_close(&from->body);
    }
    free(t->kept);
    t->kept = wider;
    t->capacity = capacity;
    t->first = 0;
}

void
traffic_keep(struct traffic *t, struct head *h, zmq_msg_t *body)
{
    if (t->n == t->capacity) widen_ring(t);
    h->number = ++t->sent;
    struct kept *k = traffic_kept(t, t->n++);
    *k = (struct kept){.head = *h, .has_body = body != NULL};
    if (!body) return;
    zmq_msg_init(&k->body);
    zmq_msg_copy(&k->body, body);
}

static void
forget_kept_body(struct kept *k)
{
    if (k->has_body) zmq_msg_close(&k->body);
    k->has_body = false;
}

static void
traffic_acknowledge(struct traffic *t, uint32_t ack)
{
    while (t->n > 0 && (int32_t)(ack - traffic_kept(t, 0)->head.number) >= 0) {
        forget_kept_body(traffic_kept(t, 0));
        t->first = (t->first + 1) % t->capacity;
        t->n--;
    }
}

void
traffic_void(struct traffic *t)
{
    for (int32_t i = 0; i < t->n; i++) {
        struct kept *k = traffic_kept(t, i);
        if (k->head.m.kind != MSG_FULL) continue;
        forget_kept_body(k);
        k->head.m.kind = CARRIER_VOID;
    }
}

void
traffic_clear(struct traffic *t)
{
    traffic_acknowledge(t, t->sent);
    free(t->kept);
    *t = (struct traffic){0};
}

void
traffic_stamp(struct traffic traffic[NROAD], struct head *h)
{
    for (int road = 0; road < NROAD; road++) h->ack[road] = traffic[road].told = traffic[road].came;
}

bool
traffic_is_stuck(struct carrier *c, int rank, enum road road)
{
    struct traffic *t = &c->peer[rank].traffic[road];
    const int64_t now = now_ns(), half = c->link_ms * 500000ll;
    uint32_t acked = t->sent - (uint32_t)t->n;
    bool moves = acked != t->acked;
    if (moves || !t->patience) t->patience = MAX(half, t->patience ? 2 * (now - t->moved_ns) : 0);
    if (t->n == 0 || moves || c->held[MESSAGES]) t->moved_ns = now;
    t->acked = acked;
    bool stuck = now - t->moved_ns > t->patience;
    if (stuck) t->patience *= 2;
    return stuck;
}

/* ---- receiving ---- */

bool
carrier_admit(struct carrier *c, enum road road, const struct head *h)
{
    int from = addr_process(h->m.from);
    if (from < 0 || from >= c->world) return false;
    struct traffic *traffic = c->peer[from].traffic;
    for (int i = 0; i < NROAD; i++) {
        traffic_acknowledge(&traffic[i], h->ack[i]);
        if (h->m.kind == CARRIER_ACK && h->offset) traffic[i].moved_ns = now_ns();
    }
    return h->m.kind != CARRIER_ACK && (!h->number || h->number == traffic[road].came + 1);
}

void
carrier_acknowledge(struct carrier *c, int rank)
{
    const struct traffic *t = c->peer[rank].traffic;
    struct msg m = carrier_speech(c, CARRIER_ACK, rank);
    struct head h = carrier_head(c, &m);
    bool news = t[MESSAGES].came != t[MESSAGES].told || t[BYTES].came != t[BYTES].told;
    h.offset = c->held[MESSAGES] || c->held[BYTES];
    if (!news && (!h.offset || !c->net->ready(c, rank))) return;
    if (carrier_knows(c, rank)) c->net->send(c, rank, MESSAGES, &h, NULL);
}

void
carrier_accept(struct carrier *c, enum road road, const struct head *h, size_t nbyte)
{
    int from = addr_process(h->m.from);
    if (!h->number || !c->joined) return;
    struct traffic *t = &c->peer[from].traffic[road];
    bool large = road == BYTES && (nbyte >= LARGE || h->offset);
    t->came++;
    if (large || t->came - t->told >= most_untold[road]) carrier_acknowledge(c, from);
}
