/* cluster_view.h - the cluster view of a plan: the work of all hosts, for reports.
 *
 * A worker's plan partition follows from the program and the cluster map, so the session compiles partitions of
 * other hosts here on demand, without messages. At the end of each run workers report numbers: number of acts by
 * task, busy time by device and, if the run was timed, start and end of each act. Act times are on the worker's
 * clock and the report includes the start of the run on that clock, so clocks of hosts may differ by days. With
 * very many hosts, only the first CLUSTER_VIEW_PARTS are shown.
 *
 * Owner: the runner. Used only on the session's thread. */
#ifndef RILLE_SESSION_CLUSTER_VIEW_H
#define RILLE_SESSION_CLUSTER_VIEW_H

#include "actors/session/core/session.h"

enum { CLUSTER_VIEW_PARTS = 64 };

/* The plan partition of one host. */
struct cluster_view {
    const struct plan *plan;
    const struct actors *actors;
    const struct act_time *act; /* acts on a remote host; the acts on the session's host are in the graph */
    int64_t nact;
    char host[64]; /* name of the host; "": the session has a single host */
};
/* Returns the number of hosts that have devices of the plan. */
int cluster_view_hosts(const struct runner *r);
/* Returns the number of shown partitions. Partition 0 is the partition of the session's host. */
int cluster_view_count(const struct runner *r);
int cluster_view_part(struct rille_session *s, struct runner *r, int i, struct cluster_view *out);
/* Aligns the act times of all hosts. A remote run starts later than the local run by the transit time of the
 * start message, which is estimated from messages between hosts. out: cluster_view_count() partitions. */
int cluster_view_settle(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown,
                        struct cluster_view *out);

/* The merged plan of all shown hosts, and the acts of the last timed run. Allocated in the given arena; refers to
 * the partitions. */
struct whole {
    const struct plan *plan;
    const struct plan **part;
    int32_t *first; /* by partition: index of its first task in the merged plan */
    int npart;
    const struct act_time *act;
    int64_t nact;
};
/* Merges the plans and acts of all shown hosts. own: the session's own acts of that run. as_one: true: transfers run
 * on the receiver's device, as on a single host (plan_merge_partitions()). */
int cluster_view_whole(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown, bool as_one,
                       struct arena *a, struct whole *out);

#endif
