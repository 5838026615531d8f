/* limits.h - the cores and the memory that this process may use, which can be less than the machine has.
 *
 * Cores are limited by affinity, by the CPU quota of control groups, and by OMP_NUM_THREADS. Memory is limited by
 * control groups (containers, batch systems). A group's limit also holds for the groups inside it, so the limits
 * of all groups from the process's group up to the mount point are read. Versions 1 and 2 of control groups are
 * supported. When a group's memory is full, the kernel kills a process without a message. Allocators call
 * limits_fits() to fail before that. Any thread. */
#ifndef RILLE_RUNTIME_LIMITS_H
#define RILLE_RUNTIME_LIMITS_H

#include "runtime/base/base.h"

enum { LIMIT_TEXT = 320, LIMIT_REASON = LIMIT_TEXT + 64 };

struct limits {
    int cores;                    /* number of cores that the process can keep busy; at least 1 */
    size_t memory;                /* memory that all processes of the group together can use, bytes */
    char cores_from[LIMIT_TEXT];  /* setting or file that limits the cores; "": only the machine does */
    char memory_from[LIMIT_TEXT]; /* file that limits the memory; "": only the machine does */
};

/* Lowers *l to the limits of the control groups of this process, and of OMP_NUM_THREADS. root: prefix of the paths
 * /proc and /sys, for tests; "": the real files. */
void limits_lower(const char *root, struct limits *l);
/* Returns the machine's cores and memory, lowered by affinity and limits_lower(). */
struct limits limits_now(void);
/* Returns the number of bytes that the process can still use before a group's memory is full: the least over its
 * groups. Cached file contents count as unused, because the kernel drops them first. SIZE_MAX: no group has a limit. */
size_t limits_room(const char *root);

/* Returns false if allocating `bytes` more would fill the memory of a control group. promised: bytes that the
 * process has allocated, but has perhaps not written yet. */
bool limits_fits(size_t promised, size_t bytes);
/* Writes to `text` why this thread's last allocation failed, as the end of the message "needs N bytes, more than
 * the ...". The reason is a group's limit (limits_fits() returned false), `ulimit -v`, `ulimit -f`, or the host's
 * memory. */
const char *limits_refusal(char text[LIMIT_REASON]);
/* Raises this process's limit of open files to `files`, if it is lower. E_ARG: the hard limit is lower. */
int limits_open_files(size_t files);
/* Returns the bytes of address space that the process may still map, divided by `parts`. SIZE_MAX: no limit. */
size_t limits_address_space(size_t parts);
/* Returns the largest size of the memory that this host's processes share: limits_now().memory, at most half of the
 * address space that is left (`ulimit -v`), and at most the size of a file (`ulimit -f`). */
size_t limits_shared_memory(void);

#endif
