/* cluster_view.h - the cluster view of a plan: the work of all hosts, for reports.
 *
 * A worker's plan partition follows from the program and the cluster map, so the session compiles partitions of
 * other hosts here on demand, without messages. At the end of each run workers report numbers: acts by task, busy
 * time by device and, if the run was timed, begin and end of each act. Act times are on the worker's clock and
 * arrive with the begin of the run on that clock, so clocks may differ by days. With very many hosts, only the first
 * CLUSTER_VIEW_PARTS are shown.
 *
 * Owner: the runner. Session's thread. */
#ifndef RILLE_SESSION_CLUSTER_VIEW_H
#define RILLE_SESSION_CLUSTER_VIEW_H

#include "actors/session/core/session.h"

enum { CLUSTER_VIEW_PARTS = 64, CLUSTER_VIEW_ACTS = 1 << 22 /* CLUSTER_VIEW_ACTS: per host and run */ };

/* Reports of a host's workers on the last run. */
struct heard {
    struct act_time *act; /* acts of the last timed run, on this host's clock */
    int64_t nact, act_capacity;
    int32_t *acted; /* pairs (task, acts), after a failed run */
    int64_t nacted, acted_capacity;
    uint64_t *busy; /* pairs (device, busy ns) */
    int64_t nbusy, busy_capacity;
    bool good, marked; /* good: the run succeeded; marked: `actors` below are up to date */
    bool settled;      /* times are aligned with other hosts' times */
    struct plan *plan; /* partition of that host; NULL: not compiled yet */
    struct actors *actors;
};
void heard_begin(struct heard *h, bool timed); /* called when a run begins */
/* began: begin of the run on the worker's clock; here: on this clock. */
void heard_acts(struct heard *h, const void *times, size_t bytes, int64_t began, int64_t here);
void heard_acted(struct heard *h, int32_t task, int32_t acts);
void heard_busy(struct heard *h, uint64_t device, uint64_t ns);
void heard_free(struct heard *h);

/* The plan partition of one memory. */
struct cluster_view {
    const struct plan *plan;
    const struct actors *actors;
    const struct act_time *act; /* of another host; own acts are in the graph */
    int64_t nact;
    char host[64]; /* "": single host */
};
int cluster_view_hosts(const struct runner *r); /* number of hosts with devices of the plan */
int cluster_view_count(const struct runner *r); /* number of shown partitions; the session's own is number 0 */
int cluster_view_part(struct rille_session *s, struct runner *r, int i, struct cluster_view *out);
/* Aligns the times of other hosts with the session's own acts and each other by messages sent: a remote run begins
 * later, by the time that its order was under way. out: cluster_view_count() partitions. */
int cluster_view_settle(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown,
                        struct cluster_view *out);

/* The joined plan of all shown hosts, and the acts of the last timed run. Allocated in the given arena; refers to
 * the partitions. */
struct whole {
    const struct plan *plan;
    const struct plan **part;
    int32_t *first; /* by partition: its first task */
    int npart;
    const struct act_time *act;
    int64_t nact;
};
/* own: the session's own acts of that run; as_one: as in plan_merge_partitions(). */
int cluster_view_whole(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown, bool as_one,
                       struct arena *a, struct whole *out);

/* ---- remote.c ---- */
struct str *remote_rows(struct rille_session *s,
                        struct runner *r); /* by memory: rows for workers, sent with the next run; empty: none */
struct heard *remote_heard(const struct runner *r, int memory);
const struct str *remote_program(const struct runner *r); /* bytes of the program */

#endif
