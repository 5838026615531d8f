/* gguf.c - reads GGUF files, versions 2 and 3: a head with named values, then tensors.
 *
 *   "GGUF" u32 version, u64 ntensor, u64 nvalue
 *   nvalue times:  key, u32 type, value        texts are u64 length and bytes
 *   ntensor times: name, u32 ndim, u64 sizes (last axis first), u32 type, u64 offset
 *   padding to the alignment; tensors, each at its offset
 *
 * Blocks of quantised types are decoded to f32 (coding.h). A tensor of a type that Rille does not decode can be
 * listed, but not read. ggml's docs/gguf.md describes the format. */
#include "runtime/file/gguf.h"

#include "runtime/base/error.h"
#include "runtime/tensor/coding.h"
#include "runtime/file/tensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 65535, MAX_TEXT = 1 << 16, MAX_NEST = 4, ALIGNMENT = 32 };

/* ---- finding the dtype of a tensor ---- */

/* Types of tensors, by number in the file. dtype DT_NONE: values are decoded (coding.h) or, without a decoder, can
 * only be listed. name NULL: the format does not use the number, or the type is newer than this table. */
static const struct {
    const char *name;
    uint8_t dtype;
} types[] = {
    [0] = {"F32", DT_F32},    [1] = {"F16", DT_F16},  [2] = {"Q4_0", 0},      [3] = {"Q4_1", 0},
    [6] = {"Q5_0", 0},        [7] = {"Q5_1", 0},      [8] = {"Q8_0", 0},      [9] = {"Q8_1", 0},
    [10] = {"Q2_K", 0},       [11] = {"Q3_K", 0},     [12] = {"Q4_K", 0},     [13] = {"Q5_K", 0},
    [14] = {"Q6_K", 0},       [15] = {"Q8_K", 0},     [16] = {"IQ2_XXS", 0},  [17] = {"IQ2_XS", 0},
    [18] = {"IQ3_XXS", 0},    [19] = {"IQ1_S", 0},    [20] = {"IQ4_NL", 0},   [21] = {"IQ3_S", 0},
    [22] = {"IQ2_S", 0},      [23] = {"IQ4_XS", 0},   [24] = {"I8", 0},       [25] = {"I16", 0},
    [26] = {"I32", DT_I32},   [27] = {"I64", DT_I64}, [28] = {"F64", DT_F64}, [29] = {"IQ1_M", 0},
    [30] = {"BF16", DT_BF16}, [34] = {"TQ1_0", 0},    [35] = {"TQ2_0", 0},    [39] = {"MXFP4", 0},
    [40] = {"NVFP4", 0},      [41] = {"Q1_0", 0},
};

/* Sets the dtype of an entry whose shape is known. A tensor whose type is newer than the table can be listed, but
 * not read. */
static int
gguf_set_type(struct tensors *f, struct entry *e, uint32_t type)
{
    struct str number = {0};
    const char *name = type < countof(types) ? types[type].name : NULL;
    if (!name) {
        str_addf(&number, "GGUF type %u", type);
        name = arena_strdup(&f->arena, str_text(&number));
        str_free(&number);
    }
    entry_set_dtype(e, name, type < countof(types) ? types[type].dtype : DT_NONE);
    int64_t row = e->type.ndim ? e->type.dim[e->type.ndim - 1] : 1;
    if (!e->coding || row % e->coding->elements == 0) return 0;
    return fail(E_IO, "%s: '%s' has rows of %lld elements, expected a multiple of %d, the block of %s", e->source->name,
                e->name, (long long)row, e->coding->elements, name);
}

/* ---- reading named values ---- */

enum { VALUE_BOOL = 7, VALUE_TEXT, VALUE_LIST };
static const struct {
    uint8_t bytes; /* bytes of a value; 0: a text or a list */
    char kind;     /* format to print the value: u: unsigned, i: signed, f: float, b: bool */
} values[] = {{1, 'u'}, {1, 'i'}, {2, 'u'}, {2, 'i'}, {4, 'u'}, {4, 'i'}, {4, 'f'},
              {1, 'b'}, {0, 0},   {0, 0},   {8, 'u'}, {8, 'i'}, {8, 'f'}};

__attribute__((format(printf, 2, 3))) static int
gguf_malformed(const struct cursor *c, const char *fmt, ...)
{
    char why[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return fail(E_IO, "%s: not a GGUF file: %s", c->source->name, why);
}

/* Reads a text of at most `most` bytes. out: room for most + 1 bytes. Fails if the text is longer. */
static int
take_text(struct cursor *c, char *out, uint64_t most)
{
    uint64_t n;
    TRY(cursor_u64(c, &n));
    if (n > most)
        return gguf_malformed(c, "a name must have at most %llu bytes, found %llu", (unsigned long long)most,
                              (unsigned long long)n);
    TRY(cursor_take(c, out, (int64_t)n));
    out[n] = '\0';
    return strlen(out) == n ? 0 : gguf_malformed(c, "a name has a zero byte");
}

static int
skip_text(struct cursor *c)
{
    uint64_t n;
    TRY(cursor_u64(c, &n));
    if (n > (uint64_t)INT64_MAX)
        return gguf_malformed(c, "a string has %llu bytes, more than the file", (unsigned long long)n);
    return cursor_skip(c, (int64_t)n);
}

static int skip_values(struct cursor *c, uint32_t type, uint64_t n, int depth);

/* Reads the type and the number of a list's values. */
static int
gguf_list_head(struct cursor *c, uint32_t *type, uint64_t *n)
{
    TRY(cursor_u32(c, type));
    TRY(cursor_u64(c, n));
    if (*type >= countof(values))
        return gguf_malformed(c, "a list has values of the unknown type %u; expected 0 to 12", *type);
    return *n > (uint64_t)c->source->size
               ? gguf_malformed(c, "a list has %llu values, more than the file has bytes", (unsigned long long)*n)
               : 0;
}

static int
skip_list(struct cursor *c, int depth)
{
    uint32_t type;
    uint64_t n;
    TRY(gguf_list_head(c, &type, &n));
    return depth == MAX_NEST ? gguf_malformed(c, "lists must be nested at most %d deep", MAX_NEST)
                             : skip_values(c, type, n, depth);
}

static int
skip_values(struct cursor *c, uint32_t type, uint64_t n, int depth)
{
    if (values[type].bytes) return cursor_skip(c, (int64_t)n * values[type].bytes);
    for (uint64_t i = 0; i < n; i++) TRY(type == VALUE_TEXT ? skip_text(c) : skip_list(c, depth + 1));
    return 0;
}

/* Records where a list is stored, and skips it. */
static int
gguf_take_list(struct tensors *f, struct cursor *c, const char *key)
{
    struct metadata_list list = {.source = c->source};
    uint64_t n;
    TRY(gguf_list_head(c, &list.type, &n));
    list.at = c->at;
    list.n = (int64_t)n;
    TRY(skip_values(c, list.type, n, 0));
    list.key = arena_strdup(&f->arena, key);
    GROW(f->list, f->nlist + 1, f->list_capacity);
    f->list[f->nlist++] = list;
    return 0;
}

static void
gguf_number_text(const uint8_t *bytes, int n, char kind, struct str *out)
{
    uint64_t u = 0;
    memcpy(&u, bytes, (size_t)n);
    int shift = 64 - 8 * n;
    float f;
    double d;
    switch (kind) {
    case 'u': str_addf(out, "%llu", (unsigned long long)u); break;
    case 'i': str_addf(out, "%lld", (long long)((int64_t)(u << shift) >> shift)); break;
    case 'b': str_add(out, u ? "true" : "false"); break;
    default:
        memcpy(&f, bytes, sizeof f);
        memcpy(&d, bytes, sizeof d);
        str_addf(out, "%.17g", n == 4 ? (double)f : d);
    }
}

/* Reads one named value. Numbers and short texts become metadata; lists are recorded, and long texts
 * skipped. */
static int
gguf_take_value(struct tensors *f, struct cursor *c, char *scratch, int64_t *alignment)
{
    char key[MAX_KEY + 1];
    uint32_t type;
    uint8_t number[8] = {0};
    struct str text = {0};
    TRY(take_text(c, key, MAX_KEY));
    TRY(cursor_u32(c, &type));
    if (type >= countof(values)) return gguf_malformed(c, "a value has the unknown type %u; expected 0 to 12", type);
    if (type == VALUE_LIST) return gguf_take_list(f, c, key);
    if (type == VALUE_TEXT) {
        uint64_t n;
        TRY(cursor_u64(c, &n));
        if (n > MAX_TEXT)
            return n > (uint64_t)INT64_MAX
                       ? gguf_malformed(c, "a string has %llu bytes, more than the file", (unsigned long long)n)
                       : cursor_skip(c, (int64_t)n);
        TRY(cursor_take(c, scratch, (int64_t)n));
        scratch[n] = '\0';
        tensors_tell(f, key, scratch);
        return 0;
    }
    TRY(cursor_take(c, number, values[type].bytes));
    gguf_number_text(number, values[type].bytes, values[type].kind, &text);
    tensors_tell(f, key, str_text(&text));
    if (!strcmp(key, "general.alignment")) *alignment = strtoll(str_text(&text), NULL, 10);
    str_free(&text);
    return 0;
}

/* Reads a value of a list, and passes it to visit. scratch: buffer for a text. */
static int
visit_list_value(struct cursor *c, uint32_t type, char *scratch, gguf_visit *visit, void *arg)
{
    struct str text = {0};
    uint8_t number[8] = {0};
    uint64_t n;
    if (type == VALUE_TEXT) {
        TRY(cursor_u64(c, &n));
        if (n > MAX_TEXT)
            return gguf_malformed(c, "a string of a list must have at most %d bytes, found %llu", MAX_TEXT,
                                  (unsigned long long)n);
        TRY(cursor_take(c, scratch, (int64_t)n));
        visit(arg, scratch, (size_t)n, false);
        return 0;
    }
    TRY(cursor_take(c, number, values[type].bytes));
    gguf_number_text(number, values[type].bytes, values[type].kind, &text);
    visit(arg, str_text(&text), text.len, true);
    str_free(&text);
    return 0;
}

int
gguf_list(const struct tensors *f, const char *key, gguf_visit *visit, void *arg)
{
    const struct metadata_list *list = NULL;
    struct cursor c;
    for (int32_t i = 0; i < f->nlist; i++)
        if (!strcmp(f->list[i].key, key)) list = &f->list[i];
    if (!list) return fail(E_ARG, "%s: its metadata has no list '%s'", f->path, key);
    cursor_init(&c, list->source, "a GGUF file");
    if (list->type == VALUE_LIST)
        return fail(E_ARG, "%s: the list '%s' holds lists; expected a list of numbers or strings", f->path, key);
    char *scratch = must_alloc(MAX_TEXT + 1);
    int status = cursor_skip(&c, list->at);
    for (int64_t i = 0; i < list->n && !status; i++) status = visit_list_value(&c, list->type, scratch, visit, arg);
    free(scratch);
    return status;
}

/* ---- reading the list of tensors ---- */

static int
gguf_take_tensor(struct tensors *f, struct cursor *c, char *scratch)
{
    uint32_t ndim, type;
    uint64_t size, offset;
    TRY(take_text(c, scratch, MAX_TEXT));
    TRY(cursor_u32(c, &ndim));
    if (ndim > MAX_DIM)
        return fail(E_IO, "%s: not a GGUF file: tensor '%.200s' must have at most %d dimensions, found %u",
                    c->source->name, scratch, MAX_DIM, ndim);
    struct entry *e = tensors_add(f, scratch, c->source);
    e->type.ndim = (uint8_t)ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        TRY(cursor_u64(c, &size));
        if (size > (uint64_t)INT64_MAX)
            return gguf_malformed(c, "dimension %u of '%.200s' must be below 2^63, found %llu", i, scratch,
                                  (unsigned long long)size);
        e->type.dim[ndim - 1 - i] = (int64_t)size;
    }
    TRY(cursor_u32(c, &type));
    TRY(cursor_u64(c, &offset));
    TRY(gguf_set_type(f, e, type));
    if (offset > (uint64_t)c->source->size)
        return gguf_malformed(c, "'%.200s' begins at byte %llu of the data, beyond the end of the file", scratch,
                              (unsigned long long)offset);
    e->offset = (int64_t)offset;
    return 0;
}

static int
by_offset(const void *x, const void *y)
{
    const struct entry *a = *(const struct entry *const *)x, *b = *(const struct entry *const *)y;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a > b) - (a < b);
}

/* Returns the least number of bytes that a tensor can have in the file. If Rille lacks the dtype, the size is
 * unknown: returns 1, or 0 for an empty shape. */
static int64_t
least_bytes(const struct entry *e)
{
    return e->type.dtype != DT_NONE ? entry_bytes(e) : type_numel(&e->type) > 0;
}

/* Checks that no two tensors of a file overlap. (No known program writes overlapping tensors.) from: the file's
 * first entry. */
static int
lie_apart(const struct tensors *f, int32_t from)
{
    int32_t n = f->nentry - from;
    const struct entry **order = must_alloc(sizeof *order * (size_t)(n + 1)), *last = NULL;
    int status = 0;
    for (int32_t i = 0; i < n; i++) order[i] = &f->entry[from + i];
    if (n) qsort(order, (size_t)n, sizeof *order, by_offset);
    for (int32_t i = 0; i < n && !status; i++) {
        if (least_bytes(order[i]) == 0) continue;
        if (last && order[i]->offset - last->offset < least_bytes(last))
            status = fail(E_IO, "%s: '%s' at %lld overlaps '%s', which has at least %lld bytes from %lld on",
                          order[i]->source->name, order[i]->name, (long long)order[i]->offset, last->name,
                          (long long)least_bytes(last), (long long)last->offset);
        last = order[i];
    }
    free(order);
    return status;
}

/* Converts offsets to positions in the file, and checks that the tensors fit into the file. If Rille lacks the
 * dtype of a tensor, checks only the tensor's shape. from: the file's first entry. */
static int
place_tensors(struct tensors *f, const struct cursor *c, int32_t from, int64_t alignment)
{
    int64_t first = (c->at + alignment - 1) / alignment * alignment;
    for (int32_t i = from; i < f->nentry; i++) {
        struct entry *e = &f->entry[i];
        if (e->offset % alignment)
            return fail(E_IO, "%s: '%s' is at offset %lld, expected a multiple of general.alignment, %lld",
                        c->source->name, e->name, (long long)e->offset, (long long)alignment);
        e->offset += first;
        TRY(entry_fits(e, c->source->size));
    }
    return lie_apart(f, from);
}

static int
take_all(struct tensors *f, struct cursor *c, char *scratch)
{
    char magic[4];
    uint32_t version;
    uint64_t ntensor, nvalue;
    int64_t alignment = ALIGNMENT;
    int32_t from = f->nentry;
    TRY(cursor_take(c, magic, sizeof magic));
    if (memcmp(magic, "GGUF", sizeof magic)) return gguf_malformed(c, "it does not begin with GGUF");
    TRY(cursor_u32(c, &version));
    if (version && !(version & 0xffffff))
        return fail(E_IO, "%s: a big-endian GGUF file, expected a little-endian one", c->source->name);
    if (version < 2 || version > 3) return fail(E_IO, "%s: GGUF version %u, expected 2 or 3", c->source->name, version);
    TRY(cursor_u64(c, &ntensor));
    TRY(cursor_u64(c, &nvalue));
    for (uint64_t i = 0; i < nvalue; i++) TRY(gguf_take_value(f, c, scratch, &alignment));
    if (alignment < 8 || alignment > 1 << 20 || alignment % 8)
        return gguf_malformed(c, "general.alignment must be a multiple of 8 from 8 to 1048576, found %lld",
                              (long long)alignment);
    for (uint64_t i = 0; i < ntensor; i++) TRY(gguf_take_tensor(f, c, scratch));
    return place_tensors(f, c, from, alignment);
}

static int
gguf_read_file(struct tensors *f, const struct source *s)
{
    struct cursor c;
    char *scratch = must_alloc(MAX_TEXT + 1);
    cursor_init(&c, s, "a GGUF file");
    int status = take_all(f, &c, scratch);
    free(scratch);
    return status;
}

/* Opens the other files of a model that is split over files: NAME-00001-of-00003.gguf, NAME-00002-of-00003.gguf,
 * ... Metadata of the other files is ignored, because it only counts files and tensors. */
static int
gguf_read_others(struct tensors *f, const struct source *first)
{
    static const char part[] = "-00001-of-";
    size_t n = strlen(first->name), tail = strlen("00003.gguf");
    char *name = arena_strdup(&f->arena, first->name),
         *at = n > tail + strlen(part) ? name + n - tail - strlen(part) : "";
    if (strncmp(at, part, strlen(part))) return 0;
    int32_t count = (int32_t)strtol(at + strlen(part), NULL, 10), nmetadata = f->nmetadata, nlist = f->nlist;
    for (int32_t i = 2; i <= count; i++) {
        struct source *s;
        char digits[8];
        snprintf(digits, sizeof digits, "-%05d-", (int)i % 100000);
        memcpy(at, digits, strlen(digits));
        TRY(source_open(name, &s));
        TRY(gguf_read_file(f, tensors_add_source(f, s)));
        f->nmetadata = nmetadata;
        f->nlist = nlist;
    }
    return 0;
}

static int
open_gguf(struct tensors *f, struct source *s)
{
    TRY(gguf_read_file(f, s));
    return gguf_read_others(f, s);
}

const struct format format_gguf = {.name = "gguf", .ending = ".gguf", .open = open_gguf};
