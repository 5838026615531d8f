/* lua_stopping.h - signals that ask the process to stop. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_STOPPING_H
#define RILLE_SHELL_BIND_MODULE_LUA_STOPPING_H

#include "shell/bind/base/shell.h"

void stopping_open(lua_State *L); /* adds functions to the module table at the top */
/* A signal handler: records the first signal. Calls stopping_now() at a second signal, more than a second later. */
void stopping_note(int number);
const char *
stopping_name(int number);      /* returns "TERM" for SIGTERM; "?" for a signal that the program does not handle */
int stopping_noted(void);       /* returns the signal that stopping_note() recorded; 0: none */
void stopping_tell(int number); /* prints which signal ends the process; safe in a signal handler */
void stopping_now(int number);  /* like stopping_tell(), then ends the process at once; safe in a signal handler */
/* Ends the process at once, with the exit code of a signal; safe in a signal handler. */
void stopping_exit(int number);
/* Sets a function that stopping_exit() calls first, which must be safe in a signal handler. */
void stopping_on_exit(void (*function)(int number));
/* Sets the handler of SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP, except where the parent process ignores the signal. Without
 * a handler, process 1 of a container never receives these signals. */
void stopping_catch(void (*handler)(int number), int flags);
/* Makes rille.stopping() change no handler from now on, because at a prompt these signals end the program. */
void stopping_decline(void);

#endif
