/* certify.h - a choice with what proves it, as a text that proof.h checks.
 *
 *   rille certificate 2
 *   with NAME VALUE                 what the costs come from (the numbers of a cost file); any number of lines
 *   net NODES TENSORS TIMES LIMIT
 *   list ID COUNT NUMBER...         numbers that lines below name: costs, prices, forms, bytes
 *   node COSTS TIME MEMORY          ids of lists; - for none; by number, from 0
 *   tensor MAKER FROM TO FORM PRICES BYTES BORN DIES USES (NODE FORM)...
 *   price TIME VALUE                with a memory limit: what a byte costs then, in 2^-24 of a scaled nanosecond
 *   scale SCALE                     what the proof multiplies costs by
 *   choice CANDIDATE...
 *   cost COST
 *   bound BOUND                     what the proof shows
 *   searched BOUND                  what the search showed, where that is more: in parts, under a memory limit
 *   proof                           and its steps: reduce.h, dual.h
 *   end
 *   digest HEX                      of all that stands above (runtime/hash.h), so that damage shows
 *
 * A step "out V", "as V U", "cut U V", "drop V S T", "support" reduces the network of variables; "round", lines "to U V
 * MESSAGES..." and "prune BELOW" bound it and rule values out; "split V" and for each value left "case VALUE" with
 * steps and "end". A dash stands for NEVER.
 *
 * Pure: appends to the caller's text; any thread. */
#ifndef RILLE_SBP_CERTIFY_H
#define RILLE_SBP_CERTIFY_H

#include "sbp/solve.h"

struct certify_with {
    const char *name;
    double value;
};
/* Of s->net, which has each converted copy that matters under a memory limit as a node (copies.h). out: empty. */
void certify(const struct solved *s, int nwith, const struct certify_with *with, struct str *out);
/* Appends the line "digest". */
void certify_seal(struct str *out);

#endif
