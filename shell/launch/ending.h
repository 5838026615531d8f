/* ending.h - says when and why a job ended: in the log; and on stderr, if it has workers and failed or took more than
 * ten minutes. Main thread. */
#ifndef RILLE_SHELL_ENDING_H
#define RILLE_SHELL_ENDING_H

#include <lua.h>
#include <stdbool.h>

/* Logs the begin of the job, and makes os.exit() report its end. tells: also print the end on stderr. */
void ending_open(lua_State *L, const char *job, bool tells);
/* Reports the end once; later calls, and calls in a child process, do nothing. why: NULL for what the exit code means.
 */
void ending_tell(int code, const char *why);

#endif
