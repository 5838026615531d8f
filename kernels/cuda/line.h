/* line.h - building blocks of kernels along lines: the layout of a call's operands along lines, the distribution of
 * a pass over threads (line.c), and the epilogue of its result (after.c). One thread makes a call's kernel; memory
 * is in the caller's arena. */
#ifndef RILLE_KERNELS_CUDA_LINE_H
#define RILLE_KERNELS_CUDA_LINE_H

#include "kernels/cuda/making.h"
#include "sbp/rule.h"

/* The other steps of a chain, after the first result of its leading call. Their operands and results have the shape
 * of that result. */
struct after {
    int lead, nstep;
    const struct fuse_step *step;
    struct making_ends ends;
    int index; /* number of the call's own operands and results: fills at or above it are ends of the chain */
};

/* A tensor cut into lines. Its dimensions form two lots: lot 1 along a line, lot 0 across lines. */
struct lines_on {
    const struct view *of;
    int ndim;
    bool gone[MAX_DIM];
    int64_t count, length;
    int64_t size[2][MAX_DIM]; /* sizes, by lot */
    int n[2];
    int nloop[2]; /* dimensions that are adjacent in all operands and results form one loop: */
    struct loop {
        int64_t size;
        int last; /* innermost dimension of the loop in its lot; the loop has this dimension's stride */
    } loop[2][MAX_DIM];
    bool flat; /* independent, dense elements: lines are sections of the tensor, the last line shorter */
    int64_t total;
    struct rule rule; /* letters of operands and results (if `ruled`) */
    bool ruled;
    int at;                    /* index of `of` in the rule */
    const struct after *after; /* epilogue; NULL: none */
};

/* A pass under construction: how its lines are distributed over threads, and the layout of its numbers in scratch. */
struct passing {
    const struct line_pass *pass;
    const struct after *after; /* epilogue; NULL: none */
    int parts;                 /* parts per line, one team each */
    int width, gap;            /* threads per team; distance between threads of a team */
    int pack, held;            /* elements per access, or 1; elements of a line that a thread keeps, or 0 */
    int lanes;                 /* adjacent lines per thread, or 1 */
    bool named;                /* keys name the lines: a block searches the keys for several lines */
    int keeps, kept;           /* numbers kept per line or part by this pass; by the previous pass */
    int64_t keep_at, kept_at;  /* offsets in scratch of the numbers kept by this pass and by the previous pass, bytes */
    int joins;                 /* parts per line of the previous pass, which this pass joins; 0: not parted */
    int part_kept;             /* numbers that the previous pass kept per part */
    int64_t part_at;           /* offset of those numbers in scratch, bytes */
};

/* Sets the strides of a view in both lots. The view has all dimensions of operand 0, or the dimensions of one lot.
 * index: operand of the call, or nin + result. Returns false if the dimensions differ. */
bool line_strides(const struct lines_on *l, int index, const struct view *v, int64_t stride[2][MAX_DIM]);
/* Returns the stride of a view between neighbours in lot g (1: elements of a line, 0: lines). 0: shared, 1:
 * contiguous, else strided. */
int64_t line_step(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g);
/* Returns true if packs of n contiguous elements of lot g are aligned at every position of the other loops. */
bool line_begins_whole(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g, int n);
/* Declares <name><k>_at(i): the position of element i of the line in a view with these strides. */
void line_add_place(struct making *m, const struct lines_on *l, char name, int k, int index, int64_t stride[2][MAX_DIM],
                    bool together);
/* Writes the kernels of a call's passes, or of its single line body. after: epilogue; NULL: none. */
int line_make(struct arena *a, const struct kcall *k, const struct after *after, struct cuda_source *s);

/* Declares y0(element, value), which computes the epilogue of the result that a pass writes, and the epilogue's
 * operands. */
void line_add_after(struct making *m, const struct lines_on *l, const struct passing *p);

#endif
