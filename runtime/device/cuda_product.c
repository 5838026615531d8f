/* cuda_product.c - caches the algorithms that libraries choose for products and convolutions. An algorithm is
 * requested once per GPU of the process. So compiling a plan again is fast, and equal calls in one process use the
 * same algorithm and return the same bits. */
#include "runtime/device/cuda_product.h"
#include "runtime/device/cuda_graph.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <pthread.h>
#include <string.h>

struct question { /* key of the table: 64-bit words without padding, compared byte by byte */
    int64_t convolves;
    union {
        struct cuda_product product;
        struct cuda_convolution convolution;
    };
};
struct cuda_algo {
    struct question question;
    void *of[CUDA_DEVICES]; /* the algorithm, by device of the process */
    bool known;             /* true: every device has an algorithm for the call */
    size_t scratch_bytes;   /* size of scratch memory: the largest that a device needs, bytes */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the table */
static struct hash_table algorithms;

static void *
ask_plugin(int gpu, const struct question *q, size_t *scratch_bytes)
{
    return q->convolves ? cuda_opened()->convolution(gpu, &q->convolution, scratch_bytes)
                        : cuda_opened()->product(gpu, &q->product, scratch_bytes);
}

static struct cuda_algo *
ask_algorithm(const struct question *q)
{
    struct cuda_algo *w = must_alloc(sizeof *w);
    const struct cuda_device *d;
    int major, minor;
    *w = (struct cuda_algo){.question = *q, .known = true};
    for (int i = 0; w->known && (d = cuda_device_at(i, &major, &minor)); i++) {
        size_t bytes = 0;
        w->of[i] = ask_plugin(d->gpu, q, &bytes);
        w->known = w->of[i];
        w->scratch_bytes = MAX(w->scratch_bytes, bytes);
    }
    return w;
}

static struct cuda_algo *
find_cached_way(const struct question *q)
{
    uint64_t hash = hash_bytes(0, q, sizeof *q);
    uint32_t at = 0;
    struct cuda_algo *w;
    while ((w = hash_next(&algorithms, hash, &at)))
        if (!memcmp(&w->question, q, sizeof *q)) return w;
    hash_add(&algorithms, hash, w = ask_algorithm(q));
    return w;
}

static void
get_way(const struct question *q, struct cuda_algo **out)
{
    pthread_mutex_lock(&lock);
    struct cuda_algo *w = find_cached_way(q);
    pthread_mutex_unlock(&lock);
    *out = w->known ? w : NULL;
}

void
cuda_product_get(const struct cuda_product *p, struct cuda_algo **out)
{
    struct question q;
    memset(&q, 0, sizeof q);
    q.product = *p;
    get_way(&q, out);
}

void
cuda_convolution_get(const struct cuda_convolution *c, struct cuda_algo **out)
{
    struct question q;
    memset(&q, 0, sizeof q);
    q.convolves = 1;
    q.convolution = *c;
    get_way(&q, out);
}

size_t
cuda_algo_scratch(const struct cuda_algo *w)
{
    return w->scratch_bytes;
}

int
cuda_algo_run(const struct cuda_algo *w, int device, const struct cuda_factors *at)
{
    int major, minor, i = cuda_index(device);
    const struct cuda_device *d = cuda_device_at(i, &major, &minor);
    cuda_algo_fn *by = w->question.convolves ? cuda_opened()->convolve : cuda_opened()->multiply;
    return cuda_graph_algo(d->gpu, by, w->of[i], at);
}
