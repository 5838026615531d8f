/* attention.cuh - attention in 16 bits on tensor cores, forward and backward, without a matrix of all scores in
 * memory.
 *
 * Part of the sources that attention.c writes, after fragments.cuh. A block has WARPS warps. Each warp holds 16
 * rows: of queries or, for the gradients of keys and values, of keys. The rows of the other operands (keys, or
 * queries) are read through shared memory, NEAR rows at a time. Weights are computed in f32 and rounded to 16 bits
 * for the product that reads them; sums are f32. The order of all sums is fixed.
 *
 * The template argument `call` is the struct that attention.c writes. It has a head's operands as rows<half>,
 * sizes, the scale times log2(e), and the mask. Online softmax: Dao 2023 (FlashAttention-2). */
enum { OWN = 16 * WARPS };

/* ---- members of the struct that attention.c writes, and the kernel's loop ---- */

/* The struct has the constants SIZE and WIDTH (elements of a row of q and of v, rounded up to 16), CAUSAL, MASKED,
 * LATE (true: scores are scaled after their maximum is subtracted) and LOOPS (batch dimensions). SCALE: factor of the
 * scores. */
#define ATTENTION_OF(SCALE)                                                                                            \
    METHOD int64_t heads() const { return a.heads; }                                                                   \
    METHOD int64_t queries() const { return a.queries; }                                                               \
    METHOD int64_t keys() const { return a.keys; }                                                                     \
    METHOD int64_t place() const { return a.place; }                                                                   \
    METHOD float slope() const { return (float)SCALE; }                                                                \
    METHOD float scale() const { return (float)(SCALE * 1.4426950408889634); }                                         \
    METHOD float factor() const { return LATE ? scale() : 1; }                                                         \
    template <class M> METHOD rows<half> matrix_of(const M &m, int64_t head) const                                     \
    {                                                                                                                  \
        half *data = (half *)m.data + walk<LOOPS>(head, a.batch, m.batch);                                             \
        rows<half> r = {data, m.row, (int)m.count, (int)m.size, m.whole && (uint64_t)data % 16 == 0};                  \
        return r;                                                                                                      \
    }
#define MASK_OF(TYPE, MEMORY)                                                                                          \
    METHOD float mask(int64_t head, int query, int key) const                                                          \
    {                                                                                                                  \
        const int64_t row = walk<LOOPS>(head, a.batch, a.mask.batch) + query * a.mask.stride[0];                       \
        const MEMORY m = ((const MEMORY *)a.mask.data)[row + key * a.mask.stride[1]];                                  \
        return (float)mask_adds(get<TYPE>(m)) * 1.44269504f;                                                           \
    }
/* The gradient's scratch: by head and query, the logarithm of the sum of weights, and the mean of the gradient. */
#define ROW_SUMS_OF                                                                                                    \
    METHOD float *logs(int64_t head) const { return (float *)a.scratch + head * a.queries; }                           \
    METHOD float *means(int64_t head) const { return logs(a.heads + head); }
#define EACH_ATTENTION(PASS)                                                                                           \
    const attending c = {a};                                                                                           \
    for (int64_t job = block; job < a.jobs; job += blocks) PASS(c, job);

/* ---- matrices of 16-bit floats in memory ---- */

template <class T>
DEVICE bool
is_real(T x) /* neither infinite nor NaN */
{
    enum { EXPONENT = same<T, bf16>::IS ? 0x7f80 : 0x7c00 };
    return (x.bits & EXPONENT) != EXPONENT;
}
#if MATRICES
DEVICE uint32_t
rounded(float low, float high, bf16)
{
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
DEVICE uint32_t
rounded(float low, float high, f16)
{
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
#else
template <class T>
DEVICE uint32_t
rounded(float low, float high, T)
{
    return pair_of(put<T>(low), put<T>(high));
}
#endif

/* A matrix of `count` rows of `size` elements of 16 bits. whole: true if the address of each row, and its length
 * in bytes, are multiples of 16. */
template <class T> struct rows {
    T *data;
    int64_t stride;
    int count, size;
    bool whole;

    METHOD T at(int r, int c) const
    {
        const T zero = {0};
        return r < count && c < size ? data[r * stride + c] : zero;
    }
    METHOD uint32_t pair(int r, int c) const
    {
        if (whole) return r < count && c < size ? *(const uint32_t *)(data + r * stride + c) : 0;
        return pair_of(at(r, c), at(r, c + 1));
    }
    /* Returns true if rows r to r + N - 1 exist, `whole` is set, and rows have WIDE elements. Threads then step
     * through memory without checks. */
    template <int N, int WIDE> METHOD bool has(int r) const { return whole && r + N <= count && size == WIDE; }
    METHOD void set(int r, int c, float low, float high) const
    {
        if (r >= count || c >= size) return;
        if (whole) {
            *(uint32_t *)(data + r * stride + c) = rounded(low, high, T());
            return;
        }
        data[r * stride + c] = put<T>(low);
        if (c + 1 < size) data[r * stride + c + 1] = put<T>(high);
    }
};

/* ---- loading the left operands of a warp's products ---- */

/* Loads rows r to r + 15, columns c to c + 15, of a matrix in memory as a left operand. */
template <class T>
DEVICE void
left_of(const rows<T> &x, int r, int c, uint32_t (&to)[4])
{
    for (int i = 0; i < 4; i++) to[i] = x.pair(r + row_of(i % 2 * 2), c + column_of(0) + i / 2 * 8);
}
/* Rounds two neighbouring fragments of sums, and makes a left operand of them. */
template <class T>
DEVICE void
left_of(const float (&low)[4], const float (&high)[4], uint32_t (&to)[4])
{
    to[0] = rounded(low[0], low[1], T());
    to[1] = rounded(low[2], low[3], T());
    to[2] = rounded(high[0], high[1], T());
    to[3] = rounded(high[2], high[3], T());
}

/* Returns the x of another thread of the warp: the thread whose number differs from this thread's by the bit
 * `distance`. greatest_of_row() and sum_of_row() combine the four threads that share a row. */
#ifdef __CUDACC_RTC__
DEVICE float
from_thread(float x, int distance)
{
    return __shfl_xor_sync(0xffffffffu, x, distance);
}
#else
DEVICE float
from_thread(float x, int distance)
{
    __shared__ float given[32 * WARPS];
    given[threadIdx.x] = x;
    __syncthreads();
    const float y = given[threadIdx.x ^ distance];
    __syncthreads();
    return y;
}
#endif
DEVICE float
greatest_of_row(float x)
{
    x = fmaxf(x, from_thread(x, 1));
    return fmaxf(x, from_thread(x, 2));
}
DEVICE float
sum_of_row(float x)
{
    x += from_thread(x, 1);
    return x + from_thread(x, 2);
}

/* Marks a rare branch. The empty asm keeps compilers from replacing the branch by predicated instructions, which
 * would take time even if the branch is not taken. */
DEVICE void
seldom()
{
#if MATRICES
    asm volatile("");
#endif
}
/* Returns true if `is` holds on all threads of the warp. On the host, returns false, because threads cannot vote
 * there. */
DEVICE bool
all_agree(bool is)
{
#ifdef __CUDACC_RTC__
    return __all_sync(0xffffffffu, is);
#else
    return false && is;
#endif
}

/* Returns 2^x. As in all kernels, results below the normal range are 0. */
DEVICE float
power_of_2(float x)
{
#if MATRICES
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* ---- copying tiles to shared memory, and multiplying by tiles ---- */

/* Starts to copy eight elements to shared memory; if `there` is false, writes eight zeros instead. The copy is
 * complete after tiles_wait(). */
enum { UNIT = 8 };
template <class T>
DEVICE void
bring_unit(T *to, const T *from, bool there)
{
#if MATRICES
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
#else
    for (int k = 0; k < UNIT; k++) to[k] = there ? from[k] : T();
#endif
}
/* Starts to copy one float to shared memory; the copy is complete after tiles_wait(). */
DEVICE void
bring_number(float *to, const float *from)
{
#if MATRICES
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
#else
    *to = *from;
#endif
}

/* Starts to copy rows `first` to first + N - 1 of a matrix. All threads take part. Rows after the matrix's last
 * row are filled with zeros. */
template <int N, int WIDE, class T, int PITCH>
DEVICE void
tile_bring(T (*tile)[PITCH], const rows<T> &x, int first)
{
    enum {
        UNITS = WIDE / UNIT,
        THREADS = 32 * WARPS,
        TURNS = (N * UNITS + THREADS - 1) / THREADS,
        STEP = THREADS / UNITS
    };
    enum { EVEN = THREADS % UNITS == 0 && STEP % 8 == 0 && N % STEP == 0 }; /* each thread copies one column of units */
    if (!x.whole) {
#pragma unroll 1
        for (int u = threadIdx.x; u < N * WIDE; u += 32 * WARPS) {
            const int r = u / WIDE, c = u % WIDE;
            tile[r][column_in<PITCH>(r, c)] = x.at(first + r, c);
        }
        return;
    }
    if (EVEN && x.template has<N, WIDE>(first)) {
        const int r = threadIdx.x / UNITS, c = threadIdx.x % UNITS * UNIT;
        const T *from = x.data + (first + r) * x.stride + c;
        T *const to = &tile[r][column_in<PITCH>(r, c)];
#pragma unroll
        for (int i = 0; i < TURNS; i++) bring_unit(to + i * STEP * PITCH, from + i * STEP * x.stride, true);
        return;
    }
    seldom();
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        const int u = threadIdx.x + i * THREADS, r = u / UNITS, c = u % UNITS * UNIT;
        if (N * UNITS % THREADS && u >= N * UNITS) break;
        const bool there = first + r < x.count && c < x.size;
        bring_unit(&tile[r][column_in<PITCH>(r, c)], there ? x.data + (first + r) * x.stride + c : x.data, there);
    }
}
/* Starts to copy N rows of both matrices, from `first` on. Does nothing if `first` is not before `end`. */
template <int N, int D, int W, class T, int PITCH, int PITCH_Y>
DEVICE void
tiles_bring(T (*xs)[PITCH], const rows<T> &x, T (*ys)[PITCH_Y], const rows<T> &y, int first, int end)
{
    if (first < end) {
        tile_bring<N, D>(xs, x, first);
        tile_bring<N, W>(ys, y, first);
    }
}
/* Waits until all threads' started copies are complete, and no thread still reads the tiles of the previous
 * iteration. Do not start copies for a later iteration before this call, because the fence for products of
 * warpgroups waits for all copies. */
DEVICE void
tiles_wait()
{
#if MATRICES
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif
    tell_groups();
    __syncthreads();
}

/* Replaces infinities and NaN in a tile by 0. Otherwise a key that a query must not see could spoil its result,
 * because weight 0 times infinity is NaN. Returns true if any element was replaced. */
template <int N, int WIDE, class T, int PITCH>
DEVICE bool
tile_clean(T (*tile)[PITCH])
{
    struct __align__(16) unit { T of[UNIT]; };
    bool any = false;
    for (int u = threadIdx.x; u < N * WIDE / UNIT; u += 32 * WARPS) {
        /* Elements are replaced in place, so the order of a row's elements (swizzle) does not matter. */
        unit *const at = (unit *)&tile[u / (WIDE / UNIT)][u % (WIDE / UNIT) * UNIT];
        unit x = *at;
        bool odd = false;
#pragma unroll
        for (int i = 0; i < UNIT; i++) odd |= !is_real(x.of[i]);
        if (!odd) continue;
        for (int i = 0; i < UNIT; i++)
            if (!is_real(x.of[i])) x.of[i] = T();
        *at = x;
        any = true;
    }
    tell_groups();
    return __syncthreads_or(any);
}
/* Adds the elements that tile_clean() replaced by 0 to the sums of the rows that see them. sees(row, n): true if
 * row `row` of `sum` sees row n of the tile. */
template <int N, int WIDE, class T, class Sees>
DEVICE void
add_odd(float (&sum)[WIDE / 8][4], const rows<T> &x, int first, Sees sees)
{
#pragma unroll 1
    for (int n = 0; n < N && first + n < x.count; n++)
#pragma unroll
        for (int j = 0; j < WIDE / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const T v = x.at(first + n, 8 * j + column_of(i));
                if (!is_real(v) && sees(row_of(i), n)) sum[j][i] += widen(v);
            }
}

template <int N>
DEVICE void
clear(float (&sum)[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 4; i++) sum[j][i] = 0;
}

/* Loads 16 rows as left operands. */
template <int WIDE, class T>
DEVICE void
left_all(const rows<T> &x, int r, uint32_t (&to)[WIDE / 16][4])
{
    if (x.template has<16, WIDE>(r)) {
        const T *const at = x.data + (r + row_of(0)) * x.stride + column_of(0);
#pragma unroll
        for (int i = 0; i < WIDE / 16; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) to[i][k] = *(const uint32_t *)(at + k % 2 * 8 * x.stride + 16 * i + k / 2 * 8);
        return;
    }
    seldom();
#pragma unroll
    for (int i = 0; i < WIDE / 16; i++) left_of(x, r, 16 * i, to[i]);
}
/* Stores 16 rows of sums as rows r to r + 15 of a result; multiplies each row by its factor. */
template <int WIDE, class T>
DEVICE void
store_all(const rows<T> &to, int r, const float (&sum)[WIDE / 8][4], const float (&factor)[2])
{
    if (to.template has<16, WIDE>(r)) {
        T *const at = to.data + (r + row_of(0)) * to.stride + column_of(0);
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int j = 0; j < WIDE / 8; j++)
                *(uint32_t *)(at + h * 8 * to.stride + 8 * j) =
                    rounded(sum[j][2 * h] * factor[h], sum[j][2 * h + 1] * factor[h], T());
        return;
    }
    seldom();
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < WIDE / 8; j++)
            to.set(r + row_of(2 * h), 8 * j + column_of(0), sum[j][2 * h] * factor[h], sum[j][2 * h + 1] * factor[h]);
}

/* Computes sum += x y^T for columns k to k + 15. x: a left operand; y: a tile of N rows. */
template <int N, class T, int PITCH>
DEVICE void
add_scores(float (&sum)[N / 8][4], const uint32_t (&x)[4], T (*tile)[PITCH], int k)
{
#pragma unroll
    for (int n = 0; n < N / 16; n++) {
        uint32_t y[2][2];
        right_across(tile, 16 * n, k, y);
        multiply_add(sum[2 * n], x, y[0], T());
        multiply_add(sum[2 * n + 1], x, y[1], T());
    }
}
/* Computes sum = x y^T for 16 x WIDE left operands x and a tile y of N rows. The results of this function and of
 * add_weighed() are valid after scores_wait(). */
template <int N, int WIDE, class T, int PITCH>
DEVICE void
scores_of(float (&sum)[N / 8][4], const uint32_t (&x)[WIDE / 16][4], T (*tile)[PITCH])
{
    if constexpr (PITCH == GROUP) {
        group_multiply<false>(sum, x, tile, false);
    } else {
        clear(sum);
#pragma unroll
        for (int k = 0; k < WIDE / 16; k++) add_scores<N>(sum, x[k], tile, 16 * k);
    }
}
/* Like the other scores_of(), but loads rows r to r + 15 of x from memory, 16 columns at a time. Used if registers
 * cannot hold all of x. */
template <int N, int WIDE, class T, int PITCH>
DEVICE void
scores_of(float (&sum)[N / 8][4], const rows<T> &x, int r, T (*tile)[PITCH])
{
    clear(sum);
#pragma unroll 1
    for (int k = 0; k < WIDE / 16; k++) {
        uint32_t left[4];
        left_of(x, r, 16 * k, left);
        add_scores<N>(sum, left, tile, 16 * k);
    }
}
/* Computes sum += w y. w: 16 x N, rounded to 16 bits; y: a tile of N rows. */
template <int N, int WIDE, class T, int PITCH>
DEVICE void
add_weighed(float (&sum)[WIDE / 8][4], const float (&w)[N / 8][4], T (*tile)[PITCH])
{
    if constexpr (PITCH == GROUP) {
        uint32_t left[N / 16][4];
#pragma unroll
        for (int n = 0; n < N / 16; n++) left_of<T>(w[2 * n], w[2 * n + 1], left[n]);
        group_multiply<true>(sum, left, tile, true);
    } else {
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            uint32_t left[4];
            left_of<T>(w[2 * n], w[2 * n + 1], left);
#pragma unroll
            for (int j = 0; j < WIDE / 16; j++) {
                uint32_t y[2][2];
                right_along(tile, 16 * n, 16 * j, y);
                multiply_add(sum[2 * j], left, y[0], T());
                multiply_add(sum[2 * j + 1], left, y[1], T());
            }
        }
    }
}
/* Waits for all products except the last LATER ones. Afterwards `sum` may be read. */
template <int LATER, int N>
DEVICE void
scores_wait(float (&sum)[N][4])
{
    groups_wait<LATER>();
    are_there(sum);
}
/* ---- scaling and masking the scores of a block of queries ---- */

/* The block of queries that job number `job` computes. Jobs are numbered such that queries that see the most keys
 * come first, so that the longest jobs start first. */
template <class Call> struct queries_at {
    const Call &call;
    int64_t head;
    /* first: first query of the block. own: first query of the warp. nseen: number of keys that some query of the
     * block sees. */
    int first, own, nseen;

    METHOD queries_at(const Call &call_, int64_t job) : call(call_)
    {
        const int64_t blocks = (call.queries() + OWN - 1) / OWN;
        head = job % call.heads();
        first = (int)(blocks - 1 - job / call.heads()) * OWN;
        own = first + threadIdx.x / 32 * 16;
        const int64_t seen = call.place() + first + OWN;
        nseen = (int)(Call::CAUSAL && seen < call.keys() ? seen : call.keys());
    }
    /* Returns true if some query of the block does not see all keys before key `end`. */
    METHOD bool is_edge(int end) const { return Call::CAUSAL && call.place() + first < end - 1; }
    METHOD bool sees(int row, int key) const
    {
        return key < nseen && (!Call::CAUSAL || key <= call.place() + own + row);
    }
    /* Returns the number of keys that a row sees. */
    METHOD int behind(int row) const
    {
        const int64_t seen = Call::CAUSAL ? call.place() + own + row + 1 : nseen;
        return (int)(seen < nseen ? seen : nseen);
    }
    /* Sets the scores of unseen keys to `hidden`. s: scores of N keys, from key `from` on. */
    template <int N> METHOD void hide(float (&s)[N / 8][4], int from, float hidden) const
    {
        const int end[2] = {behind(row_of(0)) - from - column_of(0), behind(row_of(2)) - from - column_of(0)};
        seldom();
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (8 * n + i % 2 >= end[i / 2]) s[n][i] = hidden;
    }
    /* Returns true if every query of the block sees all n keys from `from` on. */
    METHOD bool is_whole(int from, int n) const { return from + n <= nseen && !is_edge(from + n); }
    /* Completes the scores of N keys, from key `from` on: scales and masks them. A completed score times
     * call.factor() is the base-2 logarithm of the key's weight. */
    template <int N> METHOD void finish(float (&s)[N / 8][4], int from, bool whole) const
    {
        if (!Call::LATE)
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int key = from + 8 * n + column_of(i), row = row_of(i);
                    s[n][i] *= call.scale();
                    if (Call::MASKED && key < nseen && own + row < call.queries())
                        s[n][i] += call.mask(head, own + row, key);
                }
        if (!whole) hide<N>(s, from, -INFINITY);
    }
};

/* Returns the value to subtract from a row's scores: the maximum; 0 if the row has not seen a key yet. */
DEVICE float
base_of(float most)
{
    return most == -INFINITY ? 0 : most;
}

/* Returns 1 / sum, the factor that turns a row's exponentials into weights. sum: the sum of the exponentials; if
 * it is 0, the row sees no key, and the factor is 0. */
DEVICE float
inverse_of(float sum)
{
    return sum == 0 ? 0 : 1 / sum;
}

/* State of the softmax of a thread's two rows: maximum score and sum of exponentials so far. */
struct softmax_of {
    float most[2], sum[2];
};

/* Replaces scores by exponentials relative to the maximum so far. less[]: receives, per row, the factor that
 * rescales sums from the previous maximum to the new one. */
template <int N>
DEVICE void
weigh(softmax_of &f, float (&s)[N / 8][4], float factor, float (&less)[2])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = f.most[h], sum = 0;
#pragma unroll
        for (int n = 0; n < N / 8; n++) most = fmaxf(most, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        most = greatest_of_row(most);
        const float base = base_of(most) * factor;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; i++) sum += s[n][i] = power_of_2(fmaf(s[n][i], factor, -base));
        less[h] = power_of_2(fmaf(f.most[h], factor, -base));
        f.sum[h] = f.sum[h] * less[h] + sum;
        f.most[h] = most;
    }
}

/* Multiplies sums by the factors that weigh() returned in less[]. */
template <int N>
DEVICE void
lessen(float (&sum)[N][4], const float (&less)[2])
{
    if (all_agree(less[0] == 1 && less[1] == 1)) return;
    seldom();
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum[j][i] *= less[i / 2];
}

/* ---- forward ---- */

enum { NEAR = 64, ROOM = 48 << 10 };
/* Padding of a tile's rows against bank conflicts, elements. Tiles for products of warpgroups have no padding. */
template <int D, int W> struct padding {
    enum { PAD = WARPGROUPS && D == GROUP && W == GROUP ? 0 : 8 };
};

template <class Call>
DEVICE void
attention_forward(const Call &call, int64_t job)
{
    typedef typename Call::half half;
    enum { D = Call::SIZE, W = Call::WIDTH, PAD = padding<D, W>::PAD, BYTES = NEAR * (D + W + 2 * PAD) * 2 };
    enum { STAGES = 2 * BYTES <= ROOM ? 2 : 1 };
    __shared__ __align__(1024) half keys[STAGES][NEAR][D + PAD], values[STAGES][NEAR][W + PAD];
    const queries_at<Call> at(call, job);
    const rows<half> q = call.q(at.head), k = call.k(at.head), v = call.v(at.head), y = call.y(at.head);
    uint32_t query[D / 16][4];
    float sum[W / 8][4];
    softmax_of f = {{-INFINITY, -INFINITY}, {0, 0}};
    const auto bring_keys = [&](int stage, int from) {
        tiles_bring<NEAR, D, W>(keys[stage], k, values[stage], v, from, at.nseen);
    };
    __syncthreads(); /* waits until the previous job has read its tiles */
    bring_keys(0, 0);
    clear(sum);
    left_all<D>(q, at.own, query);
    for (int from = 0, stage = 0; from < at.nseen; from += NEAR, stage = (stage + 1) % STAGES) {
        tiles_wait();
        if (STAGES == 2) bring_keys((stage + 1) % STAGES, from + NEAR);
        const bool odd = at.is_edge(from + NEAR) && tile_clean<NEAR, W>(values[stage]);
        float s[NEAR / 8][4], less[2];
        scores_of<NEAR, D>(s, query, keys[stage]);
        scores_wait<0>(s);
        at.template finish<NEAR>(s, from, at.is_whole(from, NEAR));
        weigh<NEAR>(f, s, call.factor(), less);
        lessen(sum, less);
        add_weighed<NEAR, W>(sum, s, values[stage]);
        scores_wait<0>(sum);
        if (odd) add_odd<NEAR, W>(sum, v, from, [&](int row, int n) { return at.sees(row, from + n); });
        if (STAGES == 2) continue;
        __syncthreads();
        bring_keys(0, from + NEAR);
    }
    const float part[2] = {inverse_of(sum_of_row(f.sum[0])), inverse_of(sum_of_row(f.sum[1]))};
    store_all<W>(y, at.own, sum, part);
}

/* ---- backward ---- */

/* Computes mean[h] for each of the two queries of a thread: the mean of the query's row of t = dout v^T, weighted by
 * the softmax weights. This mean equals the dot product of the query's rows of dout and out, and is computed so.
 * slope: the queries' rows of dout, in the register layout of a product's left operand. */
template <int W, class T>
DEVICE void
means_of(const uint32_t (&slope)[W / 16][4], const rows<T> &out, int own, float (&mean)[2])
{
    uint32_t left[W / 16][4];
    mean[0] = mean[1] = 0;
    left_all<W>(out, own, left);
#pragma unroll
    for (int k = 0; k < W / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int which = 0; which < 2; which++)
                mean[i % 2] = fmaf(half_of<T>(slope[k][i], which), half_of<T>(left[k][i], which), mean[i % 2]);
    for (int h = 0; h < 2; h++) mean[h] = sum_of_row(mean[h]);
}

/* Computes dq, and two numbers per query for attention_keys(): the base-2 logarithm of the query's sum of
 * exponentials, and its mean of t. Exponentials are relative to the maximum score so far, as in the forward pass. */
template <class Call>
DEVICE void
attention_queries(const Call &call, int64_t job)
{
    typedef typename Call::half half;
    enum { D = Call::SIZE, W = Call::WIDTH, PAD = padding<D, W>::PAD, BYTES = NEAR * (D + W + 2 * PAD) * 2 };
    enum { STAGES = 2 * BYTES <= ROOM ? 2 : 1 };
    __shared__ __align__(1024) half keys[STAGES][NEAR][D + PAD], values[STAGES][NEAR][W + PAD];
    const queries_at<Call> at(call, job);
    const rows<half> q = call.q(at.head), k = call.k(at.head), v = call.v(at.head), g = call.g(at.head);
    uint32_t query[D / 16][4], slope[W / 16][4];
    float sum[D / 8][4], mean[2];
    softmax_of f = {{-INFINITY, -INFINITY}, {0, 0}};
    const auto bring_keys = [&](int stage, int from) {
        tiles_bring<NEAR, D, W>(keys[stage], k, values[stage], v, from, at.nseen);
    };
    __syncthreads(); /* waits until the previous job has read its tiles */
    bring_keys(0, 0);
    clear(sum);
    left_all<D>(q, at.own, query);
    left_all<W>(g, at.own, slope);
    means_of<W>(slope, call.out(at.head), at.own, mean);
    for (int from = 0, stage = 0; from < at.nseen; from += NEAR, stage = (stage + 1) % STAGES) {
        tiles_wait();
        if (STAGES == 2) bring_keys((stage + 1) % STAGES, from + NEAR);
        const bool whole = at.is_whole(from, NEAR);
        float s[NEAR / 8][4], t[NEAR / 8][4], less[2];
        scores_of<NEAR, D>(s, query, keys[stage]);
        scores_of<NEAR, W>(t, slope, values[stage]);
        scores_wait<1>(s);
        at.template finish<NEAR>(s, from, whole);
        weigh<NEAR>(f, s, call.factor(), less);
        lessen(sum, less);
        scores_wait<0>(t);
        if (!whole) at.template hide<NEAR>(t, from, 0);
#pragma unroll
        for (int n = 0; n < NEAR / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[n][i] *= t[n][i] - mean[i / 2];
        bool odd = false;
        if (at.is_edge(from + NEAR)) {
            at.template hide<NEAR>(s, from, 0);
            __syncthreads(); /* waits until all warps have read the keys for their scores */
            odd = tile_clean<NEAR, D>(keys[stage]);
        }
        add_weighed<NEAR, D>(sum, s, keys[stage]);
        scores_wait<0>(sum);
        if (odd) add_odd<NEAR, D>(sum, k, from, [&](int row, int n) { return at.sees(row, from + n); });
        if (STAGES == 2) continue;
        __syncthreads();
        bring_keys(0, from + NEAR);
    }
    float part[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float all = sum_of_row(f.sum[h]);
        const int row = at.own + row_of(2 * h);
        part[h] = call.slope() * inverse_of(all);
        if (lane() % 4 == 0 && row < call.queries()) {
            call.logs(at.head)[row] = all == 0 ? INFINITY : fmaf(base_of(f.most[h]), call.factor(), log2f(all));
            call.means(at.head)[row] = mean[h];
        }
    }
    if (call.wants_dq()) store_all<D>(call.dq(at.head), at.own, sum, part);
}

/* A number for each of two neighbouring queries. */
struct __align__(8) pair_of_floats { float of[2]; };

/* Computes dk and dv of a block of keys. Left operands stay in registers if rows are short. */
template <class Call>
DEVICE void
attention_keys(const Call &call, int64_t job)
{
    typedef typename Call::half half;
    enum { D = Call::SIZE, W = Call::WIDTH, KEPT = D + W <= 128, N = KEPT ? NEAR : NEAR / 2 };
    enum { PAD = padding<D, W>::PAD, BYTES = N * (D + W + 2 * PAD) * 2, STAGES = 2 * BYTES <= ROOM - 2048 ? 2 : 1 };
    __shared__ __align__(1024) half queries[STAGES][N][D + PAD], slopes[STAGES][N][W + PAD];
    __shared__ pair_of_floats logs[STAGES][N / 2], means[STAGES][N / 2];
    const int64_t head = job % call.heads();
    const int block = (int)(job / call.heads()) * OWN, own = block + threadIdx.x / 32 * 16;
    const int nquery = (int)call.queries(), nkey = (int)call.keys();
    const rows<half> q = call.q(head), k = call.k(head), v = call.v(head), g = call.g(head);
    const int64_t earlier = block - call.place(); /* number of queries that see none of these keys */
    const int begin = Call::CAUSAL && earlier > 0 ? (int)(earlier < nquery ? earlier : nquery) / N * N : 0;
    uint32_t key[KEPT ? D / 16 : 1][4], value[KEPT ? W / 16 : 1][4];
    float dk[D / 8][4], dv[W / 8][4];
    const auto bring_queries = [&](int stage, int from) {
        const int at = threadIdx.x % N;
        const bool mean = threadIdx.x >= N;
        if (threadIdx.x < 2 * N && from + at < nquery)
            bring_number(&(mean ? means : logs)[stage][at / 2].of[at % 2],
                         (mean ? call.means(head) : call.logs(head)) + from + at);
        tiles_bring<N, D, W>(queries[stage], q, slopes[stage], g, from, nquery);
    };
    __syncthreads();
    bring_queries(0, begin);
    clear(dk);
    clear(dv);
    if constexpr (KEPT) {
        left_all<D>(k, own, key);
        left_all<W>(v, own, value);
    }
    for (int from = begin, stage = 0; from < nquery; from += N, stage = (stage + 1) % STAGES) {
        const auto sees = [&](int row, int n) {
            return own + row < nkey && from + n < nquery && (!Call::CAUSAL || own + row <= call.place() + from + n);
        };
        tiles_wait();
        if (STAGES == 2) bring_queries((stage + 1) % STAGES, from + N);
        const bool whole =
            from + N <= nquery && block + OWN <= nkey && (!Call::CAUSAL || block + OWN - 1 <= call.place() + from);
        float s[N / 8][4], t[N / 8][4];
        if constexpr (KEPT) {
            scores_of<N, D>(s, key, queries[stage]);
            scores_of<N, W>(t, value, slopes[stage]);
        } else {
            scores_of<N, D>(s, k, own, queries[stage]);
            scores_of<N, W>(t, v, own, slopes[stage]);
        }
        scores_wait<1>(s);
#pragma unroll
        for (int n = 0; n < N / 8; n++) {
            const pair_of_floats log = logs[stage][4 * n + column_of(0) / 2];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = 8 * n + column_of(i), row = row_of(i);
                float score = s[n][i];
                if (!Call::LATE) score *= call.scale();
                if (Call::MASKED && (whole || sees(row, at))) score += call.mask(head, from + at, own + row);
                s[n][i] = power_of_2(fmaf(score, call.factor(), -log.of[i % 2]));
            }
        }
        scores_wait<0>(t);
#pragma unroll
        for (int n = 0; n < N / 8; n++) {
            const pair_of_floats mean = means[stage][4 * n + column_of(0) / 2];
#pragma unroll
            for (int i = 0; i < 4; i++) t[n][i] = s[n][i] * (t[n][i] - mean.of[i % 2]);
        }
        if (!whole) {
            seldom();
            /* For each of the thread's keys. begin: first query that sees the key. count: number of queries that
             * see the key. */
            int begin[2], count[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int row = own + row_of(2 * h);
                const int64_t first = Call::CAUSAL ? row - call.place() - from : 0;
                const int end = row < nkey ? nquery - from : 0;
                begin[h] = (int)(first < 0 ? 0 : first < N ? first : (int64_t)N);
                count[h] = end > begin[h] ? end - begin[h] : 0;
                begin[h] -= column_of(0);
            }
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if ((unsigned)(8 * n + i % 2 - begin[i / 2]) >= (unsigned)count[i / 2]) s[n][i] = t[n][i] = 0;
        }
        const bool edge = Call::CAUSAL && !whole;
        if (edge) __syncthreads(); /* waits until all warps have read the tiles, which tile_clean() changes */
        const bool odd_q = edge && tile_clean<N, D>(queries[stage]), odd_g = edge && tile_clean<N, W>(slopes[stage]);
        add_weighed<N, W>(dv, s, slopes[stage]);
        add_weighed<N, D>(dk, t, queries[stage]);
        scores_wait<0>(dv);
        are_there(dk);
        if (odd_g) add_odd<N, W>(dv, g, from, sees);
        if (odd_q) add_odd<N, D>(dk, q, from, sees);
        if (STAGES == 2) continue;
        __syncthreads();
        bring_queries(0, from + N);
    }
    const float slope[2] = {call.slope(), call.slope()}, one[2] = {1, 1};
    if (call.wants_dk()) store_all<D>(call.dk(head), own, dk, slope);
    if (call.wants_dv()) store_all<W>(call.dv(head), own, dv, one);
}
