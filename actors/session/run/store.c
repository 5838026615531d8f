/* store.c - buffers of a value's shards: allocates them, fills them from host memory, and reads a box of the value. */
#include "actors/session/run/store.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/session.h"

#include "boxing/reduce.h"

#include <stdlib.h>
#include <string.h>

bool
store_share_first(struct store *s, const struct layout *l, int pos)
{
    int first = layout_origin(l, pos);
    if (first == pos) return false;
    if (s->part[pos] == s->part[first]) return true;
    if (s->part[pos]) buffer_retire(&s->part[pos]);
    s->part[pos] = s->part[first];
    if (s->part[pos]) buffer_hold(s->part[pos]);
    return true;
}

int
store_make_by(struct rille_session *s, const struct type *t, const struct layout *l, bool shared, buffer_maker *make,
              struct store **out)
{
    const struct place *p = l->place;
    struct store *store = store_new(p->nrank);
    for (int pos = 0; pos < p->nrank; pos++) {
        if (shared && store_share_first(store, l, pos)) continue;
        struct type local = layout_shard(l, t, pos);
        int64_t bytes = type_bytes(&local);
        struct pool *pool;
        if (bytes == 0) continue;
        int status = session_pool(s, p->kind, p->rank[pos], &pool);
        if (!status) status = make(pool, (size_t)bytes, &store->part[pos]);
        if (!status) continue;
        store_drop(&store);
        return status;
    }
    *out = store;
    return 0;
}

int
store_make(struct rille_session *s, const struct type *t, const struct layout *l, struct store **out)
{
    return store_make_by(s, t, l, false, buffer_new_for_host, out);
}

/* Fills shard `pos` with its box of a global value. In a partial layout, the first rank gets the value, and all
 * others the reduction's identity. */
static int
fill_part(const struct view *whole, const struct layout *l, const struct type *t, int pos, void *data)
{
    struct type local = layout_shard(l, t, pos);
    struct box box;
    layout_box(l, t, pos, &box);
    struct view dst = view_dense(&local, data), src = *whole;
    int64_t skip = 0;
    if (layout_is_later_part(l, pos)) {
        box_fill(layout_partial(l), &dst);
        return 0;
    }
    for (int i = 0; i < src.ndim; i++) {
        skip += box.lo[i] * src.stride[i];
        src.dim[i] = local.dim[i];
    }
    src.data = (char *)whole->data + skip * (int64_t)dtype_bytes(t->dtype);
    view_copy(&dst, &src);
    return 0;
}

/* Fills the shard's buffer directly. If the host cannot write the device's memory, fills a host copy and writes that
 * to the device. */
static int
write_shard(const struct view *whole, const struct layout *l, const struct type *t, int pos, const struct buffer *b)
{
    if (buffer_host_reads(b)) {
        fill_part(whole, l, t, pos, b->data);
        return 0;
    }
    void *copy = must_alloc(b->bytes);
    fill_part(whole, l, t, pos, copy);
    int status = buffer_write(b, copy);
    free(copy);
    return status;
}

int
tensor_from_view(struct rille_session *s, const struct type *t, const struct layout *l, const struct view *whole,
                 struct rille_tensor **out)
{
    struct store *store = NULL;
    if (!(device_kind(l->place->kind)->flags & NO_BYTES)) {
        TRY(store_make(s, t, l, &store));
        int status = 0;
        for (int pos = 0; pos < l->place->nrank && !status; pos++)
            if (store->part[pos]) status = write_shard(whole, l, t, pos, store->part[pos]);
        if (status) {
            store_drop(&store);
            return status;
        }
    }
    *out = tensor_new(s, graph_leaf(s->graph, t, l, store), true);
    return 0;
}

/* Copies or adds the overlap of two boxes: `from` of a shard, stored at `data`, and `to`, stored densely at `out`.
 * t: type with the dtype that ranks store. */
static void
read_overlap(const struct type *t, const struct box *from, void *data, const struct box *to, void *out, enum reduce r,
             bool first)
{
    struct type local = *t, wanted = *t;
    struct view src, dst;
    int64_t bytes = (int64_t)dtype_bytes(t->dtype), skip_src = 0, skip_dst = 0;
    for (int i = 0; i < t->ndim; i++) {
        local.dim[i] = from->hi[i] - from->lo[i];
        wanted.dim[i] = to->hi[i] - to->lo[i];
    }
    src = view_dense(&local, data);
    dst = view_dense(&wanted, out);
    for (int i = 0; i < t->ndim; i++) {
        int64_t lo = MAX(from->lo[i], to->lo[i]), hi = MIN(from->hi[i], to->hi[i]);
        if (hi <= lo) return;
        src.dim[i] = dst.dim[i] = hi - lo;
        skip_src += (lo - from->lo[i]) * src.stride[i];
        skip_dst += (lo - to->lo[i]) * dst.stride[i];
    }
    src.data = (char *)src.data + skip_src * bytes;
    dst.data = (char *)dst.data + skip_dst * bytes;
    box_combine(r, first, &dst, &src);
}

/* Reads all shards and combines them in the dtype that ranks store. A shard with exactly the elements of `part` is
 * stored in the order of `out`. */
static int
read_held(struct val *v, const struct type *held, const struct box *part, void *out)
{
    const struct layout *l = v->layout;
    enum reduce reduce = layout_partial(l);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        if (layout_origin(l, pos) != pos || !v->store->part[pos]) continue;
        bool first = !layout_is_later_part(l, pos);
        struct box box;
        layout_box(l, &v->type, pos, &box);
        void *copy, *data;
        int status = buffer_on_host(v->store->part[pos], &data, &copy);
        if (!status && first && box_equal(&box, part, held->ndim))
            memcpy(out, data, (size_t)box_numel(part, held->ndim) * dtype_bytes((enum dtype)held->dtype));
        else if (!status)
            read_overlap(held, &box, data, part, out, first ? RED_NONE : reduce, first);
        free(copy);
        TRY(status);
    }
    return 0;
}

int
session_read(struct rille_session *s, struct val *v, const struct box *part, void *out)
{
    UNUSED(s);
    const struct layout *l = v->layout;
    struct type held = v->type, whole = v->type;
    if (device_kind(l->place->kind)->flags & NO_BYTES)
        return fail(E_PLACE, "a tensor on meta devices has a layout but no values, so it cannot be read");
    held.dtype = (uint8_t)layout_dtype(l, (enum dtype)held.dtype);
    if (held.dtype == whole.dtype) return read_held(v, &held, part, out);
    for (int d = 0; d < held.ndim; d++) held.dim[d] = whole.dim[d] = part->hi[d] - part->lo[d];
    void *sum = must_alloc((size_t)type_bytes(&held) + 1);
    int status = read_held(v, &held, part, sum);
    struct view dst = view_dense(&whole, out), src = view_dense(&held, sum);
    if (!status) view_copy(&dst, &src);
    free(sum);
    return status;
}
