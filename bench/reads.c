/* reads.c - times reading a file that is in the page cache.
 *
 *   bench/reads [MiB = 500] [turns = 9]
 *
 * Compares three methods: pread, by which Rille reads files (runtime/file/disk/source.h); a new mapping in each turn;
 * and the limit, a copy from the process's own memory. First reads the complete file in pieces, as loading tensors
 * does. Then reads windows of ids at random places, as loading batches does. The least time of all turns counts. */
#include "bench/clock.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/llmc.h"
#include "runtime/data/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 4 << 20, WINDOW = 1024, WINDOWS = 50000, HEAD = 1024 };
enum method { SOURCE, MAPPING, MEMORY, NMETHOD };
static const char *const way_text[] = {"a source, by pread", "a mapping", "memory, the limit"};

static struct source *source[NMETHOD];
static char *room; /* buffer into which all methods read */

static double
whole_ms(enum method method, int64_t bytes)
{
    double start = now_us();
    for (int64_t at = 0, n; at < bytes; at += n) {
        n = MIN(bytes - at, PIECE);
        if (source_read(source[method], at, room + at, n)) return -1;
    }
    return (now_us() - start) / 1e3;
}

static double
window_us(enum method method, int64_t bytes)
{
    static int64_t id[WINDOW];
    const struct token_file f = {source[method], (bytes - HEAD) / 2, HEAD, 2};
    uint64_t state = 1;
    double start = now_us();
    for (int i = 0; i < WINDOWS; i++) {
        /* linear congruential generator (Knuth, TAOCP 2) */
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (token_file_read(&f, (int64_t)((state >> 20) % (uint64_t)(f.n - WINDOW)), WINDOW, id)) return -1;
    }
    return (now_us() - start) / WINDOWS;
}

static int
map(int64_t bytes)
{
    struct source *s = source[MAPPING];
    if (s->bytes) munmap(s->bytes, (size_t)bytes);
    s->bytes = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, source[SOURCE]->fd, 0);
    return s->bytes == MAP_FAILED ? fail(E_IO, "%s cannot be mapped", s->name) : 0;
}

/* Creates three copies of the same bytes: in an unnamed file, in a mapping of the file, and in memory. */
static int
make(int64_t bytes)
{
    char name[] = "/tmp/reads-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0) return fail(E_IO, "%s cannot be made", name);
    unlink(name);
    char *memory = must_alloc((size_t)bytes);
    for (int64_t i = 0; i < bytes; i += 4096) memset(memory + i, (int)(i >> 12 & 127), (size_t)MIN(bytes - i, 4096));
    for (int64_t at = 0; at < bytes;) {
        ssize_t n = write(fd, memory + at, (size_t)(bytes - at));
        if (n <= 0) return fail(E_IO, "%s cannot be written", name);
        at += n;
    }
    source[MAPPING] = source_of_bytes(name, NULL, (size_t)bytes);
    source[MEMORY] = source_of_bytes("memory", memory, (size_t)bytes);
    return source_take(name, fd, &source[SOURCE]);
}

int
main(int argc, char **argv)
{
    int64_t bytes = (int64_t)(argc > 1 ? atoi(argv[1]) : 500) << 20;
    int turns = argc > 2 ? atoi(argv[2]) : 9;
    double whole[NMETHOD], window[NMETHOD];
    if (bytes <= PIECE || turns < 1) return fprintf(stderr, "reads [MiB > 4] [turns > 0]\n"), 1;
    room = pages_take((size_t)bytes);
    if (make(bytes)) return fprintf(stderr, "%s\n", err_text()), 1;
    for (int t = 0; t < turns; t++)
        for (int w = 0; w < NMETHOD; w++) {
            int status = w == MAPPING ? map(bytes) : 0;
            double ms = status ? -1 : whole_ms((enum method)w, bytes),
                   us = status ? -1 : window_us((enum method)w, bytes);
            if (ms < 0 || us < 0) return fprintf(stderr, "%s\n", err_text()), 1;
            whole[w] = t ? fmin(whole[w], ms) : ms;
            window[w] = t ? fmin(window[w], us) : us;
        }
    printf("%-20s %18s %24s\n", "from", "all, ms", "1024 ids of u16, us");
    for (int w = 0; w < NMETHOD; w++) printf("%-20s %18.1f %24.2f\n", way_text[w], whole[w], window[w]);
    munmap(source[MAPPING]->bytes, (size_t)bytes);
    source[MAPPING]->bytes = NULL;
    for (int w = 0; w < NMETHOD; w++) source_close(&source[w]);
    pages_give(room, (size_t)bytes);
    return 0;
}
