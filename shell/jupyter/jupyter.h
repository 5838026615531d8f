/* jupyter.h - Jupyter kernel: rille --jupyter FILE, rille --jupyter-install. Main thread; the kernel runs until the
 * notebook shuts it down. */
#ifndef RILLE_SHELL_JUPYTER_H
#define RILLE_SHELL_JUPYTER_H

#include "shell/bind/base/shell.h"

/* Serves the front end that wrote the connection file, until a shutdown request arrives; returns the exit code. */
int jupyter_run(lua_State *L, const char *connection_file);
/* Writes the kernel spec into the user's Jupyter folder; returns the exit code. */
int jupyter_install(void);

#endif
