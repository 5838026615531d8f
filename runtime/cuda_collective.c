/* cuda_collective.c - communicators of GPUs: one for the same devices, made anew after a run that was cut. */
#include "runtime/arena.h"
#include "runtime/communicator.h"
#include "runtime/device_cuda.h"
#include "runtime/error.h"
#include "runtime/layout.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct cuda_communicator {
    struct communicator face; /* first */
    int32_t device[CUDA_DEVICES];
    void *made; /* the plug-in's */
    struct cuda_communicator *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, which grows between runs */
static struct cuda_communicator *all;
static atomic_bool cut; /* what is made is of no use any more */

static int
make(struct cuda_communicator *c)
{
    int gpu[CUDA_DEVICES], major, minor;
    const char *why = NULL;
    for (int32_t i = 0; i < c->face.n; i++) gpu[i] = cuda_device_at(cuda_index(c->device[i]), &major, &minor)->gpu;
    c->made = cuda_opened()->communicator(c->face.n, gpu, &why);
    return c->made ? 0 : fail(E_KERNEL, "cuda: a communicator of %d GPUs: %s", (int)c->face.n, why);
}

static int
find(int32_t n, const int32_t *device, struct communicator **out)
{
    struct cuda_communicator *c = all;
    while (c && (c->face.n != n || memcmp(c->device, device, sizeof *device * (size_t)n))) c = c->next;
    if (!c) {
        c = must_alloc(sizeof *c);
        *c = (struct cuda_communicator){.next = all};
        memcpy(c->device, device, sizeof *device * (size_t)n);
        c->face = (struct communicator){n, c->device};
        all = c;
    }
    *out = &c->face;
    return c->made || atomic_load(&cut) ? 0 : make(c); /* what is cut is made when the next run begins */
}

int
cuda_communicator_get(int32_t n, const int32_t *device, struct communicator **out)
{
    pthread_mutex_lock(&lock);
    int status = cuda_note(NULL);
    if (!status) status = find(n, device, out);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- a part ---- */

static const int element_of[NDTYPE] = {
    [DT_F32] = CUDA_F32, [DT_F64] = CUDA_F64, [DT_BF16] = CUDA_BF16, [DT_F16] = CUDA_F16,
    [DT_I64] = CUDA_I64, [DT_I32] = CUDA_I32, [DT_U8] = CUDA_U8,     [DT_BOOL] = CUDA_U8,
};

int
cuda_collect(struct communicator *c, int32_t seat, const struct collective_call *call, const struct stream *s,
             const void *in, void *out)
{
    static const int verb[] = {[COLLECT_REDUCE] = CUDA_ALL_REDUCE,
                               [COLLECT_SCATTER] = CUDA_REDUCE_SCATTER,
                               [COLLECT_GATHER] = CUDA_ALL_GATHER,
                               [COLLECT_EXCHANGE] = CUDA_ALL_TO_ALL};
    static const int reduce[NREDUCE] = {
        [RED_SUM] = CUDA_SUM, [RED_MAX] = CUDA_MAX, [RED_MIN] = CUDA_MIN, [RED_PROD] = CUDA_PROD};
    const struct cuda_communicator *own = (const struct cuda_communicator *)c;
    struct cuda_collective what = {verb[call->verb], reduce[call->reduce], element_of[call->dtype], call->numel};
    UNUSED(s);
    TRY(cuda_cut_work());
    TRY(cuda_graph_launch());
    return cuda_note(cuda_opened()->collect(own->made, seat, &what, in, out));
}

/* ---- runs that fail ---- */

int
cuda_cut_work(void)
{
    return atomic_load(&cut) ? fail(E_CANCEL, "the run has failed, and its collectives with it") : 0;
}

void
cuda_collect_cut(void)
{
    if (atomic_exchange(&cut, true)) return;
    pthread_mutex_lock(&lock);
    for (struct cuda_communicator *c = all; c; c = c->next)
        if (c->made) cuda_opened()->cut(c->made);
    pthread_mutex_unlock(&lock);
}

static int
mend(void)
{
    TRY(cuda_note(NULL));
    for (struct cuda_communicator *c = all; c; c = c->next) {
        if (c->made) cuda_opened()->drop(c->made);
        c->made = NULL;
    }
    for (struct cuda_communicator *c = all; c; c = c->next) TRY(make(c));
    atomic_store(&cut, false);
    return 0;
}

int
cuda_collect_mend(void)
{
    if (!atomic_load(&cut)) return 0;
    pthread_mutex_lock(&lock);
    int status = mend();
    pthread_mutex_unlock(&lock);
    return status;
}
