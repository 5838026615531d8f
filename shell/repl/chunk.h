/* chunk.h - compiles typed text as a Lua function. Main thread. */
#ifndef RILLE_SHELL_REPL_CHUNK_H
#define RILLE_SHELL_REPL_CHUNK_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
