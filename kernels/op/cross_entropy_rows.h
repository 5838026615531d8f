/* cross_entropy_rows.h - loss of each position for unsplit classes, and checks of labels. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_CROSS_ENTROPY_ROWS_H
#define RILLE_KERNELS_OP_CROSS_ENTROPY_ROWS_H

#include <stdbool.h>
#include <stdint.h>

struct allowed;
struct build;
struct call;
struct finding;
struct kcall;
struct str;
struct val;

void ce_line_dims(const struct call *c, bool *gone);
/* Appends the call's SBP rule, made from a pattern in which x stands for the dimensions of the logits (operand 0)
 * and l for the dimensions of the labels. unsplit: the class axis may not be split. */
int ce_rule(const struct call *c, bool unsplit, const char *pattern, struct str *rule);
/* Builds a bool tensor that is true for the labels other than ignore_index. */
struct val *ce_which_count(struct build *b, struct val *labels, int64_t ignored);
/* Implements infer() for results with one number per label: f32 for 16-bit logits, because the sum over a batch
 * needs more digits. */
int ce_infer(const struct call *c, int64_t *size);
/* Builds the softmax of the logits x as exp((x - max) - rest). The result is 0 where `counts` is false. max: maximum
 * of each line; rest: logarithm of the sum of exp(x - max). max, rest and counts lack the class axis. For 16-bit
 * floats, max, rest and the result are f32. */
struct val *ce_softmax(struct build *b, struct val *x, struct val *max, struct val *rest, struct val *counts);
/* Handle labels that are no class: ce_allows states the allowed labels, ce_say reports an invalid label, and
 * ce_counts returns false for it. */
void ce_allows(const struct kcall *k, struct allowed *a);
int ce_say(const struct kcall *k, const struct finding *f);

#endif
