/* sorted.c - sorted lists of numbers without duplicates. */
#include "runtime/data/sorted.h"

#include <stdlib.h>

static int
compare_numbers(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int
by_number64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int32_t
sorted_once(int32_t *list, int32_t n)
{
    int32_t k = 0;
    if (n) qsort(list, (size_t)n, sizeof *list, compare_numbers);
    for (int32_t i = 0; i < n; i++)
        if (k == 0 || list[i] != list[k - 1]) list[k++] = list[i];
    return k;
}

int32_t
sorted_once64(int64_t *list, int32_t n)
{
    int32_t k = 0;
    if (n) qsort(list, (size_t)n, sizeof *list, by_number64);
    for (int32_t i = 0; i < n; i++)
        if (k == 0 || list[i] != list[k - 1]) list[k++] = list[i];
    return k;
}

int32_t
sorted_find(const int32_t *list, int32_t n, int32_t number)
{
    const int32_t *at = n ? bsearch(&number, list, (size_t)n, sizeof number, compare_numbers) : NULL;
    return at ? (int32_t)(at - list) : -1;
}

int32_t
sorted_last64(const int64_t *list, int32_t n, int64_t number)
{
    int32_t lo = 0, hi = n;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        if (list[mid] <= number)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}
