/* name.h - finds the usual name of a move, and prints the steps of its plan. Pure; any thread. */
#ifndef RILLE_BOXING_NAME_H
#define RILLE_BOXING_NAME_H

#include "boxing/box.h"

/* Prints the shape of a hierarchical reduction: ", in 3 segments and back, 4 chunks". */
void box_relay_print(int32_t nleg, bool back, int32_t nchunk, struct str *s);

/* Returns the usual name of a move: "none", "slice" (sends nothing), "all-gather", "reduce-scatter", "all-reduce",
 * "all-to-all", "broadcast", "permute", else "exchange". */
const char *box_name(const struct type *t, const struct layout *from, const struct layout *to);
/* Prints the steps, one line per destination. Ranks with equal work share a line. */
void box_print(const struct box_plan *p, struct str *s);

#endif
