/* device_cuda.h - GPUs: the plug-in librille-cuda.so, and the devices that a process names on them.
 *
 * The plug-in is the one file that links CUDA. cuda_parse opens it when a program first names devices of kind cuda; it
 * shows one function, rille_cuda_plugin, that gives the record below. A process decides once which device lies on which
 * GPU (cuda_choose); until then the kind says why it is missing. This header is also the plug-in's, in C++: it includes
 * nothing of the core. The session's thread chooses and opens; the record's functions say themselves which thread may
 * call them. */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_H
#define RILLE_RUNTIME_DEVICE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CUDA_PLUGIN_VERSION = 13 }; /* of the record: another means another build */

enum { CUDA_UUID = 16 };
struct cuda_gpu {
    char name[256];
    unsigned char uuid[CUDA_UUID]; /* no other GPU anywhere has the same */
    size_t bytes;                  /* of memory, */
    size_t free;                   /* and how much of it others left, when it was opened */
    int major, minor;              /* compute capability */
};

/* A product of matrices, and what follows it: y = f(x w + bias), `batch` times. x: m rows of k, w: k of n, y: m of n.
 * Sums are made in f32, of f64 in f64. All are words without gaps between them: equal products have equal bytes. */
enum cuda_real { CUDA_F32, CUDA_F64, CUDA_BF16, CUDA_F16 };
enum cuda_after {
    CUDA_AS_IS,
    CUDA_GELU,       /* f(v) = gelu(v), by tanh; where there is aux, v itself is left there */
    CUDA_GELU_SLOPE, /* f(v) = v gelu'(aux) */
};
struct cuda_matrix {
    int64_t row, col; /* how far rows and columns lie apart, in elements; one of them is 1. Of y col is. */
    int64_t batch;    /* how far its matrices do; 0: there is one for all */
};
struct cuda_product {
    int64_t from, to;  /* enum cuda_real: of x and w; of the others */
    int64_t after;     /* enum cuda_after */
    int64_t bias, aux; /* 1: there is one. bias: n numbers; aux lies as y does. */
    int64_t tf32;      /* 1: x and w, of f32, may be rounded to TF32 */
    int64_t m, n, k, batch;
    struct cuda_matrix x, w, y;
};

/* A convolution, or the gradient of one: y[n, o, u, v] = sum over c, p, q of x[n, c, u stride + p dilation - padding,
 * ...] w[o, c, p, q], where what lies outside of x is 0. Where x has more channels than w, these are groups of them,
 * and o of as many. Sums and words are those of products. */
enum cuda_makes { CUDA_MAKES_Y, CUDA_MAKES_X, CUDA_MAKES_W }; /* of its factors, the two others, in the order x, w, y */
struct cuda_image {
    int64_t size[4], stride[4]; /* no size is 0; strides in elements, one is 1, no two elements share memory */
};
struct cuda_convolution {
    int64_t makes;    /* enum cuda_makes */
    int64_t from, to; /* enum cuda_real: of the factors; of the result */
    int64_t tf32;     /* 1: factors, of f32, may be rounded to TF32 */
    int64_t stride[2], padding[2], dilation[2];
    struct cuda_image x, w, y;
};

/* Addresses of a run, multiples of CUDA_PRODUCT_ALIGN; of scratch of CUDA_SCRATCH_ALIGN. */
enum { CUDA_PRODUCT_ALIGN = 16, CUDA_SCRATCH_ALIGN = 256 };
struct cuda_factors {
    const void *x, *w, *bias; /* of a convolution x and w are its factors, y is its result; it has no others */
    void *aux, *y, *scratch;
};
/* Launches what has this way. */
typedef const char *cuda_way_fn(int gpu, const void *way, const struct cuda_factors *at);

/* A seat's part in a collective (communicator.h): `in` and `out` lie dense, elsewhere. numel: of a block; of a part,
 * where all is reduced. */
enum cuda_verb {
    CUDA_ALL_REDUCE,
    CUDA_REDUCE_SCATTER,
    CUDA_ALL_GATHER,
    CUDA_ALL_TO_ALL,
    CUDA_PASS, /* from seat 0 to seat 1 of two: `in` is the one's, `out` the other's */
};
enum cuda_reduce { CUDA_SUM, CUDA_PROD, CUDA_MAX, CUDA_MIN };
enum cuda_element { CUDA_I64 = CUDA_F16 + 1, CUDA_I32, CUDA_U8 }; /* beside enum cuda_real */
enum { CUDA_ID = 128 };                                           /* bytes of what makes one communicator of seats */
struct cuda_collective {
    int verb, reduce, element;
    int64_t numel; /* more than 0 */
};

/* Texts say what is wrong and live as long as the process; NULL: nothing is. Any thread. */
struct cuda_plugin {
    int version;
    const char *(*count)(int *ngpu); /* why there are none */
    /* Makes it ready too: here a process learns that others hold the GPU. */
    const char *(*open)(int gpu, struct cuda_gpu *out);
    /* 256-byte aligned, reached by host and GPU; *out NULL without a text: there is no memory. */
    const char *(*take)(int gpu, size_t bytes, void **out);
    void (*give)(int gpu, void *p);
    const char *(*copy)(void *dst, const void *src, size_t bytes); /* blocks */
    const char *(*fill)(void *p, int byte, size_t bytes);          /* blocks */
    /* Names what compiles, and its version; NULL: nothing does (*why), and the host computes all. */
    const char *(*compiler)(const char **why);
    /* Compiles a text of CUDA C++ with the kernel `name` for GPUs of this capability. *binary: malloc's. The reason,
     * with what the compiler says, lives until the thread's next call. */
    const char *(*compile)(const char *text, const char *name, int major, int minor, void **binary, size_t *bytes);
    const char *(*load)(int gpu, const void *binary, size_t bytes, const char *name, void **kernel);
    /* argument: of the kernel, a struct of that many bytes, which is copied. What a thread launches, kernels and
     * products, the GPU does later and in that order; settle blocks until all of it is done. */
    const char *(*launch)(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes);
    /* Names the library that computes products, and its version; NULL: there is none (*why). */
    const char *(*library)(const char **why);
    /* The way in which it computes one on that GPU, kept for the process, and the scratch that takes; the same way for
     * the same product. NULL: it has none. */
    void *(*product)(int gpu, const struct cuda_product *p, size_t *scratch_bytes);
    cuda_way_fn *multiply;
    const char *(*settle)(int gpu);
    /* Events, of struct device_events. */
    const char *(*event)(int gpu, void **out);
    void (*forget)(int gpu, void *event);
    const char *(*note)(int gpu, void *event);
    const char *(*await)(void *event);
    const char *(*follow)(int gpu, void *event);
    /* Memory of the host that GPUs copy from and to while they work; false: it stays as it was. */
    bool (*pin)(void *p, size_t bytes);
    void (*unpin)(void *p); /* nothing, where it was not pinned */
    /* Launches a copy of rows, to and from bytes apart, between memory of `take` or `pin`; *begun false: one is not. */
    const char *(*carry)(int gpu, void *dst, size_t to, const void *src, size_t from, size_t row, size_t nrow,
                         bool *begun);
    /* Names the library that makes collectives, and its version; NULL: there is none (*why). */
    const char *(*collectives)(const char **why);
    /* A communicator in the making, of n seats on different GPUs; gpu: by seat, -1: another process's. Any thread cuts
     * it, also while it is made; the rest is the session's thread's. */
    void *(*communicator)(int n, const int *gpu);
    /* A new id, CUDA_ID bytes, that makes one communicator. */
    const char *(*identify)(void *id);
    /* Makes it, with the seats of other processes that do the same with this id; blocks until all are there, it is cut,
     * or left (NULL: never) says so. */
    const char *(*meet)(void *communicator, const void *id, bool (*left)(void *of), void *of);
    /* Launches the part of a seat, on its GPU: done when all seats have launched theirs, which they do in one order.
     * Of a communicator that is cut it launches nothing. */
    const char *(*collect)(void *communicator, int seat, const struct cuda_collective *what, const void *in, void *out);
    void (*cut)(void *communicator);  /* parts that wait end, and what they gave is nothing; who meets leaves */
    void (*drop)(void *communicator); /* of one that is cut and no thread uses any more */
    /* Graphs: from capture to captured what this thread launches on the GPU is written down, not done; it launches
     * kernels and products that it launched before, and asks for nothing else. captured: NULL: there can be no graph of
     * it. A graph is launched any number of times, and does what was written down each time. */
    const char *(*capture)(int gpu);
    void *(*captured)(int gpu);
    const char *(*replay)(int gpu, void *graph);
    void (*discard)(int gpu, void *graph);
    /* Of convolutions, as library, product and multiply are of products. */
    const char *(*convolver)(const char **why);
    void *(*convolution)(int gpu, const struct cuda_convolution *c, size_t *scratch_bytes);
    cuda_way_fn *convolve;
};

/* Which devices a process names: the i-th is a 1/parts of a GPU. */
enum { CUDA_DEVICES = 64 };
struct cuda_choice {
    int n;
    bool all;  /* every GPU, of a text that was read where they are not: n is 0 */
    bool nccl; /* a library makes collectives among them */
    struct cuda_device {
        int gpu, parts;
    } device[CUDA_DEVICES];
};

/* Adds the devices of "all", "0", or "0x4" (four that share GPU 0). here: the driver of this process is asked for them;
 * else it reads the text and no more. E_PLACE: no plug-in, no driver, no such GPU. */
int cuda_parse(const char *text, bool here, struct cuda_choice *c);
/* Makes these the devices of the kind from now on. E_PLACE: others hold a GPU; there is no library of collectives, or
 * devices share a GPU; E_STATE: the process has chosen otherwise before. */
int cuda_choose(const struct cuda_choice *c);
/* The GPU of a device of this process. E_PLACE: there is no such device. */
int cuda_gpu_of(int device, struct cuda_gpu *out);
/* What the devices of this process can: COMPILES, MULTIPLIES, CONVOLVES and COLLECTS, once they are chosen. */
unsigned cuda_abilities(void);
/* From now on devices of the kind count through the processes of a cluster: this one has n of them from `first` on, all
 * that it has chosen, or none; its plans are made for what all of them can. A process that has none launches nothing,
 * and has no texts compiled. E_PLACE: it has fewer, or they can less. While no work of the kind is
 * under way; the session's thread. */
int cuda_join(unsigned abilities, int first, int n);

/* Pins memory of the host, if that can be, once devices are chosen. The session's thread. */
void cuda_pin(void *p, size_t bytes);
void cuda_unpin(void *p); /* before it is given back, pinned or not */

/* ---- kernels: cuda_kernel.c compiles each once for a capability and keeps it for the process, and on disk ---- */

struct cuda_kernel;
struct str;
/* Adds who compiles kernels and where they are kept, or why not, and which libraries compute what; once devices are
 * chosen. The session's thread. */
void cuda_kernel_about(struct str *text);
/* The kernel `name` of prologue + text; a name stands for its text. The session's thread or a device's. E_KERNEL. */
int cuda_kernel_get(const char *name, const char *prologue, const char *text, struct cuda_kernel **out);
/* Launches it. E_KERNEL: the device is broken. */
int cuda_kernel_run(const struct cuda_kernel *k, int device, int64_t blocks, int threads, const void *argument,
                    size_t bytes);

/* ---- products and convolutions by libraries: cuda_product.c asks once for each, and keeps what they said ---- */

struct cuda_way;
/* *out NULL: on some GPU of the process the library has no way, or there is no library. The session's thread. */
void cuda_product_get(const struct cuda_product *p, struct cuda_way **out);
void cuda_convolution_get(const struct cuda_convolution *c, struct cuda_way **out);
size_t cuda_way_scratch(const struct cuda_way *w);
/* Launches it. E_KERNEL: the device is broken. */
int cuda_way_run(const struct cuda_way *w, int device, const struct cuda_factors *at);

/* ---- runs of launches that come again: cuda_graph.c ---- */

/* Whether this thread gathers what it launches, to launch runs that come again as one graph. */
void cuda_graph_gather(bool on);
/* Launches what this thread has gathered. Before it waits, notes or follows an event, or puts anything else on its
 * stream. E_KERNEL. */
int cuda_graph_launch(void);
/* Launch, or gather. E_KERNEL. */
int cuda_graph_kernel(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes);
int cuda_graph_way(int gpu, cuda_way_fn *by, const void *way, const struct cuda_factors *at);
struct cuda_graph_count {
    int64_t graphs, replays; /* that this process made; how often one was launched */
};
struct cuda_graph_count cuda_graphs(void); /* any thread */

/* ---- collectives by a library: cuda_collective.c keeps communicators; device.h says what these do ---- */

struct communicator;
struct communicator_post;
struct collective_call;
struct stream;
struct communicator *cuda_communicator_get(bool edge, int32_t n, const int32_t *device);
int cuda_communicators_meet(int n, struct communicator *const *c, const struct communicator_post *post);
int cuda_collect(struct communicator *c, int32_t seat, const struct collective_call *call, const struct stream *s,
                 const void *in, void *out);
void cuda_collect_cut(void);
/* E_CANCEL between a cut and the next run: what was launched may have been cut. */
int cuda_cut_work(void);

/* For cuda_kernel.c, cuda_product.c and cuda_collective.c: the plug-in that is open; the i-th of the process's devices,
 * and which of them a device is; a GPU's first error becomes the process's. */
const struct cuda_plugin *cuda_opened(void);
const struct cuda_device *cuda_device_at(int i, int *major, int *minor); /* NULL: there is no such one */
int cuda_index(int device);
int cuda_note(const char *why);

struct device_kind;
extern struct device_kind device_cuda; /* cuda_choose and cuda_join alone write it */

#endif
