/* replica.c - copies the shards of a snapshot to other hosts ("spares"), so that a snapshot survives the loss of
 * one host.
 *
 * Each device has a neighbour: the device with the same index on the next host. A shard that no other host holds
 * is copied to the neighbour of the shard's device. When the host is lost, the shard is copied back. Shards are
 * copied, not values, so partial sums keep their bits. A thread asks the workers to send the copies
 * (cluster/controller/remote_access.h) in chunks, while the next runs compute. No run overwrites bytes that a
 * snapshot holds. The session's thread allocates and holds all buffers.
 *
 * Another thread reads all shards once to compute digests of 1 MiB blocks, as in checkpoint files. Before
 * recovery the shards are read again: a shard that changed counts as lost, and is restored from an unchanged
 * copy. */
#include "actors/session/durable/replica.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/session.h"
#include "actors/session/durable/digests.h"

#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/roster.h"
#include "runtime/file/disk/source.h"
#include "runtime/base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- copying shards to other hosts ---- */

enum { PIECE = 4 << 20 }; /* bytes per chunk; bounds how long other readers of a host's values must wait */

struct pair { /* a copy to make; both buffers are borrowed, of equal size, and on devices of one kind */
    const struct buffer *from;
    struct buffer *to;
};
/* The copies of a shard: PART is the shard itself, SPARE its copy on another host. */
enum { PART, SPARE, NSIDE };
struct sum {
    uint64_t *digest; /* digests by block of 1 MiB; NULL: not computed */
    bool damaged[NSIDE];
};
struct sums {
    int32_t n;
    struct sum of[];
};
struct copying {
    struct pair *pair;
    int32_t n, capacity;
    struct rille_session *s;
    struct summed *summed; /* summed[i]: request for the digests that are stored in sum[i] */
    struct sum **sum;
    int32_t nsum, summed_capacity, sum_capacity;
    pthread_t thread;
    bool runs;
    atomic_bool stop, ended;
    int status; /* result of the copying thread, valid once `ended` is set */
    char text[512];
};

static int
copy_pairs(struct copying *c)
{
    for (int32_t i = 0; i < c->n; i++)
        for (size_t at = 0; at < c->pair[i].to->bytes; at += PIECE) {
            if (atomic_load(&c->stop)) return fail(E_CANCEL, "the copy was cancelled");
            TRY(buffer_copy_part(c->pair[i].to, c->pair[i].from, at, MIN(c->pair[i].to->bytes - at, (size_t)PIECE)));
        }
    return 0;
}

static int
take_sums(struct copying *c)
{
    int status = c->nsum ? digests_of_buffers(c->s, c->nsum, c->summed, &c->stop) : 0;
    for (int32_t i = 0; i < c->nsum; i++) c->sum[i]->digest = c->summed[i].digest;
    return status;
}

static void *
copy_thread(void *arg)
{
    struct copying *c = arg;
    c->status = copy_pairs(c);
    if (!c->status) c->status = take_sums(c);
    if (c->status) snprintf(c->text, sizeof c->text, "%s", err_text());
    atomic_store(&c->ended, true);
    return NULL;
}

static void
start_copying(struct copying *c)
{
    c->runs = !thread_start(&c->thread, copy_thread, c);
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
    int status = c->status;
    if (status && whole) fail((enum err_code)status, "%s", c->text);
    free(c->pair);
    free(c->summed);
    free(c->sum);
    free(c);
    return status;
}

/* Allocates a buffer for shard `pos` of a store. Adds a copy from `from` into the buffer to the list of copies. */
static int
add_replica_pair(struct rille_session *s, struct copying *c, const struct buffer *from, int kind, int32_t to,
                 struct store *store, int32_t pos)
{
    struct pool *pool;
    TRY(session_pool(s, kind, to, &pool));
    TRY(buffer_new(pool, from->bytes, &store->part[pos]));
    GROW(c->pair, c->n + 1, c->capacity);
    c->pair[c->n++] = (struct pair){from, store->part[pos]};
    return 0;
}

/* ---- state of shards: lost, damaged, on which host ---- */

static const struct buffer *
copy_side(const struct copy *c, int32_t pos, int side)
{
    const struct store *store = side == SPARE ? c->spare : c->store;
    return store ? store->part[pos] : NULL;
}

static bool
is_copy_lost(const struct copy *c, int32_t pos, int side)
{
    const struct buffer *b = copy_side(c, pos, side);
    return b && (buffer_is_lost(b) || (c->sums && c->sums->of[pos].damaged[side]));
}

bool
copy_is_whole(const struct copy *c)
{
    bool lost = false;
    for (int32_t pos = 0; c->store && pos < c->store->n; pos++) lost |= is_copy_lost(c, pos, PART);
    return !lost;
}

bool
copy_is_lost(const struct copy *c)
{
    for (int32_t pos = 0; c->store && pos < c->store->n; pos++)
        if (is_copy_lost(c, pos, PART) || is_copy_lost(c, pos, SPARE)) return true;
    return false;
}

static void
sums_free(struct sums **sp)
{
    for (int32_t pos = 0; *sp && pos < (*sp)->n; pos++) free((*sp)->of[pos].digest);
    free(*sp);
    *sp = NULL;
}

void
copy_drop(struct copy *c)
{
    store_drop(&c->store);
    store_drop(&c->spare);
    sums_free(&c->sums);
}

/* Returns the neighbour of a device, to which its shards are copied: the device with the same index on the next
 * host. If that host has fewer devices, returns its last device. */
static int32_t
neighbour(const struct rille_session *s, int kind, int32_t device)
{
    int own = cluster_memory_of(s->cluster, kind, device), n = cluster_memories(s->cluster), turn = 0;
    int32_t found = -1;
    for (int32_t d = 0; d < device; d++) turn += cluster_memory_of(s->cluster, kind, d) == own;
    for (int k = 1; k < n && found < 0; k++)
        for (int32_t d = 0; d < s->devices.ndevice[kind] && turn >= 0; d++) {
            if (cluster_memory_of(s->cluster, kind, d) != (own + k) % n) continue;
            found = d;
            turn--;
        }
    return found;
}

/* Returns the host of a device; 0 without a cluster. */
static int
host_of(const struct rille_session *s, int kind, int rank)
{
    return s->cluster ? cluster_memory_of(s->cluster, kind, rank) : 0;
}

/* Returns another mesh position with the same shard; -1: none. If the shard is present, the other position must be
 * on another host. If the shard is lost, the other position may be on any host, but its bytes must be intact. */
static int32_t
replica(const struct rille_session *s, const struct copy *c, int32_t pos, bool lost)
{
    const struct place *p = c->layout->place;
    int own = host_of(s, p->kind, p->rank[pos]), origin = layout_origin(c->layout, pos);
    for (int32_t i = 0; i < p->nrank; i++)
        if (i != pos && layout_origin(c->layout, i) == origin && !is_copy_lost(c, i, PART) &&
            (lost || host_of(s, p->kind, p->rank[i]) != own))
            return i;
    return -1;
}

/* ---- computing and comparing digests of shards ---- */

/* Returns the request for the digests of the shard, or of its copy on another host (SPARE). */
static struct summed
summed_of(const struct copy *c, int32_t pos, int side)
{
    const struct place *p = c->layout->place;
    const struct buffer *b = copy_side(c, pos, side);
    return (struct summed){.buffer = b, .kind = p->kind, .device = buffer_device(b)};
}

static void
add_sums(struct rille_session *s, struct copying *all, struct copy *c)
{
    if (!c->store || !(s->cluster || device_kind(c->layout->place->kind)->flags & HOST_READS)) return;
    c->sums = must_alloc(sizeof *c->sums + sizeof *c->sums->of * (size_t)c->store->n);
    c->sums->n = c->store->n;
    for (int32_t pos = 0; pos < c->store->n; pos++) {
        if (!c->store->part[pos]) continue;
        GROW(all->summed, all->nsum + 1, all->summed_capacity);
        GROW(all->sum, all->nsum + 1, all->sum_capacity);
        all->sum[all->nsum] = &c->sums->of[pos];
        all->summed[all->nsum++] = summed_of(c, pos, PART);
    }
}

void
copies_digest(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out)
{
    struct copying *all = must_alloc(sizeof *all);
    all->s = s;
    for (int32_t i = 0; i < n; i++) add_sums(s, all, c[i]);
    start_copying(all);
    *out = all;
}

const uint64_t *
copy_digests(const struct copy *c, int32_t pos)
{
    return c->sums ? c->sums->of[pos].digest : NULL;
}

/* a shard or its spare copy: the digests of its present bytes, and the digests from the snapshot */
struct check {
    struct summed now;
    struct sum *was;
    int side;
};

/* Lists all shards and spare copies that exist and have digests; returns their number. out NULL: only counts. */
static int32_t
list_checks(int32_t n, struct copy *const *c, struct check *out)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t pos = 0; c[i]->sums && pos < c[i]->sums->n; pos++)
            for (int side = 0; side < NSIDE; side++) {
                struct sum *sum = &c[i]->sums->of[pos];
                if (!sum->digest || !copy_side(c[i], pos, side) || is_copy_lost(c[i], pos, side)) continue;
                if (out) out[count] = (struct check){summed_of(c[i], pos, side), sum, side};
                count++;
            }
    return count;
}

int
copies_check(struct rille_session *s, int32_t n, struct copy *const *c)
{
    int32_t count = list_checks(n, c, NULL);
    struct check *check = must_alloc(sizeof *check * (size_t)(count + 1));
    struct summed *now = must_alloc(sizeof *now * (size_t)(count + 1));
    list_checks(n, c, check);
    for (int32_t i = 0; i < count; i++) now[i] = check[i].now;
    int status = digests_of_buffers(s, count, now, NULL);
    for (int32_t i = 0; i < count; i++) {
        size_t bytes = sizeof(uint64_t) * (size_t)source_blocks((int64_t)now[i].buffer->bytes);
        check[i].was->damaged[check[i].side] = now[i].digest && memcmp(now[i].digest, check[i].was->digest, bytes);
        free(now[i].digest);
    }
    free(check);
    free(now);
    return status;
}

/* ---- comparing replicas ---- */

static bool
sums_differ(const struct copy *a, int32_t pos_a, const struct copy *b, int32_t pos_b)
{
    const struct buffer *x = copy_side(a, pos_a, PART), *y = copy_side(b, pos_b, PART);
    if (!a->sums || !b->sums || !x || !y || x->bytes != y->bytes) return false;
    const uint64_t *m = a->sums->of[pos_a].digest, *n = b->sums->of[pos_b].digest;
    return m && n && memcmp(m, n, sizeof *m * (size_t)source_blocks((int64_t)x->bytes));
}

/* Returns the number of shards that must have the same bytes as shard `pos`. differing true: counts only those
 * that have other bytes. */
static int
count_replicas(const struct copy *c, int32_t pos, bool differing)
{
    int count = 0, origin = layout_origin(c->layout, pos);
    for (int32_t i = 0; i < c->layout->place->nrank; i++)
        count += layout_origin(c->layout, i) == origin && (!differing || sums_differ(c, pos, c, i));
    return count;
}

bool
copy_agrees(const struct copy *c)
{
    for (int32_t pos = 0; c->sums && pos < c->sums->n; pos++)
        if (count_replicas(c, pos, true)) return false;
    return true;
}

/* Returns true if the shard may be the wrong one: it differs from at least half of the shards that must be equal.
 * If a majority of the shards agrees, only shards of the minority may be wrong; without a majority, every shard
 * that differs may be. */
static bool
is_odd(const struct copy *c, int32_t pos)
{
    int differing = count_replicas(c, pos, true);
    return differing && 2 * differing >= count_replicas(c, pos, false);
}

void
copy_print_odd(const struct rille_session *s, const struct copy *c, const struct copy *right, struct str *out)
{
    const struct place *p = c->layout->place;
    for (int32_t pos = 0, n = 0; c->sums && pos < c->sums->n; pos++) {
        if (!(right ? sums_differ(c, pos, right, pos) : is_odd(c, pos))) continue;
        str_addf(out, "%s%s:%d", n++ ? ", " : "", device_kind_text(p->kind), (int)p->rank[pos]);
        if (!s->cluster) continue;
        char host[64];
        cluster_host(s->cluster, cluster_memory_of(s->cluster, p->kind, p->rank[pos]), host);
        str_addf(out, " (worker %d, %s)", cluster_owner(s->cluster, p->kind, p->rank[pos]), host);
    }
}

/* ---- making copies on other hosts ---- */

static int
add_spares(struct rille_session *s, struct copying *all, struct copy *c)
{
    const struct place *p = c->layout->place;
    c->spare = store_new(p->nrank);
    for (int32_t pos = 0; pos < p->nrank; pos++) {
        struct buffer *b = c->store->part[pos];
        int32_t to = b && replica(s, c, pos, false) < 0 ? neighbour(s, p->kind, p->rank[pos]) : -1;
        if (to >= 0) TRY(add_replica_pair(s, all, b, p->kind, to, c->spare, pos));
    }
    return 0;
}

int
copies_replicate(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out)
{
    struct copying *all = must_alloc(sizeof *all);
    int status = 0;
    for (int32_t i = 0; i < n && !status; i++) {
        store_drop(&c[i]->spare);
        if (c[i]->store) status = add_spares(s, all, c[i]);
    }
    *out = all;
    if (!status)
        start_copying(all);
    else
        copying_end(out, false);
    return status;
}

/* ---- restoring lost shards ---- */

static void
print_part(const struct copy *c, int32_t pos, struct str *out)
{
    const struct place *p = c->layout->place;
    str_add(out, "the shard of a variable ");
    type_print(&c->type, out);
    str_addf(out, " on %s:%d", device_kind_text(p->kind), (int)p->rank[pos]);
}

/* Fails because no copy of a shard is left. */
static int
refuse_lost(const struct copy *c, int32_t pos)
{
    struct str part = {0};
    if (!c->sums || !(c->sums->of[pos].damaged[PART] || c->sums->of[pos].damaged[SPARE]))
        return fail(E_LOST, "recover: all hosts with the snapshot were lost");
    print_part(c, pos, &part);
    int status =
        fail(E_IO, "recover: the snapshot is damaged: %s has changed, and no other copy exists; load a checkpoint",
             str_text(&part));
    str_free(&part);
    return status;
}

/* Prints the name of a lost shard, and the worker and host that own its device now. */
static void
tell_lost(struct rille_session *s, const struct copy *c, int32_t pos, struct str *out)
{
    const struct place *p = c->layout->place;
    char host[64];
    cluster_host(s->cluster, cluster_memory_of(s->cluster, p->kind, p->rank[pos]), host);
    print_part(c, pos, out);
    str_addf(out, " (worker %d, %s) was lost before another host had it",
             cluster_owner(s->cluster, p->kind, p->rank[pos]), host);
}

void
copies_tell_lost(struct rille_session *s, int32_t n, struct copy *const *c, struct str *out)
{
    for (int32_t i = 0; i < n && s->cluster; i++)
        for (int32_t pos = 0; c[i]->store && pos < c[i]->store->n; pos++)
            if (is_copy_lost(c[i], pos, PART)) {
                tell_lost(s, c[i], pos, out);
                return;
            }
}

/* Returns an intact copy of a shard; NULL: none. */
static const struct buffer *
elsewhere(const struct rille_session *s, const struct copy *c, int32_t pos)
{
    int32_t other = replica(s, c, pos, true);
    if (other >= 0) return c->store->part[other];
    return is_copy_lost(c, pos, SPARE) ? NULL : copy_side(c, pos, SPARE);
}

static int
add_lost(struct rille_session *s, struct copying *all, struct copy *c, struct store *whole)
{
    const struct place *p = c->layout->place;
    for (int32_t pos = 0; pos < p->nrank; pos++) {
        struct buffer *b = c->store->part[pos];
        if (!b) continue;
        if (!is_copy_lost(c, pos, PART)) {
            whole->part[pos] = b;
            buffer_hold(b);
            continue;
        }
        const struct buffer *from = elsewhere(s, c, pos);
        if (!from) return refuse_lost(c, pos);
        TRY(add_replica_pair(s, all, from, p->kind, p->rank[pos], whole, pos));
    }
    return 0;
}

bool
copies_gone(struct rille_session *s, int32_t n, struct copy *const *c)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t pos = 0; c[i]->store && pos < c[i]->store->n; pos++)
            if (is_copy_lost(c[i], pos, PART) && !elsewhere(s, c[i], pos)) return true;
    return false;
}

/* Clears the damage marks of all shards. Damaged spares (copies on other hosts) are freed later, when new copies are
 * made. */
static void
forget_damage(struct copy *c)
{
    for (int32_t pos = 0; c->sums && pos < c->sums->n; pos++)
        for (int side = 0; side < NSIDE; side++) c->sums->of[pos].damaged[side] = false;
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
        if (!status) forget_damage(c[i]);
        store_drop(&old);
    }
    free(all->pair);
    free(all);
    free(whole);
    return status;
}
