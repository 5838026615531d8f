/* safetensors.h - writing .safetensors files, and what readers and writers share. The caller owns what is read and
 * saved; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_SAFETENSORS_H
#define RILLE_RUNTIME_FILE_SAFETENSORS_H

#include "runtime/file/json.h"
#include "runtime/file/save.h"
#include "runtime/file/tensors.h"

enum { SAFETENSORS_HEAD = 100000000 }; /* maximum bytes of a header */
const char *safetensors_dtype(enum dtype d);
/* Sets the type of e from the "dtype" and "shape" of the header, and *bits to the size of the value in bits. E_IO. */
int safetensors_type(struct entry *e, const json_t *dtype, const json_t *shape, int64_t *bits);

/* Writes items to one file. Sorts the items into the format's order first: wider dtypes first, then by name.
 * metadata: nmetadata pairs. With `digest`, metadata begins with "rille.digest", the XXH3 of the rest of the file;
 * see safetensors_verify. */
struct safetensors_options {
    const struct save_text *metadata;
    int nmetadata;
    bool digest;
};
int safetensors_save(const char *path, int n, struct save_item *item, const struct safetensors_options *o);
/* Checks that the file is complete and matches its digest. E_IO naming the path. Of shards (shards.h) it checks only
 * that they exist and have the right sizes; the digests of their blocks are checked when a box is read. */
int safetensors_verify(const char *path);

/* Saves a folder of shards of at most shard_bytes, with an index; a single file if shard_bytes suffice. Removes the
 * shards of an earlier save. The old index is removed first and the new index is written last, so that readers
 * refuse an interrupted save. */
int folder_save(const char *path, int n, struct save_item *item, int64_t shard_bytes,
                const struct safetensors_options *o);

#endif
