/* cuda_collective.c - keeps communicators of GPUs, one per list of devices and use, and reconnects them after a
 * failed run. */
#include "runtime/device/cuda_collective.h"
#include "runtime/data/arena.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/device/cuda_graph.h"
#include "runtime/base/error.h"
#include "runtime/tensor/layout.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)CUDA_ID == (int)COMMUNICATOR_ID, "CUDA_ID must equal COMMUNICATOR_ID");

struct cuda_communicator {
    struct communicator face; /* must be the first member, so that pointers can be converted */
    void *in;                 /* communicator that the plug-in has created; NULL: not connected */
    struct cuda_communicator *next;
};

/* protects `in` of all communicators, and the list `all`, which grows between runs */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_communicator *all;
/* true: after a failed run, the communicators in `all` were cut and cannot be used */
static atomic_bool cut;

struct communicator *
cuda_communicator_get(bool edge, int32_t n, const int32_t *device)
{
    pthread_mutex_lock(&lock);
    struct cuda_communicator *c = all;
    while (c && (c->face.edge != edge || c->face.n != n || memcmp(c->face.device, device, sizeof *device * (size_t)n)))
        c = c->next;
    if (!c) {
        int32_t *own = must_alloc(sizeof *own * (size_t)n);
        memcpy(own, device, sizeof *own * (size_t)n);
        c = must_alloc(sizeof *c);
        *c = (struct cuda_communicator){.face = {DEV_CUDA, n, own, edge, communicator_name(DEV_CUDA, edge, n, device)},
                                        .next = all};
        all = c;
    }
    pthread_mutex_unlock(&lock);
    return &c->face;
}

/* ---- connecting communicators ---- */

static int
gpu_of_rank(const struct communicator *c, int32_t comm_rank)
{
    int major, minor;
    const struct cuda_device *d = cuda_device_at(cuda_index(c->device[comm_rank]), &major, &minor);
    return d ? d->gpu : -1;
}

/* Frees the plug-in's communicators that were cut. No thread uses them any more, because connect is called between
 * runs. */
static int
mend_communicators(void)
{
    if (!atomic_load(&cut)) return 0;
    TRY(cuda_note(NULL));
    pthread_mutex_lock(&lock);
    for (struct cuda_communicator *c = all; c; c = c->next) {
        if (c->in) cuda_opened()->drop(c->in);
        c->in = NULL;
    }
    atomic_store(&cut, false);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Creates the plug-in's communicator; from then on, cut() cuts this communicator, too. *abroad: set to true if
 * other processes have ranks of the communicator. */
static void
begin_connecting(struct cuda_communicator *c, bool *abroad)
{
    int *gpu = must_alloc(sizeof *gpu * (size_t)c->face.n);
    *abroad = false;
    for (int32_t i = 0; i < c->face.n; i++) {
        gpu[i] = gpu_of_rank(&c->face, i);
        *abroad = *abroad || gpu[i] < 0;
    }
    pthread_mutex_lock(&lock);
    c->in = cuda_opened()->communicator(c->face.n, gpu);
    if (atomic_load(&cut)) cuda_opened()->cut(c->in);
    pthread_mutex_unlock(&lock);
    free(gpu);
}

static int
find_id(const struct cuda_communicator *c, bool abroad, const struct communicator_post *post, unsigned char *id)
{
    if (abroad && !post) return fail(E_CANCEL, "the run failed on another device, so its collectives were aborted");
    if (gpu_of_rank(&c->face, 0) < 0) return post->hear(post->of, &c->face, id);
    const char *why = cuda_opened()->identify(id);
    if (why) return fail(E_KERNEL, "cuda: a communicator of %d GPUs could not be made: %s", (int)c->face.n, why);
    return abroad ? post->tell(post->of, &c->face, id) : 0;
}

static int
make_communicator(struct cuda_communicator *c, const struct communicator_post *post)
{
    unsigned char id[CUDA_ID];
    bool abroad;
    begin_connecting(c, &abroad);
    TRY(find_id(c, abroad, post, id));
    const char *why = cuda_opened()->connect(c->in, id, post ? post->left : NULL, post ? post->of : NULL);
    TRY(cuda_cut_work());
    if (post && post->left(post->of)) return fail(E_CANCEL, "interrupted");
    return why ? fail(E_KERNEL, "cuda: a communicator of %d GPUs could not be made: %s", (int)c->face.n, why) : 0;
}

/* Connects all communicators. If one cannot be connected, cuts all of them, so that the next call connects all
 * again. */
int
cuda_communicators_connect(int n, struct communicator *const *c, const struct communicator_post *post)
{
    int status = mend_communicators();
    for (int i = 0; i < n && !status; i++) {
        struct cuda_communicator *own = (struct cuda_communicator *)c[i];
        if (!own->in) status = make_communicator(own, post);
    }
    if (status) cuda_collect_cut();
    return status;
}

/* ---- beginning a rank's part in a collective ---- */

static const int element_of[NDTYPE] = {
    [DT_F32] = CUDA_F32, [DT_F64] = CUDA_F64, [DT_BF16] = CUDA_BF16, [DT_F16] = CUDA_F16,
    [DT_I64] = CUDA_I64, [DT_I32] = CUDA_I32, [DT_U8] = CUDA_U8,     [DT_BOOL] = CUDA_U8,
};

int
cuda_collect(struct communicator *c, int32_t comm_rank, const struct collective_call *call, const struct stream *s,
             const void *in, void *out)
{
    static const int verb[] = {[COLLECT_REDUCE] = CUDA_ALL_REDUCE,
                               [COLLECT_SCATTER] = CUDA_REDUCE_SCATTER,
                               [COLLECT_GATHER] = CUDA_ALL_GATHER,
                               [COLLECT_EXCHANGE] = CUDA_ALL_TO_ALL,
                               [COLLECT_PASS] = CUDA_PASS};
    static const int reduce[NREDUCE] = {
        [RED_SUM] = CUDA_SUM, [RED_MAX] = CUDA_MAX, [RED_MIN] = CUDA_MIN, [RED_PROD] = CUDA_PROD};
    const struct cuda_communicator *own = (const struct cuda_communicator *)c;
    struct cuda_collective what = {verb[call->verb], reduce[call->reduce], element_of[call->dtype], call->numel};
    UNUSED(s);
    TRY(cuda_cut_work());
    TRY(cuda_graph_launch());
    return cuda_note(cuda_opened()->collect(own->in, comm_rank, &what, in, out));
}

/* ---- cutting communicators after a failed run ---- */

int
cuda_cut_work(void)
{
    return atomic_load(&cut) ? fail(E_CANCEL, "the run failed on another device, so its collectives were aborted") : 0;
}

void
cuda_collect_cut(void)
{
    if (atomic_exchange(&cut, true)) return;
    pthread_mutex_lock(&lock);
    for (struct cuda_communicator *c = all; c; c = c->next)
        if (c->in) cuda_opened()->cut(c->in);
    pthread_mutex_unlock(&lock);
}
