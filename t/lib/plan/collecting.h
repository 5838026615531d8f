/* collecting.h - asynchronous test devices with a collective library (t/host/host_comm.h). Sums are computed in the
 * order of ranks in the communicator, so their bits equal those of moves that read other devices' shards directly. */
#ifndef RILLE_T_COLLECTING_H
#define RILLE_T_COLLECTING_H

#include "boxing/box.h"
#include "boxing/reduce.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/device/stream.h"
#include "t/host/host_comm.h"

enum { COMMUNICATORS = 256 };
static struct collecting_comm {
    struct communicator face;
    struct host_comm host_comm;
    int32_t device[HOST_COMM_RANKS];
} collecting[COMMUNICATORS];
static int ncollecting;
static bool collecting_driven; /* true: the simulator drives the streams, so their work must not block */
static long ncollected[4];     /* by collective verb: number of calls, counted once per rank */
static long npassed;           /* number of point-to-point calls, counted once per rank */

static struct communicator *
collecting_communicator(bool edge, int32_t n, const int32_t *device)
{
    for (int i = 0; i < ncollecting; i++)
        if (collecting[i].face.edge == edge && collecting[i].face.n == n &&
            !memcmp(collecting[i].device, device, sizeof *device * (size_t)n))
            return &collecting[i].face;
    assert(ncollecting < COMMUNICATORS && n <= HOST_COMM_RANKS);
    struct collecting_comm *s = &collecting[ncollecting++];
    memcpy(s->device, device, sizeof *device * (size_t)n);
    s->face = (struct communicator){DEV_ASYNC, n, s->device, edge, communicator_name(DEV_ASYNC, edge, n, device)};
    host_comm_open(&s->host_comm, n, s->device);
    return &s->face;
}

/* Combines x with the sum, maximum or minimum in `to`. what: dtype * NREDUCE + reduction. */
static void
collecting_add(int what, void *to, const void *x, int64_t n)
{
    enum dtype d = (enum dtype)(what / NREDUCE);
    struct type t = type_of(d, 1, &n);
    struct view dst = view_dense(&t, to), src[2] = {dst, view_dense(&t, (void *)(uintptr_t)x)};
    box_reduce((enum reduce)(what % NREDUCE), &dst, 2, src);
}

static int
collecting_collect(struct communicator *c, int32_t rank, const struct collective_call *call, const struct stream *s,
                   const void *in, void *out)
{
    struct collecting_comm *of = (struct collecting_comm *)c;
    struct host_comm_call m = {.verb = call->verb, .what = call->dtype * NREDUCE + call->reduce, .numel = call->numel};
    bool done = true;
    m.width = dtype_bytes((enum dtype)call->dtype);
    m.in = in;
    m.out = out;
    m.add = collecting_add;
    UNUSED(s);
    __atomic_fetch_add(call->verb == COLLECT_PASS ? &npassed : &ncollected[call->verb], 1, __ATOMIC_RELAXED);
    const char *why =
        collecting_driven ? host_comm_try(&of->host_comm, rank, &m, &done) : host_comm_await(&of->host_comm, rank, &m);
    if (why) return fail(host_comm_is_cut(&of->host_comm) ? E_CANCEL : E_KERNEL, "%s", why);
    return done ? 0 : STREAM_HELD;
}

static void
collecting_cut(void)
{
    for (int i = 0; i < ncollecting; i++) host_comm_cut(&collecting[i].host_comm);
}

static int
collecting_connect(int n, struct communicator *const *c, const struct communicator_post *post)
{
    UNUSED(n);
    UNUSED(c);
    UNUSED(post);
    for (int i = 0; i < ncollecting; i++)
        if (collecting[i].host_comm.cut || collecting[i].host_comm.wrong)
            host_comm_open(&collecting[i].host_comm, collecting[i].face.n, collecting[i].device);
    return 0;
}

static inline void
collecting_begin(bool driven)
{
    collecting_driven = driven;
    device_late.flags |= COLLECTS;
    device_late.communicator = collecting_communicator;
    device_late.collect = collecting_collect;
    device_late.cut = collecting_cut;
    device_late.connect = collecting_connect;
}

static inline void
collecting_end(void)
{
    device_late.flags &= ~(unsigned)COLLECTS;
}

#endif
