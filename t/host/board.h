/* board.h - shared memory through which ranks of the NCCL stand-in communicate, within a process or across
 * processes.
 *
 * FAKE_NCCL_BOARD names a file that all processes map; without it, each process has a board of its own. Call n of a
 * rank matches call n of every other rank, and completes when all ranks have made it. Each rank has a block of
 * memory. A rank writes its data to its own block and reads the blocks of the other ranks. New data are written only
 * after all ranks have read the rank's previous data. The board reports errors that would give wrong results or a
 * deadlock: ranks that call different collectives, and devices whose call orders conflict.
 *
 * A point-to-point send goes from rank 0 to rank 1 of a communicator of two ranks. The send matches only the receive
 * of rank 1, and streams of such communicators wait for no other call. If a process ends, ranks of other processes
 * wait for it until they are aborted. Any thread may call. */
#ifndef RILLE_T_HOST_BOARD_H
#define RILLE_T_HOST_BOARD_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BOARD_RANKS = 16, BOARD_COMMS = 512, BOARD_GPUS = 256, BOARD_ROOM = 32 << 20, BOARD_ID = 16 };
enum board_verb { BOARD_REDUCE, BOARD_SCATTER, BOARD_GATHER, BOARD_EXCHANGE, BOARD_PASS };

struct board_call {
    int32_t verb, what; /* verb: kind of collective; what: dtype and kind of reduction */
    int64_t width, numel;
};
/* A communicator. */
struct board_comm {
    uint64_t secret; /* hash of the communicator's id, by which ranks find the communicator */
    int32_t n, gpu[BOARD_RANKS];
    bool taken[BOARD_RANKS]; /* by rank: true if the rank has joined */
    struct board_call call[BOARD_RANKS];
    /* By rank; begun: number of calls that the rank has begun; done: number of calls whose data the rank has read;
     * index: the rank's index. */
    int64_t begun[BOARD_RANKS], done[BOARD_RANKS];
    char wrong[96];
};
struct board_gpu {
    unsigned char uuid[BOARD_ID];
    /* what a GPU waits for: process, communicator and rank of the waiting call; comm: -1: the GPU does not wait */
    int32_t pid, comm, rank;
};
struct board {
    pthread_mutex_t lock;
    uint32_t news;
    int32_t ready, ncomm, ngpu;
    struct board_comm comm[BOARD_COMMS];
    struct board_gpu gpu[BOARD_GPUS];
};

static struct board *the_board;
static char *board_room[BOARD_COMMS]; /* mappings of the ranks' data in this process */
static pthread_once_t board_once = PTHREAD_ONCE_INIT;

static void
board_format(struct board *b)
{
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&b->lock, &shared);
    b->ready = 1;
}

static void *
board_map(const char *name, size_t bytes, void (*format)(struct board *b))
{
    int fd = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) flock(fd, LOCK_EX);
    bool sized = fd < 0 || !ftruncate(fd, (off_t)bytes);
    void *p = sized ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0)
                    : MAP_FAILED;
    if (p != MAP_FAILED && format && !((struct board *)p)->ready) format(p);
    if (fd >= 0) flock(fd, LOCK_UN), close(fd); /* the mapping stays valid after the file is closed */
    return p == MAP_FAILED ? NULL : p;
}

static void
board_open(void)
{
    the_board = board_map(getenv("FAKE_NCCL_BOARD"), sizeof *the_board, board_format);
    if (!the_board) abort();
}

static struct board *
board_lock(void)
{
    pthread_once(&board_once, board_open);
    if (pthread_mutex_lock(&the_board->lock) == EOWNERDEAD) pthread_mutex_consistent(&the_board->lock);
    return the_board;
}

static void
board_unlock(void)
{
    pthread_mutex_unlock(&the_board->lock);
}

static void
board_tell(void)
{
    __atomic_add_fetch(&the_board->news, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &the_board->news, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Waits until the board changes, but at most 20 ms, because a process that should announce a change may have died.
 * Releases the lock while it waits. */
static void
board_wait(void)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    uint32_t seen = __atomic_load_n(&the_board->news, __ATOMIC_SEQ_CST);
    board_unlock();
    syscall(SYS_futex, &the_board->news, FUTEX_WAIT, seen, &moment, NULL, 0);
    board_lock();
}

/* Returns the address of a rank's outgoing data; NULL if mapping fails. */
static char *
board_place(int comm, int rank)
{
    const char *board = getenv("FAKE_NCCL_BOARD");
    char name[512];
    snprintf(name, sizeof name, "%s.%d", board ? board : "", comm);
    if (!board_room[comm]) board_room[comm] = board_map(board ? name : NULL, (size_t)BOARD_ROOM * BOARD_RANKS, NULL);
    return board_room[comm] ? board_room[comm] + (size_t)BOARD_ROOM * (size_t)rank : NULL;
}

/* Returns the number of a GPU on the board. Forgets what the GPU waited for. The caller holds the lock. */
static int
board_gpu(const void *uuid)
{
    struct board *b = the_board;
    int i = 0;
    while (i < b->ngpu && memcmp(b->gpu[i].uuid, uuid, BOARD_ID)) i++;
    if (i == BOARD_GPUS) abort();
    if (i == b->ngpu) b->ngpu++;
    memcpy(b->gpu[i].uuid, uuid, BOARD_ID);
    b->gpu[i].pid = (int32_t)getpid();
    b->gpu[i].comm = -1;
    return i;
}

static bool
board_is_waiting(const struct board_gpu *g)
{
    return g->comm >= 0 && (!kill(g->pid, 0) || errno == EPERM);
}

/* Returns true if the call can never complete: a rank of the communicator that has not made it is on this GPU, or
 * waits for this GPU through other communicators. */
static bool
board_waits_for(const struct board_comm *m, int64_t call, int gpu, int depth)
{
    for (int i = 0; i < m->n && depth < BOARD_GPUS; i++) {
        if (m->begun[i] >= call || !m->taken[i]) continue;
        const struct board_gpu *g = &the_board->gpu[m->gpu[i]];
        if (m->gpu[i] == gpu) return true;
        if (!board_is_waiting(g)) continue;
        const struct board_comm *in = &the_board->comm[g->comm];
        if (board_waits_for(in, in->begun[g->rank], gpu, depth + 1)) return true;
    }
    return false;
}

static bool
board_all(const struct board_comm *m, const int64_t *count, int64_t least)
{
    for (int i = 0; i < m->n; i++)
        if (count[i] < least) return false;
    return true;
}

static bool
board_agrees(const struct board_comm *m)
{
    for (int i = 1; i < m->n; i++) {
        struct board_call a = m->call[0], b = m->call[i];
        if (memcmp(&a, &b, sizeof a)) return false;
    }
    return true;
}

/* Waits until all ranks have begun (or done) at least `least` calls. Returns NULL on success, otherwise an error
 * text. */
static const char *
board_await(struct board_comm *m, int comm, int rank, const int64_t *count, int64_t least, const bool *cut)
{
    struct board_gpu *g = &the_board->gpu[m->gpu[rank]];
    while (!*cut && !m->wrong[0] && !board_all(m, count, least)) {
        g->comm = comm;
        g->rank = rank;
        if (count == m->begun && board_waits_for(m, least, m->gpu[rank], 0)) {
            snprintf(m->wrong, sizeof m->wrong,
                     "collectives of two communicators cross: their devices wait for each other");
            board_tell();
        } else {
            board_wait();
        }
    }
    g->comm = -1;
    return *cut ? "cut" : m->wrong[0] ? m->wrong : NULL;
}

/* Makes a rank's next call: writes `bytes` of data and waits until all ranks have made the call. Then the caller
 * reads the other ranks' data while it holds the lock, and calls board_end(). */
static const char *
board_begin(int comm, int rank, const struct board_call *c, const void *in, size_t bytes, const bool *cut)
{
    struct board_comm *m = &the_board->comm[comm];
    const char *why = bytes > BOARD_ROOM ? "more than fits" : NULL;
    if (!why) why = board_await(m, comm, rank, m->done, m->begun[rank], cut);
    if (why) return why;
    memcpy(board_place(comm, rank), in, bytes);
    m->call[rank] = *c;
    m->begun[rank]++;
    board_tell();
    why = board_await(m, comm, rank, m->begun, m->begun[rank], cut);
    if (!why && !board_agrees(m)) {
        snprintf(m->wrong, sizeof m->wrong, "ranks of one communicator ask for different collectives");
        why = m->wrong;
    }
    return why;
}

/* Waits until the given rank of a communicator of two has begun (or done) at least `least` calls. Returns NULL on
 * success, otherwise an error text. */
static const char *
board_until(const struct board_comm *m, const int64_t *count, int64_t least, const bool *cut)
{
    while (!*cut && !m->wrong[0] && *count < least) board_wait();
    return *cut ? "cut" : m->wrong[0] ? m->wrong : NULL;
}

/* Sends data from rank 0 to rank 1: waits until rank 1 has read the previous data, then writes the new data.
 * keeps: true: the send is buffered; false: also waits until rank 1 has read the new data. The caller holds the
 * lock. */
static const char *
board_send(int comm, const struct board_call *c, const void *in, size_t bytes, bool keeps, const bool *cut)
{
    struct board_comm *m = &the_board->comm[comm];
    const char *why = bytes > BOARD_ROOM ? "more than fits" : board_until(m, &m->done[1], m->begun[0], cut);
    if (why) return why;
    memcpy(board_place(comm, 0), in, bytes);
    m->call[0] = *c;
    m->begun[0]++;
    board_tell();
    return keeps ? NULL : board_until(m, &m->done[1], m->begun[0], cut);
}

static const char *
board_receive(int comm, const struct board_call *c, void *out, size_t bytes, const bool *cut)
{
    struct board_comm *m = &the_board->comm[comm];
    const char *why = board_until(m, &m->begun[0], m->done[1] + 1, cut);
    if (!why && memcmp(&m->call[0], c, sizeof *c)) {
        snprintf(m->wrong, sizeof m->wrong, "what is received is not what is sent");
        why = m->wrong;
    }
    if (why) return why;
    memcpy(out, board_place(comm, 0), bytes);
    m->done[1]++;
    board_tell();
    return NULL;
}

static void
board_end(int comm, int rank)
{
    the_board->comm[comm].done[rank]++;
    board_tell();
}

#endif
