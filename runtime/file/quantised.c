/* quantised.c - reads the weights of low-bit checkpoints: FP8 with scales, MXFP4, GPTQ, AWQ, bitsandbytes. */
#include "runtime/file/quantised.h"

#include "runtime/base/error.h"
#include "runtime/file/codec/json.h"
#include "runtime/tensor/coding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads a box of a part (one of the tensors that make up a weight) into new memory, which the caller frees. */
static int
read_part(struct tensors *f, struct entry *part, const struct box *b, enum dtype dtype, void *out)
{
    void **data = out;
    int64_t n = box_numel(b, part->type.ndim);
    *data = malloc((size_t)n * dtype_bytes(dtype) + 1);
    if (!*data) return fail(E_MEMORY, "%s: out of memory for %lld elements of '%s'", f->path, (long long)n, part->name);
    return entry_read_box(f, part, b, dtype, *data);
}

static int
does_not_match(const struct entry *part, const struct entry *weight)
{
    struct str a = {0}, b = {0};
    shape_print(&part->type, &a);
    shape_print(&weight->type, &b);
    int status = fail(E_IO, "%s: '%s' has shape %s, which does not fit '%s' of shape %s", part->source->name,
                      part->name, str_text(&a), weight->name, str_text(&b));
    str_free(&a);
    str_free(&b);
    return status;
}

/* ---- scaling numbers that have a scale for each block ---- */

enum { NUMBERS, SCALE };

/* Multiplies the numbers of box b by the scales of box s, both dense. */
static void
scale_rows(const struct quantised *q, int ndim, const struct box *b, const struct box *s, const float *scale,
           float *out)
{
    int64_t at[MAX_DIM], last = ndim - 1, stride[MAX_DIM], n = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        at[i] = b->lo[i];
        stride[i] = n;
        n *= s->hi[i] - s->lo[i];
    }
    for (int i = 0; i >= 0;) {
        const float *row = scale;
        for (int k = 0; k < last; k++) row += (at[k] / q->block[k] - s->lo[k]) * stride[k];
        for (int64_t c = b->lo[last]; c < b->hi[last]; c++) *out++ *= row[c / q->block[last] - s->lo[last]];
        for (i = (int)last - 1; i >= 0 && ++at[i] == b->hi[i]; i--) at[i] = b->lo[i];
    }
}

static int
scaled_read(struct tensors *f, const struct entry *e, const struct box *b, float *out)
{
    const struct quantised *q = e->quantised;
    struct box s = {0};
    float *scale = NULL;
    int ndim = e->type.ndim;
    if (box_numel(b, ndim) == 0) return 0;
    for (int i = 0; i < ndim; i++) {
        s.lo[i] = b->lo[i] / q->block[i];
        s.hi[i] = (b->hi[i] - 1) / q->block[i] + 1;
    }
    TRY(entry_read_box(f, q->part[NUMBERS], b, DT_F32, out));
    int status = read_part(f, q->part[SCALE], &s, DT_F32, &scale);
    if (!status) scale_rows(q, ndim, b, &s, scale, out);
    free(scale);
    return status;
}

/* Derives the sizes of the blocks that share a scale from the shapes of weight and scales. */
static int
scaled_blocks(const struct quantisation *how, const struct entry *e, struct quantised *q)
{
    const struct type *w = &e->type, *s = &q->part[SCALE]->type;
    bool one = type_numel(s) == 1;
    if (w->ndim == 0 || (!one && s->ndim != w->ndim)) return does_not_match(q->part[SCALE], e);
    for (int i = 0; i < w->ndim; i++) {
        int64_t n = MAX(w->dim[i], 1), block = i == w->ndim - 1 ? how->columns : i == w->ndim - 2 ? how->rows : 0;
        q->block[i] = one || s->dim[i] == 1 ? n : s->dim[i] == n ? 1 : block;
        if (!one && (q->block[i] <= 0 || (n - 1) / q->block[i] + 1 != s->dim[i]))
            return does_not_match(q->part[SCALE], e);
    }
    q->part[SCALE]->type.ndim = w->ndim; /* a scale for the whole weight may have fewer axes than the weight */
    for (int i = 0; one && i < w->ndim; i++) q->part[SCALE]->type.dim[i] = 1;
    return 0;
}

/* ---- decoding MXFP4 weights ---- */

/* Decodes box b of an MXFP4 weight. The weight is (experts, inputs, outputs), but its numbers are stored as
 * (experts, outputs, inputs / 32, 16 bytes). g0, ng: first group of 32 inputs that `numbers` and `scales` hold, and
 * number of these groups. */
static void
mxfp4_box(const struct box *b, int64_t g0, int64_t ng, const uint8_t *numbers, const uint8_t *scales, float *out)
{
    int64_t no = b->hi[2] - b->lo[2], ni = b->hi[1] - b->lo[1];
    for (int64_t row = 0; row < (b->hi[0] - b->lo[0]) * no; row++)
        for (int64_t i = b->lo[1]; i < b->hi[1]; i++) {
            int64_t group = row * ng + i / 32 - g0;
            uint32_t bits = numbers[group * 16 + i % 32 / 2] >> (i % 2 * 4) & 15u;
            float *to = out + (row / no * ni + i - b->lo[1]) * no + row % no;
            *to = scales[group] == 0xff ? NAN : ldexpf(coding_small(bits, 2, 1, 1), scales[group] - 127);
        }
}

static int
mxfp4_read(struct tensors *f, const struct entry *e, const struct box *b, float *out)
{
    const struct quantised *q = e->quantised;
    uint8_t *numbers = NULL, *scales = NULL;
    if (box_numel(b, 3) == 0) return 0;
    struct box n = {.lo = {b->lo[0], b->lo[2], b->lo[1] / 32, 0},
                    .hi = {b->hi[0], b->hi[2], (b->hi[1] - 1) / 32 + 1, 16}};
    int status = read_part(f, q->part[NUMBERS], &n, DT_U8, &numbers);
    if (!status) status = read_part(f, q->part[SCALE], &n, DT_U8, &scales);
    if (!status) mxfp4_box(b, n.lo[2], n.hi[2] - n.lo[2], numbers, scales, out);
    free(numbers);
    free(scales);
    return status;
}

static int
mxfp4_make(const struct entry *numbers, const struct entry *scales, struct entry *e)
{
    const struct type *n = &numbers->type, *s = &scales->type;
    bool fits = n->ndim == 4 && s->ndim == 3 && n->dim[3] == 16 && n->dtype == DT_U8 && s->dtype == DT_U8;
    for (int i = 0; fits && i < 3; i++) fits = n->dim[i] == s->dim[i];
    if (!fits) return does_not_match(scales, numbers);
    e->type = type_of(DT_F32, 3, (const int64_t[]){n->dim[0], n->dim[2] * 32, n->dim[1]});
    return 0;
}

/* ---- decoding GPTQ and AWQ: each 32-bit word has 32 / bits numbers ---- */

enum { WORDS, SCALES, ZEROS, GROUPS };

struct words { /* tensors of the file that hold a box of a weight (outputs, inputs) */
    uint32_t *word, *zero;
    float *scale;
    int32_t *group;  /* group of each input; NULL: input i is in group i / q->group */
    int64_t columns; /* number of 32-bit words per row of `word` */
    /* nzero: number of 32-bit words per row of `zero`; first_zero: index of the first of these words in a row of the
     * file */
    int64_t nzero, first_zero;
};

static uint32_t
number_of(const struct quantised *q, uint32_t word, int64_t place)
{
    return word >> (q->bits * place) & ((1u << q->bits) - 1);
}

/* Returns the position of output o among the numbers of its word. AWQ stores the even outputs before the odd ones. */
static int64_t
place_of_output(const struct quantised *q, int64_t o)
{
    static const uint8_t awq[] = {0, 4, 1, 5, 2, 6, 3, 7};
    int64_t per = 32 / q->bits;
    return q->method[0] == 'g' ? o % per : awq[o % per];
}

static void
words_box(const struct quantised *q, const struct box *b, const struct words *w, float *out)
{
    bool gptq = q->method[0] == 'g';
    int64_t per = 32 / q->bits, no = b->hi[0] - b->lo[0], mask = (1 << q->bits) - 1;
    for (int64_t o = b->lo[0]; o < b->hi[0]; o++)
        for (int64_t i = b->lo[1]; i < b->hi[1]; i++) {
            int64_t row = gptq ? i / per - b->lo[1] / per : i - b->lo[1],
                    place = gptq ? i % per : place_of_output(q, o);
            int64_t column = gptq ? o - b->lo[0] : o / per - b->lo[0] / per;
            int64_t g = w->group ? w->group[i - b->lo[1]] : i / q->group;
            int64_t number = number_of(q, w->word[row * w->columns + column], place);
            int64_t zero = number_of(q, w->zero[g * w->nzero + o / per - w->first_zero], place_of_output(q, o));
            if (q->minus_one) zero = (zero + 1) & mask;
            *out++ = w->scale[g * no + o - b->lo[0]] * (float)(number - zero);
        }
}

static int
words_parts(struct tensors *f, const struct quantised *q, const struct box *b, struct words *w)
{
    bool gptq = q->method[0] == 'g';
    int64_t per = 32 / q->bits, ngroup = q->part[SCALES]->type.dim[0];
    struct box outputs = {.lo = {0, b->lo[0]}, .hi = {ngroup, b->hi[0]}};
    struct box zeros = {.lo = {0, b->lo[0] / per}, .hi = {ngroup, (b->hi[0] - 1) / per + 1}};
    struct box words = {.lo = {b->lo[1], zeros.lo[1]}, .hi = {b->hi[1], zeros.hi[1]}};
    if (gptq) words = (struct box){.lo = {b->lo[1] / per, b->lo[0]}, .hi = {(b->hi[1] - 1) / per + 1, b->hi[0]}};
    struct box inputs = {.lo = {b->lo[1]}, .hi = {b->hi[1]}};
    w->columns = words.hi[1] - words.lo[1];
    w->nzero = zeros.hi[1] - zeros.lo[1];
    w->first_zero = zeros.lo[1];
    TRY(read_part(f, q->part[WORDS], &words, DT_I32, &w->word));
    TRY(read_part(f, q->part[SCALES], &outputs, DT_F32, &w->scale));
    TRY(read_part(f, q->part[ZEROS], &zeros, DT_I32, &w->zero));
    if (!q->part[GROUPS]) return 0;
    TRY(read_part(f, q->part[GROUPS], &inputs, DT_I32, &w->group));
    for (int64_t i = 0; i < b->hi[1] - b->lo[1]; i++)
        if (w->group[i] < 0 || w->group[i] >= ngroup)
            return fail(E_IO, "%s: '%s' has group %d, but there are %lld groups", f->path, q->part[GROUPS]->name,
                        (int)w->group[i], (long long)ngroup);
    return 0;
}

static int
words_read(struct tensors *f, const struct entry *e, const struct box *b, float *out)
{
    struct words w = {0};
    if (box_numel(b, 2) == 0) return 0;
    int status = words_parts(f, e->quantised, b, &w);
    if (!status) words_box(e->quantised, b, &w, out);
    free(w.word);
    free(w.zero);
    free(w.scale);
    free(w.group);
    return status;
}

static bool
is_part_matrix(const struct entry *e, bool integer, int64_t rows, int64_t columns)
{
    return e->type.ndim == 2 && (e->type.dtype == DT_I32) == integer && (integer || dtype_is_float(e->type.dtype)) &&
           e->type.dim[0] == rows && e->type.dim[1] == columns;
}

/* Derives the type and the groups of a weight from the shapes of its parts. */
static int
words_make(const struct quantisation *how, struct quantised *q, struct entry *e)
{
    const struct entry *word = q->part[WORDS];
    const struct type *w = &word->type;
    bool gptq = q->method[0] == 'g';
    int64_t per = 32 / how->bits;
    if (w->ndim != 2 || w->dtype != DT_I32 || w->dim[0] >= INT64_MAX / 32 || w->dim[1] >= INT64_MAX / 32)
        return does_not_match(word, word);
    int64_t in = w->dim[0] * (gptq ? per : 1), out = w->dim[1] * (gptq ? 1 : per);
    e->type = type_of(DT_F32, 2, (const int64_t[]){out, in});
    q->group = how->group > 0 ? how->group : MAX(in, 1);
    int64_t ngroup = (in + q->group - 1) / q->group;
    if (out % per || !is_part_matrix(q->part[SCALES], false, ngroup, out)) return does_not_match(q->part[SCALES], e);
    if (!is_part_matrix(q->part[ZEROS], true, ngroup, out / per)) return does_not_match(q->part[ZEROS], e);
    const struct entry *g = q->part[GROUPS];
    if (g && (g->type.ndim != 1 || g->type.dtype != DT_I32 || g->type.dim[0] != in)) return does_not_match(g, e);
    return 0;
}

/* ---- decoding bitsandbytes, 4 bits: each byte has two indices into a table of 16 values ---- */

enum { BYTES, ABSMAX, TABLE, STATE_NF4, STATE_FP4, OUTER_ABSMAX, OUTER_TABLE };

/* Reads the scales of blocks lo to hi - 1 into new memory, which the caller frees. */
static int
absmax_read(struct tensors *f, const struct quantised *q, int64_t lo, int64_t hi, float **scale)
{
    struct box inner = {.lo = {lo}, .hi = {hi}}, all = {.hi = {256}};
    if (!q->nested) return read_part(f, q->part[ABSMAX], &inner, DT_F32, scale);
    struct box outer = {.lo = {lo / q->nested}, .hi = {(hi - 1) / q->nested + 1}};
    uint8_t *index = NULL;
    float *table = NULL, *absmax = NULL;
    int status = read_part(f, q->part[ABSMAX], &inner, DT_U8, &index);
    if (!status) status = read_part(f, q->part[OUTER_TABLE], &all, DT_F32, &table);
    if (!status) status = read_part(f, q->part[OUTER_ABSMAX], &outer, DT_F32, &absmax);
    if (!status) *scale = must_alloc(sizeof **scale * (size_t)(hi - lo));
    for (int64_t i = lo; i < hi && !status; i++)
        (*scale)[i - lo] = table[index[i - lo]] * absmax[i / q->nested - outer.lo[0]] + q->offset;
    free(index);
    free(table);
    free(absmax);
    return status;
}

static int
bnb4_read(struct tensors *f, const struct entry *e, const struct box *b, float *out)
{
    const struct quantised *q = e->quantised;
    if (box_numel(b, 2) == 0) return 0;
    int64_t columns = e->type.dim[1], first = b->lo[0] * columns + b->lo[1],
            last = (b->hi[0] - 1) * columns + b->hi[1] - 1;
    struct box bytes = {.lo = {first / 2}, .hi = {last / 2 + 1, 1}}, all = {.hi = {16}};
    uint8_t *byte = NULL;
    float *table = NULL, *scale = NULL;
    int status = read_part(f, q->part[BYTES], &bytes, DT_U8, &byte);
    if (!status) status = read_part(f, q->part[TABLE], &all, DT_F32, &table);
    if (!status) status = absmax_read(f, q, first / q->group, last / q->group + 1, &scale);
    for (int64_t r = b->lo[0]; r < b->hi[0] && !status; r++)
        for (int64_t i = r * columns + b->lo[1]; i < r * columns + b->hi[1]; i++) {
            uint8_t two = byte[i / 2 - first / 2];
            *out++ = table[i % 2 ? two & 15 : two >> 4] * scale[i / q->group - first / q->group];
        }
    free(byte);
    free(table);
    free(scale);
    return status;
}

/* Takes shape, sizes of blocks and offset from the JSON object of a weight's state. Returns false if a field is
 * missing or wrong. */
static bool
bnb4_take_state(json_t *root, struct quantised *q, struct entry *e)
{
    json_t *shape = json_object_get(root, "shape");
    int64_t rows = json_integer_value(json_array_get(shape, 0)), columns = json_integer_value(json_array_get(shape, 1));
    q->group = json_integer_value(json_object_get(root, "blocksize"));
    q->offset = (float)json_number_value(json_object_get(root, "nested_offset"));
    q->nested = json_integer_value(json_object_get(root, "nested_blocksize"));
    if (json_array_size(shape) != 2 || rows <= 0 || columns <= 0 || rows > INT32_MAX || columns > INT32_MAX)
        return false;
    e->type = type_of(DT_F32, 2, (const int64_t[]){rows, columns});
    return q->group > 0 && (q->part[OUTER_ABSMAX] ? q->nested > 0 : q->nested == 0);
}

static int
bnb4_read_state(struct tensors *f, struct quantised *q, struct entry *e)
{
    struct entry *state = q->part[STATE_NF4] ? q->part[STATE_NF4] : q->part[STATE_FP4];
    if (!state) return fail(E_IO, "%s: '%s' has no .quant_state.bitsandbytes__nf4 beside it", f->path, e->name);
    if (state->type.ndim != 1 || state->type.dtype != DT_U8 || state->type.dim[0] > 1 << 16)
        return does_not_match(state, e);
    char *text = NULL;
    json_t *root = NULL;
    struct box all = {.hi = {state->type.dim[0]}};
    int status = read_part(f, state, &all, DT_U8, &text);
    if (!status) status = json_text(f->path, text, (size_t)state->type.dim[0], &root);
    if (!status && !bnb4_take_state(root, q, e))
        status = fail(E_IO, "%s: '%s' must have shape, blocksize and, with nested scales, nested_blocksize", f->path,
                      state->name);
    json_decref(root);
    free(text);
    return status;
}

static bool
is_part_list(const struct entry *e, enum dtype dtype, int64_t n)
{
    return e && e->type.ndim == 1 && e->type.dtype == dtype && e->type.dim[0] == n;
}

/* Derives the type of a weight from its state, and checks the shapes of its parts. */
static int
bnb4_make(struct tensors *f, struct quantised *q, struct entry *e)
{
    TRY(bnb4_read_state(f, q, e));
    const struct type *bytes = &q->part[BYTES]->type;
    int64_t n = e->type.dim[0] * e->type.dim[1], nblock = (n - 1) / q->group + 1;
    if (bytes->ndim != 2 || bytes->dtype != DT_U8 || bytes->dim[0] != (n + 1) / 2 || bytes->dim[1] != 1)
        return does_not_match(q->part[BYTES], e);
    if (!is_part_list(q->part[ABSMAX], q->nested ? DT_U8 : DT_F32, nblock)) return does_not_match(q->part[ABSMAX], e);
    if (!is_part_list(q->part[TABLE], DT_F32, 16)) return does_not_match(q->part[TABLE], e);
    if (!q->nested) return 0;
    if (!is_part_list(q->part[OUTER_ABSMAX], DT_F32, (nblock - 1) / q->nested + 1))
        return does_not_match(q->part[OUTER_ABSMAX], e);
    return is_part_list(q->part[OUTER_TABLE], DT_F32, 256) ? 0 : does_not_match(q->part[OUTER_ABSMAX], e);
}

/* ---- decoding bitsandbytes, 8 bits: a row's greatest magnitude is stored as 127, with a scale ---- */

static int
bnb8_read(struct tensors *f, const struct entry *e, const struct box *b, float *out)
{
    const struct quantised *q = e->quantised;
    struct box rows = {.lo = {b->lo[0]}, .hi = {b->hi[0]}};
    float *scale = NULL;
    int64_t columns = b->hi[1] - b->lo[1];
    if (box_numel(b, 2) == 0) return 0;
    TRY(entry_read_box(f, q->part[NUMBERS], b, DT_F32, out));
    int status = read_part(f, q->part[SCALE], &rows, DT_F32, &scale);
    for (int64_t i = 0; i < (rows.hi[0] - rows.lo[0]) * columns && !status; i++)
        out[i] = (float)((double)out[i] * (double)scale[i / columns] / 127);
    free(scale);
    return status;
}

/* ---- finding the tensors of a weight ---- */

/* For each method, the endings of the names of the tensors that make up a weight. A tensor with the first ending
 * shows that the weight exists. */
static const struct layout_of_parts {
    const char *method;
    const char *ending[QUANTISED_PARTS];
    const char *weight; /* ending of the name that the weight gets */
    int npart;          /* number of tensors without which the weight is incomplete */
} layouts[] = {
    {"scaled", {".weight", ".weight_scale"}, ".weight", 2},
    {"scaled", {".weight", ".weight_scale_inv"}, ".weight", 2},
    {"mxfp4", {"_blocks", "_scales"}, "", 2},
    {"gptq", {".qweight", ".scales", ".qzeros", ".g_idx"}, ".weight", 3},
    {"awq", {".qweight", ".scales", ".qzeros"}, ".weight", 3},
    {"bnb4",
     {".weight", ".weight.absmax", ".weight.quant_map", ".weight.quant_state.bitsandbytes__nf4",
      ".weight.quant_state.bitsandbytes__fp4", ".weight.nested_absmax", ".weight.nested_quant_map"},
     ".weight",
     3},
    {"bnb8", {".weight", ".SCB"}, ".weight", 2},
};

/* Endings of the names of tensors that are ignored: tensors for quantised activations, which Rille does not
 * support, and tensors for the order of bytes on a GPU. */
static const char *const unused[] = {".input_scale", ".output_scale", ".k_scale", ".v_scale", ".weight_format"};

struct weights { /* the entries that tensors_dequantise() makes of quantised weights */
    struct tensors *f;
    const struct quantisation *how;
    bool *used; /* by entry of the file: true if the entry is part of a weight */
    struct entry *made;
    int32_t nmade, capacity;
};

/* Finds the parts of a weight: tensors whose names begin with the first n bytes of `name`. Returns the number of
 * parts. */
static int
find_parts(struct weights *w, const struct layout_of_parts *l, const char *name, size_t n, int32_t *part)
{
    int found = 0;
    for (int k = 0; k < QUANTISED_PARTS && l->ending[k]; k++) {
        struct str full = {0};
        str_addn(&full, name, n);
        str_add(&full, l->ending[k]);
        part[k] = tensors_find(w->f, str_text(&full));
        found += k < l->npart && part[k] >= 0;
        str_free(&full);
    }
    return found;
}

static int
make_weight(struct weights *w, const struct layout_of_parts *l, const char *name, size_t n, const int32_t *part)
{
    struct arena *a = &w->f->arena;
    struct quantised *q = ARENA_NEW(a, struct quantised);
    struct str full = {0};
    *q = (struct quantised){.method = l->method, .bits = w->how->bits, .minus_one = w->how->minus_one};
    for (int k = 0; k < QUANTISED_PARTS; k++)
        if (part[k] >= 0) {
            q->part[k] = arena_dup(a, &w->f->entry[part[k]], sizeof(struct entry));
            w->used[part[k]] = true;
        }
    str_addn(&full, name, n);
    str_add(&full, l->weight);
    struct entry e = {.name = arena_strdup(a, str_text(&full)), .source = q->part[0]->source, .foreign = l->method};
    str_free(&full);
    e.quantised = q;
    e.type = q->part[0]->type;
    e.type.dtype = DT_F32;
    int status;
    if (!strcmp(l->method, "scaled")) {
        q->read = scaled_read;
        status = scaled_blocks(w->how, &e, q);
    } else if (!strcmp(l->method, "mxfp4")) {
        q->read = mxfp4_read;
        status = mxfp4_make(q->part[NUMBERS], q->part[SCALE], &e);
    } else if (!strcmp(l->method, "bnb4")) {
        q->read = bnb4_read;
        status = bnb4_make(w->f, q, &e);
    } else if (!strcmp(l->method, "bnb8")) {
        q->read = bnb8_read;
        status = e.type.ndim == 2 && is_part_list(q->part[SCALE], DT_F32, e.type.dim[0])
                     ? 0
                     : does_not_match(q->part[SCALE], &e);
    } else {
        q->read = words_read;
        status = words_make(w->how, q, &e);
    }
    GROW(w->made, w->nmade + 1, w->capacity);
    w->made[w->nmade++] = e;
    return status;
}

static int
make_weights_of(struct weights *w, const struct layout_of_parts *l)
{
    for (int32_t i = 0; i < w->f->nentry; i++) {
        const char *name = w->f->entry[i].name;
        int32_t part[QUANTISED_PARTS] = {-1, -1, -1, -1, -1, -1, -1};
        if (!text_ends(name, l->ending[0])) continue;
        size_t n = strlen(name) - strlen(l->ending[0]);
        int found = find_parts(w, l, name, n, part);
        if (found == 1 && !strcmp(l->ending[0], ".weight")) continue; /* no scales: the weight is not quantised */
        if (found < l->npart)
            return fail(E_IO, "%s: '%s' has no %s beside it", w->f->path, name, l->ending[part[1] < 0 ? 1 : 2]);
        TRY(make_weight(w, l, name, n, part));
    }
    return 0;
}

/* Replaces the parts by the weights. */
static int
replace_parts(struct weights *w)
{
    struct tensors *f = w->f;
    int32_t n = 0;
    for (int32_t i = 0; i < f->nentry; i++) {
        for (size_t k = 0; k < countof(unused); k++) w->used[i] = w->used[i] || text_ends(f->entry[i].name, unused[k]);
        if (!w->used[i]) f->entry[n++] = f->entry[i];
    }
    f->nentry = n;
    for (int32_t i = 0; i < w->nmade; i++) {
        GROW(f->entry, f->nentry + 1, f->entry_capacity);
        f->entry[f->nentry++] = w->made[i];
    }
    return tensors_seal(f);
}

/* ---- adding the blocks of GGUF's quantised types as tensors ---- */

/* For each value X that is stored in blocks of a quantised type, adds an entry X.blocks with the bytes of the
 * blocks. */
static int
add_blocks(struct tensors *f)
{
    for (int32_t i = 0, n = f->nentry; i < n; i++) {
        struct entry e = f->entry[i];
        int last = e.type.ndim - 1;
        struct str name = {0};
        if (!e.coding || !e.coding->block || last < 0 || last + 2 > MAX_DIM) continue;
        str_addf(&name, "%s.blocks", e.name);
        struct entry *blocks = tensors_add(f, str_text(&name), e.source);
        str_free(&name);
        blocks->offset = e.offset;
        blocks->type = e.type;
        blocks->type.dtype = DT_U8;
        blocks->type.ndim++;
        blocks->type.dim[last] /= e.coding->elements;
        blocks->type.dim[last + 1] = e.coding->bytes;
    }
    return tensors_seal(f);
}

int
tensors_dequantise(struct tensors *f, const struct quantisation *how)
{
    if (!strcmp(how->method, "blocks")) return add_blocks(f);
    struct weights w = {.f = f, .how = how, .used = must_alloc(sizeof(bool) * (size_t)(f->nentry + 1))};
    int status = 0;
    bool known = false, words = !strcmp(how->method, "gptq") || !strcmp(how->method, "awq");
    if (words && how->bits != 4 && (how->method[0] == 'a' || (how->bits != 2 && how->bits != 8)))
        status = fail(E_ARG, "%s: %s with %d bits is not supported; expected %s", f->path, how->method, (int)how->bits,
                      how->method[0] == 'a' ? "4" : "2, 4 or 8");
    for (size_t i = 0; i < countof(layouts) && !status; i++) {
        if (strcmp(layouts[i].method, how->method)) continue;
        known = true;
        status = make_weights_of(&w, &layouts[i]);
    }
    if (!status && !known) status = fail(E_ARG, "%s: unknown quantisation '%s'", f->path, how->method);
    if (!status) status = replace_parts(&w);
    free(w.used);
    free(w.made);
    return status;
}
