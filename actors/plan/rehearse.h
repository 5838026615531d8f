/* rehearse.h - a pipeline on a virtual clock as its virtual stages alone: how long it takes, and what room it needs.
 *
 * Each stage has one act a piece of forward, backward and weight gradients; a lane - the devices of one placement -
 * does one at a time. What the plan's tasks do on the same clock play.h says; this one tries a thousand schedules, and
 * leaves those that come to nothing as soon as it shows. Pure, any thread. */
#ifndef RILLE_PLAN_REHEARSE_H
#define RILLE_PLAN_REHEARSE_H

#include "actors/plan/stage.h"

enum { NACT = 3 }; /* forward, backward, weight gradients: as in enum node_phase */

struct link { /* data goes forward from a stage to another */
    int32_t from, to;
};
/* Of a stage, bytes on a device for a piece: what forward leaves for backward, for weight gradients, and backward for
 * these. */
struct stage_bytes {
    int64_t backward, weight, behind;
};
struct pipeline {
    int32_t n, nlane, nlink, pieces;
    int32_t *lane;             /* by stage */
    int64_t (*cost)[NACT];     /* by stage: of an act, nanoseconds */
    int64_t hop;               /* from lane to lane, nanoseconds */
    int64_t (*wire)[NACT];     /* by stage: besides, what an act gives takes the links to other lanes so long, one piece
                                  after the other; NULL: no time */
    int64_t *begin;            /* by lane: when it begins; NULL: at once */
    struct link *link;         /* sorted by from */
    bool trained;              /* there is a backward pass */
    const bool *joint;         /* by stage: all its backward is weight gradients */
    struct stage_bytes *bytes; /* by stage */
    double *once, *again;      /* by stage: nanoseconds of a piece that forward computes, and backward again */
};

/* The rule of a program: turns of each stage's acts, and rounds (stage.h). */
struct rehearsed_rule {
    struct stage_turn (*turn)[NACT];
    int32_t group, round;
};

/* What a rehearsal is worth its end for: it takes less time, or as much and fewer bytes, and not too much. */
struct rehearsed_aim {
    int64_t time, bytes;
    int64_t floor;         /* known: no schedule takes less time */
    int64_t most_bytes;    /* of a lane */
    int32_t most_contexts; /* of a lane */
};

struct rehearsed {
    int64_t time;           /* 0: it does not come to its end, or to nothing that is aimed at */
    struct prog_pool *peak; /* by stage: the most that it took of each; belongs to the caller */
    int64_t bytes;          /* that a lane holds with this room: the most */
    int32_t contexts; /* pieces between forward and the end of weight gradients, over the stages of a lane: the most */
    int64_t *end;     /* by lane: when its last act ended; belongs to the caller; NULL */
    int64_t acts;     /* that it played */
};
/* What rehearsals of a pipeline have in common; belongs to the arena, and reads the pipeline. One thread. */
struct theatre *theatre_open(const struct pipeline *p, struct arena *a);
void rehearse(struct theatre *t, const struct rehearsed_rule *rule, const struct prog_pool *pool,
              const struct rehearsed_aim *aim, struct rehearsed *out);

#endif
