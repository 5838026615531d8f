/* stop.c - cancels kernels and other long operations of the calling thread. */
#include "runtime/base/stop.h"

#include "runtime/base/error.h"

static _Thread_local struct stop ask, caller;

void
stop_ask(bool (*wanted)(void *arg), void *arg)
{
    ask = (struct stop){wanted, arg};
}

struct stop
stop_asked(void)
{
    return ask;
}

bool
stop_now(void)
{
    return ask.wanted && ask.wanted(ask.arg);
}

int
stop_check(void)
{
    return stop_now() ? fail(E_CANCEL, "interrupted") : 0;
}

void
stop_caller_ask(bool (*wanted)(void *arg), void *arg)
{
    caller = (struct stop){wanted, arg};
}

int
stop_caller_check(void)
{
    return caller.wanted && caller.wanted(caller.arg) ? fail(E_CANCEL, "interrupted") : 0;
}
