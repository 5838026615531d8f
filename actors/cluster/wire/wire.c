/* wire.c - encodes and decodes packets, driven by the table of fields in wire.def. */
#include "actors/cluster/wire/wire.h"

#include "runtime/base/error.h"

#include <string.h>

/* ---- spans ---- */

struct span
span_text(const char *text)
{
    size_t n = text ? strlen(text) : 0;
    return (struct span){(const unsigned char *)text, (uint32_t)MIN(n, (size_t)WIRE_TEXT)};
}

bool
span_is(struct span a, struct span b)
{
    return a.n == b.n && (a.n == 0 || !memcmp(a.bytes, b.bytes, a.n));
}

void
span_print(struct span s, struct str *out)
{
    for (uint32_t i = 0, n; i < s.n; i += n) {
        for (n = 0; i + n < s.n && s.bytes[i + n] >= ' ' && s.bytes[i + n] <= '~';) n++;
        str_addn(out, s.bytes + i, n);
        if (n == 0) str_addf(out, "\\x%02x", s.bytes[i + n++]);
    }
}

/* ---- the table ---- */

enum field_kind { F_U32, F_I32, F_U64, F_STATUS, F_TEXT, F_B16, F_BYTES, F_U32S, F_I32S, F_U64S, NFIELD_KIND };

/* How fields of each kind are encoded. size: bytes of a number; 0: the field is a span (array of bytes), preceded by
 * its length in bytes. unit: bytes of an element of a span. most: maximum value of a number, or maximum length of a
 * span in bytes; 0: any value. */
static const struct {
    uint8_t size, unit;
    uint32_t most;
} kinds[NFIELD_KIND] = {
    [F_U32] = {4, 0, 0},
    [F_I32] = {4, 0, 0},
    [F_U64] = {8, 0, 0},
    [F_STATUS] = {4, 0, NERR - 1},
    [F_TEXT] = {0, 1, WIRE_TEXT},
    [F_B16] = {0, 16, 16},
    [F_BYTES] = {0, 1, WIRE_PIECE},
    [F_U32S] = {0, 4, WIRE_PIECE},
    [F_I32S] = {0, 4, WIRE_PIECE},
    [F_U64S] = {0, 8, WIRE_PIECE},
};

/* flag in the length of a span: its bytes are shared, and their position follows instead of the bytes */
#define IS_POSITION (1u << 31)

struct field {
    uint8_t packet, kind;
    uint16_t at; /* offset of the field in struct packet */
    const char *name;
};
static const struct field fields[] = {
#define PACKET(NAME, name)
#define FIELD(NAME, kind, field) {PACKET_##NAME, F_##kind, offsetof(struct packet, field), #field},
#include "actors/cluster/wire/wire.def"
#undef FIELD
};
/* indices of the fields in fields[]: FIRST_X is the index of the first field of packet X, because BEFORE_X is one
 * less */
enum {
#undef PACKET
#define PACKET(NAME, name)       FIRST_##NAME, BEFORE_##NAME = FIRST_##NAME - 1,
#define FIELD(NAME, kind, field) INDEX_##NAME##_##field,
#include "actors/cluster/wire/wire.def"
#undef FIELD
};
static const uint16_t first_field[NPACKET] = {
#undef PACKET
#define PACKET(NAME, name) [PACKET_##NAME] = FIRST_##NAME,
#define FIELD(NAME, kind, field)
#include "actors/cluster/wire/wire.def"
#undef FIELD
};
static const char *const names[NPACKET] = {
#undef PACKET
#define PACKET(NAME, name) [PACKET_##NAME] = #NAME,
#define FIELD(NAME, kind, field)
#include "actors/cluster/wire/wire.def"
#undef PACKET
#undef FIELD
};

/* Returns the field of a packet kind after `last`, or the first field if `last` is NULL; NULL: no field is left. */
static const struct field *
next_packet_field(int kind, const struct field *last)
{
    const struct field *f = last ? last + 1 : &fields[first_field[kind]];
    return f < fields + countof(fields) && f->packet == kind ? f : NULL;
}

const char *
packet_name(int kind)
{
    return kind > PACKET_NONE && kind < NPACKET ? names[kind] : "?";
}

/* ---- numbers ---- */

/* Appends the lowest `size` bytes of v. Copies all eight bytes, because a copy of a constant size is one store. */
static void
put_little_endian(struct str *out, uint64_t v, int size)
{
    unsigned char b[8];
#pragma GCC unroll 8 /* compiles to one store */
    for (int i = 0; i < 8; i++) b[i] = (unsigned char)(v >> 8 * i);
    str_reserve(out, sizeof b);
    memcpy(out->text + out->len, b, sizeof b);
    out->len += (size_t)size;
}

static uint32_t
get_half(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t
get_u32(const unsigned char *p)
{
    return get_half(p) | get_half(p + 2) << 16;
}

static uint64_t
get_u64(const unsigned char *p)
{
    return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

/* ---- writing ---- */

/* Writes the position of a span in the shared bytes. Returns false if the span is not part of the shared bytes. */
static bool
write_position(const struct span *s, const struct shared_bytes *shared, struct str *out)
{
    if (!shared || !s->n || s->bytes < shared->bytes || s->bytes >= shared->bytes + shared->n) return false;
    assert(s->n <= (size_t)(shared->bytes + shared->n - s->bytes));
    put_little_endian(out, s->n | IS_POSITION, 4);
    put_little_endian(out, (uint64_t)(s->bytes - shared->bytes), 8);
    return true;
}

/* Encodes a packet. shared: if not NULL, spans in these bytes are written as positions. */
static void
write_field(const struct field *f, const struct packet *p, const struct shared_bytes *shared, struct str *out)
{
    const char *at = (const char *)p + f->at;
    int size = kinds[f->kind].size;
    if (size == 4) {
        uint32_t v;
        memcpy(&v, at, 4);
        put_little_endian(out, v, 4);
    } else if (size == 8) {
        uint64_t v;
        memcpy(&v, at, 8);
        put_little_endian(out, v, 8);
    } else {
        struct span s;
        memcpy(&s, at, sizeof s);
        assert(s.n <= kinds[f->kind].most && s.n % kinds[f->kind].unit == 0);
        if (write_position(&s, shared, out)) return;
        put_little_endian(out, s.n, 4);
        str_addn(out, s.bytes, s.n);
    }
}

static void
write_packet(const struct packet *p, const struct shared_bytes *shared, struct str *out)
{
    size_t begin = out->len;
    assert(p->kind > PACKET_NONE && p->kind < NPACKET);
    put_little_endian(out, WIRE_MAGIC, 2);
    put_little_endian(out, WIRE_VERSION, 2);
    put_little_endian(out, p->kind, 4);
    put_little_endian(out, p->epoch, 4);
    put_little_endian(out, p->seq, 4);
    put_little_endian(out, 0, 4); /* room for the length of the body, which is written at the end */
    put_little_endian(out, p->ack, 4);
    for (const struct field *f = NULL; (f = next_packet_field(p->kind, f));) write_field(f, p, shared, out);
    uint64_t body = out->len - begin - WIRE_HEAD;
    assert(body + WIRE_HEAD <= WIRE_MOST);
    for (int i = 0; i < 4; i++) out->text[begin + 16 + (size_t)i] = (char)(unsigned char)(body >> 8 * i);
}

void
packet_write(const struct packet *p, struct str *out)
{
    write_packet(p, NULL, out);
}

void
packet_keep(const struct packet *p, struct str *out)
{
    write_packet(p, p->shared, out);
}

/* ---- reading ---- */

struct reader {
    const unsigned char *at;
    size_t left;
    /* shared bytes in which positions are looked up; NULL: the packet has no positions */
    const struct shared_bytes *shared;
};

/* Reads the position of a span of n bytes in shared bytes, which write_position() wrote. */
static void
read_position(struct reader *r, uint32_t n, struct span *s)
{
    uint64_t at = get_u64(r->at + 4);
    assert(r->left >= 12 && at + n <= r->shared->n);
    *s = (struct span){r->shared->bytes + at, n};
    r->at += 12;
    r->left -= 12;
}

static int
read_span(const struct field *f, struct reader *r, struct span *s)
{
    if (r->left < 4) return fail(E_BUS, "packet %s: ends within its field %s", names[f->packet], f->name);
    uint32_t n = get_u32(r->at);
    if (r->shared && n & IS_POSITION) {
        read_position(r, n & ~IS_POSITION, s);
        return 0;
    }
    if (n > kinds[f->kind].most || n % kinds[f->kind].unit)
        return fail(E_BUS, "packet %s: field %s must have at most %u bytes, in units of %u, found %u", names[f->packet],
                    f->name, kinds[f->kind].most, kinds[f->kind].unit, n);
    if (n > r->left - 4) return fail(E_BUS, "packet %s: ends within its field %s", names[f->packet], f->name);
    *s = (struct span){r->at + 4, n};
    r->at += 4 + n;
    r->left -= 4 + n;
    return 0;
}

static int
read_field(const struct field *f, struct reader *r, struct packet *p)
{
    char *at = (char *)p + f->at;
    size_t size = kinds[f->kind].size;
    if (!size) return read_span(f, r, (struct span *)(void *)at);
    if (r->left < size) return fail(E_BUS, "packet %s: ends within its field %s", names[f->packet], f->name);
    uint64_t v = size == 8 ? get_u64(r->at) : get_u32(r->at);
    uint32_t low = (uint32_t)v;
    if (kinds[f->kind].most && v > kinds[f->kind].most)
        return fail(E_BUS, "packet %s: field %s must be at most %u, found %u", names[f->packet], f->name,
                    kinds[f->kind].most, low);
    memcpy(at, size == 8 ? (void *)&v : (void *)&low, size);
    r->at += size;
    r->left -= size;
    return 0;
}

static int
read_packet_head(const unsigned char *b, size_t n, struct packet *p)
{
    if (n < WIRE_HEAD)
        return fail(E_BUS, "packet of %zu bytes: must have at least the %d bytes of its header", n, WIRE_HEAD);
    if (get_half(b) != WIRE_MAGIC) return fail(E_BUS, "expected a packet of Rille's protocol, found other bytes");
    if (get_half(b + 2) != WIRE_VERSION)
        return fail(E_BUS, "packet of protocol %d; this version of rille needs protocol %d", (int)get_half(b + 2),
                    WIRE_VERSION);
    uint32_t kind = get_u32(b + 4);
    if (kind == PACKET_NONE || kind >= NPACKET) return fail(E_BUS, "packet of unknown kind %u", kind);
    if (get_u32(b + 16) != n - WIRE_HEAD)
        return fail(E_BUS, "packet %s: expected %u bytes, found %zu", names[kind], get_u32(b + 16), n - WIRE_HEAD);
    p->kind = (uint8_t)kind;
    p->epoch = get_u32(b + 8);
    p->seq = get_u32(b + 12);
    p->ack = get_u32(b + 20);
    return 0;
}

int
packet_protocol(const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    return n >= WIRE_HEAD && get_half(b) == WIRE_MAGIC ? (int)get_half(b + 2) : 0;
}

int
packet_read(const void *bytes, size_t n, struct packet *out)
{
    return packet_fetch(bytes, n, NULL, out);
}

int
packet_fetch(const void *bytes, size_t n, const struct shared_bytes *shared, struct packet *out)
{
    *out = (struct packet){0};
    TRY(read_packet_head(bytes, n, out));
    struct reader r = {(const unsigned char *)bytes + WIRE_HEAD, n - WIRE_HEAD, shared};
    for (const struct field *f = NULL; (f = next_packet_field(out->kind, f));) TRY(read_field(f, &r, out));
    return r.left ? fail(E_BUS, "packet %s: %zu bytes after its last field", names[out->kind], r.left) : 0;
}
