/* peers.c - a table of connections with linear search. */
#include "actors/cluster/wire/peers.h"

#include "actors/cluster/wire/key.h"
#include "runtime/data/arena.h"

#include <stdlib.h>
#include <string.h>

static void
peers_use(struct peers *p, struct peers_entry *e)
{
    p->nreleased -= e->released > 0;
    e->released = 0;
}

/* Returns the slot that was released first. There must be a released slot. */
static struct peers_entry *
oldest_released(const struct peers *p)
{
    struct peers_entry *oldest = NULL;
    for (int i = 0; i < p->n; i++) {
        struct peers_entry *e = &p->entry[i];
        if (e->released && (!oldest || e->released < oldest->released)) oldest = e;
    }
    assert(oldest);
    return oldest;
}

/* Returns a slot with a new number for a connection: the slot that was released first, if more than PEERS_RELEASED
 * slots are released or no slot is unused; else an unused slot. NULL: all slots are in use. */
static struct peers_entry *
new_entry(struct peers *p)
{
    if (p->nreleased > (p->n < PEERS ? PEERS_RELEASED : 0)) {
        struct peers_entry *e = oldest_released(p);
        peers_use(p, e);
        e->number = peer_slot(e->number) + (e->number / PEERS + 1) % PEER_GENERATIONS * PEERS;
        return e;
    }
    if (p->n == PEERS) return NULL;
    GROW(p->entry, p->n + 1, p->capacity);
    p->entry[p->n] = (struct peers_entry){.number = p->n};
    return &p->entry[p->n++];
}

/* Searches linearly from the first slot, because the earliest connections send most messages. */
int
peers_number(struct peers *p, const void *id, size_t n)
{
    if (n == 0 || n > PEER_ID) return -1;
    for (int i = 0; i < p->n; i++) {
        struct peers_entry *e = &p->entry[i];
        if (e->n != n || memcmp(e->id, id, n)) continue;
        peers_use(p, e);
        return e->number;
    }
    struct peers_entry *e = new_entry(p);
    if (!e) return -1;
    e->n = (uint8_t)n;
    memcpy(e->id, id, n);
    e->rank = KEY_ANY;
    return e->number;
}

struct peers_entry *
peers_entry_of(const struct peers *p, int number)
{
    int slot = peer_slot(number);
    return number >= 0 && slot < p->n && p->entry[slot].number == number ? &p->entry[slot] : NULL;
}

void
peers_release(struct peers *p, int number)
{
    struct peers_entry *e = peers_entry_of(p, number);
    if (!e || e->released) return;
    e->released = ++p->releases;
    p->nreleased++;
}

void
peers_free(struct peers *p)
{
    free(p->entry);
    *p = (struct peers){0};
}
