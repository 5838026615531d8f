/* trie.h - finds the keys of a set of byte strings that begin a text. One owner and one thread. */
#ifndef RILLE_RUNTIME_TEXT_ENCODE_TRIE_H
#define RILLE_RUNTIME_TEXT_ENCODE_TRIE_H

#include "runtime/base/base.h"

struct trie_node;
struct trie { /* initialise with {0}; empty: no keys */
    struct trie_node *node;
    uint32_t n, capacity;
};

void trie_free(struct trie *t);
/* Adds a key that is not empty. A key that is added twice keeps its last value. value: not TRIE_NONE. */
void trie_add(struct trie *t, const void *key, size_t n, uint32_t value);

/* Advances along a text by one byte. *node: position in the trie, initially 0. Returns false if no key continues
 * with this byte. *value: the value of the key that ends here; TRIE_NONE: no key ends here. */
#define TRIE_NONE UINT32_MAX
bool trie_step(const struct trie *t, uint32_t *node, uint8_t byte, uint32_t *value);
/* Returns the length of the longest key that begins the text; 0: none. */
size_t trie_longest(const struct trie *t, const uint8_t *text, size_t n);

#endif
