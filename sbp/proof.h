/* proof.h - checks a certificate of a plan (certify.h), sharing nothing with the search that wrote it.
 *
 * Reads the net, adds up what the choice costs, and does the proof's steps one after the other, each of which keeps a
 * solution below the claimed bound if there was one. When nothing is left that could be below it, the bound holds. The
 * text may be anybody's: whatever it says, the answer is yes or what is wrong. Pure; any thread. */
#ifndef RILLE_SBP_PROOF_H
#define RILLE_SBP_PROOF_H

#include "runtime/str.h"

/* 0: said tells what it proved, in a sentence. E_PLAN: what is wrong, with the line. */
int proof_check(const char *text, size_t bytes, struct str *said);

#endif
