/* meet.h - a collective library on host memory, for device kinds that stand in for kinds with such a library
 * (t/lib/collecting.h). Within one process; t/host/board.h is the stand-in of NCCL across processes.
 *
 * The library follows NCCL: call n of a rank matches call n of every other rank, and completes when all ranks have
 * made it. A point-to-point send is buffered (meet_keeps) or waits for its receive; NCCL may do either. Two errors
 * are reported, because they would give wrong results or a deadlock: different collectives on the ranks, and
 * conflicting call orders of devices. Any thread. */
#ifndef RILLE_T_HOST_MEET_H
#define RILLE_T_HOST_MEET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MEET_SEATS = 64 };
enum meet_verb { MEET_REDUCE, MEET_SCATTER, MEET_GATHER, MEET_EXCHANGE, MEET_PASS };

struct meet_call {
    int verb, what; /* enum meet_verb; dtype and reduction, for `add` */
    size_t width;   /* bytes per element */
    int64_t numel;  /* elements per block; MEET_REDUCE: in all */
    const void *in;
    void *out;
    void (*add)(int what, void *to, const void *x, int64_t n);
};
struct meet {
    int n, device[MEET_SEATS];
    struct meet_call call[MEET_SEATS]; /* pending call, by rank */
    int64_t begun[MEET_SEATS], done;   /* calls begun, by rank; completed by all ranks */
    bool asked[MEET_SEATS];            /* a call was made, and its completion not reported */
    void *kept;                        /* data sent and not yet received; on the heap */
    bool cut;
    const char *wrong;
};

static bool meet_keeps;
static pthread_mutex_t meet_lock = PTHREAD_MUTEX_INITIALIZER; /* protects every meet, and the variables below */
static pthread_cond_t meet_news = PTHREAD_COND_INITIALIZER;
static struct meet_place {
    struct meet *in; /* NULL: not waiting */
    int seat;
} meet_waits[MEET_SEATS]; /* per device: the call that its stream waits for, or waited for until it wakes up */

static inline void
meet_open(struct meet *m, int n, const int *device)
{
    free(m->kept);
    *m = (struct meet){.n = n};
    for (int i = 0; i < n; i++) m->device[i] = device[i];
}

static inline bool
meet_agrees(const struct meet *m)
{
    const struct meet_call *a = &m->call[0];
    for (int i = 1; i < m->n; i++) {
        const struct meet_call *b = &m->call[i];
        if (a->verb != b->verb || a->numel != b->numel || a->width != b->width ||
            (a->verb != MEET_GATHER && a->verb != MEET_EXCHANGE && a->what != b->what) ||
            (a->verb == MEET_PASS && m->n != 2))
            return false;
    }
    return true;
}

/* Returns the reduced or gathered data of all ranks, on the heap. */
static inline char *
meet_result(const struct meet *m)
{
    const struct meet_call *c = &m->call[0];
    int64_t blocks = c->verb == MEET_REDUCE ? 1 : m->n, numel = c->numel * blocks;
    size_t block = (size_t)c->numel * c->width;
    char *all = malloc(block * (size_t)blocks + 1);
    if (c->verb == MEET_GATHER) {
        for (int i = 0; i < m->n; i++) memcpy(all + block * (size_t)i, m->call[i].in, block);
        return all;
    }
    memcpy(all, m->call[0].in, block * (size_t)blocks);
    for (int i = 1; i < m->n; i++) c->add(c->what, all, m->call[i].in, numel);
    return all;
}

/* Copies block j of rank i to rank j. */
static inline void
meet_exchange(struct meet *m, size_t block)
{
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->n; j++)
            memcpy((char *)m->call[j].out + block * (size_t)i, (const char *)m->call[i].in + block * (size_t)j, block);
}

static inline void
meet_carry_out(struct meet *m)
{
    size_t block = (size_t)m->call[0].numel * m->call[0].width;
    int verb = m->call[0].verb;
    if (verb == MEET_PASS) {
        memcpy(m->call[1].out, m->call[0].in, block);
        free(m->kept);
        m->kept = NULL;
        return;
    }
    if (verb == MEET_EXCHANGE) {
        meet_exchange(m, block);
        return;
    }
    char *all = meet_result(m);
    for (int i = 0; i < m->n; i++)
        memcpy(m->call[i].out, all + (verb == MEET_SCATTER ? block * (size_t)i : 0),
               block * (size_t)(verb == MEET_GATHER ? m->n : 1));
    free(all);
}

/* Returns true if the call is a buffered send, which completes at once. */
static inline bool
meet_goes_on(int seat, const struct meet_call *c)
{
    return meet_keeps && c->verb == MEET_PASS && seat == 0;
}

static inline void
hint_conflict_begin(struct meet *m, int seat, const struct meet_call *c)
{
    m->asked[seat] = true;
    m->call[seat] = *c;
    if (meet_goes_on(seat, c)) {
        size_t bytes = (size_t)c->numel * c->width;
        m->call[seat].in = m->kept = memcpy(malloc(bytes + 1), c->in, bytes);
    }
    m->begun[seat]++;
    for (int i = 0; i < m->n; i++)
        if (m->begun[i] == m->done) return;
    if (!meet_agrees(m))
        m->wrong = "seats of one communicator ask for different collectives";
    else
        meet_carry_out(m);
    m->done++;
    pthread_cond_broadcast(&meet_news);
}

/* Returns true if a rank of m waits, directly or through other communicators, for the device. */
static inline bool
meet_waits_for(const struct meet *m, int device, int depth)
{
    for (int i = 0; i < m->n && depth < MEET_SEATS; i++) {
        if (m->begun[i] > m->done) continue;
        const struct meet_place *w = &meet_waits[m->device[i]];
        bool waits = w->in && w->in->begun[w->seat] > w->in->done;
        if (m->device[i] == device || (waits && meet_waits_for(w->in, device, depth + 1))) return true;
    }
    return false;
}

/* Makes a rank's call, or, if the call is pending, polls it; *done: it is complete. Returns NULL, or an error. Call
 * with the lock. */
static inline const char *
meet_look(struct meet *m, int seat, const struct meet_call *c, bool *done)
{
    *done = false;
    if (m->kept && meet_goes_on(seat, c)) return m->cut ? "cut" : NULL; /* one send is buffered at a time */
    if (!m->asked[seat] && !m->cut) hint_conflict_begin(m, seat, c);
    if (m->cut || m->wrong) return m->cut ? "cut" : m->wrong;
    *done = m->begun[seat] <= m->done || meet_goes_on(seat, c);
    m->asked[seat] = !*done;
    return NULL;
}

/* Makes or polls a call without blocking. */
static inline const char *
meet_try(struct meet *m, int seat, const struct meet_call *c, bool *done)
{
    pthread_mutex_lock(&meet_lock);
    const char *why = meet_look(m, seat, c, done);
    pthread_mutex_unlock(&meet_lock);
    return why;
}

static inline const char *
meet_await(struct meet *m, int seat, const struct meet_call *c)
{
    int device = m->device[seat];
    bool done;
    pthread_mutex_lock(&meet_lock);
    const char *why = meet_look(m, seat, c, &done);
    while (!why && !done) {
        meet_waits[device] = (struct meet_place){m, seat};
        if (meet_waits_for(m, device, 0)) {
            m->wrong = "collectives of two communicators cross: their devices wait for each other";
            pthread_cond_broadcast(&meet_news);
        } else {
            pthread_cond_wait(&meet_news, &meet_lock);
        }
        why = meet_look(m, seat, c, &done);
    }
    meet_waits[device].in = NULL;
    pthread_mutex_unlock(&meet_lock);
    return why;
}

static inline bool
meet_is_cut(struct meet *m)
{
    pthread_mutex_lock(&meet_lock);
    bool cut = m->cut;
    pthread_mutex_unlock(&meet_lock);
    return cut;
}

static inline void
meet_cut(struct meet *m)
{
    pthread_mutex_lock(&meet_lock);
    m->cut = true;
    pthread_cond_broadcast(&meet_news);
    pthread_mutex_unlock(&meet_lock);
}

#endif
