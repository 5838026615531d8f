/* device.cuh - what every kernel's text begins with: elements of memory, random words, lines shared by a block.
 *
 * Compiled by NVRTC for GPUs and, with t/host/shim.h before it, by C++ compilers for the host. Numbers behave as on the
 * cpu: bf16 and f16 are computed as f32 and rounded to the nearest, of two the even one (runtime/half.h); reals become
 * integers cut towards zero and held in range, NaN 0 (runtime/type.h); Philox gives the words of runtime/rng.h. */
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INFINITY   __int_as_float(0x7f800000)
#define NAN        __int_as_float(0x7fffffff)
#define M_PI       3.14159265358979323846
#define M_SQRT1_2  0.70710678118654752440
#define INT64_MIN  (-9223372036854775807LL - 1)
#define INT64_MAX  9223372036854775807LL
#define DEVICE     inline __device__
#define METHOD     __device__
#define FLUSHED(x) flushed(x)
/* What is too small is zero for all who read it: a comparison may be compiled to one that would see it. */
DEVICE float
flushed(float x)
{
    float y;
    asm("mul.ftz.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));
    return y;
}
#endif

/* ---- elements ---- */

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};
struct truth {
    uint8_t byte;
};

template <class To, class From>
DEVICE To
bits_as(From x)
{
    static_assert(sizeof(To) == sizeof(From), "bits are kept");
    union {
        From from;
        To to;
    } u;
    u.from = x;
    return u.to;
}

DEVICE float
widen(bf16 x)
{
    return bits_as<float>((uint32_t)x.bits << 16);
}
DEVICE float
widen(f16 h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, rest = (uint32_t)(h.bits & 0x7fff) << 13;
    uint32_t small = bits_as<uint32_t>(bits_as<float>(rest | 113u << 23) - 6.103515625e-05f /* 2^-14 */);
    uint32_t finite = rest < 1u << 23 ? small : rest + (112u << 23), special = rest | 0x7f800000;
    return bits_as<float>(sign | (rest >= 31u << 23 ? special : finite));
}
DEVICE int64_t
widen(truth x)
{
    return x.byte != 0;
}
DEVICE float
widen(float x)
{
    return FLUSHED(x);
}
DEVICE double
widen(double x)
{
    return x;
}
DEVICE int64_t
widen(int64_t x)
{
    return x;
}
DEVICE int64_t
widen(int32_t x)
{
    return x;
}
DEVICE int64_t
widen(uint8_t x)
{
    return x;
}

/* An element of memory in the type that a call computes in. */
template <class C, class M>
DEVICE C
get(M x)
{
    return (C)widen(x);
}

/* A double as the float from which halves are rounded: cut towards zero, its last bit set where it is inexact. */
DEVICE float
odd_of(double d)
{
    float f = (float)d;
    uint32_t u = bits_as<uint32_t>(f);
    u -= fabs((double)f) > fabs(d);
    return bits_as<float>(u | ((double)f != d));
}
DEVICE float
as_float(float x)
{
    return x;
}
DEVICE float
as_float(double x)
{
    return odd_of(x);
}
template <class C>
DEVICE float
as_float(C x)
{
    return odd_of((double)x);
}

DEVICE bf16
round_to(float x, bf16)
{
    uint32_t u = bits_as<uint32_t>(x), rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, quiet = u >> 16 | 0x40;
    bf16 y = {(uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : rounded)};
    return y;
}
DEVICE f16
round_to(float x, f16)
{
    uint32_t u = bits_as<uint32_t>(x), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    uint32_t tiny = bits_as<uint32_t>(bits_as<float>(u) + 0.5f) - bits_as<uint32_t>(0.5f);
    uint32_t normal = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t finite = u < 0x38800000 ? tiny : normal;
    uint32_t special = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : 0x7c00;
    f16 y = {(uint16_t)(sign | (u >= 0x477ff000 ? special : finite))};
    return y;
}

/* Towards zero, held within lo..hi, whose successor is top; NaN is 0. */
template <class R>
DEVICE int64_t
cut(R x, int64_t lo, int64_t hi, R top)
{
    return x != x ? 0 : x < (R)lo ? lo : x >= top ? hi : (int64_t)x;
}

/* A result as an element of memory: put<M>(value). */
template <class M> struct putting;
#define PUT_HALF(M)                                                                                                    \
    template <> struct putting<M> {                                                                                    \
        template <class C> static METHOD M of(C x) { return round_to(as_float(x), M()); }                              \
    };
PUT_HALF(bf16)
PUT_HALF(f16)
template <> struct putting<truth> {
    template <class C> static METHOD truth of(C x)
    {
        truth y = {(uint8_t)(x != 0)};
        return y;
    }
};
template <> struct putting<float> {
    template <class C> static METHOD float of(C x) { return (float)x; }
};
template <> struct putting<double> {
    template <class C> static METHOD double of(C x) { return (double)x; }
};
#define PUT_INTEGER(M, lo, hi, top)                                                                                    \
    template <> struct putting<M> {                                                                                    \
        static METHOD M of(float x) { return (M)cut(x, lo, hi, (float)top); }                                          \
        static METHOD M of(double x) { return (M)cut(x, lo, hi, (double)top); }                                        \
        static METHOD M of(int64_t x) { return (M)x; }                                                                 \
        template <class C> static METHOD M of(C x) { return (M)x; }                                                    \
    };
PUT_INTEGER(uint8_t, 0, 255, 256)
PUT_INTEGER(int32_t, -2147483647 - 1, 2147483647, 2147483648.0)
PUT_INTEGER(int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0)

template <class M, class C>
DEVICE M
put(C x)
{
    return putting<M>::of(x);
}

/* ---- calls, as bodies of records see them ---- */

enum { DT_NONE };
struct attribute {
    bool set;
    int n;
    int64_t i;
    double f;
    int64_t list[17];
};
struct operand_type {
    int dtype; /* DT_NONE: absent */
};
struct call {
    attribute attr[9];
    operand_type in[13];
};
DEVICE bool
absent(const operand_type *t)
{
    return t->dtype == DT_NONE;
}

/* ---- random words: Philox4x32-10 ---- */

struct words {
    uint32_t of[4];
};
DEVICE words
philox(uint64_t key, uint64_t hi, uint64_t lo)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
    for (int i = 0; i < 10; i++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words w = {{c0, c1, c2, c3}};
    return w;
}
DEVICE uint64_t
rng_key(uint64_t seed, uint64_t ordinal)
{
    words w = philox(seed, 0x72696c6c65ull, ordinal);
    return (uint64_t)w.of[1] << 32 | w.of[0];
}
DEVICE uint32_t
rng_word(uint64_t key, uint64_t piece, uint64_t i)
{
    return philox(key, piece, i / 4).of[i % 4];
}
DEVICE uint64_t
rng_bits(uint64_t key, uint64_t piece, uint64_t i)
{
    words w = philox(key, piece, i / 2);
    return (uint64_t)w.of[i % 2 * 2 + 1] << 32 | w.of[i % 2 * 2];
}
DEVICE double
rng_uniform(uint64_t key, uint64_t piece, uint64_t i, int digits)
{
    if (digits <= 32) return ldexp((double)(rng_word(key, piece, i) >> (32 - digits)), -digits);
    return ldexp((double)(rng_bits(key, piece, i) >> (64 - digits)), -digits);
}
DEVICE double
box_muller(double u, double v, bool odd)
{
    double turn = 6.283185307179586476925 * v;
    return sqrt(-2.0 * log(u)) * (odd ? sin(turn) : cos(turn));
}
DEVICE double
rng_normal(uint64_t key, uint64_t piece, uint64_t i, bool f64)
{
    if (f64) {
        double u = ((double)(rng_bits(key, piece, i & ~1ull) >> 11) + 1.0) / 9007199254740992.0;
        return box_muller(u, (double)(rng_bits(key, piece, i | 1) >> 11) / 9007199254740992.0, i % 2);
    }
    double u = ((double)rng_word(key, piece, i & ~1ull) + 1.0) / 4294967296.0;
    return (float)box_muller(u, (double)rng_word(key, piece, i | 1) / 4294967296.0, i % 2);
}

/* The upper half of a product. */
DEVICE uint64_t
product_high(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* ---- places ---- */

/* The offset of position p of a walk over N loops, the last one fastest. P: of few positions divisions are short. */
template <int N, class P>
DEVICE int64_t
walk(P p, const int64_t *size, const int64_t *stride)
{
    int64_t offset = 0;
#pragma unroll
    for (int k = N - 1; k > 0; k--) {
        const P n = (P)size[k], rest = p / n;
        offset += (int64_t)(p - rest * n) * stride[k];
        p = rest;
    }
    return offset + (int64_t)p * stride[0];
}

/* V elements of a walk's innermost loop, which lie in one place, together, or `step` apart. */
enum lying { IN_PLACE, TOGETHER, APART };
template <class M, int V> struct __align__(sizeof(M) * V) pack {
    M of[V];
};
/* whole: packs that lie together begin where a pack may. */
template <int V, lying HOW, class M>
DEVICE pack<M, V>
bring(const M *from, int64_t step, bool whole)
{
    if (HOW == TOGETHER && whole) return *(const pack<M, V> *)from;
    pack<M, V> p;
#pragma unroll
    for (int i = 0; i < V; i++) p.of[i] = from[HOW == IN_PLACE ? 0 : HOW == TOGETHER ? i : i * step];
    return p;
}
template <int V, lying HOW, class M>
DEVICE void
leave(const pack<M, V> &p, M *to, int64_t step, bool whole)
{
    if (HOW == TOGETHER && whole) {
        *(pack<M, V> *)to = p;
        return;
    }
#pragma unroll
    for (int i = 0; i < V; i++) to[HOW == IN_PLACE ? 0 : HOW == TOGETHER ? i : i * step] = p.of[i];
}

DEVICE bool
is_nan(double x)
{
    return x != x;
}
DEVICE bool
is_nan(int64_t)
{
    return false;
}

/* ---- folds: many values become one ---- */

/* What a fold of reals chooses among them it may choose in any type that holds them: CHOOSES. */
struct sums {
    enum { CHOOSES = 0 };
    static METHOD float join(float a, float x) { return a + x; }
    static METHOD double join(double a, double x) { return a + x; }
    static METHOD int64_t join(int64_t a, int64_t x) { return (int64_t)((uint64_t)a + (uint64_t)x); }
};
struct products {
    enum { CHOOSES = 0 };
    static METHOD float join(float a, float x) { return a * x; }
    static METHOD double join(double a, double x) { return a * x; }
    static METHOD int64_t join(int64_t a, int64_t x) { return (int64_t)((uint64_t)a * (uint64_t)x); }
};
/* NaN wins. */
struct greatest {
    enum { CHOOSES = 1 };
    template <class C> static METHOD C join(C a, C x) { return x > a || x != x ? x : a; }
};
/* NaN does not count. */
struct greatest_number {
    enum { CHOOSES = 1 };
    template <class C> static METHOD C join(C a, C x) { return x > a || a != a ? x : a; }
};
struct least {
    enum { CHOOSES = 1 };
    template <class C> static METHOD C join(C a, C x) { return x < a || x != x ? x : a; }
};

/* A number as a float and what that lacks of it: x minus it is (x - high) - low, to the last digit of the difference. */
struct two_floats {
    float high, low;
};
DEVICE float
minus(float x, two_floats t)
{
    return x - t.high - t.low;
}
DEVICE double
minus(double x, double t)
{
    return x - t;
}
template <class C> struct splitting;
template <> struct splitting<float> {
    typedef two_floats type;
    static METHOD two_floats of(double x)
    {
        const float high = (float)x;
        const two_floats t = {high, high - high == 0 ? (float)(x - high) : 0};
        return t;
    }
};
template <> struct splitting<double> {
    typedef double type;
    static METHOD double of(double x) { return x; }
};

/* Is it one type? */
template <class A, class B> struct same {
    enum { IS = 0 };
};
template <class A> struct same<A, A> {
    enum { IS = 1 };
};

/* A number as an integer of the same order: zeros are equal, NaN is the greatest. */
DEVICE int64_t
order_of(double x)
{
    const int64_t bits = bits_as<int64_t>(x == 0 ? 0.0 : x);
    return x != x ? INT64_MAX : bits ^ (bits >> 63 & INT64_MAX);
}
DEVICE int64_t
order_of(int64_t x)
{
    return x;
}

/* What an entry of a mask adds to a score: itself, or, of truths, nothing to what is seen. */
template <class C>
DEVICE C
mask_adds(C x)
{
    return x;
}
DEVICE float
mask_adds(int64_t x)
{
    return x ? 0 : -INFINITY;
}

/* WIDTH threads that share a line of n elements, GAP apart: neighbours, or, where lines lie side by side in memory, those
 * of a column, so that neighbours read what lies together. HALVES: it is of halves, of which floats hold four and their
 * sum. All threads of a block do the same steps, also those that have no line: theirs has none, so that barriers are met
 * by all. */
template <int WIDTH, int GAP = 1, int HALVES = 0> struct team {
    int64_t n;
    bool here;    /* there is a line */
    double *room; /* 256, of the block */

    enum { THREADS = WIDTH, NEAR = GAP > 1 ? 1 : WIDTH < 32 ? WIDTH : 32, FAR = WIDTH / NEAR };
    static METHOD int64_t rank() { return threadIdx.x / GAP % WIDTH; }
    /* The place among the block's threads of the one that has rank r. */
    static METHOD int place_of(int64_t r) { return (int)(threadIdx.x + (r - rank()) * GAP); }
    template <class F> METHOD void each(F f) const
    {
        for (int64_t i = rank(); i < n; i += WIDTH) f(i);
    }
    /* to(i, from(i)) of all elements, four reads before the writes. */
    template <class From, class To> METHOD void each_of(From from, To to) const
    {
        int64_t i = rank();
        for (; i + 3 * WIDTH < n; i += 4 * WIDTH) {
            const auto x0 = from(i), x1 = from(i + WIDTH), x2 = from(i + 2 * WIDTH), x3 = from(i + 3 * WIDTH);
            to(i, x0), to(i + WIDTH, x1), to(i + 2 * WIDTH, x2), to(i + 3 * WIDTH, x3);
        }
        for (; i < n; i += WIDTH) to(i, from(i));
    }
    /* By one thread. */
    template <class F> METHOD void once(F f) const
    {
        if (here && rank() == 0) f();
    }
    /* f(j), by all threads, for each j of 0..count-1, in order, of which is(j); count is the same for all lines. */
    template <class Is, class F> METHOD void matching(int64_t count, Is is, F f) const
    {
        enum { DEEP = 4, FLAGS = WIDTH < 8 ? 1 : 8 }; /* a thread looks at so many j's before all meet */
        static_assert(GAP == 1, "flags of a line lie together");
        uint8_t *const all = (uint8_t *)room, *const mine = all + (threadIdx.x - rank());
        for (int64_t base = 0; base < count; base += DEEP * WIDTH) {
            bool found = false;
            for (int d = 0; d < DEEP; d++) {
                const int64_t j = base + d * WIDTH + rank();
                const bool it = here && j < count && is(j);
                all[d * blockDim.x + threadIdx.x] = it;
                found |= it;
            }
            if (!__syncthreads_or(found)) continue;
            for (int d = 0; d < DEEP; d++)
                for (int r = 0; r < WIDTH; r += FLAGS) {
                    const uint8_t *const flag = mine + d * blockDim.x + r;
                    if (FLAGS == 8 && *(const uint64_t *)flag == 0) continue;
                    for (int e = 0; e < FLAGS; e++)
                        if (flag[e]) f(base + d * WIDTH + r + e);
                }
            __syncthreads();
        }
    }
    /* Each of count values f(j), which is the same for all lines, told to all threads in order: to(j, value). */
    template <class F, class To> METHOD void sharing(int64_t count, F f, To to) const
    {
        for (int64_t base = 0; base < count; base += WIDTH) {
            room[threadIdx.x] = here && base + rank() < count ? f(base + rank()) : 0;
            __syncthreads();
            for (int64_t j = base; j < base + WIDTH && j < count; j++) to(j, room[place_of(j - base)]);
            __syncthreads();
        }
    }
    /* start joined with f(0..n-1), every thread gets it. */
    template <class Fold, class C, class F> METHOD C fold(C start, F f) const { return fold_of<Fold>(n, start, f); }
    /* The same where f gives floats, of which four are joined before they count. */
    template <class Fold, class F> METHOD double fold_near(double start, F f) const
    {
        return fold_of<Fold, 1>(n, start, f);
    }
    /* The greatest number of f(0..n-1), and the sum of exp(f(i) - greatest), in one pass. */
    template <class C, class F> METHOD void fold_exponentials(F f, double *most, double *sum) const
    {
        C m = -INFINITY;
        double s = 0;
        for (int64_t i = rank(); i < n; i += 4 * WIDTH) {
            C x[4], top = m, four = 0;
            for (int u = 0; u < 4; u++) x[u] = i + u * WIDTH < n ? (C)f(i + u * WIDTH) : -INFINITY;
            for (int u = 0; u < 4; u++) top = x[u] > top ? x[u] : top;
            if (top > m) s *= exp(m - top);
            m = top;
            for (int u = 0; u < 4; u++) four += m > -INFINITY ? exp(x[u] - m) : x[u] != x[u] ? x[u] : (C)0;
            s += four;
        }
        *most = fold_of<greatest_number>(here ? WIDTH : 0, (double)-INFINITY, [&](int64_t) { return m; });
        const C all = *most;
        *sum = fold_of<sums>(here ? WIDTH : 0, 0.0, [&](int64_t) { return m < all ? s * exp((double)m - all) : s; });
        if (n > 0 && all == -INFINITY) *sum = NAN; /* as exp(-inf + inf) is */
    }
    /* The same of f(0..count-1), in a tree that count, WIDTH and GAP alone decide. */
    template <class Fold, int FOURS = HALVES, class C, class F> METHOD C fold_of(int64_t count, C start, F f) const
    {
        static_assert(sizeof(C) == sizeof(double), "what is folded is a double or an int64_t");
        C value = start;
        int64_t i = rank();
        if (i < count) { /* the start counts once, in the first thread */
            const C x = (C)f(i);
            value = i == 0 ? Fold::join(value, x) : x;
            i += WIDTH;
        }
        for (; i + 3 * WIDTH < count; i += 4 * WIDTH) { /* reads that wait together */
            const auto x0 = f(i), x1 = f(i + WIDTH), x2 = f(i + 2 * WIDTH), x3 = f(i + 3 * WIDTH);
            if constexpr (same<decltype(f(i)), float>::IS && (FOURS || Fold::CHOOSES))
                value = Fold::join(value, (C)Fold::join(Fold::join(x0, x1), Fold::join(x2, x3)));
            else
                value = Fold::join(Fold::join(Fold::join(Fold::join(value, (C)x0), (C)x1), (C)x2), (C)x3);
        }
        for (; i < count; i += WIDTH) value = Fold::join(value, (C)f(i));
        return WIDTH == 1 ? value : joined<Fold>(count, value);
    }

  private:
    /* The value of the thread `up` ranks on, of NEAR neighbours. */
    template <class C> METHOD C from_near(C value, int up) const
    {
#ifdef __CUDACC_RTC__
        return __shfl_down_sync(0xffffffffu, value, up, NEAR);
#else
        C *const all = (C *)room;
        all[threadIdx.x] = value;
        __syncthreads();
        value = all[(rank() % NEAR + up < NEAR) ? threadIdx.x + up : threadIdx.x];
        __syncthreads();
        return value;
#endif
    }
    /* The values of ranks 0..count-1 as one: of NEAR neighbours in a tree, then those of these in order. */
    template <class Fold, class C> METHOD C joined(int64_t count, C value) const
    {
        C *const all = (C *)room;
        for (int half = NEAR / 2; half > 0; half /= 2) {
            const C other = from_near(value, half);
            if (rank() % NEAR < half && rank() + half < count) value = Fold::join(value, other);
        }
#ifdef __CUDACC_RTC__
        if (FAR == 1) return __shfl_sync(0xffffffffu, value, 0, NEAR);
#endif
        if (rank() % NEAR == 0) all[threadIdx.x] = value;
        __syncthreads();
        value = all[place_of(0)];
        for (int r = NEAR; r < FAR * NEAR && r < count; r += NEAR) value = Fold::join(value, all[place_of(r)]);
        __syncthreads(); /* nobody writes over what another has still to read */
        return value;
    }
};

/* ---- sums of products ---- */

DEVICE float
add_product(float sum, float x, float y)
{
    return fmaf(x, y, sum);
}
DEVICE double
add_product(double sum, double x, double y)
{
    return fma(x, y, sum);
}
DEVICE int64_t
add_product(int64_t sum, int64_t x, int64_t y)
{
    return sums::join(sum, products::join(x, y));
}
