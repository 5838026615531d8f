/* root.h - opens files only below declared root folders, even if the path comes from an untrusted sender.
 *
 * A path must be absolute, and must begin with the exact text of a root. Each folder of the path is opened relative
 * to its parent; "..", "." and links are refused. A root may be a URL of an object store (store.h). The caller owns
 * what is opened; any thread. */
#ifndef RILLE_RUNTIME_FILE_DISK_ROOT_H
#define RILLE_RUNTIME_FILE_DISK_ROOT_H

#include "runtime/base/base.h"

struct roots {
    int n, capacity;
    char **path; /* paths of the roots, as realpath() returns them; or URLs */
};
/* Parses a list of folders separated by ":"; list NULL: no folders. E_IO: a folder does not exist. */
int roots_read(const char *list, struct roots *out);
void roots_free(struct roots *r);
bool roots_have(const struct roots *r, const char *path);
/* Checks that the URL is below a root. E_IO: the text names the URL. */
int roots_check_url(const struct roots *r, const char *url);

struct rooted {
    int folder, fd;   /* descriptors of the folder and of the file; -1: closed */
    const char *name; /* file name without folders; points into the path */
};
/* Opens a file for reading. E_IO: the text names the path. */
int rooted_open(const struct roots *r, const char *path, struct rooted *out);
/* Creates a file for writing, and replaces an existing file of that name. Processes that have the old file open
 * keep its content. E_IO: the text names the path. */
int rooted_create(const struct roots *r, const char *path, struct rooted *out);
void rooted_close(struct rooted *f); /* closes the descriptors; a caller that keeps fd sets it to -1 first */

#endif
