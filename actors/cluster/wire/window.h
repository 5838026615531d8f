/* window.h - the packets of one direction of a link that the other end has not acknowledged.
 *
 * When the connection of a link ends, its two ends connect again. Each end then sends the packets in its window once
 * more. A window keeps at most WINDOW_BYTES. If a newer packet does not fit, the window drops its oldest packets; if
 * they are needed, the other end finds a gap. Owner: an end of a link; no thread of its own. */
#ifndef RILLE_CLUSTER_WINDOW_H
#define RILLE_CLUSTER_WINDOW_H

#include "actors/cluster/wire/wire.h"

enum { WINDOW_BYTES = 1 << 23 };
struct window {
    struct str *packet; /* ring of encoded packets; the oldest is at `head` */
    int32_t capacity, head, n;
    uint32_t last; /* number of the newest packet, also if the window is empty */
    size_t bytes;
};

/* Adds a copy of a packet, whose number follows that of the packet before. */
void window_add(struct window *w, const struct packet *p);
/* Drops the packets up to number `ack`. */
void window_acknowledge(struct window *w, uint32_t ack);
/* Decodes packet i, from 0, the oldest; i < w->n. *out is valid until the window changes. */
void window_get(const struct window *w, int32_t i, struct packet *out);
void window_free(struct window *w);

#endif
