/* system_posix.c - the tests of system.c, with the version for systems other than Linux. */
#undef RILLE_POSIX
#define RILLE_POSIX 1
#include "runtime/base/system_posix.c"
#include "t/runtime/system.c"
