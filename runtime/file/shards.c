/* shards.c - reads and writes the manifest of sharded values, and lists the copies that assemble a box. */
#include "runtime/file/shards.h"

#include "runtime/base/error.h"
#include "runtime/file/codec/json.h"
#include "runtime/file/disk/store.h"
#include "runtime/file/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { DIGEST_TEXT = 16 };

/* ---- writing the manifest ---- */

static json_t *
file_json(const struct shard_file *f)
{
    struct str digests = {0};
    int64_t n = source_blocks(f->bytes);
    for (int64_t i = 0; i < n; i++) str_addf(&digests, "%016llx", (unsigned long long)f->digest[i]);
    json_t *out =
        json_pack("{s:s, s:I, s:s}", "name", f->name, "bytes", (json_int_t)f->bytes, "digests", str_text(&digests));
    str_free(&digests);
    return out;
}

static json_t *
value_json(const struct shard_value *v)
{
    json_t *parts = json_array();
    for (int32_t i = 0; i < v->npart; i++) {
        const struct shard_part *p = &v->part[i];
        json_array_append_new(parts, json_pack("{s:i, s:I, s:o, s:o}", "file", (int)p->file, "at", (json_int_t)p->at,
                                               "lo", json_numbers(p->box.lo, v->type.ndim), "hi",
                                               json_numbers(p->box.hi, v->type.ndim)));
    }
    return json_pack("{s:s, s:o, s:o}", "dtype", safetensors_dtype(v->type.dtype), "shape",
                     json_numbers(v->type.dim, v->type.ndim), "parts", parts);
}

int
shards_write(int nfile, const struct shard_file *file, int nvalue, const struct shard_value *value, struct str *out)
{
    json_t *files = json_array(), *values = json_object();
    int status = 0;
    for (int i = 0; i < nfile && !status; i++)
        if (json_array_append_new(files, file_json(&file[i])))
            status = fail(E_ARG, "the name '%s' is not UTF-8", file[i].name);
    for (int i = 0; i < nvalue && !status; i++)
        if (json_object_set_new(values, value[i].name, value_json(&value[i])))
            status = fail(E_ARG, "the name of a tensor is not UTF-8");
    json_t *root = json_pack("{s:o, s:o}", "files", files, "values", values);
    char *text = status ? NULL : json_dumps(root, JSON_COMPACT);
    if (text) str_add(out, text);
    free(text);
    json_decref(root);
    return status;
}

/* ---- reading the manifest ---- */

static int
manifest_bad(const struct source *s, const char *why)
{
    return fail(E_IO, "%s: %s: %s", s->name, SHARDS_KEY, why);
}

/* Returns the path of a shard file, which is in the folder of its manifest; NULL: the name has another ending, or
 * names a folder. */
static char *
path_beside(struct tensors *f, const struct source *manifest, const char *name)
{
    const char *slash = strrchr(manifest->name, '/');
    if (!name || name[0] == '.' || strchr(name, '/') || !text_ends(name, SHARD_ENDING)) return NULL;
    struct str path = {0};
    str_addn(&path, manifest->name, slash ? (size_t)(slash - manifest->name) + 1 : 0);
    str_add(&path, name);
    char *out = arena_strdup(&f->arena, path.text);
    str_free(&path);
    return out;
}

static bool
digests_read(const char *text, int64_t n, uint64_t *out)
{
    if (!text || strlen(text) != (size_t)n * DIGEST_TEXT || strspn(text, "0123456789abcdef") != strlen(text))
        return false;
    for (int64_t i = 0; i < n; i++) {
        char one[DIGEST_TEXT + 1] = "";
        memcpy(one, text + i * DIGEST_TEXT, DIGEST_TEXT);
        out[i] = strtoull(one, NULL, 16);
    }
    return true;
}

/* Opens a shard file, or, in an object store, checks the object's size without fetching it. */
static int
open_shard_file(const char *path, int64_t bytes, const struct str *listed, struct source **out)
{
    int64_t size = store_is_url(path) ? store_size(listed, strrchr(path, '/') + 1) : bytes;
    *out = NULL;
    if (size < 0) return fail(E_IO, "%s: damaged: the object is missing", path);
    if (store_is_url(path))
        *out = source_later(path, size);
    else
        TRY(source_open(path, out));
    size = (*out)->size;
    if (size == bytes) return 0;
    source_close(out);
    return fail(E_IO, "%s: damaged: it has %lld bytes, expected %lld", path, (long long)size, (long long)bytes);
}

/* Lists the objects beside a manifest; for a file, lists nothing. */
static int
list_beside(const struct source *manifest, struct str *listed)
{
    struct str folder = {0};
    if (!store_is_url(manifest->name)) return 0;
    str_addn(&folder, manifest->name, (size_t)(strrchr(manifest->name, '/') - manifest->name));
    int status = store_list(folder.text, listed);
    str_free(&folder);
    return status;
}

static int
read_manifest_file(struct tensors *f, const struct source *manifest, const json_t *file, const struct str *listed)
{
    const char *path = path_beside(f, manifest, json_string_value(json_object_get(file, "name")));
    const char *text = json_string_value(json_object_get(file, "digests"));
    int64_t bytes = json_integer_value(json_object_get(file, "bytes")), n = source_blocks(MAX(bytes, 0));
    struct source *s;
    if (!path) return manifest_bad(manifest, "a file's name is not that of a shard in this folder");
    if (bytes < 0 || !text || strlen(text) != (size_t)n * DIGEST_TEXT)
        return manifest_bad(manifest, "a file without checksums");
    TRY(open_shard_file(path, bytes, listed, &s));
    tensors_add_source(f, s);
    uint64_t *digest = ARENA_ARRAY(&f->arena, uint64_t, n + 1);
    if (!digests_read(text, n, digest)) return manifest_bad(manifest, "a file whose checksums are not numbers");
    source_expect(s, 0, n, digest);
    return 0;
}

static bool
numbers_read(const json_t *list, int n, int64_t *out)
{
    if (!json_is_array(list) || json_array_size(list) != (size_t)n) return false;
    for (int i = 0; i < n; i++) out[i] = json_integer_value(json_array_get(list, (size_t)i));
    return true;
}

/* Reads the description of a shard: a box of the value, completely within its file. Returns false if it is invalid. */
static bool
part_read(const struct tensors *f, int32_t first, const struct type *t, const json_t *json, struct shard_part *out)
{
    bool good = numbers_read(json_object_get(json, "lo"), t->ndim, out->box.lo) &&
                numbers_read(json_object_get(json, "hi"), t->ndim, out->box.hi);
    int64_t file = json_integer_value(json_object_get(json, "file")), bytes = (int64_t)dtype_bytes(t->dtype);
    out->at = json_integer_value(json_object_get(json, "at"));
    for (int i = 0; good && i < t->ndim; i++) {
        good = out->box.lo[i] >= 0 && out->box.lo[i] <= out->box.hi[i] && out->box.hi[i] <= t->dim[i];
        /* the product is at most the value's size, so it does not overflow */
        bytes *= out->box.hi[i] - out->box.lo[i];
    }
    if (!good || file < 0 || file >= f->nsource - first || out->at < 0) return false;
    out->file = first + (int32_t)file;
    int64_t size = f->source[out->file]->size;
    return out->at <= size && bytes <= size - out->at;
}

static int
read_shard_value(struct tensors *f, int32_t first, const struct source *manifest, const char *name, const json_t *value)
{
    struct entry *e = tensors_add(f, name, manifest);
    int64_t bits, n = 0;
    const json_t *dtype = json_object_get(value, "dtype");
    TRY(safetensors_type(e, dtype, json_object_get(value, "shape"), &bits));
    const json_t *parts = json_object_get(value, "parts");
    if (e->type.dtype == DT_NONE || e->coding || type_check(&e->type))
        return fail(E_IO, "%s: %s: the value '%.200s' must have a valid shape and a dtype of Rille, found dtype %.32s",
                    manifest->name, SHARDS_KEY, name, json_string_value(dtype));
    e->npart = (int32_t)json_array_size(parts);
    struct shard_part *part = ARENA_ARRAY(&f->arena, struct shard_part, e->npart + 1);
    e->part = part;
    for (int32_t i = 0; i < e->npart; i++) {
        if (!part_read(f, first, &e->type, json_array_get(parts, (size_t)i), &part[i]))
            return manifest_bad(manifest, "a shard that is not a block of its value and its file");
        n += box_numel(&part[i].box, e->type.ndim);
    }
    return n == type_numel(&e->type) ? 0 : manifest_bad(manifest, "a value whose shards do not match its layout");
}

int
shards_read(struct tensors *f, const struct source *manifest, const char *text)
{
    json_t *root;
    const char *name;
    json_t *value;
    TRY(json_text(manifest->name, text, strlen(text), &root));
    const json_t *files = json_object_get(root, "files");
    int32_t first = f->nsource;
    struct str listed = {0};
    int status = list_beside(manifest, &listed);
    for (size_t i = 0; i < json_array_size(files) && !status; i++)
        status = read_manifest_file(f, manifest, json_array_get(files, i), &listed);
    str_free(&listed);
    json_object_foreach(json_object_get(root, "values"), name, value) if (!status) status =
        read_shard_value(f, first, manifest, name, value);
    json_decref(root);
    return status;
}

/* ---- listing the copies from a file to a box in memory ---- */

struct axis { /* an axis of the intersection of two boxes */
    int64_t n, from_stride, to_stride;
};

/* Returns the number of leading axes that must be iterated. *run: number of elements that are contiguous in both
 * boxes, on the remaining axes. */
static int
run_length(const struct box *file, const struct box *memory, const struct box *both, int ndim, int64_t *run)
{
    int outer = ndim;
    bool whole = true;
    *run = 1;
    while (outer > 0 && whole) {
        int i = --outer;
        int64_t n = both->hi[i] - both->lo[i];
        *run *= n;
        whole = n == file->hi[i] - file->lo[i] && n == memory->hi[i] - memory->lo[i];
    }
    return outer;
}

void
shard_copies(const struct box *file, int64_t from, const struct box *memory, int64_t to, int ndim, size_t width,
             struct shard_copy **list, int32_t *count, int32_t *capacity)
{
    struct box both;
    struct axis axis[MAX_DIM];
    int64_t w = (int64_t)width, from_stride = w, to_stride = w, run, at[MAX_DIM] = {0};
    if (!box_intersect(file, memory, ndim, &both)) return;
    for (int i = ndim - 1; i >= 0; i--) {
        axis[i] = (struct axis){both.hi[i] - both.lo[i], from_stride, to_stride};
        from += (both.lo[i] - file->lo[i]) * from_stride;
        to += (both.lo[i] - memory->lo[i]) * to_stride;
        from_stride *= file->hi[i] - file->lo[i];
        to_stride *= memory->hi[i] - memory->lo[i];
    }
    int outer = run_length(file, memory, &both, ndim, &run);
    struct axis row = outer ? axis[--outer] : (struct axis){.n = 1};
    for (int i = 0; i >= 0;) { /* iterates over the leading axes */
        int64_t f = from, t = to;
        for (int k = 0; k < outer; k++) {
            f += at[k] * axis[k].from_stride;
            t += at[k] * axis[k].to_stride;
        }
        GROW(*list, *count + 1, *capacity);
        (*list)[(*count)++] = (struct shard_copy){f, t, run * w, row.n, row.from_stride, row.to_stride};
        for (i = outer - 1; i >= 0 && ++at[i] == axis[i].n; i--) at[i] = 0;
    }
}
