/* line.h - functions that write kernels along lines: the layout of a call's operands along lines, the distribution
 * of a pass over threads (line.c), and the epilogue of its result (after.c).
 *
 * One thread writes a call's kernel; memory is in the caller's arena. */
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
    /* Number of operands and results of the leading call; in struct cuda_fill, higher indices are operands and results
     * of the chain. */
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
    /* Number of loops of each group; dimensions that are adjacent in all operands and results form one loop. */
    int nloop[2];
    struct loop {
        int64_t size;
        /* Index in its group of the innermost dimension that the loop covers; the loop's stride is the stride of that
         * dimension. */
        int last;
    } loop[2][MAX_DIM];
    /* true: elements are independent and dense, and lines are sections of the tensor, of which the last may be shorter.
     */
    bool flat;
    int64_t total;
    struct rule rule; /* letters of operands and results in the SBP rule, if `ruled` */
    bool ruled;
    int at;                    /* index in the rule of the tensor `of` */
    const struct after *after; /* the epilogue; NULL: none */
};

/* The state of writing one pass: how its lines are distributed over threads, and where its numbers are stored in
 * scratch. */
struct passing {
    const struct line_pass *pass;
    const struct after *after; /* the epilogue; NULL: none */
    int parts;                 /* number of parts per line; each part has a team of threads */
    int width, gap;            /* number of threads in a team; distance between neighbouring threads of a team */
    /* Number of elements that a thread accesses at once; number of a line's elements that a thread keeps in registers,
     * 0: none. */
    int pack, held;
    int lanes;  /* number of adjacent lines that a thread processes at once */
    bool named; /* true: keys select the lines, and a block searches the keys for several lines */
    /* Number of values that this pass stores per line or part; number that the previous pass has stored. */
    int keeps, kept;
    /* Offsets in scratch, bytes: of the numbers of this pass, and of those of the previous pass. */
    int64_t keep_at, kept_at;
    int joins; /* parts per line of the previous pass, which this pass combines; 0: the previous pass had whole lines */
    int part_kept;   /* number of values that the previous pass has stored per part */
    int64_t part_at; /* offset in scratch where the previous pass stores the numbers of parts, bytes */
};

/* Sets the strides of a view in both groups. The view has all dimensions of operand 0, or the dimensions of one
 * group. index: index of the operand in the call, or nin + index of the result. Returns false if the dimensions do
 * not match. */
bool line_strides(const struct lines_on *l, int index, const struct view *v, int64_t stride[2][MAX_DIM]);
/* Returns the stride of a view between neighbours in group g (1: elements of a line, 0: lines). A stride of 0 means
 * that neighbours share one element. */
int64_t line_step(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g);
/* Returns true if packs of n contiguous elements along group g are aligned, whatever the position in the other
 * loops. */
bool line_begins_whole(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g, int n);
/* Writes the declaration of <name><k>_at(i), which returns the offset of element i of the line in a view with these
 * strides. */
void line_add_place(struct making *m, const struct lines_on *l, char name, int k, int index, int64_t stride[2][MAX_DIM],
                    bool together);
/* Writes the kernels of all passes of a call, or of its single line body. after: the epilogue; NULL: none. */
int line_make(struct arena *a, const struct kcall *k, const struct after *after, struct cuda_source *s);

/* Writes declarations of the epilogue's operands, and of y0(element, value), which computes the epilogue of the
 * result that a pass writes. */
void line_add_after(struct making *m, const struct lines_on *l, const struct passing *p);

#endif
