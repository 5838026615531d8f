/* folder.h - a model in a folder: shards of safetensors and the index that says which tensor is in which.
 *
 * The names are those that Hugging Face's tools write: model.safetensors alone, or model-00001-of-00003.safetensors and
 * so on beside model.safetensors.index.json. The caller owns what it opens; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_FOLDER_H
#define RILLE_RUNTIME_FILE_FOLDER_H

#include "runtime/file/tensors.h"

/* Is the path a folder, or an index? */
bool folder_is_set(const char *path);
/* Opens all shards that the index names, which must hold what it says and nothing else; or the one file. E_IO where
 * there are both. */
int folder_open(struct tensors *f, const char *path);

#endif
