/* floor.h - a time that no schedule is below, whatever memory it has.
 *
 * Before an act all that its data come from is to be done, and behind it all that reads what it makes: its head and its
 * tail take as long at least. Of any acts of one lane, which does one at a time, the first begins no sooner than the
 * least of their heads, and the least of their tails is left behind the last one; so a step takes no less than these
 * two and what the acts take themselves. Pure; any thread. */
#ifndef RILLE_PLAN_FLOOR_H
#define RILLE_PLAN_FLOOR_H

#include "actors/plan/play.h"

/* Acts of a lane that have the same head and tail; work: of all of them. Nanoseconds. */
struct floor_acts {
    int64_t head, work, tail;
};
/* Returns the most that a set of a lane's acts asks for; sorts them, and uses up their work. */
int64_t floor_of_lane(struct floor_acts *acts, int32_t n);

/* Returns the floor of all schedules of what these acts did, each taking what it took: of a plan's, played or measured,
 * on the lanes of devices that work by themselves. Only data tell what comes before what: registers, and the order in
 * which memory is shared, are the schedule's. */
int64_t floor_of_plan(const struct plan *p, const struct act_time *act, int64_t nact);

#endif
