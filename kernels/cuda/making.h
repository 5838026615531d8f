/* making.h - a kernel under construction: shared by the engines that write kernel texts (source.c, line.c, after.c,
 * attention.c).
 *
 * The kernel's argument is a struct `args` with the members `member`, in the order of the words. `head` is the text
 * before the kernel, `body` the kernel's body. A struct making belongs to one thread from making_begin() to
 * making_finish(). The result is allocated in the caller's arena. */
#ifndef RILLE_KERNELS_CUDA_MAKING_H
#define RILLE_KERNELS_CUDA_MAKING_H

#include "kernels/cpu/eltwise/chain.h"
#include "kernels/cuda/source.h"
#include "runtime/base/str.h"

struct making {
    struct arena *arena;
    struct cuda_source *to;
    struct str member, head, body;
    int room, fill_room;
    char what[CUDA_WHAT + 1];
};

struct making making_begin(struct arena *a, struct cuda_source *to);
/* Appends a word to the kernel's name, which tells what the kernel computes. Drops words that do not fit. */
void making_what(struct making *m, const char *word);
/* Begins the head with fragments.cuh, for the source's present number of threads per block. */
void making_fragments(struct making *m);
/* Assembles the parts under a name made of the computation and a digest. E_KERNEL: the argument is too long. */
int making_finish(struct making *m, const char *engine, int64_t threads);

/* Append words to the argument; making_fill appends a word that each run fills in (what, index, skip: struct
 * cuda_fill). */
void making_word(struct making *m, uint64_t w);
void making_words(struct making *m, int n, const int64_t *w);
void making_fill(struct making *m, int what, int index, int64_t skip);

/* Return C++ types: of an element in memory, of values in computations, of positions in a walk over n elements. */
const char *making_memory(enum dtype d);
const char *making_compute(enum compute c);
const char *making_places(int64_t n);

/* Declare, in the struct of a body: attributes and their words; a number as x<k>(); a view as member <name><k>; its
 * dim<k>, place<k>, whole<k> and NDIM<k>; an operand read by position; its x<k>_nth(j). making_add_call declares, in
 * the kernel, the call `name` as bodies see it. */
void making_add_names(struct str *s, const struct op *op);
void making_add_number(struct making *m, int k, enum dtype d);
void making_add_whole(struct making *m, char name, int k, int index, const struct view *v);
void making_add_sizes(struct making *m, char name, int k, int ndim);
void making_add_operand(struct making *m, const struct kcall *k, int i);
void making_add_nth(struct making *m, int k, const struct view *v);
void making_add_call(struct str *s, const char *name, const struct call *c);

/* Operands, then results, of a chain: views, lanes along the chain's loops if any, and flags for number operands. */
enum { MAKING_STEPS = 64, MAKING_LANES = 64 };
struct making_ends {
    int nin, nout;
    const struct view *view[MAKING_LANES]; /* DT_NONE: unused by the steps */
    struct lane lane[MAKING_LANES];
    bool number[MAKING_LANES];
};
bool making_in_memory(const struct making_ends *e, int i);
/* Adds chain::of(s<lead>, v<k>..., &y<k>...), which computes a chain's elements in their memory types, and the
 * chain's part of the kernel's name. s<lead>: value of the leading step; lead -1: no leading step. */
void making_add_chain(struct making *m, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e);

/* Write kernels along lines (line.c): a fold, or a call that works along lines in one or several passes. */
int making_fold(struct arena *a, const struct kcall *k, struct cuda_source *s);
int making_line(struct arena *a, const struct kcall *k, struct cuda_source *s);
/* Writes a chain (after.c) led by step `lead`, which works along lines and writes its first result element by
 * element. */
int making_epilogue(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e,
                    struct cuda_source *s);

/* Attention of halves and its gradient by matrix products of warps (attention.c): returns true if the call is
 * eligible; writes its kernels. */
bool making_attends(const struct kcall *k);
int making_attention(struct arena *a, const struct kcall *k, struct cuda_source *s);

#endif
