/* send.h - makes the tasks of a hop, with sends, receives and transfers. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_SEND_H
#define RILLE_ACTORS_PLAN_LOWER_SEND_H

#include "actors/plan/lower/lower.h"

/* Returns one end of a channel of the move: the sending end if `sends`, else the receiving end. */
struct channel mover_channel(const struct mover *m, const struct redistribute_channel *c, bool sends);
/* Returns the view of slice `which` of a channel at its source, in this partition; *part and *skip as in
 * mover_window(). */
struct view mover_sent(struct mover *m, const struct redistribute_channel *c, int32_t which, struct part *part,
                       int64_t *skip);
/* Returns the placement of the devices that read a channel. */
const struct place *mover_reader(const struct mover *m, const struct redistribute_channel *c);
/* Makes the tasks of a move, including transfers between memory spaces and sends and receives between
 * hosts. */
int move_across(struct lower *l, const struct plan_move *move, const struct redistribution *x, struct pval *from,
                struct pval *to);
/* Returns true if the value is available only after the last micro-batch. */
bool lower_is_late(const struct lower *l, const struct pval *v);
/* Adds one end of a channel to the plan; `task` must be the task made last. */
void channel_add(struct lower *l, int32_t task, const struct channel *c);
/* Copies the channels into the plan, sorted by name. */
void channel_list(struct lower *l);

#endif
