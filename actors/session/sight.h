/* sight.h - what all hosts do of a plan, for people.
 *
 * A worker's part of a plan follows from the program and the map of the cluster, so the session compiles the parts of
 * other hosts here again when somebody looks, and asks nobody. Numbers come with the end of each run: how often tasks
 * acted, how long devices were busy, and of a timed run when each act began and ended - on the worker's clock, of which
 * it says when the run began there, so that clocks may differ by days. Of very many hosts the first ones are shown.
 *
 * Owner: the runner; the session's thread. */
#ifndef RILLE_SESSION_SIGHT_H
#define RILLE_SESSION_SIGHT_H

#include "actors/session/session.h"

enum { SIGHT_PARTS = 64, SIGHT_ACTS = 1 << 22 /* of one host, of a run */ };

/* What the workers of a host said of the last run. */
struct heard {
    struct act_time *act; /* of the last timed one, on this host's clock */
    int64_t nact, act_capacity;
    int32_t *acted; /* task, acts: of one that failed */
    int64_t nacted, acted_capacity;
    uint64_t *busy; /* device, nanoseconds */
    int64_t nbusy, busy_capacity;
    bool good, marked; /* the run did not fail; the actors below know of it */
    bool settled;      /* times are in order with those of the other hosts */
    struct plan *plan; /* of that host's memory; NULL: nobody has looked yet */
    struct actors *actors;
};
void heard_begin(struct heard *h, bool timed); /* a run begins */
/* began: when the run did, on the worker's clock; here: on this one. */
void heard_acts(struct heard *h, const void *times, size_t bytes, int64_t began, int64_t here);
void heard_acted(struct heard *h, int32_t task, int32_t acts);
void heard_busy(struct heard *h, uint64_t device, uint64_t ns);
void heard_free(struct heard *h);

/* A part of the plan, of one memory. */
struct sight {
    const struct plan *plan;
    const struct actors *actors;
    const struct act_time *act; /* of another host; the session's own are the graph's */
    int64_t nact;
    char host[64]; /* "": the plan is of one host */
};
int sight_hosts(const struct runner *r); /* on which the plan's devices are */
int sight_count(const struct runner *r); /* parts that are shown; the session's own is the first */
int sight_part(struct rille_session *s, struct runner *r, int i, struct sight *out);
/* Puts the times of other hosts in order with the session's own acts of the run and each other, by what they sent: a
 * run begins there later than here, by as long as its order was on the way. out: the parts, sight_count() of them. */
int sight_settle(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown,
                 struct sight *out);

/* The plan of all hosts that are shown, as one, and what they did in the last timed run. In the arena given, and of the
 * parts. */
struct whole {
    const struct plan *plan;
    const struct plan **part;
    int32_t *first; /* by part: its first task */
    int npart;
    const struct act_time *act;
    int64_t nact;
};
/* own: the session's own acts of that run; as_one: as plan_join() has it. */
int sight_whole(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown, bool as_one,
                struct arena *a, struct whole *out);

/* ---- remote.c ---- */
struct str *remote_rows(struct rille_session *s,
                        struct runner *r); /* by memory, empty: for workers, with the next run */
struct heard *remote_heard(const struct runner *r, int memory);
const struct str *remote_program(const struct runner *r); /* its bytes */

#endif
