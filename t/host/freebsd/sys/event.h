/* event.h - stands in for FreeBSD's <sys/event.h> on Linux: a kqueue that watches the end of one process, by a pidfd.
 * Pure functions; any thread. */
#ifndef RILLE_T_FREEBSD_EVENT_H
#define RILLE_T_FREEBSD_EVENT_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct kevent {
    uintptr_t ident;
    int16_t filter;
    uint16_t flags;
    uint32_t fflags;
    int64_t data;
    void *udata;
};
enum { EVFILT_PROC = -5, EV_ADD = 1 };
#define NOTE_EXIT                                 0x80000000u
#define EV_SET(e, id, kind, how, detail, n, data) (*(e) = (struct kevent){id, kind, how, detail, n, data})

static inline int
kqueue(void)
{
    return eventfd(0, 0);
}

/* Makes `queue` readable when the process named in the first change ends. */
static inline int
kevent(int queue, const struct kevent *change, int nchange, struct kevent *out, int nout, const struct timespec *t)
{
    int end = nchange == 1 && !out && !nout && !t ? (int)syscall(SYS_pidfd_open, change->ident, 0) : -1;
    if (end < 0 || change->filter != EVFILT_PROC || change->fflags != NOTE_EXIT) return -1;
    int keeps = fcntl(queue, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0, status = dup3(end, queue, keeps) == queue ? 0 : -1;
    close(end);
    return status;
}

#endif
