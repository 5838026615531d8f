/* segments.h - splits the rows of a step's arguments into micro-batches in place.
 *
 * The boundaries of all arguments' shards cut axis 0 into segments. Micro-batch k is the k-th of equal parts of
 * every segment, in all arguments alike. So a micro-batch has the same rows of each argument, however arguments
 * are split, and no row leaves its rank. In a shard with several segments the rows of a micro-batch are not
 * contiguous: segments_sort() sorts the rows by micro-batch before a run, and restores the order in results
 * afterwards. The compiled step owns the segments. Used only on the session's thread. */
#ifndef RILLE_ACTORS_SESSION_BATCH_SEGMENTS_H
#define RILLE_ACTORS_SESSION_BATCH_SEGMENTS_H

#include "actors/session/core/session.h"

struct segments {
    int32_t pieces, n;
    /* row indices: the start of each segment, then the end of the last segment (n + 1 entries); allocated by
     * malloc */
    int64_t *bound;
};

/* Finds the segments of the arguments. E_SHAPE: first axes have different lengths, or the number of micro-batches
 * does not divide a segment; the text names the segment and possible numbers. */
int segments_find(struct segments *s, int32_t pieces, int n, struct rille_tensor *const *in);
struct segments segments_copy(const struct segments *s);
void segments_free(struct segments *s);
/* Returns the number of segments (rows between shard boundaries) if all segments have equal length; else 0. Error
 * texts use the number to state positions. */
int32_t segments_alike(const struct segments *s);
/* Returns true if a tensor's shards already have their rows sorted by micro-batch. rows: rows per micro-batch. */
bool segments_in_order(const struct segments *s, const struct layout *l, int64_t rows);
/* Returns true if every shard of a tensor with this layout consists of complete segments. Otherwise a step cannot
 * join its micro-batches in place. */
bool segments_fit(const struct segments *s, const struct layout *l, int64_t rows);
/* Makes a new store with rows sorted by micro-batch; back true: with the original order of rows restored. t: type
 * of the global tensor. */
int segments_sort(const struct segments *s, struct rille_session *session, const struct type *t, const struct layout *l,
                  const struct store *from, bool back, struct store **out);

#endif
