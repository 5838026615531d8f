/* path.h - resolves paths as users write them: a leading "~", and names of models in the cache of Hugging Face's
 * tools. Any thread. */
#ifndef RILLE_RUNTIME_FILE_DISK_PATH_H
#define RILLE_RUNTIME_FILE_DISK_PATH_H

#include "runtime/data/str.h"

/* Appends the path, with the home folder in place of a leading "~". */
void path_home(const char *path, struct str *out);
/* Appends the path of a file to read. Expands "~" like path_home. If there is no such file, and the path begins
 * with the name of a model in the cache of Hugging Face's tools, "OWNER/NAME", appends the path in the cache.
 * Downloads nothing. */
void path_read(const char *path, struct str *out);

#endif
