/* lookup.h - code shared by operators that read or write entries at given positions, like index_select and
 * embedding.
 *
 * A rank may hold only a range of the entries; positions are global. For a position outside this range a read
 * returns zeros and a write does nothing, so that the ranks' results add up to the whole result (P(sum)). Pure,
 * except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_LOOKUP_H
#define RILLE_KERNELS_OP_LOOKUP_H

#include "kernels/op/base/op_impl.h"

/* Texts of the SBP rule of an operator that reads the entries of x along an axis at positions ids: one text each for
 * x, ids and the result. Example: x "aVc", ids "pq", result "apqc". */
struct lookup_text {
    char x[MAX_DIM + 1], ids[MAX_DIM + 1], out[2 * MAX_DIM + 1];
};
struct lookup_text lookup_text(const struct type *x, const struct type *ids, int axis);

/* Words of a message like "embedding: id 9 at position 1 is not in a table of 4 rows (positions count from 0)". */
struct lookup_words {
    const char *op, *noun;      /* name of the operator and word for an element, like "embedding" and "id" */
    const char *before, *after; /* text before and after the number of entries, like "in a table of " and " rows" */
};
/* Finds the first invalid element, such as an id out of range, and writes it to k->find. The operator's callback
 * allows() states which operand is checked, and its allowed values. The operand may have any dtype and any strides,
 * or be absent. */
void lookup_find(const struct kcall *k);
/* Fails with E_VALUE for the invalid element that lookup_find() found in operand i. words: the words of the message. */
int lookup_say(const struct kcall *k, int i, int64_t size, const struct lookup_words *words, const struct finding *f);
/* Appends the position of the invalid element in the global operand i, like "1" or "{0, 1}". For an operand of a
 * micro-batch, this is the position in the whole batch. */
void lookup_print_position(const struct kcall *k, int i, const struct finding *f, struct str *s);
/* Returns id - first if first <= id < first + n, otherwise -1. Any id is allowed; nothing overflows. */
static inline int64_t
lookup_here(int64_t id, int64_t first, int64_t n)
{
    uint64_t here = (uint64_t)id - (uint64_t)first;
    return here < (uint64_t)n ? (int64_t)here : -1;
}
/* Returns the id at the local position at[]. */
int64_t lookup_id(const struct view *ids, const int64_t *at);

/* Copies the entries of x at positions ids along an axis to out. All views are dense; any dtype. */
void lookup_take(const struct view *x, int axis, const struct view *ids, const struct view *out);
/* Adds the entries of src to the entries of out at positions ids along an axis. All views are dense f64. */
void lookup_put(const struct view *out, int axis, const struct view *ids, const struct view *src);
/* Sets out to base (NULL: zeros) plus the entries of src at positions ids. All views are dense. out and src have any
 * float dtype; base has out's dtype and may share its memory. Adds in f64, in the order of ids. scratch: reserved by
 * lookup_prepare(). */
void lookup_put_fast(const struct view *out, int axis, const struct view *ids, const struct view *src,
                     const struct view *base, int threads, void *scratch);

/* Callbacks of operators that add entries at given positions. lookup_prepare() is the prepare() of a kernel variant;
 * the others are make_rule(), allows(), say(), line_dims() and flops() of the operator's record. */
int lookup_put_rule(const struct call *c, struct str *rule);
void lookup_allows(const struct kcall *k, struct allowed *a);
int lookup_say_gradient(const struct kcall *k, const struct finding *f);
void lookup_entry_dims(const struct call *c, bool *gone);
double lookup_flops(const struct call *c);
int lookup_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* GPU code of the two passes of operators that add entries at given positions; a line of threads computes one
 * entry. LOOKUP_START writes the start value of each element. LOOKUP_SUM overwrites each entry that some id
 * selects: the new value is the start value plus the source entries of these ids, in the order of ids. */
#define LOOKUP_START(start)                                                                                            \
    BODY({ each_of([&](element i) { return (void)i, start; }, [&](element i, double v) { y0(i, v); }); })
#define LOOKUP_SUM(start)                                                                                              \
    BODY({                                                                                                             \
        const int64_t axis = c->attr[AXIS].i, before = place0(axis);                                                   \
        int64_t count = 1;                                                                                             \
        for (int d = 0; d < NDIM1; d++) count *= dim1(d);                                                              \
        const auto first = [&](int64_t i) {                                                                            \
            (void)i;                                                                                                   \
            return (double)start;                                                                                      \
        };                                                                                                             \
        /* source_of: offset in operand 2 of the source entry of id j. element_of: offset of element i in an entry. */ \
        const auto source_of = [&](int64_t j) {                                                                        \
            int64_t from[16];                                                                                          \
            for (int d = 0; d < NDIM2; d++) from[d] = 0;                                                               \
            for (int d = NDIM1 - 1; d >= 0; j /= dim1(d--)) from[axis + d] = j % dim1(d);                              \
            return x2_at(from);                                                                                        \
        };                                                                                                             \
        const auto element_of = [&](int64_t i) {                                                                       \
            int64_t from[16], at[8];                                                                                   \
            for (int d = 0; d < NDIM1; d++) from[axis + d] = 0;                                                        \
            where(i, at);                                                                                              \
            for (int d = 0; d < NDIM0; d++)                                                                            \
                if (d != axis) from[d < axis ? d : d + NDIM1 - 1] = at[d];                                             \
            return x2_at(from);                                                                                        \
        };                                                                                                             \
        enum { EACH = 4 }; /* elements per thread in one iteration */                                                  \
        for (int64_t begin = 0; begin < a.length; begin += EACH * THREADS) {                                           \
            places at[EACH]; /* index of the element; past the last element: 0, and nothing is written */              \
            int64_t in[EACH];                                                                                          \
            double sum[EACH];                                                                                          \
            for (int e = 0; e < EACH; e++) {                                                                           \
                const int64_t i = begin + e * THREADS + rank();                                                        \
                at[e] = (places)(i < n ? i : 0);                                                                       \
                in[e] = element_of(at[e]);                                                                             \
            }                                                                                                          \
            each_named(                                                                                                \
                count, [&](int64_t j) { return x1_nth(j) - before; }, source_of,                                       \
                [&](int64_t named) {                                                                                   \
                    line = named;                                                                                      \
                    for (int e = 0; e < EACH; e++) sum[e] = first(at[e]);                                              \
                },                                                                                                     \
                [&](int64_t source) {                                                                                  \
                    for (int e = 0; e < EACH; e++) sum[e] += x2_from(source + in[e]);                                  \
                },                                                                                                     \
                [&] {                                                                                                  \
                    for (int e = 0; e < EACH; e++)                                                                     \
                        if (begin + e * THREADS + rank() < n) y0(at[e], sum[e]);                                       \
                });                                                                                                    \
        }                                                                                                              \
    })

/* Implements allows() for operators that read x along an axis at the ids of operand 1. */
void lookup_allows_axis(const struct kcall *k, struct allowed *a);
/* Returns the value of attribute `axis`, which is attribute 0 of these operators. */
static inline int
axis_of(const struct call *c)
{
    return (int)c->attr[0].i;
}

#endif
