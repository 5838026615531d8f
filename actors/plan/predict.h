/* predict.h - what a step that a planner laid out takes where its pieces go through stages: its time, and what a device
 * holds.
 *
 * The planner's cost is all that is done, one thing after the other; stages work at the same time. Here the same costs
 * are on the clock of the stages alone (rehearse.h), by the program's schedule: what operators take, and what of a move
 * its readers' devices do, is work of a lane; what links do is on the way. Before the first piece comes what is made
 * once, behind a lane's last one what is made of sums over pieces: their moves, updates. A program whose placements all
 * share devices, or of one piece, takes its cost. Pure; any thread. */
#ifndef RILLE_PLAN_PREDICT_H
#define RILLE_PLAN_PREDICT_H

#include "actors/plan/assign.h"

/* Sets a's time and peak; p: the program as a laid it out, and with the schedule it has now. */
int predict(const struct program *p, struct assigned *a);

#endif
