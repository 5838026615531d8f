/* placing.h - decides the placement of a call whose operands are on several placements.
 *
 * An unplaced value was created without a placement, or computed from such values only. A call moves an unplaced
 * value, replicated, to the placement of the other operands. Values of different pipeline stages are moved to the
 * stage in progress, or to the last of their stages. The session owns the list of stages. Used only on the
 * session's thread. */
#ifndef RILLE_SESSION_PLACING_H
#define RILLE_SESSION_PLACING_H

#include "runtime/graph/graph.h"

struct atlas;
/* Pipeline stages of the models that are laid out in stages. */
struct session_stages {
    const struct place **place; /* placements in order of the stages, owned; one placement may have several stages */
    int n;
    const struct place *now; /* placement of the stage in progress; NULL: none */
};

/* Returns the placement to which all operands of a call are moved. NULL: all operands are on one placement
 * already, or no rule selects one of their placements. in: operands; NULL if absent. */
const struct place *placing_target(const struct session_stages *all, int nin, struct val *const *in);
/* Sets *out to the layout of v after a move to the placement. The layout has v's SBP entries if the placement has as
 * many mesh axes as v's placement; otherwise the layout is replicated. */
int placing_layout(struct atlas *a, const struct val *v, const struct place *to, const struct layout **out);
/* Returns true if every tensor operand is unplaced, and there is at least one tensor operand. */
bool placing_unplaced(int nin, struct val *const *in);

#endif
