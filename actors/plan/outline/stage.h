/* stage.h - virtual stages and phases of a micro-batched program, and the number of registers of a value that is
 * made at one moment and read at another. A moment is a stage and a phase.
 *
 * Pure: depends on the program alone, not on devices or processes. Any thread; arrays are allocated in the given
 * arena.
 *
 * Credits are the schedule: a value made at one moment and read at a later moment has as many registers as there are
 * micro-batches in between, plus one. Let the lag be L micro-batches per hop between stages, and p the number of
 * stages. Then stage s has L (p - 1 - s) + 1 registers from forward to backward; L = 1 is 1F1B. With split backward,
 * each stage has L (p - 1) + 1 registers from forward to weight gradients: ZB-H1 with L = 1, ZB-H2 with L = 2. Lag 0
 * gives one register per micro-batch: GPipe. (Qi et al. 2023 give tables of these schedules, but not this rule.)
 *
 * If a device has several virtual stages, or the user gives a memory limit, schedule_search.h searches for the
 * limits of stages and the priority rule. */
#ifndef RILLE_PLAN_STAGE_H
#define RILLE_PLAN_STAGE_H

#include "actors/plan/model/program.h"

struct stages {
    int32_t n;                    /* number of virtual stages, at least 1 */
    int32_t *stage;               /* by node: its stage, 0 to n - 1 */
    uint8_t *phase;               /* by node: enum node_phase */
    bool *late;                   /* by node: true if its result may be available only after the last micro-batch */
    const struct place **at;      /* by node: placement of its result */
    const struct prog_pool *pool; /* by stage: limits of the numbers of micro-batches that it may hold */
    const struct place **place;   /* by stage: placement of its forward nodes; NULL: the stage has no forward nodes */
    /* by stage: true if no gradient of the stage's input is needed. Its backward then consists of weight gradients
     * only */
    bool *joint;
    /* chunk[stage]: number of earlier stages on the same devices. nchunk: largest number of stages on a device */
    int32_t *chunk, nchunk;
};
/* Returns the number of micro-batches whose activations stage s of n stages holds at once, if the batch has enough
 * micro-batches. The lag is the lookahead per hop between stages. With a lag of L micro-batches, backward is L (n -
 * 1 - s) micro-batches behind forward. Weight gradients follow backward at once. With split backward, they are L (n
 * - 1) micro-batches behind forward on every stage. With lag 0 (GPipe), a stage holds all micro-batches of the
 * batch: returns INT32_MAX. */
int32_t stage_in_flight(int32_t lag, bool split, int32_t n, int32_t s);
/* Finds stages, phases and limits of stages. E_PLAN: the program has limits for another number of stages. */
int stages_find(struct stages *s, const struct program *p, struct arena *a);
/* Returns true if the placements have a device in common. */
bool stages_meet(const struct place *a, const struct place *b);

struct moment {
    int32_t stage;
    uint8_t phase; /* enum node_phase */
};
/* Returns the number of registers of a value that is made at one moment and read at another. The number is at
 * least 1, and at most the number of micro-batches. */
int32_t stages_credits(const struct program *p, const struct stages *s, struct moment from, struct moment to);

/* Priority of a task on its device. Among ready tasks, the task with the least `first` runs next; among those with
 * equal `first`, the task with the least micro-batch. If the stages of a device take turns in rounds, `lead` is the
 * stage's place in a round. */
struct stage_turn {
    uint8_t first;
    int32_t lead;
};
/* Returns the turn of a task at this moment (stage and phase). goes_on: an earlier task of the same moment has
 * begun the work on the device, and the task continues it. */
struct stage_turn stages_turn(const struct program *p, const struct stages *s, struct moment at, bool goes_on);
/* Computes the size of rounds. *group: number of micro-batches that a stage runs before the next stage has its
 * turn; *round: sum of the groups of all stages of a device. Both are 1 unless the rule is RULE_ROUNDS. */
void stages_round(const struct program *p, const struct stages *s, int32_t *group, int32_t *round);

#endif
