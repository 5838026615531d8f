/* file.h - creates variables whose shards a callback reads. Used only on the session's thread. */
#ifndef RILLE_SESSION_FILE_H
#define RILLE_SESSION_FILE_H

#include "runtime/graph/graph.h"

struct rille_session;
struct rille_tensor;
struct box;
/* Creates a leaf. Calls the reader once per shard, with the shard's box of values. */
typedef int leaf_reader(void *arg, const struct box *b, void *out);
int leaf_read(struct rille_session *s, const struct type *t, const struct layout *l, leaf_reader *read, void *arg,
              struct rille_tensor **out);

#endif
