/* system.h - calls of the operating system that differ between systems: sleeping on a word, events, processes, memory
 * that processes share, descriptors, identities.
 *
 * system.c is the same on all systems. system_linux.c uses Linux's calls. system_posix.c uses POSIX, and kqueue where
 * it exists; it serves macOS and FreeBSD, where it was never run, and Linux if RILLE_POSIX is defined, so that tests
 * run it. A function that fails sets errno. Any thread. The program rille compiles these files, too, because
 * librille.so exports none of them. */
#ifndef RILLE_RUNTIME_SYSTEM_H
#define RILLE_RUNTIME_SYSTEM_H

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#if defined __linux__ && !defined RILLE_POSIX
#define SYSTEM_LINUX 1
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: sockets have SO_NOSIGPIPE instead */
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0 /* macOS: received descriptors stay open in programs that this process executes */
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0 /* FreeBSD reserves no memory for a mapping */
#endif
#ifndef F_OFD_SETLK
#define F_OFD_SETLK F_SETLK /* locks that belong to the process, not to the descriptor */
#endif

/* ---- sleeping on a word ---- */

/* Sleeps while *word is `expected`, until system_wake(), a signal (Linux only), or a timeout of ns nanoseconds; ns 0:
 * no timeout. May also return early. shared: other processes may change the word and wake this thread. */
#ifdef SYSTEM_LINUX
static inline void
system_sleep(_Atomic uint32_t *word, uint32_t expected, int64_t ns, bool shared)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    (void)shared;
    syscall(SYS_futex, word, FUTEX_WAIT, expected, ns ? &t : NULL, NULL, 0);
}

/* Wakes all threads that sleep on the word. The caller has changed the word before. */
static inline void
system_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
#else
void system_sleep(_Atomic uint32_t *word, uint32_t expected, int64_t ns, bool shared);
void system_wake(_Atomic uint32_t *word);
#endif

/* ---- events, with which a thread wakes another thread that waits in poll() ---- */

struct system_event {
    int fd;    /* descriptor that is readable while the event is raised; -1: the event is closed */
    int raise; /* descriptor to which system_raise() writes */
};
#define SYSTEM_NO_EVENT ((struct system_event){-1, -1})

/* Opens an event. Returns 0; -1: no descriptor is free. */
int system_event_open(struct system_event *e);
/* Makes e->fd readable. May be called by a signal handler. */
void system_raise(const struct system_event *e);
/* Makes e->fd unreadable, however often the event was raised. */
void system_lower(const struct system_event *e);
void system_event_close(struct system_event *e);

/* ---- watching processes ---- */

struct system_process {
    int pid; /* 0: no process */
    int fd;  /* descriptor that is readable after the process has ended; -1: system_process_ended() must be polled */
};

/* Begins to watch a process, which may be a child that has ended. Returns 0; -1: there is no such process. */
int system_process_open(struct system_process *p, int pid);
/* Waits up to ms milliseconds for the process to end; returns true if it has ended. A child stays a zombie. */
bool system_process_ended(const struct system_process *p, int ms);
/* Kills the process; returns 0 or -1. On Linux the call can never reach a later process with the same pid. */
int system_process_kill(const struct system_process *p);
void system_process_close(struct system_process *p);
/* Returns true if pid is another process of this user that runs the same program file as this process. */
bool system_process_runs_us(int pid);
/* Makes the system kill this process when its parent ends. macOS has no such call, so nothing happens there. */
void system_end_with_parent(void);

/* ---- threads ---- */

/* Starts a thread with all signals blocked, so that only other threads handle signals. Returns 0 or an errno. */
int system_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg);
/* Checks that this process can start `n` more threads and open `files` more descriptors, at most SYSTEM_CHECKED of
 * each. Returns 0; EAGAIN: no thread; another errno: no descriptor. ZeroMQ ends the process if it cannot start its
 * threads or open their descriptors, so its callers use this function first. Other processes of the same user, and
 * other threads of this process, can still reach a limit in between. */
enum { SYSTEM_CHECKED = 16 };
int system_check(int n, int files);
/* Returns the system's number of the calling thread; 0 on systems other than Linux. */
int system_thread_id(void);
/* Waits until the system no longer counts a thread that has been joined; does nothing for the number 0. */
void system_thread_await(int id);

/* ---- memory that processes share ---- */

enum { SYSTEM_NAME = 64 };

/* Creates a memory file of `bytes` bytes, and writes the name by which other processes of this user open it. Returns a
 * descriptor or -1. On Linux the memory is freed with its last user. */
int system_memory_new(size_t bytes, char name[SYSTEM_NAME]);
/* Opens a memory file by name. own: receives the name by which other processes can open the file while this process
 * has it open. On Linux, the name from system_memory_new() is valid only while its maker has the file open. Returns a
 * descriptor or -1. EINVAL: the file is no memory file, or has another size. */
int system_memory_open(const char *name, size_t bytes, char own[SYSTEM_NAME]);
/* Allocates pages of a memory file that is mapped at base; the pages read as zeros. release true: frees pages
 * instead. Systems other than Linux keep freed pages, and fill them with zeros at the next allocation. Returns 0
 * or -1. */
int system_memory_pages(int fd, char *base, size_t at, size_t bytes, bool release);
/* Removes the name of a memory file, on systems where a name is kept apart from the descriptor. Closes no
 * descriptor. */
void system_memory_unlink(const char *name);

/* ---- descriptors, which are closed in programs that this process executes ---- */

int system_pipe(int fd[2], bool nonblocking);
int system_socket(int family, int type, bool nonblocking);
int system_accept(int listener, bool nonblocking); /* accepts a connection, whose address is not returned */
/* Creates an empty file without a name, for this user only. Returns a descriptor, and the path by which this process
 * opens the file again; or -1. */
int system_unnamed_file(char *path, size_t size);

/* Waits like poll() for descriptors to be readable. t: timeout; NULL: none. mask: signal mask during the call; NULL:
 * that of the thread. */
int system_poll(struct pollfd *fd, int n, const struct timespec *t, const sigset_t *mask);
/* Fills memory with zeros, also if the compiler sees that nothing reads it. */
void system_erase(void *p, size_t n);

/* ---- sorting with an argument ---- */

/* Sorts n elements like qsort(), and passes `arg` to the comparison. */
void system_sort(void *base, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *arg), void *arg);

/* ---- identifying this host, this program and peers ---- */

/* Writes the path of the running program. Returns false, and writes "", if the path is unknown. */
bool system_program(char *path, size_t size);
/* Returns true if the other end of a local socket is a process of this user, in this container. */
bool system_peer_is_ours(int fd);
enum { SYSTEM_HOST = 160 };
/* Writes a text that only processes of the same running kernel and pid namespace have in common. */
void system_host(char text[SYSTEM_HOST]);
/* Returns the number of cores on which this thread may run; 0: unknown. */
int system_cores(void);
/* Returns the core on which the calling thread runs; -1: unknown. */
int system_core(void);

#endif
