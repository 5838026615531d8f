/* line.h - building blocks of kernels along lines: the layout of a call's operands along lines, the distribution of
 * a pass over threads (line.c), and the steps after its result (after.c). Made for one call by its thread; allocated
 * in the caller's arena. */
#ifndef RILLE_KERNELS_CUDA_LINE_H
#define RILLE_KERNELS_CUDA_LINE_H

#include "kernels/cuda/making.h"
#include "sbp/rule.h"

/* The other steps of a chain, after the first result of a call; their operands and results have the size of that
 * result. */
struct after {
    int lead, nstep;
    const struct fuse_step *step;
    struct making_ends ends;
    int index; /* first index of these ends among a run's fills, after those of the call */
};

/* A tensor cut into lines: its dimensions in two lots, lot 1 along a line, lot 0 across lines. */
struct lines_on {
    const struct view *of;
    int ndim;
    bool gone[MAX_DIM];
    int64_t count, length;
    int64_t size[2][MAX_DIM]; /* of lot 0, of lot 1 */
    int n[2];
    int nloop[2]; /* dimensions that are adjacent in all operands and results form one loop: */
    struct loop {
        int64_t size;
        int last; /* innermost dimension of the loop in its lot: has the loop's stride */
    } loop[2][MAX_DIM];
    bool flat; /* independent, dense elements: a line is a stretch of them, the last one shorter */
    int64_t total;
    struct rule rule; /* the call's rule, if any (ruled): letters of operands and results */
    bool ruled;
    int at;                    /* index in the rule of the tensor `of` */
    const struct after *after; /* NULL: nothing */
};

/* A pass under construction: how its lines are distributed over threads, and the layout of its numbers in scratch. */
struct passing {
    const struct line_pass *pass;
    const struct after *after; /* steps after the result; NULL: none */
    int parts;                 /* parts per line, one team each */
    int width, gap;            /* threads per team, and their distance */
    int pack, held;            /* elements per access, elements of a line kept by a thread; 1, 0: neither */
    int lanes;                 /* adjacent lines per thread; 1: one */
    bool named;                /* keys name its lines: a block searches the keys for several lines */
    int keeps, kept;           /* numbers kept per line or part: by this pass, by the pass that it reads */
    int64_t keep_at, kept_at;  /* positions in scratch, bytes */
    int joins;                 /* parts per line of the previous pass, joined by this pass; 0: not parted */
    int part_kept;             /* numbers kept per part */
    int64_t part_at;           /* and position of the numbers in scratch, bytes */
};

/* Sets the strides of a view in both lots. The view has all dimensions of operand 0, or those of one lot. index:
 * among operands, then results, of the call. Returns false if the dimensions differ. */
bool line_strides(const struct lines_on *l, int index, const struct view *v, int64_t stride[2][MAX_DIM]);
/* Returns the step of a view between neighbours in lot g (1: elements of a line, 0: lines): 0 same place, 1
 * contiguous, else apart. */
int64_t line_step(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g);
/* Returns true if packs of n contiguous elements of lot g are aligned at every position of the other loops. */
bool line_begins_whole(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g, int n);
/* Declares <name><k>_at(i): the position of element i of the line in a view with these strides. */
void line_add_place(struct making *m, const struct lines_on *l, char name, int k, int index, int64_t stride[2][MAX_DIM],
                    bool together);
/* Writes the kernels of a call's passes, or of its single line body. after: steps after the first result; NULL:
 * none. */
int line_make(struct arena *a, const struct kcall *k, const struct after *after, struct cuda_source *s);

/* Declares y0(element, value), which computes the steps after the result that a pass writes, and their operands. */
void line_add_after(struct making *m, const struct lines_on *l, const struct passing *p);

#endif
