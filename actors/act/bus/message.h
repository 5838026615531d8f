/* message.h - messages between threads: a register changes hands, or a run begins or ends.
 *
 * 32 bytes of numbers, never a pointer: the same message is valid between threads, between processes, in a log and
 * in the simulator. m.to is an address of process and thread, which only the bus interprets. `task` and `out` are
 * indices in the receiver's plan partition. Threads of one process share a partition, so both ends use the same
 * indices. Between processes a FULL names the receiver's RECV task and a FREE the sender's SEND task, by indices
 * exchanged when the partitions were connected.
 *
 * Run numbers wrap: compare them with run_after. */
#ifndef RILLE_ACT_MESSAGE_H
#define RILLE_ACT_MESSAGE_H

#include "runtime/base/base.h"

enum msg_kind {
    MSG_FULL = 1, /* producer -> a thread of readers: register `reg` of result (task, out) holds `piece`; `fan`: which
                     of its readers. out MSG_FAR: SEND -> RECV `task`; a micro-batch can be taken. Direct channel: it is
                     being sent, as act `reg` of the link, counted from 0 (p2p.h) */
    MSG_FREE,     /* that thread -> producer: register `reg` of result (task, out) has no reader there any more. out
                     MSG_FAR: RECV -> SEND `task`; a micro-batch was taken. Direct channel: RECV is ready for another */
    MSG_START,    /* session -> thread: begin run `run` */
    MSG_STOP,     /* session -> thread: start no more acts, answer END */
    MSG_END,      /* thread -> session: `run` is over on this thread; status: 0, or the error that ended the run */
    MSG_QUIT,     /* session -> thread: exit */
};

struct msg {
    uint8_t kind, status; /* enum msg_kind, enum err_code */
    uint16_t fan;
    uint32_t epoch; /* epoch of the cluster; 0: one process */
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

/* Returns true if run a comes after run b. The runs are less than 2^31 apart. */
static inline bool
run_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

#endif
