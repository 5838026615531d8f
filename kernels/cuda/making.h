/* making.h - builds the text of a kernel; shared by the engines that write kernel texts (source.c, line.c,
 * after.c, attention.c).
 *
 * The kernel has one argument, a struct `args`. struct making collects three texts. `member` has the declarations
 * of the argument's members, in the order of its words; `head` is the text before the kernel; `body` is the
 * kernel's body. A struct making belongs to one thread from making_begin() to making_finish(). The result is
 * allocated in the caller's arena. */
#ifndef RILLE_KERNELS_CUDA_MAKING_H
#define RILLE_KERNELS_CUDA_MAKING_H

#include "kernels/cpu/eltwise/chain.h"
#include "kernels/cuda/source.h"
#include "runtime/data/str.h"

struct making {
    struct arena *arena;
    struct cuda_source *to;
    struct str member, head, body;
    int room, fill_room;
    char what[CUDA_WHAT + 1];
};

struct making making_begin(struct arena *a, struct cuda_source *to);
/* Appends a word to the part of the kernel's name that says what the kernel computes. Omits a word that would make
 * the part too long. */
void making_what(struct making *m, const char *word);
/* Puts fragments.cuh at the start of `head`, compiled for the current number of threads per block. */
void making_fragments(struct making *m);
/* Assembles the parts of the kernel to one text and sets the fields of struct cuda_source. The kernel's name says
 * what the kernel computes, and ends with a digest of the text. Fails with E_KERNEL if the argument is too long. */
int making_finish(struct making *m, const char *engine, int64_t threads);

/* Append words to the argument. making_fill appends a word that each run fills in; what, index and skip are those of
 * struct cuda_fill. */
void making_word(struct making *m, uint64_t w);
void making_words(struct making *m, int n, const int64_t *w);
void making_fill(struct making *m, int what, int index, int64_t skip);

/* Return C++ types. making_memory: type of an element in memory. making_compute: type of a value in computations.
 * making_places: integer type of a position in a loop over n elements. */
const char *making_memory(enum dtype d);
const char *making_compute(enum compute c);
const char *making_places(int64_t n);

/* The functions below write declarations into the C++ struct that contains an operator's GPU code. k: index of an
 * operand or result. */
/* Writes an enum constant for the index of each attribute, and one for each value of a text attribute. */
void making_add_names(struct str *s, const struct op *op);
/* Declares the C++ function x<k>(), which returns operand k, a number. */
void making_add_number(struct making *m, int k, enum dtype d);
/* Declares the view as member <name><k>. index: index of its operand or result in struct cuda_fill. */
void making_add_whole(struct making *m, char name, int k, int index, const struct view *v);
/* Declares further members of the view that making_add_whole() declared: dim<k>, its sizes; place<k>, the offset
 * of the shard; whole<k>, the global sizes; NDIM<k>, the number of its dimensions. */
void making_add_sizes(struct making *m, char name, int k, int ndim);
/* Declares functions that read operand i by position. */
void making_add_operand(struct making *m, const struct kcall *k, int i);
/* Declares the C++ function x<k>_nth(j), which reads element j of operand k in row-major order. */
void making_add_nth(struct making *m, int k, const struct view *v);
/* Declares the call as variable `name` of the kernel, from which the operator's GPU code reads attributes. */
void making_add_call(struct str *s, const char *name, const struct call *c);

/* Operands, then results, of a chain: their views, and their strides in the chain's loops. number[i]: true if
 * operand i is a number (scalar) of its call. */
enum { MAKING_STEPS = 64, MAKING_LANES = 64 };
struct making_ends {
    int nin, nout;
    /* Views of operands, then of results; dtype DT_NONE: no step uses the view. */
    const struct view *view[MAKING_LANES];
    struct lane lane[MAKING_LANES];
    bool number[MAKING_LANES];
};

/* Writes a kernel that computes several calls in one launch. The calls have the same source text, and differ only in
 * the words of their kernel arguments (such as sizes, strides and addresses). Each call gets the same number of
 * blocks as in a separate launch, so its result is bit-identical. The source must have one pass and must not be a
 * product.
 *
 * The argument of the new kernel begins with `room` words: by call, the number of its end block. The words of the
 * calls' own arguments follow. */
void cuda_source_many(struct arena *a, const struct cuda_source *s, struct cuda_source *many);

#endif
