/* window.c - a FIFO of encoded packets in one buffer. */
#include "actors/cluster/wire/window.h"

#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

/* KEPT: an empty window keeps a buffer of at most this size, bytes. USUAL: size of the first packets of a link. */
enum { KEPT = 1 << 12, USUAL = 240 };

/* Header before each packet in the buffer. */
struct kept_head {
    struct shared_bytes *shared; /* bytes to which the packet refers; NULL: none */
    size_t n;                    /* length of the encoded packet, bytes */
};

/* ---- shared bytes ---- */

struct shared_bytes *
shared_bytes_new(const void *bytes, size_t n)
{
    struct shared_bytes *s = must_alloc(sizeof *s + n);
    s->refs = 1;
    s->n = n;
    if (n) memcpy(s->bytes, bytes, n);
    return s;
}

void
shared_bytes_drop(struct shared_bytes *s)
{
    if (s && --s->refs == 0) free(s);
}

/* ---- the window ---- */

static struct kept_head
kept_head_at(const struct window *w, size_t at)
{
    struct kept_head h;
    memcpy(&h, w->kept.text + at, sizeof h);
    return h;
}

static void
window_drop_oldest(struct window *w)
{
    struct kept_head h = kept_head_at(w, w->oldest);
    shared_bytes_drop(h.shared);
    w->oldest += sizeof h + h.n;
    if (--w->n > 0) return;
    w->oldest = 0;
    if (w->kept.capacity > KEPT) str_free(&w->kept);
    str_clear(&w->kept);
}

/* Moves the packets to the beginning of the buffer, if the unused space before them is larger than the packets. */
static void
close_up(struct window *w)
{
    size_t n = w->kept.len - w->oldest;
    if (w->oldest <= n) return;
    memmove(w->kept.text, w->kept.text + w->oldest, n);
    str_cut(&w->kept, n);
    w->oldest = 0;
}

void
window_add(struct window *w, const struct packet *p)
{
    struct kept_head h = {.shared = p->shared};
    close_up(w);
    str_reserve(&w->kept, USUAL);
    size_t at = w->kept.len;
    str_addn(&w->kept, &h, sizeof h);
    packet_keep(p, &w->kept);
    h.n = w->kept.len - at - sizeof h;
    memcpy(w->kept.text + at, &h, sizeof h);
    if (h.shared) h.shared->refs++;
    w->last = p->seq;
    w->n++;
    while (w->kept.len - w->oldest > WINDOW_BYTES) window_drop_oldest(w);
}

void
window_acknowledge(struct window *w, uint32_t ack)
{
    while (w->n > 0 && (int32_t)(ack - w->last) >= 1 - w->n) window_drop_oldest(w);
}

bool
window_next(const struct window *w, size_t *at, struct packet *out)
{
    if (w->oldest + *at == w->kept.len) return false;
    struct kept_head h = kept_head_at(w, w->oldest + *at);
    *at += sizeof h;
    if (packet_fetch(w->kept.text + w->oldest + *at, h.n, h.shared, out)) assert(!"an encoded packet can be decoded");
    *at += h.n;
    return true;
}

void
window_free(struct window *w)
{
    while (w->n > 0) window_drop_oldest(w);
    str_free(&w->kept);
    *w = (struct window){0};
}
