/* gguf.h - reads lists in the metadata of GGUF files, such as the vocabulary of a tokenizer.
 *
 * Opening a file only records where its lists are stored. One thread, like struct tensors. */
#ifndef RILLE_RUNTIME_FILE_GGUF_H
#define RILLE_RUNTIME_FILE_GGUF_H

#include "runtime/file/tensors.h"

/* Receives a value of a list as a text of n bytes. number: the value is a number or a boolean, printed as text. */
typedef void gguf_visit(void *arg, const char *text, size_t n, bool number);
/* Calls visit for each value of a list, in order. E_ARG: the file has no list with this key. E_IO. */
int gguf_list(const struct tensors *f, const char *key, gguf_visit *visit, void *arg);

#endif
