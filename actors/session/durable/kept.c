/* kept.c - writes descriptions of snapshots for the next controller, and reads the snapshots of an earlier one. */
#include "actors/session/durable/kept.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/run/store.h"

#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/keep.h"
#include "runtime/data/arena.h"
#include "runtime/file/codec/json.h"
#include "runtime/file/disk/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- describing a snapshot ---- */

struct describing {
    struct rille_session *s;
    struct kept_ranges *ranges; /* by memory */
};

/* Adds the place of a buffer to the list of a shard's places. A buffer that replicas share is listed once. */
static int
add_shard_place(struct describing *d, const struct buffer *b, int kind, int32_t device, json_t *places)
{
    uint64_t at;
    int memory = cluster_memory_of(d->s->cluster, kind, device);
    TRY(cluster_position(d->s->cluster, kind, device, b->data, &at));
    json_t *place = json_pack("[iI]", memory, (json_int_t)at);
    for (size_t i = 0; i < json_array_size(places); i++)
        if (json_equal(json_array_get(places, i), place)) {
            json_decref(place);
            return 0;
        }
    struct kept_ranges *r = &d->ranges[memory];
    GROW(r->range, r->n + 1, r->capacity);
    r->range[r->n++] = (struct kept_range){at, b->bytes};
    json_array_append_new(places, place);
    return 0;
}

/* Lists the places of all replicas of the shard at mesh position `origin`, and of their copies on other hosts. */
static int
list_places(struct describing *d, const struct copy *c, int origin, json_t *places)
{
    const struct place *p = c->layout->place;
    for (int pos = 0; pos < p->nrank; pos++) {
        const struct buffer *b = c->store->part[pos], *spare = c->spare ? c->spare->part[pos] : NULL;
        if (layout_origin(c->layout, pos) != origin) continue;
        if (b) TRY(add_shard_place(d, b, p->kind, p->rank[pos], places));
        if (spare) TRY(add_shard_place(d, spare, p->kind, buffer_device(spare), places));
    }
    return 0;
}

static int
describe_part(struct describing *d, const struct copy *c, int pos, json_t *parts)
{
    struct box box;
    struct str digests = {0};
    const uint64_t *digest = copy_digests(c, pos);
    json_t *places = json_array();
    layout_box(c->layout, &c->type, pos, &box);
    for (int64_t i = 0; i < source_blocks((int64_t)c->store->part[pos]->bytes); i++)
        str_addf(&digests, "%016llx", digest ? (unsigned long long)digest[i] : 0ull);
    json_array_append_new(parts,
                          json_pack("{s:o, s:o, s:s, s:o}", "lo", json_numbers(box.lo, c->type.ndim), "hi",
                                    json_numbers(box.hi, c->type.ndim), "digests", str_text(&digests), "at", places));
    str_free(&digests);
    return list_places(d, c, pos, places);
}

static int
describe_value(struct describing *d, const char *name, const struct copy *c, json_t *values)
{
    json_t *parts = json_array();
    json_t *value = json_pack("{s:s, s:o, s:o}", "dtype", dtype_text((enum dtype)c->type.dtype), "shape",
                              json_numbers(c->type.dim, c->type.ndim), "parts", parts);
    if (json_object_set_new(values, name, value)) return fail(E_ARG, "snapshot: the name of a tensor must be UTF-8");
    for (int pos = 0; pos < c->layout->place->nrank; pos++)
        if (layout_origin(c->layout, pos) == pos && c->store->part[pos]) TRY(describe_part(d, c, pos, parts));
    return 0;
}

static int
describe(struct describing *d, const struct kept_state *state, struct str *out)
{
    json_t *values = json_object(), *root = json_pack("{s:s, s:o}", "state", state->text, "values", values);
    int status = root ? 0 : fail(E_ARG, "snapshot: the text of a state must be UTF-8");
    for (int32_t i = 0; i < state->n && !status; i++)
        status = describe_value(d, state->name[i], state->copy[i], values);
    char *text = status ? NULL : json_dumps(root, JSON_COMPACT);
    if (text) str_add(out, text);
    free(text);
    json_decref(root);
    return status;
}

int
kept_store(struct rille_session *s, const struct kept_state *state)
{
    int n = cluster_memories(s->cluster);
    struct describing d = {s, must_alloc(sizeof *d.ranges * (size_t)(n + 1))};
    struct str text = {0};
    int status = describe(&d, state, &text);
    if (!status) status = cluster_keep(s->cluster, ++s->snapshots.nstored, d.ranges, &text);
    if (!status) status = cluster_kept_drop(s->cluster);
    for (int m = 0; m < n; m++) free(d.ranges[m].range);
    free(d.ranges);
    str_free(&text);
    return status;
}

void
kept_state_free(struct kept_state **kp)
{
    struct kept_state *k = *kp;
    *kp = NULL;
    if (!k) return;
    arena_fini(&k->arena);
    free(k);
}

bool
rille_keeps_state(struct rille_session *s)
{
    return !face_session(s, __func__) && s->cluster && cluster_keeps(s->cluster);
}

/* ---- reading a snapshot of an earlier controller ---- */

struct kept_description {
    json_t *root;
    struct str text;
};

void
kept_free(struct kept_description **kp)
{
    struct kept_description *k = *kp;
    *kp = NULL;
    if (!k) return;
    json_decref(k->root);
    str_free(&k->text);
    free(k);
}

int
rille_kept_state(struct rille_session *s, const char **text, bool *took_over)
{
    uint64_t number = 0;
    TRY(face_session(s, __func__));
    TRY(face_given(text, "text", __func__));
    TRY(face_given(took_over, "took_over", __func__));
    *text = NULL;
    *took_over = s->cluster && cluster_took_over(s->cluster);
    kept_free(&s->snapshots.kept);
    struct kept_description *k = must_alloc(sizeof *k);
    int status = s->cluster ? cluster_kept(s->cluster, &number, &k->text) : 0;
    if (!status && number) status = json_text("the kept snapshot", str_text(&k->text), k->text.len, &k->root);
    s->snapshots.kept = k;
    if (!status && number) *text = str_text(&k->text);
    s->snapshots.nstored = MAX(s->snapshots.nstored, number);
    return status;
}

static bool
read_integers(const json_t *list, int n, int64_t *out)
{
    if (json_array_size(list) != (size_t)n) return false;
    for (int i = 0; i < n; i++) out[i] = json_integer_value(json_array_get(list, (size_t)i));
    return true;
}

static bool
read_type(const json_t *value, struct type *out)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    const json_t *shape = json_object_get(value, "shape");
    *out = (struct type){.dtype = (uint8_t)dtype_parse(dtype ? dtype : ""),
                         .ndim = (uint8_t)MIN(json_array_size(shape), MAX_DIM)};
    return read_integers(shape, out->ndim, out->dim) && out->dtype != DT_NONE && !type_check(out);
}

static bool
read_box(const json_t *part, const struct type *t, struct box *out)
{
    bool good = read_integers(json_object_get(part, "lo"), t->ndim, out->lo) &&
                read_integers(json_object_get(part, "hi"), t->ndim, out->hi);
    for (int i = 0; i < t->ndim && good; i++)
        good = out->lo[i] >= 0 && out->lo[i] <= out->hi[i] && out->hi[i] <= t->dim[i];
    return good;
}

/* Returns true if the bytes have these digests, 16 hexadecimal digits for each block of 1 MiB. */
static bool
has_digests(const char *bytes, size_t n, const char *digests)
{
    char text[17];
    if (!digests || strlen(digests) != 16 * (size_t)source_blocks((int64_t)n)) return false;
    for (size_t at = 0; at < n; at += SOURCE_BLOCK, digests += 16) {
        snprintf(text, sizeof text, "%016llx",
                 (unsigned long long)source_digest(bytes + at, MIN(n - at, (size_t)SOURCE_BLOCK)));
        if (memcmp(text, digests, 16)) return false;
    }
    return true;
}

/* Reads the bytes of a shard from the first place whose bytes have the right digests. */
static int
read_places(struct rille_session *s, const json_t *part, const char *name, char *out, size_t n)
{
    const json_t *places = json_object_get(part, "at");
    const char *digests = json_string_value(json_object_get(part, "digests"));
    bool damaged = false;
    for (size_t i = 0; i < json_array_size(places); i++) {
        int64_t at[2];
        if (!read_integers(json_array_get(places, i), 2, at)) continue;
        int status = cluster_kept_read(s->cluster, (int)at[0], (uint64_t)at[1], out, n);
        if (!status && has_digests(out, n, digests)) return 0;
        damaged |= !status;
        err_clear();
    }
    return fail(E_IO, "the kept snapshot is damaged: a shard of '%s' %s", name,
                damaged ? "has changed" : "was on a host that is lost");
}

static int
read_kept_part(struct rille_session *s, const json_t *part, const char *name, const struct type *t, char *whole)
{
    struct box box;
    struct type local = *t;
    struct view to = view_dense(t, whole);
    bool rows = true; /* the shard's bytes are contiguous in the value */
    if (!read_box(part, t, &box)) return fail(E_IO, "the kept snapshot is damaged: a shard of '%s' is invalid", name);
    for (int i = 0; i < t->ndim; i++) {
        to.data = (char *)to.data + box.lo[i] * to.stride[i] * (int64_t)dtype_bytes((enum dtype)t->dtype);
        to.dim[i] = local.dim[i] = box.hi[i] - box.lo[i];
        rows &= i == 0 || local.dim[i] == t->dim[i];
    }
    size_t n = (size_t)type_bytes(&local);
    if (rows) return read_places(s, part, name, to.data, n);
    char *bytes = must_alloc(n + 1);
    int status = read_places(s, part, name, bytes, n);
    struct view from = view_dense(&local, bytes);
    if (!status) view_copy(&to, &from);
    free(bytes);
    return status;
}

int
rille_kept_tensor(struct rille_session *s, const char *name, const struct rille_layout *l, struct rille_tensor **out)
{
    struct type t;
    TRY(face_session(s, __func__));
    TRY(face_given(name, "name", __func__));
    TRY(face_layout(s, l, __func__));
    TRY(face_given(out, "out", __func__));
    const json_t *value =
        s->snapshots.kept ? json_object_get(json_object_get(s->snapshots.kept->root, "values"), name) : NULL;
    if (!value || !read_type(value, &t)) return fail(E_IO, "the kept snapshot has no value '%s'", name);
    const json_t *parts = json_object_get(value, "parts");
    char *whole = must_alloc((size_t)type_bytes(&t) + 1);
    int status = layout_fits((const struct layout *)l, &t);
    for (size_t i = 0; i < json_array_size(parts) && !status; i++)
        status = read_kept_part(s, json_array_get(parts, i), name, &t, whole);
    struct view all = view_dense(&t, whole);
    if (!status) status = tensor_from_view(s, &t, (const struct layout *)l, &all, out);
    free(whole);
    return status;
}
