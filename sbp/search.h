/* search.h - what the choice of a signature knows before it tries any (inside sbp/).
 *
 * On an N-D mesh an operand's layout is one entry for each axis, and many signatures give it the same entries. So each
 * operand numbers its entries; a layout is a code, and a table keeps its price by code, which the first who wants it
 * fills in.
 *
 * Axes of one rank do not take part: every layout is the same there. They get the entries that most operands already
 * have, so that texts stay as they are. A search belongs to one choice and its thread; all in it lies in the choice's
 * arena. */
#ifndef RILLE_SBP_SEARCH_H
#define RILLE_SBP_SEARCH_H

#include "sbp/sig.h"

enum { EXACT = 4096, NENTRY = MAX_DIM + 4, UNKNOWN = -1 }; /* S of each dimension, B, three kinds of P */

/* One operand that may have to move: an input on its way in, or a result of an in-place update on its way back. */
struct mover {
    int operand;
    bool back;
    const struct type *type;
    const struct layout *given; /* of an operand where it is, of a result where it has to be in the end */
    int twin;                   /* an earlier mover of the same value, or -1 */
    uint8_t *entry;             /* signature -> which of the entries that this value may have */
    int nentry;
    struct sbp *entries;
    int given_code;        /* of given, -1 when no signature has its entries */
    uint64_t given_orders; /* bit o: cutting order o gives it when the entries do */
    int64_t *price;        /* [order * codes + code], UNKNOWN until asked; NULL: keeps none */
    int ncode;
    int scale[MAX_AXIS]; /* code = sum of entry * scale */
};

struct search {
    struct arena *arena;
    const struct sig_question *q;
    struct sig_list list;
    int nfree, axis[MAX_AXIS]; /* axes of more than one rank */
    uint64_t may[MAX_AXIS];    /* by free axis: the signatures that make nothing partial by itself */
    uint64_t forced[MAX_AXIS]; /* those whose partial results the operands' layouts ask for: they owe nothing there */
    int ncombination;          /* EXACT + 1: too many */
    int nmover;
    struct mover *mover;
    int norder;
    uint8_t (*order)[MAX_AXIS];
    uint32_t *inverted; /* of each order: the pairs of axes of which the later one cuts first (pair_bit) */
    uint64_t *meets;    /* signature -> signatures that cut a dimension it cuts too */
    struct debt *debt;  /* NDEBT of them, the latest asked for */
};

/* A point of the search, and what it compares. */
struct point {
    int64_t bytes, owed;
    int nsame;
    int order;
    int choice[MAX_AXIS];
};

/* Fills all but arena and q. */
int search_init(struct search *s);
/* The layout that an operand has at a legal point. */
const struct layout *point_layout(const struct search *s, int operand, const struct point *p);
/* Does an earlier order give the same layouts? */
bool order_repeats(const struct search *s, const int *choice, int order);
bool sbp_equal(struct sbp a, struct sbp b);
int mover_code(const struct search *s, const struct mover *m, const int *choice);
/* Does the operand stay where it is? */
bool mover_stays(const struct mover *m, int code, int order);

/* ---- debt.c ---- */

enum { NDEBT = 64 };
/* What it will take to make these axes (bits, of the place) of a layout whole or split. */
struct debt {
    const struct type *type;
    const struct layout *layout;
    uint32_t axes;
    int64_t bytes;
};
/* Fills may, forced and debt; search_init has done the rest. */
void debt_init(struct search *s);
/* What the call adds to the debt at a point. INT64_MAX: no move can pay for a result. */
int64_t point_owes(const struct search *s, const struct point *p);

#endif
