/* dial.h - how much memory a pipeline may hold, and a search for the schedule of the least bubble in it.
 *
 * Room for each virtual stage is a line, ceil((n - 1 - q) slope + base) pieces on stage q of n; a rule says whose turn
 * it is (stage.c). dial_turn() rehearses some thousand of these on a virtual clock, and the program takes the best that
 * fits. The choice follows from the program and the costs alone. Pure; any thread. */
#ifndef RILLE_PLAN_DIAL_H
#define RILLE_PLAN_DIAL_H

#include "actors/plan/rehearse.h"

/* Nanoseconds of one piece on a stage; move: of a hop. */
struct dial_costs {
    double forward, backward, weight, move;
    bool kept; /* they are of a step that computes nothing again: what this one does comes on top */
};
struct dial_wish {
    const char *name; /* "zb-v", "v-half", "v-min", "interleaved", "auto"; "memory": by the numbers below */
    double memory;    /* up to 16: a factor of what 1F1B holds on the device that holds most; above: bytes a device */
    int64_t most;     /* bytes of activations that a device may hold besides; 0: any */
    bool least;       /* what holds least, whatever it takes and the memory is */
    int64_t *base; /* bytes that 1F1B holds, of which memory is a factor: given if it is not 0, told if it is; NULL */
    int64_t *possible;              /* told: where nothing fits, the bytes of the least that there is; NULL */
    int64_t *allowed;               /* told: the bytes of activations that this comes to, 0: any; NULL */
    const struct dial_costs *costs; /* NULL: reckoned, or one for all where the wish is a name */
};

struct dial {
    double time;         /* of a step, nanoseconds */
    double bubble;       /* share of the devices' time that they are idle */
    int64_t bytes, base; /* activations of a device at most, about; those of 1F1B */
    int32_t contexts;    /* pieces that a device holds, over its stages */
    double again;        /* of what forward computes, how much backward computes again */
};

/* The schedules that it can search for; ends with NULL. */
extern const char *const dial_names[];
bool dial_knows(const char *name);
/* Is a stage from which data goes back to where it came from two, in this schedule? */
bool dial_folds(const char *name);
/* Sets the room and the rule of a program in pieces. E_ARG: its stages do not lie on devices as the schedule wants;
 * E_MEMORY: nothing fits, and what the least is; with lines. */
int dial_turn(struct program *p, const struct dial_wish *wish);
/* Reckons what a program's schedule comes to at these costs. false: it has one stage, or one piece. */
bool dial_read(const struct program *p, const struct dial_costs *costs, struct dial *out);

#endif
