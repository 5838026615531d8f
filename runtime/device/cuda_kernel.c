/* cuda_kernel.c - compiles each CUDA kernel once per compute capability of the process's GPUs, and caches the
 * result.
 *
 * The cache is the folder $RILLE_CACHE, else $XDG_CACHE_HOME/rille, else ~/.cache/rille. The name of a file
 * contains the kernel's name, the compute capability, and a digest of compiler and prologue. A file begins with
 * the digest of its name and content. If a file is damaged, misnamed or larger than MOST_BYTES, the kernel is
 * compiled again. Files are written under a temporary name and renamed, so readers see complete files only. If the
 * folder is not writable, kernels still work, and the next process compiles again (reported by cuda_kernel_about).
 * If $RILLE_CACHE is empty, there is no cache on disk. */
#include "runtime/device/cuda_kernel.h"
#include "runtime/device/cuda_graph.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "runtime/data/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 /* maximum number of bytes of a cache file */ };

struct cuda_kernel {
    char *name;
    void *of[CUDA_DEVICES]; /* the loaded kernel, by device of the process */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct hash_table kernels;

/* ---- keeping compiled kernels on disk ---- */

/* Sets the cache folder; "": no cache on disk. */
static void
folder_of(struct str *folder)
{
    const char *own = getenv("RILLE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own)
        str_add(folder, own);
    else if (xdg && *xdg)
        str_addf(folder, "%s/rille", xdg);
    else if (home && *home)
        str_addf(folder, "%s/.cache/rille", home);
}

/* Sets the path of a kernel's cache file; "": there is no cache folder. */
static void
cache_path(const char *name, const char *prologue, int major, int minor, struct str *path)
{
    struct digest d = DIGEST_BEGIN;
    const char *why, *compiler = cuda_opened()->compiler(&why);
    digest_bytes(&d, compiler, strlen(compiler));
    digest_bytes(&d, prologue, strlen(prologue));
    folder_of(path);
    if (path->len) str_addf(path, "/%s-%d%d-%016" PRIx64 ".cubin", name, major, minor, d.a);
}

static struct digest
binary_digest(const char *path, const void *bytes, size_t n)
{
    struct digest d = DIGEST_BEGIN;
    const char *name = strrchr(path, '/') + 1;
    digest_bytes(&d, name, strlen(name));
    digest_bytes(&d, bytes, n);
    digest_add(&d, n);
    return d;
}

/* Opens a regular file. Rejects pipes and devices, because reading them might never end. NULL: the file cannot be
 * opened. */
static FILE *
open_cached_file(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *f = fd >= 0 && !fstat(fd, st) && S_ISREG(st->st_mode) ? fdopen(fd, "rb") : NULL;
    if (fd >= 0 && !f) close(fd);
    return f;
}

/* Reads the content after the digest into memory that malloc allocates. Returns false if the file is missing or
 * damaged. */
static bool
read_cached_binary(const char *path, void **binary, size_t *bytes)
{
    struct digest told, is;
    struct stat st;
    FILE *f = open_cached_file(path, &st);
    if (!f) return false;
    bool good = st.st_size > (off_t)sizeof told && st.st_size <= MOST_BYTES && fread(&told, sizeof told, 1, f) == 1;
    *bytes = good ? (size_t)st.st_size - sizeof told : 0;
    *binary = must_alloc(*bytes + 1);
    good = good && fread(*binary, 1, *bytes, f) == *bytes;
    is = binary_digest(path, *binary, *bytes);
    good = good && is.a == told.a && is.b == told.b;
    fclose(f);
    if (good) return true;
    free(*binary);
    return false;
}

/* Creates the folder `path` and its parents, like mkdir -p. */
static void
make_cache_folder(const char *path)
{
    char *p = must_copy(path, strlen(path) + 1);
    for (char *slash = strchr(p + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(p, 0777);
        *slash = '/';
    }
    free(p);
}

static void
write_cached_binary(const char *path, const void *binary, size_t bytes)
{
    struct digest d = binary_digest(path, binary, bytes);
    struct str beside = {0};
    make_cache_folder(path);
    str_addf(&beside, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(str_text(&beside), "wb");
    bool good = f && fwrite(&d, sizeof d, 1, f) == 1 && fwrite(binary, 1, bytes, f) == bytes;
    if (f) good = !fclose(f) && good;
    good = good && !rename(str_text(&beside), path);
    if (f && !good) unlink(str_text(&beside));
    str_free(&beside);
}

/* Tests whether a folder is writable by writing and removing a file. The mode bits do not suffice: other
 * permissions matter, and on a full disk files can be created but not filled. Sets errno on failure. */
static bool
may_write(const char *folder)
{
    static const char bytes[4096];
    struct str path = {0};
    str_addf(&path, "%s/may-write.%ld", folder, (long)getpid());
    make_cache_folder(str_text(&path));
    FILE *f = fopen(str_text(&path), "wb");
    bool good = f && fwrite(bytes, sizeof bytes, 1, f) == 1 && !fflush(f);
    int error = errno;
    if (f) fclose(f), unlink(str_text(&path));
    str_free(&path);
    errno = error;
    return good;
}

/* Appends a library's purpose, name and version, as in "; products by cuBLASLt 13.0", or why the library is
 * missing. */
static void
add_library(struct str *text, const char *what, const char *(*library)(const char **why))
{
    const char *why, *name = library(&why);
    str_addf(text, name ? "; %s by %s" : "; no library of %s: %s", what, name ? name : why);
}

void
cuda_kernel_about(struct str *text)
{
    struct str folder = {0};
    const char *why, *compiler = cuda_opened()->compiler(&why);
    folder_of(&folder);
    if (!compiler)
        str_addf(text, "by the host: %s", why);
    else if (!folder.len)
        str_addf(text, "%s, not cached", compiler);
    else if (may_write(str_text(&folder)))
        str_addf(text, "%s, cached in %s", compiler, str_text(&folder));
    else
        str_addf(text, "%s, not cached: %s cannot be written: %s", compiler, str_text(&folder), strerror(errno));
    add_library(text, "products", cuda_opened()->library);
    add_library(text, "convolutions", cuda_opened()->convolver);
    str_free(&folder);
}

/* ---- compiling and loading kernels ---- */

static int
compile_text(const char *name, const char *prologue, const char *text, int major, int minor, void **binary,
             size_t *bytes)
{
    struct str whole = {0};
    str_add(&whole, prologue);
    str_add(&whole, text);
    const char *why = cuda_opened()->compile(str_text(&whole), name, major, minor, binary, bytes);
    str_free(&whole);
    return why ? fail(E_KERNEL, "cuda: a kernel does not compile for sm_%d%d: %s", major, minor, why) : 0;
}

/* Reads the compiled kernel from disk; if that fails, compiles it and writes it to disk. */
static int
binary_of(const char *name, const char *prologue, const char *text, int major, int minor, void **binary, size_t *bytes)
{
    struct str path = {0};
    cache_path(name, prologue, major, minor, &path);
    int status = 0;
    if (!path.len || !read_cached_binary(str_text(&path), binary, bytes)) {
        status = compile_text(name, prologue, text, major, minor, binary, bytes);
        if (!status && path.len) write_cached_binary(str_text(&path), *binary, *bytes);
    }
    str_free(&path);
    return status;
}

/* Returns the kernel that an earlier device on the same GPU has loaded; NULL: none. */
static void *
shared_kernel(const struct cuda_kernel *k, int device, int gpu)
{
    int major, minor;
    for (int i = 0; i < device; i++)
        if (cuda_device_at(i, &major, &minor)->gpu == gpu) return k->of[i];
    return NULL;
}

/* Loads a kernel for every device. Consecutive GPUs with the same compute capability use one compiled binary. */
static int
load_cubin(struct cuda_kernel *k, const char *prologue, const char *text)
{
    int major, minor, of_major = -1, of_minor = -1, status = 0;
    const struct cuda_device *d;
    void *binary = NULL;
    size_t bytes = 0;
    for (int i = 0; !status && (d = cuda_device_at(i, &major, &minor)); i++) {
        k->of[i] = shared_kernel(k, i, d->gpu);
        if (k->of[i]) continue;
        if (major != of_major || minor != of_minor) {
            free(binary);
            binary = NULL;
            status = binary_of(k->name, prologue, text, major, minor, &binary, &bytes);
            of_major = major, of_minor = minor;
        }
        if (!status) status = cuda_note(cuda_opened()->load(d->gpu, binary, bytes, k->name, &k->of[i]));
    }
    free(binary);
    return status;
}

static int
get_kernel(const char *name, const char *prologue, const char *text, struct cuda_kernel **out)
{
    uint64_t hash = hash_bytes(0, name, strlen(name));
    uint32_t at = 0;
    while ((*out = hash_next(&kernels, hash, &at)))
        if (!strcmp((*out)->name, name)) return 0;
    struct cuda_kernel *k = must_alloc(sizeof *k);
    k->name = must_copy(name, strlen(name) + 1);
    int status = load_cubin(k, prologue, text);
    if (status) {
        free(k->name);
        free(k);
        return status;
    }
    hash_add(&kernels, hash, k);
    *out = k;
    return 0;
}

int
cuda_kernel_get(const char *name, const char *prologue, const char *text, struct cuda_kernel **out)
{
    pthread_mutex_lock(&lock);
    int status = get_kernel(name, prologue, text, out);
    pthread_mutex_unlock(&lock);
    return status;
}

int
cuda_kernel_run(const struct cuda_kernel *k, int device, int64_t blocks, int threads, const void *argument,
                size_t bytes)
{
    int major, minor, i = cuda_index(device);
    const struct cuda_device *d = cuda_device_at(i, &major, &minor);
    return cuda_graph_kernel(d->gpu, k->of[i], blocks, threads, argument, bytes);
}
