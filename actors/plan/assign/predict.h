/* predict.h - predicts time and memory of a planned step whose micro-batches run through pipeline stages.
 *
 * The planner's cost is the sum of all work, but stages run in parallel. So predict() runs the pipeline simulator
 * (pipeline_sim.h) with the same costs and the program's schedule. Operators, and the readers' share of a move,
 * occupy a lane; the link time of a move delays the arrival of data. One-time work runs on its lane before the
 * lane's first micro-batch. Work on sums over micro-batches (moves, updates) runs after the lane's last
 * micro-batch. If all placements share devices, or there is only one micro-batch, the predicted time is the
 * planner's cost. The functions are pure and may run on any thread. */
#ifndef RILLE_PLAN_PREDICT_H
#define RILLE_PLAN_PREDICT_H

#include "actors/plan/assign/assign.h"

/* Sets `time` and `peak` of a. p: the program with the layouts of a and its current schedule. */
int predict(const struct program *p, struct assigned *a);

#endif
