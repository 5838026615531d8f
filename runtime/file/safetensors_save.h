/* safetensors_save.h - writes safetensors files. The caller owns the items; any thread. */
#ifndef RILLE_RUNTIME_FILE_SAFETENSORS_SAVE_H
#define RILLE_RUNTIME_FILE_SAFETENSORS_SAVE_H

#include <stdbool.h>
#include <stdint.h>

struct save_item;
struct save_text;

/* Writes items to one file. First sorts the items into the format's order: wider dtypes first, then by name.
 * metadata: nmetadata pairs of texts. digest: if true, the metadata begins with "rille.digest", the XXH3 hash of
 * the rest of the file, which safetensors_verify checks. */
struct safetensors_options {
    const struct save_text *metadata;
    int nmetadata;
    bool digest;
};
int safetensors_save(const char *path, int n, struct save_item *item, const struct safetensors_options *o);
/* Checks that the file is complete and matches its digest. E_IO: the file is incomplete or does not match; the text
 * names the path. Shard files (shards.h) are only checked to exist with the right size, because reading a box
 * verifies the digests of its blocks. */
int safetensors_verify(const char *path);

/* Saves a folder of shard files of at most shard_bytes each, with an index; or a single file, if one suffices.
 * Removes the shard files of an earlier save. Removes the old index first and writes the new index last, so that
 * readers reject an interrupted save. */
int folder_save(const char *path, int n, struct save_item *item, int64_t shard_bytes,
                const struct safetensors_options *o);

#endif
