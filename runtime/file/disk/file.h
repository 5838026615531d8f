/* file.h - reads and writes complete files, and reports why reading or writing fails.
 *
 * what: word before the file name in error texts, such as "trace". A file is written under a temporary name and
 * renamed when it is complete; until then, and after a failure, readers find the old content. If the path is no
 * plain file (a device, a pipe, a link), it is written in place. Any thread; a file belongs to the caller until
 * file_finish. */
#ifndef RILLE_RUNTIME_FILE_DISK_FILE_H
#define RILLE_RUNTIME_FILE_DISK_FILE_H

#include "runtime/base/base.h"

#include <stdio.h>

struct file_out {
    const char *what, *path; /* the caller owns both texts */
    FILE *f;
    char *beside; /* path of the temporary file; NULL: the file is written in place */
};
/* Creates a file. After E_IO, do not call file_finish(). */
int file_create(const char *what, const char *path, struct file_out *out);
/* Closes the file. E_IO: closing or an earlier write failed. */
int file_finish(struct file_out *out);
/* Writes a file of n bytes. E_IO. */
int file_write(const char *what, const char *path, const char *text, size_t n);

/* Reads a text of at most `most` bytes, and appends a 0 byte. The caller frees *out. E_IO, also if the file contains a
 * 0 byte: such a file is no text, and a device like /dev/zero would never end. */
int file_read_text(const char *what, const char *path, size_t most, char **out, size_t *n);

#endif
