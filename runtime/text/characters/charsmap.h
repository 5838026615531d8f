/* charsmap.h - SentencePiece's map of normalized characters ("precompiled_charsmap").
 *
 * The map consists of the size of a double-array trie in bytes, the trie, and the texts that replace the keys of
 * the trie, each with a terminating zero. The bytes are untrusted, so every access is checked. The owner is the
 * tokenizer; one thread. */
#ifndef RILLE_RUNTIME_TEXT_CHARACTERS_CHARSMAP_H
#define RILLE_RUNTIME_TEXT_CHARACTERS_CHARSMAP_H

#include "runtime/data/arena.h"
#include "runtime/data/str.h"

struct charsmap;
/* Returns a copy of the map in the arena. E_ARG: the sizes in the map do not fit its bytes. */
int charsmap_new(const char *path, const void *bytes, size_t n, struct arena *arena, const struct charsmap **out);

/* Finds the longest key (with longest = false, the shortest key) at the start of the text. Returns the replacement
 * of the key, and the key's length in *length; NULL: no key. */
const char *charsmap_find(const struct charsmap *m, const uint8_t *text, size_t n, bool longest, size_t *length);

#endif
