/* host_comm.h - a stand-in for a collective library (like NCCL) on host memory, for test devices that simulate GPUs
 * (t/lib/plan/collecting.h). All ranks are in one process; t/host/board.h is the stand-in for NCCL across processes.
 *
 * The library follows NCCL: call n of a rank matches call n of every other rank, and completes when all ranks have
 * made it. A point-to-point send is buffered (host_comm_buffers) or waits for its receive; NCCL may do either. Two
 * errors are reported, because they would give wrong results or a deadlock: different collectives on the ranks, and
 * conflicting call orders of devices. Any thread may call. */
#ifndef RILLE_T_HOST_HOST_COMM_H
#define RILLE_T_HOST_HOST_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_COMM_RANKS = 64 };
enum host_comm_verb { HOST_COMM_REDUCE, HOST_COMM_SCATTER, HOST_COMM_GATHER, HOST_COMM_EXCHANGE, HOST_COMM_PASS };

struct host_comm_call {
    int verb, what; /* verb: an enum host_comm_verb; what: dtype and kind of reduction, as add() receives them */
    size_t width;   /* bytes per element */
    int64_t numel;  /* number of elements per block; HOST_COMM_REDUCE: number of all elements */
    const void *in;
    void *out;
    void (*add)(int what, void *to, const void *x, int64_t n);
};
struct host_comm {
    int n, device[HOST_COMM_RANKS];
    struct host_comm_call call[HOST_COMM_RANKS]; /* pending call, by rank */
    /* begun: by rank, number of calls that the rank has begun; done: number of calls that all ranks have completed */
    int64_t begun[HOST_COMM_RANKS], done;
    /* by rank: true if the rank has made a call whose completion it does not know yet */
    bool asked[HOST_COMM_RANKS];
    void *kept; /* data of a send that is not received yet; on the heap; NULL: none */
    bool cut;
    const char *wrong;
};

static bool host_comm_buffers;
static pthread_mutex_t host_comm_lock =
    PTHREAD_MUTEX_INITIALIZER; /* protects every communicator, and the variables below */
static pthread_cond_t host_comm_news = PTHREAD_COND_INITIALIZER;
static struct host_comm_place {
    struct host_comm *in; /* communicator in which the device's stream waits; NULL: it does not wait */
    int rank;
    /* By device: the call for which the device's stream waits. The entry remains after the call has completed,
     * until the stream wakes up. */
} host_comm_waits[HOST_COMM_RANKS];

static inline void
host_comm_open(struct host_comm *m, int n, const int *device)
{
    free(m->kept);
    *m = (struct host_comm){.n = n};
    for (int i = 0; i < n; i++) m->device[i] = device[i];
}

static inline bool
host_comm_agrees(const struct host_comm *m)
{
    const struct host_comm_call *a = &m->call[0];
    for (int i = 1; i < m->n; i++) {
        const struct host_comm_call *b = &m->call[i];
        if (a->verb != b->verb || a->numel != b->numel || a->width != b->width ||
            (a->verb != HOST_COMM_GATHER && a->verb != HOST_COMM_EXCHANGE && a->what != b->what) ||
            (a->verb == HOST_COMM_PASS && m->n != 2))
            return false;
    }
    return true;
}

/* Returns the reduced or gathered data of all ranks, on the heap. */
static inline char *
host_comm_result(const struct host_comm *m)
{
    const struct host_comm_call *c = &m->call[0];
    int64_t blocks = c->verb == HOST_COMM_REDUCE ? 1 : m->n, numel = c->numel * blocks;
    size_t block = (size_t)c->numel * c->width;
    char *all = malloc(block * (size_t)blocks + 1);
    if (c->verb == HOST_COMM_GATHER) {
        for (int i = 0; i < m->n; i++) memcpy(all + block * (size_t)i, m->call[i].in, block);
        return all;
    }
    memcpy(all, m->call[0].in, block * (size_t)blocks);
    for (int i = 1; i < m->n; i++) c->add(c->what, all, m->call[i].in, numel);
    return all;
}

/* Copies block j of rank i to rank j, where it becomes block i. */
static inline void
host_comm_exchange(struct host_comm *m, size_t block)
{
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->n; j++)
            memcpy((char *)m->call[j].out + block * (size_t)i, (const char *)m->call[i].in + block * (size_t)j, block);
}

static inline void
host_comm_run(struct host_comm *m)
{
    size_t block = (size_t)m->call[0].numel * m->call[0].width;
    int verb = m->call[0].verb;
    if (verb == HOST_COMM_PASS) {
        memcpy(m->call[1].out, m->call[0].in, block);
        free(m->kept);
        m->kept = NULL;
        return;
    }
    if (verb == HOST_COMM_EXCHANGE) {
        host_comm_exchange(m, block);
        return;
    }
    char *all = host_comm_result(m);
    for (int i = 0; i < m->n; i++)
        memcpy(m->call[i].out, all + (verb == HOST_COMM_SCATTER ? block * (size_t)i : 0),
               block * (size_t)(verb == HOST_COMM_GATHER ? m->n : 1));
    free(all);
}

/* Returns true if the call is a buffered send, which completes at once. */
static inline bool
host_comm_is_buffered(int rank, const struct host_comm_call *c)
{
    return host_comm_buffers && c->verb == HOST_COMM_PASS && rank == 0;
}

static inline void
host_comm_begin(struct host_comm *m, int rank, const struct host_comm_call *c)
{
    m->asked[rank] = true;
    m->call[rank] = *c;
    if (host_comm_is_buffered(rank, c)) {
        size_t bytes = (size_t)c->numel * c->width;
        m->call[rank].in = m->kept = memcpy(malloc(bytes + 1), c->in, bytes);
    }
    m->begun[rank]++;
    for (int i = 0; i < m->n; i++)
        if (m->begun[i] == m->done) return;
    if (!host_comm_agrees(m))
        m->wrong = "ranks of one communicator ask for different collectives";
    else
        host_comm_run(m);
    m->done++;
    pthread_cond_broadcast(&host_comm_news);
}

/* Returns true if the next call on m waits for the device: a rank of m that has not made the call is on the device,
 * or on a device that waits for it through other communicators. A stream of the device that waits for m then waits
 * forever. */
static inline bool
host_comm_waits_for(const struct host_comm *m, int device, int depth)
{
    for (int i = 0; i < m->n && depth < HOST_COMM_RANKS; i++) {
        if (m->begun[i] > m->done) continue;
        const struct host_comm_place *w = &host_comm_waits[m->device[i]];
        bool waits = w->in && w->in->begun[w->rank] > w->in->done;
        if (m->device[i] == device || (waits && host_comm_waits_for(w->in, device, depth + 1))) return true;
    }
    return false;
}

/* Makes a rank's call; if the rank has made the call before, only asks whether it is complete. Sets *done if it
 * is. Returns NULL, or an error. The caller holds the lock. */
static inline const char *
host_comm_poll(struct host_comm *m, int rank, const struct host_comm_call *c, bool *done)
{
    *done = false;
    /* the communicator buffers at most one send at a time */
    if (m->kept && host_comm_is_buffered(rank, c)) return m->cut ? "cut" : NULL;
    if (!m->asked[rank] && !m->cut) host_comm_begin(m, rank, c);
    if (m->cut || m->wrong) return m->cut ? "cut" : m->wrong;
    *done = m->begun[rank] <= m->done || host_comm_is_buffered(rank, c);
    m->asked[rank] = !*done;
    return NULL;
}

/* Makes or polls a call without blocking. */
static inline const char *
host_comm_try(struct host_comm *m, int rank, const struct host_comm_call *c, bool *done)
{
    pthread_mutex_lock(&host_comm_lock);
    const char *why = host_comm_poll(m, rank, c, done);
    pthread_mutex_unlock(&host_comm_lock);
    return why;
}

static inline const char *
host_comm_await(struct host_comm *m, int rank, const struct host_comm_call *c)
{
    int device = m->device[rank];
    bool done;
    pthread_mutex_lock(&host_comm_lock);
    const char *why = host_comm_poll(m, rank, c, &done);
    while (!why && !done) {
        host_comm_waits[device] = (struct host_comm_place){m, rank};
        if (host_comm_waits_for(m, device, 0)) {
            m->wrong = "collectives of two communicators cross: their devices wait for each other";
            pthread_cond_broadcast(&host_comm_news);
        } else {
            pthread_cond_wait(&host_comm_news, &host_comm_lock);
        }
        why = host_comm_poll(m, rank, c, &done);
    }
    host_comm_waits[device].in = NULL;
    pthread_mutex_unlock(&host_comm_lock);
    return why;
}

static inline bool
host_comm_is_cut(struct host_comm *m)
{
    pthread_mutex_lock(&host_comm_lock);
    bool cut = m->cut;
    pthread_mutex_unlock(&host_comm_lock);
    return cut;
}

static inline void
host_comm_cut(struct host_comm *m)
{
    pthread_mutex_lock(&host_comm_lock);
    m->cut = true;
    pthread_cond_broadcast(&host_comm_news);
    pthread_mutex_unlock(&host_comm_lock);
}

#endif
