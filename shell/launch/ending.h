/* ending.h - says when and why a job ended: in the log, and possibly on stderr. Prints a line on stderr if the job
 * has workers, and failed or took more than ten minutes. A second process reports the end if this process cannot,
 * because it was killed or has crashed. Main thread. */
#ifndef RILLE_SHELL_ENDING_H
#define RILLE_SHELL_ENDING_H

#include <lua.h>
#include <stdbool.h>

enum { ENDING_WHEN = 96 };

/* Records the start of this process as a worker. */
void ending_begin(void);
/* Writes the present time and the time since the start, as in "ended at 2026-11-30 17:33:14 UTC after 3.20 s". */
void ending_when(char out[ENDING_WHEN]);
/* Logs the start of the job. tells: the end may also be printed on stderr. watches: starts the process that reports a
 * killed job. No other thread may run yet. */
void ending_open(const char *job, bool tells, bool watches);
/* Makes os.exit() report the end of the job. closes: os.exit() always closes the state, so that workers end with the
 * job's exit code. */
void ending_hook(lua_State *L, bool closes);
/* Reports the end once; later calls, and calls in a child process, do nothing. why: reason of the end; NULL: the
 * reason that the exit code stands for. */
void ending_tell(int code, const char *why);

#endif
