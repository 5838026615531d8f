/* move.h - makes the tasks that convert a value to another layout. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_MOVE_H
#define RILLE_ACTORS_PLAN_LOWER_MOVE_H

#include "actors/plan/lower/lower.h"

void mover_init(struct mover *m, struct lower *l, const struct plan_move *move, const struct redistribution *x,
                struct pval *from);
/* Returns the view of a slice in its source, which must be in this partition: stage buffer `stage` or, if `stage`
 * is BOX_PART, the shard at mesh position pos. *part: location of the source; *skip: elements from the start of the
 * source to the slice. */
struct view mover_window(struct mover *m, int32_t stage, int32_t pos, const struct box *slice, struct part *part,
                         int64_t *skip);
/* Returns the view of slice `which` of a channel in the buffer that has received the channel's data. The view is
 * dense; *skip: elements from the buffer's start to the slice. */
struct view mover_received(const struct mover *m, const struct redistribute_channel *c, int32_t which, int64_t *skip);
/* Make the tasks of a move: move_stages() those that fill stage buffers first to end - 1, move_parts() those that
 * fill destination shards. */
int move_stages(struct mover *m, int32_t first, int32_t end);
int move_parts(struct mover *m, struct pval *to);
int move_add(struct mover *m, int32_t task, const struct box_work *w, bool to_stage, const struct box_step *step,
             const struct box *slice, int rank, const struct view *dst, int64_t skip);

/* Converts v to the layout in which the current node reads this operand; the outline has the hops. share
 * true: equal shards of the result may share a register. */
int lower_moved(struct lower *l, struct pval *v, const struct layout *layout, int operand, bool share,
                struct pval **out);

#endif
