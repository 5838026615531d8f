/* lines.cuh - threads that go along lines: what every kernel's text begins with behind device.cuh. */

/* The place of an element in a line, as bodies have it: of a pack, which a thread takes at once, the u-th. slot: how
 * many elements of the line the thread has before that pack. */
template <int PACK> struct packed {
    int64_t first; /* of the pack */
    int u, slot;

    METHOD operator int64_t() const { return first + u; }
};
template <int PACK>
DEVICE packed<PACK>
operator+(int64_t from, packed<PACK> i) /* where a pack begins at `from` */
{
    i.first += from;
    return i;
}

/* WIDTH threads that share a line of n elements, GAP apart: neighbours, or, where lines lie side by side in memory,
 * those of a column, so that neighbours read what lies together. HALVES: it is of halves, of which floats hold four and
 * their sum. PACK: a thread takes so many elements at once, of which n is a multiple. HELD: a line has so many for a
 * thread at most, which keeps them in registers; 0: it may have more. RUN: it meets so many lines in a row. All threads
 * of a block do the same steps, also those that have no line: theirs has none, so that barriers are met by all. */
template <int WIDTH, int GAP = 1, int HALVES = 0, int PACK = 1, int HELD = 0, int RUN = 1> struct team {
    typedef packed<PACK> element;
    int64_t n;
    bool here; /* there is a line */
    double *room; /* 256, of the block; of a RUN of lines 256 more: */
    int64_t listed = INT64_MAX, nlisted = 0; /* the LIST of those whose keys are `listed` or behind it */

    enum { LIST = 512 };
    enum { THREADS = WIDTH, NEAR = GAP > 1 ? 1 : WIDTH < 32 ? WIDTH : 32, FAR = WIDTH / NEAR };
    static METHOD int64_t rank() { return threadIdx.x / GAP % WIDTH; }
    /* The place among the block's threads of the one that has rank r. */
    static METHOD int place_of(int64_t r) { return (int)(threadIdx.x + (r - rank()) * GAP); }
    enum { TURN = WIDTH * PACK, READS = PACK > 4 ? 2 : 4 }; /* packs that are read before one is written */
    /* f(e) of COUNT turns, e[u] an element each, from the pack at `first` on, all of which there are. */
    template <int COUNT, class F> METHOD void turns(int64_t first, int slot, F f) const
    {
        element e[COUNT * PACK];
#pragma unroll
        for (int u = 0; u < COUNT * PACK; u++) e[u] = {first + u / PACK * TURN, u % PACK, slot};
        f(e);
    }
    /* many(e) and one(e) of the elements of this thread: COUNT turns at once, and those that are left. */
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
    /* to(i, from(i)) of all elements, READS packs before they are written. */
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
    /* f, which each element is asked for once, where a thread can keep what it said; else f itself. */
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
    /* By one thread. */
    template <class F> METHOD void once(F f) const
    {
        if (here && rank() == 0) f();
    }
    /* f(j), by all threads, for each j of 0..count-1 whose key(j) is `me`, in order. A block that meets RUN lines one
     * after the other, whose `me` follow one another, looks for the keys of all of them at once. */
    template <class Key, class F> METHOD void matching(int64_t count, int64_t me, Key key, F f)
    {
        if constexpr (RUN > 1) {
            static_assert(WIDTH == 256, "a block has one list");
            uint32_t *const list = (uint32_t *)(room + 256);
            if (me < listed || me - listed >= RUN) {
                listed = me;
                nlisted = 0;
                matching_all(
                    count, [&](int64_t j) { return key(j) >= me && key(j) - me < RUN; },
                    [&](int64_t j) {
                        if (nlisted < LIST && rank() == 0) list[nlisted] = (uint32_t)j;
                        nlisted++;
                    });
                __syncthreads();
            }
            for (int64_t k = 0; k < nlisted && nlisted <= LIST; k++)
                if (key(list[k]) == me) f((int64_t)list[k]);
            if (nlisted <= LIST) return;
        }
        matching_all(
            count, [&](int64_t j) { return key(j) == me; }, f);
    }
    /* f(j), by all threads, for each j of 0..count-1, in order, of which is(j); count is the same for all lines. */
    template <class Is, class F> METHOD void matching_all(int64_t count, Is is, F f) const
    {
#ifdef __CUDACC_RTC__
        if constexpr (WIDTH == 256) return matching_words(count, is, f);
#endif
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
    /* start joined with f(0..n-1); every thread gets it, but of lanes rank 0 alone. start changes nothing, however
     * often it counts. */
    template <class Fold, int FOURS = HALVES, class C, class F> METHOD auto fold(C start, F f) const
    {
        if constexpr (is_lanes<decltype(f(element()))>::IS)
            return fold_lanes<Fold, FOURS>(start, f);
        else if constexpr (PACK == 1 && HELD == 0)
            return fold_of<Fold, FOURS>(n, start, [&](int64_t i) { return f(element{i, 0, 0}); });
        else
            return fold_packs<Fold, FOURS>(start, f);
    }
    /* The same where f gives floats, of which four are joined before they count. */
    template <class Fold, class F> METHOD auto fold_near(double start, F f) const { return fold<Fold, 1>(start, f); }
    /* The sum of f(i) g(i): four products of floats count as one, unless some leave the range of floats. */
    template <class F, class G> METHOD double fold_products(F f, G g) const
    {
        const double sum = fold_near<sums>(0.0, [&](element i) { return f(i) * g(i); });
        const bool good = fabs(sum) < 1e30 && (sum > 1e-25 || sum < -1e-25);
        if (all_of(good || sum != sum)) return sum;
        return fold<sums>(0.0, [&](element i) { return (double)f(i) * g(i); });
    }
    template <class F> METHOD double fold_squares(F f) const { return fold_products(f, f); }
    /* Is it so in all teams of the block, or, where a team is a warp, in this one? */
    METHOD bool all_of(bool is) const
    {
#ifdef __CUDACC_RTC__
        if (FAR == 1) return is;
#endif
        return !__syncthreads_or(!is);
    }
    /* The greatest number of f(0..n-1), and the sum of exp(f(i) - greatest), in one pass. */
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
#ifdef __CUDACC_RTC__
    /* matching_all of a block, whose warps tell each other by words. */
    template <class Is, class F> METHOD void matching_words(int64_t count, Is is, F f) const
    {
        enum { DEEP = 16, WARP = 32 };
        uint32_t *const word = (uint32_t *)room;
        for (int64_t base = 0; base < count; base += DEEP * WIDTH) {
            bool found = false;
#pragma unroll
            for (int d = 0; d < DEEP; d++) {
                const int64_t j = base + d * WIDTH + rank();
                const bool it = here && j < count && is(j);
                const uint32_t all = __ballot_sync(0xffffffffu, it);
                if (rank() % WARP == 0) word[(d * WIDTH + rank()) / WARP] = all;
                found |= it;
            }
            if (!__syncthreads_or(found)) continue;
            for (int w = 0; w < DEEP * WIDTH / WARP; w++)
                for (uint32_t left = word[w]; left; left &= left - 1) f(base + w * WARP + __ffs(left) - 1);
            __syncthreads();
        }
    }
#endif
    /* Some numbers more: the greatest so far, and the sum of exponentials. */
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
        const C base = top > -INFINITY ? top : 0; /* of infinities below, and NaN, nothing is taken off */
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
    /* The value of the thread `up` places on, of so many neighbours. */
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
    /* The values of ranks 0..count-1 as one: of NEAR neighbours in a tree, then those of these in order. */
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
        __syncthreads(); /* nobody writes over what another has still to read */
        return value;
    }
    /* The same of lanes, which rank 0 gets: of a warp's ranks in a tree, then of the warps in order. */
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
