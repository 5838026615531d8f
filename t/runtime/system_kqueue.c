/* system_kqueue.c - the tests of system.c, with the version for FreeBSD and its kqueue. The headers and functions that
 * only FreeBSD has are stand-ins (t/host/freebsd). */
#undef RILLE_POSIX
#define RILLE_POSIX 1
#include "runtime/base/clock.h"
#include "runtime/base/system.h"
#include "t/lib/tap.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int
getpeereid(int fd, uid_t *user, gid_t *group)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n)) return -1;
    *user = peer.uid;
    *group = peer.gid;
    return 0;
}

/* hides Linux from the files below; the headers above need it */
#undef __linux__
#define __FreeBSD__ 14
#include "runtime/base/system_posix.c"
#include "t/runtime/system.c"
