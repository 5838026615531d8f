/* coordinator_run.h - sends programs to workers and runs them. Any thread that holds the cluster's lock. */
#ifndef RILLE_ACTORS_CLUSTER_COORDINATOR_COORDINATOR_RUN_H
#define RILLE_ACTORS_CLUSTER_COORDINATOR_COORDINATOR_RUN_H

#include "actors/cluster/coordinator/coordinator.h"

struct shipped;

/* START_TIMED: record the times of acts; START_SHIPS: only send the program, and do not run it */
enum { START_TIMED = 1, START_SHIPS = 2 };
enum { STOP_ASKED, STOP_FAILED, STOP_LOST };
void coordinator_start(struct coordinator *c, const struct start *s);
void coordinator_stop(struct coordinator *c);
/* Sends a member a request about a file (SAVE, LOAD or CANCEL), also during a run. NOTICE_FILED of the request
 * follows, unless a member is lost (NOTICE_LOST) first; CANCEL makes NOTICE_FILED arrive sooner. Returns false if no
 * epoch is formed. */
bool coordinator_file(struct coordinator *c, int rank, const struct packet *p);
/* Marks a program as unused. Members keep the COORDINATOR_IDLE programs that became unused last, so that these
 * programs need not be sent again. */
void coordinator_forget(struct coordinator *c, uint64_t program);
void coordinate_have(struct coordinator *c, int rank, const struct packet *p);
void coordinate_end(struct coordinator *c, int rank, const struct packet *p);
void coordinate_acts(struct coordinator *c, int rank, const struct packet *p);
void coordinate_filed(struct coordinator *c, int rank, const struct packet *p);
void coordinate_unite(struct coordinator *c, int rank, const struct packet *p);
void shipped_free(struct shipped *s);
void coordinate_drop_programs(struct coordinator *c);

#endif
