/* transport.h - interface of a transport, which carries the bytes of channels from the host of the SEND to the host
 * of the RECV. Direct channels do not use a transport.
 *
 * The owner of a connected plan owns one record of functions. Messages travel by the bus and refer to the bytes
 * carried here. A transport guarantees three things. The bytes of a channel arrive in the order in which they were
 * put. If a thread puts bytes and then sends a message, the bytes have arrived when the message arrives. A channel
 * holds the bytes of as many acts as the RECV has registers, so a put never waits. Only the task's thread calls
 * these functions, so each end of a channel has one thread. The functions do not block, and allocate nothing after
 * the first act of every channel. */
#ifndef RILLE_PLAN_TRANSPORT_H
#define RILLE_PLAN_TRANSPORT_H

#include "actors/plan/model/channel.h"

struct transport {
    void *of;
    /* Takes the bytes of an act of a SEND. The argument starts at `from`; its slices are gathered with
     * channel_gather(), or one by one. *ticket: 0 if the bytes were copied; else they must stay unchanged until
     * taken() returns true. E_BUS. */
    int (*put)(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket);
    /* Returns true if the bytes of a ticket are no longer in use. A ticket ends at the latest when the peer reports
     * that it has received the bytes. NULL: put() never returns a ticket. */
    bool (*taken)(void *of, int64_t ticket);
    /* true: wakes the thread of the SEND (bus.h) when a ticket is released; false: that thread must poll */
    bool nudges;
    /* Moves the oldest bytes in the channel to the register of an act of a RECV. E_BUS. */
    int (*take)(void *of, int32_t channel, const struct channel *c, char *to);
    /* Ends the run early: after the return, the transport no longer reads bytes put by channels of this thread.
     * NULL: put() never returns a ticket. */
    void (*stop)(void *of);
};

#endif
