/* jupyter.h - a notebook's kernel: rille --jupyter FILE, rille --jupyter-install. Main thread; it owns the program
 * until the notebook ends it. */
#ifndef RILLE_SHELL_JUPYTER_H
#define RILLE_SHELL_JUPYTER_H

#include "shell/shell.h"

/* Serves the front end that wrote the connection file until it says shutdown; the exit code. */
int jupyter_run(lua_State *L, const char *connection_file);
/* Writes the kernel's description where Jupyter looks for the user's own; the exit code. */
int jupyter_install(void);

#endif
