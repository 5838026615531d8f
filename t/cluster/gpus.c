/* Tests of actors/cluster/wire/gpus.c and devices.c: the parser of a worker's report of its GPUs accepts valid
 * reports only, and device lists are compared with the report. */
#include "actors/cluster/wire/devices.h"
#include "actors/cluster/wire/gpus.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#define UUID(c) "000000000000000000000000000000" c
static const char report[] = "NVRTC 12.8, not kept|9.0 85899345920 " UUID("0a") " NVIDIA H100 80GB|8.6 0 " UUID(
    "ff") " |12.0 1 " UUID("01") " x|";

static void
test_read(void)
{
    struct cuda_gpu g;
    struct str kernels = {0};
    ok(!gpus_check(report, 3), "a worker's report of its GPUs is accepted");
    gpus_read(report, 0, &g, &kernels);
    ok(g.major == 9 && g.minor == 0 && g.bytes == 85899345920 && !strcmp(g.name, "NVIDIA H100 80GB") &&
           !strcmp(str_text(&kernels), "NVRTC 12.8, not kept"),
       "a GPU of the report is read");
    gpus_read(report, 1, &g, &kernels);
    ok(g.major == 8 && g.minor == 6 && g.bytes == 0 && !*g.name, "a GPU without a name is read");
    str_free(&kernels);
    ok(!gpus_check("", 0), "a worker without GPUs reports an empty text");
}

/* Changes or truncates a report of GPUs. gpus_read() must accept or reject the report, and must not read beyond
 * its end. */
static void
test_damaged(void)
{
    char text[sizeof report];
    int taken = 0;
    for (size_t n = 0; n < sizeof report - 1; n++) {
        memcpy(text, report, n);
        text[n] = '\0';
        taken += !gpus_check(text, 3);
        err_clear();
    }
    ok(taken == 0, "every truncated report is refused");
    for (int n = -1; n < 6; n++) taken += n != 3 && !gpus_check(report, n);
    err_clear();
    ok(taken == 0, "a report for another number of devices is refused");
    for (size_t i = 0; i < sizeof report - 1; i++)
        for (int c = 1; c < 256; c++) {
            struct cuda_gpu g;
            struct str kernels = {0};
            memcpy(text, report, sizeof report);
            text[i] = (char)c;
            for (int d = 0; !gpus_check(text, 3) && d < 3; d++) gpus_read(text, d, &g, &kernels);
            str_free(&kernels);
            err_clear();
        }
    ok(true, "reports with one changed byte are read without harm");
    char name[600];
    memset(name, 'n', sizeof name);
    const char before[] = "k|9.0 1 " UUID("00") " ";
    memcpy(name, before, sizeof before - 1);
    memcpy(name + sizeof name - 2, "|", 2);
    ok(gpus_check(name, 1) == E_BUS, "a GPU name that is too long is refused");
}

/* Appends the report of n GPUs with uuids first, first + 1, ... */
static void
tell(int first, int n, struct str *out)
{
    str_add(out, "k|");
    for (int i = 0; i < n; i++) str_addf(out, "9.0 1 %032x x|", (unsigned)(first + i));
}

/* Checks gpus_share(), which returns whether two workers have a GPU in common. In one case, each worker has the
 * maximum number of GPUs. */
static void
test_share(void)
{
    enum { MANY = 4096 };
    static const struct {
        int first, n, other, nother;
        bool share;
    } row[] = {
        {0, 0, 0, 0, false}, {0, 1, 1, 1, false},          {5, 1, 5, 1, true},
        {0, 8, 8, 8, false}, {0, 8, 7, 8, true},           {7, 8, 0, 8, true},
        {0, 4, 2, 1, true},  {0, MANY, MANY, MANY, false}, {0, MANY, MANY - 1, MANY, true},
    };
    for (size_t i = 0; i < countof(row); i++) {
        struct str text = {0}, other = {0};
        tell(row[i].first, row[i].n, &text);
        tell(row[i].other, row[i].nother, &other);
        bool good = !gpus_check(row[i].n ? str_text(&text) : "", row[i].n);
        ok(good && gpus_share(str_text(&text), str_text(&other)) == row[i].share,
           "%d GPUs from uuid %d and %d from uuid %d %s", row[i].n, row[i].first, row[i].nother, row[i].other,
           row[i].share ? "have a GPU in common" : "have no GPU in common");
        str_free(&text);
        str_free(&other);
    }
    ok(!gpus_share("", report) && !gpus_share(report, "") && gpus_share(report, report),
       "an empty report has no GPU in common with any");
}

static void
test_lists(void)
{
    static const struct {
        const char *wanted, *has;
        bool suits;
    } row[] = {
        {"cuda:all,cpu:1", "cuda:0x1,cuda:1x1,cpu:1", true},
        {"cuda:all,cpu:1", "cuda:0x2,cpu:1", false},
        {"cuda:all,cpu:1", "cpu:1", false},
        {"cuda:all,cpu:1", "cuda:0x1,cpu:2", false},
        {"cuda:0,cuda:2x3,cpu:1", "cuda:0x1,cuda:2x3,cpu:1", true},
        {"cuda:0,cpu:1", "cuda:1x1,cpu:1", false},
        {"cuda:0x2,cpu:1", "cuda:0x3,cpu:1", false},
        {"cpu:1,cuda:0", "cuda:0x1,cpu:1", false},
        {"cuda,cpu:1", "cuda:0x1,cpu:1", true},
        {"cpu:2", "cpu:2", true},
        {"async:1,cpu:2", "async:1,cpu:2", true},
        {"cpu:2", "cpu:2,cuda:0", false},
    };
    for (size_t i = 0; i < countof(row); i++) {
        struct device_counts wanted, has, again;
        struct str text = {0};
        bool read =
            !device_counts_parse(row[i].wanted, false, &wanted) && !device_counts_parse(row[i].has, false, &has);
        ok(read && device_counts_suit(&wanted, &has) == row[i].suits, "a request for %s %s %s", row[i].wanted,
           row[i].suits ? "accepts" : "does not accept", row[i].has);
        device_counts_print(&has, &text);
        ok(!device_counts_parse(str_text(&text), false, &again) && device_counts_suit(&has, &again),
           "%s is printed and read back", row[i].has);
        str_free(&text);
    }
    static const char *const refused[] = {"cuda:",         "cuda:x",        "cuda:0x",       "cuda:0x0",
                                          "cuda:0,cuda:0", "cuda:all,cuda", "cuda,cuda:all", "cuda:all,cuda:all",
                                          "cuda:0x65",     "cuda:-1",       "cuda:1 "};
    for (size_t i = 0; i < countof(refused); i++) {
        struct device_counts d;
        ok(device_counts_parse(refused[i], false, &d) == E_PLACE, "\"%s\" is refused: %s", refused[i], err_text());
        err_clear();
    }
}

int
main(void)
{
    test_read();
    test_damaged();
    test_share();
    test_lists();
    return done();
}
