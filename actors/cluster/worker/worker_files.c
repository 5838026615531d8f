/* worker_files.c - a worker writes bytes of its host's memory to files, and reads them back.
 *
 * A separate thread handles files in order, while runs and heartbeats continue. Bytes are copied through a private
 * block, and the lock is held only while bytes are copied between block and memory. The folders in which files may
 * be were given when the process started (runtime/file/disk/root.h). Copying stops when the epoch ends or the request
 * is cancelled. */
#include "actors/cluster/worker/worker_files.h"
#include "actors/cluster/worker/worker_values.h"

#include "runtime/base/error.h"
#include "runtime/file/disk/root.h"
#include "runtime/file/disk/save.h"
#include "runtime/file/shards.h"
#include "runtime/file/disk/store.h"
#include "runtime/base/stop.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct transfer { /* a copy between a file and memory, block by block */
    struct worker_process *w;
    const struct order *order;
    uint32_t made; /* epoch in which the host's memory was made */
    char *block;   /* buffer of SOURCE_BLOCK bytes */
    size_t n;      /* number of bytes in `block` */
    struct saving out;
    struct str digests;
};

/* Checks that a file request is still valid. E_LOST: the epoch is over; E_CANCEL: the request was cancelled. The
 * caller holds the lock. */
static int
check_wanted(const struct transfer *t)
{
    const struct worker_process *w = t->w;
    bool over = w->shared.leave.asked || (int32_t)(w->shared.over - t->order->work.epoch) >= 0 ||
                w->shared.segment_made != t->made;
    if (over) return fail(E_LOST, "the group of workers changed while the file was written or read; try again");
    return t->order->cancelled ? fail(E_CANCEL, "interrupted") : 0;
}

/* Copies n bytes from a position in the host's memory to `bytes`; if `in` is true, from `bytes` to the memory. */
static int
copy_transfer(struct transfer *t, uint64_t at, char *bytes, size_t n, bool in)
{
    struct worker_process *w = t->w;
    struct spot spot;
    pthread_mutex_lock(&w->lock);
    int status = check_wanted(t);
    w->shared.ndone++;
    if (!status) status = worker_find(w, at, n, &spot);
    if (!status) status = spot.kind->copy(in ? spot.data : bytes, in ? bytes : spot.data, n);
    pthread_mutex_unlock(&w->lock);
    return status;
}

static uint64_t
span_number(struct span s, uint32_t i)
{
    uint64_t v;
    memcpy(&v, s.bytes + 8 * i, 8);
    return v;
}

/* ---- writing ---- */

static int
write_block(struct transfer *t)
{
    uint64_t digest = source_digest(t->block, t->n);
    if (!t->n) return 0;
    str_addn(&t->digests, &digest, sizeof digest);
    TRY(saving_write(&t->out, t->block, (int64_t)t->n));
    t->n = 0;
    return 0;
}

static int
write_places(struct transfer *t, struct span places)
{
    if (places.n % 16) return fail(E_BUS, "packet SAVE: expected 16 bytes per range, found %u bytes", places.n);
    for (uint32_t i = 0; i < places.n / 8; i += 2) {
        uint64_t at = span_number(places, i), left = span_number(places, i + 1);
        while (left) {
            size_t n = (size_t)MIN(left, (uint64_t)SOURCE_BLOCK - t->n);
            TRY(copy_transfer(t, at, t->block + t->n, n, false));
            at += n;
            left -= n;
            t->n += n;
            if (t->n == SOURCE_BLOCK) TRY(write_block(t));
        }
    }
    return write_block(t);
}

/* Writes bytes of memory to an object of an object store. */
static int
save_object(struct transfer *t, const char *url)
{
    TRY(roots_check_url(&t->w->roots, url));
    int status = saving_begin(url, &t->out);
    if (!status) status = write_places(t, t->order->packet.places);
    if (!status) status = saving_end(&t->out);
    saving_drop(&t->out);
    return status;
}

/* Writes bytes of memory to a file and flushes it to disk. Removes the file after a failure. */
static int
save_file(struct transfer *t, const char *path)
{
    struct rooted file;
    if (store_is_url(path)) return save_object(t, path);
    TRY(rooted_create(&t->w->roots, path, &file));
    t->out = (struct saving){.path = path, .fd = file.fd};
    file.fd = -1;
    int status = write_places(t, t->order->packet.places);
    if (!status) status = saving_flush(&t->out);
    saving_drop(&t->out);
    if (!status && fsync(file.folder) && errno != EINVAL) status = fail(E_IO, "%s: %s", path, strerror(errno));
    if (status) unlinkat(file.folder, file.name, 0);
    rooted_close(&file);
    return status;
}

/* ---- reading ---- */

/* Returns true if a received copy is inside the file and its rows do not overlap. copy_transfer() checks positions
 * in memory. */
static bool
is_copy(const struct shard_copy *c, const struct source *from)
{
    /* least: smallest distance at which rows do not overlap. Rows that do not overlap cannot be more than fit into
     * the file */
    int64_t last, least = c->nrow > 1 ? c->bytes : 0;
    return c->from >= 0 && c->to >= 0 && c->bytes > 0 && c->nrow > 0 && c->from_stride >= least &&
           c->to_stride >= least && !__builtin_mul_overflow(c->nrow - 1, c->from_stride, &last) &&
           c->bytes <= from->size && last <= from->size - c->bytes && c->from <= from->size - c->bytes - last &&
           !__builtin_mul_overflow(c->nrow - 1, c->to_stride, &last) && c->to <= INT64_MAX - last;
}

/* Copies rows from the file to memory, split at block boundaries, so that each block is read only once. */
static int
load_copy_rows(struct transfer *t, const struct source *from, const struct shard_copy *c)
{
    for (int64_t row = 0; row < c->nrow; row++)
        for (int64_t done = 0; done < c->bytes;) {
            int64_t at = c->from + row * c->from_stride + done;
            int64_t n = MIN(c->bytes - done, SOURCE_BLOCK - at % SOURCE_BLOCK);
            TRY(source_read(from, at, t->block, n));
            TRY(copy_transfer(t, (uint64_t)(c->to + row * c->to_stride + done), t->block, (size_t)n, true));
            done += n;
        }
    return 0;
}

static int
load_copies(struct transfer *t, struct source *from)
{
    const struct packet *p = &t->order->packet;
    struct shard_copy c;
    uint64_t blocks = (uint64_t)source_blocks(from->size);
    if (p->places.n % sizeof c)
        return fail(E_BUS, "packet LOAD: %s: expected %zu bytes per copy, found %u bytes", from->name, sizeof c,
                    p->places.n);
    if (p->offset > blocks || p->digests.n / 8 > blocks - p->offset)
        return fail(
            E_BUS, "packet LOAD: %s: expected digests of the %llu blocks of the file, found %u digests from block %llu",
            from->name, (unsigned long long)blocks, p->digests.n / 8, (unsigned long long)p->offset);
    source_expect(from, (int64_t)p->offset, p->digests.n / 8, (const void *)p->digests.bytes);
    for (uint32_t i = 0; i < p->places.n; i += sizeof c) {
        memcpy(&c, p->places.bytes + i, sizeof c);
        if (!is_copy(&c, from)) return fail(E_IO, "%s: damaged: the file is too short", from->name);
        TRY(load_copy_rows(t, from, &c));
    }
    return 0;
}

static int
open_transfer(const struct transfer *t, const char *path, struct source **out)
{
    struct rooted file;
    if (store_is_url(path)) {
        TRY(roots_check_url(&t->w->roots, path));
        return source_open(path, out);
    }
    TRY(rooted_open(&t->w->roots, path, &file));
    int fd = file.fd;
    file.fd = -1;
    rooted_close(&file);
    return source_take(path, fd, out);
}

static int
transfer_load_file(struct transfer *t, const char *path)
{
    struct source *from;
    TRY(open_transfer(t, path, &from));
    int status = load_copies(t, from);
    source_close(&from);
    return status;
}

/* ---- the thread ---- */

/* Returns true if the helper program of an object store should end. Counts as progress, because the store limits the
 * helper's time. */
static bool
is_transfer_over(void *arg)
{
    const struct transfer *t = arg;
    pthread_mutex_lock(&t->w->lock);
    t->w->shared.ndone++;
    bool over = t->w->shared.quit || check_wanted(t);
    pthread_mutex_unlock(&t->w->lock);
    return over;
}

void
worker_files_serve(struct worker_process *w, const struct order *o)
{
    const struct packet *p = &o->packet;
    struct transfer t = {.w = w, .order = o, .block = must_alloc(SOURCE_BLOCK), .out = {.fd = -1}};
    char *path = must_alloc(p->text.n + 1);
    memcpy(path, p->text.bytes, p->text.n);
    pthread_mutex_lock(&w->lock);
    t.made = w->shared.segment_made;
    pthread_mutex_unlock(&w->lock);
    stop_caller_ask(is_transfer_over, &t);
    int status = p->kind == PACKET_SAVE ? save_file(&t, path) : transfer_load_file(&t, path);
    stop_caller_ask(NULL, NULL);
    pthread_mutex_lock(&w->lock);
    member_filed(w->member, o->work.epoch, p->count, status, status ? err_text() : "", &t.digests);
    pthread_mutex_unlock(&w->lock);
    str_free(&t.digests);
    free(t.block);
    free(path);
}

static void *
files_thread(void *arg)
{
    struct worker_process *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->shared.quit) {
        w->files.current = order_take(&w->files.queue);
        if (!w->files.current) {
            pthread_cond_wait(&w->files.wake, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        worker_files_serve(w, w->files.current);
        pthread_mutex_lock(&w->lock);
        order_free(w->files.current);
        w->files.current = NULL;
        worker_take_control(w); /* receives packets, because the send may have consumed their edge-triggered event */
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void
worker_files_wake(struct worker_process *w)
{
    if (!w->files.runs) w->files.runs = !thread_start(&w->files.thread, files_thread, w);
    pthread_cond_signal(&w->files.wake);
}

void
worker_files_cancel(struct worker_process *w, uint64_t count)
{
    if (w->files.current && w->files.current->packet.count == count) w->files.current->cancelled = true;
    for (struct order *o = w->files.queue.first; o; o = o->next)
        if (o->packet.count == count) o->cancelled = true;
}

void
worker_files_close(struct worker_process *w)
{
    pthread_cond_signal(&w->files.wake);
    if (w->files.runs) pthread_join(w->files.thread, NULL);
    for (struct order *o; (o = order_take(&w->files.queue)) != NULL;) order_free(o);
}
