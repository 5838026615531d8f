/* segment.c - a host's shared memory file, and the allocator of its bytes.
 *
 * A large allocation is a number of whole pages, found by first fit in a list of free ranges in address order; free
 * neighbours are merged. A small allocation is a cell of a size class, cut from a chunk of cells of that class;
 * chunks are never freed. The device pools (runtime/device/device.c) reuse buffers, so a training step normally
 * makes no allocation in a segment. */
#include "actors/cluster/memory/segment.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* size classes of cells: 64, 128, ... 2048 bytes */
enum { ALIGN = 64, PAGE = 4096, CHUNK = 16 * PAGE, SMALL = PAGE / 2, NCLASS = 6 };

struct extent {
    size_t at, bytes;
};

struct segment {
    char name[SYSTEM_NAME]; /* name by which other processes open the memory file */
    bool made;              /* this process created the memory file */
    int fd;                 /* descriptor of the memory file; -1: an address range for the segment of another host */
    struct segment_far far;
    char *base;
    size_t bytes, used;
    struct extent *free; /* free ranges, sorted by address and never adjacent */
    int32_t nfree, free_capacity;
    struct extent *taken; /* allocated ranges of pages, sorted by address */
    int32_t ntaken, taken_capacity;
    void **cell[NCLASS]; /* by size class: a stack of free cells */
    int32_t ncell[NCLASS], cell_capacity[NCLASS];
    /* chunks (blocks that are cut into cells), sorted by address; bytes: size of a cell in the chunk */
    struct extent *chunk;
    int32_t nchunk, chunk_capacity;
};

/* ---- making and mapping ---- */

static int
map(int fd, size_t bytes, struct segment **out)
{
    void *base = fd >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0)
                         : mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return fail(E_MEMORY, "shared memory of %zu bytes: %s", bytes, strerror(errno));
    struct segment *s = must_alloc(sizeof *s);
    *s = (struct segment){.fd = fd, .base = base, .bytes = bytes};
    GROW(s->free, s->nfree + 1, s->free_capacity);
    if (bytes > SEGMENT_HEAD) s->free[s->nfree++] = (struct extent){SEGMENT_HEAD, bytes - SEGMENT_HEAD};
    *out = s;
    return 0;
}

int
segment_new(size_t bytes, struct segment **out)
{
    char name[SYSTEM_NAME];
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    int fd = system_memory_new(bytes, name);
    if (fd < 0)
        return fail(E_MEMORY, "shared memory of %zu bytes: %s%s", bytes, strerror(errno),
                    errno == EFBIG ? "; increase the largest size of a file (ulimit -f)" : "");
    int status = map(fd, bytes, out);
    if (!status) {
        memcpy((*out)->name, name, sizeof name);
        (*out)->made = true;
        return 0;
    }
    system_memory_unlink(name);
    close(fd);
    return status;
}

int
segment_open(const char *path, size_t bytes, struct segment **out)
{
    char name[SYSTEM_NAME];
    int fd = bytes ? system_memory_open(path, bytes, name) : (errno = EINVAL, -1);
    if (fd < 0 && errno == EINVAL)
        return fail(E_IO, "shared memory %s: kind or size of the file differ from those that the coordinator sent",
                    path);
    if (fd < 0) return fail(E_IO, "shared memory %s: %s", path, strerror(errno));
    int status = map(fd, bytes, out);
    if (status)
        close(fd);
    else
        memcpy((*out)->name, name, sizeof name);
    return status;
}

int
segment_far(size_t bytes, const struct segment_far *far, struct segment **out)
{
    TRY(map(-1, (bytes + PAGE - 1) / PAGE * PAGE, out));
    (*out)->far = *far;
    return 0;
}

void
segment_free(struct segment **sp)
{
    struct segment *s = *sp;
    *sp = NULL;
    if (!s) return;
    munmap(s->base, s->bytes);
    if (s->made) system_memory_unlink(s->name);
    if (s->fd >= 0) close(s->fd);
    for (int c = 0; c < NCLASS; c++) free(s->cell[c]);
    free(s->free);
    free(s->taken);
    free(s->chunk);
    free(s);
}

void
segment_path(const struct segment *s, char path[SEGMENT_PATH])
{
    memcpy(path, s->name, SEGMENT_PATH);
}

size_t
segment_bytes(const struct segment *s)
{
    return s->bytes;
}

char *
segment_base(const struct segment *s)
{
    return s->base;
}

size_t
segment_used(const struct segment *s)
{
    return s->used;
}

/* ---- pages ---- */

int
segment_hold(struct segment *s, size_t at, size_t bytes, bool give)
{
    if (s->fd < 0) return s->far.hold(s->far.of, at, bytes, give);
    char limit[LIMIT_REASON];
    if (!give && !limits_fits(0, bytes))
        return fail(E_MEMORY, "shared memory: needs %zu bytes, more than the %s", bytes, limits_refusal(limit));
    if (!system_memory_pages(s->fd, s->base, at, bytes, give)) return 0;
    return fail(E_MEMORY, "shared memory: cannot allocate pages: %s", strerror(errno));
}

int
segment_renew(struct segment *s)
{
    for (int32_t i = 0; i < s->ntaken; i++) TRY(segment_hold(s, s->taken[i].at, s->taken[i].bytes, false));
    return 0;
}

/* Returns the index of the first range that begins at or above `at`; n: none. */
static int32_t
first_extent_from(const struct extent *list, int32_t n, size_t at)
{
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (list[mid].at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void
insert_extent(struct extent *list, int32_t *n, int32_t i, struct extent e)
{
    memmove(list + i + 1, list + i, sizeof e * (size_t)(*n - i));
    list[i] = e;
    ++*n;
}

static void delete (struct extent *list, int32_t *n, int32_t i)
{
    memmove(list + i, list + i + 1, sizeof *list * (size_t)(*n - i - 1));
    --*n;
}

static void
free_extent(struct segment *s, struct extent e)
{
    int32_t i = first_extent_from(s->free, s->nfree, e.at);
    bool left = i > 0 && s->free[i - 1].at + s->free[i - 1].bytes == e.at;
    bool right = i < s->nfree && e.at + e.bytes == s->free[i].at;
    if (left) {
        s->free[i - 1].bytes += e.bytes;
        if (!right) return;
        s->free[i - 1].bytes += s->free[i].bytes;
        delete (s->free, &s->nfree, i);
    } else if (right) {
        s->free[i].at = e.at;
        s->free[i].bytes += e.bytes;
    } else {
        GROW(s->free, s->nfree + 1, s->free_capacity);
        insert_extent(s->free, &s->nfree, i, e);
    }
}

static char *
take_pages(struct segment *s, size_t bytes)
{
    int32_t i = 0;
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    while (i < s->nfree && s->free[i].bytes < bytes) i++;
    if (i == s->nfree) return NULL;
    struct extent e = {s->free[i].at, bytes};
    if (segment_hold(s, e.at, e.bytes, false)) return NULL;
    s->free[i].at += bytes;
    s->free[i].bytes -= bytes;
    if (s->free[i].bytes == 0) delete (s->free, &s->nfree, i);
    GROW(s->taken, s->ntaken + 1, s->taken_capacity);
    insert_extent(s->taken, &s->ntaken, first_extent_from(s->taken, s->ntaken, e.at), e);
    return s->base + e.at;
}

static void
give_pages(struct segment *s, size_t at)
{
    int32_t i = first_extent_from(s->taken, s->ntaken, at);
    assert(i < s->ntaken && s->taken[i].at == at);
    struct extent e = s->taken[i];
    delete (s->taken, &s->ntaken, i);
    s->used -= e.bytes;
    if (segment_hold(s, e.at, e.bytes, true)) err_clear();
    free_extent(s, e);
}

/* ---- cells ---- */

static int
segment_class(size_t bytes)
{
    int c = 0;
    while ((size_t)ALIGN << c < bytes) c++;
    return c;
}

static void
push_cell(struct segment *s, int c, void *p)
{
    GROW(s->cell[c], s->ncell[c] + 1, s->cell_capacity[c]);
    s->cell[c][s->ncell[c]++] = p;
}

static bool
cut_chunk(struct segment *s, int c)
{
    char *p = take_pages(s, CHUNK);
    size_t size = (size_t)ALIGN << c;
    if (!p) return false;
    GROW(s->chunk, s->nchunk + 1, s->chunk_capacity);
    size_t at = (size_t)(p - s->base);
    insert_extent(s->chunk, &s->nchunk, first_extent_from(s->chunk, s->nchunk, at), (struct extent){at, size});
    for (size_t i = CHUNK / size; i > 0; i--) push_cell(s, c, p + (i - 1) * size);
    return true;
}

void *
segment_take(struct segment *s, size_t bytes)
{
    if (bytes > s->bytes) return NULL;
    if (bytes > SMALL) {
        char *p = take_pages(s, bytes);
        if (p) s->used += (bytes + PAGE - 1) / PAGE * PAGE;
        return p;
    }
    int c = segment_class(bytes);
    if (s->ncell[c] == 0 && !cut_chunk(s, c)) return NULL;
    s->used += (size_t)ALIGN << c;
    return s->cell[c][--s->ncell[c]];
}

void
segment_give(struct segment *s, void *p)
{
    if (!p) return;
    size_t at = (size_t)((char *)p - s->base);
    int32_t i = first_extent_from(s->chunk, s->nchunk, at + 1) - 1;
    if (i < 0 || at >= s->chunk[i].at + CHUNK) {
        give_pages(s, at);
        return;
    }
    s->used -= s->chunk[i].bytes;
    push_cell(s, segment_class(s->chunk[i].bytes), p);
}
