/* interrupt.h - Ctrl-C and signals that end the program. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_REPL_INTERRUPT_H
#define RILLE_SHELL_REPL_INTERRUPT_H

#include "shell/bind/base/shell.h"

void interrupt_open(lua_State *L);
void interrupt_start(lua_State *L); /* from now on Ctrl-C stops running code */
void interrupt_stop(void);          /* restores the Ctrl-C handler that was set before interrupt_start() */
int interrupt_count(void);          /* returns how often Ctrl-C was pressed since interrupt_start() */
/* returns true, at a prompt, if the running code has not yet received the last Ctrl-C or request to end */
bool interrupt_untold(void);
void interrupt_interactive(void); /* from now on Ctrl-C returns to the prompt, and never ends the program */
void interrupt_catch(void);       /* from now on SIGTERM and similar signals end the program in good order */
/* from now on such a signal, if it is the first one, lets the program close, for at most five seconds */
void interrupt_close(void);
int interrupt_quit(void); /* returns the signal that asked the program to end; 0: none */
/* Sets the function that serves visitors (attached prompts, attached.c). The function is called soon after
 * interrupt_knock(), between two Lua instructions and outside core calls. It may call run_quiet() on another Lua
 * state, and interrupt_visit() stops the code that runs there. interrupt_knock() and interrupt_visit() are safe
 * in a signal handler. */
void interrupt_visitor(void (*come)(lua_State *L));
void interrupt_knock(void);
void interrupt_visit(void);

#endif
