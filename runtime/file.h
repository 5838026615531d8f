/* file.h - writes and reads text files whole, or tells the reason in an error.
 *
 * what stands before the name of the file in messages: "trace". Any thread; a file belongs to the caller until
 * file_finish. */
#ifndef RILLE_RUNTIME_FILE_H
#define RILLE_RUNTIME_FILE_H

#include "runtime/base.h"

#include <stdio.h>

/* E_IO. */
int file_create(const char *what, const char *path, FILE **out);
/* Closes it: E_IO when a write failed, then or before. */
int file_finish(const char *what, const char *path, FILE **f);

/* All of a file, which the caller frees; a 0 stands after its n bytes. E_IO. */
int file_read(const char *what, const char *path, char **out, size_t *n);
/* The same of a text of at most `most` bytes. E_IO, also where a byte of it is 0: that is no text, and devices like
 * /dev/zero have no end. */
int file_read_text(const char *what, const char *path, size_t most, char **out, size_t *n);

#endif
