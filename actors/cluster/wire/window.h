/* window.h - the packets of one direction of a link that the other end has not acknowledged.
 *
 * When the connection of a link ends, its two ends connect again. Each end then sends the packets in its window once
 * more. A window keeps at most WINDOW_BYTES, without shared bytes. If a newer packet does not fit, the window drops its
 * oldest packets; if they are needed, the other end finds a gap. Owner: an end of a link; no thread of its own. */
#ifndef RILLE_CLUSTER_WINDOW_H
#define RILLE_CLUSTER_WINDOW_H

#include "actors/cluster/wire/wire.h"

enum { WINDOW_BYTES = 1 << 23 };
struct window {
    struct str kept; /* encoded packets, each behind a struct kept_head; the first one in use is at `oldest` */
    size_t oldest;
    int32_t n;     /* number of packets */
    uint32_t last; /* number of the newest packet, also if the window is empty */
};

/* Returns a copy of the bytes, for packets to several workers (struct packet, shared). */
struct shared_bytes *shared_bytes_new(const void *bytes, size_t n);
/* Drops a reference. The last reference frees the bytes. */
void shared_bytes_drop(struct shared_bytes *s);

/* Adds a copy of a packet, whose number follows that of the packet before. Shared bytes are not copied. */
void window_add(struct window *w, const struct packet *p);
/* Drops the packets up to number `ack`. */
void window_acknowledge(struct window *w, uint32_t ack);
/* Decodes the packet at *at, and advances *at. Returns false after the newest packet. *at is 0 for the oldest packet;
 * *out is valid until the window changes. */
bool window_next(const struct window *w, size_t *at, struct packet *out);
void window_free(struct window *w);

#endif
