/* save.h - atomic saves: a file is complete, or absent, even after a crash.
 *
 * A save writes a temporary file beside the target, flushes it to disk, renames it to the target, and flushes the
 * folder. A reader sees the old file or the new file. Errors are E_IO and name the path; after an error the old file
 * is unchanged and no temporary file remains. If the path is a URL (store.h), the temporary file has no name, and
 * the last step stores its content. A save belongs to its caller; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_DISK_SAVE_H
#define RILLE_RUNTIME_FILE_DISK_SAVE_H

#include "runtime/tensor/layout.h"

/* A value to write. `read` returns any box of the value, dense and row-major; it may run on another thread. */
struct save_item {
    const char *name;
    struct type type;
    int (*read)(void *arg, const struct box *b, void *out);
    void *arg;
};
struct save_text {
    const char *key, *value;
};

struct saving {
    const char *path;
    char *temporary; /* name of the temporary file; NULL: it has no name */
    int fd;
    int64_t at; /* number of bytes written so far */
};
int saving_begin(const char *path, struct saving *s);
int saving_write(struct saving *s, const void *bytes, int64_t n);
int saving_write_at(struct saving *s, int64_t offset, const void *bytes, int64_t n);
/* Writes all values of the item, converted to dtype `as` (DT_NONE: not converted). Calls `see`, unless NULL, with
 * each block that was written. */
int saving_item(struct saving *s, const struct save_item *item, enum dtype as,
                void (*see)(void *arg, const void *bytes, int64_t n), void *arg);
/* Flushes the file to disk under its temporary name. Call this for all files of a set before the first is renamed. */
int saving_flush(struct saving *s);
/* Renames the file to its final name; before that, flushes it if saving_flush() was not called. */
int saving_end(struct saving *s);
/* Removes the temporary file, whether or not there was an error. Keeps the current error text. Does nothing after
 * saving_end(). */
void saving_drop(struct saving *s);
/* Write a file that contains these bytes, or this text. */
int saving_bytes(const char *path, const void *bytes, size_t n);
int saving_text(const char *path, const char *text);

/* Deletes a file, or an object if the path is a URL. A missing file is no error. */
int file_remove(const char *path);
int folder_sync(const char *path_of_file); /* flushes the folder that contains the file */

#endif
