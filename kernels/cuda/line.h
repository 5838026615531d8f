/* line.h - what the texts of kernels along lines are made of: how a call's operands lie along its lines, how a pass
 * shares these out (line.c), and what follows its result (after.c). Made for one call, by its thread; lies in the
 * caller's arena. */
#ifndef RILLE_KERNELS_CUDA_LINE_H
#define RILLE_KERNELS_CUDA_LINE_H

#include "kernels/cuda/making.h"
#include "sbp/rule.h"

/* What follows the first result of a call: the other steps of a chain, whose operands and results are as large as it.
 */
struct after {
    int lead, nstep;
    const struct fuse_step *step;
    struct making_ends ends;
    int index; /* of the first of these among what a run fills in, behind those of the call */
};

/* The dimensions of what lines are of, in two lots: those along which its lines lie, and the others. */
struct lines_on {
    const struct view *of;
    int ndim;
    bool gone[MAX_DIM];
    int64_t count, length;
    int64_t size[2][MAX_DIM]; /* of the others, of the line */
    int n[2];
    int nloop[2]; /* those that all operands and results let go as one are one loop: */
    struct loop {
        int64_t size;
        int last; /* of its dimensions in the lot, the one whose stride is its */
    } loop[2][MAX_DIM];
    bool flat; /* its elements go by themselves and lie dense: a line is a stretch of them, the last one shorter */
    int64_t total;
    struct rule rule; /* of the call, where it has one: which letters its operands and results have, */
    bool ruled;
    int at;                    /* and which of them lines are of */
    const struct after *after; /* NULL: nothing */
};

/* A pass as it is made: how its lines are shared out, and where what is kept lies in scratch. */
struct passing {
    const struct line_pass *pass;
    const struct after *after; /* NULL: nothing follows what it writes */
    int parts;                 /* of its lines, each a team's */
    int width, gap;            /* threads of a team, and how far apart these are */
    int pack, held;            /* elements that a thread takes at once, and keeps of a line; 1 and 0: neither */
    int lanes;                 /* lines that a thread takes at once, of those that lie side by side; 1: one */
    bool named;                /* keys name its lines: a block has several at once, and looks for their names */
    int keeps, kept;           /* numbers of a line, or of a part, of this pass; of the one whose numbers it reads */
    int64_t keep_at, kept_at;  /* bytes into the scratch */
    int joins;                 /* parts of the lines of the pass before, which this one joins; 0: it had none */
    int part_kept;             /* then numbers of each, */
    int64_t part_at;           /* and where */
};

/* The strides of a view along both lots: it has all dimensions of operand 0, or those of one lot. index: among
 * operands, then results, of the call. False: it has not. */
bool line_strides(const struct lines_on *l, int index, const struct view *v, int64_t stride[2][MAX_DIM]);
/* How a view's elements lie along the line, and its lines side by side: 0 in one place, 1 together, else apart. */
int64_t line_step(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g);
/* Do n of what lies together in lot g begin where a pack of them may, of all others that go along? */
bool line_begins_whole(const struct lines_on *l, int64_t stride[2][MAX_DIM], int g, int n);
/* Declares <name><k>_at(i): where element i of the line lies, of what has these strides. */
void line_add_place(struct making *m, const struct lines_on *l, char name, int k, int index, int64_t stride[2][MAX_DIM],
                    bool together);
/* The kernel of a call's passes, or of its one line. after: NULL, nothing follows its first result. */
int line_make(struct arena *a, const struct kcall *k, const struct after *after, struct cuda_source *s);

/* Declares what follows the result that a pass writes, y0(element, value), and what that reads. */
void line_add_after(struct making *m, const struct lines_on *l, const struct passing *p);

#endif
