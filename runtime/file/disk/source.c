/* source.c - reads bytes at given positions from a file or from memory. */
#include "runtime/file/disk/source.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the host must be little-endian, like the files");

/* Returns true if the file is a pointer of Git LFS: a short text that a clone without LFS has in place of the file. */
static bool
is_lfs_pointer(int fd, int64_t size)
{
    enum { MOST = 1024 };
    static const char start[] = "version https://git-lfs.github.com/spec/";
    char text[sizeof start - 1];
    return size < MOST && pread(fd, text, sizeof text, 0) == (ssize_t)sizeof text && !memcmp(text, start, sizeof text);
}

int
source_take(const char *name, int fd, struct source **out)
{
    struct stat st;
    int status = fstat(fd, &st)         ? fail(E_IO, "%s: %s", name, strerror(errno))
                 : !S_ISREG(st.st_mode) ? fail(E_IO, "%s: not a regular file", name)
                 : is_lfs_pointer(fd, st.st_size)
                     ? fail(E_IO, "%s: a pointer of Git LFS, not the file itself; run git lfs pull in its folder", name)
                     : 0;
    if (status) {
        close(fd);
        return status;
    }
    *out = source_of_bytes(name, NULL, 0);
    (*out)->fd = fd;
    (*out)->size = (int64_t)st.st_size;
    return 0;
}

int
source_open(const char *path, struct source **out)
{
    int fd;
    if (store_is_url(path)) {
        TRY(store_get(path, &fd));
        return source_take(path, fd, out);
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) return source_take(path, fd, out);
    return fail(E_IO, "%s: %s", path, errno == ENXIO ? "not a regular file" : strerror(errno)); /* ENXIO: a socket */
}

struct source *
source_of_bytes(const char *name, void *bytes, size_t n)
{
    struct source *s = must_alloc(sizeof *s);
    s->name = must_alloc(strlen(name) + 1);
    memcpy(s->name, name, strlen(name));
    s->fd = -1;
    s->bytes = bytes;
    s->size = (int64_t)n;
    return s;
}

struct source *
source_later(const char *url, int64_t size)
{
    struct source *s = source_of_bytes(url, NULL, (size_t)size);
    s->later = true;
    return s;
}

void
source_close(struct source **sp)
{
    struct source *s = *sp;
    *sp = NULL;
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    free(s->bytes);
    free(s->blocks);
    free(s->name);
    free(s);
}

static int
too_short(const struct source *s, int64_t offset, int64_t n)
{
    return fail(E_IO, "%s: truncated: expected %lld bytes from position %lld on, the file has %lld", s->name,
                (long long)n, (long long)offset, (long long)s->size);
}

static int
read_file_bytes(const char *name, int fd, int64_t offset, char *out, int64_t n)
{
    for (int64_t got = 0; got < n;) {
        ssize_t k = pread(fd, out + got, (size_t)(n - got), (off_t)(offset + got));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fail(E_IO, "%s: %s", name, strerror(errno));
        if (k == 0) return fail(E_IO, "%s: truncated while it was being read", name);
        got += k;
    }
    return 0;
}

/* Reads from an object, which store_get() fetches once for all reads. */
static int
read_later(const struct source *s, int64_t offset, void *out, int64_t n)
{
    int fd;
    struct stat st;
    TRY(store_get(s->name, &fd));
    int status = fstat(fd, &st) ? fail(E_IO, "%s: %s", s->name, strerror(errno)) : 0;
    if (!status && st.st_size != s->size)
        status = fail(E_IO, "%s: damaged: it has %lld bytes, expected %lld", s->name, (long long)st.st_size,
                      (long long)s->size);
    if (!status) status = read_file_bytes(s->name, fd, offset, out, n);
    close(fd);
    return status;
}

static int
read_source_bytes(const struct source *s, int64_t offset, void *out, int64_t n)
{
    if (s->later) return read_later(s, offset, out, n);
    if (s->fd >= 0) return read_file_bytes(s->name, s->fd, offset, out, n);
    if (n) memcpy(out, s->bytes + offset, (size_t)n);
    return 0;
}

/* ---- verifying the digests of blocks ---- */

struct blocks {
    int64_t first, n;
    atomic_bool *good; /* by block: true if it was verified; the array follows the digests in memory */
    uint64_t digest[];
};

int64_t
source_blocks(int64_t bytes)
{
    return (bytes + SOURCE_BLOCK - 1) / SOURCE_BLOCK;
}

uint64_t
source_digest(const void *block, size_t n)
{
    return XXH3_64bits(block, n);
}

void
source_expect(struct source *s, int64_t first, int64_t n, const uint64_t *digest)
{
    struct blocks *b = must_alloc(sizeof *b + (sizeof *b->digest + sizeof *b->good) * (size_t)n);
    *b = (struct blocks){first, n, (atomic_bool *)(b->digest + n)};
    if (n) memcpy(b->digest, digest, sizeof *digest * (size_t)n);
    free(s->blocks);
    s->blocks = b;
}

const uint64_t *
source_digests(const struct source *s)
{
    return s->blocks ? s->blocks->digest : NULL;
}

/* Reads n bytes at `at`, within block i. The first read of a block reads all of it, verifies its digest, and
 * returns the verified bytes. */
static int
read_checked(const struct source *s, int64_t i, int64_t at, char *out, int64_t n)
{
    struct blocks *b = s->blocks;
    int64_t from = i * SOURCE_BLOCK, whole = MIN((int64_t)SOURCE_BLOCK, s->size - from);
    if (i < b->first || i >= b->first + b->n || atomic_load(&b->good[i - b->first]))
        return read_source_bytes(s, at, out, n);
    char *bytes = must_alloc((size_t)whole);
    int status = read_source_bytes(s, from, bytes, whole);
    if (!status && source_digest(bytes, (size_t)whole) != b->digest[i - b->first])
        status = fail(E_IO, "%s: damaged: the checksum of the bytes from position %lld on does not match", s->name,
                      (long long)from);
    if (!status) {
        memcpy(out, bytes + (at - from), (size_t)n);
        atomic_store(&b->good[i - b->first], true);
    }
    free(bytes);
    return status;
}

int
source_read(const struct source *s, int64_t offset, void *out, int64_t n)
{
    assert(offset >= 0 && n >= 0);
    if (n > s->size || offset > s->size - n) return too_short(s, offset, n);
    if (!s->blocks) return read_source_bytes(s, offset, out, n);
    for (int64_t done = 0, m; done < n; done += m) {
        int64_t at = offset + done;
        m = MIN(n - done, SOURCE_BLOCK - at % SOURCE_BLOCK);
        TRY(read_checked(s, at / SOURCE_BLOCK, at, (char *)out + done, m));
    }
    return 0;
}

int
source_whole(const char *path, int64_t most, char **out, size_t *n)
{
    struct source *s;
    TRY(source_open(path, &s));
    char *text = NULL;
    int status = 0;
    if (s->size > most)
        status = fail(E_IO, "%s: has %lld bytes, more than the %lld that such a file may have", path,
                      (long long)s->size, (long long)most);
    if (!status && !(text = malloc((size_t)s->size + 1)))
        status = fail(E_MEMORY, "%s: out of memory for %lld bytes", path, (long long)s->size);
    if (!status) status = source_read(s, 0, text, s->size);
    if (status) {
        free(text);
    } else {
        text[s->size] = '\0';
        *out = text;
        *n = (size_t)s->size;
    }
    source_close(&s);
    return status;
}

/* ---- reading numbers by a cursor ---- */

void
cursor_init(struct cursor *c, const struct source *s, const char *what)
{
    *c = (struct cursor){.source = s, .what = what, .limit = s->size};
}

static int
ends_early(const struct cursor *c)
{
    return fail(E_IO, "%s: not %s: the file is too short", c->source->name, c->what);
}

static int
refill(struct cursor *c)
{
    c->first = c->at;
    c->nblock = (int32_t)MIN((int64_t)sizeof c->block, c->limit - c->at);
    return source_read(c->source, c->at, c->block, c->nblock);
}

int
cursor_take(struct cursor *c, void *out, int64_t n)
{
    if (n < 0 || n > c->limit - c->at) return ends_early(c);
    if (n > (int64_t)sizeof c->block) {
        TRY(source_read(c->source, c->at, out, n));
    } else {
        if (c->at < c->first || c->at + n > c->first + c->nblock) TRY(refill(c));
        if (n) memcpy(out, c->block + (c->at - c->first), (size_t)n);
    }
    c->at += n;
    return 0;
}

int
cursor_skip(struct cursor *c, int64_t n)
{
    if (n < 0 || n > c->limit - c->at) return ends_early(c);
    c->at += n;
    return 0;
}

int
cursor_u32(struct cursor *c, uint32_t *out)
{
    return cursor_take(c, out, sizeof *out);
}

int
cursor_u64(struct cursor *c, uint64_t *out)
{
    return cursor_take(c, out, sizeof *out);
}
