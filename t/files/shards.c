/* Tests of runtime/file/shards.c and root.c. Any box of a tensor that was written in shards must be readable. A
 * changed manifest must be rejected, or cause no read outside the files. No path may lead out of a root folder. */
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/file/disk/pieces.h"
#include "runtime/file/disk/root.h"
#include "runtime/file/disk/save.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/safetensors_save.h"
#include "runtime/file/shards.h"
#include "t/lib/tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static char folder[] = "/tmp/rille-shards-XXXXXX";

static void
path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
}

static void
put_file(const char *name, const void *bytes, size_t n)
{
    char path[128];
    path_of(name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) exit(1);
    close(fd);
}

/* ---- reading tensors that were written in shards ---- */

enum { SIZE = 4 * 5 * 6, FILES = 2 };
static const int64_t shape[3] = {4, 5, 6};

/* A tensor written in shards. The mesh cuts each axis into equal parts. Every second shard is in the second file. */
struct written {
    struct shard_part part[SIZE];
    int32_t n;
    int32_t bytes[FILES][SIZE]; /* by file: its elements; an element's value is its linear index in the tensor */
    int64_t size[FILES];
};

static void
put_box(struct written *w, const struct box *b)
{
    int32_t file = w->n % FILES;
    w->part[w->n++] = (struct shard_part){.file = file, .at = w->size[file] * 4, .box = *b};
    for (int64_t i = b->lo[0]; i < b->hi[0]; i++)
        for (int64_t j = b->lo[1]; j < b->hi[1]; j++)
            for (int64_t k = b->lo[2]; k < b->hi[2]; k++)
                w->bytes[file][w->size[file]++] = (int32_t)((i * shape[1] + j) * shape[2] + k);
}

static void
cut(struct written *w, const int64_t cuts[3])
{
    *w = (struct written){0};
    for (int64_t i = 0; i < cuts[0] * cuts[1] * cuts[2]; i++) {
        int64_t at[3] = {i / cuts[2] / cuts[1], i / cuts[2] % cuts[1], i % cuts[2]};
        struct box b = {0};
        for (int d = 0; d < 3; d++) shard_range(shape[d], 0, cuts[d], at[d], &b.lo[d], &b.hi[d]);
        if (box_numel(&b, 3)) put_box(w, &b);
    }
}

static void
write_all(const struct written *w, struct str *text)
{
    struct shard_value v = {.name = "v", .type = type_of(DT_I32, 3, shape), .npart = w->n, .part = w->part};
    static const char *const name[FILES] = {"a.0.shard", "a.1.shard"};
    uint64_t digest[FILES];
    struct shard_file file[FILES];
    for (int i = 0; i < FILES; i++) {
        put_file(name[i], w->bytes[i], 4 * (size_t)w->size[i]);
        digest[i] = source_digest(w->bytes[i], 4 * (size_t)w->size[i]);
        file[i] = (struct shard_file){name[i], 4 * w->size[i], &digest[i]};
    }
    if (shards_write(FILES, file, 1, &v, text)) exit(1);
    char path[128];
    path_of("a.safetensors", path);
    struct save_text says = {SHARDS_KEY, text->text};
    if (safetensors_save(path, 0, NULL, &(struct safetensors_options){&says, 1, true})) exit(1);
}

/* Reads a box of the tensor. Returns the number of elements that differ from the written ones. */
static int
wrong_in(struct tensors *f, const struct box *b)
{
    int32_t got[SIZE], n = 0;
    int wrong = 0;
    memset(got, 0xff, sizeof got);
    if (entry_read(f, 0, b, DT_NONE, got)) return 1;
    for (int64_t i = b->lo[0]; i < b->hi[0]; i++)
        for (int64_t j = b->lo[1]; j < b->hi[1]; j++)
            for (int64_t k = b->lo[2]; k < b->hi[2]; k++) wrong += got[n++] != (i * shape[1] + j) * shape[2] + k;
    return wrong + (n < SIZE && got[n] != -1);
}

static int
wrong_in_all(struct tensors *f, int *boxes)
{
    int wrong = 0;
    struct box b;
    for (b.lo[0] = 0; b.lo[0] < 4; b.lo[0]++)
        for (b.hi[0] = b.lo[0] + 1; b.hi[0] <= 4; b.hi[0]++)
            for (b.lo[1] = 0; b.lo[1] < 5; b.lo[1]++)
                for (b.hi[1] = b.lo[1] + 1; b.hi[1] <= 5; b.hi[1]++)
                    for (b.lo[2] = 0; b.lo[2] < 6; b.lo[2]++)
                        for (b.hi[2] = b.lo[2] + 1; b.hi[2] <= 6; b.hi[2]++, ++*boxes) wrong += wrong_in(f, &b);
    return wrong;
}

static void
test_boxes(void)
{
    static const int64_t cuts[][3] = {{1, 1, 1}, {4, 1, 1}, {1, 5, 1}, {1, 1, 3}, {2, 2, 2}, {3, 1, 4}, {1, 4, 5}};
    char path[128];
    path_of("a.safetensors", path);
    for (size_t i = 0; i < countof(cuts); i++) {
        static struct written w;
        struct str text = {0};
        struct tensors *f;
        int boxes = 0;
        cut(&w, cuts[i]);
        write_all(&w, &text);
        bool open = !safetensors_verify(path) && !tensors_open(path, NULL, &f);
        int wrong = open ? wrong_in_all(f, &boxes) : 1;
        ok(!wrong, "cut into %d x %d x %d: each of %d boxes is read back unchanged", (int)cuts[i][0], (int)cuts[i][1],
           (int)cuts[i][2], boxes);
        if (open) tensors_close(&f);
        str_free(&text);
    }
}

/* ---- damaged manifests ---- */

/* Changes bytes of a manifest. The manifest must be rejected, or lead only to reads of bytes inside the files. */
static void
test_changed(uint64_t *state)
{
    enum { TIMES = 20000 };
    static struct written w;
    struct str text = {0};
    int taken = 0;
    cut(&w, (const int64_t[]){2, 2, 2});
    write_all(&w, &text);
    char path[128];
    path_of("a.safetensors", path);
    struct source *manifest = source_of_bytes(path, NULL, 0);
    for (int i = 0; i < TIMES; i++) {
        static const char digits[] = "0123456789-.\"[]{},abcdefx/";
        char *changed = must_copy(text.text, text.len + 1);
        for (int k = (int)(next_random(state) % 3); k >= 0; k--)
            changed[next_random(state) % text.len] = digits[next_random(state) % (sizeof digits - 1)];
        struct tensors f = {.path = path};
        int32_t got[2 * SIZE];
        bool opens = !shards_read(&f, manifest, changed) && f.nentry == 1 && type_numel(&f.entry[0].type) <= SIZE;
        struct box all = opens ? box_all(&f.entry[0].type) : (struct box){0};
        if (opens) taken += !entry_read(&f, 0, &all, DT_NONE, got);
        for (int32_t k = 0; k < f.nsource; k++) source_close(&f.source[k]);
        free(f.source);
        free(f.entry);
        arena_fini(&f.arena);
        free(changed);
        err_clear();
    }
    source_close(&manifest);
    ok(taken < TIMES / 2, "%d changed manifests do no harm; %d can be read", TIMES, taken);
    str_free(&text);
}

static void
test_flipped(void)
{
    static struct written w;
    struct str text = {0};
    struct tensors *f;
    char path[128];
    int refused = 0, n = 0;
    path_of("a.safetensors", path);
    cut(&w, (const int64_t[]){2, 1, 1});
    write_all(&w, &text);
    for (int64_t i = 0; i < w.size[1] * 4; i += 7, n++) {
        ((char *)w.bytes[1])[i] ^= 64;
        put_file("a.1.shard", w.bytes[1], 4 * (size_t)w.size[1]);
        ((char *)w.bytes[1])[i] ^= 64;
        struct box all = {.hi = {4, 5, 6}}, first = {.hi = {2, 5, 6}};
        int32_t got[SIZE];
        if (tensors_open(path, NULL, &f)) continue;
        refused += !entry_read(f, 0, &first, DT_NONE, got) && entry_read(f, 0, &all, DT_NONE, got) == E_IO &&
                   strstr(err_text(), "a.1.shard: damaged");
        tensors_close(&f);
    }
    is_int(refused, n, "reading a flipped bit names the damaged file, and other files are still read");
    str_free(&text);
}

/* ---- paths below a root folder ---- */

static void
test_root(void)
{
    static const struct {
        const char *path; /* relative to the folder of the test */
        bool good;
    } row[] = {
        {"/root/file", true},        {"/root/in/file", true},
        {"/rootless/file", false},   {"/root", false},
        {"/root/", false},           {"/root//file", false},
        {"/root/./file", false},     {"/root/../out", false},
        {"/root/in/../file", false}, {"/root/in/../../out", false},
        {"/root/link/file", false},  {"/root/to-out", false},
        {"/root/none/file", false},  {"/out", false},
        {"/root/..", false},
    };
    char path[128], outside[128];
    struct roots r;
    struct rooted f;
    path_of("root", path);
    mkdir(path, 0700);
    if (roots_read(path, &r)) exit(1);
    path_of("root/in", path);
    mkdir(path, 0700);
    path_of("rootless", path);
    mkdir(path, 0700);
    path_of("rootless", outside);
    path_of("root/link", path);
    if (symlink(outside, path)) exit(1);
    put_file("out", "kept", 4);
    path_of("out", outside);
    path_of("root/to-out", path);
    if (symlink(outside, path)) exit(1);
    for (size_t i = 0; i < countof(row); i++) {
        snprintf(path, sizeof path, "%s%s", folder, row[i].path);
        int read = rooted_open(&r, path, &f);
        if (!read) rooted_close(&f);
        /* true: the path is a symbolic link; rooted_create() must replace the link by a file */
        bool link = strstr(path, "to-out");
        int status = rooted_create(&r, path, &f);
        if (!status) rooted_close(&f);
        ok(status == (row[i].good || link ? 0 : E_IO) && read == E_IO, "%s can%s be written", row[i].path,
           row[i].good || link ? "" : "not");
        if (row[i].good) ok(!rooted_open(&r, path, &f), "the written file can be read");
        if (row[i].good) rooted_close(&f);
    }
    char *text;
    size_t n;
    ok(!source_whole(outside, 100, &text, &n) && n == 4 && !strcmp(text, "kept"),
       "a file outside of the root is unchanged");
    free(text);
    roots_free(&r);
    is_int(roots_read("/tmp:/none-such", &r), E_IO, "a missing root is refused");
}

int
main(void)
{
    uint64_t state = seed_of(3);
    if (!mkdtemp(folder)) exit(1);
    test_boxes();
    test_changed(&state);
    test_flipped();
    test_root();
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command)) exit(1);
    return done();
}
