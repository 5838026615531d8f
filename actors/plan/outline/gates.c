/* gates.c - finds the nodes before which a gate is needed, and the tree of hosts that joins the gates. */
#include "actors/plan/outline/gates.h"

bool *
gates_find(const struct program *p, struct arena *a)
{
    bool *gate = ARENA_ARRAY(a, bool, p->nnode + 1), checked = false;
    const bool *update = program_updates(p, a), *checks = program_checks(p, a);
    for (int32_t i = 0; i < p->nnode; i++) {
        gate[i] = update[i] && checked;
        checked = (checked && !gate[i]) || checks[i];
    }
    return gate;
}

/* Returns the depth of host i in the tree of hosts; the root has depth 0. */
static int32_t
depth_of(int32_t i)
{
    int32_t depth = 0;
    for (; i > 0; i = (i - 1) / 2) depth++;
    return depth;
}

/* Returns the sort key of a channel end in the order of the gate's tasks. Reports go up the tree: hosts deep in the
 * tree send first. Permissions go down: hosts deep in the tree receive last. So a sender precedes its receiver. */
static int32_t
gate_turn_of(bool up, int32_t below, bool sends)
{
    return 2 * (up ? 32 - depth_of(below) : 64 + depth_of(below)) + !sends;
}

int
gate_ends(int32_t node, const int32_t *memory, int32_t n, int32_t me, int32_t pieces, struct channel end[GATE_ENDS])
{
    int count = 0;
    for (int hop = 0; hop < 2; hop++)
        for (int mine = 0; mine < 2; mine++) { /* 0: receiving end; 1: sending end */
            bool up = hop == 0, sends = mine == 1, with_above = up == sends;
            int32_t first = with_above ? me : 2 * me + 1, last = with_above ? me : MIN(n - 1, 2 * me + 2);
            for (int32_t below = MAX(1, first); below <= last; below++) {
                int32_t above = (below - 1) / 2, from = up ? below : above, to = up ? above : below;
                end[count++] = (struct channel){.name = {.step = node,
                                                         .operand = -1,
                                                         .hop = (int16_t)hop,
                                                         .from_side = SIDE_GATE,
                                                         .to_side = SIDE_GATE,
                                                         .from = memory[from],
                                                         .to = memory[to]},
                                                .sends = sends,
                                                .peer = memory[sends ? to : from],
                                                .turn = gate_turn_of(up, below, sends),
                                                .late = pieces > 1};
            }
        }
    return count;
}
