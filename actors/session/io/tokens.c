/* tokens.c - serves token ids for training: windows of the ids, in an order that seed and epoch determine.
 *
 * A formula computes the position of each window, so an epoch of any length needs no table. A single number
 * states how far an epoch has been read. A source (read_ahead.h) reads the next batches while a step runs. Each
 * rank takes its rows of a batch. */
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/io/file.h"
#include "actors/session/io/read_ahead.h"
#include "runtime/file/llmc.h"
#include "runtime/data/hash.h"
#include "runtime/data/rng.h"

#include <stdlib.h>
#include <string.h>

struct rille_tokens {
    struct rille_session *s;
    int nfile;
    struct token_file *file;
    struct ahead *ahead;
};

static int
tokens_given(const struct rille_tokens *t, const char *who)
{
    TRY(face_given(t, "the tokens", who));
    return face_session(t->s, who);
}

/* ---- opening token files, and their digests ---- */

/* Checks that the ids of all files have the same width, because another width means another vocabulary: GPT-2's
 * ids have 2 bytes, Llama 3's have 4. */
static int
same_width(const struct rille_tokens *t, const char *const *path)
{
    const struct token_file *first = &t->file[0], *last = &t->file[t->nfile - 1];
    if (last->width == first->width) return 0;
    return fail(E_ARG, "%s: its ids have %d bytes, but those of %s have %d: the files have different vocabularies",
                path[t->nfile - 1], last->width, path[0], first->width);
}

int
rille_tokens_open(struct rille_session *s, int n, const char *const *path, struct rille_tokens **out)
{
    TRY(face_session(s, __func__));
    TRY(n ? face_given(path, "the paths", __func__) : 0);
    TRY(face_given(out, "out", __func__));
    struct rille_tokens *t = must_alloc(sizeof *t);
    int status = 0;
    t->s = s;
    t->file = must_alloc(sizeof *t->file * (size_t)(n + 1));
    for (int i = 0; !status && i < n; i++) {
        status = token_file_open(path[i], &t->file[i]);
        t->nfile += !status;
        if (!status) status = same_width(t, path);
    }
    if (status) rille_tokens_close(&t);
    *out = t;
    return status;
}

/* Opens tokens from memory, like a file with ids of 8 bytes. */
int
rille_tokens_of(struct rille_session *s, int64_t n, const int64_t *ids, struct rille_tokens **out)
{
    TRY(face_session(s, __func__));
    TRY(n ? face_given(ids, "the ids", __func__) : 0);
    TRY(face_given(out, "out", __func__));
    if (n < 0) return fail(E_ARG, "tokens: the number of ids must not be negative, found %lld", (long long)n);
    struct rille_tokens *t = must_alloc(sizeof *t);
    size_t bytes = sizeof *ids * (size_t)n;
    t->s = s;
    t->nfile = 1;
    t->file = must_alloc(sizeof *t->file);
    t->file[0] = token_file_of(must_copy(ids, bytes), n);
    *out = t;
    return 0;
}

void
rille_tokens_close(struct rille_tokens **tp)
{
    if (face_given(tp, "the tokens", __func__) || !*tp || tokens_given(*tp, __func__)) return;
    struct rille_tokens *t = *tp;
    *tp = NULL;
    read_ahead_free(&t->ahead);
    for (int i = 0; i < t->nfile; i++) source_close(&t->file[i].source);
    free(t->file);
    free(t);
}

int64_t
rille_tokens_count(const struct rille_tokens *t, int64_t *most)
{
    int64_t n = 0;
    if (tokens_given(t, __func__) || face_given(most, "most", __func__)) return 0;
    *most = 0;
    for (int i = 0; i < t->nfile; i++) {
        n += t->file[i].n;
        *most = MAX(*most, t->file[i].n);
    }
    return n;
}

/* Adds a file to the digest: the file's length, and runs of ids at evenly spaced positions. */
static int
digest_file(const struct token_file *f, uint64_t *h)
{
    enum { PLACES = 64, IDS = 32 };
    int64_t id[IDS], n = MIN(f->n, IDS);
    *h = hash_number(*h, (uint64_t)f->n);
    for (int i = 0; i < PLACES && n; i++) {
        TRY(token_file_read(f, (f->n - n) / (PLACES - 1) * i, n, id));
        *h = hash_bytes(*h, id, sizeof *id * (size_t)n);
    }
    return 0;
}

int
rille_tokens_digest(const struct rille_tokens *t, uint64_t *out)
{
    TRY(tokens_given(t, __func__));
    TRY(face_given(out, "out", __func__));
    *out = 0;
    for (int i = 0; i < t->nfile; i++) TRY(digest_file(&t->file[i], out));
    return 0;
}

static int64_t
windows_in(const struct token_file *f, int64_t length)
{
    return f->n > 0 ? (f->n - 1) / length : 0;
}

static int64_t
count_windows(const struct rille_tokens *t, int64_t length)
{
    int64_t n = 0;
    for (int i = 0; i < t->nfile; i++) n += windows_in(&t->file[i], length);
    return n;
}

int64_t
rille_tokens_windows(const struct rille_tokens *t, int64_t length)
{
    return tokens_given(t, __func__) || length < 1 ? 0 : count_windows(t, length);
}

/* ---- batches of n rows of length + 1 ids, on the source's thread ---- */

static size_t
batch_bytes(const struct batch_at *at)
{
    return sizeof(int64_t) * (size_t)(at->n * (at->length + 1));
}

/* Returns the file that contains window w (consecutive token ids), and the position in the file where the window
 * begins. */
static const struct token_file *
find_token_file(const struct rille_tokens *t, int64_t w, int64_t length, int64_t *at)
{
    const struct token_file *f = t->file;
    for (; w >= windows_in(f, length); f++) w -= windows_in(f, length);
    *at = w * length;
    return f;
}

static int
check_ids(const struct token_file *f, int64_t from, int64_t n, const int64_t *id, int64_t vocab)
{
    for (int64_t i = 0; i < n; i++)
        if (id[i] >= vocab)
            return fail(E_ARG, "%s: id number %lld is %lld; for a vocabulary of %lld, ids must be from 0 to %lld",
                        f->source->name, (long long)(from + i), (long long)id[i], (long long)vocab,
                        (long long)vocab - 1);
    return 0;
}

static int
batch_fill(void *arg, const struct batch_at *at, void *out)
{
    const struct rille_tokens *t = arg;
    uint64_t key = rng_key(at->seed, at->epoch), n = (uint64_t)count_windows(t, at->length);
    int64_t *id = out;
    for (int64_t row = at->first; row < at->first + at->n; row++, id += at->length + 1) {
        int64_t from;
        const struct token_file *f = find_token_file(t, (int64_t)rng_shuffle(key, n, (uint64_t)row), at->length, &from);
        TRY(token_file_read(f, from, at->length + 1, id));
        if (at->vocab) TRY(check_ids(f, from, at->length + 1, id, at->vocab));
    }
    return 0;
}

/* Returns the next batch with the same number of rows. If the epoch has too few rows left, returns the first batch
 * of the next epoch. */
static struct batch_at
batch_next(void *arg, const struct batch_at *at)
{
    struct batch_at next = *at;
    next.first += at->n;
    if (next.first + next.n <= count_windows(arg, at->length)) return next;
    next.first = 0;
    next.epoch++;
    return next;
}

static struct ahead *
tokens_ahead(struct rille_tokens *t)
{
    if (!t->ahead) t->ahead = read_ahead_new(&(struct read_ahead_source){t, batch_bytes, batch_fill, batch_next});
    return t->ahead;
}

void
rille_tokens_stats(const struct rille_tokens *t, struct rille_source_stats *out)
{
    if (tokens_given(t, __func__) || face_given(out, "out", __func__)) return;
    *out = (struct rille_source_stats){.depth = READ_AHEAD_DEPTH};
    if (t->ahead) read_ahead_stats(t->ahead, out);
}

/* ---- batches on the session's thread ---- */

struct rows { /* rows of a batch, as a tensor: shift 0: inputs x; shift 1: targets y */
    const int64_t *id;
    int64_t width, shift;
};

static int
read_rows(void *arg, const struct box *b, void *out)
{
    const struct rows *r = arg;
    int64_t n = b->hi[1] - b->lo[1], *id = out;
    for (int64_t i = b->lo[0]; i < b->hi[0]; i++, id += n)
        memcpy(id, r->id + i * r->width + b->lo[1] + r->shift, sizeof *id * (size_t)n);
    return 0;
}

static const struct layout *
layout_or_default(struct rille_session *s, const struct rille_layout *l)
{
    return l ? (const struct layout *)l : session_layout(s);
}

int
rille_tokens_batch(struct rille_tokens *t, const struct rille_token_rows *rows, struct rille_tensor **x,
                   struct rille_tensor **y)
{
    struct rille_token_rows copy, *w = &copy;
    TRY(tokens_given(t, __func__));
    TRY(face_options(rows, UP_TO(rille_token_rows, y), sizeof copy, &copy, __func__));
    TRY((w->x ? face_layout(t->s, w->x, __func__) : 0));
    TRY((w->y ? face_layout(t->s, w->y, __func__) : 0));
    TRY(face_given(x, "x", __func__));
    TRY(face_given(y, "y", __func__));
    int64_t nwindow = rille_tokens_windows(t, w->length);
    struct type type = type_of(DT_I64, 2, (int64_t[]){w->n, w->length});
    *x = *y = NULL;
    if (w->vocab < 0) return fail(E_ARG, "tokens: vocabulary must be at least 1, found %lld", (long long)w->vocab);
    if (w->first < 0 || w->n < 1 || w->n > nwindow || w->first > nwindow - w->n)
        return fail(E_ARG, "tokens: %lld rows from row %lld on are out of range for an epoch of %lld", (long long)w->n,
                    (long long)w->first, (long long)nwindow);
    const void *id;
    TRY(read_ahead_take(tokens_ahead(t), &(struct batch_at){w->seed, w->epoch, w->first, w->n, w->length, w->vocab},
                        &id));
    struct rows r = {id, w->length + 1, 0};
    int status = leaf_read(t->s, &type, layout_or_default(t->s, w->x), read_rows, &r, x);
    r.shift = 1;
    if (!status) status = leaf_read(t->s, &type, layout_or_default(t->s, w->y), read_rows, &r, y);
    if (status) rille_tensor_free(x);
    read_ahead_give_back(t->ahead);
    return status;
}

static int
read_all_tokens(void *arg, const struct box *b, void *out)
{
    const struct rille_tokens *t = arg;
    int64_t first = 0, *id = out;
    for (int i = 0; i < t->nfile; first += t->file[i++].n) {
        int64_t lo = MAX(b->lo[0], first), hi = MIN(b->hi[0], first + t->file[i].n);
        if (lo >= hi) continue;
        TRY(token_file_read(&t->file[i], lo - first, hi - lo, id));
        id += hi - lo;
    }
    return 0;
}

int
rille_tokens_all(struct rille_tokens *t, const struct rille_layout *layout, struct rille_tensor **out)
{
    TRY(tokens_given(t, __func__));
    TRY((layout ? face_layout(t->s, layout, __func__) : 0));
    TRY(face_given(out, "out", __func__));
    int64_t most, n = rille_tokens_count(t, &most);
    struct type type = type_of(DT_I64, 1, &n);
    return leaf_read(t->s, &type, layout_or_default(t->s, layout), read_all_tokens, t, out);
}
