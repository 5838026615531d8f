/* monitor.h - data for monitoring systems: metrics over HTTP (--metrics ADDRESS), and the numbers of
 * rille.train.report().
 *
 * A thread of libmicrohttpd answers, even during a run:
 *   GET /metrics   totals of the session and reported numbers, in the OpenMetrics format
 *   GET /healthz   200: the process is alive
 *   GET /readyz    200: all workers are present; 503: not yet, or a worker was lost */
#ifndef RILLE_SHELL_MONITOR_H
#define RILLE_SHELL_MONITOR_H

#include <lua.h>

struct rille_session;

/* Starts to serve the session at an address: "9400" (on loopback), "0.0.0.0:9400", "[::1]:9400", or the path of a
 * Unix socket, which contains a slash. Port 0: any free port. option: origin of the address, for messages. Returns 0
 * and prints the address; otherwise returns non-zero and prints the error. */
int monitor_open(struct rille_session *s, const char *option, const char *address, const char *job);
/* Ends the service. Call it before the session is closed. */
void monitor_close(void);
/* Adds rille._report and rille._log to the table on top of the stack. */
void monitor_functions(lua_State *L);

#endif
