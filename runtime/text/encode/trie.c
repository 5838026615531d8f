/* trie.c - a set of byte strings as a tree of bytes. */
#include "runtime/text/encode/trie.h"

#include "runtime/data/arena.h"

#include <stdlib.h>

struct trie_node {
    uint32_t child, sibling; /* indices of nodes; 0: none */
    uint32_t value;
    uint8_t byte;
};

/* The root's children are found by index, the children of other nodes by a walk along siblings. */
enum { ROOT = 1, FIRST = ROOT + 256 };

static void
trie_begin(struct trie *t)
{
    if (t->n) return;
    GROW(t->node, FIRST, t->capacity);
    for (t->n = 0; t->n < FIRST; t->n++)
        t->node[t->n] = (struct trie_node){.value = TRIE_NONE, .byte = (uint8_t)(t->n - ROOT)};
}

void
trie_free(struct trie *t)
{
    free(t->node);
    *t = (struct trie){0};
}

static uint32_t
child_of(const struct trie *t, uint32_t node, uint8_t byte)
{
    if (!node) return ROOT + byte;
    uint32_t c = t->node[node].child;
    while (c && t->node[c].byte != byte) c = t->node[c].sibling;
    return c;
}

static uint32_t
add_child(struct trie *t, uint32_t node, uint8_t byte)
{
    GROW(t->node, t->n + 1, t->capacity);
    t->node[t->n] = (struct trie_node){.sibling = t->node[node].child, .value = TRIE_NONE, .byte = byte};
    t->node[node].child = t->n;
    return t->n++;
}

void
trie_add(struct trie *t, const void *key, size_t n, uint32_t value)
{
    const uint8_t *byte = key;
    uint32_t node = 0;
    trie_begin(t);
    for (size_t i = 0; i < n; i++) {
        uint32_t c = child_of(t, node, byte[i]);
        node = c ? c : add_child(t, node, byte[i]);
    }
    t->node[node].value = value;
}

bool
trie_step(const struct trie *t, uint32_t *node, uint8_t byte, uint32_t *value)
{
    if (!t->n) return false;
    *node = child_of(t, *node, byte);
    *value = *node ? t->node[*node].value : TRIE_NONE;
    return *node != 0;
}

size_t
trie_longest(const struct trie *t, const uint8_t *text, size_t n)
{
    size_t longest = 0;
    uint32_t node = 0, value;
    for (size_t i = 0; i < n && trie_step(t, &node, text[i], &value); i++)
        if (value != TRIE_NONE) longest = i + 1;
    return longest;
}
