/* draft.h - tasks under construction: arguments, results and edges. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_DRAFT_H
#define RILLE_ACTORS_PLAN_LOWER_DRAFT_H

#include "actors/plan/lower/lower.h"

struct draft *draft_new(struct lower *l, const struct task_kind *kind, int32_t node, int device_kind, int rank,
                        int32_t pos, bool piece, int32_t *id);   /* *d is valid until the next draft_new() */
int32_t draft_device(const struct lower *l, int kind, int rank); /* returns the device's index in the plan */
void draft_out(struct lower *l, struct draft *d, int64_t bytes, int32_t every);
/* appends an out-port; returns its index */
int32_t draft_port(struct lower *l, struct draft *d, const struct out_port *o);
bool draft_once(const struct draft *d); /* returns true if the task's results are computed once per batch */
void draft_args(struct lower *l, int32_t task, int n);
int draft_reads(struct lower *l, int32_t task, const struct part *part, int argument, bool fresh);
struct view part_local(const struct layout *layout, const struct type *type, int pos);
/* Returns the view of the k-th local shard, with its position in the global tensor. */
struct view part_placed(const struct pval *v, int32_t k);
/* Returns the view of `slice` in a shard. lo: position of the shard's first element in the global tensor; *skip:
 * elements from the shard's start to the slice. */
struct view part_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
void part_is_result(struct part *p, int32_t task, int32_t out);
struct pval *pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece,
                      struct ref ref);
void draft_edge(struct lower *l, int32_t to, const struct edge *e); /* appends an edge; duplicates are allowed */

#endif
