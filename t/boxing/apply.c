/* apply.c - tests that every move gives the right values and sends the minimum of bytes.
 *
 * The test examines a pair of layouts element by element. For each element it lists the ranks that hold each addend,
 * and the ranks that need the result. A search over all ways to assign addends to groups finds the least number of
 * bytes that must be sent. The test compares values after box_apply, sent bytes, the bound, and received bytes. A
 * hierarchical reduction must give the same bits. Pairs of layouts on small meshes are enumerated, pairs on larger
 * meshes are drawn by seed. RILLE_LONG=1 draws twenty times as many. */
#include "t/lib/plan/moves.h"
#include "t/oracles/box_apply.h"
#include "boxing/bytes.h"
#include "boxing/reduce.h"
#include "boxing/plan.h"

enum { MAX_RANK = 16, MAX_ADDEND = 8 };

static struct arena arena;
static int nfailed_pairs;
static long npairs, nrefused, nrelays;

/* ---- shards of a layout, computed without the code of boxing/ ---- */

/* Returns true if mesh position pos holds index k of dimension d. Computes the shards' ranges without boxing/; the
 * first shards are the longer ones. */
static bool
holds_index(const struct layout *l, const struct type *t, const int32_t *coord, int d, int64_t k)
{
    int64_t lo = 0, n = t->dim[d];
    for (int i = 0; i < l->place->naxis; i++) {
        int a = l->order[i], parts = l->place->axis[a];
        if (l->sbp[a].kind != SBP_S || l->sbp[a].axis != d) continue;
        int64_t at = lo, unit = l->sbp[a].unit && n % l->sbp[a].unit == 0 ? l->sbp[a].unit : 1;
        for (int part = 0; part < parts; part++) {
            int64_t size = (n / unit / parts + (part < n / unit % parts)) * unit;
            if (part == coord[a]) {
                lo = at;
                n = size;
                break;
            }
            at += size;
        }
    }
    return k >= lo && k < lo + n;
}

static bool
holds(const struct layout *l, const struct type *t, int pos, const int64_t *index)
{
    int32_t coord[MAX_AXIS];
    place_coord(l->place, pos, coord);
    for (int d = 0; d < t->ndim; d++)
        if (!holds_index(l, t, coord, d, index[d])) return false;
    return true;
}

/* Returns the index of the addend at a mesh position: its coordinates on the P axes, as one number. */
static int
addend_at(const struct layout *l, int pos)
{
    int32_t coord[MAX_AXIS];
    int n = 0;
    place_coord(l->place, pos, coord);
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_P) n = n * l->place->axis[a] + coord[a];
    return n;
}

static int
addends_of(const struct layout *l)
{
    int n = 1;
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_P) n *= l->place->axis[a];
    return n;
}

static enum reduce
kind_of(const struct layout *l)
{
    return addends_of(l) > 1 ? layout_partial(l) : RED_NONE;
}

/* Returns the offset of an element in the dense shard of a position: the number of held indices before it, in each
 * dimension. */
static int64_t
offset_in_part(const struct layout *l, const struct type *t, int pos, const int64_t *index)
{
    int32_t coord[MAX_AXIS];
    int64_t at = 0;
    place_coord(l->place, pos, coord);
    for (int d = 0; d < t->ndim; d++) {
        int64_t n = 0, before = 0;
        for (int64_t k = 0; k < t->dim[d]; k++) {
            bool held = holds_index(l, t, coord, d, k);
            n += held;
            before += held && k < index[d];
        }
        at = at * n + before;
    }
    return at;
}

static void
index_of(const struct type *t, int64_t e, int64_t *index)
{
    for (int d = t->ndim - 1; d >= 0; d--) {
        index[d] = e % t->dim[d];
        e /= t->dim[d];
    }
}

/* Returns the dtype in which addends are stored; for sums of 16-bit floats this is f32. */
static enum dtype
part_of(enum reduce r, enum dtype d)
{
    return r == RED_SUM && dtype_is_half(d) ? DT_F32 : d;
}

static enum dtype
held(const struct layout *l, const struct type *t)
{
    return addends_of(l) > 1 ? part_of(kind_of(l), t->dtype) : t->dtype;
}

/* ---- the least number of bytes to send for one element ---- */

struct element {
    int p, q;
    /* addend: bytes per element of an addend; sum: bytes per element of the sum of a group (the ranks that need
     * the same sum) */
    int addend, sum;
    /* Sets of ranks, as bits. holder[i]: ranks that hold addend i; member[i]: ranks of group i, which need the sum
     * of that group. */
    uint32_t holder[MAX_ADDEND], member[MAX_ADDEND];
};

static int
group_cost(const struct element *e, int j, int addends)
{
    uint32_t held = 0;
    int n = __builtin_popcount((unsigned)addends), members = __builtin_popcount(e->member[j]);
    for (int i = 0; i < e->p; i++)
        if (addends >> i & 1) held |= e->holder[i];
    if (n == 0) return 0;
    if (n == 1) return __builtin_popcount(e->member[j] & ~held) * e->addend;
    return (n - 1) * e->addend + (members - !!(e->member[j] & held)) * e->sum;
}

/* Returns the least number of bytes that must be sent, over all ways to assign each addend to one group. */
static int
least_cost(const struct element *e)
{
    int full = (1 << e->p) - 1, best[1 << MAX_ADDEND];
    for (int given = 0; given <= full; given++) best[given] = given ? 1000000 : 0;
    for (int j = 0; j < e->q; j++)
        for (int given = full; given >= 0; given--)
            for (int take = given; take > 0; take = (take - 1) & given) {
                int cost = best[given & ~take] + group_cost(e, j, take);
                if (cost < best[given]) best[given] = cost;
            }
    return best[full];
}

static struct element
element_sets(const struct type *t, const struct layout *from, const struct layout *to, const int64_t *index)
{
    struct element e = {.p = addends_of(from), .q = addends_of(to)};
    e.addend = (int)dtype_bytes(held(from, t));
    e.sum = (int)dtype_bytes(held(to, t));
    for (int pos = 0; pos < from->place->nrank; pos++)
        if (holds(from, t, pos, index)) e.holder[addend_at(from, pos)] |= 1u << from->place->rank[pos];
    for (int pos = 0; pos < to->place->nrank; pos++)
        if (holds(to, t, pos, index)) e.member[addend_at(to, pos)] |= 1u << to->place->rank[pos];
    return e;
}

static int64_t
least_bytes(const struct type *t, const struct layout *from, const struct layout *to)
{
    struct element last = {.p = 0};
    int64_t n = type_numel(t), sum = 0;
    int cost = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t index[MAX_DIM];
        index_of(t, k, index);
        struct element e = element_sets(t, from, to, index);
        if (k == 0 || memcmp(&e, &last, sizeof e)) cost = least_cost(&e);
        last = e;
        sum += cost;
    }
    return sum;
}

/* ---- values ---- */

static double
combine(enum reduce r, double a, double b)
{
    return r == RED_MAX ? (a > b ? a : b) : r == RED_MIN ? (a < b ? a : b) : a + b;
}

/* Returns addend i of the p addends of a value. For a sum, the addends are random and add up to the value. For max
 * and min, one addend equals the value. */
static double
addend_value(enum reduce r, int p, int i, double value, uint64_t salt)
{
    uint64_t state = salt;
    double rest = value;
    int winner = (int)(next_random(&state) % (uint64_t)p);
    if (p == 1) return value;
    if (r == RED_SUM) {
        for (int k = 0; k < p - 1; k++) {
            double part = (double)(next_random(&state) % 20);
            if (k == i) return part;
            rest -= part;
        }
        return rest;
    }
    double away = (double)(next_random(&state) % 5 + (uint64_t)i);
    return i == winner ? value : r == RED_MAX ? value - away : value + away;
}

static double
value_of(int64_t e)
{
    return (double)(e * 7 % 101 + 1);
}

static void
fill_sources(void **part, const struct layout *l, const struct type *t)
{
    enum reduce r = kind_of(l);
    for (int64_t e = 0; e < type_numel(t); e++) {
        int64_t index[MAX_DIM];
        index_of(t, e, index);
        for (int pos = 0; pos < l->place->nrank; pos++)
            if (holds(l, t, pos, index))
                elem_set_f(held(l, t), part[pos], offset_in_part(l, t, pos, index),
                           addend_value(r, addends_of(l), addend_at(l, pos), value_of(e), (uint64_t)e * 977 + 5));
    }
}

static double
ignored(enum reduce r, enum dtype d)
{
    if (r == RED_SUM) return 0;
    if (dtype_is_float(d)) return r == RED_MAX ? -INFINITY : INFINITY;
    if (d == DT_I64) return r == RED_MAX ? (double)INT64_MIN : (double)INT64_MAX;
    return r == RED_MAX ? INT32_MIN : INT32_MAX;
}

/* Checks one element of the result. Replicas must be equal. If the result is partial, its addends (one per group
 * of replicas) must combine to the value; if the source was not partial, exactly one addend must be the value and
 * all others the identity. */
static bool
element_is_right(void **part, const struct layout *l, const struct type *t, int64_t e, bool was_whole)
{
    int64_t index[MAX_DIM];
    double group[MAX_ADDEND], all = 0;
    int seen = 0, keepers = 0;
    enum reduce r = kind_of(l);
    index_of(t, e, index);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        if (!holds(l, t, pos, index)) continue;
        int j = addend_at(l, pos);
        double v = elem_get_f(held(l, t), part[pos], offset_in_part(l, t, pos, index));
        if (seen >> j & 1 && group[j] != v) return false;
        group[j] = v;
        seen |= 1 << j;
    }
    for (int j = 0; j < addends_of(l); j++) {
        all = j ? combine(r, all, group[j]) : group[j];
        keepers += r == RED_NONE || group[j] != ignored(r, t->dtype);
    }
    return all == value_of(e) && (!was_whole || keepers == 1);
}

/* ---- one pair of layouts ---- */

static void
complain(const char *what, const struct type *t, const struct layout *from, const struct layout *to)
{
    if (nfailed_pairs++ <= 10) diag_move(what, t, from, to);
}

static void
check_refused(int code, const struct type *t, const struct layout *from, const struct layout *to)
{
    nrefused++;
    if (code != E_SBP || box_bytes(t, from, to) != INT64_MAX) complain("not refused", t, from, to);
    struct str a = {0}, b = {0};
    layout_print(from, &a);
    layout_print(to, &b);
    if (!strstr(err_text(), str_text(&a)) || !strstr(err_text(), str_text(&b)))
        complain("the error does not name both layouts", t, from, to);
    str_free(&a);
    str_free(&b);
}

static void
check_bytes(const struct box_plan *p, const struct type *t, const struct layout *from, const struct layout *to)
{
    int64_t least = least_bytes(t, from, to), received = 0;
    for (int i = 0; i < p->nrank; i++) received += p->received[i];
    if (p->bytes != least || p->bound != least || received != least || box_bytes(t, from, to) != least) {
        complain("bytes", t, from, to);
        diag("  sent %lld, bound %lld, received %lld, priced %lld; least %lld", (long long)p->bytes,
             (long long)p->bound, (long long)received, (long long)box_bytes(t, from, to), (long long)least);
    }
}

static void
check_values(const struct box_plan *p, const struct type *t, const struct layout *from, const struct layout *to)
{
    void **src = parts_new(from, t, 0), **dst = parts_new(to, t, 0x5a);
    fill_sources(src, from, t);
    box_apply(p, src, dst);
    for (int64_t e = 0; e < type_numel(t); e++)
        if (!element_is_right(dst, to, t, e, kind_of(from) == RED_NONE)) {
            complain("values", t, from, to);
            break;
        }
    parts_free(src, from);
    parts_free(dst, to);
}

/* Checks that a hierarchical reduction gives the same bits as a reduction in which each owner reads all addends. */
static void
check_relay(const struct box_plan *p, const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_relay relay;
    struct box_plan *handed;
    int32_t pos[MAX_RANK];
    for (int32_t i = 0; i < MAX_RANK; i++) pos[i] = i;
    struct box_ranks all = {from->place->nrank, to->place->nrank, pos, pos};
    if (!draw_relay(&arena, t, from, to, &relay)) return;
    nrelays++;
    if (box_plan_relay(&arena, t, from, to, &relay, &all, &handed)) complain(err_text(), t, from, to);
    void **src = parts_new(from, t, 0), **dst = parts_new(to, t, 0x5a), **want = parts_new(to, t, 0xa5);
    for (int i = 0; i < from->place->nrank; i++) {
        struct type part = layout_shard(from, t, i);
        int first = layout_origin(from, i);
        for (int64_t e = 0; first == i && e < type_numel(&part); e++)
            elem_set_f(part.dtype, src[i], e, (double)(next_random(&seed) % 4096) / 7 - 200);
        if (first != i) memcpy(src[i], src[first], (size_t)type_bytes(&part));
    }
    box_apply(p, src, want);
    box_apply(handed, src, dst);
    for (int i = 0; i < to->place->nrank; i++) {
        struct type part = layout_shard(to, t, i);
        if (memcmp(dst[i], want[i], (size_t)type_bytes(&part))) {
            complain("hierarchical reduction", t, from, to);
            break;
        }
    }
    parts_free(src, from);
    parts_free(dst, to);
    parts_free(want, to);
}

static void
check_pair(const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_plan *p;
    enum reduce a = kind_of(from), b = kind_of(to);
    npairs++;
    arena_reset(&arena);
    int code = box_plan(&arena, t, from, to, &p);
    if (a != RED_NONE && b != RED_NONE && a != b) {
        check_refused(code, t, from, to);
        return;
    }
    if (code) {
        complain(err_text(), t, from, to);
        return;
    }
    check_bytes(p, t, from, to);
    check_values(p, t, from, to);
    check_relay(p, t, from, to);
}

/* ---- enumerated and random cases ---- */

static void
finish(const char *what, int failed_before)
{
    ok(nfailed_pairs == failed_before, "%s (%ld pairs, %ld refused, %ld hierarchical reductions)", what, npairs,
       nrefused, nrelays);
    npairs = nrefused = nrelays = 0;
}

static void
every_pair(const struct place *p, int ndim, int nkind, const char *what)
{
    int before = nfailed_pairs, n = layouts_of(p, ndim, nkind, from_list), ntype = 1;
    for (int d = 0; d < ndim; d++) ntype *= NSIZE;
    for (int k = 0; k < ntype; k++) {
        struct type t = nth_type(ndim, k);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) check_pair(&t, from_list[i], from_list[j]);
    }
    finish(what, before);
}

/* Checks every pair of layouts with a unit on one side or on both. */
static void
every_pair_of_units(const struct place *p, int32_t unit, const char *what)
{
    int before = nfailed_pairs, n = layouts_of(p, 1, 1, from_list);
    static const int64_t longer[] = {4, 6, 9, 12, 18, 20};
    for (int i = 0; i < n; i++) {
        struct sbp sbp[MAX_AXIS];
        for (int a = 0; a < MAX_AXIS; a++) {
            sbp[a] = from_list[i]->sbp[a];
            sbp[a].unit = unit;
        }
        if (layout_new(atlas, p, sbp, from_list[i]->order, &to_list[i])) diag("%s", err_text());
    }
    for (size_t k = 0; k < countof(longer); k++) {
        struct type t = type_of(DT_BF16, 1, &longer[k]);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                check_pair(&t, from_list[i], to_list[j]);
                check_pair(&t, to_list[i], from_list[j]);
                check_pair(&t, to_list[i], to_list[j]);
            }
    }
    finish(what, before);
}

static void
draw_pairs(const struct place *p, const struct place *q, long n, const char *what)
{
    int before = nfailed_pairs;
    draw_moves(p, q, 3, n, check_pair);
    finish(what, before);
}

/* Checks n drawn pairs of layouts on a mesh of 2 x 2 x 2 x 2. Each layout has at most MAX_ADDEND addends (partial
 * sums of one element). */
static void
draw_on_four_axes(long n)
{
    int32_t rank[MAX_RANK];
    int before = nfailed_pairs;
    for (int i = 0; i < MAX_RANK; i++) rank[i] = i;
    const struct place *p = place(4, (int32_t[]){2, 2, 2, 2}, rank);
    while (n > 0) {
        struct type t = draw_type(1 + (int)(n % 3), 150);
        enum reduce r = (enum reduce)(RED_SUM + next_random(&seed) % 3);
        const struct layout *from = draw_layout(p, t.ndim, r), *to = draw_layout(p, t.ndim, r);
        if (addends_of(from) > MAX_ADDEND || addends_of(to) > MAX_ADDEND) continue;
        check_pair(&t, from, to);
        n--;
    }
    finish("pairs on 2 x 2 x 2 x 2", before);
}

/* ---- the bound, compared with a search over everything that ranks could send ---- */

enum { SEARCH_RANKS = 4, SEARCH_ADDENDS = 3 };

/* Returns all sums that a rank can compute from the sums that it has. A sum is a set of addends; sums of disjoint
 * sets can be added. has, result: in both, bit s stands for the sum of the addends in set s. */
static uint32_t
closure(uint32_t has)
{
    for (uint32_t before = 0; before != has;) {
        before = has;
        for (int a = 1; a < 8; a++)
            for (int b = 1; b < 8; b++)
                if (has >> a & 1 && has >> b & 1 && !(a & b)) has |= 1u << (a | b);
    }
    return has;
}

static bool
can_finish(uint32_t state, int p, int wanted, int sends)
{
    bool finished = true;
    for (int r = 0; r < SEARCH_RANKS; r++) finished &= !(wanted >> r & 1) || (state >> (8 * r + (1 << p) - 1) & 1);
    if (finished) return true;
    for (int to = 0; sends > 0 && to < SEARCH_RANKS; to++)
        for (int set = 1; set < 1 << p; set++) {
            uint32_t has = state >> 8 * to & 255;
            bool somebody = false;
            for (int r = 0; r < SEARCH_RANKS; r++) somebody |= state >> (8 * r + set) & 1;
            if (!somebody || has >> set & 1) continue;
            uint32_t next = (state & ~(255u << 8 * to)) | closure(has | 1u << set) << 8 * to;
            if (can_finish(next, p, wanted, sends - 1)) return true;
        }
    return false;
}

/* Tries every way to store p addends on 4 ranks, including ranks without an addend, and every set of ranks that need
 * the sum. */
static void
bound_is_least(void)
{
    int cases = 0, wrong = 0;
    for (int code = 0; code < 256; code++)
        for (int wanted = 1; wanted < 16; wanted++)
            for (int p = 1; p <= SEARCH_ADDENDS; p++) {
                struct element e = {.p = p, .q = 1, .addend = 1, .sum = 1, .member = {(uint32_t)wanted}};
                uint32_t state = 0;
                bool fits = true;
                for (int r = 0; r < SEARCH_RANKS; r++) {
                    int addend = (code >> 2 * r & 3) - 1;
                    fits &= addend < p;
                    if (!fits || addend < 0) continue;
                    e.holder[addend] |= 1u << r;
                    state |= 1u << (8 * r + (1 << addend));
                }
                for (int i = 0; i < p; i++) fits &= e.holder[i] != 0;
                if (!fits) continue;
                int least = least_cost(&e);
                cases++;
                wrong += !can_finish(state, p, wanted, least) || (least > 0 && can_finish(state, p, wanted, least - 1));
            }
    is_int(wrong, 0, "the formula for the minimum equals a search over all transmissions");
    diag("%d cases of 1 to 3 addends on 4 ranks", cases);
}

/* ---- order of additions, and identities of reductions ---- */

static void
reductions_keep_the_order(void)
{
    const struct place *p = mesh(4, 0, 0);
    const struct layout *from, *to = layout_broadcast(atlas, p);
    struct sbp partial = {.kind = SBP_P, .reduce = RED_SUM};
    struct box_plan *plan;
    int64_t dim = 8;
    struct type t = type_of(DT_F32, 1, &dim);
    float in[4] = {1e8f, 1.0f, -1e8f, 1.0f}, want = ((in[0] + in[1]) + in[2]) + in[3];
    bool same = true;
    layout_new(atlas, p, &partial, NULL, &from);
    box_plan(&arena, &t, from, to, &plan);
    void **src = parts_new(from, &t, 0), **dst = parts_new(to, &t, 0);
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 8; i++) ((float *)src[r])[i] = in[r];
    box_apply(plan, src, dst);
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 8; i++) same &= ((float *)dst[r])[i] == want;
    ok(same, "a sum adds in the order of the mesh, to the bit");
    parts_free(src, from);
    parts_free(dst, to);
}

/* Returns the reduction of n values, computed one after the other. Rounds the intermediate results like a
 * reduction to dtype d. */
static double
reduced_by_hand(enum dtype d, enum reduce r, const double *v, int n)
{
    double all = v[0];
    int64_t rounded[2] = {0};
    for (int k = 1; k < n; k++) {
        bool nan = all != all || v[k] != v[k];
        all = r == RED_MAX && nan ? NAN : r == RED_MIN && nan ? NAN : combine(r, all, v[k]);
        elem_set_f(part_of(r, d), rounded, 0, all);
        all = elem_get_f(part_of(r, d), rounded, 0);
    }
    elem_set_f(d, rounded, 0, all);
    return elem_get_f(d, rounded, 0);
}

/* Adds a transposed matrix that does not fit into one slab to a dense matrix. */
static void
large_transposed(void)
{
    enum { N = 300, M = 301 };
    struct type t = type_of(DT_F32, 2, (int64_t[]){N, M});
    float *a = must_alloc(sizeof(float) * N * M), *b = must_alloc(sizeof(float) * N * M);
    struct view dst = view_dense(&t, a), src = view_dense(&t, b);
    int64_t wrong = 0;
    src.stride[0] = 1, src.stride[1] = N;
    for (int i = 0; i < N * M; i++) a[i] = (float)i, b[i] = (float)(i % 1000);
    box_combine(RED_SUM, false, &dst, &src);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) wrong += a[i * M + j] != (float)(i * M + j) + (float)((i + j * N) % 1000);
    ok(wrong == 0, "a large transposed matrix is added element by element");
    free(a);
    free(b);
}

static void
loops_of(enum dtype d, enum reduce r)
{
    enum { SOURCES = 3, ROWS = 3, COLS = 5, ROOM = 2 * ROWS * COLS };
    int64_t memory[SOURCES + 1][ROOM] = {{0}}, wrong = 0, kept = 0;
    struct view v[SOURCES + 1];
    enum dtype h = part_of(r, d);
    for (int k = 0; k <= SOURCES; k++) {
        struct type t = type_of(k < SOURCES ? h : d, 2, (int64_t[]){ROWS, COLS});
        v[k] = view_dense(&t, memory[k]);
        if (k == 1) v[k].stride[0] = 1, v[k].stride[1] = ROWS;
        if (k == 2) v[k].stride[0] = 2 * COLS;
        for (int i = 0; i < ROOM; i++)
            elem_set_f(t.dtype, memory[k], i, (double)(next_random(&seed) % 50) / (dtype_is_float(d) ? 8 : 1));
    }
    if (dtype_is_float(d) && r != RED_SUM) elem_set_f(d, memory[1], 4, NAN);
    box_reduce(r, &v[SOURCES], SOURCES, v);
    for (int i = 0; i < ROWS * COLS; i++) {
        double in[SOURCES], got = elem_get_f(d, memory[SOURCES], i), want;
        for (int k = 0; k < SOURCES; k++)
            in[k] = elem_get_f(h, memory[k], i / COLS * v[k].stride[0] + i % COLS * v[k].stride[1]);
        want = reduced_by_hand(d, r, in, SOURCES);
        if (d == DT_BOOL) want = r == RED_MIN ? in[0] && in[1] && in[2] : in[0] || in[1] || in[2];
        wrong += got != want && !(got != got && want != want);
    }
    struct type t = type_of(h, 2, (int64_t[]){ROWS, COLS});
    v[SOURCES] = view_dense(&t, memory[SOURCES]);
    box_fill(r, &v[SOURCES]);
    box_combine(r, false, &v[SOURCES], &v[0]);
    for (int i = 0; i < ROWS * COLS; i++) kept += elem_get_f(h, memory[SOURCES], i) == elem_get_f(h, memory[0], i);
    box_fill(r, &v[SOURCES]);
    box_combine(r, false, &v[SOURCES], &v[1]);
    for (int i = 0; i < ROWS * COLS; i++) {
        double got = elem_get_f(h, memory[SOURCES], i), want = elem_get_f(h, memory[1], i / COLS + i % COLS * ROWS);
        kept += got == want || (got != got && want != want);
    }
    ok(wrong == 0 && kept == 2 * ROWS * COLS, "%s of %s combines element by element, and its identity has no effect",
       reduce_text(r), dtype_text(d));
}

int
main(void)
{
    long more = getenv("RILLE_LONG") ? 20 : 1;
    seed = seed_of(20240);
    atlas = atlas_new();
    bound_is_least();
    reductions_keep_the_order();
    large_transposed();
    for (int d = DT_NONE + 1; d < NDTYPE; d++)
        for (int r = RED_SUM; r <= RED_MIN; r++) loops_of((enum dtype)d, (enum reduce)r);
    if (share_next()) every_pair(mesh(2, 0, 0), 1, 3, "every pair on 2 ranks, vectors");
    if (share_next()) every_pair(mesh(2, 0, 0), 2, 3, "every pair on 2 ranks, matrices");
    if (share_next()) every_pair(mesh(3, 0, 0), 1, 3, "every pair on 3 ranks, vectors");
    if (share_next()) every_pair(mesh(3, 0, 0), 2, 3, "every pair on 3 ranks, matrices");
    if (share_next()) every_pair(mesh(4, 0, 0), 1, 3, "every pair on 4 ranks, vectors");
    if (share_next()) every_pair(mesh(4, 0, 0), 2, 3, "every pair on 4 ranks, matrices");
    if (share_next()) every_pair(mesh(2, 2, 0), 1, 3, "every pair on 2 x 2, vectors");
    if (share_next()) every_pair(mesh(2, 3, 0), 1, 3, "every pair on 2 x 3, vectors");
    if (share_next()) every_pair(mesh(2, 2, 0), 2, 3, "every pair on 2 x 2, matrices");
    if (share_next()) every_pair(mesh(2, 3, 0), 2, 1, "every pair on 2 x 3, matrices");
    if (share_next()) every_pair(mesh(2, 2, 2), 1, 3, "every pair on 2 x 2 x 2, vectors");
    if (share_next()) every_pair_of_units(mesh(2, 0, 0), 2, "every pair on 2 ranks, units of 2");
    if (share_next()) every_pair_of_units(mesh(3, 0, 0), 2, "every pair on 3 ranks, units of 2");
    if (share_next()) every_pair_of_units(mesh(4, 0, 0), 3, "every pair on 4 ranks, units of 3");
    if (share_next()) every_pair_of_units(mesh(2, 2, 0), 2, "every pair on 2 x 2, units of 2");
    if (share_next()) every_pair_of_units(mesh(2, 3, 0), 3, "every pair on 2 x 3, units of 3");
    if (more > 1) {
        if (share_next()) every_pair(mesh(3, 0, 0), 3, 3, "every pair on 3 ranks, three dimensions");
        if (share_next()) every_pair(mesh(2, 2, 0), 3, 1, "every pair on 2 x 2, three dimensions");
        if (share_next()) every_pair(mesh(2, 2, 2), 2, 1, "every pair on 2 x 2 x 2, matrices");
    }
    if (share_next()) draw_pairs(mesh(2, 0, 0), mesh(2, 0, 0), 1000 * more, "pairs on 2 ranks");
    if (share_next()) draw_pairs(mesh(4, 0, 0), mesh(4, 0, 0), 1000 * more, "pairs on 4 ranks");
    if (share_next()) draw_pairs(mesh(2, 2, 0), mesh(2, 2, 0), 4000 * more, "pairs on 2 x 2");
    if (share_next()) draw_pairs(mesh(2, 3, 0), mesh(2, 3, 0), 4000 * more, "pairs on 2 x 3");
    if (share_next()) draw_pairs(mesh(2, 2, 2), mesh(2, 2, 2), 10000 * more, "pairs on 2 x 2 x 2");
    if (share_next()) draw_on_four_axes(200 * more);
    for (size_t i = 0; i < countof(twos); i++)
        if (share_next())
            draw_pairs(place(twos[i].na, twos[i].axis[0], twos[i].rank[0]),
                       place(twos[i].nb, twos[i].axis[1], twos[i].rank[1]), 1500 * more, twos[i].what);
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
