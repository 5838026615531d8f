/* plan.h - computes the steps of a move. A plan belongs to the caller's arena; any thread. */
#ifndef RILLE_BOXING_PLAN_H
#define RILLE_BOXING_PLAN_H

#include "boxing/box.h"

/* Plans a move; allocates the plan in arena a. E_SBP: a move from P to another kind of P. */
int box_plan(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
             struct box_plan **out);
/* Plans like box_plan, but with a hierarchical reduction. relay: must outlive the plan; NULL: none. */
int box_plan_all(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                 const struct box_relay *relay, struct box_plan **out);
/* Plans like box_plan, but only the stages and destination shards of the given ranks. Time and memory are
 * proportional to the data that these ranks exchange. */
int box_plan_part(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                  const struct box_ranks *mine, struct box_plan **out);
int box_plan_relay(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
                   const struct box_relay *relay, const struct box_ranks *mine, struct box_plan **out);

/* box_stage_at returns the index of a stage by number; BOX_ELSEWHERE: the stage is not in this plan. box_rank_at
 * returns the index of a device in rank[]. */
int32_t box_stage_at(const struct box_plan *p, int32_t number);
int32_t box_rank_at(const struct box_plan *p, int32_t rank);

/* Returns the index of the slice of the stage that contains `slice`. */
int32_t box_stage_find(const struct box_plan *p, int32_t stage, const struct box *slice);

#endif
