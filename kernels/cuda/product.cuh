/* product.cuh - computes `count` matrix products, m x k by k x n, of elements that an operator's body reads. Terms
 * of a sum are added in the order of k; if there are few results, each sum is divided into parts.
 *
 * Part of the sources of products, after device.cuh and fragments.cuh. A block computes TILE x TILE results at a
 * time. SLICE columns of the left and SLICE rows of the right operand are in shared memory, padded with zeros. The
 * next slice is read while the current one is multiplied. A thread computes a square of results; for 16-bit
 * elements, a warp computes its results on tensor cores.
 *
 * The address of an element is the sum of the offsets of its row, its column and its place in k. These offsets are
 * computed once per tile or slice, because they need divisions. */
enum { TILE = 64 };

/* Returns true if 0 <= x < n. */
DEVICE bool
is_place(int32_t x, int32_t n)
{
    return (uint32_t)x < (uint32_t)n;
}
DEVICE bool
is_place(int64_t x, int64_t n)
{
    return (uint64_t)x < (uint64_t)n;
}

/* ---- converting elements of operands ---- */

template <class C>
DEVICE bool
is_finite(C x)
{
    return x - x == 0;
}
DEVICE bool
is_finite(int64_t)
{
    return true;
}
DEVICE bool
is_finite(bf16 x)
{
    return (x.bits & 0x7f80) != 0x7f80;
}
DEVICE bool
is_finite(f16 x)
{
    return (x.bits & 0x7c00) != 0x7c00;
}

/* Returns x if `there`, else 0, without a branch. */
template <class C>
DEVICE C
where_there(bool there, C x)
{
    return there ? x : 0;
}
DEVICE bf16
where_there(bool there, bf16 x)
{
    const bf16 y = {(uint16_t)(there ? x.bits : 0)};
    return y;
}
DEVICE f16
where_there(bool there, f16 x)
{
    const f16 y = {(uint16_t)(there ? x.bits : 0)};
    return y;
}

/* Converts an element to the type of the product. Replaces subnormal bf16 values by 0, as all kernels do, because
 * tensor cores would compute with them. */
template <class T> struct factor {
    template <class M> METHOD static T of(M x) { return get<T>(x); }
};
template <> struct factor<bf16> {
    METHOD static bf16 of(float x) { return put<bf16>(x); }
    METHOD static bf16 of(bf16 x)
    {
        const bf16 y = {(uint16_t)(x.bits & 0x7f80 ? x.bits : x.bits & 0x8000)};
        return y;
    }
};
template <> struct factor<f16> {
    METHOD static f16 of(float x) { return put<f16>(x); }
    METHOD static f16 of(f16 x) { return x; }
};

/* ---- computing a tile of results by threads ---- */

/* The results of a thread: EACH x EACH adjacent ones. A thread reads 16 bytes of a slice at a time. */
template <class C> struct tile_of {
    enum { SLICE = 16, EACH = 4, ACROSS = TILE / EACH, PAD = 4 };
    struct __align__(16) slices { C left[SLICE][TILE + PAD], right[SLICE][TILE]; };
    C sum[EACH][EACH];

    METHOD static int row(int r) { return threadIdx.x / ACROSS * EACH + r; }
    METHOD static int column(int s) { return threadIdx.x % ACROSS * EACH + s; }
    METHOD void begin()
    {
        for (int r = 0; r < EACH; r++)
            for (int s = 0; s < EACH; s++) sum[r][s] = 0;
    }
    METHOD static void set_left(slices &to, int i, int l, C v) { to.left[l][i] = v; }
    METHOD static void set_right(slices &to, int l, int j, C v) { to.right[l][j] = v; }
    /* Adds only those products for which meets(l, column) is true. */
    template <class Meets> METHOD void add_where(slices &of, Meets meets)
    {
#pragma unroll 4
        for (int l = 0; l < SLICE; l++) {
            C x[EACH], y[EACH];
            for (int r = 0; r < EACH; r++) x[r] = of.left[l][row(0) + r];
            for (int s = 0; s < EACH; s++) y[s] = of.right[l][column(0) + s];
            for (int s = 0; s < EACH; s++)
                for (int r = 0; r < EACH && meets(l, column(s)); r++) sum[r][s] = add_product(sum[r][s], x[r], y[s]);
        }
    }
    METHOD void add(slices &of)
    {
        add_where(of, [](int, int) { return true; });
    }
    template <class Put> METHOD void end(Put put) const
    {
        for (int r = 0; r < EACH; r++)
            for (int s = 0; s < EACH; s++) put(row(r), column(s), sum[r][s]);
    }
};

/* ---- computing a tile of 16-bit factors by warps, on tensor cores ---- */

/* The results of a warp: 16 rows and half of the tile's columns, in fragments of 16 x 8. */
template <class T> struct tile_of_halves {
    enum { SLICE = 32, COLUMNS = TILE / 2, FRAGMENTS = COLUMNS / 8, PAD = 8 };
    struct __align__(16) slices { T left[TILE][SLICE + PAD], right[SLICE][TILE + PAD]; };
    float sum[FRAGMENTS][4];

    METHOD static int first_row() { return threadIdx.x / 64 * 16; }
    METHOD static int first_column() { return threadIdx.x / 32 % 2 * COLUMNS; }
    METHOD void begin()
    {
        for (int f = 0; f < FRAGMENTS; f++)
            for (int i = 0; i < 4; i++) sum[f][i] = 0;
    }
    METHOD static void set_left(slices &to, int i, int l, T v) { to.left[i][l] = v; }
    METHOD static void set_right(slices &to, int l, int j, T v) { to.right[l][j] = v; }
    METHOD void add(slices &of)
    {
        for (int l = 0; l < SLICE; l += 16) {
            uint32_t left[4];
            left_along(of.left, first_row(), l, left);
            for (int f = 0; f < FRAGMENTS; f += 2) {
                uint32_t right[2][2];
                right_along(of.right, l, first_column() + 8 * f, right);
                multiply_add(sum[f], left, right[0], T());
                multiply_add(sum[f + 1], left, right[1], T());
            }
        }
    }
    template <class Meets> METHOD void add_where(slices &of, Meets meets)
    {
        for (int f = 0; f < FRAGMENTS; f++)
            for (int i = 0; i < 4; i++) {
                const int row = first_row() + row_of(i), column = first_column() + 8 * f + column_of(i);
#pragma unroll 1
                for (int l = 0; l < SLICE; l++)
                    if (meets(l, column))
                        sum[f][i] = add_product(sum[f][i], widen(of.left[row][l]), widen(of.right[l][column]));
            }
    }
    template <class Put> METHOD void end(Put put) const
    {
        for (int f = 0; f < FRAGMENTS; f++)
            for (int i = 0; i < 4; i++) put(first_row() + row_of(i), first_column() + 8 * f + column_of(i), sum[f][i]);
    }
};
template <> struct tile_of<bf16> : tile_of_halves<bf16> {
};
template <> struct tile_of<f16> : tile_of_halves<f16> {
};

/* ---- looping over the tiles of the result, and over the slices of each sum ---- */

/* The order in which neighbouring threads read. left_by_place: the left operand is read along k instead of along
 * rows. right_by_column: the right operand is read along columns of results instead of along k. */
struct walk {
    bool left_by_place, right_by_column;
};

/* A thread's elements of a slice of an operand. Element u is in row or column line(u), at index place(u) along k. */
template <int SLICE, int THREADS> struct lot {
    int first_line, first_place, lines, places;

    METHOD explicit lot(bool by_place)
    {
        const int me = threadIdx.x;
        first_line = by_place ? me % TILE : me / SLICE;
        first_place = by_place ? me / TILE : me % SLICE;
        lines = by_place ? 0 : THREADS / SLICE;
        places = by_place ? THREADS / TILE : 0;
    }
    METHOD int line(int u) const { return first_line + u * lines; }
    METHOD int place(int u) const { return first_place + u * places; }
};

/* Base of the struct that contains an operator's GPU code (body). real: type of results; T: type of elements in
 * shared memory. The terms of each sum are divided into `parts` parts; a result is the sum over part number
 * `part`. */
template <class real, class T> struct products {
    typedef tile_of<T> tile;
    enum { SLICE = tile::SLICE, THREADS = 32 * WARPS, LOADS = TILE * SLICE / THREADS };
    int64_t parts;
    mutable int64_t part;

    /* Computes all products. Element (i, l) of the left operand of product b is left(left_at(row(b, i),
     * place(l))). Element (l, j) of the right operand is right(right_at(place(l), column(b, j))). left_at and
     * right_at return offsets; left(0) and right(0) are read in place of missing elements, so they must be valid.
     *
     * Calls put(b, i, j, sum) for each result. A sum has only the terms for which meets(place, column) is true;
     * for other terms, the right element is replaced by 0. If the slice has an infinite or NaN left element, other
     * terms are skipped, because 0 times the element would be NaN. */
    template <class Row, class Column, class Place, class LeftAt, class Left, class RightAt, class Right, class Put,
              class Meets>
    METHOD void multiply(int64_t count, int64_t m, int64_t n, int64_t k, walk w, Row row, Column column, Place place,
                         LeftAt left_at, Left left, RightAt right_at, Right right, Put put, Meets meets) const
    {
        __shared__ decltype(row(int64_t(), int64_t())) rows[TILE];
        __shared__ decltype(column(int64_t(), int64_t())) columns[TILE];
        __shared__ decltype(place(int64_t())) places[2][SLICE];
        __shared__ typename tile::slices slices;
        const int64_t across = (n + TILE - 1) / TILE, each = (m + TILE - 1) / TILE * across, tiles = count * each;
        const int64_t length = ((k + parts - 1) / parts + SLICE - 1) / SLICE * SLICE;
        const lot<SLICE, THREADS> lefts(w.left_by_place), rights(!w.right_by_column);
        const int me = threadIdx.x;
        for (int64_t t = blockIdx.x; t < tiles * parts; t += gridDim.x) {
            const int64_t b = t % tiles / each, i0 = t % each / across * TILE, j0 = t % across * TILE;
            const int64_t from = t / tiles * length, end = k < from + length ? k : from + length;
            const int height = m - i0 < TILE ? (int)(m - i0) : TILE, width = n - j0 < TILE ? (int)(n - j0) : TILE;
            T x[LOADS], y[LOADS];
            bool odd = false;
            tile sums;
            sums.begin();
            /* Reads this thread's elements of the slice that begins at index l0 of the sum into registers.
             * places[which] has the slice's offsets along k. */
            const auto read = [&](int64_t l0, int which) {
                const int depth = end - l0 < SLICE ? (int)(end - l0) : SLICE;
                odd = false;
                for (int u = 0; u < LOADS; u++) {
                    const int i = lefts.line(u), l = lefts.place(u);
                    const bool there = (i < height) & (l < depth);
                    const int64_t at = left_at(rows[i], places[which][l]);
                    const T v = factor<T>::of(left(there ? at : 0));
                    x[u] = where_there(there, v);
                    odd |= there & !is_finite(v);
                }
                for (int u = 0; u < LOADS; u++) {
                    const int j = rights.line(u), l = rights.place(u);
                    const bool there = (j < width) & (l < depth) & meets(places[which][l], columns[j]);
                    const int64_t at = right_at(places[which][l], columns[j]);
                    const T v = factor<T>::of(right(there ? at : 0));
                    y[u] = where_there(there, v);
                }
            };
            const auto find = [&](int64_t l0, int which) {
                if (me < SLICE && l0 + me < end) places[which][me] = place(l0 + me);
            };
            if (me < height) rows[me] = row(b, i0 + me);
            if (me < width) columns[me] = column(b, j0 + me);
            find(from, 0);
            __syncthreads();
            if (from < end) read(from, 0);
            for (int64_t l0 = from; l0 < end; l0 += SLICE) {
                const int which = (int)((l0 - from) / SLICE % 2);
                const int depth = end - l0 < SLICE ? (int)(end - l0) : SLICE;
                for (int u = 0; u < LOADS; u++) {
                    tile::set_left(slices, lefts.line(u), lefts.place(u), x[u]);
                    tile::set_right(slices, rights.place(u), rights.line(u), y[u]);
                }
                find(l0 + SLICE, !which);
                const bool passes = __syncthreads_or(odd);
                if (l0 + SLICE < end) read(l0 + SLICE, !which);
                if (passes)
                    sums.add_where(slices, [&](int l, int j) {
                        return j < width && l < depth && meets(places[which][l], columns[j]);
                    });
                else
                    sums.add(slices);
                __syncthreads();
            }
            part = t / tiles;
            sums.end([&](int i, int j, real v) {
                if (i < height && j < width) put(b, i0 + i, j0 + j, v);
            });
        }
    }
    template <class Row, class Column, class Place, class LeftAt, class Left, class RightAt, class Right, class Put>
    METHOD void multiply(int64_t count, int64_t m, int64_t n, int64_t k, walk w, Row row, Column column, Place place,
                         LeftAt left_at, Left left, RightAt right_at, Right right, Put put) const
    {
        typedef decltype(column(int64_t(), int64_t())) C;
        typedef decltype(place(int64_t())) P;
        multiply(count, m, n, k, w, row, column, place, left_at, left, right_at, right, put,
                 [](const P &, const C &) { return true; });
    }
};
