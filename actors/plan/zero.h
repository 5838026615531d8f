/* zero.h - optimisers that split their work and state over the ranks that hold a parameter alike (ZeRO: Rajbhandari et
 * al. 2020).
 *
 * Layouts and nothing else: an update computes on the slices of its parameter, its state lies so, gradients come to it
 * by reduce-scatter, the new parameter goes back by all-gather. What already cuts the parameter cuts first, so that
 * every slice is a rank's own. The sums are those of the whole, in the same order: the same bits. zero_layouts()
 * changes a program that nobody else reads yet, on the thread that makes it. */
#ifndef RILLE_PLAN_ZERO_H
#define RILLE_PLAN_ZERO_H

#include "actors/plan/program.h"

/* Lays the leaves of an optimiser's state anew: leaf[].layout says how. level 1: makes the gradient whole before it
 * slices it; from 2 on it scatters it. root_leaf: by root, the leaf whose new version it is, -1. */
int zero_layouts(struct program *p, struct atlas *at, int level, const int32_t *root_leaf);

#endif
