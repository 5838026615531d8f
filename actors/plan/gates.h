/* gates.h - before which updates of a program a gate stands, and what joins the gates of its memories.
 *
 * All tasks that may refuse their data are over before the updates behind their gate begin, in every memory. The
 * memories are a tree: each hears from those below that all checks there have passed, says so above when its own have
 * too, hears from above that all have, and says so below. No part has more than six ends of it, however many memories
 * there are. Pure; any thread. */
#ifndef RILLE_PLAN_GATES_H
#define RILLE_PLAN_GATES_H

#include "actors/plan/channel.h"
#include "actors/plan/program.h"

/* By node: does a gate stand before it? It updates, and a node since the last gate checks data. */
bool *gates_find(const struct program *p, struct arena *a);

enum { GATE_ENDS = 6 };
/* Gives the ends of channels that the gate before a node has in memory[me], one of n sorted ones, in the order of their
 * tasks: from below, to above (hop 0); from above, to below (hop 1); returns how many. */
int gate_ends(int32_t node, const int32_t *memory, int32_t n, int32_t me, int32_t pieces,
              struct channel end[GATE_ENDS]);

#endif
