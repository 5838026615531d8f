/* repl.h - the parts of the interactive shell.
 *
 *   edit      reads one line, with history and completion: readline, libedit or plain
 *   chunk     what the user typed, as a function: completeness, the last expression, transcripts
 *   local     makes a chunk's top-level locals outlive it
 *   complete  the names that a beginning may become
 *   show      a value as text, tables opened
 *   command   :time, :whos, ...
 *   repl      the loop
 *
 * Main thread: all of it is Lua's. */
#ifndef RILLE_SHELL_REPL_H
#define RILLE_SHELL_REPL_H

#include "shell/shell.h"

/* ---- edit.c ---- */

enum edit_end { EDIT_LINE, EDIT_EOF, EDIT_INTERRUPT };
void edit_open(lua_State *L); /* loads the history */
void edit_close(void);
/* Reads a line without its end - an editor of many lines a whole chunk -, which the caller frees; EDIT_INTERRUPT after
 * Ctrl-C. */
enum edit_end edit_line(const char *prompt, char **line);
/* While it waits for keys it calls come() whenever the fd is readable; -1: never. */
void edit_visitors(int fd, void (*come)(void));
/* Adds one entry to the history, of one line or many, and at once to its file. */
void edit_remember(const char *chunk);

/* ---- chunk.c ---- */

#define PROMPT      "rille> "
#define PROMPT_MORE "    .. "
/* Loads a chunk that returns the values of its last expression, if it has one; pushes the function, or a message.
 * *more: more lines may make it right. LUA_OK or Lua's code. */
int chunk_load(lua_State *L, int env, const char *chunk, const char *name, bool *more);
bool chunk_wants_more(lua_State *L, const char *chunk);
bool chunk_is_marked(const char *chunk); /* ":command", "?name" or "name?": no Lua */
/* The name in "?name" and "name?", and its bytes; NULL: no page is asked for. */
const char *chunk_page(const char *chunk, size_t *n);
bool chunk_is_silent(const char *chunk); /* ends in ";" */
/* Does the text begin with a prompt, as a copy from a terminal does? The other pushes the list of chunks in it. */
bool chunk_is_transcript(const char *text);
void chunk_push_transcript(lua_State *L, const char *text);

/* ---- local.c ---- */

/* Pushes the chunk with its top-level locals turned into fields of the table LOCAL_TABLE; line numbers stay. */
#define LOCAL_TABLE "__here"
void local_rewrite(lua_State *L, const char *chunk);
/* Pushes a new environment for chunks: it has the locals so far, and shows the globals behind them. */
void local_environment(lua_State *L);

/* ---- complete.c ---- */

/* Pushes the sorted list of what the text from some place up to the cursor, `end`, may become, and gives that place.
 * env: index of the environment. Runs nothing of the user's. */
int complete(lua_State *L, int env, const char *line, int end);
/* Pushes how to call the function at the cursor, "softmax(x, axis = -1)"; false, and nothing, where it does not
 * know. */
bool complete_hint(lua_State *L, const char *line, int end);
void complete_open(lua_State *L); /* into the global rille: what tests ask */

/* ---- syntax.c ---- */

/* Of a chunk that is no Lua, whose error is at the top: adds how Rille's Lua says what another language writes so;
 * false: it knows nothing to add. */
bool syntax_hint(lua_State *L, const char *chunk);

/* ---- show.c ---- */

void show_value(lua_State *L, int i); /* pushes its text */

/* ---- command.c ---- */

enum { COMMAND_DONE, COMMAND_QUIT };
int command_run(lua_State *L, int env, const char *line); /* line without the colon */
const char *command_name(int i);                          /* NULL behind the last */
bool command_push_page(lua_State *L, const char *name);   /* what :help says of it; false: there is none */

/* ---- tutorial.c ---- */

void tutorial_run(lua_State *L, int env, const char *text); /* the step that the text names, or the next */

/* ---- repl.c ---- */

void repl_prepare(lua_State *L); /* an environment for chunks, where there is none yet */
void repl_open(lua_State *L);    /* and between runs Ctrl-C does nothing */
/* Takes a chunk, of that number, with ":" or "?" before it or not; sets *more, and has done nothing, where it wants
 * more lines. Gives a COMMAND_. */
typedef int repl_take(lua_State *L, const char *chunk, int number, bool *more);
int repl_chunk(lua_State *L, const char *chunk, int number, bool *more); /* runs it here */
/* Reads chunks for `take`, which ends it with COMMAND_QUIT; the exit code. */
int repl_loop(lua_State *L, repl_take *take);
void repl_push_environment(lua_State *L);
void repl_keep_last(lua_State *L, int i); /* the value is "_" */
/* Prints the user's functions that an error with a traceback came through; equal ones once. */
void repl_print_frames(FILE *to, const char *text);
/* For Lua: runs what is marked, the argument; gives a COMMAND_. */
int repl_marked(lua_State *L);
/* Pushes the page of the name, or of what a variable of that name holds; false: there is none. */
bool repl_push_page(lua_State *L, int env, const char *name);
/* Prints it; an error: there is none. */
void repl_show_page(lua_State *L, int env, const char *name);
void repl_show(lua_State *L, int first);            /* prints the values from first on; the first becomes "_" */
bool repl_is_own(lua_State *L, const char *global); /* was this global there before the user came? */

/* ---- doctor.c, top.c ---- */

/* Prints what this program runs on, as lines or as JSON; non-zero: stdout takes no more. */
int doctor_print(lua_State *L, bool json);
/* Calls the function below nargs values at the top, as lua_pcall, and shows meanwhile what device threads do. */
int top_run(lua_State *L, int nargs);
void top_watch(lua_State *L); /* :top alone: until the user presses q; once where there is no terminal */

#endif
