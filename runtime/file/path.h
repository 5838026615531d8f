/* path.h - names of files as users write them: "~", and models in the cache of Hugging Face's tools. Any thread. */
#ifndef RILLE_RUNTIME_FILE_PATH_H
#define RILLE_RUNTIME_FILE_PATH_H

#include "runtime/base/str.h"

/* Appends the path, with the home folder in place of a leading "~". */
void path_home(const char *path, struct str *out);
/* Appends the path of a file to read: as path_home or, if there is no such file and the path begins with the name of a
 * model, "OWNER/NAME", which is in the cache of Hugging Face's tools, the path in the cache. Nothing is downloaded. */
void path_read(const char *path, struct str *out);

#endif
