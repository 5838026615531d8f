/* repl.h - the parts of the interactive shell.
 *
 *   edit      reads one line, with history and completion: readline, libedit or plain
 *   chunk     compiles the typed text to a function: completeness, the last expression, transcripts
 *   local     keeps a chunk's top-level locals for later chunks
 *   complete  Tab completion and call hints
 *   show      a value as text, tables expanded
 *   command   :time, :whos, ...
 *   repl      the loop
 *
 * Main thread, because all functions use the Lua state. */
#ifndef RILLE_SHELL_REPL_H
#define RILLE_SHELL_REPL_H

#include "shell/bind/base/shell.h"

/* ---- edit.c ---- */

enum edit_end { EDIT_LINE, EDIT_EOF, EDIT_INTERRUPT };
void edit_open(lua_State *L); /* loads the history */
void edit_close(void);
/* Reads a line, or in a multi-line editor a whole chunk, without the last newline; the caller frees the text.
 * Returns EDIT_INTERRUPT after Ctrl-C. */
enum edit_end edit_line(const char *prompt, char **line);
/* Sets a callback that runs whenever the descriptor is readable while the editor waits for keys; fd -1: no
 * callback. */
void edit_visitors(int fd, void (*come)(void));
/* Adds one entry of one or more lines to the history, and appends it to the history file at once. */
void edit_remember(const char *chunk);

/* ---- chunk.c ---- */

#define PROMPT      "rille> "
#define PROMPT_MORE "    .. "
/* Compiles a chunk to a function that returns the values of the chunk's last expression, if there is one. Pushes
 * the function, or an error message. *more: the chunk may be valid with more lines. Returns LUA_OK or Lua's error
 * code. */
int chunk_load(lua_State *L, int env, const char *chunk, const char *name, bool *more);
bool chunk_wants_more(lua_State *L, const char *chunk);
bool chunk_is_marked(const char *chunk); /* true for ":command", "?name" or "name?" */
/* Returns the name in "?name" or "name?", and its length in *n; NULL: the chunk asks for no help page. */
const char *chunk_page(const char *chunk, size_t *n);
bool chunk_is_silent(const char *chunk); /* true if the chunk ends in ";" */
/* chunk_is_transcript returns true if the text begins with a prompt, like text copied from a terminal.
 * chunk_push_transcript pushes the list of the chunks in such a text. */
bool chunk_is_transcript(const char *text);
void chunk_push_transcript(lua_State *L, const char *text);

/* ---- local.c ---- */

/* Pushes the chunk, in which assignments to fields of the table LOCAL_TABLE replace the declarations of top-level
 * locals; line numbers are kept. */
#define LOCAL_TABLE "__here"
void local_rewrite(lua_State *L, const char *chunk);
/* Pushes a new environment for chunks: a table of the user's locals, whose missing names are looked up in the
 * globals. */
void local_environment(lua_State *L);

/* ---- complete.c ---- */

/* Pushes the sorted list of completions of the word before the cursor, and returns the position at which the word
 * begins. end: byte position of the cursor; env: stack index of the chunks' environment. Runs no user code. */
int complete(lua_State *L, int env, const char *line, int end);
/* Pushes the call syntax of the function at the cursor, "softmax(x, axis = -1)". Returns false, and pushes nothing,
 * if the function is unknown. */
bool complete_hint(lua_State *L, const char *line, int end);
void complete_open(lua_State *L); /* adds rille._keys and rille._complete, for tests */

/* ---- syntax.c ---- */

/* Appends a hint to the syntax error at the top if the chunk has a construct of another language: how to write it
 * in Lua. Returns false if no hint applies. */
bool syntax_hint(lua_State *L, const char *chunk);

/* ---- show.c ---- */

void show_value(lua_State *L, int i); /* pushes the value as text */

/* ---- command.c ---- */

enum { COMMAND_DONE, COMMAND_QUIT };
int command_run(lua_State *L, int env, const char *line); /* runs a command; line: the command without its colon */
const char *command_name(int i);                          /* returns the i-th name; NULL after the last */
bool command_push_page(lua_State *L, const char *name);   /* pushes the :help text; false: no such command */

/* ---- repl.c ---- */

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

/* ---- top.c ---- */

/* Calls a function like lua_pcall (the function is below its nargs arguments at the top), and shows the activity
 * of device threads meanwhile. */
int top_run(lua_State *L, int nargs);
/* runs :top without an expression: draws until q is pressed; without a terminal, once */
void top_watch(lua_State *L);

/* ---- text_only.c ---- */

/* makes Lua load only source text; call after Lua's libraries are open, before a package searcher is added */
void text_only_open(lua_State *L);

/* ---- pattern.c ---- */

void pattern_open(lua_State *L);
void pattern_stop(void);    /* makes the pattern match in progress raise "interrupted"; safe in a signal handler */
bool pattern_refused(void); /* returns true if Ctrl-C made an allocation fail since the last call */

#endif
