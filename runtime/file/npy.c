/* npy.c - reads and writes .npy files.
 *
 *   "\x93NUMPY" major minor length header data
 *
 * The header is a Python dict of three keys: descr, fortran_order, shape. The parser never reads beyond the end of
 * the header, and rejects any other content. numpy.lib.format describes the format. */
#include "runtime/file/npy.h"

#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

static const char magic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
enum { MAX_HEADER = 1 << 16, ALIGN = 64 };

static const struct {
    char text[3]; /* NumPy's name of the dtype (descr) without the byte order */
    enum dtype dtype;
} descrs[] = {
    {"f4", DT_F32}, {"f8", DT_F64}, {"f2", DT_F16}, {"i4", DT_I32}, {"i8", DT_I64}, {"u1", DT_U8}, {"b1", DT_BOOL},
};

/* ---- parsing the header ---- */

struct parser {
    const char *name; /* file name for error texts */
    const char *at, *end;
    struct arena *arena;
};

static int
npy_malformed(const struct parser *c, const char *expected)
{
    return fail(E_IO, "%s: not an .npy file: %s", c->name, expected);
}

static void
skip_header_spaces(struct parser *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n')) c->at++;
}

static bool
take_char(struct parser *c, char ch)
{
    skip_header_spaces(c);
    if (c->at == c->end || *c->at != ch) return false;
    c->at++;
    return true;
}

/* Parses a quoted string, 'text' or "text", of at most size - 1 bytes and without zero bytes. */
static bool
take_string(struct parser *c, char *out, size_t size)
{
    size_t n = 0;
    char quote = take_char(c, '\'') ? '\'' : take_char(c, '"') ? '"' : '\0';
    if (!quote) return false;
    for (; c->at < c->end && *c->at != quote && *c->at && n + 1 < size; c->at++) out[n++] = *c->at;
    out[n] = '\0';
    return take_char(c, quote);
}

static bool
take_word(struct parser *c, const char *word)
{
    size_t n = strlen(word);
    skip_header_spaces(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

static bool
take_size(struct parser *c, int64_t *out)
{
    int digits = 0;
    skip_header_spaces(c);
    for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (++digits > 18) return false; /* more digits than a size in a real file has */
        *out = *out * 10 + (*c->at - '0');
    }
    return digits > 0;
}

/* Skips a list of fields, [('x', '<f4'), ...], without checking its content. */
static bool
take_list(struct parser *c)
{
    skip_header_spaces(c);
    char quote = '\0';
    for (int depth = 0; c->at < c->end; c->at++) {
        if (!depth && *c->at != '[') return false;
        if (quote || *c->at == '\'' || *c->at == '"') quote = !quote ? *c->at : quote == *c->at ? '\0' : quote;
        depth += !quote && *c->at == '[';
        depth -= !quote && *c->at == ']';
        if (!depth) return take_char(c, ']');
    }
    return false;
}

static int
parse_descr(struct parser *c, struct entry *h)
{
    char text[16];
    h->type.dtype = DT_NONE;
    h->foreign = "record";
    if (take_list(c)) return 0;
    if (!take_string(c, text, sizeof text)) return npy_malformed(c, "descr is not a dtype");
    if (strchr("<>|=", text[0]) && text[0])
        for (size_t i = 0; i < countof(descrs); i++) {
            if (strcmp(text + 1, descrs[i].text)) continue;
            h->type.dtype = (uint8_t)descrs[i].dtype;
            h->swap = text[0] == '>';
            return 0;
        }
    struct str plain = {0};
    str_add_plain(&plain, text);
    h->foreign = arena_strdup(c->arena, str_text(&plain));
    str_free(&plain);
    return 0;
}

static int
parse_order(struct parser *c, struct entry *h)
{
    h->fortran = take_word(c, "True");
    return h->fortran || take_word(c, "False") ? 0 : npy_malformed(c, "fortran_order is neither True nor False");
}

static int
parse_shape(struct parser *c, struct entry *h)
{
    if (!take_char(c, '(')) return npy_malformed(c, "shape is not a tuple");
    while (!take_char(c, ')')) {
        if (h->type.ndim == MAX_DIM) return fail(E_IO, "%s: expected at most %d axes, found more", c->name, MAX_DIM);
        if (!take_size(c, &h->type.dim[h->type.ndim++]))
            return npy_malformed(c, "shape has an entry that is not a size");
        if (!take_char(c, ',') && (c->at == c->end || *c->at != ')')) return npy_malformed(c, "shape does not end");
    }
    return 0;
}

static int
parse_dict(struct parser *c, struct entry *h)
{
    static const struct {
        const char *key;
        int (*parse)(struct parser *c, struct entry *h);
    } keys[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    unsigned seen = 0, all = (1u << countof(keys)) - 1;

    if (!take_char(c, '{')) return npy_malformed(c, "the header is not a dict");
    while (!take_char(c, '}')) {
        char key[32];
        size_t k = 0;
        if (!take_string(c, key, sizeof key) || !take_char(c, ':')) return npy_malformed(c, "the header is not a dict");
        while (k < countof(keys) && strcmp(key, keys[k].key)) k++;
        if (k == countof(keys) || seen & 1u << k) return npy_malformed(c, "the header has an unknown key");
        TRY(keys[k].parse(c, h));
        seen |= 1u << k;
        if (!take_char(c, ',') && (c->at == c->end || *c->at != '}'))
            return npy_malformed(c, "the header does not end");
    }
    return seen == all ? 0 : npy_malformed(c, "the header lacks descr, fortran_order or shape");
}

/* Checks magic, version and length of the header, and finds the dict. */
static int
parse_preamble(const char *name, const uint8_t *b, size_t n, struct parser *c)
{
    *c = (struct parser){.name = name};
    if (n < sizeof magic || memcmp(b, magic, sizeof magic))
        return npy_malformed(c, "it does not begin with \\x93NUMPY");
    if (n < 10) return npy_malformed(c, "it ends within the header");
    if (b[6] < 1 || b[6] > 3) return fail(E_IO, "%s: .npy version %d, expected 1, 2 or 3", name, b[6]);
    size_t first = b[6] == 1 ? 10 : 12, length = (size_t)(b[8] | b[9] << 8);
    if (first == 12 && n < 12) return npy_malformed(c, "it ends within the header");
    if (first == 12) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (length > MAX_HEADER) return npy_malformed(c, "its header is longer than 64 KiB");
    if (length > n - first) return npy_malformed(c, "it ends within the header");
    c->at = (const char *)b + first;
    c->end = c->at + length;
    return 0;
}

int
npy_head(const char *name, const void *bytes, size_t n, struct arena *a, struct entry *h, size_t *head_bytes)
{
    struct parser c;
    TRY(parse_preamble(name, bytes, n, &c));
    c.arena = a;
    const char *end = c.end;
    TRY(parse_dict(&c, h));
    skip_header_spaces(&c); /* padding behind the dict */
    if (c.at != end) return npy_malformed(&c, "unexpected text after the header's dict");
    *head_bytes = (size_t)(end - (const char *)bytes);
    return 0;
}

static int
open_head(struct tensors *f, struct source *s, void *scratch)
{
    size_t n = (size_t)MIN(s->size, (int64_t)NPY_HEAD), first;
    struct entry *e = tensors_add(f, "", s);
    TRY(source_read(s, 0, scratch, (int64_t)n));
    TRY(npy_head(s->name, scratch, n, &f->arena, e, &first));
    if (e->type.dtype == DT_NONE)
        return fail(E_DTYPE, "%s: dtype must be f4, f8, f2, i4, i8, u1 or b1, found '%s'", s->name, e->foreign);
    e->offset = (int64_t)first;
    return entry_fits(e, s->size);
}

static int
open_npy(struct tensors *f, struct source *s)
{
    void *scratch = must_alloc(NPY_HEAD);
    int status = open_head(f, s, scratch);
    free(scratch);
    return status;
}

const struct format format_npy = {.name = "npy", .ending = ".npy", .open = open_npy};

/* ---- writing a file ---- */

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

/* Writes values; bf16 as f32, because NumPy has no bf16. */
static int
write_npy(struct saving *s, const struct save_item *item)
{
    struct str header = {0};
    write_header(&item->type, &header);
    int status = saving_write(s, header.text, (int64_t)header.len);
    str_free(&header);
    if (!status) status = saving_item(s, item, item->type.dtype == DT_BF16 ? DT_F32 : DT_NONE, NULL, NULL);
    return status ? status : saving_end(s);
}

int
npy_save(const char *path, const struct save_item *item)
{
    struct saving s;
    TRY(saving_begin(path, &s));
    int status = write_npy(&s, item);
    saving_drop(&s);
    return status;
}
