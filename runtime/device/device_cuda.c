/* device_cuda.c - the device kind cuda: the plug-in allocates GPU memory, and host threads execute the streams.
 *
 * A device is a GPU, or 1/n of one. A device may allocate at most this fraction of the memory that was free when its
 * GPU was opened. The plug-in's memory has the same addresses on host and GPU, so host streams can also run CPU
 * kernels for the kind. After the first error of a GPU, every allocation and all work fail with that error. */
#include "runtime/device/device_cuda.h"
#include "runtime/device/cuda_graph.h"
#include "runtime/device/cuda_collective.h"

#include "runtime/base/error.h"
#include "runtime/device/plugin.h"
#include "runtime/device/stream_host.h"
#include "runtime/tensor/view.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below until they are set */
static const struct cuda_plugin *plugin;
static struct cuda_choice choice;
static struct cuda_gpu gpu_of[CUDA_DEVICES]; /* GPU of each device in `choice`, by device number */
/* bytes allocated on each device in `choice`, by device number */
static _Atomic size_t taken_bytes[CUDA_DEVICES];
static const char *_Atomic broken; /* first error of a GPU; NULL: none */
static int first;                  /* number of the first device of `choice` among the cluster's devices of the kind */
static unsigned abilities;         /* flags COMPILES, MULTIPLIES... of the devices in `choice` */
/* true: other processes have devices of the kind, but this process has none */
static bool elsewhere;

/* ---- opening the plug-in ---- */

static int
load_cuda_plugin(void)
{
    if (plugin) return 0;
    void *file = plugin_open("librille-cuda.so", false);
    if (!file)
        return fail(E_PLACE, "devices: no CUDA plug-in: %s; install it, or use cpu devices (-d cpu:4)", dlerror());
    const struct cuda_plugin *(*get)(void);
    *(void **)&get = dlsym(file, "rille_cuda_plugin");
    const struct cuda_plugin *found = get ? get() : NULL;
    int version = found ? found->version : 0;
    if (version == CUDA_PLUGIN_VERSION) {
        plugin = found;
        return 0;
    }
    dlclose(file);
    return fail(
        E_PLACE,
        "devices: librille-cuda.so has interface version %d, expected %d; install the plug-in of this version of Rille",
        version, CUDA_PLUGIN_VERSION);
}

/* ---- parsing and choosing devices ---- */

static int
add_gpu(struct cuda_choice *c, int gpu, int parts)
{
    for (int i = 0; i < c->n; i++)
        if (c->device[i].gpu == gpu) return fail(E_PLACE, "devices: \"cuda:%d\" is named twice", gpu);
    if (parts > CUDA_DEVICES - c->n)
        return fail(E_PLACE, "devices: expected at most %d devices of kind cuda, found more", CUDA_DEVICES);
    for (int i = 0; i < parts; i++) c->device[c->n++] = (struct cuda_device){gpu, parts};
    return 0;
}

/* Parses a GPU with an optional number of parts: "0" or "0x4". */
static bool
read_gpu_number(const char *text, long *gpu, long *parts)
{
    char *end;
    *parts = 1;
    if (*text < '0' || *text > '9') return false;
    *gpu = strtol(text, &end, 10);
    if (*end != 'x') return *end == '\0';
    if (end[1] < '1' || end[1] > '9') return false;
    *parts = strtol(end + 1, &end, 10);
    return *end == '\0';
}

/* Parses the text after "cuda:": "all", or one GPU. */
static int
read_device_text(const char *text, bool *all, long *gpu, long *parts)
{
    *all = !strcmp(text, "all");
    if (*all || read_gpu_number(text, gpu, parts)) return 0;
    return fail(E_PLACE, "devices: \"cuda:%s\": expected cuda:all, cuda:0, or cuda:0x4 for four that share GPU 0",
                text);
}

static int
add_gpu_reading(struct cuda_choice *c, bool all, long gpu, long parts)
{
    if ((all && c->n) || c->all)
        return fail(E_PLACE, "devices: cuda:all already names every GPU; do not name GPUs again");
    c->all = all;
    return all ? 0 : add_gpu(c, (int)MIN(gpu, INT_MAX), (int)MIN(parts, CUDA_DEVICES + 1));
}

static int
parse_devices(const char *text, bool here, struct cuda_choice *c)
{
    long gpu = 0, parts = 1;
    int ngpu = 0;
    bool all;
    TRY(read_device_text(text, &all, &gpu, &parts));
    if (!here) return add_gpu_reading(c, all, gpu, parts);
    TRY(load_cuda_plugin());
    const char *why = plugin->count(&ngpu);
    if (why || ngpu == 0)
        return fail(
            E_PLACE,
            "devices: \"cuda:%s\": no GPU found: %s; use cpu devices (-d cpu:4), or make GPUs visible to this process",
            text, why ? why : "the driver shows none");
    if (gpu >= ngpu)
        return fail(E_PLACE, "devices: \"cuda:%s\": no GPU %ld; this host has %d (GPUs count from 0)", text, gpu, ngpu);
    for (int i = 0; all && i < ngpu; i++) TRY(add_gpu(c, i, 1));
    return all ? 0 : add_gpu(c, (int)gpu, (int)MIN(parts, CUDA_DEVICES + 1));
}

int
cuda_parse(const char *text, bool here, struct cuda_choice *c)
{
    pthread_mutex_lock(&lock);
    int status = parse_devices(text, here, c);
    pthread_mutex_unlock(&lock);
    return status;
}

static bool
choices_equal(const struct cuda_choice *a, const struct cuda_choice *b)
{
    return a->n == b->n && a->nccl == b->nccl && !memcmp(a->device, b->device, sizeof *a->device * (size_t)a->n);
}

/* Rejects library collectives if devices share a GPU, because the library allows only one rank per GPU. */
static int
check_collectives(const struct cuda_choice *c)
{
    const char *why;
    if (!plugin->collectives(&why)) return fail(E_PLACE, "collectives = \"nccl\": %s", why);
    if (!plugin->compiler(&why)) return fail(E_PLACE, "collectives = \"nccl\" needs kernels that pack data: %s", why);
    for (int i = 0; i < c->n; i++)
        if (c->device[i].parts > 1)
            return fail(E_PLACE, "collectives = \"nccl\" needs one device per GPU; cuda:%d has %d", c->device[i].gpu,
                        c->device[i].parts);
    return 0;
}

static int
choose_devices(const struct cuda_choice *c)
{
    if (choice.n && choices_equal(&choice, c)) return 0;
    if (choice.n) return fail(E_STATE, "devices: this process has already chosen other cuda devices or collectives");
    if (elsewhere) return fail(E_STATE, "devices: in this process the workers own the cuda devices");
    if (c->nccl) TRY(check_collectives(c));
    for (int i = 0; i < c->n; i++) {
        const char *why = plugin->open(c->device[i].gpu, &gpu_of[i]);
        if (why) return fail(E_PLACE, "devices: \"cuda:%d\": %s", c->device[i].gpu, why);
    }
    choice = *c;
    device_cuda.variants = DEV_CPU;
    const char *why;
    if (plugin->compiler(&why)) abilities |= COMPILES;
    if (plugin->library(&why)) abilities |= MULTIPLIES;
    if (plugin->convolver(&why)) abilities |= CONVOLVES;
    if (c->nccl) abilities |= COLLECTS;
    device_cuda.flags |= abilities;
    device_cuda.missing = NULL;
    return 0;
}

int
cuda_choose(const struct cuda_choice *c)
{
    if (c->n == 0) return 0;
    pthread_mutex_lock(&lock);
    int status = choose_devices(c);
    pthread_mutex_unlock(&lock);
    return status;
}

int
cuda_gpu_of(int device, struct cuda_gpu *out)
{
    pthread_mutex_lock(&lock);
    bool known = device >= first && device - first < choice.n;
    if (known) *out = gpu_of[device - first];
    int n = choice.n;
    pthread_mutex_unlock(&lock);
    return known ? 0 : fail(E_PLACE, "no device cuda:%d: this process has %d of kind cuda", device, n);
}

unsigned
cuda_abilities(void)
{
    return abilities;
}

static const struct {
    unsigned ability;
    const char *text;
} ability_text[] = {
    {COMPILES, "compile kernels"}, {MULTIPLIES, "have cuBLASLt"}, {CONVOLVES, "have cuDNN"}, {COLLECTS, "have NCCL"}};
enum { ABILITIES = COMPILES | MULTIPLIES | CONVOLVES | COLLECTS };

static int
join_devices(unsigned wanted, int at, int n)
{
    if (n != choice.n)
        return fail(E_PLACE, "the cluster expects %d devices of kind cuda in this process, found %d", n, choice.n);
    for (size_t i = 0; n && i < countof(ability_text); i++)
        if (wanted & ~abilities & ability_text[i].ability)
            return fail(E_PLACE, "the cluster's cuda devices %s, but those of this process do not",
                        ability_text[i].text);
    first = at;
    elsewhere = n == 0;
    device_cuda.flags = (device_cuda.flags & ~(unsigned)ABILITIES) | wanted;
    device_cuda.variants = DEV_CPU;
    device_cuda.missing = NULL;
    return 0;
}

int
cuda_join(unsigned wanted, int at, int n)
{
    pthread_mutex_lock(&lock);
    int status = join_devices(wanted & ABILITIES, at, n);
    pthread_mutex_unlock(&lock);
    return status;
}

const struct cuda_plugin *
cuda_opened(void)
{
    return plugin;
}

/* Returns the i-th device of this process. Takes no lock, because the devices do not change once work runs on
 * them. */
const struct cuda_device *
cuda_device_at(int i, int *major, int *minor)
{
    if (i < 0 || i >= choice.n) return NULL;
    *major = gpu_of[i].major;
    *minor = gpu_of[i].minor;
    return &choice.device[i];
}

int
cuda_index(int device)
{
    return device - first;
}

/* ---- allocating and copying memory ---- */

/* Fails with the first error that a GPU has reported, if there was one. */
static int
say_broken(void)
{
    const char *why = atomic_load(&broken);
    return why ? fail(E_KERNEL, "cuda: %s; this process can no longer use cuda devices", why) : 0;
}

int
cuda_note(const char *why)
{
    const char *none = NULL;
    if (why) atomic_compare_exchange_strong(&broken, &none, why);
    return say_broken();
}

static int
gpu_at(int device)
{
    return choice.device[cuda_index(device)].gpu;
}

static void *
cuda_take(int device, size_t bytes)
{
    void *p = NULL;
    int i = cuda_index(device);
    size_t part = gpu_of[i].free / (size_t)choice.device[i].parts;
    size_t before = atomic_fetch_add(&taken_bytes[i], bytes);
    bool fits = before <= part && bytes <= part - before;
    if (!say_broken() && fits) cuda_note(plugin->take(gpu_at(device), bytes, &p));
    if (!p) atomic_fetch_sub(&taken_bytes[i], bytes);
    return p;
}

static void
cuda_give(int device, void *p, size_t bytes)
{
    if (!p) return;
    plugin->give(gpu_at(device), p);
    atomic_fetch_sub(&taken_bytes[cuda_index(device)], bytes);
}

static int
cuda_copy(void *dst, const void *src, size_t bytes)
{
    TRY(cuda_graph_launch());
    return cuda_note(plugin->copy(dst, src, bytes));
}

static int
cuda_fill_bytes(void *p, int byte, size_t bytes)
{
    TRY(cuda_graph_launch());
    return cuda_note(plugin->fill(p, byte, bytes));
}

void
cuda_pin(void *p, size_t bytes)
{
    if (choice.n) plugin->pin(p, bytes);
}

void
cuda_unpin(void *p)
{
    if (choice.n) plugin->unpin(p);
}

static int
cuda_carry_rows(int device, void *to, const void *from, const struct view_rows *r, bool *begun)
{
    TRY(cuda_graph_launch());
    return cuda_note(plugin->carry(gpu_at(device), to, r->to, from, r->from, r->row, r->nrow, begun));
}

static void *
cuda_reach(void *p)
{
    return p;
}

/* ---- making streams ---- */

static int
cuda_settle(int device)
{
    TRY(cuda_graph_launch());
    TRY(cuda_note(plugin->settle(gpu_at(device))));
    return cuda_cut_work();
}

static int
event_make(int device, void **event)
{
    return cuda_note(plugin->event(gpu_at(device), event));
}

static void
event_drop(int device, void *event)
{
    plugin->forget(gpu_at(device), event);
}

static int
event_note(int device, void *event)
{
    TRY(cuda_graph_launch());
    return cuda_note(plugin->note(gpu_at(device), event));
}

static int
event_await(int device, void *event)
{
    UNUSED(device);
    TRY(cuda_note(plugin->await(event)));
    return cuda_cut_work();
}

static int
event_follow(int device, void *event)
{
    TRY(cuda_graph_launch());
    return cuda_note(plugin->follow(gpu_at(device), event));
}

static const struct device_events events = {event_make,  event_drop,   event_note,
                                            event_await, event_follow, cuda_graph_gather};

static int
cuda_stream_new(int device, int role, bool driven, struct stream **out)
{
    return host_stream_new(&device_cuda, device, role, driven, out);
}

static int
cuda_trouble(struct stream *s, int64_t mark)
{
    int status = host_stream_trouble(s, mark);
    return status ? status : say_broken();
}

struct device_kind device_cuda = {
    .number = DEV_CUDA,
    .flags = FUSES | ONE_SPACE | ROLES,
    .variants = DEV_CUDA,
    .missing = "no CUDA plug-in was opened",
    .take = cuda_take,
    .give = cuda_give,
    .copy = cuda_copy,
    .fill = cuda_fill_bytes,
    .stream_new = cuda_stream_new,
    .stream_free = host_stream_free,
    .enqueue = host_stream_enqueue,
    .mark = host_stream_mark,
    .passed = host_stream_passed,
    .wait = host_stream_wait,
    .show = host_stream_show,
    .trouble = cuda_trouble,
    .step = host_stream_step,
    .settle = cuda_settle,
    .events = &events,
    .carry = cuda_carry_rows,
    .tell = host_stream_tell,
    .reach = cuda_reach,
    .communicator = cuda_communicator_get,
    .connect = cuda_communicators_connect,
    .collect = cuda_collect,
    .cut = cuda_collect_cut,
};
