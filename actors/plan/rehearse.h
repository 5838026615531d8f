/* rehearse.h - a pipeline on a virtual clock as its virtual stages alone: how long it takes, and what room it needs.
 *
 * Each stage has one act a piece of forward, backward and weight gradients; a lane - the devices of one placement -
 * does one at a time. What the plan's tasks do on the same clock play.h says; this one tries a thousand schedules.
 * Pure, any thread. */
#ifndef RILLE_PLAN_REHEARSE_H
#define RILLE_PLAN_REHEARSE_H

#include "actors/plan/stage.h"

enum { NACT = 3 }; /* forward, backward, weight gradients: as in enum node_phase */

struct link { /* data goes forward from a stage to another */
    int32_t from, to;
};
struct pipeline {
    int32_t n, nlane, nlink, pieces;
    int32_t *lane;         /* by stage */
    int64_t (*cost)[NACT]; /* by stage: of an act, nanoseconds */
    int64_t hop;           /* from lane to lane, nanoseconds */
    struct link *link;     /* sorted by from */
    bool trained;          /* there is a backward pass */
    const bool *joint;     /* by stage: all its backward is weight gradients */
};

/* The rule of a program: turns of each stage's acts, and rounds (stage.h). */
struct rehearsed_rule {
    struct stage_turn (*turn)[NACT];
    int32_t group, round;
};

struct rehearsed {
    int64_t time;           /* 0: it does not come to its end, or not by `latest` */
    int64_t latest;         /* given by the caller; 0: any time */
    struct prog_pool *peak; /* by stage: the most that it took of each; belongs to the caller */
    int32_t contexts; /* pieces between forward and the end of weight gradients, over the stages of a lane: the most */
    int64_t acts;     /* that it played */
};
void rehearse(const struct pipeline *p, const struct rehearsed_rule *rule, const struct prog_pool *pool,
              struct arena *tmp, struct rehearsed *out);

#endif
