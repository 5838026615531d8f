/* transport.h - carries the bytes of channels, except direct ones, from the host of the SEND to the host of the
 * RECV.
 *
 * A record of functions per connected plan, owned by the plan's owner. Messages travel by the bus and refer to the
 * bytes carried here. A transport guarantees three things. The bytes of a channel arrive in the order of their puts.
 * If a thread puts bytes and then sends a message, the bytes are there when the message arrives. A channel has room
 * for as many acts as it has registers, so a put never waits. Only the task's thread calls these functions, so each
 * channel has one thread per end; they do not block, and allocate nothing after the first act of every channel. */
#ifndef RILLE_PLAN_TRANSPORT_H
#define RILLE_PLAN_TRANSPORT_H

#include "actors/plan/model/channel.h"

struct transport {
    void *of;
    /* Called by an act of a SEND; the argument starts at `from` (channel_gather, or slice by slice). *ticket: 0 if
     * the bytes were copied; else they must stay unchanged until taken() returns true. E_BUS. */
    int (*put)(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket);
    /* Returns true if the bytes of a ticket are no longer in use, at the latest when the peer reports that it took
     * them. NULL: put() never returns a ticket. */
    bool (*taken)(void *of, int64_t ticket);
    bool nudges; /* nudges (bus.h) the SEND's thread when a ticket is released; false: that thread must poll */
    /* Called by an act of a RECV: moves the oldest bytes left in the channel to its register. E_BUS. */
    int (*take)(void *of, int32_t channel, const struct channel *c, char *to);
    /* Ends the run early: after the return, bytes put by this thread's channels are no longer read. NULL: put()
     * never returns a ticket. */
    void (*stop)(void *of);
};

#endif
