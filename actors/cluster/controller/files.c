/* files.c - asks workers to write and read files, and waits for the outcomes. */
#include "actors/cluster/controller/files.h"
#include "actors/cluster/controller/watch.h"
#include "actors/cluster/controller/load_request.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "actors/cluster/coordinator/coordinator_run.h"

#include <stdlib.h>
#include <string.h>

/* ---- requests ---- */

enum { PLACES = WIRE_PIECE / 8 };

static int
check_cluster_file(const struct cluster_file *f)
{
    if (strlen(f->path) > WIRE_TEXT / 2)
        return fail(E_ARG, "%s: the path must have at most %d bytes, found %zu", f->path, WIRE_TEXT / 2,
                    strlen(f->path));
    return !f->copy && f->n > PLACES
               ? fail(E_ARG, "%s: expected at most %d ranges of bytes, found %d", f->path, PLACES / 2, (int)f->n / 2)
               : 0;
}

static struct packet *
add_request(struct filing *w, int file, enum packet_kind kind)
{
    GROW(w->request, w->n + 1, w->capacity);
    struct file_request *r = &w->request[w->n++];
    *r = (struct file_request){.file = file};
    r->packet = (struct packet){.kind = (uint8_t)kind, .text = span_text(w->file[file].path)};
    return &r->packet;
}

static void
request_loads(struct filing *w, int file, struct load_requests *loads)
{
    const struct cluster_file *f = &w->file[file];
    load_requests_make(f->copy, f->n, loads);
    for (int32_t i = 0; i < loads->nrequest; i++) {
        const struct load_request *r = &loads->request[i];
        struct packet *p = add_request(w, file, PACKET_LOAD);
        p->places = (struct span){(const void *)(loads->copy + r->first), (uint32_t)(sizeof *f->copy * (size_t)r->n)};
        p->offset = (uint64_t)r->first_block;
        p->digests =
            (struct span){(const void *)(f->digest + r->first_block), (uint32_t)(8 * (r->end_block - r->first_block))};
    }
}

static void
request_save(struct filing *w, int file)
{
    const struct cluster_file *f = &w->file[file];
    struct packet *p = add_request(w, file, PACKET_SAVE);
    p->places = (struct span){(const void *)f->place, (uint32_t)(8 * f->n)};
}

/* ---- handle answers; the caller holds the lock ---- */

static struct file_request *
request_of_count(const struct cluster *c, uint64_t count, struct cluster_file **f)
{
    for (const struct filing *w = c->files.first; w; w = w->next) {
        if (count - w->first >= (uint64_t)w->n) continue;
        struct file_request *r = &w->request[count - w->first];
        *f = &w->file[r->file];
        return r->done ? NULL : r;
    }
    return NULL;
}

/* Records the outcome of a request. The digests of a written file arrive in several packets; the last of them ends
 * the request. */
void
control_filed(struct cluster *c, const struct notice *n)
{
    const struct packet *p = n->packet;
    struct cluster_file *f;
    struct file_request *r = request_of_count(c, p->count, &f);
    if (!r || f->rank != n->rank) return;
    if (p->status && !f->status) {
        f->status = (int)p->status;
        span_print(p->text, &f->why);
    } else if (!f->copy) {
        str_addn(&f->digests, p->digests.bytes, p->digests.n);
    }
    r->done = p->status || !(p->flags & FILED_MORE);
    if (r->done) pthread_cond_broadcast(&c->files.changed);
}

static bool
all_done(const struct filing *w)
{
    for (int i = 0; i < w->n; i++)
        if (!w->request[i].done) return false;
    return true;
}

static void
remove_filing(struct cluster *c, const struct filing *w)
{
    struct filing **at = &c->files.first;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
}

/* Cancels the requests that are not done. Workers still answer such requests. */
static void
cancel_filing(struct cluster *c, const struct filing *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct packet p = {.kind = PACKET_CANCEL, .count = w->first + (uint64_t)i};
        const struct file_request *r = &w->request[i];
        if (!r->done) coordinator_file(c->c, w->file[r->file].rank, &p);
    }
    control_look(c);
}

static int
await_filing(struct cluster *c, struct filing *w)
{
    bool lost = false;
    uint32_t epoch = c->epoch.lost.n;
    for (int i = 0; i < w->n && !lost; i++) {
        struct file_request *r = &w->request[i];
        r->packet.count = w->first + (uint64_t)i;
        lost = !coordinator_file(c->c, w->file[r->file].rank, &r->packet);
    }
    control_look(c);
    while (!lost && !all_done(w)) {
        if (c->epoch.lost.n == epoch) pthread_cond_wait(&c->files.changed, &c->lock);
        lost = c->epoch.lost.n != epoch;
        if (!lost && w->interruptible && atomic_exchange(&c->wait.interrupted, 0)) cancel_filing(c, w);
    }
    if (!lost) return 0;
    return c->epoch.nloss ? control_say_lost(c) : fail(E_LOST, "workers were lost while files were written or read");
}

/* Returns the first failure, with an error text that names the worker. */
static int
failure(struct cluster *c, const struct filing *w)
{
    for (int i = 0; i < w->nfile; i++) {
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

/* Makes the requests of all files. loads: by file, the lists of copies; the requests point into these lists. */
static void
make_requests(struct filing *w, struct load_requests *loads)
{
    for (int i = 0; i < w->nfile; i++)
        if (w->file[i].copy)
            request_loads(w, i, &loads[i]);
        else
            request_save(w, i);
}

static int
carry_out_filing(struct cluster *c, struct filing *w)
{
    pthread_mutex_lock(&c->lock);
    if (w->interruptible) atomic_store(&c->wait.interrupted, 0);
    w->first = c->files.nrequest + 1;
    w->next = c->files.first;
    c->files.nrequest += (uint64_t)w->n;
    c->files.first = w;
    int status = await_filing(c, w);
    if (!status) status = failure(c, w);
    remove_filing(c, w);
    pthread_mutex_unlock(&c->lock);
    return status;
}

int
cluster_files(struct cluster *c, int n, struct cluster_file *file, bool interruptible)
{
    for (int i = 0; i < n; i++) TRY(check_cluster_file(&file[i]));
    struct filing w = {.file = file, .nfile = n, .interruptible = interruptible};
    struct load_requests *loads = must_alloc(sizeof *loads * (size_t)(n + 1));
    make_requests(&w, loads);
    int status = carry_out_filing(c, &w);
    for (int i = 0; i < n; i++) load_requests_free(&loads[i]);
    free(loads);
    free(w.request);
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
