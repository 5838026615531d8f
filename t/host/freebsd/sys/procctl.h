/* procctl.h - stands in for FreeBSD's <sys/procctl.h> on Linux: the signal that a process receives when its parent
 * ends. Pure functions; any thread. */
#ifndef RILLE_T_FREEBSD_PROCCTL_H
#define RILLE_T_FREEBSD_PROCCTL_H

#include <sys/prctl.h>

enum { PROC_PDEATHSIG_CTL = 11 };

static inline int
procctl(int kind, int id, int command, void *data)
{
    (void)kind;
    return id == 0 && command == PROC_PDEATHSIG_CTL ? prctl(PR_SET_PDEATHSIG, *(int *)data) : -1;
}

#endif
