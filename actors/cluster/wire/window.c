/* window.c - a ring of encoded packets. */
#include "actors/cluster/wire/window.h"

#include "runtime/base/arena.h"

#include <stdlib.h>

enum { KEPT = 1 << 12 }; /* buffers of at most this size, bytes, are used again */

static struct str *
packet_at(const struct window *w, int32_t i)
{
    return &w->packet[(w->head + i) % w->capacity];
}

static void
window_drop_oldest(struct window *w)
{
    struct str *s = packet_at(w, 0);
    w->bytes -= s->len;
    if (s->capacity > KEPT) str_free(s);
    str_clear(s);
    w->head = (w->head + 1) % w->capacity;
    w->n--;
}

static void
widen(struct window *w)
{
    int32_t capacity = MAX(8, 2 * w->capacity);
    struct str *wider = must_alloc(sizeof *wider * (size_t)capacity);
    for (int32_t i = 0; i < w->capacity; i++) wider[i] = *packet_at(w, i);
    free(w->packet);
    w->packet = wider;
    w->capacity = capacity;
    w->head = 0;
}

void
window_add(struct window *w, const struct packet *p)
{
    if (w->n == w->capacity) widen(w);
    struct str *s = packet_at(w, w->n++);
    packet_write(p, s);
    w->bytes += s->len;
    w->last = p->seq;
    while (w->bytes > WINDOW_BYTES) window_drop_oldest(w);
}

void
window_acknowledge(struct window *w, uint32_t ack)
{
    while (w->n > 0 && (int32_t)(ack - w->last) >= 1 - w->n) window_drop_oldest(w);
}

void
window_get(const struct window *w, int32_t i, struct packet *out)
{
    const struct str *s = packet_at(w, i);
    if (packet_read(s->text, s->len, out)) assert(!"an encoded packet can be decoded");
}

void
window_free(struct window *w)
{
    for (int32_t i = 0; i < w->capacity; i++) str_free(&w->packet[i]);
    free(w->packet);
    *w = (struct window){0};
}
