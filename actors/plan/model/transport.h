/* transport.h - interface of a transport, which carries the bytes of channels from the host of the SEND to the host
 * of the RECV. Direct channels use no transport.
 *
 * The owner of a connected plan owns one struct transport. Messages travel over the bus and refer to bytes that the
 * transport carries. A transport guarantees three things. The bytes of a channel arrive in the order of their puts.
 * If a thread puts bytes and then sends a message, the bytes have arrived when the message arrives. A channel has
 * space for as many acts as the RECV has registers, so put() never waits. Only the thread of a channel's task calls
 * these functions. They do not block, and allocate nothing after each channel's first act. */
#ifndef RILLE_PLAN_TRANSPORT_H
#define RILLE_PLAN_TRANSPORT_H

#include "actors/plan/model/channel.h"

struct transport {
    void *of;
    /* Sends the bytes of an act of a SEND. The argument of the SEND starts at `from`; channel_gather() or the
     * transport itself gathers the slices of the argument. *ticket: 0 if the bytes were copied; otherwise the
     * bytes must stay unchanged until taken() returns true for the ticket. E_BUS. */
    int (*put)(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket);
    /* Returns true if the transport no longer reads the bytes of a ticket. That is so at the latest when the peer
     * has acknowledged the bytes. NULL: put() never returns a ticket. */
    bool (*taken)(void *of, int64_t ticket);
    /* true: wakes the thread of the SEND (bus.h) when a ticket is released; false: that thread must poll */
    bool nudges;
    /* Copies the oldest bytes that have arrived on the channel to the register of a RECV's act. E_BUS. */
    int (*take)(void *of, int32_t channel, const struct channel *c, char *to);
    /* Aborts the run's transfers of this thread. When stop() returns, the transport no longer reads bytes that this
     * thread has put. NULL: put() never returns a ticket. */
    void (*stop)(void *of);
};

#endif
