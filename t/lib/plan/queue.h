/* queue.h - a FIFO of serialized packets: one direction of a simulated link. */
#ifndef RILLE_T_QUEUE_H
#define RILLE_T_QUEUE_H

#include "actors/cluster/wire/wire.h"

enum { QUEUE = 256 };
struct queue {
    struct str item[QUEUE];
    int head, n;
};

/* Appends a packet. Returns false if the queue is full. */
static inline bool
queue_put(struct queue *q, const struct packet *p)
{
    if (q->n == QUEUE) return false;
    struct str *at = &q->item[(q->head + q->n++) % QUEUE];
    str_clear(at);
    packet_write(p, at);
    return true;
}

static inline void
queue_clear(struct queue *q)
{
    q->n = 0;
}

static inline void
queue_free(struct queue *q)
{
    for (int i = 0; i < QUEUE; i++) str_free(&q->item[i]);
}

#endif
