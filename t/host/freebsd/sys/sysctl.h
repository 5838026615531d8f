/* sysctl.h - stands in for FreeBSD's <sys/sysctl.h> on Linux: the path of a process's program, and a time of the
 * system's start. Pure functions; any thread. */
#ifndef RILLE_T_FREEBSD_SYSCTL_H
#define RILLE_T_FREEBSD_SYSCTL_H

#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { CTL_KERN = 1, KERN_PROC = 14, KERN_PROC_PATHNAME = 12 };

static inline int
sysctl(const int *name, unsigned n, void *out, size_t *size, const void *in, size_t nin)
{
    char link[64];
    if (n != 4 || name[1] != KERN_PROC || name[2] != KERN_PROC_PATHNAME || in || nin) return -1;
    snprintf(link, sizeof link, "/proc/%d/exe", name[3]);
    ssize_t length = readlink(link, out, *size - 1);
    if (length < 0) return -1;
    ((char *)out)[length] = '\0';
    *size = (size_t)length + 1;
    return 0;
}

static inline int
sysctlbyname(const char *name, void *out, size_t *size, const void *in, size_t nin)
{
    if (strcmp(name, "kern.boottime") || *size != sizeof(struct timeval) || in || nin) return -1;
    *(struct timeval *)out = (struct timeval){1700000000, 0};
    return 0;
}

#endif
