/* message.h - a register changes hands, or a run begins or ends.
 *
 * 32 bytes of numbers, never a pointer: the same message is valid between threads, between processes, in a log and in
 * the simulator. It goes to m.to, an address of process and thread, which the bus alone interprets. `task` and `out`
 * are indices in the receiver's part of the plan: threads of one process have one part, so there both ends count alike;
 * between processes a FULL names the receiver's RECV task and a FREE the sender's SEND task, by indices that the two
 * exchanged when they connected their parts.
 *
 * Run numbers wrap: compare them with run_after. */
#ifndef RILLE_ACT_MESSAGE_H
#define RILLE_ACT_MESSAGE_H

#include "runtime/base.h"

enum msg_kind {
    MSG_FULL = 1, /* producer -> a thread of readers: register `reg` of result (task, out) holds `piece`; `fan` says for
                     which of its readers. out MSG_FAR: SEND -> RECV, `task`; a piece is there to take; of a
                     direct channel: it is being sent, as act `reg` of its edge, from 0 on (edge.h) */
    MSG_FREE, /* that thread -> producer: nobody there reads register `reg` of result (task, out) any more. out MSG_FAR:
                 RECV -> SEND, `task`; it took a piece; of a direct channel: it is ready for one */
    MSG_START, /* session -> thread: begin run `run` */
    MSG_STOP,  /* session -> thread: act no more, answer END */
    MSG_END,   /* thread -> session: nothing of `run` happens here any more; status: 0, or the error that ended it */
    MSG_QUIT,  /* session -> thread: leave */
};

struct msg {
    uint8_t kind, status; /* enum msg_kind, enum err_code */
    uint16_t fan;
    uint32_t epoch; /* of the cluster; 0 in one process */
    uint32_t from, to;
    uint32_t run, task;
    uint16_t out, reg;
    uint32_t piece;
};
_Static_assert(sizeof(struct msg) == 32, "a message fits inline in a ZeroMQ message");

/* Addresses: process 22 bits, thread 10. */
enum { MSG_FAR = UINT16_MAX }; /* `out` of a message between the two ends of a channel */
enum { ADDR_THREAD_BITS = 10, ADDR_PROCESS_BITS = 22, MOST_THREADS = 64 };
static inline uint32_t
addr_of(int process, int thread)
{
    return (uint32_t)process << ADDR_THREAD_BITS | (uint32_t)thread;
}
static inline int
addr_thread(uint32_t addr)
{
    return (int)(addr & ((1u << ADDR_THREAD_BITS) - 1));
}
static inline int
addr_process(uint32_t addr)
{
    return (int)(addr >> ADDR_THREAD_BITS);
}

/* Does run a come after run b? They are less than 2^31 runs apart. */
static inline bool
run_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

#endif
