/* gpu.h - compiles and launches GPU kernels for a test. Memory is accessible to host and GPU, compilation runs in
 * parallel processes, launches are synchronous. A CUDA error ends the program, because results after an error mean
 * nothing. Uses one GPU, cuda:0, from the session's thread. */
#ifndef RILLE_T_GPU_H
#define RILLE_T_GPU_H

#include "runtime/device/device_cuda.h"
#include "t/lib/kernel/trial.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

enum { GPU_SLAB = 32 << 20, GPU_ALIGN = 256 };

static const struct cuda_plugin *gpu_plugin; /* the CUDA plug-in; NULL: this test has no GPU */
static struct cuda_gpu gpu_is;
static char gpu_folder[] = "/tmp/rille-gpu-XXXXXX"; /* folder of compiled kernels */

/* Returns the entry function of the plug-in next to the test program (self: argv[0]); NULL if there is no plug-in. */
typedef const struct cuda_plugin *gpu_plugin_fn(void);
static inline gpu_plugin_fn *
gpu_plugin_of(const char *self)
{
    struct str path = {0};
    gpu_plugin_fn *get = NULL;
    const char *end = strrchr(self, '/');
    str_addf(&path, "%.*s/../../librille-cuda.so", end ? (int)(end - self) : 1, end ? self : ".");
    void *file = dlopen(str_text(&path), RTLD_NOW);
    if (file) *(void **)&get = dlsym(file, "rille_cuda_plugin");
    str_free(&path);
    return get;
}

/* Ends the program if a CUDA call failed, because later calls would fail, too. */
static inline void
gpu_try(const char *why, const char *what)
{
    if (!why) return;
    printf("Bail out! %s: %s\n", what, why);
    fflush(stdout);
    _exit(1);
}

static inline void *
gpu_take(size_t bytes)
{
    static char *at;
    static size_t left;
    void *slab;
    bytes = (bytes + GPU_ALIGN) / GPU_ALIGN * GPU_ALIGN;
    if (bytes > left) {
        left = bytes > GPU_SLAB ? bytes : GPU_SLAB;
        gpu_try(gpu_plugin->take(0, left, &slab), "memory");
        if (!slab) gpu_try("there is none", "memory");
        at = slab;
    }
    left -= bytes;
    at += bytes;
    return at - bytes;
}

/* Makes trials place their tensors in memory that GPU 0 can access. Returns false, and the reason in *why, if there
 * is no GPU or no CUDA compiler. */
static inline bool
gpu_open(const struct cuda_plugin *p, const char **why)
{
    int n = 0;
    *why = p->count(&n);
    if (!*why && n == 0) *why = "the driver shows none";
    if (!*why) *why = p->open(0, &gpu_is);
    if (*why || !p->compiler(why)) return false;
    gpu_plugin = p;
    trial_memory = gpu_take;
    return mkdtemp(gpu_folder);
}

/* ---- kernels ---- */

static inline void
gpu_path(const char *name, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/%s", gpu_folder, name);
}

/* A source text to compile on a separate thread, because NVRTC needs a deep stack. On the main stack,
 * AddressSanitizer still marks frames of threads that the plug-in's shim ended early, and would report NVRTC's
 * accesses to them. */
struct gpu_compiling {
    const struct cuda_plugin *plugin;
    const char *text, *why;
    int major, minor;
    void *binary;
    size_t bytes;
};

static inline void *
gpu_compile_text(void *compiling)
{
    struct gpu_compiling *c = compiling;
    c->why = c->plugin->compile(c->text, "texts", c->major, c->minor, &c->binary, &c->bytes);
    /* copies the message, because its memory is freed when this thread ends */
    if (c->why) c->why = must_copy(c->why, strlen(c->why) + 1);
    return NULL;
}

static inline void
gpu_compile_apart(struct gpu_compiling *c)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, gpu_compile_text, c)) pthread_join(thread, NULL);
}

/* Compiles one text and writes the binary to the folder; called in a forked process. */
static inline bool
gpu_compile_one(const char *name, const char *text)
{
    char path[256];
    void *binary = NULL;
    size_t bytes = 0;
    char *all = must_alloc(strlen(cuda_device_text) + strlen(text) + 1);
    strcpy(all, cuda_device_text);
    strcat(all, text);
    const char *why = gpu_plugin->compile(all, name, gpu_is.major, gpu_is.minor, &binary, &bytes);
    free(all);
    if (why) fprintf(stderr, "# %s: %s\n", name, why);
    if (why) return false;
    gpu_path(name, path, sizeof path);
    FILE *f = fopen(path, "wb");
    bool written = f && fwrite(binary, 1, bytes, f) == bytes;
    if (f) fclose(f);
    free(binary);
    return written;
}

/* Compiles every nshare-th text, starting with text number `share`. */
static inline bool
gpu_compile_share(int n, const char *const *name, const char *const *text, int share, int nshare)
{
    bool all = true;
    for (int i = share; i < n; i += nshare) all = gpu_compile_one(name[i], text[i]) && all;
    return all;
}

/* Compiles n texts, in one process per core. */
static inline bool
gpu_compile(int n, const char *const *name, const char *const *text)
{
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), status, good = 0, begun = 0;
    fflush(NULL);
    for (int i = 0; i < cores; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(!gpu_compile_share(n, name, text, i, cores));
        begun += pid > 0;
    }
    for (int i = 0; i < begun; i++) good += wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good == cores;
}

static inline void *
gpu_kernel(const char *name)
{
    char path[256], block[1 << 16];
    struct str binary = {0};
    void *kernel = NULL;
    gpu_path(name, path, sizeof path);
    FILE *f = fopen(path, "r");
    if (!f) gpu_try("it was not compiled", name);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) str_addn(&binary, block, n);
    fclose(f);
    gpu_try(gpu_plugin->load(0, str_text(&binary), binary.len, name, &kernel), name);
    str_free(&binary);
    return kernel;
}

/* Launches a kernel and waits until it is done. what: name of the call, for error messages. */
static inline void
gpu_launch(void *kernel, int64_t blocks, int threads, const uint64_t *word, int64_t nword, const char *what)
{
    /* kernel arguments; the size is the GPU's limit, because the simulated GPU reads the whole buffer */
    uint64_t argument[512] = {0};
    assert(nword <= (int64_t)countof(argument));
    memcpy(argument, word, (size_t)nword * sizeof *word);
    gpu_try(gpu_plugin->launch(0, kernel, blocks, threads, argument, (size_t)nword * sizeof *word), what);
    gpu_try(gpu_plugin->settle(0), what);
}

static inline void
gpu_close(void)
{
    char line[64];
    snprintf(line, sizeof line, "rm -rf %s", gpu_folder);
    if (gpu_plugin && system(line)) diag("%s stays", gpu_folder);
}

#endif
