/* source.h - the kernel that computes a call or a chain on a GPU, as text of CUDA C++, and how it is launched.
 *
 * The text follows from the operators' records: the bodies of element-wise operators (struct eltwise), of values at
 * positions and of lines (struct op, element and line), and what an operator folds. Engines are written around them:
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
 * (lanes of device.cuh). Both read c as bodies of element-wise operators do (kernels/op/eltwise.h).
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

#include "kernels/cpu/fuse.h"
#include "runtime/arena.h"

enum { CUDA_BLOCK = 256 };  /* threads of a block, of nearly every kernel */
enum { CUDA_SOURCES = 62 }; /* of a combination, at most */
enum { CUDA_FINDERS = 64 }; /* blocks that look for what is wrong, at most */
enum { CUDA_WHAT = 40 };    /* letters of a name that say what a kernel computes, at most */

struct cuda_source {
    const char *engine;
    const char *name; /* of the kernel */
    const char *text;
    struct cuda_parts {
        const char *member, *head, *body;
        int threads; /* of a block */
        int crowd;   /* how many blocks of it a processor holds, at least: it has no more registers than that leaves */
    } parts;         /* of the text */
    int room;        /* it computes so many calls at once, at most; 0: one */
    int64_t blocks;  /* 0: there is nothing to compute */
    int nword;       /* of its argument, 8 bytes each */
    uint64_t *word;  /* with 0 where a run fills something in: */
    int nfill;
    struct cuda_fill {
        int word, index;
        /* Of, or behind, operand or result `index`; the piece; of the scratch of all passes. */
        enum { FILL_ADDRESS, FILL_PIECE, FILL_SCRATCH } what;
        int64_t skip; /* bytes, added to an address */
    } * fill;
    size_t scratch_bytes;
    bool copies;              /* it gives result 0 what operand 0 has: of one memory it does nothing */
    struct cuda_source *then; /* the pass that is launched when this one is done; NULL: none */
};

/* The words of a run. in, out: as exec_enqueue has them. word has room for nword. */
void cuda_source_fill(const struct cuda_source *s, int nin, void *const *in, void *const *out, void *scratch,
                      uint64_t piece, uint64_t *word);

/* E_KERNEL: no engine computes it; the host does. Views as in kernel.h. */
int cuda_source_call(struct arena *a, const struct kcall *k, struct cuda_source *s);
/* lead: the step that leads it, along lines; -1: all are element-wise. A product leads none. */
int cuda_source_chain(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin,
                      const struct view *in, int nout, const struct view *out, struct cuda_source *s);
/* Of equal element counts, walked in row-major order; same dtype, any sizes and strides. */
int cuda_source_copy(struct arena *a, const struct view *from, const struct view *to, int64_t skip,
                     struct cuda_source *s);
/* to = in[0] r in[1] r ..., added from the left, every step rounded to to's dtype: what boxing's reductions and
 * accumulation do. Of no sources: what changes no value when r combines it with that. */
int cuda_source_combine(struct arena *a, enum reduce r, int nin, const struct view *in, const struct view *to,
                        struct cuda_source *s);

/* What op->allows forbids: each of the blocks looks through its part of the operand and leaves the first it finds, a
 * struct finding, in scratch, one behind the other. Of no operator but those that check data. */
int cuda_source_find(struct arena *a, const struct kcall *k, struct cuda_source *s);

/* The kernel for several calls at once, which have the same text and differ in their words: each gets as many blocks as
 * alone, and the same bits. Of one pass, not of a product. Its argument begins with the block behind each call's, in
 * room words; the words of the calls follow. */
void cuda_source_many(struct arena *a, const struct cuda_source *s, struct cuda_source *many);

extern const char cuda_device_text[]; /* device.cuh, and lines.cuh behind it */
/* fragments.cuh, and behind it product.cuh or attention.cuh, in the texts that need them. */
extern const char cuda_fragments_text[], cuda_product_text[], cuda_attention_text[];

#endif
