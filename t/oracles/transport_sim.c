/* transport_sim.c - a transport that copies the bytes of channels late, to find registers that are released too early.
 *
 * put() copies the bytes into the channel's own buffer at once or later, as the seed decides, but at the latest when
 * the receiver takes them. Until then the bytes stay in the send task's register. So a send task that releases the
 * register too early sends wrong bytes. */
#include "t/oracles/transport_sim.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that one act has put into the channel and that the receiver has not taken yet. */
struct parcel {
    const char *from; /* source of bytes that are not copied yet; NULL: already copied to the slot */
    int64_t ticket;
};

/* A channel: a ring with one entry (struct parcel) per register. */
struct lane {
    const struct channel *sender;
    struct parcel *parcel;
    char *slots; /* buffers of the ring, one per register of the sender; act n uses buffer n modulo their number */
    int64_t put, taken;
};

struct end {
    struct transport transport;
    struct sim_wire *wire;
    struct lane **lane; /* lanes by channel number of the partition */
};

struct sim_wire {
    struct end *end;
    int nend;
    struct lane *lane;
    int32_t nlane;
    uint64_t random;
    int64_t ticket;
};

/* the splitmix64 generator (Steele, Lea & Flood 2014) */
static uint64_t
next(struct sim_wire *w)
{
    uint64_t z = (w->random += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static struct parcel *
parcel_of(const struct lane *l, int64_t number)
{
    return &l->parcel[number % l->sender->nreg];
}

static char *
slot_of(const struct lane *l, int64_t number)
{
    return l->slots + number % l->sender->nreg * l->sender->bytes;
}

static void
copy(const struct lane *l, int64_t number)
{
    struct parcel *p = parcel_of(l, number);
    if (p->from) channel_gather(l->sender, p->from, slot_of(l, number));
    p->from = NULL;
}

static int
put(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket)
{
    struct end *e = of;
    struct lane *l = e->lane[channel];
    assert(l->put - l->taken < c->nreg);
    *parcel_of(l, l->put) = (struct parcel){.from = from};
    if (next(e->wire) % 2) {
        copy(l, l->put++);
        return 0;
    }
    *ticket = parcel_of(l, l->put++)->ticket = ++e->wire->ticket;
    return 0;
}

static bool
taken(void *of, int64_t ticket)
{
    struct sim_wire *w = ((struct end *)of)->wire;
    for (int32_t i = 0; i < w->nlane; i++) {
        struct lane *l = &w->lane[i];
        for (int64_t k = l->taken; k < l->put; k++) {
            if (parcel_of(l, k)->ticket != ticket || !parcel_of(l, k)->from) continue;
            if (next(w) % 3) return false;
            copy(l, k);
        }
    }
    return true;
}

static int
take(void *of, int32_t channel, const struct channel *c, char *to)
{
    struct lane *l = ((struct end *)of)->lane[channel];
    assert(l->taken < l->put);
    copy(l, l->taken);
    if (c->bytes) memcpy(to, slot_of(l, l->taken), (size_t)c->bytes);
    parcel_of(l, l->taken++)->ticket = 0;
    return 0;
}

/* Drops bytes that are not copied yet, without reading the sender's memory. */
static void
stop(void *of)
{
    struct end *e = of;
    for (int32_t i = 0; i < e->wire->nlane; i++) {
        struct lane *l = &e->wire->lane[i];
        for (int64_t k = l->taken; k < l->put; k++) parcel_of(l, k)->from = NULL;
    }
}

/* ---- making ---- */

static void
make_lane(struct lane *l, const struct channel *sender)
{
    *l = (struct lane){.sender = sender};
    l->parcel = must_alloc(sizeof *l->parcel * (size_t)sender->nreg);
    l->slots = must_alloc((size_t)(sender->nreg * sender->bytes) + 1);
}

struct sim_wire *
sim_wire_new(const struct plan *const *part, const struct channel_far *const *far, int n, uint64_t seed)
{
    struct sim_wire *w = must_alloc(sizeof *w);
    *w = (struct sim_wire){.nend = n, .random = seed, .end = must_alloc(sizeof *w->end * (size_t)n)};
    int32_t nlane = 0;
    for (int i = 0; i < n; i++) {
        struct end *e = &w->end[i];
        *e = (struct end){.transport = {.of = e, .put = put, .taken = taken, .take = take, .stop = stop}, .wire = w};
        e->lane = must_alloc(sizeof(*e->lane) * (size_t)(part[i]->nchannel + 1));
        for (int32_t c = 0; c < part[i]->nchannel; c++)
            nlane += part[i]->channel[c].sends && !part[i]->channel[c].direct;
    }
    w->lane = must_alloc(sizeof *w->lane * (size_t)(nlane + 1));
    for (int i = 0; i < n; i++)
        for (int32_t c = 0; c < part[i]->nchannel; c++) {
            const struct channel *sender = &part[i]->channel[c];
            if (!sender->sends || sender->direct) continue;
            struct lane *l = &w->lane[w->nlane++];
            make_lane(l, sender);
            w->end[i].lane[c] = l;
            w->end[sender->peer].lane[part[sender->peer]->task[far[i][c].task].channel] = l;
        }
    return w;
}

const struct transport *
sim_wire_end(const struct sim_wire *w, int part)
{
    return &w->end[part].transport;
}

void
sim_wire_reset(struct sim_wire *w)
{
    for (int32_t i = 0; i < w->nlane; i++) {
        struct lane *l = &w->lane[i];
        l->put = l->taken = 0;
        memset(l->parcel, 0, sizeof *l->parcel * (size_t)l->sender->nreg);
    }
}

void
sim_wire_free(struct sim_wire **wp)
{
    struct sim_wire *w = *wp;
    if (!w) return;
    for (int32_t i = 0; i < w->nlane; i++) {
        free(w->lane[i].parcel);
        free(w->lane[i].slots);
    }
    for (int i = 0; i < w->nend; i++) free(w->end[i].lane);
    free(w->lane);
    free(w->end);
    free(w);
    *wp = NULL;
}
