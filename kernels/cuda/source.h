/* source.h - writes the kernel that computes a call or a chain on a GPU, as text of CUDA C++, and its launch.
 *
 * A text consists of bodies and of an engine, the loops around the bodies. Bodies come from the operators' records:
 * those of element-wise operators (struct eltwise), those in struct op_gpu, and reductions (host.folds). What does not
 * depend on the call is a macro or template in a .cuh file, so the C files write names, numbers and lists. The engines:
 *
 *   each       element by element of the results: chains, and functions of positions
 *   line       a group of threads per line: reductions, softmax, norms
 *   product    a block of threads per tile: products of matrices, convolutions
 *   attention  a warp per 16 rows: attention of halves and its gradient, by matrix products of warps
 *   copy       a copy of bits from one strided view to another
 *
 * docs/gpu-bodies.md describes the language of bodies: the names that a body of each engine may use, with examples.
 *
 * A text depends on dtypes, attributes and the number of loops. Sizes, strides, addresses and the numbers of a call are
 * words of the kernel's argument. A text is compiled after the text of device.cuh. The kernel's name consists of the
 * computation, which profilers then show, and a digest of the text. Sources are allocated in the caller's arena; any
 * thread may read them afterwards. */
#ifndef RILLE_KERNELS_CUDA_SOURCE_H
#define RILLE_KERNELS_CUDA_SOURCE_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/data/arena.h"

enum { CUDA_BLOCK = 256 };  /* threads per block in nearly every kernel */
enum { CUDA_SOURCES = 62 }; /* maximum number of operands of a combination */
enum { CUDA_FINDERS = 64 }; /* maximum number of blocks of a kernel that searches an operand for invalid data */
enum { CUDA_WHAT = 40 };    /* maximum length of the part of a kernel's name that says what it computes, characters */

struct cuda_source {
    const char *engine;
    const char *name; /* name of the kernel */
    const char *text;
    struct cuda_parts {
        const char *member, *head, *body;
        int threads; /* threads per block */
        int crowd;   /* minimum number of resident blocks per multiprocessor, which limits the registers */
    } parts;         /* the parts from which the kernel's text is assembled */
    int room;       /* maximum number of bundled calls per launch (cuda_source_many()); 0: the kernel is for one call */
    int64_t blocks; /* number of blocks to launch; 0: there is nothing to compute */
    int nword;      /* length of the argument, words of 8 bytes */
    uint64_t *word; /* the argument; 0 in the words that a run fills in (`fill`) */
    int nfill;
    struct cuda_fill {
        int word, index;
        /* The value that a run writes to the word. FILL_ADDRESS: the address of operand or result `index`, plus
         * skip; FILL_PIECE: the index of the micro-batch; FILL_SCRATCH: the address of the scratch that all passes
         * share, plus skip. */
        enum { FILL_ADDRESS, FILL_PIECE, FILL_SCRATCH } what;
        int64_t skip; /* offset that is added to the address, bytes */
    } * fill;
    size_t scratch_bytes;
    bool copies; /* true: the kernel copies operand 0 to result 0, so it is not launched if both share memory */
    struct cuda_source *then; /* source of the next pass; NULL: this is the last */
};

/* Fills in the argument of a run, and writes its nword words to `word`. in and out are as in exec_enqueue(). */
void cuda_source_fill(const struct cuda_source *s, int nin, void *const *in, void *const *out, void *scratch,
                      uint64_t piece, uint64_t *word);

/* Writes the kernel of a call. Fails with E_KERNEL if no kind of kernel (engine) supports the call; the host then
 * computes the call. Views are as in exec.h. */
int cuda_source_call(struct arena *a, const struct kcall *k, struct cuda_source *s);
/* Writes the kernel of a chain. lead: index of the leading step, which processes lines; -1: all steps are
 * element-wise. A product cannot lead a chain. */
int cuda_source_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin,
                      const struct view *in, int nout, const struct view *out, struct cuda_source *s);
/* Writes a copy in row-major order. Both views have the same number of elements and the same dtype; their sizes and
 * strides may differ. */
int cuda_source_copy(struct arena *a, const struct view *from, const struct view *to, int64_t skip,
                     struct cuda_source *s);
/* Writes a combination, to = in[0] r in[1] r ..., where r is a sum, maximum or minimum. The kernel combines from left
 * to right, as boxing's reductions and accumulation do. It rounds every step to the dtype to which the operands and
 * `to` promote, and the result to the dtype of `to`. If nin is 0, `to` is the neutral element of r. */
int cuda_source_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                        struct cuda_source *s);

/* Writes the finder of an operator that checks data (op->host.allows): a kernel that searches an operand for invalid
 * data. Each block searches its share of the operand. It stores the first invalid element as a struct finding in
 * scratch, at the block's index. */
int cuda_source_find(struct arena *a, const struct kcall *k, struct cuda_source *s);

extern const char cuda_device_text[]; /* text of device.cuh, lines.cuh, members.cuh */
/* Texts of fragments.cuh, product.cuh and attention.cuh. Before product.cuh or attention.cuh, a source needs
 * fragments.cuh. */
extern const char cuda_fragments_text[], cuda_product_text[], cuda_attention_text[];

struct making;
struct making_ends;

bool making_in_memory(const struct making_ends *e, int i);
/* Writes the C++ function chain::of(s<lead>, v<k>..., &y<k>...), which computes one element of a chain from
 * elements in their memory types. Also adds the operators of the chain to the kernel's name. s<lead> is the value
 * of the leading step; lead -1: there is no leading step. */
void making_add_chain(struct making *m, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e);

#endif
