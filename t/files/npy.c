/* npy.c - tests .npy files. Rille must read files of NumPy, write files for NumPy, and refuse invalid headers. */
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/npy.h"
#include "runtime/file/disk/pieces.h"
#include "t/lib/tap.h"

#include <sys/stat.h>

static char dir[] = "/tmp/rille-npy-XXXXXX";

/* ---- reading and writing a file with one tensor ---- */

static int
whole_value(struct tensors *f, struct type *t, void **data)
{
    struct box all = box_all(&f->entry[0].type);
    *t = f->entry[0].type;
    *data = malloc((size_t)type_bytes(t) + 1);
    int status = entry_read(f, 0, &all, DT_NONE, *data);
    if (status) free(*data);
    return status;
}

static int
npy_parse(const char *name, const void *bytes, size_t n, struct type *t, void **data)
{
    struct tensors *f;
    TRY(tensors_of(source_of_bytes(name, must_copy(bytes, n), n), &format_npy, &f));
    int status = whole_value(f, t, data);
    tensors_close(&f);
    return status;
}

static int
npy_read(const char *path, struct type *t, void **data)
{
    struct tensors *f;
    TRY(tensors_open(path, NULL, &f));
    int status = whole_value(f, t, data);
    tensors_close(&f);
    return status;
}

struct memory {
    const struct type *type;
    const char *data;
};

/* Gives the writer the elements of a box. The box begins at the first element, because each tensor of this test is
 * written in a single chunk. */
static int
give(void *arg, const struct box *b, void *out)
{
    const struct memory *m = arg;
    memcpy(out, m->data, (size_t)box_numel(b, m->type->ndim) * dtype_bytes(m->type->dtype));
    return 0;
}

static int
npy_write(const char *path, const struct type *t, const void *data)
{
    struct memory m = {t, data};
    struct save_item item = {.name = "", .type = *t, .read = give, .arg = &m};
    return npy_save(path, &item);
}

static const char *
path_of(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static size_t
slurp(const char *path, uint8_t *out, size_t capacity)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, capacity, f) : 0;
    if (f) fclose(f);
    return n;
}

static void
spill(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert(f);
    size_t put = fwrite(bytes, 1, n, f);
    assert(put == n);
    fclose(f);
}

/* Builds a file from version, header dict and data. Returns the number of bytes. */
static size_t
compose(uint8_t *out, int version, const char *dict, const void *data, size_t ndata)
{
    size_t n = strlen(dict), at = 8;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    out[at++] = (uint8_t)n;
    out[at++] = (uint8_t)(n >> 8);
    if (version > 1) out[at++] = 0, out[at++] = 0;
    memcpy(out + at, dict, n);
    if (ndata) memcpy(out + at + n, data, ndata);
    return at + n + ndata;
}

/* ---- valid files ---- */

static void
test_round_trip(void)
{
    static const struct type shapes[] = {
        {.ndim = 0}, {.ndim = 1, .dim = {5}}, {.ndim = 2, .dim = {0, 3}}, {.ndim = 3, .dim = {2, 3, 4}}};
    int wrong = 0;
    for (int d = DT_NONE + 1; d < NDTYPE; d++)
        for (size_t i = 0; i < countof(shapes); i++) {
            struct type t = shapes[i], back;
            uint64_t memory[24];
            void *data = NULL;
            t.dtype = (uint8_t)d;
            for (int64_t k = 0; k < type_numel(&t); k++) elem_set_i((enum dtype)d, memory, k, k % 3);
            if (npy_write(path_of("a.npy"), &t, memory) || npy_read(path_of("a.npy"), &back, &data)) {
                diag("%s", err_text());
                wrong++;
                continue;
            }
            wrong += back.dtype != (d == DT_BF16 ? DT_F32 : d) || !shape_equal(&t, &back);
            for (int64_t k = 0; k < type_numel(&t); k++)
                wrong += elem_get_i(back.dtype, data, k) != elem_get_i((enum dtype)d, memory, k);
            free(data);
        }
    is_int(wrong, 0, "every dtype and shape is read back; bf16 as f32");
}

static void
test_bytes(void)
{
    static const char want[] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    struct type t = type_of(DT_F32, 2, (int64_t[]){2, 3});
    float data[6] = {0, 1, 2, 3, 4, 5};
    uint8_t got[300];
    npy_write(path_of("b.npy"), &t, data);
    size_t n = slurp(path_of("b.npy"), got, sizeof got);
    ok(n == 128 + sizeof data && !memcmp(got, want, sizeof want - 1) && got[127] == '\n' && got[126] == ' ' &&
           !memcmp(got + 128, data, sizeof data),
       "a file has exactly the bytes that NumPy writes");
}

/* Reads a file of six elements and returns true if they are 0 to 5. */
static bool
reads_six(int version, const char *dict, const void *data, size_t ndata)
{
    uint8_t file[400];
    struct type t;
    void *value;
    size_t n = compose(file, version, dict, data, ndata);
    if (npy_parse("six", file, n, &t, &value)) {
        diag("%s", err_text());
        return false;
    }
    bool good = type_numel(&t) == 6;
    for (int64_t i = 0; good && i < 6; i++) good = elem_get_f(t.dtype, value, i) == (double)i;
    free(value);
    return good;
}

static void
test_spellings(void)
{
    static const float row[6] = {0, 1, 2, 3, 4, 5}, column[6] = {0, 3, 1, 4, 2, 5};
    static const uint8_t big[12] = {0, 0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44, 0, 0x45, 0}; /* f16, big-endian */
    static const uint8_t small[6] = {0, 1, 2, 3, 4, 5}, bools[3] = {0, 1, 7};
    ok(reads_six(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", row, 24), "version 1");
    ok(reads_six(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", row, 24), "version 2");
    ok(reads_six(3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", row, 24), "version 3");
    ok(reads_six(1, "{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"<f4\"}", row, 24),
       "other quotes, order of keys and spacing");
    ok(reads_six(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", column, 24),
       "Fortran order is transposed");
    ok(reads_six(1, "{'descr': '>f2', 'fortran_order': False, 'shape': (3, 2), }", big, 12), "big-endian is swapped");
    ok(reads_six(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 6), }", small, 6),
       "dtypes of one byte are read without byte order");

    uint8_t file[200];
    struct type t;
    void *value;
    size_t n = compose(file, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", bools, 3);
    ok(npy_parse("b", file, n, &t, &value) == 0 && ((uint8_t *)value)[2] == 1,
       "any non-zero byte of a bool is read as 1");
    free(value);
}

/* ---- invalid files ---- */

/* Returns true if the bytes are read completely, or rejected with an error that names the file. Accesses every byte
 * that was read, so that AddressSanitizer finds invalid addresses. */
static bool
harmless(const void *bytes, size_t n, bool *refused)
{
    struct type t;
    void *value;
    int status = npy_parse("evil.npy", bytes, n, &t, &value);
    *refused = status != 0;
    if (status) return (status == E_IO || status == E_DTYPE) && strstr(err_text(), "evil.npy");
    volatile uint8_t sum = 0;
    for (int64_t i = 0; i < type_bytes(&t); i++) sum = (uint8_t)(sum + ((uint8_t *)value)[i]);
    free(value);
    return type_check(&t) == 0 && type_bytes(&t) <= (int64_t)n;
}

/* Tries the bytes in a heap block of exactly their size, so that AddressSanitizer finds reads beyond the end. */
static bool
harmless_copy(const uint8_t *bytes, size_t n, bool *refused)
{
    uint8_t *exact = malloc(n + !n);
    if (n) memcpy(exact, bytes, n);
    bool good = harmless(exact, n, refused);
    free(exact);
    return good;
}

static void
test_damage(int version)
{
    static const float data[4] = {1, 2, 3, 4};
    uint8_t file[200];
    size_t n = compose(file, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }  \n", data, 16);
    int accepted = 0, wrong = 0, changed = 0;
    bool refused;
    for (size_t cut = 0; cut < n; cut++) {
        wrong += !harmless_copy(file, cut, &refused);
        accepted += !refused;
    }
    is_int(accepted, 0, "every truncation is refused");
    is_int(wrong, 0, "the error of every truncation names the file");

    wrong = 0;
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < 256; v++) {
            uint8_t was = file[i];
            file[i] = (uint8_t)v;
            wrong += !harmless_copy(file, n, &refused);
            changed += refused;
            file[i] = was;
        }
    is_int(wrong, 0, "a change of any byte is refused or harmless");
    ok(changed > 10000, "most values of header bytes are refused");
}

static void
test_lies(void)
{
    static const struct {
        const char *dict;
        int code;
    } false_headers[] = {
        {"", E_IO},
        {"{}", E_IO},
        {"[1, 2]", E_IO},
        {"{'descr': '<f4', 'fortran_order': False}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", E_IO},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + evil()", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648, 2147483648, 4)}", E_IO},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776, 0)}", E_IO},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", E_DTYPE},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", E_DTYPE},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", E_DTYPE},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", E_DTYPE},
        {"{'descr': 'a dtype of more letters than any', 'fortran_order': False, 'shape': (1,)}", E_IO},
    };
    static const float data[4];
    int wrong = 0;
    for (size_t i = 0; i < countof(false_headers); i++) {
        uint8_t file[300];
        struct type t;
        void *value = NULL;
        size_t n = compose(file, 1, false_headers[i].dict, data, sizeof data);
        int status = npy_parse("evil.npy", file, n, &t, &value);
        if (status == false_headers[i].code && strstr(err_text(), "evil.npy")) continue;
        diag("%s gave %d: %s", false_headers[i].dict, status, err_text());
        free(status ? NULL : value);
        wrong++;
    }
    is_int(wrong, 0, "every invalid header is refused with an error that names the file");
    for (int ch = 0; ch < 256; ch++) {
        uint8_t file[300];
        struct type t;
        void *value = NULL;
        size_t n = compose(file, 1, "{'descr': '<f4?', 'fortran_order': False, 'shape': (1,)}", data, sizeof data);
        *(uint8_t *)memchr(file, '?', n) = (uint8_t)ch;
        bool good = npy_parse("evil.npy", file, n, &t, &value) && err_text()[0];
        for (const char *p = err_text(); *p; p++) good = good && *p >= ' ' && *p <= '~';
        if (good) continue;
        diag("byte %d gave \"%s\"", ch, err_text());
        free(value);
        wrong++;
    }
    is_int(wrong, 0, "a dtype with any extra byte is refused with a printable error");
}

/* ---- files that a write replaces ---- */

static int
count_files(void)
{
    char command[300], line[100];
    int n = 0;
    snprintf(command, sizeof command, "ls -A %s", dir);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) n++;
    if (f) pclose(f);
    return n;
}

static void
test_files(void)
{
    struct type t = type_of(DT_F32, 1, (int64_t[]){2}), back;
    float data[2] = {1, 2};
    void *value;
    ok(npy_read(path_of("none.npy"), &back, &value) == E_IO && strstr(err_text(), path_of("none.npy")),
       "reading a missing file is an error that names it");
    ok(npy_read(dir, &back, &value) == E_IO, "reading a directory is refused");
    ok(npy_write(path_of("no/such/a.npy"), &t, data) == E_IO && strstr(err_text(), "no/such/a.npy"),
       "writing into a missing folder is an error that names the path");
    spill(path_of("c.npy"), "short", 5);
    ok(npy_read(path_of("c.npy"), &back, &value) == E_IO, "a file that is not .npy is refused");
    is_int(npy_write(path_of("c.npy"), &t, data), 0, "an existing file is replaced");
    is_int(count_files(), 3, "no temporary file is left"); /* no files but a, b and c */
    mkdir(path_of("d.npy"), 0777);
    is_int(npy_write(path_of("d.npy"), &t, data), E_IO, "a directory is not replaced");
    is_int(count_files(), 4, "no temporary file is left after the failure");
}

static void
clean(void)
{
    static const char *const names[] = {"a.npy", "b.npy", "c.npy"};
    for (size_t i = 0; i < countof(names); i++) unlink(path_of(names[i]));
    rmdir(path_of("d.npy"));
    rmdir(dir);
}

int
main(void)
{
    if (!mkdtemp(dir)) return 1;
    test_round_trip();
    test_bytes();
    test_spellings();
    for (int version = 1; version <= 3; version++) test_damage(version);
    test_lies();
    test_files();
    clean();
    return done();
}
