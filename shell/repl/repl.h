/* repl.h - the loop of the interactive shell. The parts that it uses have headers of their own:
 *
 *   edit      reads one line, with history and completion: readline, libedit or plain
 *   chunk     compiles the typed text to a function: completeness, the last expression, transcripts
 *   local     keeps a chunk's top-level locals for later chunks
 *   complete  Tab completion and call hints
 *   show      a value as text, tables expanded
 *   command   :time, :whos, ...
 *
 * Main thread, because all functions use the Lua state. */
#ifndef RILLE_SHELL_REPL_H
#define RILLE_SHELL_REPL_H

#include "shell/bind/base/shell.h"

#define PROMPT      "rille> "
#define PROMPT_MORE "    .. "

enum { COMMAND_DONE, COMMAND_QUIT };

int repl_run(lua_State *L);      /* runs until :quit or the end of input; returns the exit code */
void repl_prepare(lua_State *L); /* creates the chunk environment if missing */
void repl_open(lua_State *L);    /* prepares the shell; ignores Ctrl-C between runs */
/* Runs chunk `number`, which may begin with ":" or "?". If the chunk is incomplete, sets *more and does nothing.
 * Returns a COMMAND_ value. */
typedef int repl_take(lua_State *L, const char *chunk, int number, bool *more);
/* a repl_take: runs the chunk in this process */
int repl_chunk(lua_State *L, const char *chunk, int number, bool *more);
/* Reads chunks and passes them to `take`, until COMMAND_QUIT; returns the exit code. */
int repl_loop(lua_State *L, repl_take *take);
void repl_push_environment(lua_State *L);
void repl_keep_last(lua_State *L, int i); /* stores the value at index i in the global "_" */
/* Prints the user's functions in the traceback of an error; a repeated function is printed once. */
void repl_print_frames(FILE *to, const char *text);
/* Lua function: runs its argument, a command or a request for help (":time f()", "?name"); returns a COMMAND_
 * value. */
int repl_marked(lua_State *L);
/* Pushes the help page of the name, or of the value of the variable with that name; returns false if no page exists. */
bool repl_push_page(lua_State *L, int env, const char *name);
/* Prints the help page of the name, or of the variable's value; raises an error if no page exists. */
void repl_show_page(lua_State *L, int env, const char *name);
/* prints the values from index `first` to the top; stores the last value in "_" */
void repl_show(lua_State *L, int first);
bool repl_is_own(lua_State *L, const char *global); /* true if the global existed before the user's code ran */

#endif
