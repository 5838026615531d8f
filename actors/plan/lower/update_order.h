/* update_order.h - orders updates after all reads of the old version and all checks of data. Thread of plan_compile().
 */
#ifndef RILLE_ACTORS_PLAN_LOWER_UPDATE_ORDER_H
#define RILLE_ACTORS_PLAN_LOWER_UPDATE_ORDER_H

#include "actors/plan/lower/lower.h"

int update_order_gate(struct lower *l, int32_t node); /* call before the node's tasks are made */
void update_order_updates(struct lower *l);

#endif
