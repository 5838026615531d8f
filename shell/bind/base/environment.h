/* environment.h - settings that environment variables contain. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_BIND_BASE_ENVIRONMENT_H
#define RILLE_SHELL_BIND_BASE_ENVIRONMENT_H

#include "shell/bind/base/shell.h"

/* Reads RILLE_DEVICES, RILLE_SEED and the other variables. Non-zero: e->error names the wrong value. */
int environment_read(struct environment *e);
/* Returns the path of Rille's file `name` in the folder that the environment variable xdg names, else in the
 * folder under_home of the user's home directory; false if neither file exists. */
bool environment_path(const char *xdg, const char *under_home, const char *name, char path[PATH_MAX]);

#endif
