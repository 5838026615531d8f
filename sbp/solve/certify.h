/* certify.h - writes a choice and the proof of its bound as a text that proof.h checks.
 *
 *   rille certificate 2
 *   with NAME VALUE                 source of the costs (the numbers of a cost file); any number of lines
 *   net NODES TENSORS TIMES LIMIT
 *   list ID COUNT NUMBER...         numbers that later lines refer to: costs, prices, forms, bytes
 *   node COSTS TIME MEMORY          list ids, - for none; nodes are numbered from 0
 *   tensor MAKER FROM TO FORM PRICES BYTES BORN DIES USES (NODE FORM)...
 *   price TIME VALUE                with a memory limit: price of a byte at this time, 2^-24 of a scaled nanosecond
 *   scale SCALE                     factor of the costs in the proof
 *   choice CANDIDATE...
 *   cost COST
 *   bound BOUND                     bound that the proof shows
 *   searched BOUND                  bound that the search showed, if higher
 *   proof                           followed by the steps: reduce.h, dual.h
 *   end
 *   digest HEX                      digest of everything above (runtime/data/hash.h), to detect damage
 *
 * The steps "out V", "as V U", "cut U V", "drop V S T" and "support" reduce the network of variables. "round", lines
 * "to U V MESSAGES..." and "prune BELOW" bound the network and remove values. "split V" branches; for each value
 * left it has "case VALUE" with steps and "end". A dash stands for NEVER.
 *
 * Pure: appends to the caller's text; any thread. */
#ifndef RILLE_SBP_CERTIFY_H
#define RILLE_SBP_CERTIFY_H

#include "sbp/solve/solve.h"

struct certify_with {
    const char *name;
    double value;
};
/* Writes the certificate of s->net to `out`, which must be empty. The certificate counts no bytes for converted
 * copies; a lower bound without copies also holds with copies. */
void certify(const struct solved *s, int nwith, const struct certify_with *with, struct str *out);
/* Appends the line "digest" to a complete certificate. */
void certify_seal(struct str *out);

#endif
