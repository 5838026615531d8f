/* repl.h - the parts of the interactive shell.
 *
 *   edit      reads one line, with history and completion: readline, libedit or plain
 *   local     makes a chunk's top-level locals outlive it
 *   complete  the names that a beginning may become
 *   show      a value as text, tables opened
 *   command   :time, :whos, ...
 *   repl      the loop */
#ifndef RILLE_SHELL_REPL_H
#define RILLE_SHELL_REPL_H

#include "shell/shell.h"

/* ---- edit.c ---- */

enum edit_end { EDIT_LINE, EDIT_EOF, EDIT_INTERRUPT };
void edit_open(lua_State *L); /* loads the history */
void edit_close(void);        /* saves it */
/* One line without its end, to be freed; EDIT_INTERRUPT after Ctrl-C. */
enum edit_end edit_line(const char *prompt, char **line);
void edit_remember(const char *chunk); /* one entry of the history, of one line or many */

/* ---- local.c ---- */

/* Pushes the chunk with its top-level locals turned into fields of the table LOCAL_TABLE; line numbers stay. */
#define LOCAL_TABLE "__here"
void local_rewrite(lua_State *L, const char *chunk);
/* Pushes a new environment for chunks: it has the locals so far, and shows the globals behind them. */
void local_environment(lua_State *L);

/* ---- complete.c ---- */

/* Pushes the sorted list of full words that the end of the line may become, and gives where that word begins. env:
 * index of the environment. */
int complete(lua_State *L, int env, const char *line, int end);

/* ---- show.c ---- */

void show_value(lua_State *L, int i); /* pushes its text */

/* ---- command.c ---- */

enum { COMMAND_DONE, COMMAND_QUIT };
int command_run(lua_State *L, int env, const char *line); /* line without the colon */
const char *command_name(int i);                          /* NULL behind the last */

/* ---- repl.c ---- */

void repl_push_environment(lua_State *L);
/* Loads a chunk, as an expression where it is one; pushes the function, or a message. *more: more lines may make it
 * right. LUA_OK or Lua's code. */
int repl_load(lua_State *L, int env, const char *chunk, const char *name, bool *more);
void repl_show(lua_State *L, int first);            /* prints the values from first on; the first becomes "_" */
bool repl_is_own(lua_State *L, const char *global); /* was this global there before the user came? */

#endif
