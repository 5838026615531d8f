/* host_report.c - keeps the reports of a host's workers about a run. */
#include "actors/plan/compile.h"
#include "actors/session/run/host_report.h"
#include "actors/act/run/actors.h"
#include "actors/plan/model/plan.h"

#include <stdlib.h>
#include <string.h>

void
host_report_begin(struct host_report *h, bool timed)
{
    if (timed) h->nact = 0;
    if (timed) h->settled = false;
    h->nacted = h->nbusy = 0;
    h->good = h->marked = false;
}

void
host_report_acts(struct host_report *h, const void *times, size_t bytes, int64_t began, int64_t here)
{
    int64_t more = MIN((int64_t)(bytes / sizeof *h->act), HOST_REPORT_ACTS - h->nact);
    GROW(h->act, h->nact + more, h->act_capacity);
    if (more) memcpy(h->act + h->nact, times, sizeof *h->act * (size_t)more);
    for (struct act_time *a = h->act + h->nact; a < h->act + h->nact + more; a++) {
        a->begin += here - began;
        a->end += here - began;
    }
    h->nact += more;
}

void
host_report_acted(struct host_report *h, int32_t task, int32_t acts)
{
    GROW(h->acted, h->nacted + 2, h->acted_capacity);
    h->acted[h->nacted++] = task;
    h->acted[h->nacted++] = acts;
}

void
host_report_busy(struct host_report *h, uint64_t device, uint64_t ns)
{
    GROW(h->busy, h->nbusy + 2, h->busy_capacity);
    h->busy[h->nbusy++] = device;
    h->busy[h->nbusy++] = ns;
}

void
host_report_free(struct host_report *h)
{
    actors_free(&h->actors);
    plan_free(&h->plan);
    free(h->act);
    free(h->acted);
    free(h->busy);
    *h = (struct host_report){0};
}
