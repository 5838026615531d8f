/* npy.c - reading and writing .npy files.
 *
 *   "\x93NUMPY" major minor length header data
 *
 * The header is a Python dict of three keys: descr, fortran_order, shape. A
 * cursor walks it and never passes its end; whatever is not as written here is
 * refused. numpy.lib.format describes the format. */
#include "runtime/npy.h"

#include "runtime/error.h"
#include "runtime/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are written in the host's byte order");

static const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
enum { MAX_HEADER = 1 << 16, ALIGN = 64 };

static const struct {
    char text[3]; /* descr without its byte order */
    enum dtype dtype;
} descrs[] = {
    {"f4", DT_F32}, {"f8", DT_F64}, {"f2", DT_F16}, {"i4", DT_I32}, {"i8", DT_I64}, {"u1", DT_U8}, {"b1", DT_BOOL},
};

struct header {
    struct type type;
    bool swap;     /* big-endian */
    bool fortran;  /* first axis runs fastest */
    size_t offset; /* of the data in the file */
};

/* ---- the header ---- */

struct cursor {
    const char *name; /* of the file, for messages */
    const char *at, *end;
};

static int
malformed(const struct cursor *c, const char *expected)
{
    return fail(E_IO, "%s: not an .npy file: %s", c->name, expected);
}

static void
skip_spaces(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n')) c->at++;
}

static bool
take(struct cursor *c, char ch)
{
    skip_spaces(c);
    if (c->at == c->end || *c->at != ch) return false;
    c->at++;
    return true;
}

/* 'text' or "text", at most size - 1 bytes of it, none of them zero. */
static bool
take_string(struct cursor *c, char *out, size_t size)
{
    size_t n = 0;
    char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
    if (!quote) return false;
    for (; c->at < c->end && *c->at != quote && *c->at && n + 1 < size; c->at++) out[n++] = *c->at;
    out[n] = '\0';
    return take(c, quote);
}

static bool
take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

static bool
take_size(struct cursor *c, int64_t *out)
{
    int digits = 0;
    skip_spaces(c);
    for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (++digits > 18) return false; /* more than any file holds */
        *out = *out * 10 + (*c->at - '0');
    }
    return digits > 0;
}

static int
parse_descr(struct cursor *c, struct header *h)
{
    char text[16];
    if (!take_string(c, text, sizeof text)) return malformed(c, "descr is no plain dtype");
    if (strchr("<>|=", text[0]) && text[0])
        for (size_t i = 0; i < countof(descrs); i++) {
            if (strcmp(text + 1, descrs[i].text)) continue;
            h->type.dtype = (uint8_t)descrs[i].dtype;
            h->swap = text[0] == '>';
            return 0;
        }
    struct str plain = {0};
    str_add_plain(&plain, text);
    int status = fail(E_DTYPE, "%s: dtype '%s' is none of f4, f8, f2, i4, i8, u1, b1", c->name, str_text(&plain));
    str_free(&plain);
    return status;
}

static int
parse_order(struct cursor *c, struct header *h)
{
    h->fortran = take_word(c, "True");
    return h->fortran || take_word(c, "False") ? 0 : malformed(c, "fortran_order is neither True nor False");
}

static int
parse_shape(struct cursor *c, struct header *h)
{
    if (!take(c, '(')) return malformed(c, "shape is no tuple");
    while (!take(c, ')')) {
        if (h->type.ndim == MAX_DIM) return fail(E_IO, "%s: more than %d axes", c->name, MAX_DIM);
        if (!take_size(c, &h->type.dim[h->type.ndim++])) return malformed(c, "shape has an entry that is no size");
        if (!take(c, ',') && (c->at == c->end || *c->at != ')')) return malformed(c, "shape does not end");
    }
    return 0;
}

static int
parse_dict(struct cursor *c, struct header *h)
{
    static const struct {
        const char *key;
        int (*parse)(struct cursor *c, struct header *h);
    } keys[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    unsigned seen = 0, all = (1u << countof(keys)) - 1;

    if (!take(c, '{')) return malformed(c, "the header is no dict");
    while (!take(c, '}')) {
        char key[32];
        size_t k = 0;
        if (!take_string(c, key, sizeof key) || !take(c, ':')) return malformed(c, "the header is no dict");
        while (k < countof(keys) && strcmp(key, keys[k].key)) k++;
        if (k == countof(keys) || seen & 1u << k) return malformed(c, "the header has a key that does not belong");
        TRY(keys[k].parse(c, h));
        seen |= 1u << k;
        if (!take(c, ',') && (c->at == c->end || *c->at != '}')) return malformed(c, "the header does not end");
    }
    return seen == all ? 0 : malformed(c, "the header lacks descr, fortran_order or shape");
}

/* Magic, version and length: where the dict is. */
static int
parse_preamble(const char *name, const uint8_t *b, size_t n, struct cursor *c)
{
    *c = (struct cursor){.name = name};
    if (n < 10 || memcmp(b, magic, sizeof magic)) return malformed(c, "it does not begin with \\x93NUMPY");
    if (b[6] < 1 || b[6] > 3) return fail(E_IO, "%s: .npy version %d, expected 1, 2 or 3", name, b[6]);
    size_t first = b[6] == 1 ? 10 : 12, length = (size_t)(b[8] | b[9] << 8);
    if (first == 12 && n < 12) return malformed(c, "it ends within the header");
    if (first == 12) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (length > MAX_HEADER) return malformed(c, "its header is longer than 64 KiB");
    if (length > n - first) return malformed(c, "it ends within the header");
    c->at = (const char *)b + first;
    c->end = c->at + length;
    return 0;
}

static int
parse_header(const char *name, const void *bytes, size_t n, struct header *h)
{
    struct cursor c;
    *h = (struct header){0};
    TRY(parse_preamble(name, bytes, n, &c));
    const char *end = c.end;
    TRY(parse_dict(&c, h));
    skip_spaces(&c); /* that pad it */
    if (c.at != end) return malformed(&c, "something follows the header's dict");
    h->offset = (size_t)(end - (const char *)bytes);
    if (type_check(&h->type)) return fail(E_IO, "%s: the shape is larger than 2^62 bytes", name);
    if ((uint64_t)type_bytes(&h->type) > n - h->offset)
        return fail(E_IO, "%s: the header promises %lld bytes of data, the file has %zu", name,
                    (long long)type_bytes(&h->type), n - h->offset);
    return 0;
}

/* ---- the data ---- */

static void
swap_bytes(uint8_t *p, size_t width, size_t n)
{
    for (; n > 0; n--, p += width)
        for (size_t i = 0; i < width / 2; i++) {
            uint8_t byte = p[i];
            p[i] = p[width - 1 - i];
            p[width - 1 - i] = byte;
        }
}

/* From first axis fastest to last axis fastest. */
static int
transpose(const char *name, const struct type *t, void **data)
{
    struct view from = view_dense(t, *data), to = from;
    int64_t stride = 1;
    for (int d = 0; d < t->ndim; d++) {
        from.stride[d] = stride;
        stride *= t->dim[d];
    }
    to.data = malloc((size_t)MAX(type_bytes(t), 1));
    if (!to.data) return fail(E_MEMORY, "%s: no memory for %lld bytes", name, (long long)type_bytes(t));
    view_copy(&to, &from);
    free(*data);
    *data = to.data;
    return 0;
}

/* Bytes as they stand in the file become the value. Takes *data over only on success. */
static int
finish(const char *name, const struct header *h, void **data)
{
    size_t n = (size_t)type_numel(&h->type);
    uint8_t *byte = *data;
    if (h->swap) swap_bytes(byte, dtype_bytes(h->type.dtype), n);
    if (h->type.dtype == DT_BOOL)
        for (size_t i = 0; i < n; i++) byte[i] = byte[i] != 0;
    return h->fortran && h->type.ndim > 1 ? transpose(name, &h->type, data) : 0;
}

int
npy_parse(const char *name, const void *bytes, size_t nbytes, struct type *t, void **data)
{
    struct header h;
    TRY(parse_header(name, bytes, nbytes, &h));
    size_t n = (size_t)type_bytes(&h.type);
    void *p = malloc(MAX(n, (size_t)1));
    if (!p) return fail(E_MEMORY, "%s: no memory for %zu bytes", name, n);
    if (n) memcpy(p, (const char *)bytes + h.offset, n);
    int status = finish(name, &h, &p);
    if (status) {
        free(p);
        return status;
    }
    *t = h.type;
    *data = p;
    return 0;
}

/* ---- files ---- */

static int
read_open(const char *path, int fd, void **bytes, size_t *nbytes)
{
    struct stat st;
    if (fstat(fd, &st)) return fail(E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return fail(E_IO, "%s: not a plain file", path);
    size_t n = (size_t)st.st_size, got = 0;
    char *p = malloc(n + 1);
    if (!p) return fail(E_MEMORY, "%s: no memory for %zu bytes", path, n);
    while (got < n) {
        ssize_t k = read(fd, p + got, n - got);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        got += (size_t)k;
    }
    *bytes = p;
    *nbytes = got; /* less than n when it was cut meanwhile; the header will tell */
    return 0;
}

static int
read_file(const char *path, void **bytes, size_t *nbytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(E_IO, "%s: %s", path, strerror(errno));
    int status = read_open(path, fd, bytes, nbytes);
    close(fd);
    return status;
}

/* The file's own memory becomes the value: the data move over the header. */
int
npy_read(const char *path, struct type *t, void **data)
{
    struct header h;
    void *bytes = NULL;
    size_t nbytes = 0;
    TRY(read_file(path, &bytes, &nbytes));
    int status = parse_header(path, bytes, nbytes, &h);
    if (!status) {
        memmove(bytes, (char *)bytes + h.offset, (size_t)type_bytes(&h.type));
        status = finish(path, &h, &bytes);
    }
    if (status) {
        free(bytes);
        return status;
    }
    *t = h.type;
    *data = bytes;
    return 0;
}

static void
write_header(const struct type *t, struct str *s)
{
    enum dtype d = t->dtype == DT_BF16 ? DT_F32 : t->dtype;
    size_t k = 0;
    while (descrs[k].dtype != d) k++;
    str_addn(s, magic, sizeof magic);
    str_addn(s, "\1\0\0\0", 4);
    str_addf(s, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", dtype_bytes(d) == 1 ? '|' : '<',
             descrs[k].text);
    for (int i = 0; i < t->ndim; i++) str_addf(s, "%lld%s", (long long)t->dim[i], i + 1 < t->ndim ? ", " : "");
    str_add(s, t->ndim == 1 ? ",), }" : "), }");
    while ((s->len + 1) % ALIGN) str_add(s, " ");
    str_add(s, "\n");
    s->text[8] = (char)((s->len - 10) & 255);
    s->text[9] = (char)((s->len - 10) >> 8);
}

static bool
write_bf16(FILE *f, const void *data, int64_t n)
{
    float chunk[1024];
    for (int64_t i = 0; i < n; i += (int64_t)countof(chunk)) {
        size_t m = (size_t)MIN(n - i, (int64_t)countof(chunk));
        for (size_t k = 0; k < m; k++) chunk[k] = bf16_to_f32(((const uint16_t *)data)[i + (int64_t)k]);
        if (fwrite(chunk, sizeof chunk[0], m, f) != m) return false;
    }
    return true;
}

static bool
write_all(FILE *f, const struct type *t, const void *data)
{
    struct str header = {0};
    size_t n = (size_t)type_bytes(t);
    write_header(t, &header);
    bool good = fwrite(header.text, 1, header.len, f) == header.len;
    str_free(&header);
    if (t->dtype == DT_BF16) return good && write_bf16(f, data, type_numel(t));
    return good && (n == 0 || fwrite(data, 1, n, f) == n);
}

/* Writes, and makes sure that it is on the disk before the name says so. Returns 0 or errno. */
static int
write_file(const char *path, const struct type *t, const void *data)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    FILE *f = fdopen(fd, "wb");
    assert(f);
    int why = write_all(f, t, data) && fflush(f) == 0 && fsync(fd) == 0 ? 0 : errno;
    if (fclose(f) && !why) why = errno;
    return why;
}

int
npy_write(const char *path, const struct type *t, const void *data)
{
    struct str temp = {0};
    str_addf(&temp, "%s.%ld.tmp", path, (long)getpid());
    int why = write_file(temp.text, t, data);
    if (!why && rename(temp.text, path)) why = errno;
    if (why) unlink(temp.text);
    str_free(&temp);
    return why ? fail(E_IO, "%s: cannot be written: %s", path, strerror(why)) : 0;
}
