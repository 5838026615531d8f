/* save.h - files that are there whole, or not at all.
 *
 * A save writes to a temporary file beside its name, flushes it to the disk, and gives it the name by rename; then it
 * flushes the folder. A reader sees the old file or the new one. Errors are E_IO and name the path; after them the old
 * file is as it was and has nothing beside it. A save belongs to who began it; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_SAVE_H
#define RILLE_RUNTIME_FILE_SAVE_H

#include "runtime/layout.h"

/* A value to write: `read` gives any box of it, dense and row-major, perhaps on another thread. */
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
    char *temporary;
    int fd;
    int64_t at; /* bytes written so far */
};
int saving_begin(const char *path, struct saving *s);
int saving_write(struct saving *s, const void *bytes, int64_t n);
int saving_write_at(struct saving *s, int64_t offset, const void *bytes, int64_t n);
/* All values of the item, of dtype `as` (DT_NONE: their own); `see`, where given, gets each block too. */
int saving_item(struct saving *s, const struct save_item *item, enum dtype as,
                void (*see)(void *arg, const void *bytes, int64_t n), void *arg);
/* Flushes it to the disk under its temporary name: for files that take their names together. */
int saving_flush(struct saving *s);
/* Takes the name; flushes first where nobody has. */
int saving_end(struct saving *s);
/* Removes what it wrote, after a failure or without one. Keeps the present error. Safe after saving_end. */
void saving_drop(struct saving *s);
/* A file of this text alone. */
int saving_text(const char *path, const char *text);

int folder_sync(const char *path_of_file); /* the folder that the file is in */

#endif
