/* context.h - contexts of ZeroMQ. The caller owns the context, and ends it with zmq_ctx_term(). Any thread. */
#ifndef RILLE_ACTORS_ACT_CONTEXT_H
#define RILLE_ACTORS_ACT_CONTEXT_H

/* Makes a context with `io` threads for connections; 0: only for sockets within the process. sockets: largest number of
 * sockets. The caller opens a socket at once, because the first socket starts the context's threads, and ZeroMQ aborts
 * the process if it cannot start one or open its descriptors. Checks that the threads can be started and have
 * descriptors. E_STATE: they cannot. */
int context_new(int io, int sockets, void **out);

#endif
