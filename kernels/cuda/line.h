/* line.h - functions that write kernel texts in which a team of threads processes each line (such as a row) of a
 * tensor. line.c divides operands and results into lines and distributes a pass over threads; after.c writes the
 * epilogue.
 *
 * The thread that writes a call's kernel makes all calls; memory is allocated in the caller's arena. */
#ifndef RILLE_KERNELS_CUDA_LINE_H
#define RILLE_KERNELS_CUDA_LINE_H

#include "kernels/cuda/making.h"
#include "sbp/rule.h"

/* The epilogue: the steps of a chain other than its leading call. The steps are computed on the first result of the
 * leading call; their operands and results have the shape of that result. */
struct after {
    int lead, nstep;
    const struct fuse_step *step;
    struct making_ends ends;
    /* Number of operands and results of the leading call. In struct cuda_fill, index + i denotes operand or result
     * i of the chain. */
    int index;
};

/* A tensor divided into lines. The dimensions of the tensor form two groups: group 1 along a line, group 0 across
 * lines. */
struct lines_on {
    const struct view *of;
    int ndim;
    bool gone[MAX_DIM];
    int64_t count, length;
    int64_t size[2][MAX_DIM]; /* sizes of the dimensions of each group */
    int n[2];
    /* Number of loops of each group (1: along a line, 0: across lines). Neighbouring dimensions that are adjacent
     * in memory in all operands and results form one loop. */
    int nloop[2];
    struct loop {
        int64_t size;
        /* The innermost dimension that the loop covers, as an index in the loop's group. The loop has the stride
         * of that dimension. */
        int last;
    } loop[2][MAX_DIM];
    /* true: each element is computed independently of the others, and the tensors are dense. Lines are then
     * sections of the tensor; the last section may be shorter. */
    bool flat;
    int64_t total;
    struct rule rule; /* letters of operands and results in the SBP rule, if `ruled` */
    bool ruled;
    int at;                    /* index of tensor `of` among the operands of the rule */
    const struct after *after; /* the epilogue; NULL: none */
};

/* State of writing one pass: how the pass's lines are distributed over threads, and where in scratch the pass
 * stores values for the next pass. */
struct passing {
    const struct line_pass *pass;
    const struct after *after; /* the epilogue; NULL: none */
    int parts;                 /* number of parts per line; each part has a team of threads */
    /* width: number of threads in a team. gap: distance between neighbouring threads of a team, threads. */
    int width, gap;
    /* pack: number of elements that a thread accesses at once. held: number of a line's elements that a thread keeps
     * in registers; 0: none. */
    int pack, held;
    int lanes;  /* number of adjacent lines that a thread processes at once */
    bool named; /* true: keys (ids) select the lines to process; each block searches all keys for its lines */
    /* keeps: number of values that this pass stores per line or part. kept: number of values that the previous pass
     * has stored. */
    int keeps, kept;
    /* Offsets in scratch, bytes. keep_at: of the values that this pass stores; kept_at: of the values that the
     * previous pass has stored. */
    int64_t keep_at, kept_at;
    int joins; /* number of parts per line that the previous pass has stored and this pass combines; 0: lines were not
                  divided */
    int part_kept;   /* number of values that the previous pass has stored per part */
    int64_t part_at; /* offset in scratch of the values that the previous pass stored per part, bytes */
};

/* Sets stride[g] to the strides of a view in the dimensions of group g. The view has either all dimensions of the
 * tensor that is divided into lines, or only the dimensions of one group. index: index of the operand in the call,
 * or nin + index of the result. Returns false if the dimensions do not match. */
bool line_strides(const struct lines_on *l, int index, const struct view *v, int64_t stride[2][MAX_DIM]);
/* Returns the stride of a view between neighbours in group g (1: elements of a line, 0: lines). A stride of 0 means
 * that neighbours share one element. */
int64_t line_step(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g);
/* Returns true if packs of n contiguous elements along group g (1: elements of a line, 0: lines) are aligned,
 * whatever the position in the other loops. */
bool line_begins_whole(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g, int n);
/* Writes the declaration of the C++ function <name><k>_at(i), which returns the offset of element i of the line
 * in a view with these strides. together: the elements of a line are contiguous. */
void line_add_place(struct making *m, const struct lines_on *l, char name, int k, int index, int64_t stride[2][MAX_DIM],
                    bool together);
/* Writes the kernels of all passes of a call; a call without passes has one kernel. after: the epilogue; NULL: none. */
int line_make(struct arena *a, const struct kcall *k, const struct after *after, struct cuda_source *s);

/* Write kernels in which teams of threads process lines. making_fold writes a reduction. making_line
 * writes a call whose record has GPU code (bodies) for lines, in one or several passes. */
int making_fold(struct arena *a, const struct kcall *k, struct cuda_source *s);
int making_line(struct arena *a, const struct kcall *k, struct cuda_source *s);

#endif
