/* attached.h - accepts the connections of `rille attach` and `rille status`. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_ATTACHED_H
#define RILLE_SHELL_LAUNCH_ATTACHED_H

#include <lua.h>

/* Starts to accept connections of `rille attach` and `rille status`, until the process ends. title: name
 * of the program that runs on L. */
void attached_open(lua_State *L, const char *title);

#endif
