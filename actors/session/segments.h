/* segments.h - how a step cuts the rows of its arguments into micro-batches where they lie.
 *
 * The boundaries of all arguments' shards cut axis 0 into segments; piece k is the k-th of equal parts of every
 * segment, for all arguments alike. So the rows of a piece go together however each argument is split, and none leaves
 * its rank. Where a shard has several segments its pieces are not one after the other in memory: segments_sort() puts
 * its rows in order of pieces before a run, and results back after it. The compiled step owns them. On the session
 * thread. */
#ifndef RILLE_SESSION_SEGMENTS_H
#define RILLE_SESSION_SEGMENTS_H

#include "actors/session/session.h"

struct segments {
    int32_t pieces, n;
    int64_t *bound; /* n + 1: rows at which segments begin, and the end; malloc */
};

/* Finds those of arguments whose first axes are equally long; E_SHAPE names the segment that the pieces do not divide,
 * and numbers that would do. */
int segments_find(struct segments *s, int32_t pieces, int n, struct rille_tensor *const *in);
void segments_free(struct segments *s);
/* Returns how many segments, when they are equally long: by these messages tell positions; 0: they are not. */
int32_t segments_alike(const struct segments *s);
/* Do the rows of a tensor of so many rows a piece, so laid out, lie in order of pieces already? */
bool segments_in_order(const struct segments *s, const struct layout *l, int64_t rows);
/* Is every shard of it whole segments? Then a step can join its pieces. */
bool segments_fit(const struct segments *s, const struct layout *l, int64_t rows);
/* Makes a new store with the rows in order of pieces; back: from that order to the tensor's own. t: of the whole
 * tensor. */
int segments_sort(const struct segments *s, struct rille_session *session, const struct type *t, const struct layout *l,
                  const struct store *from, bool back, struct store **out);

#endif
