/* context.c - contexts of ZeroMQ. */
#include "actors/act/bus/context.h"

#include "runtime/base/error.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <zmq.h>

int
context_new(int io, int sockets, void **out)
{
    *out = NULL;
    /* One more thread closes the sockets. A thread has two descriptors, a context and a socket have one. */
    TRY(thread_check(io + 1, 2 * (io + 1) + 2));
    *out = zmq_ctx_new();
    if (!*out) return fail(E_BUS, "a context of ZeroMQ could not be made: %s", zmq_strerror(errno));
    zmq_ctx_set(*out, ZMQ_IO_THREADS, io);
    zmq_ctx_set(*out, ZMQ_BLOCKY, 0);
    zmq_ctx_set(*out, ZMQ_MAX_SOCKETS, sockets);
    return 0;
}
