/* source.h - the kernel that computes a call or a chain on a GPU, as text of CUDA C++, and how it is launched.
 *
 * The text follows from the operators' records: the bodies of element-wise operators (struct eltwise), of values at
 * positions and of lines (struct op_gpu), and what an operator folds. Engines are written around them:
 *
 *   each   element by element of the results: chains, and functions of positions
 *   line   a group of threads a line: folds, softmax, norms
 *   product  a block of threads a tile: products of matrices, convolutions
 *   attention  a warp 16 rows: attention of halves and its gradient, by matrix products of warps
 *   copy   bits from one strided memory to another
 *
 * A body of an element has at[d], the position in the result; place(d), whole(d) and index(), the same in the whole
 * tensor; NDIM, DIGITS (of a float), key() and a.piece for random numbers; of operand k x<k>(at), or x<k>() of a
 * number, dim<k>(d), place<k>(d) (its offset) and NDIM<k>. Its value is what it returns.
 *
 * A body of a line has n elements, which its lambdas meet as `element i` (lines.cuh): of operand k x<k>(i), of result k
 * y<k>(i, value) - also where they have one value a line, or one for all lines; of an operand one element at a time,
 * the same of it for each i, since a thread reads and writes packs of 16 bytes where all lie together. An int64_t i is
 * any element, by itself. Result 0 of an operator that leads chains (OP_LEADS) it writes in each_of, which reads what
 * the chain's steps want there before; these are computed where y0 is called. Operands that the record reads by
 * position are otherwise: of these x<k>(at), which is x<k>_from(x<k>_at(at)), x<k>_nth(j) of the j-th element in
 * row-major order, dim<k>(d) and NDIM<k>; where(i, at) gives the position of an element in what lines are of, dim0(d),
 * place0(d), whole0(d) and NDIM0 its sizes; of a result size(d), place(d), NDIM. keep(k, value) of a line,
 * kept<type>(line, k) of the pass before, or of the one before that; of a pass whose lines are parted, elements from +
 * 0..n-1 of the line, PARTS, and in the pass behind it kept_part<type>(part, k) and fold_parts<sums>(start, f). line:
 * its number; a.length; each(f), once(f), fold<sums>(start, f), fold_near, fold_products, fold_exponentials, each_of,
 * held(f), each_named(...) of lines.cuh, f a lambda; real, the type that it computes in, wide, in which it adds up, and
 * fine, a number that minus(x, fine) takes off. Of a pass that says so (lanes) x<k>(i) may be numbers of as many lines
 * (lanes of device.cuh). Both read c as bodies of element-wise operators do (kernels/op/lib/eltwise.h).
 *
 * A body of a product calls multiply(...) of product.cuh. It has x<k>(at), which is x<k>_from(x<k>_at(at)),
 * x<k>_stored, which is what lies there as it lies, dim<k>(d) and NDIM<k> as a body of an element has, coordinate, the
 * type of what is added up of positions along dimensions, NDIM and size(d) of the result, and write(at, value).
 *
 * A text depends on dtypes, attributes and the number of loops, not on sizes and strides: those are words of its
 * argument, like addresses, also of the numbers of a call. It is compiled after the text of device.cuh, and named after
 * what it computes and its digest, so that profilers tell. Everything is in the caller's arena; only
 * read afterwards, any thread. */
#ifndef RILLE_KERNELS_CUDA_SOURCE_H
#define RILLE_KERNELS_CUDA_SOURCE_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/base/arena.h"

enum { CUDA_BLOCK = 256 };  /* threads per block in nearly every kernel */
enum { CUDA_SOURCES = 62 }; /* maximum sources of a combination */
enum { CUDA_FINDERS = 64 }; /* maximum blocks of a finder */
enum { CUDA_WHAT = 40 };    /* maximum characters of the computation in a name */

struct cuda_source {
    const char *engine;
    const char *name; /* name of the kernel */
    const char *text;
    struct cuda_parts {
        const char *member, *head, *body;
        int threads; /* threads per block */
        int crowd;   /* minimum resident blocks per multiprocessor; limits the registers */
    } parts;         /* of the text */
    int room;        /* maximum calls per launch; 0: one call */
    int64_t blocks;  /* blocks to launch; 0: nothing to compute */
    int nword;       /* words of the argument, 8 bytes each */
    uint64_t *word;  /* the argument; 0 where a run fills in: */
    int nfill;
    struct cuda_fill {
        int word, index;
        /* The address of operand or result `index`, plus skip; the piece; or an address in the scratch of all
         * passes. */
        enum { FILL_ADDRESS, FILL_PIECE, FILL_SCRATCH } what;
        int64_t skip; /* bytes, added to an address */
    } * fill;
    size_t scratch_bytes;
    bool copies;              /* copies operand 0 to result 0: no effect if both share memory */
    struct cuda_source *then; /* next pass; NULL: none */
};

/* Fills in the argument of a run. in, out: as in exec_enqueue. word has room for nword words. */
void cuda_source_fill(const struct cuda_source *s, int nin, void *const *in, void *const *out, void *scratch,
                      uint64_t piece, uint64_t *word);

/* Writes the kernel of a call. E_KERNEL: no engine computes the call; the host does. Views as in kernel.h. */
int cuda_source_call(struct arena *a, const struct kcall *k, struct cuda_source *s);
/* Writes the kernel of a chain. lead: the step along lines that leads the chain; -1: all steps are element-wise. A
 * product leads no chain. */
int cuda_source_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin,
                      const struct view *in, int nout, const struct view *out, struct cuda_source *s);
/* Writes a copy in row-major order. The views have equal element counts and dtypes, any sizes and strides. */
int cuda_source_copy(struct arena *a, const struct view *from, const struct view *to, int64_t skip,
                     struct cuda_source *s);
/* Writes to = in[0] r in[1] r ..., combined from the left, every step rounded to to's dtype, as in boxing's
 * reductions and accumulation. Without sources, writes the neutral element of r. */
int cuda_source_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                        struct cuda_source *s);

/* Writes the finder of an operator that checks data (op->host.allows): each block searches its share of the operand and
 * stores its first invalid element, a struct finding, in scratch, at the block's index. */
int cuda_source_find(struct arena *a, const struct kcall *k, struct cuda_source *s);

/* Writes a kernel for several calls that share a text and differ in their words: each call gets as many blocks as
 * alone, and the same bits. For single passes other than products. The argument begins with the end block of each
 * call, in `room` words; the words of the calls follow. */
void cuda_source_many(struct arena *a, const struct cuda_source *s, struct cuda_source *many);

extern const char cuda_device_text[]; /* device.cuh and then lines.cuh */
/* fragments.cuh, and product.cuh or attention.cuh, which follow it in the texts that need them. */
extern const char cuda_fragments_text[], cuda_product_text[], cuda_attention_text[];

#endif
