/* tokens.c - ids to train on: windows in an order that seed and epoch give, each rank reading its own rows.
 *
 * A window is found by arithmetic, so an epoch of any length has no table, and going on in the middle of one is a
 * number. While a batch is used the system fetches what the next one will read. */
#include "actors/session/face.h"
#include "runtime/file/llmc.h"
#include "runtime/rng.h"

#include <stdlib.h>
#include <string.h>

struct rille_tokens {
    struct rille_session *s;
    int nfile;
    struct token_file *file;
};

static int
tokens_given(const struct rille_tokens *t, const char *who)
{
    TRY(face_given(t, "the tokens", who));
    return face_session(t->s, who);
}

/* ---- opening ---- */

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
    }
    if (status) rille_tokens_close(&t);
    *out = t;
    return status;
}

/* As if they were in a file of ids of eight bytes. */
int
rille_tokens_of(struct rille_session *s, int64_t n, const int64_t *ids, struct rille_tokens **out)
{
    TRY(face_session(s, __func__));
    TRY(n ? face_given(ids, "the ids", __func__) : 0);
    TRY(face_given(out, "out", __func__));
    if (n < 0) return fail(E_ARG, "tokens: %lld ids", (long long)n);
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

static int64_t
windows_in(const struct token_file *f, int64_t length)
{
    return f->n > 0 ? (f->n - 1) / length : 0;
}

int64_t
rille_tokens_windows(const struct rille_tokens *t, int64_t length)
{
    int64_t n = 0;
    if (tokens_given(t, __func__) || length < 1) return 0;
    for (int i = 0; i < t->nfile; i++) n += windows_in(&t->file[i], length);
    return n;
}

/* ---- batches ---- */

struct rows { /* of a batch, as x (ahead 0) or y (1) reads them */
    const struct rille_tokens *t;
    const struct rille_token_rows *want;
    uint64_t key, nwindow;
    int64_t ahead;
};

/* The file and the position in it where a row's window begins. */
static const struct token_file *
find_window(const struct rows *r, int64_t row, int64_t *at)
{
    int64_t w = (int64_t)rng_shuffle(r->key, r->nwindow, (uint64_t)row);
    const struct token_file *f = r->t->file;
    for (; w >= windows_in(f, r->want->length); f++) w -= windows_in(f, r->want->length);
    *at = w * r->want->length;
    return f;
}

static int
read_rows(void *arg, const struct box *b, void *out)
{
    const struct rows *r = arg;
    int64_t n = b->hi[1] - b->lo[1], *id = out;
    for (int64_t i = b->lo[0]; i < b->hi[0]; i++, id += n) {
        int64_t at;
        const struct token_file *f = find_window(r, r->want->first + i, &at);
        TRY(token_file_read(f, at + b->lo[1] + r->ahead, n, id));
    }
    return 0;
}

static void
expect_rows(const struct rows *r)
{
    int64_t from = r->want->first + r->want->n, to = MIN(from + r->want->next, (int64_t)r->nwindow), at;
    for (int64_t row = from; row < to; row++) {
        const struct token_file *f = find_window(r, row, &at);
        source_expect(f->source, f->at + at * f->width, (r->want->length + 1) * f->width);
    }
}

static const struct layout *
layout_or_default(struct rille_session *s, const struct rille_layout *l)
{
    return l ? (const struct layout *)l : session_layout(s);
}

int
rille_tokens_batch(struct rille_tokens *t, const struct rille_token_rows *w, struct rille_tensor **x,
                   struct rille_tensor **y)
{
    TRY(tokens_given(t, __func__));
    TRY(face_given(w, "the rows", __func__));
    TRY((w->x ? face_layout(t->s, w->x, __func__) : 0));
    TRY((w->y ? face_layout(t->s, w->y, __func__) : 0));
    TRY(face_given(x, "x", __func__));
    TRY(face_given(y, "y", __func__));
    struct rows r = {t, w, rng_key(w->seed, w->epoch), (uint64_t)rille_tokens_windows(t, w->length), 0};
    struct type type = type_of(DT_I64, 2, (int64_t[]){w->n, w->length});
    *x = *y = NULL;
    if (w->first < 0 || w->n < 1 || w->first + w->n > (int64_t)r.nwindow)
        return fail(E_ARG, "tokens: rows %lld to %lld of an epoch of %lld", (long long)w->first,
                    (long long)(w->first + w->n), (long long)r.nwindow);
    int status = leaf_read(t->s, &type, layout_or_default(t->s, w->x), read_rows, &r, x);
    r.ahead = 1;
    if (!status) status = leaf_read(t->s, &type, layout_or_default(t->s, w->y), read_rows, &r, y);
    if (status)
        rille_tensor_free(x);
    else
        expect_rows(&r);
    return status;
}

static int
read_all(void *arg, const struct box *b, void *out)
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
    return leaf_read(t->s, &type, layout_or_default(t->s, layout), read_all, t, out);
}
