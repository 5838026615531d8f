/* making.h - a kernel under construction: what the engines write texts with (source.c, line.c, after.c,
 * attention.c).
 *
 * The argument is a struct `args` whose members are `member`, in the order of the words; `head` is what stands before
 * the kernel, `body` what it does. Between making_begin and making_finish it belongs to one call and its thread; what
 * is made lies in the caller's arena. */
#ifndef RILLE_KERNELS_CUDA_MAKING_H
#define RILLE_KERNELS_CUDA_MAKING_H

#include "kernels/cpu/chain.h"
#include "kernels/cuda/source.h"
#include "runtime/str.h"

struct making {
    struct arena *arena;
    struct cuda_source *to;
    struct str member, head, body;
    int room, fill_room;
    char what[CUDA_WHAT + 1];
};

struct making making_begin(struct arena *a, struct cuda_source *to);
/* What it computes, as its name says it: words that are joined, as many as have room. */
void making_what(struct making *m, const char *word);
/* Begins the head with fragments.cuh, of blocks of as many threads as the source has by then. */
void making_fragments(struct making *m);
/* Puts the parts together, under a name that is what it computes and the digest of them. E_KERNEL: the argument is too
 * long. */
int making_finish(struct making *m, const char *engine, int64_t threads);

/* Words of the argument; one that a run fills in (what, index, skip: struct cuda_fill). */
void making_word(struct making *m, uint64_t w);
void making_words(struct making *m, int n, const int64_t *w);
void making_fill(struct making *m, int what, int index, int64_t skip);

/* The types of C++: of an element in memory, of what is computed with, of places of a walk over so many. */
const char *making_memory(enum dtype d);
const char *making_compute(enum compute c);
const char *making_places(int64_t n);

/* In the struct of a body: the names of attributes and of their words; a number as x<k>(); a view whose elements it
 * reads, or whose positions it asks for, as member <name><k>; dim<k>, place<k>, whole<k> and NDIM<k> of it; an operand
 * by positions, and x<k>_nth(j) of one. In the kernel: the call `name` as bodies see it. */
void making_add_names(struct str *s, const struct op *op);
void making_add_number(struct making *m, int k, enum dtype d);
void making_add_whole(struct making *m, char name, int k, int index, const struct view *v);
void making_add_sizes(struct making *m, char name, int k, int ndim);
void making_add_operand(struct making *m, const struct kcall *k, int i);
void making_add_nth(struct making *m, int k, const struct view *v);
void making_add_call(struct str *s, const char *name, const struct call *c);

/* Operands and results of a chain: first operands, then results; how they lie along its loops, where it has some; which
 * are numbers of the call. */
enum { MAKING_STEPS = 64, MAKING_LANES = 64 };
struct making_ends {
    int nin, nout;
    const struct view *view[MAKING_LANES]; /* of DT_NONE: its steps have no use for it */
    struct lane lane[MAKING_LANES];
    bool number[MAKING_LANES];
};
bool making_in_memory(const struct making_ends *e, int i);
/* chain::of(s<lead>, v<k>..., &y<k>...): the function of a chain's elements as memory has them, and what the kernel's
 * name says of it. s<lead>: the value of the step that leads it; lead -1: none does. */
void making_add_chain(struct making *m, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e);

/* Lines (line.c): a call that folds, goes along lines in passes, or in one. */
int making_fold(struct arena *a, const struct kcall *k, struct cuda_source *s);
int making_line(struct arena *a, const struct kcall *k, struct cuda_source *s);
/* A chain (after.c) that step `lead` leads, which goes along lines and writes its first result element by element. */
int making_led(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct making_ends *e,
               struct cuda_source *s);

/* Attention of halves and its gradient, by matrix products of warps (attention.c); whether these do. */
bool making_attends(const struct kcall *k);
int making_attention(struct arena *a, const struct kcall *k, struct cuda_source *s);

#endif
