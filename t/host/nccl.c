/* nccl.c - NCCL on a host without GPUs, beside toolkit.c: what the plug-in calls of it, by the header of the real one.
 * What it computes, and what it says is wrong, is in t/host/meet.h. A part is put off as kernels are; a thread that
 * waits for its stream then waits for the other seats. Calls never block, and what is begun takes a second look.
 *
 * FAKE_CUDA: nonccl (a communicator cannot be made), oldnccl. */
#include "t/host/toolkit.h"

#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

#include "t/host/meet.h"

enum { MEETS = 256 };
static struct meet meets[MEETS];
static int nmeet, naborted[MEETS];

struct ncclComm {
    struct meet *meet;
    int seat;
    bool looked; /* asked about what was begun last */
};

ncclResult_t
ncclGetVersion(int *version)
{
    *version = fake_is_said("oldnccl") ? 2708 : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *
ncclGetErrorString(ncclResult_t r)
{
    return r == ncclInvalidUsage ? "invalid usage" : r == ncclInProgress ? "in progress" : "unhandled system error";
}

ncclResult_t
ncclGetUniqueId(ncclUniqueId *id)
{
    if (fake_is_said("nonccl") || nmeet == MEETS) return ncclSystemError;
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &nmeet, sizeof nmeet);
    nmeet++;
    return ncclSuccess;
}

/* A GPU has one seat. */
ncclResult_t
ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    int number, device[MEET_SEATS];
    memcpy(&number, id.internal, sizeof number);
    struct meet *m = &meets[number];
    if (rank == 0) {
        for (int i = 0; i < n; i++) device[i] = -1;
        meet_open(m, n, device);
    }
    for (int i = 0; i < n; i++)
        if (m->device[i] == fake_current()) return ncclInvalidUsage;
    if (config->blocking || rank >= n || m->n != n) return ncclInvalidArgument;
    m->device[rank] = fake_current();
    *comm = calloc(1, sizeof **comm);
    **comm = (struct ncclComm){.meet = m, .seat = rank};
    fake_log("communicator %d of %d: seat %d is gpu %d\n", number, n, rank, fake_current());
    return ncclInProgress;
}

ncclResult_t
ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *r)
{
    *r = comm->looked ? ncclSuccess : ncclInProgress;
    comm->looked = true;
    return ncclSuccess;
}

/* The kernels of a seat end when its own communicator is aborted; here when all are, so that one who forgets some
 * hangs. */
ncclResult_t
ncclCommAbort(ncclComm_t comm)
{
    int number = (int)(comm->meet - meets);
    if (__atomic_add_fetch(&naborted[number], 1, __ATOMIC_SEQ_CST) == comm->meet->n) meet_cut(comm->meet);
    fake_log("abort %d\n", number);
    free(comm);
    return ncclSuccess;
}

/* ---- collectives ---- */

enum { OPERATIONS = 8 };

static size_t
width(ncclDataType_t t)
{
    return t == ncclUint8 ? 1 : t == ncclFloat16 || t == ncclBfloat16 ? 2 : t == ncclInt32 || t == ncclFloat32 ? 4 : 8;
}

static double
combine(ncclRedOp_t op, double a, double b)
{
    return op == ncclSum ? a + b : op == ncclProd ? a * b : op == ncclMax ? fmax(a, b) : fmin(a, b);
}

/* Of whole numbers, which wrap. */
static uint64_t
combine_whole(ncclRedOp_t op, int64_t a, int64_t b)
{
    return op == ncclSum    ? (uint64_t)a + (uint64_t)b
           : op == ncclProd ? (uint64_t)a * (uint64_t)b
           : op == ncclMax  ? (uint64_t)(a > b ? a : b)
                            : (uint64_t)(a < b ? a : b);
}

static void
add(int what, void *to, const void *x, int64_t n)
{
    ncclDataType_t t = (ncclDataType_t)(what / OPERATIONS);
    ncclRedOp_t op = (ncclRedOp_t)(what % OPERATIONS);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *b = to;
        int32_t *w = to;
        int64_t *l = to;
        float *f = to;
        double *d = to;
        if (t == ncclUint8) b[i] = (uint8_t)combine_whole(op, b[i], ((const uint8_t *)x)[i]);
        if (t == ncclInt32) w[i] = (int32_t)combine_whole(op, w[i], ((const int32_t *)x)[i]);
        if (t == ncclInt64) l[i] = (int64_t)combine_whole(op, l[i], ((const int64_t *)x)[i]);
        if (t == ncclFloat32) f[i] = (float)combine(op, f[i], ((const float *)x)[i]);
        if (t == ncclFloat64) d[i] = combine(op, d[i], ((const double *)x)[i]);
    }
}

struct part {
    struct meet *meet;
    int seat;
    struct meet_call call;
};

static cudaError_t
take_part(void *of)
{
    struct part *p = of;
    const char *why = meet_await(p->meet, p->seat, &p->call);
    bool wrong = why && !meet_is_cut(p->meet);
    if (wrong) fprintf(stderr, "fake nccl: %s\n", why);
    return wrong ? cudaErrorLaunchFailure : cudaSuccess;
}

static ncclResult_t
ask(const char *name, int verb, const void *in, void *out, size_t numel, ncclDataType_t t, int op, ncclComm_t comm,
    cudaStream_t stream)
{
    struct part p = {comm->meet, comm->seat, {verb, (int)t * OPERATIONS + op, width(t), (int64_t)numel, in, out, add}};
    if (stream != cudaStreamPerThread || fake_current() != p.meet->device[p.seat] || numel == 0)
        return ncclInvalidArgument;
    comm->looked = false;
    fake_log("%s gpu %d type %d\n", name, fake_current(), (int)t);
    meet_backwards = true;
    return fake_put_off(take_part, &p, sizeof p) ? ncclUnhandledCudaError : ncclInProgress;
}

/* ---- sends and receives: of one group, to and from every seat, blocks in the order of the seats ---- */

static _Thread_local struct group {
    int depth, nsent, nreceived;
    ncclComm_t comm;
    const char *in;
    char *out;
    size_t numel;
    ncclDataType_t type;
    cudaStream_t stream;
} group;

static bool
joins(ncclComm_t comm, size_t numel, ncclDataType_t t, cudaStream_t stream)
{
    bool first = !group.comm;
    if (group.depth != 1 || numel == 0) return false;
    if (first) group.comm = comm, group.numel = numel, group.type = t, group.stream = stream;
    return group.comm == comm && group.numel == numel && group.type == t && group.stream == stream;
}

ncclResult_t
ncclSend(const void *in, size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (!joins(comm, n, t, stream)) return ncclInvalidUsage;
    if (peer == 0) group.in = in;
    if (peer != group.nsent++ || in != group.in + (size_t)peer * n * width(t)) return ncclInvalidArgument;
    return ncclSuccess;
}

ncclResult_t
ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (!joins(comm, n, t, stream)) return ncclInvalidUsage;
    if (peer == 0) group.out = out;
    if (peer != group.nreceived++ || out != group.out + (size_t)peer * n * width(t)) return ncclInvalidArgument;
    return ncclSuccess;
}

ncclResult_t
ncclGroupStart(void)
{
    if (group.depth == 0) group = (struct group){0};
    group.depth++;
    return ncclSuccess;
}

ncclResult_t
ncclGroupEnd(void)
{
    struct group g = group;
    if (--group.depth > 0 || !g.comm) return ncclInProgress;
    int n = g.comm->meet->n;
    if (g.nsent != n || g.nreceived != n) return ncclInvalidUsage;
    return ask("all-to-all", MEET_EXCHANGE, g.in, g.out, g.numel, g.type, 0, g.comm, g.stream);
}

ncclResult_t
ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    return ask("all-reduce", MEET_REDUCE, in, out, n, t, op, comm, s);
}

ncclResult_t
ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t comm,
                  cudaStream_t s)
{
    return ask("reduce-scatter", MEET_SCATTER, in, out, n, t, op, comm, s);
}

ncclResult_t
ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t, ncclComm_t comm, cudaStream_t s)
{
    return ask("all-gather", MEET_GATHER, in, out, n, t, 0, comm, s);
}
