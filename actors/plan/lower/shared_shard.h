/* shared_shard.h - stores equal shards of several ranks of one memory space once. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_SHARED_SHARD_H
#define RILLE_ACTORS_PLAN_LOWER_SHARED_SHARD_H

#include "actors/plan/lower/lower.h"

/* Makes the tasks of a move whose destination has equal shards on several ranks of one memory
 * space. The ranks fill one register together. *done: false if shards of the move cannot be shared in this way, or
 * if a device would receive more bytes as a result. */
int shared_shard_parts(struct lower *l, const struct plan_move *move, const struct redistribution *x, struct pval *from,
                       struct pval *to, bool *done);

#endif
