/* lines.cuh - teams of threads that process lines (rows or columns) of tensors. Every kernel's source includes
 * this file after device.cuh. */

/* Position of an element in a line: element u of a pack. A pack is read by a thread with one instruction. slot: number
 * of elements of the line that the thread has in registers from earlier packs. */
template <int PACK> struct packed {
    int64_t first; /* position of the pack */
    int u, slot;

    METHOD operator int64_t() const { return first + u; }
};
template <int PACK>
DEVICE packed<PACK>
operator+(int64_t from, packed<PACK> i) /* position of the pack moved by `from` */
{
    i.first += from;
    return i;
}

DEVICE int
bits_in(uint32_t x)
{
#ifdef __CUDACC_RTC__
    return __popc(x);
#else
    return __builtin_popcount(x);
#endif
}

/* The lines that a block processes if keys select lines: `count` lines, at first, first + (1 << shift), first + 2
 * * (1 << shift), ... Neighbouring lines belong to different blocks, because frequent keys are often neighbours. */
struct every {
    int64_t first, count;
    int shift;
};
/* The keys that select lines of this block. An entry is one integer. Its upper bits are the line's index in struct
 * every (its turn), its lower bits the position of the key. Each warp collects the entries of its part of the keys
 * in order; then all entries are sorted. */
struct listing {
    enum { WARP = 32, WARPS = 8, EACH = 64, ALL = WARPS * EACH, PLACE = 48 /* PLACE: bits of a key's position */ };
    uint64_t found[WARPS][EACH];
    int nfound[WARPS]; /* number of entries of each warp; more than EACH: the entries after EACH are missing */
    int n;             /* number of all entries; -1: some are missing */
    /* by entry. turn: index of the entry's line in struct every. alike: number of entries of that line. */
    int turn[ALL], alike[ALL];
    int64_t value[ALL]; /* by entry: value(j), where j is the position of the entry's key */
    bool flag[WARPS * WARP];
};

/* WIDTH threads that share a line of n elements. All threads of a block make the same calls and reach all
 * barriers; threads without a line have n = 0.
 * GAP: distance in the block between neighbouring threads of the team. It is 1 or, if lines are adjacent in
 * memory, the number of lines side by side, so that neighbouring threads read neighbouring elements.
 * HALVES: 1 if elements have 16 bits; sums of four elements are then computed as floats. PACK: number of elements
 * that a thread reads at once; n is a multiple of PACK. HELD: maximum number of elements of a thread, which keeps
 * all of them in registers; 0: no limit, and no element is kept. */
template <int WIDTH, int GAP = 1, int HALVES = 0, int PACK = 1, int HELD = 0> struct team {
    typedef packed<PACK> element;
    int64_t n;
    bool here;    /* true: the team has a line */
    double *room; /* shared memory of the block: 256 numbers; if keys select lines: a struct listing */
    every mine;   /* lines of this block, in calls whose lines are selected by keys */

    enum { THREADS = WIDTH, NEAR = GAP > 1 ? 1 : WIDTH < 32 ? WIDTH : 32, FAR = WIDTH / NEAR };
    static METHOD int64_t rank() { return threadIdx.x / GAP % WIDTH; }
    /* Returns the threadIdx.x of the thread that has rank r in this team. */
    static METHOD int place_of(int64_t r) { return (int)(threadIdx.x + (r - rank()) * GAP); }
    enum { TURN = WIDTH * PACK, READS = PACK > 4 ? 2 : 4 }; /* READS: packs that are read before any is written */
    /* Calls f(e) with the elements of COUNT packs, of which the first is at `first`. The packs are WIDTH packs
     * apart, and all must exist. */
    template <int COUNT, class F> METHOD void turns(int64_t first, int slot, F f) const
    {
        element e[COUNT * PACK];
#pragma unroll
        for (int u = 0; u < COUNT * PACK; u++) e[u] = {first + u / PACK * TURN, u % PACK, slot};
        f(e);
    }
    /* Visits this thread's elements: calls many(e) for COUNT packs at once, and one(e) for each of the remaining
     * packs. */
    template <int COUNT, class Many, class One> METHOD void through(Many many, One one) const
    {
        if constexpr (HELD > 0) {
#pragma unroll
            for (int s = 0; s < HELD; s += PACK)
                if ((rank() + s / PACK * WIDTH) * PACK < n) turns<1>((rank() + s / PACK * WIDTH) * PACK, s, one);
        } else {
            int64_t at = rank() * PACK;
            for (; at + (COUNT - 1) * TURN < n; at += COUNT * TURN) turns<COUNT>(at, 0, many);
            for (; at < n; at += TURN) turns<1>(at, 0, one);
        }
    }
    template <class F> METHOD void each(F f) const
    {
        const auto all = [&](const element *e) {
#pragma unroll
            for (int u = 0; u < PACK; u++) f(e[u]);
        };
        through<1>(all, all);
    }
    /* Calls to(i, from(i)) for all elements. Reads READS packs before writing them. */
    template <class From, class To> METHOD void each_of(From from, To to) const
    {
        through<READS>([&](const element *e) { read_write<READS * PACK>(e, from, to); },
                       [&](const element *e) { read_write<PACK>(e, from, to); });
    }
    template <int N, class From, class To> METHOD void read_write(const element *e, From from, To to) const
    {
        decltype(from(e[0])) v[N];
#pragma unroll
        for (int u = 0; u < N; u++) v[u] = from(e[u]);
#pragma unroll
        for (int u = 0; u < N; u++) to(e[u], v[u]);
    }
    /* Values of f at this thread's elements. If HELD > 0, held() has called f once per element, and the values are
     * kept in registers. Otherwise each request calls f. */
    template <class F> struct holding {
        F f;
        decltype(f(element())) of[HELD > 0 ? HELD : 1];

        METHOD auto operator()(element i) const
        {
            if constexpr (HELD > 0)
                return of[i.slot + i.u];
            else
                return f(i);
        }
    };
    template <class F> METHOD holding<F> held(F f) const
    {
        holding<F> h = {f, {}};
        if constexpr (HELD > 0) {
            const auto all = [&](const element *e) {
#pragma unroll
                for (int u = 0; u < PACK; u++) h.of[e[u].slot + u] = f(e[u]);
            };
            through<1>(all, all);
        }
        return h;
    }
    /* Calls f on one thread. */
    template <class F> METHOD void once(F f) const
    {
        if (here && rank() == 0) f();
    }
    /* For each selected line of the block, one team calls begin(line), then add(value(j)) for each j in 0..count-1
     * with key(j) == line, in order, then end(). Lists at a time the keys of as many lines as fit the listing. A
     * line whose keys do not fit is processed alone, in several listings. */
    template <class Key, class Value, class Begin, class Add, class End>
    METHOD void each_named(int64_t count, Key key, Value value, Begin begin, Add add, End end)
    {
        const int64_t MOST = (int64_t)1 << (64 - listing::PLACE); /* maximum number of lines per listing */
        int64_t most = MOST;
        for (int64_t turn = 0, turns; turn < mine.count; turn += turns) {
            turns = least::join(most, mine.count - turn);
            while (!list(0, count, turn, turns, key, value) && turns > 1) most = turns /= 2;
            const int listed = ((listing *)room)->n;
            if (listed < 0)
                one_named(count, turn, key, value, begin, add, end);
            else
                each_listed(turn, begin, add, end);
            if (listed < listing::ALL / 4) most = least::join(2 * most, MOST);
        }
    }
    /* Calls to(j, f(j)) on all threads for j in 0..count-1, in order. f(j) must be the same for all lines. */
    template <class F, class To> METHOD void sharing(int64_t count, F f, To to) const
    {
        for (int64_t base = 0; base < count; base += WIDTH) {
            room[threadIdx.x] = here && base + rank() < count ? f(base + rank()) : 0;
            __syncthreads();
            for (int64_t j = base; j < base + WIDTH && j < count; j++) to(j, room[place_of(j - base)]);
            __syncthreads();
        }
    }
    /* Returns the fold of start and f(0..n-1) to all threads of the team. If f returns struct lanes, only the team's
     * first thread, rank() == 0, gets the result. start must be the neutral element of the fold, because the fold may
     * include it more than once. */
    template <class Fold, int FOURS = HALVES, class C, class F> METHOD auto fold(C start, F f) const
    {
        if constexpr (is_lanes<decltype(f(element()))>::IS)
            return fold_lanes<Fold, FOURS>(start, f);
        else if constexpr (PACK == 1 && HELD == 0)
            return fold_of<Fold, FOURS>(n, start, [&](int64_t i) { return f(element{i, 0, 0}); });
        else
            return fold_packs<Fold, FOURS>(start, f);
    }
    /* Like fold(), but adds groups of four values as floats, and then adds the sum of each group to the double. */
    template <class Fold, class F> METHOD auto fold_near(double start, F f) const { return fold<Fold, 1>(start, f); }
    /* Returns the sum of f(i) g(i). Adds groups of four products as floats. If the result suggests that floats
     * overflowed or underflowed, computes all products again as doubles. */
    template <class F, class G> METHOD double fold_products(F f, G g) const
    {
        const double sum = fold_near<sums>(0.0, [&](element i) { return f(i) * g(i); });
        const bool good = fabs(sum) < 1e30 && (sum > 1e-25 || sum < -1e-25);
        if (all_of(good || sum != sum)) return sum;
        return fold<sums>(0.0, [&](element i) { return (double)f(i) * g(i); });
    }
    template <class F> METHOD double fold_squares(F f) const { return fold_products(f, f); }
    /* Returns true if `is` holds on all teams of the block; if a team is within one warp, considers only this
     * team. */
    METHOD bool all_of(bool is) const
    {
#ifdef __CUDACC_RTC__
        if (FAR == 1) return is;
#endif
        return !__syncthreads_or(!is);
    }
    /* Computes the maximum of f(0..n-1) and the sum of exp(f(i) - maximum), in one pass. */
    template <class C, class F> METHOD void fold_exponentials(F f, double *most, double *sum) const
    {
        C m = -INFINITY;
        double s = 0;
        enum { COUNT = 16 / PACK };
        through<COUNT>([&](const element *e) { add_exponentials<COUNT * PACK>(e, f, &m, &s); },
                       [&](const element *e) { add_exponentials<PACK>(e, f, &m, &s); });
        *most = fold_of<greatest_number>(here ? WIDTH : 0, (double)-INFINITY, [&](int64_t) { return m; });
        const C all = *most;
        *sum = fold_of<sums>(here ? WIDTH : 0, 0.0, [&](int64_t) { return m < all ? s * exp((double)m - all) : s; });
        if (n > 0 && all == -INFINITY) *sum = NAN; /* exp(-inf + inf) is NaN, too */
    }
    /* Folds f(0..count-1), in a tree that depends only on count, WIDTH and GAP. */
    template <class Fold, int FOURS = HALVES, class C, class F> METHOD C fold_of(int64_t count, C start, F f) const
    {
        static_assert(sizeof(C) == sizeof(double), "what is folded is a double or an int64_t");
        C value = start;
        int64_t i = rank();
        if (i < count) { /* the start is counted once, by rank 0 */
            const C x = (C)f(i);
            value = i == 0 ? Fold::join(value, x) : x;
            i += WIDTH;
        }
        for (; i + 3 * WIDTH < count; i += 4 * WIDTH) { /* four reads in flight */
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
    METHOD int64_t line_of(int64_t turn) const { return mine.first + (turn << mine.shift); }
    /* Returns a bit mask of the warp's threads on which `is` holds. */
    METHOD uint32_t ballot(bool is) const
    {
#ifdef __CUDACC_RTC__
        return __ballot_sync(0xffffffffu, is);
#else
        bool *const flag = ((listing *)room)->flag;
        uint32_t all = 0;
        flag[threadIdx.x] = is;
        __syncthreads();
        for (int i = 0; i < listing::WARP; i++) all |= (uint32_t)flag[threadIdx.x / 32 * 32 + i] << i;
        __syncthreads();
        return all;
#endif
    }
    /* Collects the keys from..to-1 that select one of `turns` lines of the block, from line number `turn` on
     * (struct every). Each warp collects the entries of its part of the keys, in order. */
    template <class Key> METHOD void look_through(int64_t from, int64_t to, int64_t turn, int64_t turns, Key key) const
    {
        enum { WARP = listing::WARP, DEEP = 8 };
        const int warp = threadIdx.x / WARP, rank = threadIdx.x % WARP;
        const int64_t part = (to - from + WARP * listing::WARPS - 1) / (WARP * listing::WARPS) * WARP;
        const int64_t begin = from + warp * part, end = least::join(begin + part, to), line = line_of(turn);
        uint64_t *const found = ((listing *)room)->found[warp];
        int nfound = 0;
        for (int64_t base = 0; base < part; base += DEEP * WARP) {
            uint64_t behind[DEEP];
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                const int64_t j = begin + base + d * WARP + rank;
                behind[d] = (uint64_t)(key(least::join(j, to - 1)) - line);
            }
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                const int64_t j = begin + base + d * WARP + rank;
                const uint64_t which = behind[d] >> mine.shift;
                const bool is = j < end && which << mine.shift == behind[d] && which < (uint64_t)turns;
                const uint32_t all = ballot(is);
                const int at = nfound + bits_in(all & ((1u << rank) - 1));
                if (is && at < listing::EACH) found[at] = which << listing::PLACE | (uint64_t)j;
                nfound += bits_in(all);
            }
        }
        if (rank == 0) ((listing *)room)->nfound[warp] = nfound;
    }
    /* Sorts the collected entries: the index of an entry is the number of smaller entries. */
    template <class Value> METHOD void sort(Value value) const
    {
        listing &l = *(listing *)room;
        const int warp = threadIdx.x / listing::WARP;
        for (int i = threadIdx.x % listing::WARP; i < l.nfound[warp]; i += listing::WARP) {
            const uint64_t me = l.found[warp][i], turn = me >> listing::PLACE;
            int before = 0, alike = 0;
            for (int w = 0; w < listing::WARPS; w++)
                for (int k = 0; k < l.nfound[w]; k++) {
                    before += l.found[w][k] < me;
                    alike += l.found[w][k] >> listing::PLACE == turn;
                }
            l.turn[before] = (int)turn;
            l.alike[before] = alike;
            l.value[before] = value((int64_t)(me - (turn << listing::PLACE)));
        }
    }
    /* Lists the keys from..to-1 that select one of `turns` lines of the block, from line number `turn` on, and
     * sets l.n to their number. If they do not fit the listing, sets l.n to -1 and returns false. */
    template <class Key, class Value>
    METHOD bool list(int64_t from, int64_t to, int64_t turn, int64_t turns, Key key, Value value) const
    {
        listing &l = *(listing *)room;
        look_through(from, to, turn, turns, key);
        __syncthreads();
        int n = 0;
        for (int w = 0; w < listing::WARPS; w++) n = n < 0 || l.nfound[w] > listing::EACH ? -1 : n + l.nfound[w];
        if (n >= 0) sort(value);
        if (threadIdx.x == 0) l.n = n;
        __syncthreads();
        return n >= 0;
    }
    /* Calls add(value[0..n-1]) in order. */
    template <class Add> static METHOD void each_value(const int64_t *value, int n, Add add)
    {
        enum { DEEP = 8 }; /* number of reads in flight */
        for (; n >= DEEP; n -= DEEP, value += DEEP) {
#pragma unroll
            for (int d = 0; d < DEEP; d++) add(value[d]);
        }
#pragma unroll 1
        for (int i = 0; i < n; i++) add(value[i]);
    }
    template <class Begin, class Add, class End>
    METHOD void each_listed(int64_t turn, Begin begin, Add add, End end) const
    {
        const listing &l = *(listing *)room;
        const int teams = blockDim.x / WIDTH, me = threadIdx.x / WIDTH;
        for (int at = 0, nline = 0; at < l.n; nline++) {
            const int from = at;
            at += l.alike[from];
            if (nline % teams != me) continue;
            begin(line_of(turn + l.turn[from]));
            add(l.value[from]); /* most lines have a single key */
            each_value(l.value + from + 1, at - from - 1, add);
            end();
        }
    }
    /* Processes a single line on the first team. Each listing covers as many keys as can always fit. */
    template <class Key, class Value, class Begin, class Add, class End>
    METHOD void one_named(int64_t count, int64_t turn, Key key, Value value, Begin begin, Add add, End end)
    {
        const listing &l = *(listing *)room;
        const int64_t length = n;
        if (threadIdx.x >= WIDTH) n = 0;
        begin(line_of(turn));
        for (int64_t from = 0; from < count; from += listing::ALL) {
            list(from, least::join(from + listing::ALL, count), turn, 1, key, value);
            each_value(l.value, l.n, add);
        }
        end();
        n = length;
    }
    /* Adds N values to the state of softmax: the maximum so far and the sum of exponentials. */
    template <int N, class C, class F> METHOD void add_exponentials(const element *e, F f, C *most, double *sum) const
    {
        enum { NEAR_SUM = N < 4 ? N : 4 };
        C x[N], top = *most;
#pragma unroll
        for (int u = 0; u < N; u++) x[u] = f(e[u]);
#pragma unroll
        for (int u = 0; u < N; u++) top = x[u] > top ? x[u] : top;
        if (top > *most) *sum *= exp(*most - top);
        *most = top;
        const C base = top > -INFINITY ? top : 0; /* if all are -infinity or NaN, subtracts nothing */
#pragma unroll
        for (int u = 0; u < N; u += NEAR_SUM) {
            C near = 0;
#pragma unroll
            for (int v = u; v < u + NEAR_SUM; v++) near += exp(x[v] - base);
            *sum += near;
        }
    }
    template <class Fold, int FOURS, class C, int N, class X> static METHOD C join_all(C value, const X (&x)[N])
    {
        if constexpr (same<X, float>::IS && (FOURS || Fold::CHOOSES) && N % 4 == 0)
#pragma unroll
            for (int u = 0; u < N; u += 4)
                value = Fold::join(value, (C)Fold::join(Fold::join(x[u], x[u + 1]), Fold::join(x[u + 2], x[u + 3])));
        else
#pragma unroll
            for (int u = 0; u < N; u++) value = Fold::join(value, (C)x[u]);
        return value;
    }
    template <class Fold, int FOURS, class C, class F> METHOD C fold_packs(C start, F f) const
    {
        C value = start;
        through<READS>(
            [&](const element *e) {
                decltype(f(e[0])) x[READS * PACK];
#pragma unroll
                for (int u = 0; u < READS * PACK; u++) x[u] = f(e[u]);
                value = join_all<Fold, FOURS>(value, x);
            },
            [&](const element *e) {
                decltype(f(e[0])) x[PACK];
#pragma unroll
                for (int u = 0; u < PACK; u++) x[u] = f(e[u]);
                value = join_all<Fold, FOURS>(value, x);
            });
        return joined<Fold>(WIDTH, value);
    }
    template <class Fold, int FOURS, class C, int COUNT, class X, int N>
    static METHOD void add_lanes(lanes<C, COUNT> *value, const lanes<X, COUNT> (&x)[N])
    {
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            X column[N];
#pragma unroll
            for (int d = 0; d < N; d++) column[d] = x[d].of[u];
            value->of[u] = join_all<Fold, FOURS>(value->of[u], column);
        }
    }
    template <class Fold, int FOURS, class C, class F> METHOD auto fold_lanes(C start, F f) const
    {
        typedef decltype(f(element())) numbers;
        lanes<C, numbers::COUNT> value;
        enum { DEEP = 4 };
#pragma unroll
        for (int u = 0; u < numbers::COUNT; u++) value.of[u] = start;
        int64_t i = rank();
        for (; i + (DEEP - 1) * WIDTH < n; i += DEEP * WIDTH) {
            numbers x[DEEP];
#pragma unroll
            for (int d = 0; d < DEEP; d++) x[d] = f(element{i + d * WIDTH, 0, 0});
            add_lanes<Fold, FOURS>(&value, x);
        }
        for (; i < n; i += WIDTH) {
            const numbers x[] = {f(element{i, 0, 0})};
            add_lanes<Fold, FOURS>(&value, x);
        }
        return joined_lanes<Fold>(value);
    }
    /* Returns the value of the thread `up` positions further in a group of OF threads; if there is none, the
     * caller's own value. */
    template <int OF, class C> METHOD C from_near(C value, int up) const
    {
#ifdef __CUDACC_RTC__
        return __shfl_down_sync(0xffffffffu, value, up, OF);
#else
        C *const all = (C *)room;
        all[threadIdx.x] = value;
        __syncthreads();
        value = all[(threadIdx.x % OF + up < OF) ? threadIdx.x + up : threadIdx.x];
        __syncthreads();
        return value;
#endif
    }
    /* Folds the values of the team's threads 0..count-1: first NEAR neighbours in a tree, then the results of
     * these groups in order. */
    template <class Fold, class C> METHOD C joined(int64_t count, C value) const
    {
        C *const all = (C *)room;
        for (int half = NEAR / 2; half > 0; half /= 2) {
            const C other = from_near<NEAR>(value, half);
            if (rank() % NEAR < half && rank() + half < count) value = Fold::join(value, other);
        }
#ifdef __CUDACC_RTC__
        if (FAR == 1) return __shfl_sync(0xffffffffu, value, 0, NEAR);
#endif
        if (rank() % NEAR == 0) all[threadIdx.x] = value;
        __syncthreads();
        value = all[place_of(0)];
        for (int r = NEAR; r < FAR * NEAR && r < count; r += NEAR) value = Fold::join(value, all[place_of(r)]);
        __syncthreads(); /* waits until all threads have read, before the next write */
        return value;
    }
    /* Folds the values of the team's threads, which are lanes (values of adjacent lines), to the team's first
     * thread: first the threads of a warp in a tree, then the results of the warps in order. */
    template <class Fold, class C, int N> METHOD lanes<C, N> joined_lanes(lanes<C, N> value) const
    {
        enum { WARP = 32, WARPS = WIDTH * GAP / WARP };
        lanes<C, N> *const all = (lanes<C, N> *)room;
        const int column = threadIdx.x % GAP;
        for (int up = WARP / 2; up >= GAP; up /= 2)
            value = each_lane(value, [&](C v, int) { return Fold::join(v, from_near<WARP>(v, up)); });
        if (threadIdx.x % WARP < GAP) all[threadIdx.x / WARP * GAP + column] = value;
        __syncthreads();
#pragma unroll
        for (int w = 1; w < WARPS && rank() == 0; w++)
            value = each_lane(value, [&](C v, int u) { return Fold::join(v, all[w * GAP + column].of[u]); });
        __syncthreads();
        return value;
    }
};
