/* device_cuda.h - the plug-in librille-cuda.so, and the assignment of a process's devices to GPUs.
 *
 * Only the plug-in links CUDA. cuda_parse opens the plug-in when a program first names devices of kind cuda. The
 * plug-in exports one function, rille_cuda_plugin, which returns struct cuda_plugin. A process assigns devices to
 * GPUs once (cuda_choose); until then, the kind's record states why there are no devices. The plug-in is written in
 * C++ and also includes this header, so the header includes no other header of Rille. The session's thread chooses
 * and opens; each function of the record states which thread may call it. */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_H
#define RILLE_RUNTIME_DEVICE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* version of struct cuda_plugin; a plug-in with another version belongs to another build */
enum { CUDA_PLUGIN_VERSION = 13 };

enum { CUDA_UUID = 16 };
struct cuda_gpu {
    char name[256];
    unsigned char uuid[CUDA_UUID]; /* unique id of the GPU */
    size_t bytes;                  /* total memory, bytes */
    size_t free;                   /* memory that was free when the GPU was opened, bytes */
    int major, minor;              /* compute capability, major and minor */
};

/* A matrix product with an epilogue: y = f(x w + bias), computed `batch` times. x: m rows of k; w: k rows of n; y: m
 * rows of n. Sums are in f32, for f64 operands in f64. All fields are 64-bit words without padding, so equal
 * products have equal bytes. */
enum cuda_real { CUDA_F32, CUDA_F64, CUDA_BF16, CUDA_F16 };
enum cuda_after {
    CUDA_AS_IS,
    CUDA_GELU,       /* f(v) = gelu(v), computed with tanh; if aux is present, v is stored in aux */
    CUDA_GELU_SLOPE, /* f(v) = v gelu'(aux) */
};
struct cuda_matrix {
    /* strides, elements: row: distance of rows; col: distance of columns. One of them is 1; in y: col */
    int64_t row, col;
    int64_t batch; /* stride between the matrices of the batch, elements; 0: all products use the same matrix */
};
struct cuda_product {
    int64_t from, to; /* dtypes, as enum cuda_real: from: of x and w; to: of bias, aux and y */
    int64_t after;    /* the epilogue f: a value of enum cuda_after */
    /* 1: the call has the operand. bias: n numbers; aux: a matrix with the strides of y */
    int64_t bias, aux;
    int64_t tf32; /* 1: f32 operands x and w may be rounded to TF32 */
    int64_t m, n, k, batch;
    struct cuda_matrix x, w, y;
};

/* A convolution, or its gradient: y[n, o, u, v] = sum over c, p, q of x[n, c, u stride + p dilation - padding,
 * ...] w[o, c, p, q], with zeros outside of x. n: image; o: output channel; c: input channel; u, v: position in y;
 * p, q: position in w. If x has more channels than w, the channels of x form groups, and the channels o are
 * divided into the same number of groups. As for products, sums are f32 or f64, and all fields are 64-bit words. */
/* the operand that the call computes. The factors of the call are the other two operands, in the order x, w, y */
enum cuda_makes { CUDA_MAKES_Y, CUDA_MAKES_X, CUDA_MAKES_W };
struct cuda_image {
    /* sizes (none is 0) and strides, elements. One stride is 1, and no two elements share memory */
    int64_t size[4], stride[4];
};
struct cuda_convolution {
    int64_t makes;    /* enum cuda_makes: which of y, x, w the call computes */
    int64_t from, to; /* dtypes, as enum cuda_real: from: of the factors; to: of the result */
    int64_t tf32;     /* 1: f32 factors may be rounded to TF32 */
    int64_t stride[2], padding[2], dilation[2];
    struct cuda_image x, w, y;
};

/* Required alignment of the addresses of a call, and of its scratch memory, bytes. */
enum { CUDA_PRODUCT_ALIGN = 16, CUDA_SCRATCH_ALIGN = 256 };
struct cuda_factors {
    /* addresses of the operands. For a convolution, x and w are the factors, y is the result, and bias and aux are
     * unused */
    const void *x, *w, *bias;
    void *aux, *y, *scratch;
};
/* Launches one product or convolution with this algorithm on the calling thread's stream of the GPU. */
typedef const char *cuda_algo_fn(int gpu, const void *algo, const struct cuda_factors *at);

/* A rank's part in a collective (communicator.h). `in` and `out` are dense and do not overlap. numel: number of
 * elements of a block; for CUDA_ALL_REDUCE, of the whole operand. */
enum cuda_verb {
    CUDA_ALL_REDUCE,
    CUDA_REDUCE_SCATTER,
    CUDA_ALL_GATHER,
    CUDA_ALL_TO_ALL,
    CUDA_PASS, /* copies from rank 0 to rank 1 of a link: rank 0 uses `in`, rank 1 uses `out` */
};
enum cuda_reduce { CUDA_SUM, CUDA_PROD, CUDA_MAX, CUDA_MIN };
/* further element types; the numbers continue those of enum cuda_real */
enum cuda_element { CUDA_I64 = CUDA_F16 + 1, CUDA_I32, CUDA_U8 };
enum { CUDA_ID = 128 }; /* size, bytes, of the id that the ranks of a new communicator share */
struct cuda_collective {
    int verb, reduce, element;
    int64_t numel; /* number of elements, > 0 */
};

/* The plug-in's functions. They return an error text that is valid until the process ends; NULL: success. Any
 * thread. */
struct cuda_plugin {
    int version;
    const char *(*count)(int *ngpu); /* returns the number of GPUs; its error states why there are none */
    /* Opens and initialises a GPU. Fails if another process uses the GPU exclusively. */
    const char *(*open)(int gpu, struct cuda_gpu *out);
    /* Allocates memory, aligned to 256 bytes, that host and GPU can access. *out NULL without an error: there is no
     * memory. */
    const char *(*take)(int gpu, size_t bytes, void **out);
    void (*give)(int gpu, void *p);
    const char *(*copy)(void *dst, const void *src, size_t bytes); /* blocks until the copy is complete */
    const char *(*fill)(void *p, int byte, size_t bytes);          /* blocks until the fill is complete */
    /* Returns name and version of the kernel compiler. NULL: there is no compiler, so the host computes
     * everything; *why is the reason. */
    const char *(*compiler)(const char **why);
    /* Compiles CUDA C++ text that contains the kernel `name`, for GPUs with this compute capability. *binary:
     * allocated by malloc. The error, which contains the compiler's output, is valid until the thread's next call. */
    const char *(*compile)(const char *text, const char *name, int major, int minor, void **binary, size_t *bytes);
    const char *(*load)(int gpu, const void *binary, size_t bytes, const char *name, void **kernel);
    /* Launches a kernel. argument: the kernel's argument struct of `bytes` bytes, which is copied. A GPU executes a
     * thread's launches (kernels and products) in order and asynchronously; settle() blocks until all are complete. */
    const char *(*launch)(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes);
    /* Returns name and version of the library for matrix products. NULL: there is none; *why is the reason. */
    const char *(*library)(const char **why);
    /* Returns the algorithm with which the library computes a product on this GPU, and the size of its scratch
     * memory. The algorithm is kept until the process ends, and is the same for equal products. NULL: the library
     * has no algorithm. */
    void *(*product)(int gpu, const struct cuda_product *p, size_t *scratch_bytes);
    cuda_algo_fn *multiply;
    const char *(*settle)(int gpu);
    /* Events, with the meaning of struct device_events. */
    const char *(*event)(int gpu, void **out);
    void (*forget)(int gpu, void *event);
    const char *(*note)(int gpu, void *event);
    const char *(*await)(void *event);
    const char *(*follow)(int gpu, void *event);
    /* Pins host memory, so that GPUs can copy from and to it while they compute. Returns false if that is
     * impossible. */
    bool (*pin)(void *p, size_t bytes);
    void (*unpin)(void *p); /* does nothing if the memory is not pinned */
    /* Launches a copy of rows. Both memories were allocated by take() or pinned by pin(). to, from: strides of rows,
     * bytes. *begun false: nothing was launched. */
    const char *(*carry)(int gpu, void *dst, size_t to, const void *src, size_t from, size_t row, size_t nrow,
                         bool *begun);
    /* Returns name and version of the library for collectives. NULL: there is none; *why is the reason. */
    const char *(*collectives)(const char **why);
    /* Allocates a communicator of n ranks on different GPUs, which is not connected yet. gpu: by rank; -1: a GPU of
     * another process. Any thread may cut it, even during connect(); only the session's thread makes all other calls.
     */
    void *(*communicator)(int n, const int *gpu);
    /* Creates an id of CUDA_ID bytes for one communicator. */
    const char *(*identify)(void *id);
    /* Connects the communicator to the ranks in other processes that call connect() with this id. Blocks until one
     * of these events: all of them have called connect(); the communicator is cut; left() returns true (left NULL:
     * never). */
    const char *(*connect)(void *communicator, const void *id, bool (*left)(void *of), void *of);
    /* Launches a rank's part of a collective on the rank's GPU. The part completes only after all ranks have
     * launched their parts. All ranks must launch collectives in the same order. On a cut communicator, launches
     * nothing. */
    const char *(*collect)(void *communicator, int comm_rank, const struct cuda_collective *what, const void *in,
                           void *out);
    void (*cut)(void *communicator);  /* aborts pending collectives (results: invalid) and a pending connect() */
    void (*drop)(void *communicator); /* frees a cut communicator; no thread may use it any more */
    /* CUDA graphs. Between capture() and captured(), launches of this thread on the GPU are recorded instead of
     * executed. In between, the thread may launch only kernels and products that it has launched before.
     * captured() returns NULL if the launches cannot become a graph. A graph can be launched any number of times. */
    const char *(*capture)(int gpu);
    void *(*captured)(int gpu);
    const char *(*replay)(int gpu, void *graph);
    void (*discard)(int gpu, void *graph);
    /* Functions for convolutions: convolver, convolution and convolve correspond to library, product and multiply. */
    const char *(*convolver)(const char **why);
    void *(*convolution)(int gpu, const struct cuda_convolution *c, size_t *scratch_bytes);
    cuda_algo_fn *convolve;
};

/* The devices that a process requests: device i is 1/parts of a GPU. */
enum { CUDA_DEVICES = 64 };
struct cuda_choice {
    int n;
    /* true: the text names every GPU, but cuda_parse with `here` false cannot count the GPUs, so n is 0 */
    bool all;
    bool nccl; /* true: the library runs collectives among the devices */
    struct cuda_device {
        int gpu, parts;
    } device[CUDA_DEVICES];
};

/* Adds the devices that a text names: "all", "0", or "0x4" (four devices that share GPU 0). here true: checks the
 * GPUs with this process's driver; false: only parses the text. E_PLACE: no plug-in, no driver, or no such GPU. */
int cuda_parse(const char *text, bool here, struct cuda_choice *c);
/* Sets the devices of the kind. E_PLACE: another process uses a GPU exclusively; there is no library for
 * collectives; or devices share a GPU. E_STATE: the process has already chosen other devices. */
int cuda_choose(const struct cuda_choice *c);
/* Returns the GPU of a device of this process. E_PLACE: no such device. */
int cuda_gpu_of(int device, struct cuda_gpu *out);
/* Returns the flags (COMPILES, MULTIPLIES, CONVOLVES, COLLECTS) of the devices of this process. Call after devices
 * were chosen. */
unsigned cuda_abilities(void);
/* Numbers the devices of the kind across the processes of a cluster. The devices of this process get the numbers
 * first to first + n - 1. `abilities`: the flags that the devices of all processes have; plans use only these.
 * With n = 0, this process launches and compiles nothing. E_PLACE: the process has chosen another number of
 * devices than n, or its devices lack one of the flags. Call only while no work of the kind is in progress;
 * session's thread. */
int cuda_join(unsigned abilities, int first, int n);

/* Pins host memory, if devices are chosen and the memory can be pinned. Session's thread. */
void cuda_pin(void *p, size_t bytes);
void cuda_unpin(void *p); /* call before host memory is freed, pinned or not */

struct communicator;
struct communicator_post;
struct collective_call;
struct cuda_algo;
struct cuda_kernel;
struct str;
struct stream;

/* Functions for cuda_kernel.c, cuda_product.c and cuda_collective.c only. cuda_opened returns the open plug-in.
 * cuda_device_at returns the i-th device of this process. cuda_index converts a device number of the cluster to
 * such an index i. cuda_note reports an error of a GPU; the process keeps the first error. */
const struct cuda_plugin *cuda_opened(void);
/* NULL: i is not less than the number of devices of the process */
const struct cuda_device *cuda_device_at(int i, int *major, int *minor);
int cuda_index(int device);
int cuda_note(const char *why);

struct device_kind;
extern struct device_kind device_cuda; /* the kind cuda; only cuda_choose and cuda_join change the record */

#endif
