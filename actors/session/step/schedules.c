/* schedules.c - the table of named pipeline schedules. Some are defined by numbers of credits; others are searched
 * (actors/plan/sim/schedule_family.h). */
#include "actors/session/step/schedules.h"
#include "actors/plan/outline/stage.h"
#include "actors/plan/sim/schedule_family.h"
#include "actors/plan/sim/schedule_search.h"
#include "actors/session/core/face.h"

#include <string.h>

static const struct lag_schedule schedules[] = {
    {"1f1b", 1, false},
    {"gpipe", 0, false},
    {"zb-h1", 1, true},
    {"zb-h2", 2, true},
};

static int
no_schedule(const char *name)
{
    struct str all = {0};
    for (size_t i = 0; i < countof(schedules); i++) str_addf(&all, "%s\"%s\"", i ? ", " : "", schedules[i].name);
    for (int i = 0; schedule_family_at(i); i++) str_addf(&all, ", \"%s\"", schedule_family_at(i)->name);
    int status = fail(E_ARG, "graph: unknown schedule \"%s\"; expected %s, {lag =, split_backward =} or {memory =}",
                      name, str_text(&all));
    str_free(&all);
    return status;
}

/* Returns the named schedule if it is defined by numbers of credits; else NULL. */
static const struct lag_schedule *
schedule_of_lag(const char *name)
{
    for (size_t i = 0; i < countof(schedules); i++)
        if (!strcmp(schedules[i].name, name)) return &schedules[i];
    return NULL;
}

int
schedules_find(const struct rille_graph_options *o, struct lag_schedule *out)
{
    *out = (struct lag_schedule){"lag", MAX(1, o->lag), o->split_backward};
    if (!o->schedule) return 0;
    const struct lag_schedule *named = schedule_of_lag(o->schedule);
    if (named) return *out = *named, 0;
    return schedule_search_knows(o->schedule) ? 0 : no_schedule(o->schedule);
}

int
schedules_check(const struct rille_graph_options *o)
{
    struct lag_schedule schedule;
    return schedules_find(o, &schedule);
}

int
rille_schedule_contexts(const char *schedule, int devices, int stages, int device)
{
    enum { MOST = 1 << 15 }; /* most devices or stages that are accepted, so that products fit in 31 bits */
    if (face_given(schedule, "the schedule", __func__)) return 0;
    if (device < 0 || device >= devices || stages < 1 || devices > MOST || stages > MOST) return 0;
    const struct lag_schedule *named = schedule_of_lag(schedule);
    if (named) return stages == 1 ? stage_in_flight(named->lag, named->split, devices, device) : 0;
    return schedule_contexts(schedule, devices, stages, device);
}
