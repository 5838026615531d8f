/* doctor.h - collects facts about the machine, the session and the program. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_DOCTOR_H
#define RILLE_SHELL_LAUNCH_DOCTOR_H

#include <lua.h>
#include <stdbool.h>

/* Prints the program's environment, as text or JSON; non-zero: writing to stdout failed. Main thread. */
int doctor_print(lua_State *L, bool json);

#endif
