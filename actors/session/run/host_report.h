/* host_report.h - reports of a host's workers about the last run. struct remote of a runner owns the reports.
 * Used only on the session's thread. */
#ifndef RILLE_SESSION_HOST_REPORT_H
#define RILLE_SESSION_HOST_REPORT_H

#include "actors/act/run/engine.h"

struct actors;
struct plan;
enum { HOST_REPORT_ACTS = 1 << 22 }; /* maximum number of acts per host and run */

/* Reports of a host's workers on the last run. */
struct host_report {
    struct act_time *act; /* acts of the last timed run, on this host's clock */
    int64_t nact, act_capacity;
    int32_t *acted; /* pairs: task, and number of its acts; only after a failed run */
    int64_t nacted, acted_capacity;
    uint64_t *busy; /* pairs: device, and its busy time in ns */
    int64_t nbusy, busy_capacity;
    /* good: the run succeeded; marked: the report has been copied into the actors of the plan partition */
    bool good, marked;
    bool settled;      /* act times are aligned with those of other hosts */
    struct plan *plan; /* plan partition of the host; NULL: not compiled yet */
    struct actors *actors;
};
/* Resets the report at the start of a run. timed: true if the run records the times of acts (task executions). */
void host_report_begin(struct host_report *h, bool timed);
/* Stores act times. began: start of the run on the worker's clock; here: the same start on this process's clock. */
void host_report_acts(struct host_report *h, const void *times, size_t bytes, int64_t began, int64_t here);
void host_report_acted(struct host_report *h, int32_t task, int32_t acts);
void host_report_busy(struct host_report *h, uint64_t device, uint64_t ns);
void host_report_free(struct host_report *h);

#endif
