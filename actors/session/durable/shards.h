/* shards.h - checkpoints of a cluster: workers write and read the shards on their devices.
 *
 * A checkpoint consists of one file per worker and a manifest (runtime/file/shards.h). The manifest gets its final
 * name when all files are on disk. Workers on any mesh, or a single process, can read a checkpoint. The session owns
 * the values. Loading runs on the session's thread; saving may run on any thread. */
#ifndef RILLE_SESSION_SHARDS_H
#define RILLE_SESSION_SHARDS_H

#include "actors/session/core/session.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/safetensors_save.h"

/* A value as it was when the save began, without pending reductions. */
struct saved {
    struct type type;
    const struct layout *layout;
    struct store *store; /* shards of the value, by reference */
};

/* Returns true if the session's workers write and read the checkpoint files themselves, in the folder of this path. */
bool shards_here(const struct rille_session *s, const char *path);
/* Saves n values and the manifest `path`. Any thread. E_IO: a file cannot be written. E_LOST: a worker was lost.
 * E_CANCEL: an interrupt on the session's thread. */
int shards_save(struct rille_session *s, const char *path, int n, const struct saved *value,
                const struct save_item *item, const struct safetensors_options *o, bool interruptible);
/* Loads a tensor with layout l from entry e of a sharded checkpoint. */
int shards_load(struct rille_session *s, const struct tensors *f, const struct entry *e, const struct layout *l,
                struct rille_tensor **out);

#endif
