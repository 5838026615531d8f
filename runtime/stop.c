/* stop.c - the question of this thread. */
#include "runtime/stop.h"

#include "runtime/error.h"

static _Thread_local struct {
    bool (*wanted)(void *arg);
    void *arg;
} ask;

void
stop_ask(bool (*wanted)(void *arg), void *arg)
{
    ask.wanted = wanted;
    ask.arg = arg;
}

int
stop_check(void)
{
    return ask.wanted && ask.wanted(ask.arg) ? fail(E_CANCEL, "interrupted") : 0;
}
