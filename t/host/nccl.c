/* nccl.c - an NCCL stand-in for hosts without GPUs, next to toolkit.c: the functions that the plug-in calls,
 * declared by the real header. Ranks communicate through a board (t/host/board.h), which processes share, so an id
 * made by one process is valid in the others. A call is queued like a kernel launch: a thread that waits for its
 * stream makes the call, and then waits for the other ranks. Calls of the API never block: a started operation
 * reports "in progress" at the first query, and a communicator is ready when all its ranks have joined.
 *
 * A send outside a group waits for its receive. If FAKE_CUDA contains the word `buffers`, the send is buffered and
 * waits only for the receive of the previous send, because real NCCL may do either. Streams of several
 * point-to-point links may wait at the same time.
 *
 * Words in FAKE_CUDA set faults: nonccl (communicators cannot be made), unmet (a communicator never becomes ready,
 * as if its ranks could not reach each other), oldnccl (an old version). */
#include "t/host/board.h"
#include "t/host/toolkit.h"

#include <math.h>
#include <nccl.h>

/* State of a communicator in this process, by its number on the board. The board's lock protects it. */
static struct here {
    int nrank, naborted;
    bool cut;
} here[BOARD_COMMS];

struct ncclComm {
    int comm, rank, gpu;
    bool looked; /* true: the caller has asked for the status of the last operation */
};
struct id {
    int32_t number;
    uint64_t secret;
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
ncclGetUniqueId(ncclUniqueId *out)
{
    struct id id = {0};
    if (fake_is_said("nonccl")) return ncclSystemError;
    struct board *b = board_lock();
    bool fits = b->ncomm < BOARD_COMMS;
    if (fits) id.number = b->ncomm++;
    id.secret = (uint64_t)getpid() << 32 | (uint32_t)(id.number + 1);
    if (fits) b->comm[id.number] = (struct board_comm){.secret = id.secret};
    board_unlock();
    memset(out, 0, sizeof *out);
    memcpy(out->internal, &id, sizeof id);
    return fits ? ncclSuccess : ncclSystemError;
}

/* Adds a rank to a communicator. Returns NULL, or why the rank is refused: a GPU may have only one rank, and an id
 * may make only one communicator. The caller holds the lock. */
static const char *
take_rank(struct board_comm *m, int n, int rank, int gpu)
{
    if (n > BOARD_RANKS || rank >= n || (m->n && m->n != n)) return "an id is used with other numbers of ranks";
    if (m->taken[rank]) return "an id is used twice";
    for (int i = 0; i < n; i++)
        if (m->taken[i] && m->gpu[i] == gpu) return "a GPU has two ranks";
    m->n = n;
    m->gpu[rank] = gpu;
    m->taken[rank] = true;
    return NULL;
}

ncclResult_t
ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId given, int rank, ncclConfig_t *config)
{
    struct id id;
    struct cudaDeviceProp gpu;
    memcpy(&id, given.internal, sizeof id);
    if (config->blocking || cudaGetDeviceProperties(&gpu, fake_current())) return ncclInvalidArgument;
    struct board *b = board_lock();
    bool known = id.number >= 0 && id.number < b->ncomm && b->comm[id.number].secret == id.secret;
    const char *why = known ? take_rank(&b->comm[id.number], n, rank, board_gpu(&gpu.uuid)) : "an unknown id";
    if (!why) here[id.number].nrank++;
    board_unlock();
    if (why) fprintf(stderr, "fake nccl: %s\n", why);
    if (why) return ncclInvalidUsage;
    *comm = calloc(1, sizeof **comm);
    **comm = (struct ncclComm){.comm = id.number, .rank = rank, .gpu = fake_current()};
    fake_log("communicator %d of %d: rank %d is gpu %d\n", id.number, n, rank, fake_current());
    return ncclInProgress;
}

/* Reports a communicator as in progress until all ranks have joined. */
ncclResult_t
ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *r)
{
    bool made = !fake_is_said("unmet");
    struct board *b = board_lock();
    const struct board_comm *m = &b->comm[comm->comm];
    for (int i = 0; i < m->n; i++) made = made && m->taken[i];
    board_unlock();
    *r = comm->looked && made ? ncclSuccess : ncclInProgress;
    comm->looked = true;
    return ncclSuccess;
}

/* Aborts a communicator. In real NCCL, a rank's kernels end when the communicator of this rank is aborted. In this
 * stand-in, they end only when all ranks of the process have aborted, so a process that forgets one rank hangs.
 * Ranks of other processes continue to wait. */
ncclResult_t
ncclCommAbort(ncclComm_t comm)
{
    board_lock();
    struct here *h = &here[comm->comm];
    h->cut = ++h->naborted == h->nrank;
    board_tell();
    board_unlock();
    fake_log("abort %d\n", comm->comm);
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

/* Returns the sum, product, maximum or minimum of two integers. Sums and products wrap around. */
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

/* Reduces the data of all ranks, in descending order of ranks, because real NCCL does not promise ascending order.
 * The caller holds the lock. */
static void
add_all(const struct board_comm *m, int comm, size_t skip, const struct board_call *c, char *out)
{
    memcpy(out, board_place(comm, m->n - 1) + skip, (size_t)(c->numel * c->width));
    for (int i = m->n - 2; i >= 0; i--) add(c->what, out, board_place(comm, i) + skip, c->numel);
}

static void
take_result(int comm, int rank, const struct board_call *c, char *out)
{
    const struct board_comm *m = &the_board->comm[comm];
    size_t block = (size_t)(c->numel * c->width), own = block * (size_t)rank;
    if (c->verb == BOARD_REDUCE || c->verb == BOARD_SCATTER) {
        add_all(m, comm, c->verb == BOARD_SCATTER ? own : 0, c, out);
        return;
    }
    for (int i = 0; i < m->n; i++)
        memcpy(out + block * (size_t)i, board_place(comm, i) + (c->verb == BOARD_EXCHANGE ? own : 0), block);
}

struct part {
    int comm, rank;
    struct board_call call;
    const void *in;
    void *out;
};

static cudaError_t
take_part(void *of)
{
    struct part *p = of;
    struct board *b = board_lock();
    const struct board_comm *m = &b->comm[p->comm];
    bool many = p->call.verb == BOARD_SCATTER || p->call.verb == BOARD_EXCHANGE;
    size_t bytes = (size_t)(p->call.numel * p->call.width) * (many ? (size_t)m->n : 1);
    const char *why = board_begin(p->comm, p->rank, &p->call, p->in, bytes, &here[p->comm].cut);
    bool wrong = why && !here[p->comm].cut;
    if (!why) take_result(p->comm, p->rank, &p->call, p->out);
    if (!why) board_end(p->comm, p->rank);
    board_unlock();
    if (wrong) fprintf(stderr, "fake nccl: %s\n", why);
    return wrong ? cudaErrorLaunchFailure : cudaSuccess;
}

static ncclResult_t
ask(const char *name, int verb, const void *in, void *out, size_t numel, ncclDataType_t t, int op, ncclComm_t comm,
    cudaStream_t stream)
{
    struct part p = {.comm = comm->comm, .rank = comm->rank, .in = in, .out = out};
    p.call = (struct board_call){verb, (int)t * OPERATIONS + op, (int64_t)width(t), (int64_t)numel};
    if (stream != cudaStreamPerThread || fake_current() != comm->gpu || numel == 0) return ncclInvalidArgument;
    comm->looked = false;
    fake_log("%s gpu %d type %d\n", name, fake_current(), (int)t);
    return fake_put_off(take_part, &p, sizeof p) ? ncclUnhandledCudaError : ncclInProgress;
}

static int
ranks_of(ncclComm_t comm)
{
    struct board *b = board_lock();
    int n = b->comm[comm->comm].n;
    board_unlock();
    return n;
}

/* ---- sends and receives outside a group: send n of one rank matches receive n of the other ---- */

static cudaError_t
pass(void *of)
{
    struct part *p = of;
    board_lock();
    const bool *cut = &here[p->comm].cut;
    size_t bytes = (size_t)(p->call.numel * p->call.width);
    const char *why = p->rank == 0 ? board_send(p->comm, &p->call, p->in, bytes, fake_is_said("buffers"), cut)
                                   : board_receive(p->comm, &p->call, p->out, bytes, cut);
    bool wrong = why && !*cut;
    board_unlock();
    if (wrong) fprintf(stderr, "fake nccl: %s\n", why);
    return wrong ? cudaErrorLaunchFailure : cudaSuccess;
}

/* Starts the send or the receive of a rank, in a communicator of two ranks: rank 0 sends to rank 1. */
static ncclResult_t
ask_to_pass(const void *in, void *out, size_t numel, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t stream)
{
    struct part p = {.comm = comm->comm, .rank = comm->rank, .in = in, .out = out};
    p.call = (struct board_call){BOARD_PASS, (int)t, (int64_t)width(t), (int64_t)numel};
    bool paired = comm->rank == (in ? 0 : 1) && peer == 1 - comm->rank && ranks_of(comm) == 2;
    if (stream != cudaStreamPerThread || fake_current() != comm->gpu || numel == 0 || !paired)
        return ncclInvalidArgument;
    comm->looked = false;
    fake_log("%s gpu %d type %d\n", in ? "send" : "recv", fake_current(), (int)t);
    return fake_put_off(pass, &p, sizeof p) ? ncclUnhandledCudaError : ncclInProgress;
}

/* ---- groups of sends and receives: each rank exchanges a block with every rank; blocks are in rank order ---- */

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
    if (group.depth == 0) return ask_to_pass(in, NULL, n, t, peer, comm, stream);
    if (!joins(comm, n, t, stream)) return ncclInvalidUsage;
    if (peer == 0) group.in = in;
    if (peer != group.nsent++ || in != group.in + (size_t)peer * n * width(t)) return ncclInvalidArgument;
    return ncclSuccess;
}

ncclResult_t
ncclRecv(void *out, size_t n, ncclDataType_t t, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (group.depth == 0) return ask_to_pass(NULL, out, n, t, peer, comm, stream);
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
    int n = ranks_of(g.comm);
    if (g.nsent != n || g.nreceived != n) return ncclInvalidUsage;
    return ask("all-to-all", BOARD_EXCHANGE, g.in, g.out, g.numel, g.type, 0, g.comm, g.stream);
}

ncclResult_t
ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    return ask("all-reduce", BOARD_REDUCE, in, out, n, t, op, comm, s);
}

ncclResult_t
ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t comm,
                  cudaStream_t s)
{
    return ask("reduce-scatter", BOARD_SCATTER, in, out, n, t, op, comm, s);
}

ncclResult_t
ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t, ncclComm_t comm, cudaStream_t s)
{
    return ask("all-gather", BOARD_GATHER, in, out, n, t, 0, comm, s);
}
