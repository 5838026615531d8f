/* folder.h - opens a model in a folder: safetensors shards and the index that maps tensors to shards.
 *
 * File names are those of Hugging Face's tools: model.safetensors alone, or model-00001-of-00003.safetensors and so
 * on beside model.safetensors.index.json. The caller owns what is opened; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_FOLDER_H
#define RILLE_RUNTIME_FILE_FOLDER_H

#include "runtime/file/tensors.h"

/* Returns true if the path is a folder, or an index file. */
bool folder_is_set(const char *path);
/* Opens the single file, or all shards that the index names; the shards must hold exactly the tensors of the index.
 * E_IO if the folder has both an index and a single file. */
int folder_open(struct tensors *f, const char *path);

#endif
