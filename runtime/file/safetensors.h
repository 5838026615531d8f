/* safetensors.h - what readers and writers of .safetensors files share, and writing them. The caller owns what it reads
 * and saves; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_SAFETENSORS_H
#define RILLE_RUNTIME_FILE_SAFETENSORS_H

#include "runtime/file/json.h"
#include "runtime/file/save.h"
#include "runtime/file/tensors.h"

enum { SAFETENSORS_HEAD = 100000000 }; /* bytes that a head may have */
const char *safetensors_dtype(enum dtype d);
/* The type that two values of JSON tell, in the format's words, and how many bits the value has. E_IO. */
int safetensors_type(struct entry *e, const json_t *dtype, const json_t *shape, int64_t *bits);

/* Writes items to one file, after putting them in the order of the format: wider dtypes first, then by name. metadata:
 * n pairs. With a digest, metadata begins with "rille.digest", the XXH3 of all else in the file: see
 * safetensors_verify. */
struct safetensors_options {
    const struct save_text *metadata;
    int nmetadata;
    bool digest;
};
int safetensors_save(const char *path, int n, struct save_item *item, const struct safetensors_options *o);
/* E_IO naming the path unless the file is whole and its digest is that of its bytes. Of shards (shards.h) it sees that
 * they are there and have their sizes: who reads them holds their blocks against digests. */
int safetensors_verify(const char *path);

/* A folder of shards of at most shard_bytes, with an index; one file when that is enough. Removes shards of an earlier
 * save. The index goes first and comes back last, so readers refuse a save that broke off. */
int folder_save(const char *path, int n, struct save_item *item, int64_t shard_bytes,
                const struct safetensors_options *o);

#endif
