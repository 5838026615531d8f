/* roster.c - queries about workers: identity, devices, state. */
#include "actors/cluster/controller/roster.h"
#include "actors/cluster/controller/controller_inner.h"

#include "runtime/base/clock.h"

#include <stdio.h>

/* Returns the index of a slot (device thread) in the table of all slots. slot: number of the slot in its memory
 * (host). */
static int
index_of_slot(const struct cluster *c, uint32_t memory, uint32_t slot)
{
    int s = 0;
    for (; s < c->table.nslot; s++)
        if (c->table.slot[s].memory == memory && slot-- == 0) break;
    return s;
}

/* Returns the rank that runs the n-th device of a range. */
static int
owner_of(const struct cluster *c, const struct range *h, uint32_t n)
{
    return (int)coordinator_slot(c->c, index_of_slot(c, h->memory, h->slot + n % h->nslot));
}

int
cluster_owner(struct cluster *c, int kind, int device)
{
    int rank = -1;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->table.nrange; i++) {
        const struct range *h = &c->table.range[i];
        if ((int)h->kind == kind && (uint32_t)device - h->first < h->n)
            rank = owner_of(c, h, (uint32_t)device - h->first);
    }
    pthread_mutex_unlock(&c->lock);
    return rank;
}

bool
cluster_is_present(struct cluster *c, int kind, int device)
{
    bool is = false;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->table.nrange; i++) {
        const struct range *h = &c->table.range[i];
        uint32_t n = (uint32_t)device - h->first;
        if ((int)h->kind != kind || n >= h->n) continue;
        int slot = index_of_slot(c, h->memory, h->slot + n % h->nslot);
        is = c->table.slot[slot].owner == coordinator_slot(c->c, slot);
    }
    pthread_mutex_unlock(&c->lock);
    return is;
}

/* Prints the devices that the rank runs at present, such as "cpu:2 cpu:3". */
static void
print_devices(const struct cluster *c, int rank, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < c->table.nrange; i++) {
        const struct range *h = &c->table.range[i];
        for (uint32_t d = 0; d < h->n && n + 16 < size; d++)
            if (owner_of(c, h, d) == rank)
                n += (size_t)snprintf(out + n, size - n, "%s%s:%u", n ? " " : "", device_kind_text((int)h->kind),
                                      h->first + d);
    }
}

static void
describe_worker(const struct cluster *c, int rank, struct cluster_worker *out)
{
    const struct member_info *m = coordinator_member(c->c, rank);
    *out = (struct cluster_worker){.rank = rank,
                                   .pid = (int)m->pid,
                                   .cores = (int)m->cores,
                                   .bytes = m->bytes,
                                   .silence = c->options.silence_s,
                                   .hang = c->options.hang_s,
                                   .link = c->options.link_s,
                                   .own_link = m->link_ms * 1e-3,
                                   .own_orphan = m->orphan_ms * 1e-3};
    snprintf(out->host, sizeof out->host, "%s", m->host ? m->host : "");
    snprintf(out->state, sizeof out->state, "%s", member_state_text(m->state));
    if (m->state != MEMBER_LOST) print_devices(c, rank, out->devices, sizeof out->devices);
    out->acts = (int64_t)m->acts;
    out->busy = (double)m->busy_ns * 1e-9;
    out->slow = coordinator_slow(c->c, rank);
    out->heartbeat = (double)(now_ns() - c->process[rank].heard_ns) * 1e-9;
}

bool
cluster_worker(struct cluster *c, int i, struct cluster_worker *out)
{
    bool there = false;
    pthread_mutex_lock(&c->lock);
    for (int r = 0; r < c->options.world && !there; r++) {
        if (coordinator_member(c->c, r)->state == MEMBER_RETIRED || i-- > 0) continue;
        describe_worker(c, r, out);
        there = true;
    }
    pthread_mutex_unlock(&c->lock);
    return there;
}

void
cluster_host(struct cluster *c, int memory, char out[64])
{
    out[0] = '\0';
    pthread_mutex_lock(&c->lock);
    for (int r = 0; r < c->options.world && !*out; r++) {
        const struct member_info *m = coordinator_member(c->c, r);
        if (m->memory == memory && m->host) snprintf(out, 64, "%s", m->host);
    }
    pthread_mutex_unlock(&c->lock);
}
