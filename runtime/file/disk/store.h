/* store.h - files in an object store, through a helper program that the operator names (RILLE_STORE).
 *
 *   PROGRAM put URL < bytes      stores an object, completely or not at all
 *   PROGRAM get URL > bytes      fetches an object
 *   PROGRAM list URL > lines     prints "SIZE NAME" for each object whose name is URL/NAME
 *   PROGRAM delete URL           deletes an object; an absent object is no error
 *
 * A path that begins with SCHEME:// is a URL. Exit code 0 means success; any other exit code is E_IO with the text that
 * the helper wrote to stderr. A helper without progress for RILLE_STORE_SECONDS is killed. Bytes pass through temporary
 * files without a name. This process keeps the files that it fetched until it visits, stores or deletes objects.
 * Any thread. */
#ifndef RILLE_RUNTIME_FILE_DISK_STORE_H
#define RILLE_RUNTIME_FILE_DISK_STORE_H

#include "runtime/data/str.h"

bool store_is_url(const char *path);
/* Checks that a helper program is named. E_ARG: RILLE_STORE is not set. */
int store_check(const char *url);
/* Opens a temporary file without a name, for bytes to store. */
int store_temporary(const char *url, int *fd);
/* Stores the content of an open file, and checks that the store then lists the object with the file's size. */
int store_put(const char *url, int fd);
/* Fetches an object. The caller closes *fd, and reads with pread only, because other readers share its file
 * position. */
int store_get(const char *url, int *fd);
/* Lists the objects below a URL: lines "SIZE NAME". */
int store_list(const char *url, struct str *lines);
/* Calls visit() with the name of each object below a URL. Later calls of store_get() fetch objects anew. */
int store_visit(const char *url, void (*visit)(void *arg, const char *name), void *arg);
/* Returns the size of the object NAME, bytes, from such lines "SIZE NAME"; -1: no line has the object. */
int64_t store_size(const struct str *lines, const char *name);
int store_delete(const char *url);

#endif
