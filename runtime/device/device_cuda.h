/* device_cuda.h - GPUs: the plug-in librille-cuda.so, and a process's devices on GPUs.
 *
 * Only the plug-in links CUDA. cuda_parse opens it when a program first names devices of kind cuda. It exports one
 * function, rille_cuda_plugin, which returns the record below. A process assigns devices to GPUs once (cuda_choose);
 * until then the kind reports why it is missing. The plug-in, in C++, also includes this header, so the header
 * includes nothing of the core. The session's thread chooses and opens; each function of the record states which
 * thread may call it. */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_H
#define RILLE_RUNTIME_DEVICE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDA_PLUGIN_VERSION = 13 }; /* version of the record; a mismatch means a different build */

enum { CUDA_UUID = 16 };
struct cuda_gpu {
    char name[256];
    unsigned char uuid[CUDA_UUID]; /* unique id of the GPU */
    size_t bytes;                  /* bytes of memory */
    size_t free;                   /* bytes of memory that were free when the GPU was opened */
    int major, minor;              /* compute capability */
};

/* A matrix product with an epilogue: y = f(x w + bias), `batch` times. x: m rows of k, w: k of n, y: m of n. Sums
 * are in f32, those of f64 in f64. All fields are 64-bit words without padding: equal products have equal bytes. */
enum cuda_real { CUDA_F32, CUDA_F64, CUDA_BF16, CUDA_F16 };
enum cuda_after {
    CUDA_AS_IS,
    CUDA_GELU,       /* f(v) = gelu(v), by tanh; if aux is set, v is stored there */
    CUDA_GELU_SLOPE, /* f(v) = v gelu'(aux) */
};
struct cuda_matrix {
    int64_t row, col; /* strides of rows and columns, elements; one is 1 (col, for y) */
    int64_t batch;    /* stride of the batch; 0: the batch shares one matrix */
};
struct cuda_product {
    int64_t from, to;  /* enum cuda_real of x and w; of bias, aux and y */
    int64_t after;     /* enum cuda_after */
    int64_t bias, aux; /* 1: present. bias: n numbers; aux: laid out like y */
    int64_t tf32;      /* 1: x and w, of f32, may be rounded to TF32 */
    int64_t m, n, k, batch;
    struct cuda_matrix x, w, y;
};

/* A convolution, or its gradient: y[n, o, u, v] = sum over c, p, q of x[n, c, u stride + p dilation - padding, ...]
 * w[o, c, p, q], with zeros outside of x. If x has more channels than w, the channels of x form groups, and o is
 * divided into as many. Sums and words as in products. */
enum cuda_makes { CUDA_MAKES_Y, CUDA_MAKES_X, CUDA_MAKES_W }; /* the factors are the other two, in the order x, w, y */
struct cuda_image {
    int64_t size[4], stride[4]; /* no size is 0; strides in elements, one is 1, no two elements share memory */
};
struct cuda_convolution {
    int64_t makes;    /* enum cuda_makes */
    int64_t from, to; /* enum cuda_real of the factors; of the result */
    int64_t tf32;     /* 1: factors, of f32, may be rounded to TF32 */
    int64_t stride[2], padding[2], dilation[2];
    struct cuda_image x, w, y;
};

/* Alignment of the addresses of a run, and of scratch. */
enum { CUDA_PRODUCT_ALIGN = 16, CUDA_SCRATCH_ALIGN = 256 };
struct cuda_factors {
    const void *x, *w, *bias; /* convolution: x and w are the factors, y is the result, bias and aux are unused */
    void *aux, *y, *scratch;
};
/* Launches the work that the library computes with this algorithm. */
typedef const char *cuda_algo_fn(int gpu, const void *algo, const struct cuda_factors *at);

/* A rank's part in a collective (communicator.h). `in` and `out` are dense and do not overlap. numel: elements of a
 * block; for CUDA_ALL_REDUCE, of the whole part. */
enum cuda_verb {
    CUDA_ALL_REDUCE,
    CUDA_REDUCE_SCATTER,
    CUDA_ALL_GATHER,
    CUDA_ALL_TO_ALL,
    CUDA_PASS, /* from rank 0 to rank 1 of two: `in` is used by rank 0, `out` by rank 1 */
};
enum cuda_reduce { CUDA_SUM, CUDA_PROD, CUDA_MAX, CUDA_MIN };
enum cuda_element { CUDA_I64 = CUDA_F16 + 1, CUDA_I32, CUDA_U8 }; /* extends enum cuda_real */
enum { CUDA_ID = 128 }; /* bytes of the id from which the ranks create a communicator */
struct cuda_collective {
    int verb, reduce, element;
    int64_t numel; /* > 0 */
};

/* Functions return the text of an error, valid for the life of the process; NULL: success. Any thread. */
struct cuda_plugin {
    int version;
    const char *(*count)(int *ngpu); /* error: the reason why no GPU is available */
    /* Opens and initialises a GPU; fails if another process uses the GPU exclusively. */
    const char *(*open)(int gpu, struct cuda_gpu *out);
    /* Allocates 256-byte aligned memory that host and GPU can access; *out NULL without an error: no memory. */
    const char *(*take)(int gpu, size_t bytes, void **out);
    void (*give)(int gpu, void *p);
    const char *(*copy)(void *dst, const void *src, size_t bytes); /* blocks */
    const char *(*fill)(void *p, int byte, size_t bytes);          /* blocks */
    /* Returns the name and version of the compiler. NULL: no compiler (*why), so the host computes everything. */
    const char *(*compiler)(const char **why);
    /* Compiles CUDA C++ text with the kernel `name` for GPUs of this compute capability. *binary is allocated by
     * malloc. The error, with the compiler's output, is valid until the thread's next call. */
    const char *(*compile)(const char *text, const char *name, int major, int minor, void **binary, size_t *bytes);
    const char *(*load)(int gpu, const void *binary, size_t bytes, const char *name, void **kernel);
    /* Launches a kernel. argument: the kernel's argument struct, `bytes` long, which is copied. The GPU executes the
     * launches of a thread, kernels and products, asynchronously in order; settle blocks until all are done. */
    const char *(*launch)(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes);
    /* Returns the name and version of the library of matrix products; NULL: there is none (*why). */
    const char *(*library)(const char **why);
    /* Returns the algorithm by which the library computes a product on that GPU, kept for the process and the same
     * for equal products, and the scratch that it needs. NULL: no algorithm. */
    void *(*product)(int gpu, const struct cuda_product *p, size_t *scratch_bytes);
    cuda_algo_fn *multiply;
    const char *(*settle)(int gpu);
    /* Events, as in struct device_events. */
    const char *(*event)(int gpu, void **out);
    void (*forget)(int gpu, void *event);
    const char *(*note)(int gpu, void *event);
    const char *(*await)(void *event);
    const char *(*follow)(int gpu, void *event);
    /* Pins host memory, which GPUs then copy from and to while they compute; false: not pinned. */
    bool (*pin)(void *p, size_t bytes);
    void (*unpin)(void *p); /* does nothing if the memory was not pinned */
    /* Launches a copy of rows, with strides `to` and `from` in bytes, between memory of `take` or `pin`; *begun
     * false: not launched. */
    const char *(*carry)(int gpu, void *dst, size_t to, const void *src, size_t from, size_t row, size_t nrow,
                         bool *begun);
    /* Returns the name and version of the library of collectives; NULL: there is none (*why). */
    const char *(*collectives)(const char **why);
    /* Allocates a communicator of n ranks on different GPUs, not yet connected. gpu: by rank; -1: in another
     * process. Any thread may cut the communicator, also during meet; the session's thread makes all other calls. */
    void *(*communicator)(int n, const int *gpu);
    /* Creates an id, CUDA_ID bytes, for one communicator. */
    const char *(*identify)(void *id);
    /* Connects the communicator with the ranks of other processes that call meet with this id. Blocks until all have
     * called, the communicator is cut, or `left` (NULL: never) returns true. */
    const char *(*connect)(void *communicator, const void *id, bool (*left)(void *of), void *of);
    /* Launches the part of a rank on its GPU. The part is done when all ranks have launched theirs; all ranks must
     * launch in the same order. Launches nothing on a cut communicator. */
    const char *(*collect)(void *communicator, int comm_rank, const struct cuda_collective *what, const void *in,
                           void *out);
    void (*cut)(void *communicator);  /* ends waiting parts, whose results are invalid, and a waiting meet */
    void (*drop)(void *communicator); /* frees a cut communicator that no thread uses */
    /* Graphs: from capture to captured, launches of this thread on the GPU are recorded, not executed. The thread
     * may then only launch kernels and products that it has launched before. captured returns NULL if no graph is
     * possible. A graph can be launched any number of times. */
    const char *(*capture)(int gpu);
    void *(*captured)(int gpu);
    const char *(*replay)(int gpu, void *graph);
    void (*discard)(int gpu, void *graph);
    /* For convolutions: convolver, convolution and convolve correspond to library, product and multiply. */
    const char *(*convolver)(const char **why);
    void *(*convolution)(int gpu, const struct cuda_convolution *c, size_t *scratch_bytes);
    cuda_algo_fn *convolve;
};

/* The devices that a process names: device i is 1/parts of a GPU. */
enum { CUDA_DEVICES = 64 };
struct cuda_choice {
    int n;
    bool all;  /* every GPU, from a text read in a process without those GPUs: n is 0 */
    bool nccl; /* a library runs collectives among the devices */
    struct cuda_device {
        int gpu, parts;
    } device[CUDA_DEVICES];
};

/* Adds the devices of "all", "0", or "0x4" (four that share GPU 0). here: checks with the driver of this process;
 * otherwise only parses the text. E_PLACE: no plug-in, no driver, no such GPU. */
int cuda_parse(const char *text, bool here, struct cuda_choice *c);
/* Sets the devices of the kind. E_PLACE: others use a GPU; no library of collectives, or devices share a GPU.
 * E_STATE: the process has already made a different choice. */
int cuda_choose(const struct cuda_choice *c);
/* Returns the GPU of a device of this process. E_PLACE: no such device. */
int cuda_gpu_of(int device, struct cuda_gpu *out);
/* Returns the flags COMPILES, MULTIPLIES, CONVOLVES and COLLECTS that the devices of this process support, once they
 * are chosen. */
unsigned cuda_abilities(void);
/* Numbers the devices of the kind through the processes of a cluster. This process has the n devices from `first`
 * on: all that it has chosen, or none. Plans use only the abilities that all processes share. A process without
 * devices launches and compiles nothing. E_PLACE: the process has fewer devices or abilities. Only while no work of
 * the kind is in progress; session's thread. */
int cuda_join(unsigned abilities, int first, int n);

/* Pins host memory, if possible, once devices are chosen. Session's thread. */
void cuda_pin(void *p, size_t bytes);
void cuda_unpin(void *p); /* call before memory is freed, pinned or not */

/* ---- kernels: cuda_kernel.c compiles each once for a capability and keeps it for the process, and on disk ---- */

struct cuda_kernel;
struct str;
/* Prints the compiler of kernels and their cache, or why there is none, and the libraries in use; once devices are
 * chosen. Session's thread. */
void cuda_kernel_about(struct str *text);
/* Returns the kernel `name` of prologue + text; equal names must have equal text. The session's thread or a
 * device's. E_KERNEL. */
int cuda_kernel_get(const char *name, const char *prologue, const char *text, struct cuda_kernel **out);
/* Launches a kernel. E_KERNEL: the device is broken. */
int cuda_kernel_run(const struct cuda_kernel *k, int device, int64_t blocks, int threads, const void *argument,
                    size_t bytes);

/* ---- products and convolutions by libraries: cuda_product.c caches the algorithms ---- */

struct cuda_algo;
/* Returns the algorithm of a product. *out NULL: a GPU of the process, or its library, has no algorithm. Session's
 * thread. */
void cuda_product_get(const struct cuda_product *p, struct cuda_algo **out);
void cuda_convolution_get(const struct cuda_convolution *c, struct cuda_algo **out);
size_t cuda_algo_scratch(const struct cuda_algo *w);
/* Launches a product or convolution. E_KERNEL: the device is broken. */
int cuda_algo_run(const struct cuda_algo *w, int device, const struct cuda_factors *at);

/* ---- repeated sequences of launches: cuda_graph.c ---- */

/* Sets whether this thread gathers its launches in order to replay repeated sequences as one graph. */
void cuda_graph_gather(bool on);
/* Launches what this thread has gathered. Call it before the thread waits, records or follows an event, or puts
 * anything else on its stream. E_KERNEL. */
int cuda_graph_launch(void);
/* Launch at once, or gather. E_KERNEL. */
int cuda_graph_kernel(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes);
int cuda_graph_algo(int gpu, cuda_algo_fn *by, const void *algo, const struct cuda_factors *at);
struct cuda_graph_count {
    int64_t graphs, replays; /* graphs that this process has created; graph launches */
};
struct cuda_graph_count cuda_graphs(void); /* any thread */

/* ---- collectives by a library: cuda_collective.c keeps communicators; device.h describes the functions ---- */

struct communicator;
struct communicator_post;
struct collective_call;
struct stream;
struct communicator *cuda_communicator_get(bool edge, int32_t n, const int32_t *device);
int cuda_communicators_connect(int n, struct communicator *const *c, const struct communicator_post *post);
int cuda_collect(struct communicator *c, int32_t comm_rank, const struct collective_call *call, const struct stream *s,
                 const void *in, void *out);
void cuda_collect_cut(void);
/* Returns E_CANCEL between a cut and the next run, because launched work may have been cut. */
int cuda_cut_work(void);

/* For cuda_kernel.c, cuda_product.c and cuda_collective.c: the open plug-in; device i of the process; the process's
 * index of a device; a report of a GPU's error, of which the process keeps the first. */
const struct cuda_plugin *cuda_opened(void);
const struct cuda_device *cuda_device_at(int i, int *major, int *minor); /* NULL: no such device */
int cuda_index(int device);
int cuda_note(const char *why);

struct device_kind;
extern struct device_kind device_cuda; /* written only by cuda_choose and cuda_join */

#endif
