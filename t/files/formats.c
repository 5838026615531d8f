/* formats.c - tests the readers of tensor files. Every box of a tensor in a valid file must be readable. A damaged
 * file must be rejected, or be another valid file. This file has samples of each format, and every test tries all
 * samples.
 *
 * The mutations are random. SEED= repeats a run, RILLE_LONG=1 tries 10^6 mutations per format, MUTATIONS= sets any
 * number. */
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/folder.h"
#include "runtime/file/llmc.h"
#include "runtime/file/npy.h"
#include "runtime/file/disk/pieces.h"
#include "runtime/file/safetensors.h"
#include "runtime/data/rng.h"
#include "t/lib/tap.h"

#include <zlib.h>

/* ---- samples: files with a tensor "x", f32 {3, 4}, whose values are 0 to 11, and other tensors ---- */

static const float twelve[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

struct bytes {
    uint8_t *at;
    size_t n;
};

static void
add(struct bytes *b, const void *p, size_t n)
{
    b->at = realloc(b->at, b->n + n + 1);
    if (n) memcpy(b->at + b->n, p, n);
    b->n += n;
}

static void
add_u32(struct bytes *b, uint32_t v)
{
    add(b, &v, sizeof v);
}

static void
add_u64(struct bytes *b, uint64_t v)
{
    add(b, &v, sizeof v);
}

static void
add_text(struct bytes *b, const char *text)
{
    add_u64(b, strlen(text));
    add(b, text, strlen(text));
}

static struct bytes
safetensors_sample(void)
{
    struct bytes b = {0};
    add_text(&b, "{\"__metadata__\":{\"by\":\"hand\"},\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                 "\"x\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[3,51]},"
                 "\"e\":{\"dtype\":\"I64\",\"shape\":[0,2],\"data_offsets\":[51,51]}} ");
    add(&b, "abc", 3);
    add(&b, twelve, sizeof twelve);
    return b;
}

static struct bytes
npy_of(const char *descr)
{
    struct bytes b = {0};
    char dict[200];
    snprintf(dict, sizeof dict, "{'descr': %s, 'fortran_order': False, 'shape': (3, 4), }\n", descr);
    add(&b, "\x93NUMPY\1\0", 8);
    add(&b, (uint8_t[]){(uint8_t)strlen(dict), 0}, 2);
    add(&b, dict, strlen(dict));
    add(&b, twelve, sizeof twelve);
    return b;
}

static struct bytes
npy_sample(void)
{
    return npy_of("'<f4'");
}

static void
add_u16s(struct bytes *b, int n, const uint16_t *v)
{
    add(b, v, sizeof *v * (size_t)n);
}

/* Returns the raw deflate stream, without zlib's header and trailer. */
static struct bytes
deflated(const struct bytes *in)
{
    struct bytes out = {malloc(in->n + 100), 0};
    z_stream z = {.next_in = in->at, .avail_in = (uInt)in->n, .next_out = out.at, .avail_out = (uInt)in->n + 100};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
    deflate(&z, Z_FINISH);
    out.n = z.total_out;
    deflateEnd(&z);
    return out;
}

/* Returns a zip file that contains only x.npy, and frees the .npy bytes. packed: true: the member is compressed;
 * wide: true: uses zip64 (sizes of 64 bits). */
static struct bytes
zip_of(struct bytes npy, bool packed, bool wide)
{
    struct bytes body = packed ? deflated(&npy) : npy, b = {0};
    uint32_t crc = (uint32_t)crc32(0, npy.at, (uInt)npy.n), all = UINT32_MAX;
    uint16_t method = packed ? 8 : 0, nextra = wide ? 4 + 24 : 0;
    uint32_t sizes[2] = {wide ? all : (uint32_t)body.n, wide ? all : (uint32_t)npy.n};
    add_u32(&b, 0x04034b50);
    add_u16s(&b, 5, (uint16_t[]){45, 0, method, 0, 33});
    add_u32(&b, crc);
    add(&b, sizes, sizeof sizes);
    add_u16s(&b, 2, (uint16_t[]){5, 0});
    add(&b, "x.npy", 5);
    add(&b, body.at, body.n);
    uint64_t at = b.n;
    add_u32(&b, 0x02014b50);
    add_u16s(&b, 6, (uint16_t[]){45, 45, 0, method, 0, 33});
    add_u32(&b, crc);
    add(&b, sizes, sizeof sizes);
    add_u16s(&b, 5, (uint16_t[]){5, nextra, 0, 0, 0});
    add_u32(&b, 0);
    add_u32(&b, wide ? all : 0);
    add(&b, "x.npy", 5);
    if (wide) {
        add_u16s(&b, 2, (uint16_t[]){1, 24});
        add_u64(&b, npy.n);
        add_u64(&b, body.n);
        add_u64(&b, 0);
        uint64_t end = b.n;
        add_u32(&b, 0x06064b50);
        add_u64(&b, 44);
        add_u16s(&b, 2, (uint16_t[]){45, 45});
        add_u64(&b, 0);
        add_u64(&b, 1);
        add_u64(&b, 1);
        add_u64(&b, end - at);
        add_u64(&b, at);
        add_u32(&b, 0x07064b50);
        add_u32(&b, 0);
        add_u64(&b, end);
        add_u32(&b, 1);
    }
    add_u32(&b, 0x06054b50);
    add_u16s(&b, 4, (uint16_t[]){0, 0, 1, 1});
    add_u32(&b, (uint32_t)(b.n - at));
    add_u32(&b, wide ? 0 : (uint32_t)at);
    add_u16s(&b, 1, (uint16_t[]){0});
    free(npy.at);
    if (packed) free(body.at);
    return b;
}

static struct bytes
stored_sample(void)
{
    return zip_of(npy_sample(), false, false);
}

static struct bytes
deflated_sample(void)
{
    return zip_of(npy_sample(), true, false);
}

static struct bytes
wide_sample(void)
{
    return zip_of(npy_sample(), true, true);
}

static struct bytes
gguf_sample(void)
{
    struct bytes b = {0};
    add(&b, "GGUF", 4);
    add_u32(&b, 3);
    add_u64(&b, 2); /* number of tensors */
    add_u64(&b, 3); /* number of metadata values */
    add_text(&b, "general.architecture");
    add_u32(&b, 8);
    add_text(&b, "none");
    add_text(&b, "list");
    add_u32(&b, 9);
    add_u32(&b, 8);
    add_u64(&b, 2);
    add_text(&b, "one");
    add_text(&b, "two");
    add_text(&b, "half");
    add_u32(&b, 6);
    add(&b, &(float){0.5f}, 4);
    add_text(&b, "x");
    add_u32(&b, 2);
    add_u64(&b, 4); /* dimensions in reverse order */
    add_u64(&b, 3);
    add_u32(&b, 0);
    add_u64(&b, 0);
    add_text(&b, "q");
    add_u32(&b, 1);
    add_u64(&b, 32);
    add_u32(&b, 2);
    add_u64(&b, 64);
    while (b.n % 32) add(&b, "", 1);
    add(&b, twelve, sizeof twelve);
    while (b.n % 32) add(&b, "", 1);
    add(&b, twelve, 18);
    return b;
}

static struct bytes
llmc_sample(void)
{
    struct bytes b = {0};
    int32_t head[256] = {20240326, 3, 1, 3, 1, 1, 4, 3};
    add(&b, head, sizeof head);
    add(&b, twelve, sizeof twelve);
    for (int i = 0; i < 4 + 2 * 4 + 3 * 16 + 12 + 16 + 4 + 8 + 64 + 16 + 64 + 4 + 8; i++) add(&b, &twelve[0], 4);
    return b;
}

/* A state dict of torch.save; see t/golden/make_state.py. */
static struct bytes
torch_sample(void)
{
    struct bytes b = {0};
    char block[4096];
    FILE *f = fopen("t/golden/state.pt", "rb");
    for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;) add(&b, block, n);
    if (f) fclose(f);
    return b;
}

static const struct sample {
    const struct format *format;
    const char *name; /* name of tensor x in this format */
    struct bytes (*make)(void);
} samples[] = {
    {&format_safetensors, "x", safetensors_sample},
    {&format_npy, "", npy_sample},
    {&format_npz, "x", stored_sample},
    {&format_npz, "x", deflated_sample},
    {&format_npz, "x", wide_sample},
    {&format_gguf, "x", gguf_sample},
    {&format_torch, "x", torch_sample},
    {&format_llmc, "wte", llmc_sample},
};

/* ---- opening a copy of a file, of exactly its size, so that ASan finds reads beyond the end ---- */

static int
open_copy(const struct sample *s, const uint8_t *bytes, size_t n, struct tensors **f)
{
    uint8_t *exact = malloc(n + !n);
    if (n) memcpy(exact, bytes, n);
    return tensors_of(source_of_bytes("evil", exact, n), s->format, f);
}

/* Reads every tensor of the file. Returns false if an error does not name the file, or if a tensor is more than
 * 1,100 times as large as the file. */
static bool
read_all(struct tensors *f, size_t n)
{
    for (int32_t i = 0; i < f->nentry; i++) {
        struct type t = f->entry[i].type;
        struct box all = box_all(&t);
        if (t.dtype == DT_NONE) continue;
        if (type_check(&t) || type_bytes(&t) > 1100 * (int64_t)n) return false;
        void *out = malloc((size_t)type_bytes(&t) + 1);
        int status = entry_read(f, i, &all, DT_NONE, out);
        free(out);
        if (status && !strstr(err_text(), "evil")) return false;
    }
    return true;
}

/* Opens and reads a file with these bytes. Sets *refused if the file cannot be opened. Returns false if an error has
 * the wrong code, or does not name the file. */
static bool
harmless(const struct sample *s, const uint8_t *bytes, size_t n, bool *refused)
{
    struct tensors *f;
    int status = open_copy(s, bytes, n, &f);
    *refused = status != 0;
    if (status) return (status == E_IO || status == E_DTYPE || status == E_MEMORY) && strstr(err_text(), "evil");
    bool good = read_all(f, n);
    tensors_close(&f);
    return good;
}

/* ---- valid files ---- */

/* Reads every box of x as f32 and as f64, and returns the number of wrong elements. */
static int
wrong_boxes(struct tensors *f, int32_t x)
{
    int wrong = 0;
    for (int64_t a = 0; a <= 3; a++)
        for (int64_t b = a; b <= 3; b++)
            for (int64_t c = 0; c <= 4; c++)
                for (int64_t d = c; d <= 4; d++) {
                    struct box box = {{a, c}, {b, d}};
                    float got[12];
                    double wide[12];
                    wrong += entry_read(f, x, &box, DT_NONE, got) || entry_read(f, x, &box, DT_F64, wide);
                    for (int64_t i = a, k = 0; i < b; i++)
                        for (int64_t j = c; j < d; j++, k++)
                            wrong += got[k] != twelve[4 * i + j] || wide[k] != (double)got[k];
                }
    return wrong;
}

static void
test_whole(const struct sample *s)
{
    struct bytes b = s->make();
    struct tensors *f;
    int status = open_copy(s, b.at, b.n, &f);
    if (status) diag("%s", err_text());
    int32_t x = status ? -1 : tensors_find(f, s->name);
    if (ok(x >= 0, "%s: a hand-made file opens", s->format->name))
        is_int(wrong_boxes(f, x), 0, "every box of a tensor is read, in its dtype and as f64");
    ok(status || tensors_find(f, "none") < 0, "a missing name is not found");
    tensors_close(&f);
    free(b.at);
}

/* Opens an .npz file with a member whose dtype Rille cannot read. Opening must succeed. Reading this member must
 * fail with an error that names the member. */
static void
test_foreign(void)
{
    static const struct {
        const char *descr, *expected_text;
    } of[] = {{"'<u2'", "'x' has dtype <u2"},
              {"'|O'", "'x' has dtype |O"},
              {"'<U3'", "'x' has dtype <U3"},
              {"[('a', '<f4'), (']', '<i4', (2,))]", "'x' has dtype record"}};
    for (size_t i = 0; i < countof(of); i++) {
        struct bytes npy = npy_of(of[i].descr), b = zip_of(npy, true, false);
        struct tensors *f;
        struct box all = {{0, 0}, {3, 4}};
        double out[12];
        int status = open_copy(&samples[3], b.at, b.n, &f);
        if (ok(!status && tensors_find(f, "x") == 0, "npz: a file with a member of dtype %s opens", of[i].descr)) {
            is_int(entry_read(f, 0, &all, DT_F64, out), E_DTYPE, "reading the member is refused");
            ok(strstr(err_text(), of[i].expected_text) != NULL, "the error names the member: %s", err_text());
            tensors_close(&f);
        }
        free(b.at);
    }
    struct bytes bad = zip_of(npy_of("3"), true, false);
    struct tensors *f;
    ok(open_copy(&samples[3], bad.at, bad.n, &f) == E_IO && strstr(err_text(), "evil: 'x.npy'"),
       "npz: the error names a member that is not a .npy file: %s", err_text());
    free(bad.at);
}

/* ---- damaged files must be rejected ---- */

static void
test_truncations(const struct sample *s)
{
    struct bytes b = s->make();
    int accepted = 0, wrong = 0;
    bool refused;
    for (size_t cut = 0; cut < b.n; cut++) {
        wrong += !harmless(s, b.at, cut, &refused);
        accepted += !refused;
    }
    ok(wrong == 0, "%s: every truncation is harmless, and the error names the file", s->format->name);
    is_int(accepted, 0, "every truncation is refused");
    free(b.at);
}

static void
test_bytes(const struct sample *s)
{
    struct bytes b = s->make();
    int wrong = 0, changed = 0;
    bool refused;
    for (size_t i = 0; i < b.n && i < 700; i++)
        for (int v = 0; v < 256; v += getenv("RILLE_LONG") ? 1 : 5) {
            uint8_t was = b.at[i];
            b.at[i] = (uint8_t)v;
            wrong += !harmless(s, b.at, b.n, &refused);
            changed += refused;
            b.at[i] = was;
        }
    ok(wrong == 0, "%s: a change of any byte is refused or harmless", s->format->name);
    ok(changed > 0, "some changes of bytes are refused");
    free(b.at);
}

/* Makes one to eight random changes: replaces bytes, bits, or small or large numbers; copies or removes a run of
 * bytes; or truncates. */
static void
mutate(struct bytes *b, uint64_t key)
{
    static const int64_t numbers[] = {0,         -1,         INT64_MAX, INT64_MIN, 1ll << 31, 1ll << 32,
                                      1ll << 62, 0x7fffffff, 0xffff,    100,       7,         1ll << 40};
    int n = 1 + (int)(rng_bits(key, 0, 0) % 8);
    for (int i = 1; i <= n && b->n > 16; i++) {
        uint64_t how = rng_bits(key, 1, (uint64_t)i), at = rng_bits(key, 2, (uint64_t)i) % b->n;
        uint64_t size = 1 + rng_bits(key, 3, (uint64_t)i) % 16, from = rng_bits(key, 4, (uint64_t)i) % b->n;
        size = MIN(size, b->n - MAX(at, from));
        switch (how % 6) {
        case 0: b->at[at] = (uint8_t)(how >> 8); break;
        case 1: b->at[at] ^= (uint8_t)(1 << (how >> 8) % 8); break;
        case 2:
            memcpy(b->at + at, &numbers[(how >> 8) % countof(numbers)], MIN(b->n - at, (size_t)(how >> 16) % 9));
            break;
        case 3: memmove(b->at + at, b->at + from, size); break;
        case 4:
            memmove(b->at + at, b->at + at + size, b->n - at - size);
            b->n -= size;
            break;
        default: b->n -= MIN(b->n, at % 32);
        }
    }
}

static void
test_mutations(const struct sample *s, uint64_t seed, int64_t times)
{
    struct bytes b = s->make(), m = {malloc(b.n + 1), 0};
    int64_t wrong = 0;
    bool refused;
    for (int64_t k = 0; k < times; k++) {
        memcpy(m.at, b.at, m.n = b.n);
        mutate(&m, rng_key(seed, (uint64_t)k));
        wrong += !harmless(s, m.at, m.n, &refused);
    }
    ok(wrong == 0, "%s: %lld mutations are refused or harmless", s->format->name, (long long)times);
    free(m.at);
    free(b.at);
}

/* ---- single header fields with wrong values ---- */

static const struct {
    const char *head;
    size_t data;
} false_headers[] = {
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[true],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,0,9223372036854775807,9223372036854775807],\"data_offsets\":[0,0]}}", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,18446744073709551608]}}", 8},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
    {"{\"a\":[]}", 0},
    {"{\"__metadata__\":[]}", 0},
    {"{\"__metadata__\":{\"a\":null}}", 0},
    {"[]", 0},
    {"{} x", 0},
    {"", 0},
    {" {}", 0},
};

static void
test_lies(void)
{
    static const uint8_t data[32];
    int accepted = 0;
    for (size_t i = 0; i < countof(false_headers); i++) {
        struct bytes b = {0};
        bool refused;
        add_text(&b, false_headers[i].head);
        add(&b, data, false_headers[i].data);
        bool good = harmless(&samples[0], b.at, b.n, &refused);
        if (!good || !refused) diag("accepted, or not named: %s (%s)", false_headers[i].head, err_text());
        accepted += !good || !refused;
        free(b.at);
    }
    is_int(accepted, 0, "safetensors: every invalid header is refused");
    struct tensors *f;
    struct bytes b = {0};
    add_text(&b, "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}");
    add(&b, data, 3);
    ok(!open_copy(&samples[0], b.at, b.n, &f) && entry_check(f, f->entry) == E_DTYPE && strstr(err_text(), "F6_E2M3"),
       "an unsupported dtype is reported when its tensor is used");
    tensors_close(&f);
    free(b.at);
}

/* Returns a .gguf file of two tensors at the given offsets: x of type f32{8}, and y with the shape {8, columns} and
 * the given type. */
static struct bytes
gguf_pair(uint64_t x, uint64_t y, uint64_t columns, uint32_t type)
{
    static const uint8_t values[192];
    struct bytes b = {0};
    add(&b, "GGUF", 4);
    add_u32(&b, 3);
    add_u64(&b, 2);
    add_u64(&b, 0);
    for (int i = 0; i < 2; i++) {
        add_text(&b, i ? "y" : "x");
        add_u32(&b, i ? 2 : 1);
        if (i) add_u64(&b, columns);
        add_u64(&b, 8);
        add_u32(&b, i ? type : 0);
        add_u64(&b, i ? y : x);
    }
    while (b.n % 32) add(&b, "", 1);
    add(&b, values, 128);
    return b;
}

static void
test_gguf_versions(void)
{
    static const struct {
        uint8_t version[4];
        const char *why;
    } are[] = {{{1, 0, 0, 0}, "GGUF version 1, expected 2 or 3"},
               {{4, 0, 0, 0}, "GGUF version 4, expected 2 or 3"},
               {{0, 0, 0, 3}, "a big-endian GGUF file, expected a little-endian one"}};
    for (size_t i = 0; i < countof(are); i++) {
        struct bytes b = gguf_pair(0, 32, 1, 0);
        struct tensors *f;
        memcpy(b.at + 4, are[i].version, 4);
        ok(open_copy(&samples[5], b.at, b.n, &f) == E_IO && strstr(err_text(), are[i].why), "gguf: %s", are[i].why);
        free(b.at);
    }
}

static void
test_gguf_offsets(void)
{
    static const struct {
        uint64_t x, y;
        const char *why; /* expected error; NULL: the file is valid */
    } at[] = {{0, 32, NULL},
              {32, 0, NULL},
              {0, 96, NULL},
              {0, 0, "'y' at"},
              {32, 32, "overlaps 'x'"},
              {0, 16, "'y' is at offset 16"},
              {8, 64, "'x' is at offset 8"},
              {0, 128, "beyond the end"}};
    for (size_t i = 0; i < countof(at); i++) {
        struct bytes b = gguf_pair(at[i].x, at[i].y, 1, 0);
        struct tensors *f;
        int status = open_copy(&samples[5], b.at, b.n, &f);
        ok(at[i].why ? status == E_IO && strstr(err_text(), at[i].why) : !status, "gguf: tensors at %d and %d are %s",
           (int)at[i].x, (int)at[i].y, at[i].why ? "refused by name" : "read");
        if (!status) tensors_close(&f);
        free(b.at);
    }
}

/* Checks the shapes of GGUF tensors: of floats (type 0), of rows of blocks of 32 elements (type 2), and of types
 * that Rille cannot read (41, and 99, which is newer than the reader). The reader must check a shape even if it
 * does not know the size of an element. */
static void
test_gguf_shapes(void)
{
    for (int shift = 0; shift < 63; shift++)
        for (int i = 0; i < 4; i++) {
            uint32_t type = (const uint32_t[]){0, 2, 41, 99}[i];
            struct bytes b = gguf_pair(0, 32, (uint64_t)1 << shift, type);
            struct tensors *f;
            int status = open_copy(&samples[5], b.at, b.n, &f);
            bool sound = type == 0 ? shift <= 1 : type > 2 && shift <= 59;
            ok(sound ? !status : status == E_IO && strstr(err_text(), "'y'"), "gguf: {8, 2^%d} of type %u is %s", shift,
               type, sound ? "opened" : "refused by name");
            if (!status) tensors_close(&f);
            free(b.at);
        }
}

/* ---- files of token ids ---- */

static void
test_tokens(void)
{
    char path[] = "/tmp/rille-tokens-XXXXXX";
    int fd = mkstemp(path), wrong = 0;
    int32_t head[256] = {20240520, 1, 4};
    uint16_t ids[4] = {5, 50256, 0, 65535};
    struct bytes b = {0};
    struct token_file f;
    int64_t got[4];
    add(&b, head, sizeof head);
    add(&b, ids, sizeof ids);
    wrong += write(fd, b.at, b.n) != (ssize_t)b.n || token_file_open(path, &f) || token_file_read(&f, 0, 4, got);
    for (int i = 0; i < 4; i++) wrong += got[i] != ids[i];
    wrong += token_file_read(&f, 1, 2, got) || got[0] != 50256 || got[1] != 0;
    is_int(wrong, 0, "ids of 16 bits are read without a sign");
    wrong = ftruncate(fd, (off_t)b.n - 3);
    ok(!wrong && token_file_read(&f, 2, 2, got) == E_IO && strstr(err_text(), path),
       "reading a file that was truncated while open is an error that names it");
    source_close(&f.source);
    wrong = pwrite(fd, b.at, b.n, 0) != (ssize_t)b.n;
    for (off_t i = 0; i < 12; i++)
        for (int v = 1; v < 256; v++) {
            uint8_t other = b.at[i] ^ (uint8_t)v;
            wrong += pwrite(fd, &other, 1, i) != 1 || token_file_open(path, &f) != E_IO || !strstr(err_text(), path);
            wrong += pwrite(fd, b.at + i, 1, i) != 1;
        }
    is_int(wrong, 0, "any change of magic, version or count is refused");
    for (off_t n = (off_t)b.n - 1; n >= 0; n--)
        wrong += ftruncate(fd, n) || token_file_open(path, &f) != E_IO || !strstr(err_text(), path);
    is_int(wrong, 0, "every truncation is refused");
    unlink(path);
    close(fd);
    free(b.at);
}

int
main(void)
{
    const char *many = getenv("MUTATIONS");
    uint64_t seed = seed_of((uint64_t)getpid());
    int64_t times = many ? strtoll(many, NULL, 10) : getenv("RILLE_LONG") ? 1000000 : 5000;
    for (size_t i = 0; i < countof(samples); i++) {
        test_whole(&samples[i]);
        test_truncations(&samples[i]);
        test_bytes(&samples[i]);
        test_mutations(&samples[i], seed, times);
    }
    test_lies();
    test_foreign();
    test_gguf_versions();
    test_gguf_offsets();
    test_gguf_shapes();
    test_tokens();
    return done();
}
