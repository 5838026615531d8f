/* sig.h - SBP signatures: the layouts an operator may have on its operands and results.
 *
 * On one mesh axis, the legal signatures follow from the dimension rule (split a factor wherever it occurs) and from
 * the record's fields .linear, .increasing and .decreasing (partial values pass). All-B is always legal. On an N-D
 * mesh, a signature has one of these per axis. A signature is legal if every shard is a box of its operand, and all
 * occurrences of a factor are split in the same cutting order.
 *
 * The choice weighs bytes moved now against the pending reductions of partial results. Pure, any thread; the caller
 * passes the price of moves. */
#ifndef RILLE_SBP_SIG_H
#define RILLE_SBP_SIG_H

#include "sbp/rule.h"

enum { SIG_AXIS = 64 }; /* maximum number of signatures of an operator on one mesh axis */

/* A signature on one mesh axis. v[k] is the entry of operand k: first the inputs, then the results. */
struct sig {
    struct sbp *v;
    int8_t factor; /* factor that the signature splits; -1: none */
};
struct sig_list {
    int nsig, noperand;
    struct sig *sig;
    const int32_t *unit; /* units of the factors, as in sig_units(); NULL: 0 for all */
};

/* Fills unit[], by factor: number of adjacent elements that a split of the factor keeps together; 0: all ranks of the
 * placement get equally many complete units, so a unit does not change the shards. The unit of a factor is the largest
 * unit that follows from these layouts (inputs, then results; entries may be NULL); 1 if none follows. layout NULL: no
 * layouts. */
void sig_units(const struct rule *r, const struct place *p, const struct layout *const *layout, int n,
               int32_t unit[RULE_FACTOR]);

/* Fills of[] as sig_units() does, but from the units of dimensions. unit[k], by dimension of operand or result k: the
 * unit; 0 or 1: no unit; -1: the dimension is split by elements, so its factor has no unit, if the dimension has only
 * one factor. unit[k] NULL: no units. Returns, as bits, the factors that a -1 splits by elements. */
uint64_t sig_units_of_dims(const struct rule *r, const struct place *p, int32_t *const *unit, int32_t of[RULE_FACTOR]);
/* Returns the unit of a dimension that is split along its major factor. of: units of the factors, as from sig_units().
 * 0: elements. */
int64_t sig_unit_of_dim(const struct rule *r, const struct rule_dim *dim, const int32_t *of);

/* Lists all signatures on one mesh axis, in this order: S by factor (in order of appearance), B, S of a dimension
 * that a view repeats, P. unit: units of the factors (sig_units); NULL: 0 for all. Entries have the unit of their
 * factor, times the sizes of the dimension's later factors, also if the unit changes nothing (layout_drop_units). */
int sig_axis(struct arena *a, const struct call *c, const struct rule *r, const int32_t *unit, struct sig_list *out);

/* Returns true if the entry of a layout on mesh axis x is v, or differs from v only in a unit that does not change the
 * shards of a tensor of type t. */
bool sig_entry_is(const struct layout *l, const struct type *t, int x, struct sbp v);

/* Returns the index of the signature with B (replicated) for all operands and results. */
int sig_whole(const struct sig_list *list);

/* Fills in the layouts of all operands (inputs, then results) for signature choice[axis] on each axis of placement
 * p. order: cutting order; NULL: mesh order. layout[k] is NULL for ignored operands. Returns false if the signature
 * is illegal for these sizes. */
bool sig_layouts(struct atlas *at, const struct place *p, const struct call *c, const struct rule *r,
                 const struct sig_list *list, const int *choice, const uint8_t *order, const struct layout **layout);

/* Returns what sig_layouts() would return, without making layouts. order NULL: mesh order. */
bool sig_legal(const struct place *p, const struct rule *r, const struct sig_list *list, const int *choice,
               const uint8_t *order);

/* Returns the bytes that all ranks together receive for a move of a tensor of type t. INT64_MAX: the move is
 * impossible. Pure. */
typedef int64_t sig_price_fn(void *arg, const struct type *t, const struct layout *from, const struct layout *to);

/* Input of the choice: a call whose operands have the layouts call->layout, all on one placement, and the price of
 * moves. */
struct sig_question {
    struct atlas *atlas;
    const struct place *place;
    const struct call *call;
    const struct rule *rule;
    sig_price_fn *price;
    void *arg; /* first argument of each call of `price` */
};
struct sig_candidate {
    const struct layout **layout; /* layouts of inputs, then of results */
    /* bytes moved for the operands and, for an in-place update, to move the results back */
    int64_t bytes;
    int64_t owed; /* bytes that the call adds to pending reductions (see sig_choose) */
    double share; /* fraction of the work that the busiest rank does */
    int nsame;    /* number of operands that keep their layout */
};

/* Returns the fraction of the call's work that the busiest rank does under these layouts (inputs, then results; NULL
 * for numbers and absent operands). */
double sig_share(const struct call *c, const struct rule *r, const struct layout *const *layout);

/* Checks, for the verifier, that these layouts of operands and results form a legal signature. E_SBP: the layouts
 * form no legal signature; the text says why. */
int sig_check(struct arena *a, const struct call *c, const struct rule *r, const struct layout *const *layout);

#endif
