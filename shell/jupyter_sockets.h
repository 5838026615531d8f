/* jupyter_sockets.h - the five sockets of a Jupyter kernel, and the thread that owns them.
 *
 * The thread answers heartbeats, publishes what the program prints as it prints, interrupts, and hands requests to the
 * thread that runs Lua, one after the other: the next when the last is done. The two exchange frames, no pointers. */
#ifndef RILLE_SHELL_JUPYTER_SOCKETS_H
#define RILLE_SHELL_JUPYTER_SOCKETS_H

#include "shell/jupyter_wire.h"

/* Reads the connection file, binds, starts the thread, and catches stdout and stderr from now on. Non-zero: `why`
 * tells. Only the thread that called this calls the others. */
int sockets_open(const char *connection_file, char *why, size_t why_size);
/* Waits for no more than the thread's last messages; stdout and stderr are what they were. */
void sockets_close(void);
const struct wire *sockets_wire(void);

enum sockets_event { SOCKETS_NONE, SOCKETS_REQUEST, SOCKETS_END };
/* Waits for a request - or, after sockets_ask(), for its answer -, at most so long and until a signal. */
enum sockets_event sockets_next(struct frames *f, int ms);

void sockets_reply(const struct message *to, const char *type, json_t *content);   /* takes the content, as all do */
void sockets_publish(const struct message *to, const char *type, json_t *content); /* for all who listen */
void sockets_ask(const struct message *to, json_t *content);                       /* an input_request */
/* Before the reply of a cell that failed: no cell that waits already is to run. What comes behind the reply runs. */
void sockets_abort(void);
void sockets_done(void); /* the request is */

#endif
