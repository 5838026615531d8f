/* transport.h - carries the bytes of channels, but for direct ones, from the memory of their SEND to that of their
 * RECV.
 *
 * A record of functions, one for a connected plan, whose owner has it. Messages go by the bus; this is what they speak
 * of. A transport promises three things: the bytes of a channel arrive in the order of their puts; what a thread put is
 * there when a message arrives that it sent after it; and it has room for as many acts of a channel as the channel has
 * registers, so that nobody waits for room. Only the thread of the task calls these functions, so one thread for one
 * channel; they do not block, and allocate nothing after the first act of every channel. */
#ifndef RILLE_PLAN_TRANSPORT_H
#define RILLE_PLAN_TRANSPORT_H

#include "actors/plan/channel.h"

struct transport {
    void *of;
    /* A SEND acts: its window lies in what begins at `from` (channel_gather, or slice by slice). *ticket is 0 when it
     * copied the bytes; else they must stay as they are until taken() says that it is over. E_BUS. */
    int (*put)(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket);
    /* Are the bytes of this ticket out of use? So they are, at the latest, when the other end says that it took them.
     * NULL: put() never gives a ticket. */
    bool (*taken)(void *of, int64_t ticket);
    bool nudges; /* it nudges (bus.h) the thread of the SEND when a ticket is over; false: that has to look */
    /* A RECV acts: it takes the oldest bytes of the channel that are still there into its register. E_BUS. */
    int (*take)(void *of, int32_t channel, const struct channel *c, char *to);
    /* Ends the run early: when it returns, it reads nothing any more that this thread's channels put. NULL: put() never
     * gives a ticket. */
    void (*stop)(void *of);
};

#endif
