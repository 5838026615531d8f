/* sig.h - SBP signatures: which layouts an operator may have on its operands and results.
 *
 * For one mesh axis the legal signatures follow from the dimension rule (split a factor wherever it occurs), and from
 * .linear/.increasing/.decreasing (partials pass); all-B is one. On an N-D mesh a signature is one of these per axis;
 * it is legal if every shard that occurs is a box of every operand and all uses of one factor have one cutting order.
 *
 * The choice weighs what a signature moves now and what it leaves to pay: a partial result is a debt. Pure, any thread;
 * nothing here knows what moving costs: the caller passes the price. */
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

/* All signatures of one mesh axis, in the order S (by factor in order of appearance), B, S of what a view repeats, P.
 */
int sig_axis(struct arena *a, const struct call *c, const struct rule *r, struct sig_list *out);

/* The number of the signature all-B. */
int sig_whole(const struct sig_list *list);

/* Fills the layouts of all operands (inputs, outputs) under signature numbers choice[axis] on placement p with a
 * cutting order; false when it is not legal for these sizes. order NULL: mesh order. layout[k] is NULL for ignored
 * operands. */
bool sig_layouts(struct atlas *at, const struct place *p, const struct call *c, const struct rule *r,
                 const struct sig_list *list, const int *choice, const uint8_t *order, const struct layout **layout);

/* The same question without making layouts. order NULL: mesh order. */
bool sig_legal(const struct place *p, const struct rule *r, const struct sig_list *list, const int *choice,
               const uint8_t *order);

/* Bytes that a move of a tensor of type t would receive over all ranks; a pure function. INT64_MAX: not possible. */
typedef int64_t sig_price_fn(void *arg, const struct type *t, const struct layout *from, const struct layout *to);

/* The question: a call whose operands lie as call->layout says, all on one place, and what moving them costs. */
struct sig_question {
    struct atlas *atlas;
    const struct place *place;
    const struct call *call;
    const struct rule *rule;
    sig_price_fn *price;
    void *arg; /* of price */
};
struct sig_candidate {
    const struct layout **layout; /* inputs, outputs */
    int64_t bytes;                /* moved to bring the operands there (in an in-place update also back) */
    int64_t owed;                 /* what it adds to the debt (below) */
    int nsame;                    /* operands left as they are */
};

/* The signature of the least bytes moved now plus owed; of equals the one that moves less now, then the one that leaves
 * most operands as they are, then the first in the order S, B, P. E_SBP when no move reaches one.
 *
 * Nothing becomes partial by itself, but for a B operand beside one that is P(sum) on that axis.
 *
 * Owed is what the results' partial axes will take at least to become whole or split, less what operands owe already on
 * axes on which the call takes them as they lie; never below 0. An axis that cuts a factor owes nothing where it cuts
 * an operand that has the factor so already, and every other that has it is cut so or B: the program laid that P out.
 * Results of an in-place update owe nothing: they move back, which has a price. */
int sig_choose(struct arena *a, const struct sig_question *q, struct sig_candidate *best);
/* Every candidate of the choice, best first; with more than some thousands of combinations, only the chosen one. */
struct sig_choice {
    int ncandidate;
    struct sig_candidate *candidate;
};
int sig_list_all(struct arena *a, const struct sig_question *q, struct sig_choice *out);
/* The part of all points of the call at which the busiest rank computes under these layouts (inputs, outputs; NULL for
 * numbers and absent operands). */
double sig_share(const struct call *c, const struct rule *r, const struct layout *const *layout);

/* Do these layouts of operands and results form a legal signature? For the verifier. E_SBP says why not. */
int sig_check(struct arena *a, const struct call *c, const struct rule *r, const struct layout *const *layout);

#endif
