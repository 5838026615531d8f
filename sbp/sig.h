/* sig.h - SBP signatures: which layouts an operator may have on its operands and results.
 *
 * For one mesh axis the legal signatures are derived from the dimension rule
 * (split a factor wherever it occurs), from .linear/.increasing/.decreasing
 * (partials pass) and all-B. On an N-D mesh a signature is one of these per
 * axis; it is legal if every shard that occurs is a box of every operand and
 * all uses of one factor are cut in one order. Pure; nothing here knows what
 * moving costs: the caller passes the price. */
#ifndef RILLE_SBP_SIG_H
#define RILLE_SBP_SIG_H

#include "sbp/rule.h"

enum { SIG_AXIS = 64 }; /* signatures of one operator on one mesh axis */

/* One mesh axis: entry [k] of operand k (inputs, then outputs). */
struct sig {
    struct sbp *v;
    int8_t factor; /* the factor it splits, -1 */
};
struct sig_list {
    int nsig, noperand;
    struct sig *sig;
};

/* All signatures of one mesh axis, in the order S (by factor in order of appearance), B, P. */
int sig_axis(struct arena *a, const struct call *c, const struct rule *r, struct sig_list *out);

/* Signature numbers choice[axis] on placement p with a cutting order: the layouts of all operands (inputs, outputs),
 * or false when it is not legal for these sizes. order NULL: mesh order. layout[k] is NULL for ignored operands. */
bool sig_layouts(struct atlas *at, const struct place *p, const struct call *c, const struct rule *r,
                 const struct sig_list *list, const int *choice, const uint8_t *order, const struct layout **layout);

/* The same question without making layouts. order NULL: mesh order. */
bool sig_legal(const struct place *p, const struct rule *r, const struct sig_list *list, const int *choice,
               const uint8_t *order);

/* Bytes that a move of a tensor of type t would receive over all ranks; a pure function. INT64_MAX: not possible. */
typedef int64_t sig_price_fn(void *arg, const struct type *t, const struct layout *from, const struct layout *to);

struct sig_candidate {
    const struct layout **layout; /* inputs, outputs */
    int64_t bytes;                /* moved to bring the operands there (in an in-place update also back) */
    int nsame;                    /* operands left as they are */
};
struct sig_choice {
    int ncandidate;                  /* 0 unless all was asked */
    struct sig_candidate *candidate; /* best first */
    struct sig_candidate best;
};
/* The signature that moves the fewest bytes; of equals the one that leaves most operands as they are; of those the
 * first in the order S, B, P. c->layout has the operands' layouts, all on place p. all: list every legal candidate too
 * (for explain). E_SBP when there is none. */
int sig_choose(struct arena *a, struct atlas *at, const struct place *p, const struct call *c, const struct rule *r,
               sig_price_fn *price, void *arg, bool all, struct sig_choice *out);

/* Do these layouts of operands and results form a legal signature? For the verifier. E_SBP says why not. */
int sig_check(struct arena *a, const struct call *c, const struct rule *r, const struct layout *const *layout);

#endif
