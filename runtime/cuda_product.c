/* cuda_product.c - products by a library: how it computes each is asked once for every GPU of the process, and kept. A
 * plan that is made again asks nobody, and equal calls of one process have one way and one kind of bits. */
#include "runtime/device_cuda.h"

#include "runtime/error.h"
#include "runtime/hash.h"

#include <pthread.h>
#include <string.h>

struct cuda_way {
    struct cuda_product product;
    void *of[CUDA_DEVICES]; /* by device of the process */
    bool known;             /* all devices have one */
    size_t scratch_bytes;   /* of the device that wants most */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct hash_table ways;

static struct cuda_way *
ask(const struct cuda_product *p)
{
    struct cuda_way *w = must_alloc(sizeof *w);
    const struct cuda_device *d;
    int major, minor;
    *w = (struct cuda_way){.product = *p, .known = true};
    for (int i = 0; w->known && (d = cuda_device_at(i, &major, &minor)); i++) {
        size_t bytes = 0;
        w->of[i] = cuda_opened()->product(d->gpu, p, &bytes);
        w->known = w->of[i];
        w->scratch_bytes = MAX(w->scratch_bytes, bytes);
    }
    return w;
}

static struct cuda_way *
find(const struct cuda_product *p)
{
    uint64_t hash = hash_bytes(0, p, sizeof *p);
    uint32_t at = 0;
    struct cuda_way *w;
    while ((w = hash_next(&ways, hash, &at)))
        if (!memcmp(&w->product, p, sizeof *p)) return w;
    hash_add(&ways, hash, w = ask(p));
    return w;
}

void
cuda_product_get(const struct cuda_product *p, struct cuda_way **out)
{
    pthread_mutex_lock(&lock);
    struct cuda_way *w = find(p);
    pthread_mutex_unlock(&lock);
    *out = w->known ? w : NULL;
}

size_t
cuda_product_scratch(const struct cuda_way *w)
{
    return w->scratch_bytes;
}

int
cuda_product_run(const struct cuda_way *w, int device, const struct cuda_factors *at)
{
    int major, minor, i = cuda_index(device);
    const struct cuda_device *d = cuda_device_at(i, &major, &minor);
    return cuda_graph_product(d->gpu, w->of[i], at);
}
