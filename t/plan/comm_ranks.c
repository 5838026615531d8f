/* comm_ranks.c - tests library collectives and point-to-point links between plan partitions.
 *
 * In any order of events, partitions that use a collective library must compute the bits of one host without a
 * library. Each partition lists its collectives. The lists must agree, and the comparison must find injected
 * mistakes in the lists. Covers moves between all layouts, and random programs, on asynchronous test devices. A
 * stand-in replaces the library (t/lib/plan/collecting.h). */
#include "actors/plan/compile.h"
#include "actors/plan/outline/comm_ranks.h"
#include "t/lib/plan/parts.h"

#include "t/lib/plan/collecting.h"

static const struct cut cut[] = {{2, {2, 2}}, {2, {1, 3}}, {4, {1, 1, 1, 1}}, {3, {1, 2, 1}}};

static int
count_members(const struct plan *p)
{
    int n = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].kind == &kind_collect;
    return n;
}

static int
count_all(const struct parts *x)
{
    int n = 0;
    for (int m = 0; m < x->n; m++) n += count_members(x->plan[m]);
    return n;
}

/* Returns true if each move that a library collective performs consists only of collective tasks: it has no
 * channels, transfers or box tasks. */
static bool
goes_alone(const struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct plan_move *of = task_hop(&p->task[i]);
        if (of && of->by && p->task[i].kind != &kind_collect) return false;
    }
    return true;
}

/* Returns the number of channels that the library carries, counted at their sending ends. */
static int
count_edges(const struct parts *x)
{
    int n = 0;
    for (int m = 0; m < x->n; m++)
        for (int32_t c = 0; c < x->plan[m]->nchannel; c++)
            n += x->plan[m]->channel[c].direct && x->plan[m]->channel[c].sends;
    return n;
}

/* Returns true if every move between asynchronous devices uses a point-to-point link and nothing else: no send or
 * receive task, and no task on another kind of device. */
static bool
goes_direct(const struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        const struct plan_move *of = task_hop(t);
        bool late = of && of->from->place->kind == DEV_ASYNC && of->to->place->kind == DEV_ASYNC;
        if (late && (t->kind == &kind_send || t->kind == &kind_recv || p->device[t->device].kind != DEV_ASYNC))
            return false;
        if (late && p->device[task_holder(t)].kind != DEV_ASYNC) return false;
    }
    return true;
}

/* Compares the partitions' lists of collectives; returns 0 if they agree. spoilt: a damaged list, used in place of
 * the list of partition `which`; NULL: no list is replaced. */
static int
match(const struct parts *x, int which, const struct str *spoilt)
{
    struct str text[MOST_PARTS] = {{0}};
    struct comm_ranks_list list[MOST_PARTS];
    for (int m = 0; m < x->n; m++) {
        comm_ranks_write(x->plan[m], &text[m]);
        const struct str *s = spoilt && m == which ? spoilt : &text[m];
        list[m] = (struct comm_ranks_list){m, str_text(s), s->len};
    }
    int status = comm_ranks_match(x->n, list);
    for (int m = 0; m < x->n; m++) str_free(&text[m]);
    return status;
}

struct count {
    int programs, refused, members, edges, same, alone, indirect, agreed;
    long passes;
};

/* Runs the program in partitions with a library and compares it with one host without a library. */
static void
try_cut(struct rille_session *s, const struct bench *whole, int status, const struct str *bytes, int want,
        const struct cut *c, uint64_t seed, struct count *n)
{
    struct parts x = {0};
    parts_map(&x, c);
    collecting_begin(true);
    host_comm_buffers = seed % 2;
    bool good = !parts_compile(&x, bytes, s->atlas);
    /* Skips an invalid program: each micro-batch would read a sum over all micro-batches. */
    if (!good && strstr(err_text(), "is known only after the last")) {
        n->refused++;
        parts_close(&x);
        return;
    }
    n->programs++;
    for (int m = 0; good && m < x.n; m++) n->alone += goes_alone(x.plan[m]), n->members += count_members(x.plan[m]);
    for (int m = 0; m < x.n; m++) n->alone--;
    for (int m = 0; good && m < x.n; m++) n->indirect += !goes_direct(x.plan[m]);
    if (good) n->edges += count_edges(&x);
    long passed = npassed;
    if (good && want >= 0 && count_all(&x) != want) {
        diag("%d collective tasks, not %d", count_all(&x), want);
        good = false;
    }
    if (good) n->agreed += good = !parts_connect(&x) && !match(&x, 0, NULL);
    if (good) good = !parts_open(&x, seed);
    if (good) parts_run(&x);
    for (int m = 0; good && m < x.n; m++) {
        if (!x.status[m] != !status) diag("partition %d: %d, %s", m, x.status[m], err_text());
        good = !x.status[m] == !status;
    }
    good = good && (status || parts_agree(&x, whole));
    n->passes += npassed - passed;
    n->same += good;
    if (!good) diag("seed %llu, %d partitions: %s", (unsigned long long)seed, x.n, err_text());
    parts_close(&x);
}

static void
try_program(struct rille_session *s, struct plan *p, int want, uint64_t seed, struct count *n)
{
    struct engine *e = simulator(seed);
    struct bench whole;
    struct str bytes = {0};
    program_write(p->program, &bytes);
    bench_open(&whole, p);
    int status = engine_run(e, &whole.run);
    try_cut(s, &whole, status, &bytes, want, &cut[seed % countof(cut)], seed, n);
    bench_close(&whole);
    engine_free(&e);
    str_free(&bytes);
}

static void
say(const struct count *n, const char *what)
{
    ok(covered(n->programs > 0 && n->members + n->edges > 0),
       "%s: %d programs in partitions have %d collective tasks and %d channels carried by the library", what,
       n->programs, n->members, n->edges);
    ok(n->indirect == 0 && n->passes >= n->edges, "%s: these channels have no tasks but their two ends (%ld passes)",
       what, n->passes);
    ok(n->alone == 0, "%s: moves by library collectives have no channel, transfer or box task", what);
    ok(n->agreed == n->programs, "%s: the lists of all partitions agree (%d)", what, n->agreed);
    ok(n->same == n->programs, "%s: partitions give the bits of one host without a library (%d)", what, n->same);
}

/* ---- every move ---- */

/* Compiles the plan of one host twice. Returns the plan without a library; sets *want to the number of collective
 * tasks in the plan with a library. */
static struct plan *
plan_twice(struct rille_session *s, const struct layout *from, const struct layout *to, int *want)
{
    collecting_begin(true);
    struct plan *p = plan_moves_of(s, 8, from, 1, &to);
    *want = p ? count_members(p) : 0;
    plan_free(&p);
    collecting_end();
    return plan_moves_of(s, 8, from, 1, &to);
}

static void
every_move(struct rille_session *s)
{
    static const int32_t rank[] = {2, 0, 1, 3};
    const struct layout *layout[LAYOUTS_ON];
    struct count n = {0};
    int npair = 0, nlayout = layouts_on(s, DEV_ASYNC, rank, 1, layout);
    for (int i = 0; i < nlayout * nlayout; i++) {
        int want;
        if (layout[i / nlayout] == layout[i % nlayout] || !share_next()) continue;
        struct plan *p = plan_twice(s, layout[i / nlayout], layout[i % nlayout], &want);
        for (uint64_t k = 0; p && want && k < countof(cut); k++) {
            wire_ns_per_byte = (double)(k % 2);
            try_program(s, p, want, (uint64_t)i * countof(cut) + k, &n);
        }
        npair += p && want;
        plan_free(&p);
    }
    wire_ns_per_byte = 0;
    ok(covered(npair > 40), "%d pairs of layouts are collectives on one host", npair);
    say(&n, "moves");
}

/* Moves values between two lists of devices, as pipeline stages do. Tries moves within one list of devices only if
 * the library has no collective for the move. */
static void
every_stage(struct rille_session *s)
{
    static const int32_t rank[][4] = {{0, 1}, {2, 3}, {3}, {0}, {1, 2, 3}, {3, 2, 1, 0}, {0, 2}};
    static const int32_t nrank[] = {2, 2, 1, 1, 3, 4, 2};
    static const char *const text[] = {"S(0)", "S(1)", "B", "P"};
    struct count n = {0};
    int nlist = countof(nrank), nway = 4 * nlist;
    for (int i = 0; i < nway * nway; i++) {
        int a = i / nway, b = i % nway, want;
        const struct layout *from = mesh_layout(s, DEV_ASYNC, 1, &nrank[a / 4], rank[a / 4], text[a % 4]),
                            *to = mesh_layout(s, DEV_ASYNC, 1, &nrank[b / 4], rank[b / 4], text[b % 4]);
        if (from == to || !share_next()) continue;
        struct plan *p = plan_twice(s, from, to, &want);
        wire_ns_per_byte = (double)(i / 3 % 2);
        if (p && !want) try_program(s, p, want, (uint64_t)i, &n);
        plan_free(&p);
    }
    wire_ns_per_byte = 0;
    say(&n, "stages");
    ok(covered(n.edges > 500), "stages: the library carries more than 500 channels");
}

/* ---- programs ---- */

static void
try_seed(struct rille_session *s, uint64_t seed, bool pieces, struct count *n)
{
    uint64_t rng = seed;
    collecting_end();
    struct plan *p = random_plan(s, &rng, pieces);
    if (p) try_program(s, p, -1, seed, n);
    plan_free(&p);
}

static void
random_programs(struct rille_session *s, uint64_t seed, int most)
{
    struct count n = {0};
    most = share_of(most, &seed);
    for (int i = 0; i < most; i++) {
        wire_ns_per_byte = i % 4 == 1;
        try_seed(s, seed + (uint64_t)i, i % 3 == 2, &n);
    }
    wire_ns_per_byte = 0;
    say(&n, "random programs");
    diag("%d refused", n.refused);
}

/* Runs two seeds that once failed. Their programs have two calls that could be fused: the first reads no
 * micro-batch, the second reads a sum over micro-batches (t/plan/async.c). */
static void
found_once(struct rille_session *s)
{
    static const uint64_t seed[] = {2687, 16475};
    struct count n = {0};
    for (size_t i = 0; i < countof(seed); i++) try_seed(s, seed[i], true, &n);
    is_int(n.same, (int)countof(seed), "values known before the last micro-batch do not wait for it");
}

/* ---- failed and stopped runs ---- */

/* Makes a random program in partitions and connects the partitions. counted: counts the tasks under test in a
 * program. Returns false if the program has none. */
static bool
draw(struct rille_session *s, uint64_t seed, int (*counted)(const struct parts *x), struct parts *x)
{
    uint64_t rng = seed;
    collecting_begin(true);
    if (!parts_random(x, s, &rng, seed % 3 == 2, &cut[seed % countof(cut)])) return false;
    bool good = counted(x) > 0 && !parts_connect(x) && !match(x, 0, NULL);
    if (!good) parts_close(x);
    return good;
}

/* Runs random plans. In each run, either an act fails or the run is stopped. All partitions must end, and the next
 * run must succeed. */
static void
failures(struct rille_session *s, uint64_t first, int (*counted)(const struct parts *x))
{
    enum { PER_RUN = 50 }; /* maximum number of seeds drawn to find one program with communication */
    int n = 0, ended = 0, again = 0;
    uint64_t turn = 0;
    int most = share_some(getenv("RILLE_LONG") ? 3000 : 300, 40, &turn);
    first += turn * PER_RUN;
    for (uint64_t seed = first; n < most; seed++) {
        struct parts x;
        host_comm_buffers = seed / 3 % 2;
        if (!draw(s, seed, counted, &x)) continue;
        if (!parts_open(&x, seed)) {
            bool stop = seed % 4 == 0;
            x.aborts = true;
            if (stop) x.stop = (int)(1 + seed % 40);
            if (!stop) engine_fail_act(x.engine[seed / 7 % (uint64_t)x.n], 1 + (int64_t)(seed % 9));
            int failed = parts_run(&x), late = parts_again(&x);
            if (late) diag("seed %llu: %s", (unsigned long long)seed, err_text());
            n++;
            ended += failed > 0;
            again += !late;
        }
        parts_close(&x);
    }
    ok(ended > n / 4, "of %d runs, %d fail or are stopped half-way", n, ended);
    is_int(again, n, "the run after each of them succeeds");
}

/* ---- mistakes in collective tasks ---- */

static int32_t
member_at(const struct plan *p, uint64_t which)
{
    int32_t n = count_members(p), k = n ? (int32_t)(which % (uint64_t)n) : 0;
    for (int32_t i = 0; n && i < p->ntask; i++)
        if (p->task[i].kind == &kind_collect && k-- == 0) return i;
    return -1;
}

/* Returns true if the partition's verifier, or the comparison with the other partitions, finds a mistake. */
static bool
list_differs(struct parts *x, int m)
{
    return plan_verify(x->plan[m]) || match(x, 0, NULL);
}

static bool
ends_differ(struct parts *x, int m)
{
    return plan_verify(x->plan[m]) || parts_connect(x);
}

/* A group of mistakes that the test puts into plans. kinds: number of kinds of mistakes. counted() returns the
 * number of tasks that can get such a mistake. plant() puts a mistake of kind `kind` into a plan and returns its
 * name; NULL: no task of the plan can get it. differs() returns true if the mistake is found. */
struct place_of_mistakes {
    int kinds;
    int (*counted)(const struct parts *x);
    const char *(*plant)(struct plan *p, int kind, uint64_t seed, struct arena *a);
    bool (*differs)(struct parts *x, int m);
};

static const char *
plant(struct plan *p, int kind, uint64_t seed, struct arena *a)
{
    int32_t i = member_at(p, seed / 5);
    if (i < 0 || !comm_ranks_abroad(p, i)) return NULL;
    struct task *t = &p->task[i];
    struct plan_move *of = (struct plan_move *)(uintptr_t)t->move.of;
    struct collective *by = arena_dup(a, of->by, sizeof *by);
    struct move_comm_rank *member = arena_dup(a, t->move.member, sizeof *member);
    struct communicator *in = arena_dup(a, member->in, sizeof *in);
    int32_t *device = arena_dup(a, in->device, sizeof *device * (size_t)in->n);
    of->by = by;
    t->move.member = member;
    switch (kind) {
    case 0: return by->verb = (uint8_t)((by->verb + 1) % 4), "another verb";
    case 1: return by->dtype = by->dtype == DT_F32 ? DT_I32 : DT_F32, "another dtype";
    case 2: return member->comm_rank = (member->comm_rank + 1) % in->n, "another rank";
    case 3: return of->late = !of->late, "another time of the act";
    case 4: return of->hop++, "a move of another hop";
    case 5: return device[0]++, in->device = device, member->in = in, "another list of devices";
    case 6: return member->numel++, "another number of elements";
    case 7: return of->value.index++, "another value";
    default: return t->nact++, "another number of acts";
    }
}

/* Puts mistakes into collective tasks or ends of links. For each mistake, either the verifier or the comparison with
 * the other partitions must report an error. */
static void
mistakes(struct rille_session *s, uint64_t first, const struct place_of_mistakes *at)
{
    struct planted n = {0};
    int most = share_some(getenv("RILLE_LONG") ? 20000 : 3000, 300, &first);
    for (uint64_t seed = first; seed < first + (uint64_t)most; seed++) {
        struct parts x;
        struct arena a = {0};
        if (!draw(s, seed, at->counted, &x)) continue;
        int m = (int)(seed % (uint64_t)x.n), kind = (int)(seed / 4 % (uint64_t)at->kinds);
        const char *text = at->plant(x.plan[m], kind, seed, &a);
        if (text) planted_add(&n, kind, text, at->differs(&x, m), seed);
        parts_close(&x);
        arena_fini(&a);
    }
    planted_report(&n, at->kinds);
}

/* Replaces the list of collectives of one partition by an empty list, and by a damaged one. The comparison with
 * the other partitions must refuse both. */
static void
other_lists(struct rille_session *s, uint64_t first)
{
    int n = 0, found = 0, nlist = 0, nfound = 0;
    int most = share_some(24, 6, &first);
    for (uint64_t seed = first; n < most; seed++) {
        struct parts x;
        uint64_t rng = seed;
        struct str list = {0};
        if (!draw(s, seed, count_all, &x)) continue;
        int m = (int)(seed % (uint64_t)x.n);
        int32_t i = member_at(x.plan[m], seed);
        bool abroad = false;
        for (int32_t k = 0; k < x.plan[m]->ntask; k++)
            abroad = abroad || (x.plan[m]->task[k].kind == &kind_collect && comm_ranks_abroad(x.plan[m], k));
        if (i >= 0 && abroad) {
            struct str none = {0};
            n++;
            found += match(&x, m, &none) == E_PLAN;
            comm_ranks_write(x.plan[m], &list);
            size_t at = (size_t)(next_random(&rng) % list.len);
            list.text[at] = (char)(list.text[at] ^ (1 << next_random(&rng) % 8));
            if (seed % 5 == 0) list.len -= 1 + (size_t)(next_random(&rng) % 31);
            nlist++;
            nfound += match(&x, m, &list) == E_PLAN;
        }
        str_free(&list);
        parts_close(&x);
    }
    ok(found == n, "a partition that lists no collectives is found (%d of %d)", found, n);
    ok(nfound > nlist / 2, "lists with a changed bit or a missing end: %d of %d are refused, the others do no harm",
       nfound, nlist);
}

/* ---- mistakes at the ends of links ---- */

/* Searches the tasks cyclically, from task `which` on. Returns the first end of a point-to-point link; -1: none.
 * packs: true: skips ends that pack no slices. */
static int32_t
end_at(const struct plan *p, bool sends, bool packs, uint64_t which)
{
    for (int32_t k = 0; k < p->ntask; k++) {
        int32_t i = (int32_t)((which + (uint64_t)k) % (uint64_t)p->ntask);
        const struct task *t = &p->task[i];
        if (t->kind == (sends ? &kind_p2p_send : &kind_p2p_recv) && (!packs || t->move.member->npack)) return i;
    }
    return -1;
}

static int32_t
first_of_hop(const struct plan *p, int32_t task)
{
    while (task > 0 && task_hop(&p->task[task - 1]) == p->task[task].move.of) task--;
    return task;
}

/* Replaces the task's first input by an edge from the first task of the same hop (one step of the move). Returns
 * false for a task without input, and for the first task itself. */
static bool
follow_hop(struct plan *p, int32_t i)
{
    struct task *t = &p->task[i];
    if (t->nin == 0 || first_of_hop(p, i) == i) return false;
    t->in[0].task = first_of_hop(p, i);
    return true;
}

/* Changes the edge from a receive task to its first reader: the reader then begins once the receive is enqueued,
 * not when it is done. Returns false if the reader is on another thread. */
static bool
show_early(const struct plan *p, int32_t i)
{
    struct out_port *o = &p->task[i].out[0];
    const struct reader *r = &o->fan[0].reader[0];
    if (o->nfan == 0 || p->task[r->task].thread != p->task[i].thread) return false;
    p->task[r->task].in[r->port].token = SYNC_EVENT;
    o->fan[0].nissued = 1;
    return true;
}

/* Puts a mistake into one end of a link. */
static const char *
plant_end(struct plan *p, int kind, uint64_t seed, struct arena *a)
{
    bool slices = kind == 8 || kind == 9;
    int32_t i = end_at(p, slices || seed / 3 % 2, slices, seed / 5);
    if (i < 0) return NULL;
    struct task *t = &p->task[i];
    struct move_comm_rank *member = arena_dup(a, t->move.member, sizeof *member);
    struct communicator *in = arena_dup(a, member->in, sizeof *in);
    const int32_t other[] = {in->device[1], in->device[0]};
    struct comm_rank_copy *pack = slices ? arena_dup(a, member->pack, sizeof *pack * (size_t)member->npack) : NULL;
    bool receives = t->kind == &kind_p2p_recv;
    member->in = in;
    if (slices) member->pack = pack;
    t->move.member = member;
    switch (kind) {
    case 0: return member->comm_rank = !member->comm_rank, "another direction";
    case 1: return in->device = arena_dup(a, other, sizeof other), "the link of other devices";
    case 2: return in->edge = false, "a communicator that is no link";
    case 3: return p->channel[t->channel].direct = false, "a channel that is not direct";
    case 4: return member->numel++, "another number of elements";
    case 5: return member->dtype = member->dtype == DT_F32 ? DT_I32 : DT_F32, "another dtype";
    case 6: return t->stream = STREAM_MOVE, "another stream";
    case 7: return receives && show_early(p, i) ? "a reader notified early" : NULL;
    case 8: return pack[0].from_skip += 4, "a slice at another offset";
    case 9: return member->npack--, "a missing slice";
    case 10: return receives && follow_hop(p, i) ? "an edge from its own hop" : NULL;
    default: return t->kind = receives ? &kind_recv : &kind_send, "a kind that host code carries out";
    }
}

/* Compiles one partition without a library, and the others with a library. parts_connect() must find the mismatch. */
static void
one_without(struct rille_session *s, uint64_t first)
{
    int n = 0, found = 0, named = 0, most = share_some(30, 5, &first);
    for (uint64_t seed = first; n < most; seed++) {
        struct parts x;
        if (!draw(s, seed, count_edges, &x)) continue;
        int m = 0;
        while (m < x.n && end_at(x.plan[m], true, false, 0) < 0) m++;
        struct str bytes = {0};
        struct program *g;
        program_write(x.plan[m]->program, &bytes);
        plan_free(&x.plan[m]);
        collecting_end();
        if (!program_read(str_text(&bytes), bytes.len, s->atlas, &g)) {
            g->map = &x.map[m];
            g->cost.wire_ns = 0;
            g->cost.wire_ns_per_byte = wire_ns_per_byte;
            if (!plan_compile(g, s->atlas, &x.plan[m])) {
                free(x.far[m]);
                x.far[m] = calloc((size_t)x.plan[m]->nchannel + 1, sizeof *x.far[m]);
                n++;
                found += parts_connect(&x) == E_PLAN;
                named += strstr(err_text(), "number of the library's link (0: none)") != NULL;
            }
        }
        collecting_begin(true);
        str_free(&bytes);
        parts_close(&x);
    }
    ok(found == n && covered(named > 0), "channels that are direct at one end only are found (%d of %d, %d by name)",
       found, n, named);
}

/* ---- swapping two messages between threads ---- */

static struct device_heap {
    const struct parts *parts;
    bool holds, over;
    struct msg m;
    int choices; /* number of times that the simulator has chosen a message since this one was held back */
    bool swapped;
} held;

/* Returns true if this message tells the receiving end of a link that the sending end has sent data. */
static bool
tells_edge(const struct msg *m)
{
    if (m->kind != MSG_FULL || m->out != MSG_FAR) return false;
    return held.parts->plan[addr_process(m->to)]->task[m->task].kind == &kind_p2p_recv;
}

/* Replaces the bus's send function. Holds back the first notification of a link. Sends it after the second
 * notification with the same sender and receiver. */
static int
send_swapped(struct bus *b, const struct msg *m)
{
    if (held.over || !tells_edge(m)) return bus_sim.send(b, m);
    if (!held.holds) {
        held.m = *m;
        held.holds = true;
        return 0;
    }
    if (held.m.from != m->from || held.m.to != m->to) return bus_sim.send(b, m);
    held.swapped = held.over = true;
    TRY(bus_sim.send(b, m));
    return bus_sim.send(b, &held.m);
}

/* Replaces the simulator's choice of the next message. Sends the held message if no second notification follows
 * within PATIENCE choices. */
static uint64_t
choose_swapped(struct bus *b, uint64_t n)
{
    enum { PATIENCE = 3000 };
    if (held.holds && !held.over && ++held.choices == PATIENCE) {
        held.over = true;
        bus_sim.send(b, &held.m);
    }
    return bus_sim.choose(b, n);
}

/* Swaps two messages between two threads. If both messages belong to one link, the run must fail with E_BUS. If they
 * belong to two independent links, the run must succeed. */
static void
other_orders(struct rille_session *s, uint64_t first)
{
    static struct bus_kind swapping;
    int n = 0, aborts = 0, said = 0, most = share_some(40, 5, &first);
    swapping = bus_sim;
    swapping.send = send_swapped;
    swapping.choose = choose_swapped;
    for (uint64_t seed = first; n < most; seed++) {
        struct parts x;
        if (!draw(s, seed, count_edges, &x)) continue;
        if (!parts_open(&x, seed)) {
            held = (struct device_heap){.parts = &x};
            x.playing = &swapping;
            x.aborts = true;
            int failed = parts_run(&x), turn = 0;
            if (held.swapped) {
                for (int m = 0; m < x.n; m++) turn |= x.status[m] == E_BUS;
                n++;
                said += turn;
                aborts += turn || !failed;
            }
        }
        parts_close(&x);
    }
    ok(aborts == n && covered(said > 0),
       "%d runs with swapped messages on links: none gives a wrong result without an error (%d report an error)", n,
       said);
}

/* Checks the error messages of comm_ranks_match(). */
static void
words(void)
{
    static const uint64_t good[] = {3ull << 32 | 1, 7, 2, 4}, fewer[] = {3ull << 32 | 1, 7, 1, 4},
                          other[] = {3ull << 32 | 1, 8, 2, 4}, more[] = {3ull << 32 | 1, 7, 3, 4},
                          twice[] = {3ull << 32 | 1, 7, 1, 4, 3ull << 32 | 1, 7, 1, 4};
    static const struct {
        const void *bytes;
        size_t n;
        const char *why;
    } row[] = {
        {good, sizeof good, NULL},
        {good, 12, "the list of host 5 has an impossible size, 12 bytes"},
        {fewer, sizeof fewer, "step 3, operand 0, hop 1: host 0 takes part in a collective in which some positions"},
        {other, sizeof other, "host 5 takes part in another collective than the first host"},
        {more, sizeof more, "host 5 claims more communicator ranks than the other hosts leave"},
        {twice, sizeof twice, "host 5 has two collectives of this name"},
        {NULL, 0, "some positions have no communicator rank"},
    };
    for (size_t i = 0; i < countof(row); i++) {
        const struct comm_ranks_list list[] = {{5, row[i].bytes, row[i].n}, {0, good, sizeof good}};
        int status = comm_ranks_match(2, list);
        ok(row[i].why ? status == E_PLAN && strstr(err_text(), row[i].why) : !status, "row %d: %s", (int)i,
           status ? err_text() : "the lists agree");
    }
}

int
main(void)
{
    struct rille_options o = {.devices = "cpu:4,async:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    uint64_t seed = seed_of(1);
    alarm(getenv("RILLE_LONG") ? 3600 : 300);
    if (rille_open(&o, &s)) return 1;
    other_kind = DEV_ASYNC;
    every_move(s);
    every_stage(s);
    found_once(s);
    random_programs(s, seed, getenv("RILLE_LONG") ? 20000 : 600);
    failures(s, seed + 1, count_all);
    failures(s, seed + 10000, count_edges);
    mistakes(s, seed + 2, &(struct place_of_mistakes){9, count_all, plant, list_differs});
    other_lists(s, seed + 3);
    mistakes(s, seed + 4, &(struct place_of_mistakes){12, count_edges, plant_end, ends_differ});
    one_without(s, seed + 5);
    other_orders(s, seed + 6);
    words();
    rille_close(&s);
    return done();
}
