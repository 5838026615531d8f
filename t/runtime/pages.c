/* pages.c - tests of blocks that share huge pages: blocks do not overlap, use huge pages, and are returned to the host.
 */
#include "runtime/data/pages.h"
#include "t/lib/tap.h"

enum { KB = 1 << 10, MB = 1 << 20 };

/* Returns a field of /proc/self/smaps_rollup, bytes: resident memory, or memory on huge pages. */
static size_t
rollup(const char *field)
{
    char line[256];
    size_t kb = 0, n = strlen(field);
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, n)) kb = strtoul(line + n, NULL, 10);
    if (f) fclose(f);
    return kb * KB;
}

static size_t
resident(void)
{
    return rollup("Rss:");
}

static bool
huge_pages_are_given(void)
{
    char text[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f && !fgets(text, sizeof text, f)) text[0] = 0;
    if (f) fclose(f);
    return strchr(text, '[') && !strstr(text, "[never]");
}

/* Allocates and frees random blocks. Checks that blocks do not overlap, and that all memory is returned to the host. */
static void
test_random(void)
{
    enum { N = 32, TURNS = 3000 };
    uint64_t state = seed_of(1);
    char *p[N] = {0};
    size_t bytes[N] = {0}, before = resident();
    int spoilt = 0, misaligned = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        int i = (int)(next_random(&state) % N);
        for (size_t at = 0; at < bytes[i]; at += 4 * KB) spoilt += p[i][at] != (char)i;
        if (bytes[i]) spoilt += p[i][bytes[i] - 1] != (char)i, pages_give(p[i], bytes[i]);
        uint64_t kind = next_random(&state) % 24;
        size_t least = kind < 8 ? PAGES_LEAST : HUGE_PAGE, most = kind < 8 ? HUGE_PAGE : kind < 10 ? 42 * MB : 10 * MB;
        bytes[i] = kind < 16 ? least + next_random(&state) % (most - least) : 0;
        if (!bytes[i]) continue;
        p[i] = pages_take(bytes[i]);
        misaligned += !p[i] || (uintptr_t)p[i] % (4 * KB) != 0;
        for (size_t at = 0; at < bytes[i]; at += 4 * KB) p[i][at] = (char)i;
        p[i][bytes[i] - 1] = (char)i;
    }
    is_int(spoilt, 0, "no two blocks share a byte");
    is_int(misaligned, 0, "each block begins at a page");
    for (int i = 0; i < N; i++)
        if (bytes[i]) pages_give(p[i], bytes[i]);
    ok(resident() < before + 4 * MB, "all blocks return to the host");
    ok(!pages_take(SIZE_MAX - 10) && !pages_take(SIZE_MAX / 4), "a block larger than any host's memory is refused");
}

/* Tests blocks with the sizes of weights and caches: eight sizes from each power of two to the next. */
static void
test_huge(void)
{
    enum { N = 24 };
    for (size_t size = 0; size < 40; size++) {
        size_t bytes = (8 + size % 8) * (16 * KB << size / 8), before = rollup("AnonHugePages:"), rss = resident();
        char *p[N];
        for (int i = 0; i < N; i++) memset(p[i] = pages_take(bytes), 1, bytes);
        size_t on_huge = rollup("AnonHugePages:") - before, grown = resident() - rss;
        if (huge_pages_are_given())
            ok(on_huge >= (N * bytes) / 100 * 95, "blocks of %zu KB: %zu MB of %zu on huge pages", bytes / KB,
               on_huge / MB, N * bytes / MB);
        ok(grown <= N * bytes + 3 * HUGE_PAGE, "the blocks use %zu MB of the host's memory", grown / MB);
        for (int i = 0; i < N; i += 4) /* frees three adjacent blocks of every four */
            for (int k = 1; k < 4; k++) pages_give(p[i + k], bytes);
        size_t left = resident() - rss, most = N / 4 * (bytes / HUGE_PAGE + 2) * HUGE_PAGE;
        ok(left <= most, "freed blocks return to the host, except pages shared with live blocks: %zu of %zu MB",
           left / MB, most / MB);
        for (int i = 0; i < N; i += 4) pages_give(p[i], bytes);
        ok(resident() <= rss + MB, "in the end all memory returns to the host");
    }
}

int
main(void)
{
    test_random();
    test_huge();
    return done();
}
