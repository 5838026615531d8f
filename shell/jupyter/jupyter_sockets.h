/* jupyter_sockets.h - the five sockets of a Jupyter kernel, and the thread that owns them.
 *
 * The socket thread answers heartbeats, publishes the program's output while it is printed, interrupts the program,
 * and passes requests to the Lua thread one at a time: the next request follows after sockets_done(). The two threads
 * exchange copies of frames, no pointers. */
#ifndef RILLE_SHELL_JUPYTER_SOCKETS_H
#define RILLE_SHELL_JUPYTER_SOCKETS_H

#include "shell/jupyter/jupyter_wire.h"

/* Reads the connection file, binds the sockets, starts the thread, and captures stdout and stderr from now on.
 * Non-zero: the cause is written to `why`. Only the calling thread may use the functions below. */
int sockets_open(const char *connection_file, char *why, size_t why_size);
/* Waits until the socket thread has sent its last messages, then restores stdout and stderr. */
void sockets_close(void);
const struct wire *sockets_wire(void);

enum sockets_event { SOCKETS_NONE, SOCKETS_REQUEST, SOCKETS_END };
/* Waits for a request, or after sockets_ask() for the user's input. Returns after `ms` milliseconds at the latest,
 * or on a signal. */
enum sockets_event sockets_next(struct frames *f, int ms);

/* sends the reply to a request; releases the content, as the next two functions do */
void sockets_reply(const struct message *to, const char *type, json_t *content);
void sockets_publish(const struct message *to, const char *type, json_t *content); /* sends to all subscribers */
void sockets_ask(const struct message *to, json_t *content); /* asks the front end for the user's input */
/* Aborts the requests that are already queued; later requests run. Call it before the reply of a failed cell. */
void sockets_abort(void);
void sockets_done(void); /* declares the current request done */

#endif
