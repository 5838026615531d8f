/* shards.h - values in files that workers write and read, each the parts that lie in its devices.
 *
 * A checkpoint of a cluster is a file of each worker and a manifest (runtime/file/shards.h), which takes its name when
 * all of them are on the disk. It is read on any mesh, by workers or by one process. Values belong to the session; its
 * thread reads, and any one writes. */
#ifndef RILLE_SESSION_SHARDS_H
#define RILLE_SESSION_SHARDS_H

#include "actors/session/session.h"
#include "runtime/file/safetensors.h"

/* A value as it was at the call, without partial sums. */
struct saved {
    struct type type;
    const struct layout *layout;
    struct store *store; /* held */
};

/* Do the session's workers write and read what lies beside this path? */
bool shards_here(const struct rille_session *s, const char *path);
/* Writes n values, and the manifest, path; on any thread. E_IO, E_LOST; E_CANCEL: on the session's, an interrupt. */
int shards_save(struct rille_session *s, const char *path, int n, const struct saved *value,
                const struct save_item *item, const struct safetensors_options *o, bool interruptible);
/* A tensor of the entry's type, laid out so. Of an entry that has parts. */
int shards_load(struct rille_session *s, const struct tensors *f, const struct entry *e, const struct layout *l,
                struct rille_tensor **out);

#endif
