/* collectives.cu - collectives by NCCL, a library that is opened when there is one.
 *
 * All seats of a communicator are of this process, each on a GPU of its own. Its calls do not block: a thread that has
 * launched its part looks until NCCL has taken it, and leaves when the communicator is cut; so whoever cuts never waits
 * for it. What NCCL adds it adds in an order of its own, the same each time for the same communicator. */
#include "kernels/cuda/plugin.h"

#if __has_include(<nccl.h>)
#include <atomic>
#include <mutex>
#include <nccl.h>
#include <sched.h>

enum { SEATS = 64, OLDEST = 21400 }; /* the first whose calls need not block */

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
    if (v < OLDEST) n.missing = "libnccl.so is not there, or too old";
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

struct seat {
    std::mutex lock;
    ncclComm_t comm; /* null: it was cut */
    int gpu;
};
struct communicator {
    int n;
    std::atomic<bool> cut;
    seat of[SEATS];
};

/* Until NCCL has taken what was asked for. */
static ncclResult_t
await(const communicator *c, ncclComm_t comm, ncclResult_t r)
{
    while (r == ncclInProgress && !c->cut) {
        ncclResult_t asked = the_nccl().state(comm, &r);
        if (asked != ncclSuccess) return asked;
        if (r == ncclInProgress) sched_yield();
    }
    return r;
}

static ncclResult_t
begin_seats(communicator *c)
{
    const nccl &n = the_nccl();
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t r = n.id(&id);
    if (r == ncclSuccess) r = n.begin();
    for (int i = 0; i < c->n && (r == ncclSuccess || r == ncclInProgress); i++)
        r = cudaSetDevice(c->of[i].gpu) == cudaSuccess ? n.init(&c->of[i].comm, c->n, id, i, &config)
                                                       : ncclUnhandledCudaError;
    ncclResult_t ended = n.end();
    if (r == ncclSuccess || r == ncclInProgress) r = ended;
    for (int i = 0; i < c->n && (r == ncclSuccess || r == ncclInProgress); i++)
        r = await(c, c->of[i].comm, ncclInProgress);
    return r;
}

void *
collectives_communicator(int n, const int *gpu, const char **why)
{
    communicator *c = new communicator();
    c->n = n;
    for (int i = 0; i < n; i++) c->of[i].gpu = gpu[i];
    ncclResult_t r = begin_seats(c);
    if (r == ncclSuccess) return c;
    *why = the_nccl().text(r);
    collectives_cut(c);
    collectives_drop(c);
    return nullptr;
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

/* As one: each seat sends a block to every other, itself among them, and gets one of it. */
static ncclResult_t
exchange(int seats, size_t numel, ncclDataType_t type, size_t width, ncclComm_t comm, const void *in, void *out)
{
    const nccl &n = the_nccl();
    ncclResult_t r = n.begin();
    if (r != ncclSuccess) return r;
    for (int i = 0; i < seats && (r == ncclSuccess || r == ncclInProgress); i++) {
        size_t at = width * numel * static_cast<size_t>(i);
        r = n.send(static_cast<const char *>(in) + at, numel, type, i, comm, cudaStreamPerThread);
        if (r == ncclSuccess || r == ncclInProgress)
            r = n.receive(static_cast<char *>(out) + at, numel, type, i, comm, cudaStreamPerThread);
    }
    ncclResult_t ended = n.end();
    return r == ncclSuccess || r == ncclInProgress ? ended : r;
}

static ncclResult_t
launch(const struct cuda_collective *what, int seats, ncclComm_t comm, const void *in, void *out)
{
    static const ncclRedOp_t reduce[] = {ncclSum, ncclProd, ncclMax, ncclMin};
    size_t numel = static_cast<size_t>(what->numel);
    ncclDataType_t type = type_of(what->element);
    ncclRedOp_t op = reduce[what->reduce];
    const nccl &n = the_nccl();
    if (what->verb == CUDA_ALL_TO_ALL) return exchange(seats, numel, type, width_of(what->element), comm, in, out);
    if (what->verb == CUDA_ALL_GATHER) return n.gather(in, out, numel, type, comm, cudaStreamPerThread);
    return what->verb == CUDA_ALL_REDUCE ? n.reduce(in, out, numel, type, op, comm, cudaStreamPerThread)
                                         : n.scatter(in, out, numel, type, op, comm, cudaStreamPerThread);
}

const char *
collectives_collect(void *made, int i, const struct cuda_collective *what, const void *in, void *out)
{
    communicator *c = static_cast<communicator *>(made);
    seat *own = &c->of[i];
    cudaError_t e = cudaSetDevice(own->gpu);
    if (e != cudaSuccess) return text_of(e);
    std::lock_guard<std::mutex> guard(own->lock);
    if (!own->comm) return nullptr;
    ncclResult_t r = await(c, own->comm, launch(what, c->n, own->comm, in, out));
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
collectives_communicator(int, const int *, const char **why)
{
    *why = "there is no library of collectives";
    return nullptr;
}

const char *
collectives_collect(void *, int, const struct cuda_collective *, const void *, void *)
{
    return "there is no library of collectives";
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
