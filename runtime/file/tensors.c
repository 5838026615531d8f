/* tensors.c - opens files of named tensors: chooses the format, finds entries, and reads boxes. */
#include "runtime/file/tensors.h"

#include "runtime/base/error.h"
#include "runtime/tensor/coding.h"
#include "runtime/file/folder.h"
#include "runtime/file/disk/pieces.h"
#include "runtime/file/quantised.h"
#include "runtime/file/shards.h"
#include "runtime/tensor/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct format *const formats[] = {&format_safetensors, &format_npy,   &format_npz,
                                               &format_gguf,        &format_torch, &format_llmc};

/* ---- opening a set of tensors ---- */

/* Returns true if the path has one of the endings, which are separated by spaces. */
static bool
ends_in_one(const char *path, const char *endings)
{
    size_t n = strlen(path);
    for (const char *e = endings; e && *e; e += strspn(e, " ")) {
        size_t m = strcspn(e, " ");
        if (n >= m && !memcmp(path + n - m, e, m)) return true;
        e += m;
    }
    return false;
}

static int
format_find(const char *path, const char *name, const struct format **out)
{
    for (size_t i = 0; i < countof(formats); i++) {
        const struct format *f = formats[i];
        if (name ? strcmp(name, f->name) : !ends_in_one(path, f->ending)) continue;
        *out = f;
        return 0;
    }
    return fail(E_IO,
                "%s: unknown format: the name must end in .safetensors, .npy, .npz, .gguf, .pt, .pth or .bin, or be a "
                "folder of .safetensors files",
                path);
}

static struct tensors *
tensors_new(const char *path)
{
    struct tensors *f = must_alloc(sizeof *f);
    f->path = arena_strdup(&f->arena, path);
    return f;
}

/* Finishes opening a set: sorts its entries or, after an error, closes it. */
static int
opened(struct tensors *f, int status, struct tensors **out)
{
    if (!status) status = tensors_seal(f);
    if (status) tensors_close(&f);
    *out = f;
    return status;
}

int
tensors_of(struct source *s, const struct format *format, struct tensors **out)
{
    struct tensors *f = tensors_new(s->name);
    f->format = format;
    return opened(f, format->open(f, tensors_add_source(f, s)), out);
}

int
tensors_open(const char *path, const char *name, struct tensors **out)
{
    const struct format *format = NULL;
    struct source *s;
    *out = NULL;
    if (!name && folder_is_set(path)) {
        struct tensors *f = tensors_new(path);
        return opened(f, folder_open(f, path), out);
    }
    TRY(format_find(path, name, &format));
    TRY(source_open(path, &s));
    return tensors_of(s, format, out);
}

void
tensors_close(struct tensors **fp)
{
    struct tensors *f = *fp;
    *fp = NULL;
    if (!f) return;
    for (int32_t i = 0; i < f->nsource; i++) source_close(&f->source[i]);
    free(f->source);
    free(f->entry);
    free(f->metadata);
    free(f->list);
    arena_fini(&f->arena);
    free(f);
}

struct source *
tensors_add_source(struct tensors *f, struct source *s)
{
    GROW(f->source, f->nsource + 1, f->source_capacity);
    return f->source[f->nsource++] = s;
}

struct entry *
tensors_add(struct tensors *f, const char *name, const struct source *s)
{
    GROW(f->entry, f->nentry + 1, f->entry_capacity);
    struct entry *e = &f->entry[f->nentry++];
    *e = (struct entry){.name = arena_strdup(&f->arena, name), .source = s};
    return e;
}

void
tensors_tell(struct tensors *f, const char *key, const char *value)
{
    GROW(f->metadata, f->nmetadata + 1, f->metadata_capacity);
    f->metadata[f->nmetadata++] = (struct metadata){arena_strdup(&f->arena, key), arena_strdup(&f->arena, value)};
}

static int
compare_tensor_names(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

int
tensors_seal(struct tensors *f)
{
    if (f->nentry) qsort(f->entry, (size_t)f->nentry, sizeof *f->entry, compare_tensor_names);
    for (int32_t i = 1; i < f->nentry; i++)
        if (!strcmp(f->entry[i - 1].name, f->entry[i].name))
            return fail(E_IO, "%s: the name '%s' occurs twice", f->path, f->entry[i].name);
    return 0;
}

int32_t
tensors_find(const struct tensors *f, const char *name)
{
    struct entry key = {.name = name}, *e = NULL;
    if (f->nentry) e = bsearch(&key, f->entry, (size_t)f->nentry, sizeof key, compare_tensor_names);
    return e ? (int32_t)(e - f->entry) : -1;
}

/* Writes the name of an entry for error texts: 'w'. In a format that holds a single tensor, the tensor has no
 * name. */
enum { TOLD = 256 };
static const char *
entry_told(const struct entry *e, char out[static TOLD])
{
    if (!e->name[0]) return "the tensor";
    snprintf(out, TOLD, "'%.200s'", e->name);
    return out;
}

int64_t
entry_bytes(const struct entry *e)
{
    const struct coding *c = e->coding;
    if (e->type.dtype == DT_NONE) return 0;
    return c ? (type_numel(&e->type) + c->elements - 1) / c->elements * c->bytes : type_bytes(&e->type);
}

void
entry_set_dtype(struct entry *e, const char *name, enum dtype dtype)
{
    e->foreign = name;
    e->coding = dtype == DT_NONE ? coding_find(name) : NULL;
    e->type.dtype = e->coding ? e->coding->dtype : (uint8_t)dtype;
}

int
entry_fits(const struct entry *e, int64_t end)
{
    char is[TOLD];
    if (type_check(&e->type))
        return fail(E_IO, "%s: the shape of %s is larger than 2^62", e->source->name, entry_told(e, is));
    int64_t n = entry_bytes(e);
    if (e->offset >= 0 && e->offset <= end && n <= end - e->offset) return 0;
    return fail(E_IO, "%s: %s has %lld bytes from position %lld on, beyond the end at %lld", e->source->name,
                entry_told(e, is), (long long)n, (long long)e->offset, (long long)end);
}

/* ---- reading boxes of tensors ---- */

int
entry_check(const struct tensors *f, const struct entry *e)
{
    char is[TOLD];
    if (e->type.dtype != DT_NONE) return 0;
    return fail(E_DTYPE, "%s: %s has dtype %s, which is not supported", f->path, entry_told(e, is), e->foreign);
}

/* SHORT: contiguous runs of fewer bytes are read through a window of WINDOW bytes of the file, so that reading a
 * column takes fewer system calls. CODED: number of elements that are decoded at once, a multiple of every block
 * size. */
enum { SHORT = 512, WINDOW = 1 << 16, PIECE = 1 << 20, CODED = 8192 };
struct window {
    int64_t first, end;
    uint8_t byte[WINDOW];
};

static int
read_run(const struct source *s, struct window *w, int64_t at, int64_t end, void *out, int64_t n)
{
    if (n >= SHORT) return source_read(s, at, out, n);
    if (at < w->first || at + n > w->end) {
        w->first = at;
        w->end = MIN(end, at + WINDOW);
        TRY(source_read(s, at, w->byte, w->end - at));
    }
    memcpy(out, w->byte + (at - w->first), (size_t)n);
    return 0;
}

/* Decodes the blocks that contain elements lo to hi - 1 (at most CODED elements), and copies these elements. */
static int
decode_some(const struct entry *e, int64_t lo, int64_t hi, char *out)
{
    const struct coding *c = e->coding;
    uint8_t bytes[CODED * sizeof(int64_t)];
    int64_t value[CODED], first = lo / c->elements, n = (hi - 1) / c->elements + 1 - first;
    size_t width = dtype_bytes(c->dtype);
    TRY(source_read(e->source, e->offset + first * c->bytes, bytes, n * c->bytes));
    if (!coding_decode(c, bytes, n, value))
        return fail(E_DTYPE, "%s: '%s' has a value of %s that %s cannot hold", e->source->name, e->name, c->name,
                    dtype_text(c->dtype));
    memcpy(out, (char *)value + (size_t)(lo - first * c->elements) * width, (size_t)(hi - lo) * width);
    return 0;
}

/* Reads elements lo to hi - 1 of a value that is stored in blocks (coding.h), and decodes them. */
static int
read_coded(const struct entry *e, int64_t lo, int64_t hi, char *out)
{
    int64_t width = (int64_t)dtype_bytes(e->coding->dtype);
    while (lo < hi) {
        int64_t end = MIN(hi, (lo / CODED + 1) * CODED);
        TRY(decode_some(e, lo, end, out));
        out += (end - lo) * width;
        lo = end;
    }
    return 0;
}

/* Reads a box of a row-major value of type t that begins at the entry's offset, one contiguous run after the other. */
static int
read_runs(const struct entry *e, const struct type *t, const struct box *b, char *out)
{
    int64_t stride[MAX_DIM], width = (int64_t)dtype_bytes(t->dtype), run = 1, at[MAX_DIM], from = 0, last = 0;
    int outer = t->ndim;
    struct window w = {0};
    if (box_numel(b, t->ndim) == 0) return 0;
    type_strides(t, stride);
    /* the box covers all axes after this axis completely, so the run includes this axis, too */
    while (outer > 0 && run == stride[outer - 1]) {
        outer--;
        run *= b->hi[outer] - b->lo[outer];
    }
    for (int i = 0; i < t->ndim; i++) {
        at[i] = b->lo[i];
        from += b->lo[i] * stride[i];
        last += (b->hi[i] - 1) * stride[i];
    }
    int64_t n = run * width, end = e->offset + (last + 1) * width;
    for (;; out += n) {
        TRY(e->coding ? read_coded(e, from, from + run, out)
                      : read_run(e->source, &w, e->offset + from * width, end, out, n));
        int i = outer - 1;
        for (; i >= 0; i--) {
            from += stride[i];
            if (++at[i] < b->hi[i]) break;
            from -= (b->hi[i] - b->lo[i]) * stride[i];
            at[i] = b->lo[i];
        }
        if (i < 0) return 0;
    }
}

/* Reads a box of a column-major value. Its transpose has the same bytes in row-major order, so the function reads
 * the transpose. */
static int
read_fortran(const struct entry *e, const struct box *b, void *out)
{
    struct type turned = e->type, local = e->type;
    struct box box;
    int n = e->type.ndim;
    for (int i = 0; i < n; i++) {
        turned.dim[i] = e->type.dim[n - 1 - i];
        box.lo[i] = b->lo[n - 1 - i];
        box.hi[i] = b->hi[n - 1 - i];
        local.dim[i] = b->hi[i] - b->lo[i];
    }
    void *data = malloc((size_t)MAX(type_bytes(&local), 1));
    if (!data) return fail(E_MEMORY, "%s: out of memory for %lld bytes", e->name, (long long)type_bytes(&local));
    int status = read_runs(e, &turned, &box, data);
    struct view to = view_dense(&local, out), from = to;
    int64_t stride = 1;
    for (int i = 0; i < n; i++) {
        from.stride[i] = stride;
        stride *= local.dim[i];
    }
    from.data = data;
    if (!status) view_copy(&to, &from);
    free(data);
    return status;
}

static void
swap_bytes(uint8_t *p, size_t width, int64_t n)
{
    for (; n > 0; n--, p += width)
        for (size_t i = 0; i < width / 2; i++) {
            uint8_t byte = p[i];
            p[i] = p[width - 1 - i];
            p[width - 1 - i] = byte;
        }
}

/* Copies the overlap of a shard and the box into the memory of the box. */
static int
read_shard_part(const struct tensors *f, const struct entry *e, const struct shard_part *p, const struct box *b,
                void *out)
{
    struct shard_copy *copy = NULL;
    int32_t n = 0, capacity = 0;
    int status = 0;
    shard_copies(&p->box, p->at, b, 0, e->type.ndim, dtype_bytes(e->type.dtype), &copy, &n, &capacity);
    for (int32_t i = 0; i < n; i++)
        for (int64_t row = 0; row < copy[i].nrow && !status; row++)
            status = source_read(f->source[p->file], copy[i].from + row * copy[i].from_stride,
                                 (char *)out + copy[i].to + row * copy[i].to_stride, copy[i].bytes);
    free(copy);
    return status;
}

static int
read_entry_parts(const struct tensors *f, const struct entry *e, const struct box *b, void *out)
{
    struct box both;
    int64_t left = box_numel(b, e->type.ndim);
    for (int32_t i = 0; i < e->npart; i++) {
        if (!box_intersect(&e->part[i].box, b, e->type.ndim, &both)) continue;
        left -= box_numel(&both, e->type.ndim);
        TRY(read_shard_part(f, e, &e->part[i], b, out));
    }
    return left ? fail(E_IO, "%s: '%s' has shards that overlap", f->path, e->name) : 0;
}

static int
read_own(struct tensors *f, const struct entry *e, const struct box *b, void *out)
{
    if (e->quantised) return e->quantised->read(f, e, b, out);
    int64_t n = box_numel(b, e->type.ndim);
    uint8_t *byte = out;
    if (e->npart)
        TRY(read_entry_parts(f, e, b, out));
    else
        TRY(e->fortran ? read_fortran(e, b, out) : read_runs(e, &e->type, b, out));
    if (e->swap) swap_bytes(byte, dtype_bytes(e->type.dtype), n);
    for (int64_t i = 0; e->type.dtype == DT_BOOL && i < n; i++) byte[i] = byte[i] != 0;
    return 0;
}

static int
read_as(struct tensors *f, const struct entry *e, const struct box *b, enum dtype dtype, char *out, void *scratch)
{
    struct pieces w = pieces_begin(b, e->type.ndim, PIECE / (int64_t)dtype_bytes(e->type.dtype));
    while (pieces_next(&w)) {
        int64_t n = box_numel(&w.piece, e->type.ndim);
        struct type from = type_of(e->type.dtype, 1, &n), to = type_of(dtype, 1, &n);
        struct view src = view_dense(&from, scratch), dst = view_dense(&to, out);
        TRY(read_own(f, e, &w.piece, scratch));
        view_copy(&dst, &src);
        out += n * (int64_t)dtype_bytes(dtype);
    }
    return 0;
}

int
entry_read(struct tensors *f, int32_t i, const struct box *b, enum dtype dtype, void *out)
{
    return entry_read_box(f, &f->entry[i], b, dtype, out);
}

int
entry_read_box(struct tensors *f, struct entry *e, const struct box *b, enum dtype dtype, void *out)
{
    TRY(entry_check(f, e));
    if (e->packed) TRY(f->format->unpack(f, e));
    if (dtype == DT_NONE || dtype == e->type.dtype) return read_own(f, e, b, out);
    void *scratch = must_alloc(PIECE);
    int status = read_as(f, e, b, dtype, out, scratch);
    free(scratch);
    return status;
}
