/* proof.h - checks a certificate of a plan (certify.h); shares no code with the search that wrote it.
 *
 * Reads the net, sums the cost of the choice, and replays the proof step by step. No step removes the last solution
 * below the claimed bound. The bound holds when no solution below it can be left. The text is untrusted: for any
 * text, the answer is yes or an error. Pure; any thread. */
#ifndef RILLE_SBP_PROOF_H
#define RILLE_SBP_PROOF_H

#include "runtime/base/str.h"

/* Checks a certificate. 0: `said` receives one sentence about what was proved. E_PLAN: the error, with its line. */
int proof_check(const char *text, size_t bytes, struct str *said);

#endif
