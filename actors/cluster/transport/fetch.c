/* fetch.c - workers fetch bytes from another host's memory.
 *
 * In this way values are moved from host to host without passing through the controller, which only requests the
 * copies. Requests are sent on the links for messages, and answers on the links for bytes; requests and answers
 * belong to an epoch. Neither worker blocks: the requester repeats a request that gets no answer (remote_access.c). */
#include "actors/cluster/transport/fetch.h"
#include "actors/cluster/transport/carrier_inner.h"

#include "runtime/base/error.h"

#include <string.h>

void
carrier_fetch(struct carrier *c, int rank, uint64_t count, uint64_t at, size_t n)
{
    struct item i = {.bring = {count, at, n}};
    i.m = (struct msg){.kind = CARRIER_FETCH, .to = addr_of(rank, 0)};
    carrier_post(c, &i);
}

void
carrier_send_fetch(struct carrier *c, const struct item *i)
{
    int rank = addr_process(i->m.to);
    struct msg m = carrier_speech(c, CARRIER_FETCH, rank);
    struct head h = carrier_head(c, &m);
    zmq_msg_t body;
    if (!carrier_knows(c, rank)) {
        c->hear.asked(c->hear.of, c->epoch, rank, 0);
        return;
    }
    if (zmq_msg_init_size(&body, sizeof i->bring)) return;
    memcpy(zmq_msg_data(&body), &i->bring, sizeof i->bring);
    c->net->send(c, rank, MESSAGES, &h, &body);
}

/* Answers a request for bytes. If this worker does not have the bytes, the answer is only the header. */
enum fate
carrier_take_fetch(struct carrier *c, const struct head *h, zmq_msg_t *body)
{
    int rank = addr_process(h->m.from);
    struct msg m = carrier_speech(c, CARRIER_FETCHED, rank);
    struct head answer = carrier_head(c, &m);
    struct fetch b;
    zmq_msg_t out;
    if (zmq_msg_size(body) != sizeof b) return FATE_STRANGE;
    memcpy(&b, zmq_msg_data(body), sizeof b);
    if (b.n > PIECE) return FATE_STRANGE;
    if (!carrier_knows(c, rank)) c->hear.asked(c->hear.of, c->epoch, rank, 0);
    if (!carrier_knows(c, rank) || zmq_msg_init_size(&out, sizeof b + b.n)) return FATE_DONE;
    memcpy(zmq_msg_data(&out), &b, sizeof b);
    if (c->hear.give(c->hear.of, b.at, b.n, (char *)zmq_msg_data(&out) + sizeof b)) {
        err_clear();
        zmq_msg_close(&out);
        if (zmq_msg_init_size(&out, sizeof b)) return FATE_DONE;
        memcpy(zmq_msg_data(&out), &b, sizeof b);
    }
    c->net->send(c, rank, BYTES, &answer, &out);
    return FATE_DONE;
}

enum fate
carrier_take_fetched(struct carrier *c, const struct head *h, zmq_msg_t *body)
{
    struct fetch b;
    size_t n = zmq_msg_size(body);
    const char *bytes = zmq_msg_data(body);
    if (n < sizeof b) return FATE_STRANGE;
    memcpy(&b, bytes, sizeof b);
    if (b.n > PIECE || (n != sizeof b && n != sizeof b + b.n)) return FATE_STRANGE;
    bool has = n == sizeof b + b.n;
    c->hear.brought(c->hear.of, addr_process(h->m.from), b.count, has ? bytes + sizeof b : NULL, (size_t)b.n);
    return FATE_DONE;
}
