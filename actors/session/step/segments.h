/* segments.h - splits the rows of a step's arguments into micro-batches in place.
 *
 * The boundaries of all arguments' shards cut axis 0 into segments. Micro-batch k is the k-th of equal parts of
 * every segment, in all arguments alike. So a micro-batch has the same rows of each argument, however arguments are
 * split, and no row leaves its rank. In a shard with several segments the rows of a micro-batch are not contiguous:
 * segments_sort() sorts the rows by micro-batch before a run, and results back afterwards. The compiled step owns
 * the segments. Session's thread. */
#ifndef RILLE_SESSION_SEGMENTS_H
#define RILLE_SESSION_SEGMENTS_H

#include "actors/session/core/session.h"

struct segments {
    int32_t pieces, n;
    int64_t *bound; /* n + 1 row indices: begin of each segment, and the end; malloc */
};

/* Finds the segments of the arguments, whose first axes must be equally long. E_SHAPE: they differ, or the number of
 * micro-batches does not divide a segment; the text names the segment and numbers that would work. */
int segments_find(struct segments *s, int32_t pieces, int n, struct rille_tensor *const *in);
struct segments segments_copy(const struct segments *s);
void segments_free(struct segments *s);
/* Returns the number of segments if they are equally long (error messages then give positions); else 0. */
int32_t segments_alike(const struct segments *s);
/* Returns true if a tensor with this layout and `rows` rows per micro-batch already has its rows sorted by
 * micro-batch. */
bool segments_in_order(const struct segments *s, const struct layout *l, int64_t rows);
/* Returns true if every shard of such a tensor consists of complete segments. Only then can a step join
 * micro-batches. */
bool segments_fit(const struct segments *s, const struct layout *l, int64_t rows);
/* Makes a new store with rows sorted by micro-batch; back: from that order to the tensor's own. t: global type. */
int segments_sort(const struct segments *s, struct rille_session *session, const struct type *t, const struct layout *l,
                  const struct store *from, bool back, struct store **out);

#endif
