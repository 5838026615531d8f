/* search.h - data that the choice of a signature prepares before it tries any (inside sbp/).
 *
 * On an N-D mesh an operand's layout is one entry per axis, and many signatures share entries. So the entries of
 * each operand are numbered, a layout is an integer code, and a table caches prices by code on first use.
 *
 * Axes of one rank are skipped, because every layout is the same there. Their entry is the one most operands already
 * have, so printed layouts stay stable. A search belongs to one choice and its thread; its memory is in the choice's
 * arena. */
#ifndef RILLE_SBP_SEARCH_H
#define RILLE_SBP_SEARCH_H

#include "sbp/sig.h"

enum { EXACT = 4096, NENTRY = MAX_DIM + 4, UNKNOWN = -1 }; /* NENTRY: S of each dimension, B, three kinds of P */

/* An operand that may have to move: an input to its new layout, or the result of an in-place update back. */
struct mover {
    int operand;
    bool back;
    const struct type *type;
    const struct layout *given; /* current layout of an input; required final layout of a result */
    int twin;                   /* an earlier mover of the same value; -1: none */
    uint8_t *entry;             /* by signature: index into `entries` */
    int nentry;
    struct sbp *entries;
    int given_code;        /* code of `given`; -1: no signature has its entries */
    uint64_t given_orders; /* bit o: cutting order o reproduces `given` if the entries match */
    int64_t *price;        /* [order * codes + code], UNKNOWN: not priced yet; NULL: no cache */
    int ncode;
    int scale[MAX_AXIS]; /* code = sum of entry * scale */
};

struct search {
    struct arena *arena;
    const struct sig_question *q;
    struct sig_list list;
    int nfree, axis[MAX_AXIS]; /* mesh axes with more than one rank */
    uint64_t may[MAX_AXIS];    /* by free axis, bit set: signatures that create no partial result of their own accord */
    uint64_t forced[MAX_AXIS]; /* by free axis, bit set: signatures whose partial results follow from the operands'
                                * layouts: no pending reduction */
    int ncombination;          /* EXACT + 1: more than EXACT */
    int nmover;
    struct mover *mover;
    int norder;
    uint8_t (*order)[MAX_AXIS];
    uint32_t *inverted; /* by order: pairs of axes of which the later one cuts first (pair_bit) */
    uint64_t *meets;    /* by signature, bit set: signatures that cut a common dimension */
    struct debt *debt;  /* cache of the NDEBT latest entries */
};

/* A point of the search, with the values compared. */
struct point {
    int64_t bytes, owed;
    double share; /* fraction of the work on the busiest rank */
    double load;  /* the share that is compared: 1 for an update in place, which stays with its variable */
    bool idle;    /* some rank has no work, because a factor is shorter than the number of its shards */
    int nsame;
    int order;
    int choice[MAX_AXIS];
};

/* Fills every field except arena and q. */
int search_init(struct search *s);
/* Sets share, load and idle of a point from its choice. */
void point_spread(const struct search *s, struct point *p);
/* Returns the layout of an operand at a legal point. */
const struct layout *point_layout(const struct search *s, int operand, const struct point *p);
/* Returns true if an earlier order gives the same layouts. */
bool order_repeats(const struct search *s, const int *choice, int order);
bool sbp_equal(struct sbp a, struct sbp b);
int mover_code(const struct search *s, const struct mover *m, const int *choice);
/* Returns true if the operand stays in its current layout. */
bool mover_stays(const struct mover *m, int code, int order);

/* ---- debt.c ---- */

enum { NDEBT = 64 };
/* A pending reduction: the price of making these axes (bit set) of a partial layout whole or split. */
struct debt {
    const struct type *type;
    const struct layout *layout;
    uint32_t axes;
    int64_t bytes;
};
/* Fills may, forced and debt; call after the rest of search_init. */
void debt_init(struct search *s);
/* Returns what the call adds to pending reductions at a point. INT64_MAX: no move can reduce a result. */
int64_t point_owes(const struct search *s, const struct point *p);

#endif
