/* cuda_graph.c - replays repeated sequences of launches as CUDA graphs.
 *
 * If cuda_graph_gather() is on, a thread does not launch at once, but records its launches on a tape: kernels with
 * the bytes of their arguments, library calls with their addresses. A tape ends when the thread waits, records an
 * event, or waits for one. Tapes are compared byte by byte, so a graph is replayed only for exactly the launches
 * from which it was captured. Launches with other buffers, micro-batches or random numbers are another tape. When
 * a tape occurs the second time, it is captured as a graph; from then on, one launch replays it. A tape that never
 * repeats, or that CUDA cannot capture, is launched item by item. A thread keeps KEPT tapes, and evicts the least
 * recently used one. All state except the counts is thread-local. */
#include "runtime/device/cuda_graph.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* KEPT: number of tapes that a thread keeps; LEAST: minimum number of launches of a graph; MOST: maximum bytes of
 * a tape */
enum { KEPT = 64, LEAST = 3, MOST = 1 << 16 };

struct launch {
    size_t bytes; /* size of the struct including its data, bytes; a multiple of 16 */
    void *kernel; /* kernel to launch; NULL: a library call with the algorithm `algo` */
    cuda_algo_fn *by;
    const void *algo;
    int64_t blocks, threads;
    size_t argument_bytes;
    union {
        struct cuda_factors at;
        unsigned char argument[1];
    };
};
struct tape {
    unsigned char *bytes;
    size_t n, capacity;
    int nlaunch, gpu;
};
struct kept {
    struct tape tape;
    uint64_t hash, seen_at;
    void *graph;
    bool refused; /* true: CUDA cannot capture this tape */
};
struct gathering {
    bool on;
    struct tape tape;
    struct kept kept[KEPT];
    int nkept;
    uint64_t nseen;
};
static _Thread_local struct gathering own;
static _Atomic int64_t ngraph, nreplay;

/* ---- launching the items of a tape ---- */

static const char *
launch_now(int gpu, const struct launch *l)
{
    const struct cuda_plugin *p = cuda_opened();
    return l->kernel ? p->launch(gpu, l->kernel, l->blocks, (int)l->threads, l->argument, l->argument_bytes)
                     : l->by(gpu, l->algo, &l->at);
}

static const char *
launch_tape(const struct tape *t)
{
    const char *why = NULL;
    for (size_t at = 0; at < t->n && !why; at += ((const struct launch *)(t->bytes + at))->bytes)
        why = launch_now(t->gpu, (const struct launch *)(t->bytes + at));
    return why;
}

/* Captures the launches of a tape as a CUDA graph, without executing them. Returns NULL if CUDA cannot capture
 * them. */
static void *
capture_tape(const struct tape *t)
{
    const struct cuda_plugin *p = cuda_opened();
    if (p->capture(t->gpu)) return NULL;
    bool whole = !launch_tape(t);
    void *graph = p->captured(t->gpu);
    if (graph && !whole) p->discard(t->gpu, graph);
    if (graph && whole) atomic_fetch_add_explicit(&ngraph, 1, memory_order_relaxed);
    return whole ? graph : NULL;
}

/* ---- finding tapes that were recorded before ---- */

static void
forget_graph(struct kept *k)
{
    if (k->graph) cuda_opened()->discard(k->tape.gpu, k->graph);
    k->graph = NULL;
    k->refused = false;
}

static bool
tapes_equal(const struct tape *a, const struct tape *b)
{
    return a->n == b->n && a->gpu == b->gpu && !memcmp(a->bytes, b->bytes, a->n);
}

/* Returns the record of a tape. Adds a record if the tape is new. *again: true if the thread has recorded the same
 * tape before. */
static struct kept *
find_kept_graph(struct gathering *g, bool *again)
{
    uint64_t hash = hash_bytes((uint64_t)g->tape.gpu, g->tape.bytes, g->tape.n);
    struct kept *oldest = &g->kept[0];
    g->nseen++;
    for (struct kept *k = g->kept; k < g->kept + g->nkept; k++) {
        *again = k->hash == hash && tapes_equal(&k->tape, &g->tape);
        if (k->seen_at < oldest->seen_at) oldest = k;
        if (!*again) continue;
        k->seen_at = g->nseen;
        return k;
    }
    *again = false;
    struct kept *k = g->nkept < KEPT ? &g->kept[g->nkept++] : oldest;
    forget_graph(k);
    k->hash = hash;
    k->seen_at = g->nseen;
    GROW(k->tape.bytes, g->tape.n, k->tape.capacity);
    memcpy(k->tape.bytes, g->tape.bytes, g->tape.n);
    k->tape.n = g->tape.n;
    k->tape.nlaunch = g->tape.nlaunch;
    k->tape.gpu = g->tape.gpu;
    return k;
}

static const char *
launch_gathered(struct gathering *g)
{
    bool again;
    if (g->tape.nlaunch < LEAST) return launch_tape(&g->tape);
    struct kept *k = find_kept_graph(g, &again);
    if (again && !k->graph && !k->refused) k->refused = !(k->graph = capture_tape(&k->tape));
    if (!k->graph) return launch_tape(&g->tape);
    atomic_fetch_add_explicit(&nreplay, 1, memory_order_relaxed);
    return cuda_opened()->replay(k->tape.gpu, k->graph);
}

int
cuda_graph_launch(void)
{
    struct gathering *g = &own;
    if (g->tape.nlaunch == 0) return 0;
    const char *why = launch_gathered(g);
    g->tape.n = 0;
    g->tape.nlaunch = 0;
    return cuda_note(why);
}

void
cuda_graph_gather(bool on)
{
    struct gathering *g = &own;
    if (cuda_graph_launch()) err_clear(); /* a later wait reports the error */
    g->on = on;
    if (on) return;
    for (; g->nkept; g->nkept--) {
        struct kept *k = &g->kept[g->nkept - 1];
        forget_graph(k);
        free(k->tape.bytes);
        *k = (struct kept){0};
    }
    free(g->tape.bytes);
    g->tape = (struct tape){0};
}

struct cuda_graph_count
cuda_graphs(void)
{
    return (struct cuda_graph_count){atomic_load(&ngraph), atomic_load(&nreplay)};
}

/* ---- recording launches on a tape ---- */

/* Returns space for one more launch on the tape. The space is zeroed, because tapes are compared byte by byte.
 * NULL: the launch must be made at once. */
static struct launch *
add_launch(int gpu, size_t argument_bytes)
{
    struct gathering *g = &own;
    struct tape *t = &g->tape;
    size_t bytes = (MAX(sizeof(struct launch), offsetof(struct launch, argument) + argument_bytes) + 15) / 16 * 16;
    if (!g->on || bytes > MOST) return NULL;
    if (t->nlaunch && (t->gpu != gpu || t->n + bytes > MOST) && cuda_graph_launch()) return NULL;
    GROW(t->bytes, t->n + bytes, t->capacity);
    struct launch *l = memset(t->bytes + t->n, 0, bytes);
    l->bytes = bytes;
    t->gpu = gpu;
    t->n += bytes;
    t->nlaunch++;
    return l;
}

int
cuda_graph_kernel(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes)
{
    TRY(cuda_note(NULL));
    struct launch *l = add_launch(gpu, bytes);
    if (!l) {
        TRY(cuda_graph_launch());
        return cuda_note(cuda_opened()->launch(gpu, kernel, blocks, threads, argument, bytes));
    }
    l->kernel = kernel;
    l->blocks = blocks;
    l->threads = threads;
    l->argument_bytes = bytes;
    memcpy(l->argument, argument, bytes);
    return 0;
}

int
cuda_graph_algo(int gpu, cuda_algo_fn *by, const void *algo, const struct cuda_factors *at)
{
    TRY(cuda_note(NULL));
    struct launch *l = add_launch(gpu, 0);
    if (!l) {
        TRY(cuda_graph_launch());
        return cuda_note(by(gpu, algo, at));
    }
    l->by = by;
    l->algo = algo;
    l->at = *at;
    return 0;
}
