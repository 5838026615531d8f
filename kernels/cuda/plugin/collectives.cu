/* collectives.cu - collectives, sends and receives with NCCL, which is opened at run time.
 *
 * A communicator has ranks (`comm_rank`), each with its own GPU; some ranks belong to other processes. NCCL's
 * communicators are nonblocking. A thread that connects or launches polls until NCCL has accepted its request, and
 * stops when another thread cuts (aborts) the communicator. So the thread that cuts never waits for NCCL. NCCL
 * adds in an order of its choice, which is the same for every call on one communicator. */
#include "kernels/cuda/plugin/collectives.h"
#include "kernels/cuda/plugin/plugin.h"

#if __has_include(<nccl.h>)
#include <atomic>
#include <mutex>
#include <nccl.h>
#include <sched.h>

static_assert(CUDA_ID == NCCL_UNIQUE_ID_BYTES, "CUDA_ID differs from NCCL_UNIQUE_ID_BYTES");

enum { OLDEST = 21400 }; /* first NCCL version with nonblocking communicators */

struct nccl {
    decltype(&ncclGetUniqueId) id;
    decltype(&ncclCommInitRankConfig) init;
    decltype(&ncclGroupStart) begin;
    decltype(&ncclGroupEnd) end;
    decltype(&ncclCommGetAsyncError) state;
    decltype(&ncclCommAbort) give_up;
    decltype(&ncclAllReduce) reduce;
    decltype(&ncclReduceScatter) scatter;
    decltype(&ncclAllGather) gather;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) receive;
    decltype(&ncclGetErrorString) text;
    char version[32];
    const char *missing;
};

static nccl
open_nccl()
{
    nccl n = {};
    void *file = open_library("libnccl.so", NCCL_MAJOR);
    decltype(&ncclGetVersion) version = nullptr;
    int v = 0;
    bool all = file && find(file, "ncclGetUniqueId", &n.id) && find(file, "ncclCommInitRankConfig", &n.init) &&
               find(file, "ncclGroupStart", &n.begin) && find(file, "ncclGroupEnd", &n.end) &&
               find(file, "ncclCommGetAsyncError", &n.state) && find(file, "ncclCommAbort", &n.give_up) &&
               find(file, "ncclAllReduce", &n.reduce) && find(file, "ncclReduceScatter", &n.scatter) &&
               find(file, "ncclAllGather", &n.gather) && find(file, "ncclSend", &n.send) &&
               find(file, "ncclRecv", &n.receive) && find(file, "ncclGetErrorString", &n.text) &&
               find(file, "ncclGetVersion", &version);
    if (all) version(&v);
    if (v < OLDEST) n.missing = "libnccl.so is missing or too old";
    snprintf(n.version, sizeof n.version, "NCCL %d.%d", v / 10000, v / 100 % 100);
    return n;
}

static const nccl &
the_nccl()
{
    static const nccl n = open_nccl();
    return n;
}

const char *
collectives_library(const char **why)
{
    *why = the_nccl().missing;
    return *why ? nullptr : the_nccl().version;
}

struct comm_rank {
    std::mutex lock;
    ncclComm_t comm; /* NCCL's communicator; null: it was aborted (cut), or is not yet connected */
    int gpu;         /* GPU of the rank; -1: the rank is in another process */
};
struct communicator {
    explicit communicator(int nrank) : n(nrank), cut(false), of(static_cast<size_t>(nrank)) {}
    int n;
    std::atomic<bool> cut;
    std::vector<comm_rank> of;
};

/* A condition on which a waiting thread stops early. */
struct leaver {
    bool (*left)(void *of); /* returns true if the thread must stop; null: there is no such condition */
    void *of;
    bool leaves() const { return left && left(of); }
};

/* Polls until NCCL has accepted the last request, until the communicator was aborted (cut), or until who.leaves()
 * returns true. */
static ncclResult_t
await(const communicator *c, ncclComm_t comm, ncclResult_t r, const leaver &who)
{
    while (r == ncclInProgress && !c->cut && !who.leaves()) {
        ncclResult_t asked = the_nccl().state(comm, &r);
        if (asked != ncclSuccess) return asked;
        if (r == ncclInProgress) sched_yield();
    }
    return r;
}

/* Connects the ranks of this process as one NCCL group. Then polls each of them until the ranks of all processes
 * are connected. */
static ncclResult_t
connect_ranks(communicator *c, const ncclUniqueId &id, const leaver &who)
{
    const nccl &n = the_nccl();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t r = n.begin();
    for (int i = 0; i < c->n && (r == ncclSuccess || r == ncclInProgress); i++) {
        if (c->of[i].gpu < 0) continue;
        r = cudaSetDevice(c->of[i].gpu) == cudaSuccess ? n.init(&c->of[i].comm, c->n, id, i, &config)
                                                       : ncclUnhandledCudaError;
    }
    ncclResult_t ended = n.end();
    if (r == ncclSuccess || r == ncclInProgress) r = ended;
    for (int i = 0; i < c->n && (r == ncclSuccess || r == ncclInProgress); i++)
        if (c->of[i].comm) r = await(c, c->of[i].comm, ncclInProgress, who);
    return r;
}

void *
collectives_communicator(int n, const int *gpu)
{
    communicator *c = new communicator(n);
    for (int i = 0; i < n; i++) c->of[i].gpu = gpu[i];
    return c;
}

const char *
collectives_identify(void *id)
{
    ncclUniqueId made;
    ncclResult_t r = the_nccl().id(&made);
    if (r != ncclSuccess) return the_nccl().text(r);
    memcpy(id, &made, sizeof made);
    return nullptr;
}

/* Connects a communicator. Holds the locks of all its ranks, so that collectives_cut() waits until this call has
 * returned. */
const char *
collectives_connect(void *made, const void *bytes, bool (*left)(void *of), void *of)
{
    communicator *c = static_cast<communicator *>(made);
    ncclUniqueId id;
    memcpy(&id, bytes, sizeof id);
    for (comm_rank &s : c->of) s.lock.lock();
    ncclResult_t r = c->cut ? ncclSuccess : connect_ranks(c, id, {left, of});
    for (comm_rank &s : c->of) s.lock.unlock();
    return r == ncclSuccess || c->cut ? nullptr : the_nccl().text(r);
}

static ncclDataType_t
type_of(int element)
{
    static const ncclDataType_t of[] = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16,
                                        ncclInt64,   ncclInt32,   ncclUint8};
    return of[element];
}

static size_t
width_of(int element)
{
    static const size_t of[] = {4, 8, 2, 2, 8, 4, 1};
    return of[element];
}

/* Starts an all-to-all as one NCCL group: each rank sends a block to every rank, itself included, and receives a
 * block from each. */
static ncclResult_t
exchange(int nrank, size_t numel, ncclDataType_t type, size_t width, ncclComm_t comm, const void *in, void *out)
{
    const nccl &n = the_nccl();
    ncclResult_t r = n.begin();
    if (r != ncclSuccess) return r;
    for (int i = 0; i < nrank && (r == ncclSuccess || r == ncclInProgress); i++) {
        size_t at = width * numel * static_cast<size_t>(i);
        r = n.send(static_cast<const char *>(in) + at, numel, type, i, comm, cudaStreamPerThread);
        if (r == ncclSuccess || r == ncclInProgress)
            r = n.receive(static_cast<char *>(out) + at, numel, type, i, comm, cudaStreamPerThread);
    }
    ncclResult_t ended = n.end();
    return r == ncclSuccess || r == ncclInProgress ? ended : r;
}

static ncclResult_t
launch(const struct cuda_collective *what, int nrank, int rank, ncclComm_t comm, const void *in, void *out)
{
    static const ncclRedOp_t reduce[] = {ncclSum, ncclProd, ncclMax, ncclMin};
    size_t numel = static_cast<size_t>(what->numel);
    ncclDataType_t type = type_of(what->element);
    ncclRedOp_t op = reduce[what->reduce];
    const nccl &n = the_nccl();
    if (what->verb == CUDA_PASS)
        return rank == 0 ? n.send(in, numel, type, 1, comm, cudaStreamPerThread)
                         : n.receive(out, numel, type, 0, comm, cudaStreamPerThread);
    if (what->verb == CUDA_ALL_TO_ALL) return exchange(nrank, numel, type, width_of(what->element), comm, in, out);
    if (what->verb == CUDA_ALL_GATHER) return n.gather(in, out, numel, type, comm, cudaStreamPerThread);
    return what->verb == CUDA_ALL_REDUCE ? n.reduce(in, out, numel, type, op, comm, cudaStreamPerThread)
                                         : n.scatter(in, out, numel, type, op, comm, cudaStreamPerThread);
}

const char *
collectives_collect(void *made, int rank, const struct cuda_collective *what, const void *in, void *out)
{
    communicator *c = static_cast<communicator *>(made);
    comm_rank *own = &c->of[rank];
    cudaError_t e = cudaSetDevice(own->gpu);
    if (e != cudaSuccess) return text_of(e);
    std::lock_guard<std::mutex> guard(own->lock);
    if (!own->comm) return nullptr;
    ncclResult_t r = await(c, own->comm, launch(what, c->n, rank, own->comm, in, out), {nullptr, nullptr});
    return r == ncclSuccess || c->cut ? nullptr : the_nccl().text(r);
}

void
collectives_cut(void *made)
{
    communicator *c = static_cast<communicator *>(made);
    c->cut = true;
    for (int i = 0; i < c->n; i++) {
        std::lock_guard<std::mutex> guard(c->of[i].lock);
        if (c->of[i].comm) the_nccl().give_up(c->of[i].comm);
        c->of[i].comm = nullptr;
    }
}

void
collectives_drop(void *made)
{
    delete static_cast<communicator *>(made);
}

#else

const char *
collectives_library(const char **why)
{
    *why = "the plug-in was built without NCCL";
    return nullptr;
}

void *
collectives_communicator(int, const int *)
{
    return nullptr;
}

const char *
collectives_identify(void *)
{
    return "NCCL is not available";
}

const char *
collectives_connect(void *, const void *, bool (*)(void *), void *)
{
    return "NCCL is not available";
}

const char *
collectives_collect(void *, int, const struct cuda_collective *, const void *, void *)
{
    return "NCCL is not available";
}

void
collectives_cut(void *)
{
}

void
collectives_drop(void *)
{
}
#endif
