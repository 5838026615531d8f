/* work.c - the work counter of each thread. */
#include "sbp/net/work.h"

_Thread_local int64_t work_count;
