/* file.h - text files that are written whole, or an error that tells the reason.
 *
 * what stands before the name of the file in messages: "trace". Any thread; what is opened is the caller's until it is
 * finished. */
#ifndef RILLE_RUNTIME_FILE_H
#define RILLE_RUNTIME_FILE_H

#include "runtime/base.h"

#include <stdio.h>

/* E_IO. */
int file_create(const char *what, const char *path, FILE **out);
/* Closes it: E_IO when something was not written, then or before. */
int file_finish(const char *what, const char *path, FILE **f);

/* All of a file, freed by the caller; a 0 stands after its n bytes. E_IO. */
int file_read(const char *what, const char *path, char **out, size_t *n);

#endif
