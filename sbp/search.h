/* search.h - tables that the choice of a signature prepares before it tries signatures (inside sbp/).
 *
 * On an N-D mesh an operand's layout is one entry per axis, and many signatures share entries. So the entries of
 * each operand are numbered, a layout is an integer code, and a table caches prices by code on first use.
 *
 * Mesh axes with one rank are skipped, because all entries mean the same there. A skipped axis gets the entry that
 * most operands already have, so that printed layouts stay stable. A search belongs to one choice and its thread;
 * its memory is in the choice's arena. */
#ifndef RILLE_SBP_SEARCH_H
#define RILLE_SBP_SEARCH_H

#include "sbp/sig.h"

/* EXACT: maximum number of combinations that are all tried; NENTRY: number of entries: S of each factor of each
 * dimension, B, and three kinds of P; UNKNOWN: a price that is not computed yet */
enum { EXACT = 4096, NENTRY = MAX_DIM * RULE_MERGE + 4, UNKNOWN = -1 };

/* A value that may have to move: an operand to its new layout, or the result of an in-place update back to the
 * variable's layout. */
struct mover {
    int operand;
    bool back;
    const struct type *type;
    const struct layout *given; /* an operand's current layout, or a result's required layout */
    /* entries of `given`; an entry that equals a signature's entry (sig_entry_is) has the unit of the signature */
    struct sbp has[MAX_AXIS];
    int twin; /* index of an earlier mover of the same value; -1: none */
    /* by signature: index in `entries` of the SBP entry that the signature gives this mover */
    uint8_t *entry;
    int nentry;
    struct sbp *entries;
    int given_code;        /* code of layout `given`; -1: no signature has the layout's entries */
    uint64_t given_orders; /* bit o: the entries of `given` with cutting order o make exactly the layout `given` */
    int64_t *price;        /* [order * codes + code]: price; UNKNOWN: not computed yet. NULL: no cache */
    int ncode;
    /* by free axis: factor of the entry's index in the code of a layout (code = sum of index * scale) */
    int scale[MAX_AXIS];
};

struct search {
    struct arena *arena;
    const struct sig_question *q;
    struct sig_list list;
    int nfree, axis[MAX_AXIS]; /* mesh axes with more than one rank ("free axes") */
    uint64_t may[MAX_AXIS];    /* by free axis, as bits: signatures that make no value partial without a request */
    /* by free axis, as bits: signatures whose partial results cost the call no pending reduction, because they
     * split a factor that the operands' layouts split already (debt.c, point_owes()) */
    uint64_t forced[MAX_AXIS];
    int ncombination; /* number of combinations; EXACT + 1: more than EXACT */
    int nmover;
    struct mover *mover;
    int norder;
    uint8_t (*order)[MAX_AXIS];
    /* by cutting order, as bits: pairs of axes of which the later axis splits first (pair_bit) */
    uint32_t *inverted;
    /* by signature, as bits: the signatures that split one of the dimensions which this signature splits */
    uint64_t *meets;
    struct debt *debt; /* cache of the last NDEBT pending reductions that were computed */
};

/* A combination of signatures and a cutting order, with the values by which combinations are compared. */
struct point {
    int64_t bytes, owed;
    double share; /* fraction of the work that the busiest rank does */
    /* load by which points are compared: equal to `share`; for an in-place update 1, because the work must stay on
     * the ranks of the updated variable */
    double load;
    bool idle; /* true: some rank has no work, because a factor has fewer elements than shards */
    int nsame;
    int order;
    int choice[MAX_AXIS];
};

/* Fills in every field except arena and q. */
int search_init(struct search *s);
/* Sets share, load and idle of a point from its signatures. */
void point_spread(const struct search *s, struct point *p);
/* Returns the layout that an operand has at a legal point. */
const struct layout *point_layout(const struct search *s, int operand, const struct point *p);
/* Returns true if an earlier cutting order gives the same layouts as this order. */
bool order_repeats(const struct search *s, const int *choice, int order);
bool sbp_equal(struct sbp a, struct sbp b);
int mover_code(const struct search *s, const struct mover *m, const int *choice);
/* Returns true if a layout with this code and cutting order is the mover's current layout: the mover stays. */
bool mover_stays(const struct mover *m, int code, int order);

#endif
