/* carrier_channels.c - the channels of a plan partition, as device threads use them: implements struct transport for
 * carrier.h. */
#include "actors/cluster/transport/carrier_channels.h"
#include "actors/cluster/transport/carrier_inner.h"

#include "actors/plan/model/plan.h"
#include "runtime/data/arena.h"
#include "runtime/base/waker.h"

#include <stdlib.h>
#include <string.h>

/* size, bytes, below which the bytes of an act are copied before they are sent, so that its register is free at
 * once */
enum { COPIED = 1 << 16 };

/* ---- lanes ---- */

static int
by_end(const struct carrier_channel *l, uint32_t addr, int32_t task)
{
    return l->far_addr != addr ? (l->far_addr < addr ? -1 : 1) : (l->far_task > task) - (l->far_task < task);
}

struct carrier_channel *
carrier_channels_find(const struct carrier_channels *k, const struct msg *m)
{
    uint32_t addr = m->to;
    int32_t task = (int32_t)m->task;
    int32_t lo = 0, hi = k->nto;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        int order = by_end(k->to[mid], addr, task);
        if (order == 0) return k->to[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- the transport ---- */

static int
carrying_put(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket)
{
    struct carrier_channel *l = &((struct carrier_channels *)of)->lane[channel];
    if (c->bytes == 0) return 0;
    int64_t act = l->put++;
    struct parcel *parcel = &l->parcel[act % c->nreg];
    bool copied = !l->dense || c->bytes < COPIED;
    /* waits until ZeroMQ releases the pieces that the register held before; this is short, because the receiver has
     * them */
    while (atomic_load(&parcel->left) > 0) relax();
    if (!copied) {
        parcel->bytes = from + c->slice[0].skip;
        *ticket = (int64_t)(channel + 1) << 32 | ((act + 1) & UINT32_MAX);
    } else {
        char *copy = l->copies + act % c->nreg * c->bytes;
        channel_gather(c, from, copy);
        parcel->bytes = copy;
    }
    parcel->sent = 0;
    atomic_store(&parcel->left, l->npiece);
    return 0;
}

static bool
carrying_taken(void *of, int64_t ticket)
{
    struct carrier_channel *l = &((struct carrier_channels *)of)->lane[(ticket >> 32) - 1];
    return !run_after((uint32_t)ticket, (uint32_t)atomic_load(&l->gone));
}

static int
carrying_take(void *of, int32_t channel, const struct channel *c, char *to)
{
    struct carrier_channel *l = &((struct carrier_channels *)of)->lane[channel];
    int64_t act = atomic_load_explicit(&l->taken, memory_order_relaxed);
    for (int32_t i = 0; i < l->npiece; i++) {
        zmq_msg_t *piece = &l->piece[act % c->nreg * l->npiece + i];
        memcpy(to + (int64_t)i * PIECE, zmq_msg_data(piece), zmq_msg_size(piece));
        zmq_msg_close(piece);
        zmq_msg_init(piece);
    }
    atomic_store(&l->taken, act + 1);
    return 0;
}

/* Drops parcels that were not sent, and waits until ZeroMQ has released all pieces. The wait always ends, because
 * peers receive until the epoch is over, and closing the links then releases the rest. */
static void
carrying_stop(void *of)
{
    struct carrier *c = ((struct carrier_channels *)of)->carrier;
    atomic_store(&c->dropping, true);
    pthread_mutex_lock(&c->lock);
    for (int r = 0; r < c->world; r++) {
        c->peer[r].first = NULL;
        c->peer[r].last = &c->peer[r].first;
    }
    pthread_mutex_unlock(&c->lock);
    carrier_await(c);
}

static bool
is_dense_channel(const struct channel *c)
{
    int64_t stride = 1;
    const struct view *v = c->nslice == 1 ? c->slice[0].view : NULL;
    for (int d = v ? v->ndim - 1 : -1; d >= 0; d--) {
        if (v->dim[d] != 1 && v->stride[d] != stride) return false;
        stride *= v->dim[d];
    }
    return v != NULL;
}

static void
carry_make_lane(struct carrier_channels *k, int32_t channel, const struct channel_far *far)
{
    struct carrier_channel *l = &k->lane[channel];
    const struct channel *c = &k->plan->channel[channel];
    *l = (struct carrier_channel){.of = k, .c = c, .far_addr = far->addr, .far_task = far->task};
    if (c->bytes == 0 || c->direct) return;
    l->npiece = (int32_t)((c->bytes + PIECE - 1) / PIECE);
    if (!c->sends) {
        l->piece = must_alloc(sizeof *l->piece * (size_t)(c->nreg * l->npiece));
        for (int32_t i = 0; i < c->nreg * l->npiece; i++) zmq_msg_init(&l->piece[i]);
        return;
    }
    l->parcel = must_alloc(sizeof *l->parcel * (size_t)c->nreg);
    for (int32_t i = 0; i < c->nreg; i++) l->parcel[i].lane = l;
    if (is_dense_channel(c)) l->dense = c->slice[0].view;
    if (!l->dense || c->bytes < COPIED) l->copies = must_alloc((size_t)(c->nreg * c->bytes));
    k->to[k->nto++] = l;
}

static int
compare_ends(const void *a, const void *b)
{
    const struct carrier_channel *x = *(struct carrier_channel *const *)a, *y = *(struct carrier_channel *const *)b;
    return by_end(x, y->far_addr, y->far_task);
}

struct carrier_channels *
carrier_channels_new(struct carrier *c, const struct plan *p, const struct channel_far *far)
{
    struct carrier_channels *k = must_alloc(sizeof *k);
    k->carrier = c;
    k->plan = p;
    k->lane = must_alloc(sizeof *k->lane * (size_t)(p->nchannel + 1));
    k->to = must_alloc(sizeof(*k->to) * (size_t)(p->nchannel + 1));
    for (int32_t i = 0; i < p->nchannel; i++) carry_make_lane(k, i, &far[i]);
    qsort(k->to, (size_t)k->nto, sizeof(*k->to), compare_ends);
    k->transport = (struct transport){.of = k,
                                      .put = carrying_put,
                                      .taken = carrying_taken,
                                      .take = carrying_take,
                                      .stop = carrying_stop,
                                      .nudges = true};
    return k;
}

static void
reset_lane(struct carrier_channel *l)
{
    l->put = l->told = l->came = l->offset = 0;
    atomic_store(&l->gone, 0);
    atomic_store(&l->taken, 0);
    for (int32_t i = 0; l->parcel && i < l->c->nreg; i++) atomic_store(&l->parcel[i].left, 0);
    for (int32_t i = 0; l->piece && i < l->c->nreg * l->npiece; i++) {
        zmq_msg_close(&l->piece[i]);
        zmq_msg_init(&l->piece[i]);
    }
}

void
carrier_channels_free(struct carrier_channels **kp)
{
    struct carrier_channels *k = *kp;
    *kp = NULL;
    if (!k) return;
    carrier_await(k->carrier);
    for (int32_t i = 0; i < k->plan->nchannel; i++) {
        reset_lane(&k->lane[i]);
        free(k->lane[i].copies);
        free(k->lane[i].parcel);
        free(k->lane[i].piece);
    }
    free(k->lane);
    free(k->to);
    free(k);
}

const struct transport *
carrier_channels_transport(const struct carrier_channels *k)
{
    return &k->transport;
}

void
carrier_begin(struct carrier *c, struct carrier_channels *k, uint32_t run)
{
    carrier_await(c);
    for (int32_t i = 0; i < k->plan->nchannel; i++) reset_lane(&k->lane[i]);
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->dropping, false);
    c->carrying = k;
    c->run = run;
    pthread_mutex_unlock(&c->lock);
    carrier_wake(c);
}

void
carrier_end(struct carrier *c)
{
    pthread_mutex_lock(&c->lock);
    c->carrying = NULL;
    pthread_mutex_unlock(&c->lock);
}
