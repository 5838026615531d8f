/* thread.c - starts threads that handle no signals. */
#include "runtime/base/thread.h"

#include "runtime/base/error.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <string.h>

static int
thread_failed(int code)
{
    if (code == EAGAIN)
        return fail(E_STATE,
                    "a thread could not be started: %s; increase the largest number of threads (ulimit -u, "
                    "pids.max of the control group) or the memory limit",
                    strerror(code));
    if (code == EMFILE || code == ENFILE)
        return fail(E_STATE, "files could not be opened: %s; increase the largest number of open files (ulimit -n)",
                    strerror(code));
    return fail(E_STATE, "a thread could not be started: %s", strerror(code));
}

int
thread_start(pthread_t *out, void *(*run)(void *arg), void *arg)
{
    int code = system_thread_start(out, run, arg);
    return code ? thread_failed(code) : 0;
}

int
thread_check(int n, int files)
{
    int code = system_check(n, files);
    return code ? thread_failed(code) : 0;
}
