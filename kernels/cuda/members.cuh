/* members.cuh - macros that declare members of a kernel's struct, and statements of kernels. The texts that making.c,
 * source.c, line.c and after.c write contain calls of these macros.
 *
 * Texts of different kernels call the macros with different numbers, names and types. k: index of an operand or
 * result. Prefixes: x, y: operand, result of the call; v, r: operand, result of the chain. MEMORY: the type in
 * memory; TYPE: the type of computation. The generated function <name><k>_at returns an offset. */

/* ---- chains and copies: statements in a loop over positions p ---- */

/* Begins a loop over n<k> positions. All threads divide the loop; each iteration covers STEP positions. */
#define EACH_OF(k, STEP)                                                                                               \
    for (int64_t p = (block * blockDim.x + threadIdx.x) * (STEP); p < a.n##k; p += blocks * blockDim.x * (STEP))
/* LOOPS: number of loops over the view; PLACES: integer type of positions; LYING: IN_PLACE, TOGETHER or APART; LAST:
 * index of the innermost loop. at_<NAME>: address of the pack at position p. */
#define LANE_AT(NAME, MEMORY, LOOPS, PLACES)                                                                           \
    MEMORY *const at_##NAME = (MEMORY *)a.NAME.data + walk<LOOPS>((PLACES)p, a.size, a.NAME.stride);
#define BRING_LANE(k, PACK, LYING, LAST) const auto v##k = bring<PACK, LYING>(at_v##k, a.v##k.stride[LAST], whole);
#define LEAVE_LANE(k, PACK, LYING, LAST) leave<PACK, LYING>(y##k, at_y##k, a.y##k.stride[LAST], whole);
/* Copy k reads the side x and writes the side y. */
#define SIDE_AT(SIDE, k, LOOPS, PLACES) const int64_t SIDE = walk<LOOPS>((PLACES)p, a.SIDE##k.size, a.SIDE##k.stride);
#define BRING_SIDE(k, PACK, LYING, MEMORY, LAST)                                                                       \
    const auto v = bring<PACK, LYING>((const MEMORY *)a.x##k.data + x, a.x##k.stride[LAST], whole##k);
#define LEAVE_SIDE(k, PACK, LYING, MEMORY, LAST)                                                                       \
    leave<PACK, LYING>(w, (MEMORY *)a.y##k.data + y, a.y##k.stride[LAST], whole##k);

/* ---- by position ---- */

#define SIZES_OF(NAME, k, DIMS)                                                                                        \
    METHOD int64_t dim##k(int d) const { return a.NAME##k.dim[d]; }                                                    \
    METHOD int64_t place##k(int d) const { return a.NAME##k.offset[d]; }                                               \
    METHOD int64_t whole##k(int d) const { return a.NAME##k.whole[d]; }                                                \
    enum { NDIM##k = DIMS };
#define READ_AT(k, DIMS, TYPE, MEMORY)                                                                                 \
    METHOD int64_t x##k##_at(const int64_t *at) const                                                                  \
    {                                                                                                                  \
        int64_t o = 0;                                                                                                 \
        for (int d = 0; d < DIMS; d++) o += at[d] * a.x##k.stride[d];                                                  \
        return o;                                                                                                      \
    }                                                                                                                  \
    METHOD MEMORY x##k##_stored(int64_t o) const { return ((const MEMORY *)a.x##k.data)[o]; }                          \
    METHOD TYPE x##k##_from(int64_t o) const { return get<TYPE>(x##k##_stored(o)); }                                   \
    METHOD TYPE x##k(const int64_t *at) const { return x##k##_from(x##k##_at(at)); }
#define READ_NUMBER(k, TYPE)                                                                                           \
    METHOD TYPE x##k(int64_t = 0) const { return bits_as<TYPE>(*a.number##k); }
#define ABSENT_AT(k)                                                                                                   \
    METHOD int64_t x##k(const int64_t * = 0) const { return 0; }                                                       \
    METHOD int64_t dim##k(int) const { return 1; }                                                                     \
    enum { NDIM##k = 0 };

/* ---- reading and writing elements along a line ---- */

/* Return the offset of element i of the line in the view NAME. ACROSS, ALONG: number of loops across lines and
 * along a line; LINES, ELEMENTS: integer types of positions in these loops. */
#define PLACE_TOGETHER(NAME, ACROSS, LINES)                                                                            \
    METHOD int64_t NAME##_at(int64_t i) const { return walk<ACROSS>((LINES)line, a.across, a.NAME.across) + i; }
#define PLACE_APART(NAME, ACROSS, LINES, ALONG, ELEMENTS)                                                              \
    METHOD int64_t NAME##_at(int64_t i) const                                                                          \
    {                                                                                                                  \
        return walk<ACROSS>((LINES)line, a.across, a.NAME.across) + walk<ALONG>((ELEMENTS)i, a.along, a.NAME.along);   \
    }

#define READ_LANES(k, TYPE, MEMORY)                                                                                    \
    METHOD auto x##k(int64_t i) const { return lanes_at<TYPE, LANES>((const MEMORY *)a.x##k.data + x##k##_at(i)); }
#define READ_ONE(k, TYPE, MEMORY)                                                                                      \
    METHOD TYPE x##k(int64_t i) const { return get<TYPE>(((const MEMORY *)a.x##k.data)[x##k##_at(i)]); }
#define READ_PACK(k, TYPE, MEMORY)                                                                                     \
    mutable current<MEMORY, PACK> now##k;                                                                              \
    METHOD TYPE x##k(const packed<PACK> &i) const                                                                      \
    {                                                                                                                  \
        return get<TYPE>(now##k.get((const MEMORY *)a.x##k.data + x##k##_at(i.first), i.u));                           \
    }
#define READ_NOTHING(k)                                                                                                \
    METHOD real x##k(int64_t = 0) const { return 0; }

#define WRITE_ONE(k, MEMORY)                                                                                           \
    template <class C> METHOD void y##k(int64_t i, C v) const                                                          \
    {                                                                                                                  \
        ((MEMORY *)a.y##k.data)[y##k##_at(i)] = put<MEMORY>(v);                                                        \
    }
#define WRITE_LANES(k, MEMORY)                                                                                         \
    template <class C, int N> METHOD void y##k(int64_t i, const lanes<C, N> &v) const                                  \
    {                                                                                                                  \
        _Pragma("unroll") for (int u = 0; u < N; u++)((MEMORY *)a.y##k.data)[y##k##_at(i) + u] = put<MEMORY>(v.of[u]); \
    }
/* Writes a pack once its last value is known. */
#define WRITE_PACK(k, MEMORY)                                                                                          \
    mutable row<MEMORY, PACK> z##k;                                                                                    \
    template <class C> METHOD void y##k(const packed<PACK> &i, C v) const                                              \
    {                                                                                                                  \
        z##k.set(i.u, put<MEMORY>(v));                                                                                 \
        if (i.u == PACK - 1) z##k.write((MEMORY *)a.y##k.data + y##k##_at(i.first));                                   \
    }
#define WRITE_NOTHING(k)                                                                                               \
    template <class C> METHOD void y##k(int64_t, C) const {}

/* ---- reading and writing for the steps of a chain after its leading call ---- */

#define READ_BESIDE(k, MEMORY)                                                                                         \
    METHOD MEMORY v##k(int64_t i) const { return ((const MEMORY *)a.v##k.data)[v##k##_at(i)]; }
#define READ_BESIDE_PACK(k, MEMORY)                                                                                    \
    mutable pack<MEMORY, PACK> now_v##k;                                                                               \
    METHOD MEMORY v##k(const packed<PACK> &i) const                                                                    \
    {                                                                                                                  \
        const bool whole = (uint64_t)a.v##k.data % (sizeof(MEMORY) * PACK) == 0;                                       \
        if (i.u == 0) now_v##k = bring<PACK, TOGETHER>((const MEMORY *)a.v##k.data + v##k##_at(i.first), 1, whole);    \
        return now_v##k.of[i.u];                                                                                       \
    }
#define WRITE_BESIDE(k, MEMORY)                                                                                        \
    mutable pack<MEMORY, PACK> now_r##k;                                                                               \
    METHOD void r##k(const packed<PACK> &i) const { ((MEMORY *)a.r##k.data)[r##k##_at(i)] = now_r##k.of[i.u]; }
#define WRITE_BESIDE_PACK(k, MEMORY)                                                                                   \
    mutable pack<MEMORY, PACK> now_r##k;                                                                               \
    METHOD void r##k(const packed<PACK> &i) const                                                                      \
    {                                                                                                                  \
        const bool whole = (uint64_t)a.r##k.data % (sizeof(MEMORY) * PACK) == 0;                                       \
        if (i.u == PACK - 1) leave<PACK, TOGETHER>(now_r##k, (MEMORY *)a.r##k.data + r##k##_at(i.first), 1, whole);    \
    }

/* ---- storing values for the next pass, and reading those of the previous pass ---- */

/* EACH: number of values per line or part. */
#define WRITE_KEPT(EACH)                                                                                               \
    template <class C> METHOD void keep(int k, C v) const                                                              \
    {                                                                                                                  \
        once([&] { keep_of(0, k, v); });                                                                               \
    }                                                                                                                  \
    template <class C> METHOD void keep_of(int64_t u, int k, C v) const                                                \
    {                                                                                                                  \
        a.keeps[(part * a.lines + line + u) * EACH + k] = bits_as<uint64_t>(v);                                        \
    }                                                                                                                  \
    template <class C, int N> METHOD void keep_of(int64_t, int k, const lanes<C, N> &v) const                          \
    {                                                                                                                  \
        _Pragma("unroll") for (int u = 0; u < N; u++) keep_of(u, k, v.of[u]);                                          \
    }
#define READ_KEPT(EACH)                                                                                                \
    template <class C> METHOD C kept(int64_t of, int k) const { return bits_as<C>(a.kept[of * EACH + k]); }
#define READ_KEPT_PARTS(EACH, PARTS_OF_LINE)                                                                           \
    template <class C> METHOD C kept_part(int64_t i, int k) const                                                      \
    {                                                                                                                  \
        return bits_as<C>(a.parts[(i * a.lines + line) * EACH + k]);                                                   \
    }                                                                                                                  \
    template <class Fold, class C, class F> METHOD C fold_parts(C first, F f) const                                    \
    {                                                                                                                  \
        return this->template fold_of<Fold>(here ? PARTS_OF_LINE : 0, first, f);                                       \
    }
