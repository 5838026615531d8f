/* members.cuh - macros that declare members of a kernel's struct, and statements of kernels. The texts that making.c,
 * source.c, line.c and after.c write contain calls of these macros.
 *
 * Texts of different kernels call the macros with different numbers, names and types. k: index of an operand or
 * result. Prefixes: x, y: operand, result of the call; v, r: operand, result of the chain. MEMORY: the type in
 * memory; TYPE: the type of computation. The generated function <name><k>_at returns an offset. */

/* ---- the kernel, which computes one call or several ---- */

/* THREADS: threads per block; CROWD: minimum number of resident blocks per multiprocessor. */
#define KERNEL(NAME, THREADS, CROWD)                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS, CROWD) NAME(const argument given)
/* Define the call's argument a, the block's index among the call's blocks, and their number. */
#define ONE_CALL                                                                                                       \
    in_turn();                                                                                                         \
    const args &a = given;                                                                                             \
    const int64_t block = blockIdx.x, blocks = gridDim.x;                                                              \
    (void)block, (void)blocks;
#define MANY_CALLS                                                                                                     \
    in_turn();                                                                                                         \
    int nth = 0;                                                                                                       \
    while ((int64_t)blockIdx.x >= given.end[nth]) nth++;                                                               \
    const args &a = given.each[nth];                                                                                   \
    const int64_t first_block = nth > 0 ? given.end[nth - 1] : 0;                                                      \
    const int64_t block = blockIdx.x - first_block, blocks = given.end[nth] - first_block;

/* The argument of a kernel that computes several calls. end: by call, the number of its end block. */
template <class args, int ROOM> struct calls {
    int64_t end[ROOM];
    args each[ROOM];
};

/* ---- chains and copies: statements in a loop over positions p ---- */

/* Begins a loop over n<k> positions. All threads divide the loop; each iteration covers STEP positions. */
#define EACH_OF(k, STEP)                                                                                               \
    for (int64_t p = (block * blockDim.x + threadIdx.x) * (STEP); p < a.n##k; p += blocks * blockDim.x * (STEP))
/* Computes the condition of reading packs at once: their addresses are aligned. */
#define ALIGNED(NAME, TEST)                                                                                            \
    const bool NAME = TEST;                                                                                            \
    (void)NAME;
/* Step k of a chain: the head of its body, and its value. */
#define STEP_OF(TYPE)              static METHOD TYPE of(const call *c, const TYPE *x)
#define STEP_VALUE(k, MEMORY)      const MEMORY s##k = put<MEMORY>(step##k::of(&c##k, x##k));
#define NUMBER_OF(k, MEMORY, NAME) const MEMORY NAME = bits_as<MEMORY>(*a.v##k);
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
#define CONVERT_PACK(PACK, MEMORY, TYPE)                                                                               \
    pack<MEMORY, PACK> w;                                                                                              \
    _Pragma("unroll") for (int i = 0; i < PACK; i++) w.of[i] = put<MEMORY>(get<TYPE>(v.of[i]));
#define LEAVE_SIDE(k, PACK, LYING, MEMORY, LAST)                                                                       \
    leave<PACK, LYING>(w, (MEMORY *)a.y##k.data + y, a.y##k.stride[LAST], whole##k);

#define STORE(AT, MEMORY, VALUE) ((MEMORY *)a.y0.data)[AT] = put<MEMORY>(VALUE);

/* ---- finders: statements that search for invalid data. at(p): value of element p ---- */

/* Define `first` and `count`, start and length of the range of allowed values. */
#define ALLOWED_RANGE                                                                                                  \
    const int64_t first = a.lo;                                                                                        \
    const uint64_t count = (uint64_t)a.count;
#define ALLOWED_AFTER(MEMORY)                                                                                          \
    const int64_t last = get<int64_t>(*(const MEMORY *)a.last);                                                        \
    const int64_t first = (int64_t)((uint64_t)last + 1);                                                               \
    const uint64_t count = (uint64_t)INT64_MAX - (uint64_t)last;
/* Stores the block's first invalid element as a struct finding. */
#define FIND_INVALID(THREADS)                                                                                          \
    __shared__ double room[THREADS];                                                                                   \
    const int64_t each = (a.n + blocks - 1) / blocks, from = block * each;                                             \
    const int64_t left = a.n - from, none = INT64_MAX;                                                                 \
    team<THREADS> all;                                                                                                 \
    all.here = true;                                                                                                   \
    all.room = room;                                                                                                   \
    const int64_t place = all.fold_of<least>(left < each ? left : each, none, [&](int64_t i) {                         \
        const int64_t v = at(from + i);                                                                                \
        const bool good = (uint64_t)v - (uint64_t)first < count;                                                       \
        return good || (a.has_also && v == a.also) ? none : from + i;                                                  \
    });                                                                                                                \
    if (threadIdx.x != 0) return;                                                                                      \
    int64_t *const found = a.scratch + block * 3;                                                                      \
    found[0] = place == none ? 0 : 1 + place;                                                                          \
    found[1] = place == none ? 0 : at(place);                                                                          \
    found[2] = first;

/* ---- by position ---- */

/* Members of struct element, a function of positions. BITS: binary digits of the result's float type. */
#define POSITION_OF(DIMS, BITS)                                                                                        \
    enum { NDIM = DIMS, DIGITS = BITS };                                                                               \
    int64_t at[8];                                                                                                     \
    METHOD int64_t place(int d) const { return a.y0.offset[d] + at[d]; }                                               \
    METHOD int64_t whole(int d) const { return a.y0.whole[d]; }                                                        \
    METHOD int64_t index() const                                                                                       \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (int d = 0; d < NDIM; d++) i = i * a.y0.whole[d] + place(d);                                               \
        return i;                                                                                                      \
    }
/* Defines the element e at position p, and its offset o in the result. */
#define ELEMENT_AT(PLACES)                                                                                             \
    element e = {a, {0}};                                                                                              \
    int64_t o = 0;                                                                                                     \
    PLACES rest = p;                                                                                                   \
    _Pragma("unroll") for (int d = element::NDIM - 1; d >= 0; d--)                                                     \
    {                                                                                                                  \
        const PLACES n = a.y0.dim[d], left = rest / n;                                                                 \
        e.at[d] = rest - left * n;                                                                                     \
        rest = left;                                                                                                   \
        o += e.at[d] * a.y0.stride[d];                                                                                 \
    }
/* SEED, STREAM: indices of the operands from which the key of random numbers follows. */
#define RANDOM_KEY(SEED, STREAM)                                                                                       \
    METHOD uint64_t key() const { return rng_key((uint64_t)x##SEED(), (uint64_t)x##STREAM()); }
/* RUN: consecutive elements that a micro-batch draws; PIECES: number of micro-batches. */
#define DRAW_OF_RUNS(RUN, PIECES)                                                                                      \
    METHOD uint64_t draw() const                                                                                       \
    {                                                                                                                  \
        const uint64_t i = (uint64_t)index();                                                                          \
        return (i / RUN * PIECES + a.piece) * RUN + i % RUN;                                                           \
    }

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
/* Return element j of operand k in row-major order. The compiler can read several elements of a dense view at
 * once. */
#define NTH_DENSE(k)                                                                                                   \
    METHOD auto x##k##_nth(int64_t j) const { return x##k##_from(j); }
#define NTH_STRIDED(k)                                                                                                 \
    METHOD auto x##k##_nth(int64_t j) const                                                                            \
    {                                                                                                                  \
        int64_t at[8];                                                                                                 \
        for (int d = NDIM##k - 1; d >= 0; j /= a.x##k.dim[d--]) at[d] = j % a.x##k.dim[d];                             \
        return x##k(at);                                                                                               \
    }
#define ABSENT_AT(k)                                                                                                   \
    METHOD int64_t x##k(const int64_t * = 0) const { return 0; }                                                       \
    METHOD int64_t dim##k(int) const { return 1; }                                                                     \
    enum { NDIM##k = 0 };

/* ---- products ---- */

/* Members of struct product: type of positions, sizes of the result, and store(), which writes an element. */
#define PRODUCT_OF(COORDINATE)                                                                                         \
    typedef COORDINATE coordinate;                                                                                     \
    const args &a;                                                                                                     \
    METHOD product(const args &args_) : a(args_) { parts = a.parts; }
#define RESULT_OF(DIMS, TYPE, MEMORY)                                                                                  \
    enum { NDIM = DIMS };                                                                                              \
    METHOD int64_t size(int d) const { return a.y0.dim[d]; }                                                           \
    METHOD void store(const int64_t *at, TYPE v) const                                                                 \
    {                                                                                                                  \
        int64_t o = 0;                                                                                                 \
        for (int d = 0; d < NDIM; d++) o += at[d] * a.y0.stride[d];                                                    \
        ((MEMORY *)a.y0.data)[o] = put<MEMORY>(v);                                                                     \
    }
#define WRITE_RESULT                                                                                                   \
    METHOD void write(const int64_t *at, real v) const { store(at, v); }
/* If sums are divided into parts, write() stores the part of a sum in scratch, and a second kernel adds the
 * parts. */
#define PART_OF(TYPE)                                                                                                  \
    METHOD TYPE &part_of(int64_t part, int64_t i) const { return ((TYPE *)a.scratch)[part * a.count + i]; }
#define WRITE_PART                                                                                                     \
    METHOD void write(const int64_t *at, real v) const                                                                 \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (int d = 0; d < NDIM; d++) i = i * size(d) + at[d];                                                        \
        part_of(part, i) = v;                                                                                          \
    }
#define JOIN_PARTS(TYPE)                                                                                               \
    const product p = {a};                                                                                             \
    for (int64_t i = block * blockDim.x + threadIdx.x; i < a.count; i += blocks * blockDim.x) {                        \
        TYPE sum = p.part_of(0, i);                                                                                    \
        for (int64_t part = 1; part < a.parts; part++) sum = sums::join(sum, p.part_of(part, i));                      \
        int64_t at[8], rest = i;                                                                                       \
        for (int d = product::NDIM - 1; d >= 0; rest /= p.size(d--)) at[d] = rest % p.size(d);                         \
        p.store(at, sum);                                                                                              \
    }

/* ---- lines: members of struct lines, and the loops that call its body ---- */

/* REAL: type of the computation; WIDE: type of sums; NPART: number of parts of a line. */
#define LINES_OF(REAL, WIDE, NPART)                                                                                    \
    const args &a;                                                                                                     \
    int64_t line, part, from;                                                                                          \
    typedef REAL real;                                                                                                 \
    typedef WIDE wide;                                                                                                 \
    typedef splitting<real>::type fine;                                                                                \
    enum { PARTS = NPART };                                                                                            \
    METHOD lines(const args &args_, double *room_) : a(args_), line(0), part(0), from(0) { room = room_; }
#define RESULT_SIZES(DIMS)                                                                                             \
    METHOD int64_t size(int d) const { return a.z0.dim[d]; }                                                           \
    METHOD int64_t place(int d) const { return a.z0.offset[d]; }                                                       \
    enum { NDIM = DIMS };
/* Sets `at` to the position of element i of the line. The list has 1 for each dimension along the line, else 0. */
#define WHERE_IS(DIMS, ...)                                                                                            \
    METHOD void where(int64_t i, int64_t *at) const                                                                    \
    {                                                                                                                  \
        places rest[] = {(places)line, (places)i};                                                                     \
        const bool along[] = {__VA_ARGS__};                                                                            \
        _Pragma("unroll") for (int d = DIMS - 1; d >= 0; d--)                                                          \
        {                                                                                                              \
            const places size = a.z0.dim[d] > 0 ? a.z0.dim[d] : 1, left = rest[along[d]] / size;                       \
            at[d] = rest[along[d]] - left * size;                                                                      \
            rest[along[d]] = left;                                                                                     \
        }                                                                                                              \
    }
/* A reduction begins at the element with these bits. */
#define FOLD_FROM(TYPE, KIND, BITS)                                                                                    \
    typedef TYPE type;                                                                                                 \
    typedef KIND kind;                                                                                                 \
    const type start = bits_as<type>((uint64_t)BITS);                                                                  \
    (void)start;

/* Call the body for each line, or each part of a line, of a block of THREADS threads. TEAM: index of the team to
 * which the thread belongs. With lanes, a team processes LANES adjacent lines at once. */
#define EACH_JOB(THREADS, TEAM, LINE, SET_LENGTH)                                                                      \
    enum { TEAMS = THREADS / WIDTH };                                                                                  \
    lines l(a, room);                                                                                                  \
    const int64_t count = a.lines / LANES, jobs = a.jobs / LANES;                                                      \
    (void)count;                                                                                                       \
    for (int64_t base = block * TEAMS; base < jobs; base += blocks * TEAMS) {                                          \
        const int64_t job = base + TEAM;                                                                               \
        l.here = job < jobs;                                                                                           \
        l.line = !l.here ? 0 : (LINE)*LANES;                                                                           \
        SET_LENGTH                                                                                                     \
        l.of(&c);                                                                                                      \
    }
#define EACH_LINE(THREADS, TEAM) EACH_JOB(THREADS, TEAM, job, l.n = l.here ? a.length : 0;)
/* In flat lines, the last line may be shorter. */
#define EACH_FLAT_LINE(THREADS, TEAM)                                                                                  \
    EACH_JOB(THREADS, TEAM, job, l.n = l.here ? least::join(a.length, a.total - l.line * a.length) : 0;)
#define EACH_PART_OF_LINES(THREADS, TEAM) EACH_JOB(THREADS, TEAM, job % count, SET_PART)
#define SET_PART                                                                                                       \
    l.part = !l.here ? 0 : job / count;                                                                                \
    const int64_t packs = (a.length + PACK - 1) / PACK;                                                                \
    const int64_t each = (packs + lines::PARTS - 1) / lines::PARTS * PACK;                                             \
    l.from = least::join(a.length, l.part * each);                                                                     \
    l.n = l.here ? least::join(each, a.length - l.from) : 0;
/* Keys (integer ids) select the lines, so a block processes all its lines in one call of the body. */
#define EACH_NAMED_LINE                                                                                                \
    lines l(a, room);                                                                                                  \
    l.here = true;                                                                                                     \
    l.n = a.length;                                                                                                    \
    l.mine = {block, (a.lines - block + blocks - 1) / blocks, 0};                                                      \
    while (1 << l.mine.shift < blocks) l.mine.shift++;                                                                 \
    MUST(1 << l.mine.shift == blocks);                                                                                 \
    l.of(&c);

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

/* Statements of each_of(from, to), which reads the operands of these steps, v<k>, before it writes results. HELD:
 * `held` reads all elements of the thread's line first; empty reads pack by pack. */
#define LINE_BESIDE(k, HELD) const auto all_v##k = HELD([&](element i) { return this->v##k(i); });
#define EACH_BESIDE(...)                                                                                               \
    struct both {                                                                                                      \
        decltype(from(element())) value;                                                                               \
        operands read;                                                                                                 \
    };                                                                                                                 \
    team::each_of(                                                                                                     \
        [&](element i) {                                                                                               \
            return both{from(i), {__VA_ARGS__}};                                                                       \
        },                                                                                                             \
        [&](element i, const both &b) {                                                                                \
            now = b.read;                                                                                              \
            to(i, b.value);                                                                                            \
        });
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
