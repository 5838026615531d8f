/* root.h - files in folders that were declared, and nowhere else, whatever a stranger calls them.
 *
 * A path is absolute and lies in a root, letter by letter. Each folder on the way is opened in the one before it; one
 * called "..", and a link, are refused. The caller owns what it opens; any thread. */
#ifndef RILLE_RUNTIME_FILE_ROOT_H
#define RILLE_RUNTIME_FILE_ROOT_H

#include "runtime/base.h"

struct roots {
    int n, capacity;
    char **path; /* as realpath() says them */
};
/* list: folders, with ":" between them; NULL: none. E_IO: there is no such folder. */
int roots_read(const char *list, struct roots *out);
void roots_free(struct roots *r);
bool roots_have(const struct roots *r, const char *path);

struct rooted {
    int folder, fd;   /* -1 */
    const char *name; /* in the folder; in the path */
};
/* E_IO naming the path. To read it: */
int rooted_open(const struct roots *r, const char *path, struct rooted *out);
/* To write it anew: who still has the file that had the name writes to that one. */
int rooted_create(const struct roots *r, const char *path, struct rooted *out);
void rooted_close(struct rooted *f); /* but for fd, where somebody took it (-1) */

#endif
