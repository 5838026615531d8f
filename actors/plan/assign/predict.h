/* predict.h - predicts time and memory of a planned step whose micro-batches run through stages.
 *
 * The planner's cost adds up all work sequentially, but stages run in parallel. predict() puts the same costs on the
 * pipeline simulator (pipeline_sim.h), with the program's schedule. Operators, and the readers' share of a move, occupy
 * a lane; link time delays arrival. Work that is done once is placed before a lane's first micro-batch; work on sums
 * over micro-batches (moves, updates) after its last one. If all placements share devices, or there is one
 * micro-batch, the time is the planner's cost. Pure; any thread. */
#ifndef RILLE_PLAN_PREDICT_H
#define RILLE_PLAN_PREDICT_H

#include "actors/plan/assign/assign.h"

/* Sets a's time and peak. p: the program as laid out by a, with its current schedule. */
int predict(const struct program *p, struct assigned *a);

#endif
