/* spare.c - what a snapshot keeps, once more on other hosts, so that losing one does not lose it.
 *
 * Each device has a neighbour: the device of the same turn in the next memory. A part of a value that no other host has
 * as well is copied to the neighbour of its device - parts, not values, so that no bit of a partial sum changes - and
 * back when its host is lost. A thread has it copied, by messages from worker to worker (cluster/reach.h), piece by
 * piece, while the next runs compute: nobody writes over bytes that a snapshot holds. The session's thread makes and
 * holds all buffers. */
#include "actors/session/session.h"

#include "actors/cluster/controller.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- copying ---- */

enum { PIECE = 4 << 20 }; /* others who want values of a host wait for no more */

struct pair { /* borrowed; of one type and as many bytes */
    const struct buffer *from;
    struct buffer *to;
};
struct copying {
    struct pair *pair;
    int32_t n, capacity;
    pthread_t thread;
    bool runs;
    atomic_bool stop, ended;
    int status; /* the thread's, until it ended */
    char text[512];
};

static int
copy_pairs(struct copying *c)
{
    for (int32_t i = 0; i < c->n; i++)
        for (size_t at = 0; at < c->pair[i].to->bytes; at += PIECE) {
            if (atomic_load(&c->stop)) return fail(E_CANCEL, "the copy was given up");
            TRY(buffer_copy_part(c->pair[i].to, c->pair[i].from, at, MIN(c->pair[i].to->bytes - at, (size_t)PIECE)));
        }
    return 0;
}

static void *
copy_thread(void *arg)
{
    struct copying *c = arg;
    c->status = copy_pairs(c);
    if (c->status) snprintf(c->text, sizeof c->text, "%s", err_text());
    atomic_store(&c->ended, true);
    return NULL;
}

static void
start(struct copying *c)
{
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    c->runs = !pthread_create(&c->thread, NULL, copy_thread, c);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (!c->runs) copy_thread(c);
}

bool
copying_ended(const struct copying *c)
{
    return atomic_load(&c->ended);
}

int
copying_end(struct copying **cp, bool whole)
{
    struct copying *c = *cp;
    *cp = NULL;
    if (!c) return 0;
    if (!whole) atomic_store(&c->stop, true);
    if (c->runs) pthread_join(c->thread, NULL);
    int status = c->status ? fail((enum err_code)c->status, "%s", c->text) : 0;
    free(c->pair);
    free(c);
    return status;
}

/* A new buffer on a device, for the bytes of another one, as a part of a store. */
static int
add_pair(struct rille_session *s, struct copying *c, const struct buffer *from, int kind, int32_t to,
         struct store *store, int32_t pos)
{
    struct pool *pool;
    TRY(session_pool(s, kind, to, &pool));
    TRY(buffer_new(pool, from->bytes, &store->part[pos]));
    GROW(c->pair, c->n + 1, c->capacity);
    c->pair[c->n++] = (struct pair){from, store->part[pos]};
    return 0;
}

/* ---- spares ---- */

static bool
is_lost(const struct store *store, int32_t pos)
{
    return store && store->part[pos] && buffer_is_lost(store->part[pos]);
}

bool
copy_is_whole(const struct copy *c)
{
    bool lost = false;
    for (int32_t pos = 0; c->store && pos < c->store->n; pos++) lost |= is_lost(c->store, pos);
    return !lost;
}

bool
copy_is_lost(const struct copy *c)
{
    for (int32_t pos = 0; c->store && pos < c->store->n; pos++)
        if (is_lost(c->store, pos) || is_lost(c->spare, pos)) return true;
    return false;
}

void
copy_drop(struct copy *c)
{
    store_drop(&c->store);
    store_drop(&c->spare);
}

/* The device of the same turn in the next memory, or the last there. */
static int32_t
neighbour(const struct rille_session *s, int kind, int32_t device)
{
    int own = cluster_memory_of(s->cluster, kind, device), n = cluster_memories(s->cluster), turn = 0;
    int32_t found = -1;
    for (int32_t d = 0; d < device; d++) turn += cluster_memory_of(s->cluster, kind, d) == own;
    for (int k = 1; k < n && found < 0; k++)
        for (int32_t d = 0; d < s->ndevice[kind] && turn >= 0; d++) {
            if (cluster_memory_of(s->cluster, kind, d) != (own + k) % n) continue;
            found = d;
            turn--;
        }
    return found;
}

/* Another position with the same bytes: on another host, or (lost) that still has them; -1. */
static int32_t
replica(const struct rille_session *s, const struct copy *c, int32_t pos, bool lost)
{
    const struct place *p = c->layout->place;
    int own = cluster_memory_of(s->cluster, p->kind, p->rank[pos]), origin = layout_origin(c->layout, pos);
    for (int32_t i = 0; i < p->nrank; i++)
        if (i != pos && layout_origin(c->layout, i) == origin && !is_lost(c->store, i) &&
            (lost || cluster_memory_of(s->cluster, p->kind, p->rank[i]) != own))
            return i;
    return -1;
}

static int
add_spares(struct rille_session *s, struct copying *all, struct copy *c)
{
    const struct place *p = c->layout->place;
    c->spare = store_new(p->nrank);
    for (int32_t pos = 0; pos < p->nrank; pos++) {
        struct buffer *b = c->store->part[pos];
        int32_t to = b && replica(s, c, pos, false) < 0 ? neighbour(s, p->kind, p->rank[pos]) : -1;
        if (to >= 0) TRY(add_pair(s, all, b, p->kind, to, c->spare, pos));
    }
    return 0;
}

int
copies_spare(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out)
{
    struct copying *all = must_alloc(sizeof *all);
    int status = 0;
    for (int32_t i = 0; i < n && !status; i++) {
        store_drop(&c[i]->spare);
        if (c[i]->store) status = add_spares(s, all, c[i]);
    }
    *out = all;
    if (!status)
        start(all);
    else
        all->status = status, snprintf(all->text, sizeof all->text, "%s", err_text());
    return status ? copying_end(out, false) : 0;
}

/* ---- back ---- */

static int
add_lost(struct rille_session *s, struct copying *all, struct copy *c, struct store *whole)
{
    const struct place *p = c->layout->place;
    for (int32_t pos = 0; pos < p->nrank; pos++) {
        struct buffer *b = c->store->part[pos], *from = NULL;
        int32_t other = is_lost(c->store, pos) ? replica(s, c, pos, true) : -1;
        if (b && !is_lost(c->store, pos)) {
            whole->part[pos] = b;
            buffer_hold(b);
            continue;
        }
        if (b && other >= 0)
            from = c->store->part[other];
        else if (b && c->spare && c->spare->part[pos] && !is_lost(c->spare, pos))
            from = c->spare->part[pos];
        else if (b)
            return fail(E_LOST, "recover: the snapshot lay on hosts that are lost");
        if (b) TRY(add_pair(s, all, from, p->kind, p->rank[pos], whole, pos));
    }
    return 0;
}

int
copies_mend(struct rille_session *s, int32_t n, struct copy *const *c)
{
    struct copying *all = must_alloc(sizeof *all);
    struct store **whole = must_alloc(sizeof(*whole) * (size_t)(n + 1));
    int status = 0;
    for (int32_t i = 0; i < n && !status; i++) {
        if (!copy_is_lost(c[i])) continue;
        whole[i] = store_new(c[i]->store->n);
        status = add_lost(s, all, c[i], whole[i]);
    }
    if (!status) status = copy_pairs(all);
    for (int32_t i = 0; i < n; i++) {
        if (!whole[i]) continue;
        struct store *old = status ? whole[i] : c[i]->store;
        if (!status) c[i]->store = whole[i];
        store_drop(&old);
    }
    free(all->pair);
    free(all);
    free(whole);
    return status;
}
