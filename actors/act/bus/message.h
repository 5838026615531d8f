/* message.h - messages between threads: a register changes hands, or a run begins or ends.
 *
 * A message is 32 bytes of numbers and never a pointer: it is valid between threads, between processes, in a log and
 * in the simulator. m.from and m.to are addresses of process and thread. `task` and `out` are indices in the
 * receiver's plan partition. Threads of one process share a partition, so sender and receiver use equal indices.
 * Between processes a FULL names the receiver's RECV task and a FREE names the sender's SEND task; the processes
 * exchange these indices when they connect the partitions. Run numbers wrap around: compare them with run_after(). */
#ifndef RILLE_ACT_MESSAGE_H
#define RILLE_ACT_MESSAGE_H

#include "runtime/base/base.h"

enum msg_kind {
    /* producer -> thread of readers: register `reg` of result (task, out) holds micro-batch `piece`. The readers are
     * the result's group `fan`, all on the receiving thread. With out = MSG_FAR, the message concerns a channel
     * between hosts: the SEND tells the RECV `task` that micro-batch `piece` can be received. On a direct channel
     * (p2p.h), it tells that the send is enqueued, and `reg` is the number of the act on the link, from 0. */
    MSG_FULL = 1,
    /* thread of readers -> producer: no reader on this thread uses register `reg` of result (task, out) any more.
     * With out = MSG_FAR, the RECV of a channel between hosts tells the SEND `task` that a micro-batch was received.
     * On a direct channel (p2p.h), it tells that the RECV is ready for another micro-batch. */
    MSG_FREE,
    MSG_START, /* session -> thread: begin run number `run` */
    MSG_STOP,  /* session -> thread: start no more acts, and answer with MSG_END */
    MSG_END,   /* thread -> session: run number `run` is over on this thread; status: 0, or the error that ended it */
    MSG_QUIT,  /* session -> thread: exit from the thread */
};

struct msg {
    uint8_t kind, status; /* kind: enum msg_kind; status: 0 or enum err_code */
    uint16_t fan;
    uint32_t epoch; /* epoch of the cluster (coordinator.h); 0: no cluster */
    uint32_t from, to;
    uint32_t run, task;
    uint16_t out, reg;
    uint32_t piece;
};
_Static_assert(sizeof(struct msg) == 32, "a message must fit inline in a ZeroMQ message");

enum { MSG_FAR = UINT16_MAX }; /* value of `out` in messages between SEND and RECV, the two ends of a channel */
/* An address has 22 bits of process number and 10 bits of thread number. */
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

/* Returns true if run number a comes after run number b. Run numbers wrap around; a and b must be less than 2^31
 * apart. */
static inline bool
run_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

#endif
