/* files.c - asks workers to write and read files, and waits for the outcome. */
#include "actors/cluster/controller/controller_inner.h"

#include "runtime/base/arena.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- requests ---- */

enum { PLACES = WIRE_PIECE / 8 };

/* Returns the range of file blocks that the copies touch; the request carries the digests of these blocks. */
static void
copy_blocks(const struct shard_copy *copy, int32_t n, int64_t *first, int64_t *end)
{
    *first = INT64_MAX;
    *end = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t last = copy[i].from + (copy[i].nrow - 1) * copy[i].from_stride + copy[i].bytes;
        *first = MIN(*first, copy[i].from / SOURCE_BLOCK);
        *end = MAX(*end, source_blocks(last));
    }
}

static struct packet
packet_of(const struct cluster_file *f, uint64_t count)
{
    struct packet p = {.kind = f->copy ? PACKET_LOAD : PACKET_SAVE, .count = count, .text = span_text(f->path)};
    int64_t first, end;
    if (!f->copy) {
        p.places = (struct span){(const void *)f->place, (uint32_t)(8 * f->n)};
        return p;
    }
    copy_blocks(f->copy, f->n, &first, &end);
    p.places = (struct span){(const void *)f->copy, (uint32_t)(sizeof *f->copy * (size_t)f->n)};
    p.offset = (uint64_t)first;
    p.digests = (struct span){(const void *)(f->digest + first), (uint32_t)(8 * (end - first))};
    return p;
}

static int
check_cluster_file(const struct cluster_file *f)
{
    bool much = f->n > (f->copy ? (int32_t)CLUSTER_COPIES : PLACES);
    if (strlen(f->path) > WIRE_TEXT / 2) return fail(E_ARG, "%s: too long a name", f->path);
    return much ? fail(E_ARG, "%s: it has too many parts", f->path) : 0;
}

/* ---- answers; with the lock ---- */

void
control_filed(struct cluster *c, const struct notice *n)
{
    struct cluster_file *f = NULL;
    for (struct filing *w = c->filing; w && !f; w = w->next)
        if (n->packet->count - w->first < (uint64_t)w->n) f = &w->file[n->packet->count - w->first];
    if (!f || f->done || f->rank != n->rank) return;
    const struct packet *p = n->packet;
    f->done = true;
    f->status = (int)MIN(p->status, (uint32_t)NERR - 1);
    if (f->status) {
        span_print(p->text, &f->why);
    } else if (!f->copy) {
        str_clear(&f->digests);
        str_addn(&f->digests, p->digests.bytes, p->digests.n);
    }
    pthread_cond_broadcast(&c->filed);
}

static bool
all_done(const struct filing *w)
{
    for (int i = 0; i < w->n; i++)
        if (!w->file[i].done) return false;
    return true;
}

static void
remove_filing(struct cluster *c, const struct filing *w)
{
    struct filing **at = &c->filing;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
}

/* Cancels unfinished files. Workers still answer. */
static void
cancel_filing(struct cluster *c, const struct filing *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct packet p = {.kind = PACKET_CANCEL, .count = w->first + (uint64_t)i};
        if (!w->file[i].done) coordinator_file(c->c, w->file[i].rank, &p);
    }
    control_look(c);
}

static int
await_filing(struct cluster *c, struct filing *w)
{
    bool lost = false;
    uint32_t epoch = c->nepoch;
    for (int i = 0; i < w->n && !lost; i++) {
        struct packet p = packet_of(&w->file[i], w->first + (uint64_t)i);
        lost = !coordinator_file(c->c, w->file[i].rank, &p);
    }
    control_look(c);
    while (!lost && !all_done(w)) {
        if (c->nepoch == epoch) pthread_cond_wait(&c->filed, &c->lock);
        lost = c->nepoch != epoch;
        if (!lost && w->interruptible && atomic_exchange(&c->interrupted, 0)) cancel_filing(c, w);
    }
    if (!lost) return 0;
    return c->nloss ? control_say_lost(c) : fail(E_LOST, "workers were lost while files were written or read");
}

/* Returns the first failure, naming the worker. */
static int
failure(struct cluster *c, const struct filing *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct cluster_file *f = &w->file[i];
        if (!f->status) continue;
        if (f->status == E_CANCEL)
            return fail(E_CANCEL, "interrupted while workers %s files", f->copy ? "read" : "wrote");
        const struct member_info *m = coordinator_member(c->c, f->rank);
        return fail((enum err_code)f->status, "worker %d (%s): %s", f->rank, m->host ? m->host : "?",
                    str_text(&f->why));
    }
    return 0;
}

int
cluster_files(struct cluster *c, int n, struct cluster_file *file, bool interruptible)
{
    for (int i = 0; i < n; i++) TRY(check_cluster_file(&file[i]));
    pthread_mutex_lock(&c->lock);
    struct filing w = {.file = file, .n = n, .first = c->nfile + 1, .interruptible = interruptible, .next = c->filing};
    if (interruptible) atomic_store(&c->interrupted, 0);
    c->nfile += (uint64_t)n;
    c->filing = &w;
    int status = await_filing(c, &w);
    if (!status) status = failure(c, &w);
    remove_filing(c, &w);
    pthread_mutex_unlock(&c->lock);
    return status;
}

void
cluster_file_free(struct cluster_file *f)
{
    str_free(&f->why);
    str_free(&f->digests);
}

int
cluster_world(const struct cluster *c)
{
    return c->options.world;
}

bool
cluster_has_root(const struct cluster *c, const char *path)
{
    return roots_have(&c->roots, path);
}
