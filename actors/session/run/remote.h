/* remote.h - runs plans on workers. The runner owns its cluster state (struct remote). Used only on the session's
 * thread. */
#ifndef RILLE_SESSION_REMOTE_H
#define RILLE_SESSION_REMOTE_H

#include "runtime/base/base.h"

struct rille_session;
struct runner;
struct host_report;
struct str;
struct act_time;
/* Sends the program to the workers before the first bind, and waits until all have compiled it. */
int remote_ready(struct rille_session *s, struct runner *r);
/* Creates the arenas of the runner's devices on all hosts. */
int remote_arenas(struct rille_session *s, struct runner *r);
/* Runs a bound runner on the cluster's workers. E_LOST: workers were lost; the text names them. */
int remote_run(struct rille_session *s, struct runner *r);
/* Describes the act in progress like rille_doing_thread(), for threads of workers on this host. */
bool remote_doing(const struct rille_session *s, int thread, char *text, size_t size);
/* Returns true if an update in a failed run had begun to overwrite the input (leaf) that this root replaces. */
bool remote_begun(const struct runner *r, int32_t root);
void remote_free(struct rille_session *s, struct runner *r);
/* Returns, by host, the schedule (order of tasks by thread or stream) that the next run sends to the workers;
 * empty: none. */
struct str *remote_rows(struct rille_session *s, struct runner *r);
/* Returns the reports of the workers of host number `memory`. */
struct host_report *remote_report(const struct runner *r, int memory);
/* Returns the encoded program that was sent to the workers. */
const struct str *remote_program(const struct runner *r);

#endif
