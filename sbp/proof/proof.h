/* proof.h - checks a certificate of a plan (certify.h); shares no code with the search that wrote it.
 *
 * Reads the net, sums the cost of the choice, and replays the proof step by step. No step removes a solution below
 * the claimed bound without keeping one that is as good. If no solution below the bound is left at the end, the
 * bound holds. The text is untrusted: any text is either accepted or rejected with an error. Pure; any thread. */
#ifndef RILLE_SBP_PROOF_H
#define RILLE_SBP_PROOF_H

#include "runtime/data/str.h"

/* Checks a certificate. If it is valid, returns 0 and writes one sentence about what it proves to `said`. E_PLAN:
 * invalid; the text names the fault and its line. */
int proof_check(const char *text, size_t bytes, struct str *said);

#endif
