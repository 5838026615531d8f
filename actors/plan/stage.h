/* stage.h - the virtual stages and phases of a program in pieces, and how many pieces lie between two of its moments.
 *
 * Pure: of the program alone, whatever devices and processes there are. Any thread; arrays belong to the arena given.
 * Credits are the schedule: a register that a task writes at one moment and another reads at a later one exists as
 * often as pieces are between the two, and one more. With lag L per hop over p stages that is L (p - 1 - s) + 1 from
 * forward to backward on stage s: L = 1 is 1F1B; a split backward has L (p - 1) + 1 from forward to weight gradients,
 * which is ZB-H1 with L = 1, ZB-H2 with L = 2. No lag (0): as many as pieces, GPipe. (Qi et al. 2023 for the tables;
 * the rule is ours.) Where a device has several virtual stages, or the user gives memory, dial.h searches for room and
 * rule. */
#ifndef RILLE_PLAN_STAGE_H
#define RILLE_PLAN_STAGE_H

#include "actors/plan/program.h"

struct stages {
    int32_t n;                    /* at least 1 */
    int32_t *stage;               /* by node: 0 to n - 1 */
    uint8_t *phase;               /* by node: enum node_phase */
    bool *late;                   /* by node: its result may come only after the last piece */
    const struct place **at;      /* by node: where it is */
    const struct prog_pool *pool; /* by stage */
    const struct place **place;   /* by stage: where forward is; NULL: it has none */
    bool *joint;            /* by stage: nobody wants the gradient of its input, and all backward is for weights */
    int32_t *chunk, nchunk; /* by stage: how many before it have a device of it; the most of them, and one */
};
/* E_PLAN: the program has room for other stages than it has. */
int stages_find(struct stages *s, const struct program *p, struct arena *a);
/* Have the placements a device in common? */
bool stages_meet(const struct place *a, const struct place *b);

struct moment {
    int32_t stage;
    uint8_t phase; /* enum node_phase */
};
/* Returns how many registers lie between them, 1 to pieces. */
int32_t stages_credits(const struct program *p, const struct stages *s, struct moment from, struct moment to);

/* When it is a task's turn on its device. Of those that are ready one of the least `first` acts next, of these one of
 * the least piece; where pieces go in rounds through the stages of a device, `lead` is the stage's place in a round. */
struct stage_turn {
    uint8_t first;
    int32_t lead;
};
/* Returns the turn of a task at this moment. goes_on: the task carries on with what others of its moment began on its
 * device. */
struct stage_turn stages_turn(const struct program *p, const struct stages *s, struct moment at, bool goes_on);
/* Gives how many pieces a stage does before the next one's turn, and those of all stages of a device: 1, 1 but for
 * rounds. */
void stages_round(const struct program *p, const struct stages *s, int32_t *group, int32_t *round);

#endif
