/* root.h - access to files below declared root folders only, even if an untrusted party chooses the path.
 *
 * A path must be absolute and begin with the exact text of a root. Each folder of the path is opened relative to its
 * parent; "..", "." and links are refused. The caller owns what is opened; any thread. */
#ifndef RILLE_RUNTIME_FILE_ROOT_H
#define RILLE_RUNTIME_FILE_ROOT_H

#include "runtime/base/base.h"

struct roots {
    int n, capacity;
    char **path; /* as returned by realpath() */
};
/* Reads a list of folders, separated by ":"; NULL: none. E_IO: a folder does not exist. */
int roots_read(const char *list, struct roots *out);
void roots_free(struct roots *r);
bool roots_have(const struct roots *r, const char *path);

struct rooted {
    int folder, fd;   /* -1: closed */
    const char *name; /* file name without folders; points into the path */
};
/* Opens a file to read. E_IO naming the path. */
int rooted_open(const struct roots *r, const char *path, struct rooted *out);
/* Creates a file to write, replacing the name: processes that have the old file open keep the old file. E_IO naming
 * the path. */
int rooted_create(const struct roots *r, const char *path, struct rooted *out);
void rooted_close(struct rooted *f); /* does not close fd if the caller took fd and set -1 */

#endif
