/* segments.c - sorts rows by micro-batch, and back. */
#include "actors/session/batch/segments.h"
#include "actors/session/run/store.h"

#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>
#include <string.h>

static void
add_bounds(struct segments *s, const struct type *t, const struct layout *l)
{
    s->bound = must_realloc(s->bound, sizeof *s->bound * (size_t)(s->n + 2 * l->place->nrank + 2));
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct box b;
        layout_box(l, t, pos, &b);
        s->bound[s->n++] = b.lo[0];
        s->bound[s->n++] = b.hi[0];
    }
}

/* Fails with E_SHAPE. The error lists the numbers of micro-batches that divide every segment: "1, 2, 4". */
static int
segments_no_pieces(const struct segments *s, int64_t rows)
{
    struct str good = {0};
    for (int64_t m = 1; m <= rows && good.len < 200; m++) {
        bool divides = true;
        for (int32_t i = 0; i < s->n; i++) divides = divides && (s->bound[i + 1] - s->bound[i]) % m == 0;
        if (divides) str_addf(&good, "%s%lld", good.len ? ", " : "", (long long)m);
    }
    int32_t bad = 0;
    while ((s->bound[bad + 1] - s->bound[bad]) % s->pieces == 0) bad++;
    int status =
        fail(E_SHAPE,
             "graph: micro_batches = %d must divide the rows of each contiguous block of the arguments; rows %lld to "
             "%lld of %lld are one block, of %lld rows; possible numbers: %s",
             (int)s->pieces, (long long)s->bound[bad], (long long)s->bound[bad + 1] - 1, (long long)rows,
             (long long)(s->bound[bad + 1] - s->bound[bad]), str_text(&good));
    str_free(&good);
    return status;
}

int
segments_find(struct segments *s, int32_t pieces, int n, struct rille_tensor *const *in)
{
    *s = (struct segments){.pieces = pieces};
    if (pieces == 1) return 0;
    int64_t rows = -1;
    for (int i = 0; i < n; i++) {
        const struct type *t = &in[i]->val->type;
        if (t->ndim == 0)
            return fail(
                E_SHAPE,
                "graph: argument %d is a scalar, so micro_batches = %d cannot divide its rows; pass a number, or "
                "let the function read the tensor as an upvalue",
                i + 1, (int)pieces);
        if (rows >= 0 && t->dim[0] != rows)
            return fail(E_SHAPE,
                        "graph: argument %d has %lld rows but argument 1 has %lld: with micro_batches all arguments "
                        "must have the rows of the batch; let the function read other tensors as upvalues, or use "
                        "micro_batches = 1",
                        i + 1, (long long)t->dim[0], (long long)rows);
        rows = t->dim[0];
        add_bounds(s, t, in[i]->val->layout);
    }
    if (n == 0) return 0;
    s->n = sorted_once64(s->bound, s->n) - 1;
    for (int32_t i = 0; i < s->n; i++)
        if ((s->bound[i + 1] - s->bound[i]) % pieces) return segments_no_pieces(s, rows);
    return 0;
}

struct segments
segments_copy(const struct segments *s)
{
    struct segments copy = *s;
    if (s->bound) copy.bound = must_copy(s->bound, sizeof *s->bound * (size_t)(s->n + 1));
    return copy;
}

void
segments_free(struct segments *s)
{
    free(s->bound);
    s->bound = NULL;
}

int32_t
segments_alike(const struct segments *s)
{
    for (int32_t i = 1; i < s->n; i++)
        if (s->bound[i + 1] - s->bound[i] != s->bound[1] - s->bound[0]) return 0;
    return MAX(1, s->n);
}

/* Returns the number of segments (rows between shard boundaries) in rows lo to hi; -1: lo or hi is inside a
 * segment. */
static int32_t
count_in(const struct segments *s, int64_t lo, int64_t hi)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n; i++) {
        if (s->bound[i + 1] <= lo || s->bound[i] >= hi) continue;
        if (s->bound[i] < lo || s->bound[i + 1] > hi) return -1;
        n++;
    }
    return n;
}

static int32_t
most_in(const struct segments *s, const struct layout *l, int64_t rows)
{
    int32_t most = 0;
    struct type t = {.dtype = DT_F32, .ndim = 1, .dim = {rows * s->pieces}};
    struct layout line = *l;
    for (int a = 0; a < l->place->naxis; a++)
        if (line.sbp[a].kind == SBP_S && line.sbp[a].axis != 0) line.sbp[a] = (struct sbp){.kind = SBP_B};
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct box b;
        layout_box(&line, &t, pos, &b);
        int32_t n = count_in(s, b.lo[0], b.hi[0]);
        if (n < 0) return -1;
        most = MAX(most, n);
    }
    return most;
}

bool
segments_in_order(const struct segments *s, const struct layout *l, int64_t rows)
{
    return s->pieces == 1 || s->n == 0 || most_in(s, l, rows) == 1;
}

bool
segments_fit(const struct segments *s, const struct layout *l, int64_t rows)
{
    return s->n == 0 || s->bound[s->n] != rows * s->pieces || most_in(s, l, rows) >= 0;
}

/* Copies between buffers of one device kind. kind NULL: both buffers are in host memory. */
static int
copy_segment(const struct device_kind *kind, char *to, const char *from, size_t bytes)
{
    if (kind) return kind->copy(to, from, bytes);
    memcpy(to, from, bytes);
    return 0;
}

/* Sorts the rows of one shard: micro-batch k is the k-th part of each segment. */
static int
sort_shard(const struct segments *s, const struct device_kind *kind, const struct box *b, int64_t row_bytes,
           const char *from, char *to, bool back)
{
    int64_t at = 0;
    for (int32_t k = 0; k < s->pieces; k++)
        for (int32_t i = 0; i < s->n; i++) {
            if (s->bound[i] < b->lo[0] || s->bound[i + 1] > b->hi[0]) continue;
            int64_t part = (s->bound[i + 1] - s->bound[i]) / s->pieces;
            int64_t own = (s->bound[i] - b->lo[0] + k * part) * row_bytes, bytes = part * row_bytes;
            if (bytes) TRY(copy_segment(kind, to + (back ? own : at), from + (back ? at : own), (size_t)bytes));
            at += bytes;
        }
    return 0;
}

/* Sorts the rows of one buffer. If another process owns the bytes, copies them through the host. */
static int
sort_buffer(const struct segments *s, const struct box *b, int64_t row_bytes, const struct buffer *from,
            const struct buffer *to, int kind, bool back)
{
    void *data, *copy;
    TRY(buffer_await(from, false));
    TRY(buffer_await(to, true));
    if (buffer_is_here(from)) return sort_shard(s, device_kind(kind), b, row_bytes, from->data, to->data, back);
    int status = buffer_on_host(from, &data, &copy);
    char *sorted = must_alloc(to->bytes);
    if (!status) status = sort_shard(s, NULL, b, row_bytes, data, sorted, back);
    if (!status) status = buffer_write(to, sorted);
    free(sorted);
    free(copy);
    return status;
}

int
segments_sort(const struct segments *s, struct rille_session *session, const struct type *t, const struct layout *l,
              const struct store *from, bool back, struct store **out)
{
    TRY(store_make(session, t, l, out));
    for (int pos = 0; pos < l->place->nrank; pos++) {
        struct box b;
        struct type local = layout_shard(l, t, pos);
        layout_box(l, t, pos, &b);
        if (!from->part[pos] || local.dim[0] == 0) continue;
        int64_t row_bytes = type_bytes(&local) / local.dim[0];
        int status = sort_buffer(s, &b, row_bytes, from->part[pos], (*out)->part[pos], l->place->kind, back);
        if (!status) continue;
        store_drop(out);
        return status;
    }
    return 0;
}
