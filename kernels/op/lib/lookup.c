/* lookup.c - reads and writes entries at given positions along an axis, and checks ids. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/lookup.h"

#include "kernels/cpu/base/convert.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"

#include <string.h>

struct lookup_text
lookup_text(const struct type *x, const struct type *ids, int axis)
{
    struct lookup_text t = {0};
    int n = 0;
    for (int d = 0; d < ids->ndim; d++) t.ids[d] = (char)('a' + d);
    for (int d = 0; d < x->ndim; d++) {
        t.x[d] = (char)('A' + d);
        if (d != axis) {
            t.out[n++] = t.x[d];
            continue;
        }
        memcpy(t.out + n, t.ids, ids->ndim);
        n += ids->ndim;
    }
    return t;
}

int64_t
lookup_id(const struct view *ids, const int64_t *at)
{
    int64_t index = 0;
    for (int d = 0; d < ids->ndim; d++) index += at[d] * ids->stride[d];
    return elem_get_i(ids->dtype, ids->data, index);
}

/* Converts the index of a row in this micro-batch to the index of that row in the whole batch. */
static int64_t
batch_row(const struct kcall *k, int i, int64_t row)
{
    const struct pieces *p = &k->pieces;
    /* If the operand is not divided into micro-batches, its rows are those of the batch. If its shards differ in
     * length (cut is 0), the row in the batch is unknown, and the message has the row in the micro-batch. */
    if (!(p->of >> i & 1) || p->cut == 0) return row;
    int64_t part = MAX(k->in[i].global[0] / p->cut, 1); /* number of rows that a shard has in one micro-batch */
    return (row / part * p->n + (int64_t)k->piece) * part + row % part;
}

void
lookup_print_position(const struct kcall *k, int i, const struct finding *f, struct str *s)
{
    const struct view *v = &k->in[i];
    int64_t at[MAX_DIM], rest = f->at - 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        at[d] = v->offset[d] + rest % v->dim[d];
        rest /= v->dim[d];
    }
    if (v->ndim != 1) str_add(s, "{");
    for (int d = 0; d < v->ndim; d++)
        str_addf(s, d ? ", %lld" : "%lld", (long long)(d ? at[d] : batch_row(k, i, at[d])));
    if (v->ndim != 1) str_add(s, "}");
}

int
lookup_say(const struct kcall *k, int i, int64_t size, const struct lookup_words *w, const struct finding *f)
{
    struct str where = {0};
    lookup_print_position(k, i, f, &where);
    int code = fail(E_VALUE, "%s: %s %lld at position %s is not %s%lld%s (positions count from 0)", w->op, w->noun,
                    (long long)f->value[0], str_text(&where), w->before, (long long)size, w->after);
    str_free(&where);
    return code;
}

enum { ID_BLOCK = 1024 };

/* Counts the elements that are neither in [lo, lo + count) nor equal to `also`. */
VECTOR static int64_t
count_others(int64_t n, const int64_t *id, int64_t lo, uint64_t count, int64_t also)
{
    int64_t others = 0;
    for (int64_t j = 0; j < n; j++) others += (uint64_t)id[j] - (uint64_t)lo >= count && id[j] != also;
    return others;
}

/* Returns true if every element of a dense view is allowed. If the result is false, lookup_find() searches for the
 * first element that is not allowed. */
static bool
all_allowed(const struct view *x, const struct allowed *a)
{
    int64_t n = view_numel(x), bad = 0, also = a->also ? *a->also : a->lo, id[ID_BLOCK];
    if (!a->also && a->count == 0) return n == 0;
    for (int64_t i = 0, m; i < n && stop_passes(i); i += m) {
        m = MIN(n - i, ID_BLOCK);
        const char *from = (const char *)x->data + i * (int64_t)dtype_bytes(x->dtype);
        if (x->dtype != DT_I64) block_load(COMP_I64, x->dtype, from, 1, m, id);
        bad += count_others(m, x->dtype == DT_I64 ? (const int64_t *)from : id, a->lo, a->count, also);
    }
    return bad == 0;
}

/* Sets the range of allowed values in *a to all values greater than the number. */
static void
begin_after(struct allowed *a, const struct view *number)
{
    int64_t last = elem_get_i(number->dtype, number->data, 0);
    a->lo = (int64_t)((uint64_t)last + 1);
    a->count = (uint64_t)INT64_MAX - (uint64_t)last;
}

void
lookup_find(const struct kcall *k)
{
    struct allowed a = {0};
    struct walk walk;
    int64_t position = 0;
    if (!k->find) return;
    k->call->op->host.allows(k, &a);
    if (a.after) begin_after(&a, &k->in[a.after - 1]);
    const struct view *x = &k->in[a.operand];
    if (x->dtype == DT_NONE) return;
    if (view_is_dense(x) && all_allowed(x, &a)) return;
    for (walk_start(&walk, x); walk.left > 0; walk_next(&walk, x), position++) {
        int64_t value = lookup_id(x, walk.at);
        if ((uint64_t)value - (uint64_t)a.lo < a.count || (a.also && value == *a.also)) continue;
        *k->find = (struct finding){1 + position, {value, a.lo}};
        return;
    }
}

/* ---- reading and adding whole entries ---- */

/* Returns the local index of the entry at global position id; -1: another rank has this entry. */
static int64_t
entry_here(const struct view *x, int axis, int64_t id)
{
    return lookup_here(id, x->offset[axis], x->dim[axis]);
}

/* Copies n elements of x, starting at element `from`. d: dtype of the copies: that of x, or f32
 * if x has 16-bit floats and the result is a partial sum. */
static void
copy_entry(enum dtype d, void *to, const struct view *x, int64_t from, int64_t n)
{
    const char *data = (const char *)x->data + from * (int64_t)dtype_bytes(x->dtype);
    if (d == x->dtype)
        memcpy(to, data, (size_t)n * dtype_bytes(d));
    else
        block_load(COMP_F32, x->dtype, data, 1, n, to);
}

void
lookup_take(const struct view *x, int axis, const struct view *ids, const struct view *out)
{
    struct lines l = lines_of(x, axis);
    int64_t nid = view_numel(ids), entry = l.inner * (int64_t)dtype_bytes(out->dtype);
    char *to = out->data;
    int64_t since = 0;
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t j = 0; j < nid; j++, to += entry) {
            if (stop_after(&since, entry + 64)) return;
            int64_t at = entry_here(x, axis, elem_get_i(ids->dtype, ids->data, j));
            if (at < 0)
                memset(to, 0, (size_t)entry);
            else
                copy_entry(out->dtype, to, x, (o * l.size + at) * l.inner, l.inner);
        }
}

void
lookup_put(const struct view *out, int axis, const struct view *ids, const struct view *src)
{
    struct lines l = lines_of(out, axis);
    int64_t nid = view_numel(ids);
    const double *from = f64_of(src);
    double *to = f64_of(out);
    int64_t since = 0;
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t j = 0; j < nid && !stop_after(&since, l.inner * 8); j++, from += l.inner) {
            int64_t at = entry_here(out, axis, elem_get_i(ids->dtype, ids->data, j));
            if (at < 0) continue;
            for (int64_t i = 0; i < l.inner; i++) to[(o * l.size + at) * l.inner + i] += from[i];
        }
}

/* ---- fast writes: each entry of the result has a list of sources, so that threads can share the entries ---- */

struct put {
    const struct view *out, *src, *base; /* base: tensor to which sources are added; NULL: zeros */
    struct lines l;
    int64_t nid;
    /* first: by entry of the result, the index of its first source. next: by source, the index of the next source of
     * the same entry. -1: end of the list. */
    int32_t *first, *next;
};

static size_t
lookup_scratch(const struct view *out, int axis, const struct view *ids)
{
    return (size_t)(out->dim[axis] + view_numel(ids)) * sizeof(int32_t);
}

/* Builds the list of each entry from the last id to the first, so that a list is in the order of ids and every sum
 * has a fixed order. */
static void
put_lists(struct put *p, int axis, const struct view *ids)
{
    for (int64_t e = 0; e < p->l.size; e++) p->first[e] = -1;
    for (int64_t j = p->nid - 1; j >= 0; j--) {
        int64_t at = entry_here(p->out, axis, elem_get_i(ids->dtype, ids->data, j));
        if (at < 0) continue;
        p->next[j] = p->first[at];
        p->first[at] = (int32_t)j;
    }
}

enum { PUT_BLOCK = 512 };

VECTOR static void
add_f32(int64_t n, const float *x, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

VECTOR static void
add_f64(int64_t n, const double *x, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

/* Adds n elements of src, starting at element `from`, to `sum`. */
static void
add_source(const struct put *p, int64_t from, int64_t n, double *sum)
{
    const char *x = (const char *)p->src->data + from * (int64_t)dtype_bytes(p->src->dtype);
    double workspace[PUT_BLOCK];
    if (p->src->dtype == DT_F32) {
        add_f32(n, (const float *)x, sum);
        return;
    }
    block_load(COMP_F64, p->src->dtype, x, 1, n, workspace);
    add_f64(n, workspace, sum);
}

/* Writes one entry of the result. If there is no base, copies a single source instead of adding it to zeros. */
static void
put_entry(const struct put *p, int64_t outer, int64_t e)
{
    double sum[PUT_BLOCK];
    int64_t bytes = (int64_t)dtype_bytes(p->out->dtype), inner = p->l.inner, first = p->first[e];
    int64_t at = (outer * p->l.size + e) * inner;
    char *to = (char *)p->out->data + at * bytes;
    if (!p->base && p->next[first] < 0) {
        copy_entry(p->out->dtype, to, p->src, (outer * p->nid + first) * inner, inner);
        return;
    }
    for (int64_t i = 0; i < inner; i += PUT_BLOCK) {
        int64_t n = MIN(inner - i, PUT_BLOCK);
        if (p->base)
            block_load(COMP_F64, p->base->dtype, (const char *)p->base->data + (at + i) * bytes, 1, n, sum);
        else
            memset(sum, 0, sizeof sum);
        for (int32_t j = p->first[e]; j >= 0; j = p->next[j]) add_source(p, (outer * p->nid + j) * inner + i, n, sum);
        block_store(COMP_F64, p->out->dtype, sum, n, to + i * bytes, 1);
    }
}

static void
put_range(void *arg, int64_t lo, int64_t hi)
{
    const struct put *p = arg;
    int64_t bytes = p->l.inner * (int64_t)dtype_bytes(p->out->dtype);
    for (int64_t k = lo; k < hi; k++) {
        if (p->first[k % p->l.size] >= 0)
            put_entry(p, k / p->l.size, k % p->l.size);
        else if (p->base && p->base->data != p->out->data)
            memcpy((char *)p->out->data + k * bytes, (const char *)p->base->data + k * bytes, (size_t)bytes);
        else if (!p->base)
            memset((char *)p->out->data + k * bytes, 0, (size_t)bytes);
    }
}

void
lookup_put_fast(const struct view *out, int axis, const struct view *ids, const struct view *src,
                const struct view *base, int threads, void *scratch)
{
    struct put p = {
        .out = out, .src = src, .base = base, .l = lines_of(out, axis), .nid = view_numel(ids), .first = scratch};
    p.next = p.first + p.l.size;
    put_lists(&p, axis, ids);
    team_run(threads, p.l.outer * p.l.size, MIN(1024, 1 + 65536 / MAX(p.l.inner, 1)), put_range, &p);
}

/* ---- callbacks for the records of operators that add at positions ---- */

void
lookup_allows_axis(const struct kcall *k, struct allowed *a)
{
    *a = (struct allowed){.operand = 1, .count = (uint64_t)k->in[0].global[axis_of(k->call)]};
}

int
lookup_put_rule(const struct call *c, struct str *rule)
{
    struct lookup_text t = lookup_text(&c->in[0], &c->in[1], axis_of(c));
    str_addf(rule, "%s,%s,%s->%s", t.x, t.ids, t.out, t.x);
    return 0;
}

void
lookup_allows(const struct kcall *k, struct allowed *a)
{
    *a = (struct allowed){.operand = 1, .count = (uint64_t)k->out[0].global[axis_of(k->call)]};
}

/* A gradient's node has no name that users know, so its messages name the forward operator. */
int
lookup_say_gradient(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"gradient of embedding or index_select", "id", "in an axis of ",
                                              " entries"};
    return lookup_say(k, 1, k->out[0].global[axis_of(k->call)], &words, f);
}

void
lookup_entry_dims(const struct call *c, bool *gone)
{
    for (int d = 0; d < c->in[0].ndim; d++) gone[d] = d != axis_of(c);
}

double
lookup_flops(const struct call *c)
{
    return (double)type_numel(&c->in[2]);
}

int
lookup_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    *scratch_bytes = lookup_scratch(&k->out[0], axis_of(k->call), &k->in[1]);
    return 0;
}
