/* llmc.c - reads files of llm.c: checkpoints of GPT-2, and tokens. The code of github.com/karpathy/llm.c defines the
 * formats. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "runtime/file/llmc.h"

#include "runtime/base/error.h"
#include "runtime/file/tensors.h"
#include "runtime/base/simd.h"

#include <stdio.h>
#include <string.h>

enum { NHEAD = 256, HEAD = 4 * NHEAD, MAGIC_MODEL = 20240326 };

/* ---- reading checkpoints ---- */

enum size { LENGTH, VOCAB, LAYERS, HEADS, WIDTH, PADDED, NSIZE };
static const char *const size_names[NSIZE] = {"max_seq_len", "vocab_size", "num_layers",
                                              "num_heads",   "channels",   "padded_vocab_size"};

/* The tensors in the order of the file. The length of an axis is a size of the model (enum size), multiplied by
 * `times`; times 0 ends the shape. */
static const struct {
    const char *name;
    struct {
        int times;
        enum size size;
    } dim[3];
} tensors[] = {
    {"wte", {{1, PADDED}, {1, WIDTH}}},
    {"wpe", {{1, LENGTH}, {1, WIDTH}}},
    {"ln1w", {{1, LAYERS}, {1, WIDTH}}},
    {"ln1b", {{1, LAYERS}, {1, WIDTH}}},
    {"qkvw", {{1, LAYERS}, {3, WIDTH}, {1, WIDTH}}},
    {"qkvb", {{1, LAYERS}, {3, WIDTH}}},
    {"attprojw", {{1, LAYERS}, {1, WIDTH}, {1, WIDTH}}},
    {"attprojb", {{1, LAYERS}, {1, WIDTH}}},
    {"ln2w", {{1, LAYERS}, {1, WIDTH}}},
    {"ln2b", {{1, LAYERS}, {1, WIDTH}}},
    {"fcw", {{1, LAYERS}, {4, WIDTH}, {1, WIDTH}}},
    {"fcb", {{1, LAYERS}, {4, WIDTH}}},
    {"fcprojw", {{1, LAYERS}, {1, WIDTH}, {4, WIDTH}}},
    {"fcprojb", {{1, LAYERS}, {1, WIDTH}}},
    {"lnfw", {{1, WIDTH}}},
    {"lnfb", {{1, WIDTH}}},
};

/* Reads the numbers at the start of the file. magic: expected value of the first number. */
static int
read_numbers(const struct source *s, int32_t number[NHEAD])
{
    if (s->size < HEAD) return fail(E_IO, "%s: not a file of llm.c: shorter than its header", s->name);
    return source_read(s, 0, number, HEAD);
}

static int
check_sizes(struct tensors *f, const struct source *s, const int32_t *size)
{
    for (int i = 0; i < NSIZE; i++) {
        char text[16];
        if (size[i] <= 0 || size[i] > 1 << 24) /* limit, so that products of sizes stay below 2^62 */
            return fail(E_IO, "%s: %s must be from 1 to %d, found %d", s->name, size_names[i], 1 << 24, (int)size[i]);
        snprintf(text, sizeof text, "%d", (int)size[i]);
        tensors_tell(f, size_names[i], text);
    }
    if (size[VOCAB] > size[PADDED])
        return fail(E_IO, "%s: vocab_size %d is more than the padded %d", s->name, (int)size[VOCAB], (int)size[PADDED]);
    return 0;
}

static int
open_llmc(struct tensors *f, struct source *s)
{
    int32_t number[NHEAD];
    const int32_t *size = number + 2;
    int64_t at = HEAD;
    TRY(read_numbers(s, number));
    if (number[0] != MAGIC_MODEL)
        return fail(E_IO, "%s: not a checkpoint of llm.c: it begins with %d, expected %d", s->name, (int)number[0],
                    MAGIC_MODEL);
    if (number[1] != 3 && number[1] != 5)
        return fail(E_IO, "%s: version %d of llm.c's checkpoints, expected 3 (f32) or 5 (bf16)", s->name,
                    (int)number[1]);
    TRY(check_sizes(f, s, size));
    for (size_t i = 0; i < countof(tensors); i++) {
        struct entry *e = tensors_add(f, tensors[i].name, s);
        e->type.dtype = number[1] == 3 ? DT_F32 : DT_BF16;
        for (int d = 0; d < 3 && tensors[i].dim[d].times; d++)
            e->type.dim[e->type.ndim++] = (int64_t)tensors[i].dim[d].times * size[tensors[i].dim[d].size];
        e->offset = at;
        TRY(entry_fits(e, s->size));
        at += type_bytes(&e->type);
    }
    if (at == s->size) return 0;
    return fail(E_IO, "%s: the file has %lld bytes, its header says %lld", s->name, (long long)s->size, (long long)at);
}

const struct format format_llmc = {.name = "llmc", .open = open_llmc};

/* ---- reading files of token ids ---- */

static const struct {
    int32_t magic, version;
    int width;
} token_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static int
token_head(struct token_file *f)
{
    int32_t number[NHEAD];
    TRY(read_numbers(f->source, number));
    for (size_t i = 0; i < countof(token_kinds) && !f->width; i++)
        if (number[0] == token_kinds[i].magic && number[1] == token_kinds[i].version) f->width = token_kinds[i].width;
    if (!f->width)
        return fail(E_IO, "%s: not a token file: it begins with %d, version %d; expected 20240520, 1 or 20240801, 7",
                    f->source->name, (int)number[0], (int)number[1]);
    f->n = number[2];
    f->at = HEAD;
    if (f->n >= 0 && f->source->size == HEAD + f->n * f->width) return 0;
    return fail(E_IO, "%s: the header says %lld tokens of %d bytes, but %lld bytes follow it", f->source->name,
                (long long)f->n, f->width, (long long)(f->source->size - HEAD));
}

int
token_file_open(const char *path, struct token_file *out)
{
    *out = (struct token_file){0};
    TRY(source_open(path, &out->source));
    int status = token_head(out);
    if (status) source_close(&out->source);
    return status;
}

struct token_file
token_file_of(int64_t *ids, int64_t n)
{
    return (struct token_file){source_of_bytes("ids", ids, sizeof *ids * (size_t)n), n, 0, sizeof *ids};
}

/* ---- converting ids to 64 bits, in blocks ---- */

VECTOR static void
widen_u16(const void *in, int64_t n, int64_t *out)
{
    const uint16_t *id = in;
    for (int64_t i = 0; i < n; i++) out[i] = id[i];
}

VECTOR static void
widen_u32(const void *in, int64_t n, int64_t *out)
{
    const uint32_t *id = in;
    for (int64_t i = 0; i < n; i++) out[i] = id[i];
}

int
token_file_read(const struct token_file *f, int64_t i, int64_t n, int64_t *out)
{
    uint64_t block[2048];
    int64_t most = (int64_t)sizeof block / f->width;
    if (f->width == sizeof *out) return source_read(f->source, f->at + i * f->width, out, n * f->width);
    for (int64_t k = 0, size; k < n; k += size) {
        size = MIN(n - k, most);
        TRY(source_read(f->source, f->at + (i + k) * f->width, block, size * f->width));
        if (f->width == sizeof(uint16_t))
            widen_u16(block, size, out + k);
        else
            widen_u32(block, size, out + k);
    }
    return 0;
}
