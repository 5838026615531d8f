/* zip.c - reads the directory and the members of a zip file, stored or deflated (zlib).
 *
 *   members: local head, packed bytes | central directory: one record per member | end record
 *
 * Numbers beyond 32 bits are stored in an extra field of the record, and a ZIP64 end record precedes the ordinary end
 * record. The packed size gives an upper bound for the unpacked size. PKWARE's APPNOTE.TXT describes the
 * format. */
#include "runtime/file/codec/zip.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { END = 22, END64 = 56, LOCATOR = 20, RECORD = 46, LOCAL = 30, MAX_COMMENT = 65535, BLOCK = 1 << 16 };
enum { STORED = 0, DEFLATED = 8, DEFLATE_MOST = 1032, ENCRYPTED = 1 };

static uint64_t
little_endian(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, (size_t)bytes);
    return v;
}

static int
damaged(const struct source *s, const char *why)
{
    return fail(E_IO, "%s: not a zip file, or damaged: %s", s->name, why);
}

/* Reads a size or a position, and checks that it is within the file. */
static int
is_offset_within(const struct source *s, uint64_t v, int64_t *out)
{
    if (v > (uint64_t)s->size) return damaged(s, "a position is beyond the end of the file");
    *out = (int64_t)v;
    return 0;
}

/* ---- reading the directory of a zip file ---- */

struct directory {
    int64_t at, n; /* at: position of the next record; n: number of records left */
};

/* Reads the ZIP64 end record, if there is one: a ZIP64 locator before the ordinary end record states its position. */
static int
find_end64(const struct source *s, int64_t end, struct directory *d)
{
    uint8_t b[END64];
    int64_t at = 0;
    if (end < LOCATOR) return 0;
    TRY(source_read(s, end - LOCATOR, b, LOCATOR));
    if (little_endian(b, 4) != 0x07064b50) return 0;
    TRY(is_offset_within(s, little_endian(b + 8, 8), &at));
    TRY(source_read(s, at, b, END64));
    if (little_endian(b, 4) != 0x06064b50)
        return damaged(s, "the ZIP64 end record is not at the position that the ZIP64 locator states");
    TRY(is_offset_within(s, little_endian(b + 32, 8), &d->n));
    return is_offset_within(s, little_endian(b + 48, 8), &d->at);
}

/* Finds the end record: the last one in the file whose comment ends exactly at the end of the file. */
static int
find_end(const struct source *s, uint8_t *b, struct directory *d)
{
    int64_t n = MIN(s->size, (int64_t)END + MAX_COMMENT), first = s->size - n;
    TRY(source_read(s, first, b, n));
    for (int64_t i = n - END; i >= 0; i--) {
        if (little_endian(b + i, 4) != 0x06054b50 || i + END + (int64_t)little_endian(b + i + 20, 2) != n) continue;
        d->n = (int64_t)little_endian(b + i + 10, 2);
        TRY(is_offset_within(s, little_endian(b + i + 16, 4), &d->at));
        return find_end64(s, first + i, d);
    }
    return damaged(s, "no directory at the end of the file");
}

/* Completes the numbers of a record. A number whose bits are all 1 is a placeholder: the value is the next number in
 * the record's extra field of kind 1 (ZIP64). */
static int
wide_numbers(const struct source *s, const uint8_t *extra, int64_t n, uint64_t *value[3])
{
    for (; n >= 4; extra += 4 + little_endian(extra + 2, 2)) {
        int64_t size = (int64_t)little_endian(extra + 2, 2);
        const uint8_t *p = extra + 4;
        if ((n -= 4 + size) < 0) return damaged(s, "an extra field is longer than its record");
        if (little_endian(extra, 2) != 1) continue;
        for (int i = 0; i < 3; i++) {
            if (*value[i] != UINT32_MAX) continue;
            if ((size -= 8) < 0) return damaged(s, "a 64-bit size or position is missing");
            *value[i] = little_endian(p, 8);
            p += 8;
        }
    }
    return 0;
}

/* Reads the next record, and stores its name in `scratch`. scratch: room for three texts with 16-bit lengths. */
static int
next_record(const struct source *s, struct directory *d, struct zip_member *m, uint8_t *scratch)
{
    uint8_t b[RECORD];
    TRY(source_read(s, d->at, b, RECORD));
    if (little_endian(b, 4) != 0x02014b50) return damaged(s, "its directory is damaged");
    int64_t nname = (int64_t)little_endian(b + 28, 2), nextra = (int64_t)little_endian(b + 30, 2);
    uint64_t bytes = little_endian(b + 24, 4), packed = little_endian(b + 20, 4), local = little_endian(b + 42, 4);
    TRY(source_read(s, d->at + RECORD, scratch, nname + nextra));
    TRY(wide_numbers(s, scratch + nname, nextra, (uint64_t *[]){&bytes, &packed, &local}));
    scratch[nname] = '\0';
    if ((int64_t)strlen((char *)scratch) != nname) return damaged(s, "a name has a zero byte");
    *m = (struct zip_member){.name = (char *)scratch, .method = (uint16_t)little_endian(b + 10, 2)};
    if (little_endian(b + 8, 2) & ENCRYPTED) return fail(E_IO, "%s: '%.200s' is encrypted", s->name, m->name);
    m->crc = (uint32_t)little_endian(b + 16, 4);
    TRY(is_offset_within(s, packed, &m->packed));
    TRY(is_offset_within(s, local, &m->local));
    if (bytes > (uint64_t)m->packed * (m->method == STORED ? 1 : DEFLATE_MOST))
        return fail(E_IO, "%s: '%.200s' claims %llu bytes, compressed to %lld, which is impossible", s->name, m->name,
                    (unsigned long long)bytes, (long long)m->packed);
    m->bytes = (int64_t)bytes;
    if (m->method != DEFLATED && (m->method != STORED || m->bytes != m->packed))
        return fail(E_IO, "%s: '%.200s' uses compression method %d, which is not supported", s->name, m->name,
                    (int)m->method);
    d->at += RECORD + nname + nextra + (int64_t)little_endian(b + 32, 2);
    d->n--;
    return 0;
}

/* ---- unpacking members ---- */

/* Returns the position of the member's packed bytes. */
static int
find_packed(const struct source *s, const struct zip_member *m, int64_t *at)
{
    uint8_t b[LOCAL];
    TRY(source_read(s, m->local, b, LOCAL));
    if (little_endian(b, 4) != 0x04034b50) return damaged(s, "a member is not at its position in the directory");
    *at = m->local + LOCAL + (int64_t)little_endian(b + 26, 2) + (int64_t)little_endian(b + 28, 2);
    return *at <= s->size && m->packed <= s->size - *at ? 0 : damaged(s, "a member extends beyond the end of the file");
}

static int
inflate_blocks(const struct source *s, int64_t at, int64_t packed, z_stream *z, uint8_t *block)
{
    int status = Z_OK;
    while (status == Z_OK && z->avail_out) {
        if (!z->avail_in && packed) {
            z->avail_in = (uInt)MIN((int64_t)BLOCK, packed);
            z->next_in = block;
            TRY(source_read(s, at, block, z->avail_in));
            at += z->avail_in;
            packed -= z->avail_in;
        }
        status = inflate(z, Z_NO_FLUSH);
    }
    return status == Z_OK || status == Z_STREAM_END ? 0 : damaged(s, "compressed bytes are damaged");
}

/* Unpacks a member by repeated calls of zlib, because zlib counts bytes in 32 bits. */
static int
unpack_deflated(const struct source *s, int64_t at, int64_t packed, uint8_t *out, int64_t n)
{
    z_stream z = {0};
    uint8_t *block = must_alloc(BLOCK);
    int status = inflateInit2(&z, -MAX_WBITS) == Z_OK ? 0 : fail(E_MEMORY, "%s: out of memory", s->name);
    int64_t given = 0;
    while (!status && given < n) {
        int64_t turn = MIN(n - given, INT64_C(1) << 30), before = packed - (int64_t)z.total_in;
        z.next_out = out + given;
        z.avail_out = (uInt)turn;
        /* zlib first unpacks the rest of the block that it has begun */
        status = inflate_blocks(s, at + packed - before + z.avail_in, before - z.avail_in, &z, block);
        if (!status && z.avail_out) status = damaged(s, "a member has fewer bytes than its header says");
        given += turn;
    }
    inflateEnd(&z);
    free(block);
    return status;
}

int
zip_stored(const struct source *s, const struct zip_member *m, int64_t *at)
{
    if (m->method != STORED) return fail(E_IO, "%s: a member is compressed, expected a stored one", s->name);
    return find_packed(s, m, at);
}

int
zip_unpack(const struct source *s, const struct zip_member *m, uint8_t *out, int64_t n)
{
    int64_t at = 0;
    TRY(find_packed(s, m, &at));
    return m->method == STORED ? source_read(s, at, out, n) : unpack_deflated(s, at, m->packed, out, n);
}

static int
visit_members(const struct source *s, uint8_t *scratch, zip_visit *visit, void *arg)
{
    struct directory d = {0};
    struct zip_member m;
    TRY(find_end(s, scratch, &d));
    while (d.n > 0) {
        TRY(next_record(s, &d, &m, scratch));
        TRY(visit(arg, &m));
    }
    return 0;
}

int
zip_each(const struct source *s, zip_visit *visit, void *arg)
{
    if (s->size < END) return damaged(s, "the file is too short");
    uint8_t *scratch = must_alloc(3 * MAX_COMMENT);
    int status = visit_members(s, scratch, visit, arg);
    free(scratch);
    return status;
}

/* Fails because the checksum of a member's bytes differs. */
static int
differs(const struct source *s, const char *name)
{
    return fail(E_IO, "%s: '%.200s' is damaged: its checksum differs", s->name, name);
}

int
zip_check(const struct source *s, const struct zip_member *m, const char *name, const uint8_t *bytes)
{
    uLong crc = crc32(0, NULL, 0);
    for (int64_t i = 0; i < m->bytes; i += 1 << 30)
        crc = crc32(crc, bytes + i, (uInt)MIN(m->bytes - i, INT64_C(1) << 30));
    return (uint32_t)crc == m->crc ? 0 : differs(s, name);
}

int
zip_check_stored(const struct source *s, const struct zip_member *m, const char *name)
{
    int64_t at = 0, n;
    uLong crc = crc32(0, NULL, 0);
    TRY(zip_stored(s, m, &at));
    uint8_t *block = must_alloc(BLOCK);
    int status = 0;
    for (int64_t i = 0; i < m->bytes && !status; i += n) {
        n = MIN(m->bytes - i, (int64_t)BLOCK);
        status = source_read(s, at + i, block, n);
        if (!status) crc = crc32(crc, block, (uInt)n);
    }
    free(block);
    TRY(status);
    return (uint32_t)crc == m->crc ? 0 : differs(s, name);
}
