/* stage.h - virtual stages and phases of a micro-batched program, and the number of micro-batches between two
 * moments.
 *
 * Pure: depends on the program alone, not on devices or processes. Any thread; arrays are allocated in the given
 * arena. Credits are the schedule: a register written at one moment and read later has as many copies as there are
 * micro-batches in between, plus one. With lag L per hop over p stages that is L (p - 1 - s) + 1 from forward to
 * backward on stage s; L = 1 is 1F1B. A split backward has L (p - 1) + 1 from forward to weight gradients: ZB-H1
 * with L = 1, ZB-H2 with L = 2. Lag 0 gives one register per micro-batch: GPipe. (Tables: Qi et al. 2023; the rule
 * is ours.) If a device has several virtual stages, or the user gives memory, schedule_search.h searches for pools and
 * rule. */
#ifndef RILLE_PLAN_STAGE_H
#define RILLE_PLAN_STAGE_H

#include "actors/plan/model/program.h"

struct stages {
    int32_t n;                    /* at least 1 */
    int32_t *stage;               /* by node: 0 to n - 1 */
    uint8_t *phase;               /* by node: enum node_phase */
    bool *late;                   /* by node: its result may be available only after the last micro-batch */
    const struct place **at;      /* by node: its placement */
    const struct prog_pool *pool; /* by stage */
    const struct place **place;   /* by stage: placement of forward; NULL: no forward nodes */
    bool *joint; /* by stage: the input's gradient is not needed, so all backward nodes are weight gradients */
    int32_t *chunk, nchunk; /* by stage: number of earlier stages on its devices; nchunk: maximum, plus one */
};
/* Finds stages, phases and pools. E_PLAN: the program gives pools for another number of stages. */
/* Returns the micro-batches whose activations stage s of n holds at once, if the batch has as many. With lag L per hop,
 * backward is L (n - 1 - s) micro-batches behind forward. Weight gradients follow at once, or with a split backward by
 * L (n - 1) on every stage. Lag 0 (GPipe): all of the batch, INT32_MAX. */
int32_t stage_in_flight(int32_t lag, bool split, int32_t n, int32_t s);
int stages_find(struct stages *s, const struct program *p, struct arena *a);
/* Returns true if the placements share a device. */
bool stages_meet(const struct place *a, const struct place *b);

struct moment {
    int32_t stage;
    uint8_t phase; /* enum node_phase */
};
/* Returns the number of registers between the two moments, 1 to pieces. */
int32_t stages_credits(const struct program *p, const struct stages *s, struct moment from, struct moment to);

/* Turn of a task on its device. Among ready tasks the least `first` acts next, then the least micro-batch. If
 * micro-batches take rounds through the stages of a device, `lead` is the stage's place in a round. */
struct stage_turn {
    uint8_t first;
    int32_t lead;
};
/* Returns the turn of a task at this moment. goes_on: the task continues work begun on the device by tasks of the
 * same moment. */
struct stage_turn stages_turn(const struct program *p, const struct stages *s, struct moment at, bool goes_on);
/* Sets *group to the micro-batches that a stage runs before the next stage's turn, *round to those of all stages of
 * a device; both are 1 unless the rule is rounds. */
void stages_round(const struct program *p, const struct stages *s, int32_t *group, int32_t *round);

#endif
