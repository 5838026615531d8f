/* file.h - writes and reads text files whole, or tells the reason in an error.
 *
 * what stands before the name of the file in messages: "trace". A file is written beside its name, and takes the name
 * when it is whole: who reads it meanwhile, or after a failure, finds the old one. What is no plain file - a device, a
 * pipe, a link - is written as it stands. Any thread; a file belongs to the caller until file_finish. */
#ifndef RILLE_RUNTIME_FILE_H
#define RILLE_RUNTIME_FILE_H

#include "runtime/base.h"

#include <stdio.h>

struct file_out {
    const char *what, *path; /* the caller's */
    FILE *f;
    char *beside; /* its name until it is whole; NULL: it is written as it stands */
};
/* E_IO: there is nothing to finish. */
int file_create(const char *what, const char *path, struct file_out *out);
/* Closes it: E_IO when a write failed, then or before. */
int file_finish(struct file_out *out);
/* All of these n bytes. E_IO. */
int file_write(const char *what, const char *path, const char *text, size_t n);

/* All of a file, which the caller frees; a 0 stands after its n bytes. E_IO. */
int file_read(const char *what, const char *path, char **out, size_t *n);
/* The same of a text of at most `most` bytes. E_IO, also where a byte of it is 0: that is no text, and devices like
 * /dev/zero have no end. */
int file_read_text(const char *what, const char *path, size_t most, char **out, size_t *n);

#endif
