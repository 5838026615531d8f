/* jupyter_wire.c - converts Jupyter's messages to frames and back. */
#include "shell/jupyter/jupyter_wire.h"

#include "shell/bind/base/clock.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "<IDS|MSG>";
enum { MARK = sizeof mark - 1, PARTS = 4, DIGEST = crypto_auth_hmacsha256_BYTES, SIGNATURE = 2 * DIGEST };

/* ---- frames ---- */

bool
frames_add(struct frames *f, const void *data, size_t size)
{
    char *copy = f->n < FRAMES_MAX ? malloc(size + 1) : NULL;
    if (!copy) return false;
    if (size) memcpy(copy, data, size);
    copy[size] = 0;
    f->frame[f->n++] = (struct frame){copy, size};
    return true;
}

bool
frames_equal(const struct frames *a, const struct frames *b)
{
    bool equal = a->n == b->n;
    for (int k = 0; equal && k < a->n; k++)
        equal = a->frame[k].size == b->frame[k].size && !memcmp(a->frame[k].data, b->frame[k].data, a->frame[k].size);
    return equal;
}

void
frames_free(struct frames *f)
{
    for (int k = 0; k < f->n; k++) free(f->frame[k].data);
    f->n = 0;
}

/* ---- signatures ---- */

static void
draw_uuid(char text[WIRE_UUID])
{
    unsigned char bytes[WIRE_UUID / 2];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(text, WIRE_UUID, bytes, sizeof bytes);
}

int
wire_open(struct wire *w)
{
    if (sodium_init() < 0) return -1;
    draw_uuid(w->session);
    return 0;
}

/* Computes the signature of the four parts of a message; "" if there is no key. */
static void
sign(const struct wire *w, const struct frame *part, char text[SIGNATURE + 1])
{
    crypto_auth_hmacsha256_state state;
    unsigned char digest[DIGEST];
    text[0] = 0;
    if (!w->key[0]) return;
    crypto_auth_hmacsha256_init(&state, (const unsigned char *)w->key, strlen(w->key));
    for (int k = 0; k < PARTS; k++)
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)part[k].data, part[k].size);
    crypto_auth_hmacsha256_final(&state, digest);
    sodium_bin2hex(text, SIGNATURE + 1, digest, DIGEST);
}

static bool
is_signed(const struct wire *w, const struct frame *signature, const struct frame *part)
{
    char right[SIGNATURE + 1];
    if (!w->key[0]) return true;
    sign(w, part, right);
    return signature->size == SIGNATURE && !sodium_memcmp(signature->data, right, SIGNATURE);
}

/* ---- reading ---- */

static bool
is_mark(const struct frame *f)
{
    return f->size == MARK && !memcmp(f->data, mark, MARK);
}

static json_t *
read_object(const struct frame *f)
{
    json_t *o = json_loadb(f->data, f->size, JSON_ALLOW_NUL, NULL);
    if (o && !json_is_object(o)) json_decref(o), o = NULL;
    return o;
}

const char *
message_read(const struct wire *w, const struct frames *f, struct message *m)
{
    int at = 0;
    memset(m, 0, sizeof *m);
    while (at < f->n && !is_mark(&f->frame[at])) at++;
    if (f->n - at < 2 + PARTS) return "it has too few frames";
    if (!is_signed(w, &f->frame[at + 1], &f->frame[at + 2])) return "its signature is wrong";
    m->header = read_object(&f->frame[at + 2]);
    m->content = read_object(&f->frame[at + 5]);
    for (int k = 0; k < at; k++) frames_add(&m->ids, f->frame[k].data, f->frame[k].size);
    if (m->header && m->content && json_is_string(json_object_get(m->header, "msg_type"))) return NULL;
    message_free(m);
    return "its header or content is not a JSON object, or it has no type";
}

void
message_free(struct message *m)
{
    frames_free(&m->ids);
    json_decref(m->header);
    json_decref(m->content);
    m->header = m->content = NULL;
}

const char *
message_type(const struct message *m)
{
    return json_string_value(json_object_get(m->header, "msg_type"));
}

/* ---- writing ---- */

static json_t *
new_header(const struct wire *w, const char *type)
{
    char id[WIRE_UUID], date[CLOCK_DATE];
    clock_date(date);
    draw_uuid(id);
    return json_pack("{ssssssssssss}", "msg_id", id, "session", w->session, "username", "kernel", "date", date,
                     "msg_type", type, "version", "5.3");
}

/* Adds a frame with the JSON text, and releases the value. */
static void
add_json(struct frames *f, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    frames_add(f, text ? text : "{}", text ? strlen(text) : 2);
    free(text);
    json_decref(value);
}

void
message_write(const struct wire *w, struct frames *out, const struct message *parent, bool addressed, const char *type,
              json_t *content)
{
    struct frames parts = {0};
    char signature[SIGNATURE + 1];
    add_json(&parts, new_header(w, type));
    add_json(&parts, parent ? json_incref(parent->header) : NULL);
    add_json(&parts, NULL);
    add_json(&parts, content);
    sign(w, parts.frame, signature);
    for (int k = 0; addressed && parent && k < parent->ids.n; k++)
        frames_add(out, parent->ids.frame[k].data, parent->ids.frame[k].size);
    frames_add(out, mark, MARK);
    frames_add(out, signature, strlen(signature));
    for (int k = 0; k < PARTS; k++) frames_add(out, parts.frame[k].data, parts.frame[k].size);
    frames_free(&parts);
}

/* ---- text ---- */

/* Returns the size in bytes of the UTF-8 character at `at`; 0: invalid; negative: the character is cut off by the
 * end of the text. */
static int
utf8_character(const unsigned char *at, size_t size)
{
    int n = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0;
    for (int k = 1; k < n; k++) {
        if ((size_t)k >= size) return -1;
        if ((at[k] & 0xc0) != 0x80) return 0;
    }
    bool high = n == 3 && ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f));
    bool far = n == 4 && ((*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f));
    return high || far ? 0 : n;
}

json_t *
wire_text(const char *text, size_t size)
{
    char *good = malloc(3 * size + 1), *to = good;
    if (!good) return json_string("(out of memory)");
    for (size_t at = 0; at < size;) {
        int n = utf8_character((const unsigned char *)text + at, size - at);
        memcpy(to, n > 0 ? text + at : "\xef\xbf\xbd", n > 0 ? (size_t)n : 3);
        to += n > 0 ? n : 3;
        at += n > 0 ? (size_t)n : 1;
    }
    json_t *s = json_stringn(good, (size_t)(to - good));
    free(good);
    return s;
}

size_t
wire_whole(const char *text, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        const unsigned char *at = (const unsigned char *)text + size - back;
        if (*at >= 0xc0) return utf8_character(at, back) < 0 ? size - back : size;
        if (*at < 0x80) return size;
    }
    return size;
}
