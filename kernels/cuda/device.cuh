/* device.cuh - the beginning of every kernel's source: elements in memory, random words, offsets, folds, lanes.
 *
 * NVRTC compiles this file for GPUs; C++ compilers compile it for the host, after t/host/shim.h. Numbers behave as
 * on the CPU. bf16 and f16 are computed as f32 and rounded to nearest even (runtime/tensor/half.h). Conversion of
 * a float to an integer truncates, saturates, and maps NaN to 0 (runtime/tensor/type.h). Philox returns the words
 * of runtime/data/rng.h. */
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
#define MUST(x)    ((void)0)
/* Replaces a subnormal number by 0. Needed before any use, because the compiler may choose a comparison that does
 * not treat subnormal numbers as 0. */
DEVICE float
flushed(float x)
{
    float y;
    asm("mul.ftz.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));
    return y;
}
#endif

/* Returns the high 64 bits of a product. */
DEVICE uint64_t
high_product(uint64_t a, uint64_t b)
{
#ifdef __CUDACC_RTC__
    return __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 product;
    return (uint64_t)((product)a * b >> 64);
#endif
}

/* Waits until earlier launches of the stream have ended and their writes are visible. Also lets the next launch
 * start, as far as its own call of in_turn(), on multiprocessors that are free. This hides about a microsecond of
 * launch latency. */
DEVICE void
in_turn()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" : : : "memory");
#endif
}

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

/* Reads an element in the type that the call computes in. */
template <class C, class M>
DEVICE C
get(M x)
{
    return (C)widen(x);
}

/* Returns a double as a float that is then rounded to 16 bits. The float is truncated, and its last bit is set if
 * truncation was inexact (round to odd), so that the second rounding is correct. */
DEVICE float
odd_of(double d)
{
    float f = (float)d;
    uint32_t u = bits_as<uint32_t>(f);
    u -= fabs((double)f) > fabs(d);
    return bits_as<float>(u | ((double)f != d));
}
/* Returns an integer as a float that is then rounded to 16 bits. The float has the leading 24 bits, and its last
 * bit is set if further bits are lost, so that the rounding is correct. */
DEVICE float
odd_of(int64_t i)
{
    const uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    uint64_t first = u;
    int less = 0;
    for (; first >> 24; first >>= 1) less++;
    const float f = (float)(int32_t)(first | (first << less != u)) * bits_as<float>((uint32_t)(127 + less) << 23);
    return i < 0 ? -f : f;
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
    return odd_of((int64_t)x);
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

/* Truncates x to an integer and saturates it to lo..hi; returns 0 for NaN. top: hi + 1 as a value of type R. */
template <class R>
DEVICE int64_t
cut(R x, int64_t lo, int64_t hi, R top)
{
    return x != x ? 0 : x < (R)lo ? lo : x >= top ? hi : (int64_t)x;
}

/* put<M>(value) converts a result to an element of type M in memory. */
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

/* ---- a call, as the GPU code of operators reads it ---- */

enum { DT_NONE };
struct attribute {
    bool set;
    int n;
    int64_t i;
    double f;
    int64_t list[17];
};
struct operand_type {
    int dtype; /* type of the elements; DT_NONE: the operand is absent */
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

/* ---- computing random words: Philox4x32-10 ---- */

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

/* Returns the high 64 bits of a product. */
DEVICE uint64_t
product_high(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* ---- offsets ---- */

/* Returns the offset of position p in N nested loops; the last loop is the innermost. P: type of positions;
 * divisions of a 32-bit type are faster. */
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

/* Memory layout of V elements along the innermost loop. IN_PLACE: all at one address; TOGETHER: contiguous; APART:
 * `step` elements apart. */
enum lying { IN_PLACE, TOGETHER, APART };
template <class M, int V> struct __align__(sizeof(M) * V) pack { M of[V]; };
/* Reads V elements. whole: true if contiguous packs are aligned; one instruction then reads a pack. */
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

#ifdef __CUDACC_RTC__
/* Read and write up to four words with one instruction. */
DEVICE void
read_words(uint32_t (&w)[4], const void *at)
{
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "l"(at)
                 : "memory");
}
DEVICE void
read_words(uint32_t (&w)[2], const void *at)
{
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(at) : "memory");
}
DEVICE void
write_words(void *at, const uint32_t (&w)[4])
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}
DEVICE void
write_words(void *at, const uint32_t (&w)[2])
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" : : "l"(at), "r"(w[0]), "r"(w[1]) : "memory");
}
template <int BYTES> struct bits_of; /* unsigned integer of BYTES bytes */
template <> struct bits_of<1> {
    typedef uint8_t type;
};
template <> struct bits_of<2> {
    typedef uint16_t type;
};
template <> struct bits_of<4> {
    typedef uint32_t type;
};

/* An aligned pack of contiguous elements, in registers. */
template <class M, int V> struct row {
    enum {
        BYTES = V * sizeof(M),
        WORDS = BYTES / 4,
        UNIT = WORDS < 4 ? WORDS : 4,
        EACH = sizeof(M) < 4 ? 4 / sizeof(M) : 1
    };
    uint32_t w[WORDS / UNIT][UNIT];

    METHOD void read(const M *at)
    {
#pragma unroll
        for (int i = 0; i < WORDS / UNIT; i++) read_words(w[i], (const uint32_t *)at + i * UNIT);
    }
    METHOD void write(M *at) const
    {
#pragma unroll
        for (int i = 0; i < WORDS / UNIT; i++) write_words((uint32_t *)at + i * UNIT, w[i]);
    }
    METHOD M get(int u) const
    {
        const int i = u * (int)sizeof(M) / 4;
        if constexpr (sizeof(M) == 8)
            return bits_as<M>((uint64_t)w[(i + 1) / UNIT][(i + 1) % UNIT] << 32 | w[i / UNIT][i % UNIT]);
        else
            return bits_as<M>((typename bits_of<sizeof(M)>::type)(w[i / UNIT][i % UNIT] >> u % EACH * 8 * sizeof(M)));
    }
    METHOD void set(int u, M x) /* sets element u to x; must be called for u = 0, 1, ... in this order */
    {
        const int i = u * (int)sizeof(M) / 4;
        if constexpr (sizeof(M) == 8) {
            w[i / UNIT][i % UNIT] = (uint32_t)bits_as<uint64_t>(x);
            w[(i + 1) / UNIT][(i + 1) % UNIT] = (uint32_t)(bits_as<uint64_t>(x) >> 32);
        } else {
            const uint32_t bits = (uint32_t)bits_as<typename bits_of<sizeof(M)>::type>(x) << u % EACH * 8 * sizeof(M);
            w[i / UNIT][i % UNIT] = u % EACH ? w[i / UNIT][i % UNIT] | bits : bits;
        }
    }
};
#else
template <class M, int V> struct row {
    M of[V];

    void read(const M *at)
    {
        for (int u = 0; u < V; u++) of[u] = at[u];
    }
    void write(M *at) const
    {
        for (int u = 0; u < V; u++) at[u] = of[u];
    }
    M get(int u) const { return of[u]; }
    void set(int u, M x) { of[u] = x; }
};
#endif
/* A pack of one element. */
template <class M> struct row<M, 1> {
    M of;

    METHOD void read(const M *at) { of = *at; }
    METHOD void write(M *at) const { *at = of; }
    METHOD M get(int) const { return of; }
    METHOD void set(int, M x) { of = x; }
};
/* The current pack of an operand. Its elements must be requested in order; the request for the first element reads
 * the pack. */
template <class M, int V> struct current {
    row<M, V> now;
    const M *from;

    METHOD M get(const M *at, int u)
    {
        if (u == 0) now.read(from = at);
        MUST(from == at);
        return now.get(u);
    }
};

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

/* CHOOSES: 1 if the fold returns one of its operands unchanged. It may then run in any type that represents all
 * operands. */
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
/* Maximum; NaN wins. */
struct greatest {
    enum { CHOOSES = 1 };
    template <class C> static METHOD C join(C a, C x) { return x > a || x != x ? x : a; }
};
/* Maximum; NaN is ignored. */
struct greatest_number {
    enum { CHOOSES = 1 };
    template <class C> static METHOD C join(C a, C x) { return x > a || a != a ? x : a; }
};
struct least {
    enum { CHOOSES = 1 };
    template <class C> static METHOD C join(C a, C x) { return x < a || x != x ? x : a; }
};

/* A number, represented as the sum of two floats. minus() subtracts first one, then the other, so that the number
 * is not rounded to one float. */
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

/* IS: 1 if A and B are the same type. */
template <class A, class B> struct same {
    enum { IS = 0 };
};
template <class A> struct same<A, A> {
    enum { IS = 1 };
};

/* Maps a number to an integer that is ordered like the number. Both zeros are equal; NaN is the maximum. */
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

/* Returns what a mask's entry adds to a score: the entry itself; for a bool entry, 0 if true and -infinity if
 * false. */
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

/* ---- lanes ---- */

/* Values of N adjacent lines. The GPU code of an operator computes with them as with one value. */
template <class C, int N> struct lanes {
    enum { COUNT = N };
    C of[N];
};
template <class C, int N, class F>
DEVICE auto
each_lane(const lanes<C, N> &x, F f)
{
    lanes<decltype(f(x.of[0], 0)), N> y;
#pragma unroll
    for (int u = 0; u < N; u++) y.of[u] = f(x.of[u], u);
    return y;
}
template <class C, int N>
DEVICE lanes<C, N>
operator*(const lanes<C, N> &x, const lanes<C, N> &y)
{
    return each_lane(x, [&](C v, int u) { return v * y.of[u]; });
}
template <class C, int N>
DEVICE lanes<C, N>
operator*(const lanes<C, N> &x, C y)
{
    return each_lane(x, [&](C v, int) { return v * y; });
}
template <class C, int N, class Fine>
DEVICE lanes<C, N>
minus(const lanes<C, N> &x, Fine t)
{
    return each_lane(x, [&](C v, int) { return minus(v, t); });
}
template <class To, class C>
DEVICE To
as(C x)
{
    return (To)x;
}
template <class To, class C, int N>
DEVICE lanes<To, N>
as(const lanes<C, N> &x)
{
    return each_lane(x, [](C v, int) { return (To)v; });
}
/* Reads N contiguous, aligned elements. */
template <class C, int N, class M>
DEVICE lanes<C, N>
lanes_at(const M *at)
{
    row<M, N> all;
    lanes<C, N> y;
    all.read(at);
#pragma unroll
    for (int u = 0; u < N; u++) y.of[u] = get<C>(all.get(u));
    return y;
}
template <class C> struct is_lanes {
    enum { IS = 0 };
};
template <class C, int N> struct is_lanes<lanes<C, N>> {
    enum { IS = 1 };
};

/* ---- adding products to sums ---- */

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
