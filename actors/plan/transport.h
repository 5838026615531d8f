/* transport.h - carries the bytes of channels from the memory of their SEND to that of their RECV.
 *
 * A record of functions, one for a connected plan, whose owner has it. Messages go by the bus; this is what they speak
 * of. A transport promises three things: the bytes of a channel arrive in the order in which they were put; what was
 * put is there when a message arrives that was sent after it by the same thread; and it has room for as many acts of a
 * channel as the channel has registers, so that nobody waits for room. Functions are called by the thread of the task
 * alone, one channel's by one thread; they do not block, and allocate nothing once every channel was used. */
#ifndef RILLE_PLAN_TRANSPORT_H
#define RILLE_PLAN_TRANSPORT_H

#include "actors/plan/channel.h"

struct transport {
    void *of;
    /* A SEND acts: its window lies in what begins at `from` (channel_gather, or slice by slice). *ticket is 0 when the
     * bytes were copied; else they must stay as they are until taken() says so. E_BUS. */
    int (*put)(void *of, int32_t channel, const struct channel *c, const char *from, int64_t *ticket);
    /* Are the bytes of this ticket out of use? So they are, at the latest, when the other end says that it took them.
     * NULL: no ticket is ever given. */
    bool (*taken)(void *of, int64_t ticket);
    bool nudges; /* the thread of the SEND is nudged (bus.h) when a ticket is over; false: it has to look */
    /* A RECV acts: the oldest bytes of the channel that were not taken yet go to its register. E_BUS. */
    int (*take)(void *of, int32_t channel, const struct channel *c, char *to);
    /* The run ends early: nothing that was put on this thread's channels is read any more, when it returns. NULL: no
     * ticket is ever given. */
    void (*stop)(void *of);
};

#endif
