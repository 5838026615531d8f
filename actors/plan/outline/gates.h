/* gates.h - finds the updates that need a gate, and the channels between the gates of several hosts.
 *
 * All tasks that may reject their data end before the updates after their gate begin, on every host. The hosts form
 * a binary tree. A host reports to its parent when its own checks have passed and its children have reported. The
 * root of the tree then sends its permission down, from parent to children. A plan partition has at most six channel
 * ends per gate, however many hosts there are. Pure; any thread. */
#ifndef RILLE_PLAN_GATES_H
#define RILLE_PLAN_GATES_H

#include "actors/plan/model/channel.h"
#include "actors/plan/model/program.h"

/* Returns, by node, whether a gate must precede it: an update, if a node since the last gate checks data. */
bool *gates_find(const struct program *p, struct arena *a);

enum { GATE_ENDS = 6 };
/* Lists the channel ends of the gate before `node` on host memory[me], one of n sorted hosts. The channel ends are
 * in the order of their tasks: receives from children and sends to the parent (hop 0), then receives from the parent
 * and sends to children (hop 1). Returns their number. */
int gate_ends(int32_t node, const int32_t *memory, int32_t n, int32_t me, int32_t pieces,
              struct channel end[GATE_ENDS]);

#endif
