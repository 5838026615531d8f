/* stage.h - the virtual stages and phases of a program in pieces, and how many pieces lie between two of its moments.
 *
 * Pure: of the program alone, whatever devices and processes there are. Any thread; arrays belong to the arena given.
 * Credits are the schedule: a register that is written at one moment and read at another exists as often as pieces are
 * between the two, and one more. With lag L per hop over p stages that is L (p - 1 - s) + 1 from forward to backward on
 * stage s: L = 1 is 1F1B; a split backward has L (p - 1) + 1 from forward to weight gradients, which is ZB-H1 with
 * L = 1, ZB-H2 with L = 2. No lag (0): as many as pieces, GPipe. (Qi et al. 2023 for the tables; the rule is ours.) */
#ifndef RILLE_PLAN_STAGE_H
#define RILLE_PLAN_STAGE_H

#include "actors/plan/program.h"

struct stages {
    int32_t n;      /* at least 1 */
    int32_t *stage; /* by node: 0 to n - 1 */
    uint8_t *phase; /* by node: enum node_phase */
};
void stages_find(struct stages *s, const struct program *p, struct arena *a);

struct moment {
    int32_t stage;
    uint8_t phase; /* enum node_phase */
};
/* Registers between them, 1 to pieces. */
int32_t stages_credits(const struct program *p, const struct stages *s, struct moment from, struct moment to);

#endif
