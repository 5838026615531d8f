/* verify_part.h - finds where a shard of a value is stored. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_PART_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_PART_H

#include "actors/plan/verify/value/verify_value.h"

/* Returns the view of a dense shard, with the shard's position in the global tensor. */
struct view value_part(const struct layout *l, const struct type *t, int pos);
/* Returns the view of `slice` in a shard. lo: position of the shard's first element in the global tensor; *skip:
 * elements from the shard's start to the slice. */
struct view value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
/* Returns the value of which r is a copy that moves made; r itself if no move made r. */
struct ref value_unmoved(const struct proof *v, struct ref r);
bool value_varies(const struct proof *v, struct ref r); /* returns true if the value differs between micro-batches */
/* Returns a pointer to the flag of value r in s->again: true if the value is fetched again for every micro-batch. */
bool *value_again(const struct values *s, struct ref r);
/* Looks for shard pos of value r in layout l in a register or leaf with content c. Returns true if the shard is
 * there: *view is the shard's view, *skip the number of elements before it. */
bool value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                struct view *view, int64_t *skip);
/* Looks for the result of view operator n in a register or leaf with content c, which stores the operator's
 * operand. Returns true if strides can express the result: *view is its view, *skip the number of elements before
 * it. */
bool value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos,
                     struct view *view, int64_t *skip);
/* Finds the content of the register or leaf that argument a of a task reads. */
int value_content(const struct values *s, int32_t task, int32_t a, struct content *c);
struct content *value_result(const struct values *s, int32_t task, int32_t k);
/* Prove that argument a of a task is shard pos of value r in layout l. value_read() returns the shard's view, and
 * in *skip the number of elements from the start of the register or leaf to the shard. value_read_at() proves that
 * the argument's offset is this number. Both functions also prove that the addends of a partial value belong
 * together: tasks at all positions must read addends made by the same kernel or move. *version: identifies that
 * kernel or move; NULL before the first call for a value. */
int value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
               const void **version, struct view *view, int64_t *skip);
int value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
                  const void **version, struct view *view);
/* Prove that the task runs on the right device: value_on() expects the device with this kind and rank, value_at()
 * expects the device at the task's mesh position. */
int value_on(const struct values *s, int32_t task, int kind, int rank);
int value_at(const struct values *s, int32_t task, const struct layout *l);
/* Proves the task's rate. piece true: the task must act once per micro-batch; false: once per run. every: number of
 * acts after which the task must publish a result. */
int value_rate(const struct values *s, int32_t task, bool piece, int32_t every);

#endif
