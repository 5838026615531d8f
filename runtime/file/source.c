/* source.c - a file to read from: bytes at positions, or an error. */
#include "runtime/file/source.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian and read as the host has numbers");

static int
open_plain(const char *path, int *fd, int64_t *size)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return fail(E_IO, "%s: %s", path, strerror(errno));
    int status = fstat(*fd, &st)        ? fail(E_IO, "%s: %s", path, strerror(errno))
                 : !S_ISREG(st.st_mode) ? fail(E_IO, "%s: not a plain file", path)
                                        : 0;
    if (status) close(*fd);
    *size = (int64_t)st.st_size;
    return status;
}

int
source_open(const char *path, struct source **out)
{
    int fd;
    int64_t size = 0;
    TRY(open_plain(path, &fd, &size));
    *out = source_of_bytes(path, NULL, 0);
    (*out)->fd = fd;
    (*out)->size = size;
    return 0;
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

void
source_close(struct source **sp)
{
    struct source *s = *sp;
    *sp = NULL;
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    free(s->bytes);
    free(s->name);
    free(s);
}

static int
too_short(const struct source *s, int64_t offset, int64_t n)
{
    return fail(E_IO, "%s: it ends too early: %lld bytes are wanted from position %lld on, the file has %lld", s->name,
                (long long)n, (long long)offset, (long long)s->size);
}

int
source_read(const struct source *s, int64_t offset, void *out, int64_t n)
{
    assert(offset >= 0 && n >= 0);
    if (n > s->size || offset > s->size - n) return too_short(s, offset, n);
    if (s->fd < 0) {
        if (n) memcpy(out, s->bytes + offset, (size_t)n);
        return 0;
    }
    for (int64_t got = 0; got < n;) {
        ssize_t k = pread(s->fd, (char *)out + got, (size_t)(n - got), (off_t)(offset + got));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fail(E_IO, "%s: %s", s->name, strerror(errno));
        if (k == 0) return fail(E_IO, "%s: it was cut off while it was read", s->name);
        got += k;
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
        status = fail(E_IO, "%s: it has %lld bytes, more than the %lld that such a file may have", path,
                      (long long)s->size, (long long)most);
    if (!status && !(text = malloc((size_t)s->size + 1)))
        status = fail(E_MEMORY, "%s: no memory for %lld bytes", path, (long long)s->size);
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

/* ---- cursors ---- */

void
cursor_init(struct cursor *c, const struct source *s, const char *what)
{
    *c = (struct cursor){.source = s, .what = what, .limit = s->size};
}

static int
ends_early(const struct cursor *c)
{
    return fail(E_IO, "%s: not %s: it ends too early", c->source->name, c->what);
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
