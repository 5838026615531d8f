/* gguf.h - reads lists in the metadata of GGUF files, such as the vocabulary of a tokenizer.
 *
 * Opening a file only records where its lists are stored. One thread, like struct tensors. */
#ifndef RILLE_RUNTIME_FILE_GGUF_H
#define RILLE_RUNTIME_FILE_GGUF_H

#include "runtime/file/tensors.h"

/* A value of a list: a text of n bytes, which a number or boolean (number true) is printed to. */
typedef void gguf_visit(void *arg, const char *text, size_t n, bool number);
/* Calls visit for each value of a list, in order. E_ARG: the file has no list with this key. E_IO. */
int gguf_list(const struct tensors *f, const char *key, gguf_visit *visit, void *arg);

#endif
