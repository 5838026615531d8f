/* store.h - buffers of a value's shards (struct store of runtime/graph/graph.h). The value owns its store. Used
 * only on the session's thread. */
#ifndef RILLE_SESSION_STORE_H
#define RILLE_SESSION_STORE_H

#include "runtime/graph/graph.h"

struct box;
struct pool;
struct rille_session;
struct rille_tensor;
struct view;
/* Allocates buffers, which host code will write, for a value of this type and layout. */
int store_make(struct rille_session *s, const struct type *t, const struct layout *l, struct store **out);
/* Allocates buffers with the given function. shared: equal shards share one buffer. */
typedef int buffer_maker(struct pool *p, size_t bytes, struct buffer **out);
int store_make_by(struct rille_session *s, const struct type *t, const struct layout *l, bool shared,
                  buffer_maker *make, struct store **out);
/* Makes the shard at position `pos` share the buffer of the first position with the same shard. Returns false if
 * `pos` is that first position. */
bool store_share_first(struct store *s, const struct layout *l, int pos);
/* Makes a leaf with the elements of a view of the global value. The view may have any strides. */
int tensor_from_view(struct rille_session *s, const struct type *t, const struct layout *l, const struct view *whole,
                     struct rille_tensor **out);
/* Reads a box of a computed value, in global indices, into dense host memory. If workers own the shards, fetches the
 * bytes from them. */
int session_read(struct rille_session *s, struct val *v, const struct box *part, void *out);

#endif
