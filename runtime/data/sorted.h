/* sorted.h - sorted lists of numbers without duplicates. The caller owns the lists; any thread. */
#ifndef RILLE_RUNTIME_DATA_SORTED_H
#define RILLE_RUNTIME_DATA_SORTED_H

#include "runtime/base/base.h"

/* Sorts n numbers and removes duplicates. Returns the number of entries left, at the start of the list. */
int32_t sorted_once(int32_t *list, int32_t n);
int32_t sorted_once64(int64_t *list, int32_t n);
/* Returns the index of a number in a sorted list; -1: not found. */
int32_t sorted_find(const int32_t *list, int32_t n, int32_t number);
/* Returns the index of the last entry <= number; 0 if there is none. */
int32_t sorted_last64(const int64_t *list, int32_t n, int64_t number);

#endif
