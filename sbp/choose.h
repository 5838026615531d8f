/* choose.h - chooses the signature of a call that costs the fewest bytes. Pure; any thread. */
#ifndef RILLE_SBP_CHOOSE_H
#define RILLE_SBP_CHOOSE_H

#include "sbp/sig.h"

/* Chooses the signature with the fewest bytes: those moved now plus those of pending reductions that the call adds
 * ("owed"). A signature that leaves ranks without work counts 5 % more. Ties are broken in this order: if bytes are
 * moved or owed, by the smaller share of the busiest rank (not for updates in place, which stay with their
 * variable); by fewer bytes moved now; by more operands that stay; by the order S, B, P. E_SBP: moves cannot reach
 * any signature.
 *
 * The choice never makes a value partial that was not partial before; the exception is a B operand, if another
 * operand is P(sum) on that axis.
 *
 * Owed bytes are the least price of converting the results' partial axes to B or S. If the call accepts a partial
 * operand unchanged on some axes, the pending reduction of the operand on these axes is subtracted, down to 0. An
 * axis that splits a factor owes nothing if the program's layouts imply the P: at least one operand with the factor
 * is already split along the factor, and every other operand with the factor is split along it or is B. Results of
 * an in-place update have no pending reduction, because the cost of their move back to the variable is counted. */
int sig_choose(struct arena *a, const struct sig_question *q, struct sig_candidate *best);
/* All candidates of the choice, best first. If there are more than a few thousand combinations: only the chosen
 * candidate. */
struct sig_choice {
    int ncandidate;
    struct sig_candidate *candidate;
};
int sig_list_all(struct arena *a, const struct sig_question *q, struct sig_choice *out);

#endif
