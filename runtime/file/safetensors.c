/* safetensors.c - reads the header of a .safetensors file.
 *
 *   u64 length | JSON of that length | values, contiguous
 *
 * The JSON maps names to {"dtype", "shape", "data_offsets": [begin, end]}; offsets count from the start of the
 * values. It maps "__metadata__" to texts. The reader is strict: values must be contiguous and must not overlap,
 * and the last value must end with the file. The format is described at github.com/huggingface/safetensors. */
#include "runtime/base/error.h"
#include "runtime/file/codec/json.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/shards.h"
#include "runtime/file/tensors.h"

#include <stdlib.h>
#include <string.h>

/* All dtypes of the format. DT_NONE: Rille lacks the dtype, so its values are converted (coding.h); values of complex
 * and 6-bit numbers cannot be read. */
static const struct {
    const char *name;
    uint8_t dtype, bits;
} dtypes[] = {
    {"F32", DT_F32, 32},
    {"F64", DT_F64, 64},
    {"BF16", DT_BF16, 16},
    {"F16", DT_F16, 16},
    {"I64", DT_I64, 64},
    {"I32", DT_I32, 32},
    {"U8", DT_U8, 8},
    {"BOOL", DT_BOOL, 8},
    {"I8", DT_NONE, 8},
    {"I16", DT_NONE, 16},
    {"U16", DT_NONE, 16},
    {"U32", DT_NONE, 32},
    {"U64", DT_NONE, 64},
    {"C64", DT_NONE, 64},
    {"F8_E5M2", DT_NONE, 8},
    {"F8_E4M3", DT_NONE, 8},
    {"F8_E8M0", DT_NONE, 8},
    {"F8_E4M3FNUZ", DT_NONE, 8},
    {"F8_E5M2FNUZ", DT_NONE, 8},
    {"F6_E2M3", DT_NONE, 6},
    {"F6_E3M2", DT_NONE, 6},
    {"F4", DT_NONE, 4},
};

const char *
safetensors_dtype(enum dtype d)
{
    for (size_t i = 0; i < countof(dtypes); i++)
        if (dtypes[i].dtype == d) return dtypes[i].name;
    return NULL;
}

/* Fails because an entry is invalid. */
static int
safetensors_bad(const struct entry *e, const char *why)
{
    return fail(E_IO, "%s: '%.200s' %s", e->source->name, e->name, why);
}

static int
read_dtype(struct entry *e, const json_t *value, int64_t *bits)
{
    const char *text = json_string_value(value);
    if (!text) return safetensors_bad(e, "has no dtype");
    for (size_t i = 0; i < countof(dtypes); i++) {
        if (strcmp(dtypes[i].name, text)) continue;
        entry_set_dtype(e, dtypes[i].name, dtypes[i].dtype);
        *bits = dtypes[i].bits;
        return 0;
    }
    return fail(E_IO, "%s: '%.200s' has an unknown dtype '%.40s'", e->source->name, e->name, text);
}

/* Reads the shape of an entry. *bits: size of the value, bits. */
static int
read_shape(struct entry *e, const json_t *value, int64_t *bits)
{
    int64_t n = *bits;
    bool empty = false, large = false;
    if (!json_is_array(value)) return safetensors_bad(e, "has no shape");
    if (json_array_size(value) > MAX_DIM) return safetensors_bad(e, "has more than 8 axes");
    e->type.ndim = (uint8_t)json_array_size(value);
    for (int i = 0; i < e->type.ndim; i++) {
        const json_t *size = json_array_get(value, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return safetensors_bad(e, "has a shape that is not a list of sizes");
        e->type.dim[i] = json_integer_value(size);
        empty = empty || e->type.dim[i] == 0;
        large = large || __builtin_mul_overflow(n, MAX(e->type.dim[i], 1), &n) || n > INT64_C(1) << 62;
    }
    if (large) return safetensors_bad(e, "has a shape larger than 2^62 bits");
    if (n % 8 && !empty) return safetensors_bad(e, "does not end at a byte");
    *bits = empty ? 0 : n;
    return 0;
}

int
safetensors_type(struct entry *e, const json_t *dtype, const json_t *shape, int64_t *bits)
{
    TRY(read_dtype(e, dtype, bits));
    return read_shape(e, shape, bits);
}

/* Reads one entry of the header. *end: end of the value's bytes. Offsets stay relative to the start of the values. */
static int
read_tensor_entry(struct entry *e, const json_t *value, int64_t *end)
{
    const json_t *offsets = json_object_get(value, "data_offsets");
    int64_t bits = 0;
    if (!json_is_object(value) || json_object_size(value) != 3)
        return safetensors_bad(e, "must have dtype, shape and data_offsets and nothing else");
    TRY(safetensors_type(e, json_object_get(value, "dtype"), json_object_get(value, "shape"), &bits));
    const json_t *begin = json_array_get(offsets, 0), *stop = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(stop))
        return safetensors_bad(e, "has no data_offsets [begin, end]");
    e->offset = json_integer_value(begin);
    *end = json_integer_value(stop);
    if (e->offset < 0 || *end < e->offset) return safetensors_bad(e, "has data_offsets that end before they begin");
    if (*end - e->offset != bits / 8)
        return fail(E_IO, "%s: '%.200s' has %lld bytes by its shape, %lld by its data_offsets", e->source->name,
                    e->name, (long long)(bits / 8), (long long)(*end - e->offset));
    return 0;
}

static int
read_metadata(struct tensors *f, const struct source *s, json_t *map)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map)) return fail(E_IO, "%s: __metadata__ is not an object", s->name);
    json_object_foreach(map, key, value)
    {
        if (!json_is_string(value)) return fail(E_IO, "%s: __metadata__ '%.200s' is not a string", s->name, key);
        if (!strcmp(key, SHARDS_KEY))
            TRY(shards_read(f, s, json_string_value(value)));
        else
            tensors_tell(f, key, json_string_value(value));
    }
    return 0;
}

struct span {
    int64_t begin, end;
    const char *name;
};

static int
compare_entry_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Checks the sorted spans of values: each span must begin at the end of the previous span, and the last must end
 * with the file. */
static int
check_spans(const struct source *s, struct span *span, size_t n, int64_t size)
{
    int64_t at = 0;
    if (n) qsort(span, n, sizeof *span, compare_entry_begin);
    for (size_t i = 0; i < n; i++) {
        if (span[i].begin != at)
            return fail(
                E_IO, "%s: damaged: the values of '%.200s' begin at %lld, expected %lld, the end of the values before",
                s->name, span[i].name, (long long)span[i].begin, (long long)at);
        at = span[i].end;
    }
    if (at == size) return 0;
    return fail(E_IO, "%s: %s: the file must have %lld bytes of values, found %lld", s->name,
                size < at ? "truncated" : "damaged", (long long)at, (long long)size);
}

static int
read_tensors_head(struct tensors *f, const struct source *s, json_t *root, int64_t first)
{
    size_t n = 0;
    const char *name;
    json_t *value;
    int status = 0;
    struct span *span = must_alloc(sizeof *span * (json_object_size(root) + 1));
    json_object_foreach(root, name, value)
    {
        if (!strcmp(name, "__metadata__")) {
            if ((status = read_metadata(f, s, value))) break;
            continue;
        }
        struct entry *e = tensors_add(f, name, s);
        if ((status = read_tensor_entry(e, value, &span[n].end))) break;
        span[n].begin = e->offset;
        span[n++].name = name;
        e->offset += first;
    }
    if (!status) status = check_spans(s, span, n, s->size - first);
    free(span);
    return status;
}

static int
open_safetensors(struct tensors *f, struct source *s)
{
    uint64_t length = 0;
    json_t *root = NULL;
    if (s->size < 8)
        return fail(E_IO, "%s: not a .safetensors file: expected at least 8 bytes, found %lld", s->name,
                    (long long)s->size);
    TRY(source_read(s, 0, &length, sizeof length));
    if (length > SAFETENSORS_HEAD || (int64_t)length > s->size - 8)
        return fail(E_IO, "%s: not a .safetensors file, or truncated: the header has %llu bytes, the file %lld",
                    s->name, (unsigned long long)length, (long long)s->size);
    char *text = malloc((size_t)length + 1);
    if (!text)
        return fail(E_MEMORY, "%s: out of memory for a header of %llu bytes", s->name, (unsigned long long)length);
    int status = source_read(s, 8, text, (int64_t)length);
    if (!status && (length == 0 || text[0] != '{'))
        status = fail(E_IO, "%s: not a .safetensors file: its header does not begin with {", s->name);
    if (!status) status = json_text(s->name, text, (size_t)length, &root);
    free(text);
    if (status) return status;
    status = read_tensors_head(f, s, root, 8 + (int64_t)length);
    json_decref(root);
    return status;
}

const struct format format_safetensors = {.name = "safetensors", .ending = ".safetensors", .open = open_safetensors};
