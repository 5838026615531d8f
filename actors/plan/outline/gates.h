/* gates.h - finds the updates that need a gate, and the channels between the gates of several hosts.
 *
 * A gate separates checks from updates on all hosts: an update after the gate begins only when every task before
 * the gate that may reject its data has ended. The hosts form a binary tree. A host reports to its parent when
 * its own checks have passed and its children have reported. When the root of the tree has all reports, it sends
 * the permission to update down the tree. A plan partition has at most six channel ends per gate, however many
 * hosts there are. The functions are pure and may run on any thread. */
#ifndef RILLE_PLAN_GATES_H
#define RILLE_PLAN_GATES_H

#include "actors/plan/model/channel.h"
#include "actors/plan/model/program.h"

/* Returns, by node, whether a gate must precede the node. An update needs a gate if any node between the last
 * gate and the update checks data. */
bool *gates_find(const struct program *p, struct arena *a);

enum { GATE_ENDS = 6 };
/* Lists the channel ends of the gate before `node` on host memory[me]; memory[]: the n hosts, sorted. Channel ends
 * are in the order of their tasks: first receives from children and the send to the parent (hop 0), then the
 * receive from the parent and sends to children (hop 1). Returns the number of channel ends. */
int gate_ends(int32_t node, const int32_t *memory, int32_t n, int32_t me, int32_t pieces,
              struct channel end[GATE_ENDS]);

#endif
