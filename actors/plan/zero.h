/* zero.h - optimisers whose work and state are split over the ranks that hold a parameter alike (ZeRO: Rajbhandari et
 * al. 2020).
 *
 * Layouts and nothing else: an update computes on the slices of its parameter, its state lies so, gradients come to it
 * by reduce-scatter, the new parameter goes back by all-gather. What already cuts the parameter cuts first, so that
 * every slice is a rank's own. The sums are those of the whole, in the same order: the same bits. It changes a
 * program that nobody else reads yet, on the thread that makes it. */
#ifndef RILLE_PLAN_ZERO_H
#define RILLE_PLAN_ZERO_H

#include "actors/plan/program.h"

/* level 1: the gradient is made whole before it is sliced; from 2 on it is scattered. root_leaf: by root, the leaf
 * whose new version it is, -1; those of an optimiser's state are laid anew: leaf[].layout says how. */
int zero_layouts(struct program *p, struct atlas *at, int level, const int32_t *root_leaf);

#endif
