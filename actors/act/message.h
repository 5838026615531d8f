/* message.h - every message that actors, threads and the session exchange.
 *
 * 32 bytes of numbers, never a pointer: the same message is valid in a thread's
 * ring, over ZeroMQ, in a log and in the simulator. An actor's id holds process,
 * device thread and index, so that routing is arithmetic. */
#ifndef RILLE_ACT_MESSAGE_H
#define RILLE_ACT_MESSAGE_H

#include "runtime/base.h"

enum msg_kind {
    MSG_FULL = 1, /* producer -> a destination thread: register `reg` of output `slot` of `src` holds `piece` */
    MSG_FREE,     /* that thread -> producer: nobody here reads it any more */
    MSG_START,    /* session -> thread: run `run` of the plan in its mailbox begins */
    MSG_STOP,     /* session or a thread that failed -> thread: act no more, send END */
    MSG_END,      /* thread -> session: nothing of run `run` will happen here any more; status says how it went */
    MSG_FAIL,     /* thread -> session: `src` failed with `status`; its text is in the thread's slot */
    MSG_STREAM,   /* a device's stream -> its thread: the work of act `seq` of actor `src` is done */
    MSG_QUIT,     /* session -> thread: leave */
};

struct msg {
    uint8_t kind, status;
    uint16_t slot;
    uint32_t epoch, run, src, dst, reg, piece, seq;
};
_Static_assert(sizeof(struct msg) == 32, "a message fits inline in a ZeroMQ message");

/* Actor ids: process 8 bits, thread 6, index 18. */
enum { ID_INDEX_BITS = 18, ID_THREAD_BITS = 6 };
static inline uint32_t
id_of(int process, int thread, int index)
{
    return (uint32_t)process << (ID_INDEX_BITS + ID_THREAD_BITS) | (uint32_t)thread << ID_INDEX_BITS | (uint32_t)index;
}
static inline int
id_thread(uint32_t id)
{
    return (int)(id >> ID_INDEX_BITS & ((1u << ID_THREAD_BITS) - 1));
}
static inline int
id_index(uint32_t id)
{
    return (int)(id & ((1u << ID_INDEX_BITS) - 1));
}
static inline int
id_process(uint32_t id)
{
    return (int)(id >> (ID_INDEX_BITS + ID_THREAD_BITS));
}

#endif
