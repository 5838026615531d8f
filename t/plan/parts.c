/* parts.c - tests plan partitions on hosts without access to each other's memory: results must have the bits of one
 * plan on one host.
 *
 * Random programs, and every move between layouts, are planned on one host and in partitions. Partitions have
 * separate buffers. One simulator runs all partitions in an order that a seed decides. With an argument such as
 * cuda:0x4, the test runs random programs with these devices. */
#include "actors/plan/compile.h"
#include "actors/plan/outline/gates.h"
#include "actors/plan/sim/merge_partitions.h"
#include "t/lib/plan/parts.h"

#include <sys/wait.h>

static const struct cut cut[] = {{2, {2, 2}}, {2, {1, 3}}, {2, {3, 1}}, {3, {1, 2, 1}}, {4, {1, 1, 1, 1}}};

struct count {
    int programs, parts, refused, compiled, connected, ordered, joined, same, channels, handed, transfers, tasks;
};

/* Checks that each move of a partition is a move of the one-host plan, and that they have the same order. */
static bool
in_order(const struct plan *part, const struct plan *whole)
{
    int32_t k = 0;
    for (int32_t i = 0; i < part->nmove; i++, k++) {
        const struct plan_move *m = part->move[i];
        for (; k < whole->nmove; k++) {
            const struct plan_move *w = whole->move[k];
            bool value = w->value.kind == m->value.kind && w->value.index == m->value.index;
            if (value && w->value.out == m->value.out && w->from == m->from && w->to == m->to) break;
        }
        if (k == whole->nmove) return false;
    }
    return true;
}

static bool
all_in_order(const struct parts *x, const struct plan *whole)
{
    bool good = true;
    for (int m = 0; m < x->n; m++) good = good && in_order(x->plan[m], whole);
    return good;
}

/* Returns the number of channels that carry a running sum from segment to segment. */
static int
count_handed(const struct plan *p)
{
    int n = 0;
    for (int32_t i = 0; i < p->nchannel; i++)
        n += p->channel[i].name.from_side == SIDE_STAGE && p->channel[i].name.to_side == SIDE_STAGE;
    return n;
}

/* Returns true if every message is received after it is sent, once later[m] ns are added to the times of partition
 * m. */
static bool
is_caused(const struct plan *p, const int32_t *first, int n, const struct act_time *act, int64_t nact,
          const int64_t *later)
{
    struct arena a = {0};
    int32_t *count = ARENA_ARRAY(&a, int32_t, p->ntask + 1);
    const struct act_time **at = ARENA_ARRAY(&a, const struct act_time *, nact + 1);
    bool good = true;
    for (int64_t i = 0; i < nact; i++) count[act[i].task + 1]++;
    for (int32_t i = 1; i <= p->ntask; i++) count[i] += count[i - 1];
    /* count[i] is now the index after the last act of task i */
    for (int64_t i = 0; i < nact; i++) at[count[act[i].task]++] = &act[i];
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        int mine = n - 1, far = n - 1;
        if (!(t->kind->flags & KIND_SENDS) || !t->out[t->nout - 1].nfan) continue;
        int32_t to = t->out[t->nout - 1].fan[0].reader[0].task, begin = i ? count[i - 1] : 0;
        while (first[mine] > i) mine--;
        while (first[far] > to) far--;
        for (int32_t k = begin; k < count[i]; k++) {
            const struct act_time *in = at[(to ? count[to - 1] : 0) + k - begin];
            good = good && at[k]->begin + later[mine] <= in->begin + later[far];
            good = good && at[k]->end + later[mine] <= in->end + later[far];
        }
    }
    arena_fini(&a);
    return good;
}

/* Shifts the clocks of partitions by up to an hour. plan_clocks() must find offsets by which every receive follows
 * its send. If no clock is shifted, the offsets must be 0. */
static bool
settles(const struct parts *x, const struct plan *p, const int32_t *first, struct act_time *act, int64_t nact)
{
    struct arena a = {0};
    const struct act_time *of[MOST_PARTS];
    int64_t n[MOST_PARTS] = {0}, later[MOST_PARTS], off[MOST_PARTS] = {0};
    struct act_time *each[MOST_PARTS];
    uint64_t rng = (uint64_t)nact * 2654435761u + (uint64_t)p->ntask;
    bool good = true;
    for (int round = 0; round < 3 && good; round++) {
        for (int m = 1; m < x->n; m++)
            off[m] = round ? (int64_t)(next_random(&rng) % 7200000000000u) - 3600000000000 : 0;
        for (int m = 0; m < x->n; m++) {
            of[m] = each[m] = ARENA_ARRAY(&a, struct act_time, nact + 1);
            n[m] = 0;
        }
        for (int64_t i = 0; i < nact; i++) {
            int m = x->n - 1;
            while (first[m] > act[i].task) m--;
            each[m][n[m]] = act[i];
            each[m][n[m]++].task -= first[m];
        }
        for (int m = 0; m < x->n; m++)
            for (int64_t i = 0; i < n[m]; i++) each[m][i].begin += off[m], each[m][i].end += off[m];
        plan_clocks((const struct plan *const *)x->plan, x->n, of, n, later);
        good = later[0] == 0;
        for (int m = 0; m < x->n; m++) good = good && (round || later[m] == 0), later[m] += off[m];
        good = good && is_caused(p, first, x->n, act, nact, later);
    }
    arena_fini(&a);
    return good;
}

/* Checks that the merged plan can be simulated to its end. The simulation ends only if every send has a reader. */
static bool
plays(const struct parts *x)
{
    struct arena a = {0};
    int32_t first[MOST_PARTS];
    struct act_time *act;
    int64_t nact, all = 0;
    const struct plan *p = plan_merge_partitions((const struct plan *const *)x->plan, x->n, false, &a, first);
    int64_t *cost = ARENA_ARRAY(&a, int64_t, p->ntask + 1);
    bool good = true;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        cost[i] = 1 + i % 7;
        all += t->nact;
        good = good && (!(t->kind->flags & KIND_SENDS) || t->out[t->nout - 1].nfan == 1);
    }
    good = good && !plan_sim_run(p, cost, &(struct plan_sim_options){.share = PLAN_SIM_DEVICES}, &a, &act, &nact) &&
           nact == all;
    good = good && settles(x, p, first, act, nact);
    arena_fini(&a);
    return good;
}

/* Runs the program in partitions and compares the result with that of one host. */
static void
try_cut(struct rille_session *s, const struct bench *whole, int status, const struct str *bytes, const struct cut *c,
        uint64_t seed, struct count *n)
{
    struct parts x = {0};
    n->parts++;
    parts_map(&x, c);
    bool good = !parts_compile(&x, bytes, s->atlas);
    /* Skips an invalid program: each micro-batch would read a sum over all micro-batches. */
    if (!good && strstr(err_text(), "is known only after the last")) {
        n->parts--;
        n->refused++;
        parts_close(&x);
        return;
    }
    n->compiled += good;
    n->ordered += good && all_in_order(&x, whole->run.plan);
    n->joined += good && plays(&x);
    if (good) n->connected += good = !parts_connect(&x);
    if (!good) diag("seed %llu: %s", (unsigned long long)seed, err_text());
    if (good && !parts_open(&x, seed)) {
        parts_run(&x);
        for (int m = 0; m < x.n; m++) {
            if (!x.status[m] != !status)
                diag("seed %llu: partition %d: %d, %s", (unsigned long long)seed, m, x.status[m], err_text());
            good = good && !x.status[m] == !status;
            n->channels += x.plan[m]->nchannel;
            n->tasks += x.plan[m]->ntask;
            n->handed += count_handed(x.plan[m]);
            for (int32_t i = 0; i < x.plan[m]->ntask && x.plan[m]->nchannel; i++)
                n->transfers += x.plan[m]->task[i].kind == &kind_transfer;
        }
        good = good && (status || parts_agree(&x, whole));
        n->same += good;
        if (!good) diag("seed %llu: another result with %d partitions", (unsigned long long)seed, x.n);
    }
    parts_close(&x);
}

static void
try_program(struct rille_session *s, struct plan *p, uint64_t seed, struct count *n)
{
    struct engine *e = simulator(seed);
    struct bench whole;
    struct str bytes = {0};
    program_write(p->program, &bytes);
    bench_open(&whole, p);
    int status = engine_run(e, &whole.run);
    n->programs++;
    try_cut(s, &whole, status, &bytes, &cut[seed % countof(cut)], seed, n);
    bench_close(&whole);
    engine_free(&e);
    str_free(&bytes);
}

static void
try_seed(struct rille_session *s, uint64_t seed, bool pieces, struct count *n)
{
    uint64_t rng = seed;
    struct plan *p = random_plan(s, &rng, pieces);
    if (p) try_program(s, p, seed, n);
    plan_free(&p);
}

/* Runs random programs. If `kind` is DEV_ASYNC or a GPU kind, each host also has devices of that kind. Values
 * between these devices then pass through transfers and channels. */
static void
random_programs(struct rille_session *s, uint64_t seed, int kind, int most)
{
    struct count n = {0};
    most = share_of(most, &seed);
    other_kind = kind;
    for (int i = 0; i < most; i++) {
        wire_ns_per_byte = i % 4 == 1;
        try_seed(s, seed + (uint64_t)i, i % 3 == 2, &n);
    }
    other_kind = DEV_CPU;
    wire_ns_per_byte = 0;
    ok(n.parts > most / 2, "most random programs can be planned in partitions");
    is_int(n.compiled, n.parts, "each partition of a random program is planned and verified");
    is_int(n.ordered, n.compiled, "the moves of a partition are those of one host, in order");
    is_int(n.connected, n.compiled, "partitions agree about the channels between them");
    is_int(n.joined, n.compiled, "the merged partitions are one plan, which can be simulated");
    is_int(n.same, n.compiled, "partitions give the bits of one host");
    ok(covered(n.handed > 0), "some programs hand on a sum");
    diag("%d programs, %d refused, %d tasks, %d channel ends, %d sums handed on, %d transfers", n.programs, n.refused,
         n.tasks, n.channels, n.handed, n.transfers);
}

/* Runs programs that once deadlocked or had no plan. In most of them two values shared memory: one was live until
 * after the last micro-batch, the other was made per micro-batch or sent early. In seed 17829 only some hosts can
 * overwrite a variable, because only their shards of a view of the variable are copied before the update. */
static void
found_once(struct rille_session *s)
{
    static const struct {
        uint64_t seed;
        int kind;
    } found[] = {{2902, DEV_CPU},  {6584, DEV_CPU},  {7930, DEV_CPU},    {12059, DEV_CPU},
                 {15027, DEV_CPU}, {26440, DEV_CPU}, {16875, DEV_ASYNC}, {17829, DEV_ASYNC}};
    struct count n = {0};
    for (size_t i = 0; i < countof(found); i++) {
        other_kind = found[i].kind;
        try_seed(s, found[i].seed, true, &n);
    }
    other_kind = DEV_CPU;
    is_int(n.same, (int)countof(found),
           "no micro-batch, and no early send, waits for memory that is free only after the last micro-batch");
}

/* Checks that a program is refused if each micro-batch reads a sum over all micro-batches. Such a program once ran
 * on one host, but only by chance. */
static void
waits_for_all(struct rille_session *s)
{
    struct count n = {0};
    try_seed(s, 79, true, &n);
    is_int(n.refused, 1, "partitions of a program are refused if its micro-batches read a sum over all of them");
}

/* ---- every move ---- */

static void
every_move(struct rille_session *s, int a, int b)
{
    const struct layout *from[LAYOUTS_ON], *to[LAYOUTS_ON];
    struct count n = {0};
    int npair = 0, tries = a == DEV_CPU && b == DEV_CPU ? 4 : 2, nlayout = layouts_on(s, a, NULL, 1, from);
    other_kind = a == DEV_CPU ? b : a;
    layouts_on(s, b, NULL, 1, to);
    for (int i = 0; i < nlayout * nlayout; i++) {
        if (from[i / nlayout] == to[i % nlayout] || !share(i)) continue;
        struct plan *p = plan_moves_of(s, 6, from[i / nlayout], 1, &to[i % nlayout]);
        npair++;
        for (uint64_t k = 0; p && k < (uint64_t)tries; k++) {
            wire_ns_per_byte = tries == 4 ? (double)(k / 2) : 1;
            try_program(s, p, (uint64_t)i * countof(cut) + k % 2, &n);
        }
        plan_free(&p);
    }
    other_kind = DEV_CPU;
    wire_ns_per_byte = 0;
    const char *text = device_kind_text(a), *and = device_kind_text(b);
    ok(n.programs == tries * npair,
       "%s -> %s: every pair of layouts on 4 and 2 x 2 devices, on hosts of 2 + 2 and 1 + 3", text, and);
    ok(n.same == n.parts, "%s -> %s: partitions give the bits of one host", text, and);
    ok(covered(n.handed > 0), "%s -> %s: some sums are handed on", text, and);
    diag("%d tasks, %d channel ends, %d sums handed on, %d transfers", n.tasks, n.channels, n.handed, n.transfers);
}

/* ---- failed and stopped runs ---- */

/* Makes a random program in partitions whose updates wait for a data check. Returns false if the program of this
 * seed has no such updates. */
static bool
guarded_parts(struct rille_session *s, uint64_t seed, struct parts *x)
{
    uint64_t rng = seed;
    struct arena a = {0};
    bool good = false;
    wire_ns_per_byte = seed % 4 == 1;
    if (!parts_random(x, s, &rng, seed % 3 == 2, &cut[seed % countof(cut)])) return false;
    const struct program *g = x->plan[0]->program;
    const bool *gate = gates_find(g, &a);
    for (int32_t i = 0; i < g->nnode; i++) good = good || gate[i];
    good = good && !parts_connect(x) && !parts_open(x, seed);
    if (!good) parts_close(x);
    arena_fini(&a);
    return good;
}

/* Writes invalid ids into the id leaves of all partitions. Returns the number of leaves written. */
static int
spoil_ids(struct parts *x)
{
    int n = 0;
    for (int m = 0; m < x->n; m++)
        for (int32_t i = 0; i < x->plan[m]->nleaf_part; i++)
            if (x->plan[m]->leaf_part[i].type.dtype == DT_I64 && x->plan[m]->leaf_part[i].bytes) {
                const struct device_kind *k = device_kind(leaf_kind(x->plan[m], i));
                n += !k->fill(x->bench[m].run.leaf[i], 0x7f, (size_t)x->plan[m]->leaf_part[i].bytes);
            }
    return n;
}

/* Returns true if the leaves that are updated after a gate have their old values. */
static bool
nothing_updated(struct plan *p, const struct bench *b)
{
    struct bench fresh;
    struct arena a = {0};
    const bool *gate = gates_find(p->program, &a);
    int32_t first = 0;
    bool same = true;
    while (first < p->program->nnode && !gate[first]) first++;
    bench_open(&fresh, p);
    for (int32_t i = 0; i < p->nroot_part; i++) {
        const struct plan_part *part = &p->root_part[i];
        bool guarded = p->overwrites[part->index] && p->program->root[part->index].ref.index >= first && part->bytes;
        same = same && (!guarded || same_root(&fresh, i, b, i));
    }
    bench_close(&fresh);
    arena_fini(&a);
    return same;
}

enum failure { BAD_DATA, BAD_ACT, STOP, NFAILURE };
struct tally {
    int tried[NFAILURE], refused, kept, again;
};

static void
try_failure(struct parts *x, enum failure failure, uint64_t seed, struct tally *n)
{
    bool kept = true;
    if (failure == BAD_DATA && spoil_ids(x) == 0) failure = STOP;
    if (failure == BAD_ACT) engine_fail_act(x->engine[seed / 7 % (uint64_t)x->n], 1 + (int64_t)(seed % 5));
    x->stop = failure == STOP ? (int)(1 + seed % 40) : 0;
    int failed = parts_run(x);
    for (int m = 0; m < x->n; m++) kept = kept && nothing_updated(x->plan[m], &x->bench[m]);
    n->tried[failure]++;
    n->refused += failure == BAD_DATA && failed > 0;
    n->kept += failure == BAD_DATA && kept;
    if (failure != BAD_DATA) n->again += parts_again(x) == 0;
}

/* Checks failures. Bad data on one host must prevent the updates on all hosts. A failed act, or a stop on one
 * host, must end the run on all hosts. The next run must succeed. */
static void
failures(struct rille_session *s, uint64_t first, int kind)
{
    struct tally n = {0};
    /* draws many programs, because only few have an update that waits for a check */
    uint64_t cases = 4 * (uint64_t)share_of(getenv("RILLE_LONG") ? 6000 : 1500, &first);
    other_kind = kind;
    for (uint64_t seed = first; seed < first + cases; seed++) {
        struct parts x;
        if (!guarded_parts(s, seed, &x)) continue;
        try_failure(&x, (enum failure)(seed / 3 % NFAILURE), seed, &n);
        parts_close(&x);
    }
    is_int(n.refused, n.tried[BAD_DATA], "bad data on one host ends the run");
    is_int(n.kept, n.tried[BAD_DATA], "no host updates after bad data");
    is_int(n.again, n.tried[BAD_ACT] + n.tried[STOP], "the run after a failed act or a stop succeeds");
    other_kind = DEV_CPU;
    ok(covered(n.tried[BAD_DATA] > 0 && n.tried[BAD_ACT] > 0 && n.tried[STOP] > 0),
       "bad data, failed acts and stops were all tried");
    diag("%d runs with bad data, %d with a failed act, %d with a stop", n.tried[BAD_DATA], n.tried[BAD_ACT],
         n.tried[STOP]);
}

/* ---- planted mistakes ---- */

enum { KINDS = 14 };
/* Puts mistake number `kind` into a channel. Returns the mistake's name; NULL: the mistake is impossible in this
 * channel. */
static const char *
plant(struct plan *p, int kind, int32_t at)
{
    struct channel *c = &p->channel[at % p->nchannel];
    struct channel_slice *slice = (struct channel_slice *)c->slice;
    switch (kind) {
    case 0: return c->nreg++, "another number of registers";
    case 1: return p->nchannel--, "a channel that one partition lacks";
    case 2: return c->bytes += 4, "another number of bytes";
    case 3: return slice ? slice->skip += 4, "another window" : NULL;
    case 4: return c->what++, "another value";
    case 5: return c->name.to++, "another destination";
    case 6: return c->late = !c->late, "another time of the act";
    case 7: return c->peer++, "another host";
    case 8: return c->sends = !c->sends, "another direction";
    case 9: return c->nact++, "another number of acts";
    case 10: return c->name.step++, "another step";
    case 11: {
        struct plan_move *of = (struct plan_move *)task_hop(&p->task[c->task]);
        return of ? of->hop += 100, "a move of another hop" : NULL;
    }
    case 12: return c->turn++, "another turn";
    case 13: return c->dtype = c->dtype == DT_F32 ? DT_I64 : DT_F32, "another dtype";
    default: return NULL;
    }
}

/* Returns true if the partition's own verifier finds the mistake, or if the partition's list of channels does not
 * match that of another partition. */
static bool
is_found(struct parts *x, int m)
{
    if (plan_verify(x->plan[m])) return true;
    for (int other = 0; other < x->n; other++)
        if (other != m && parts_match(x, other, m)) return true;
    return false;
}

/* Changes a byte of a list of channels, or truncates the list. The list must be rejected, unless only a task
 * number changed, because task numbers are not compared. */
static void
spoil_list(struct parts *x, int m, uint64_t *rng, int *tried, int *accepted)
{
    struct str list = {0};
    int other = (m + 1) % x->n;
    channels_write(x->plan[m], other, &list);
    char *bytes = must_alloc(list.len + 1);
    for (int i = 0; i < 20; i++) {
        size_t n = next_random(rng) % 4 ? list.len : next_random(rng) % (list.len + 1);
        memcpy(bytes, str_text(&list), list.len);
        bytes[next_random(rng) % list.len] ^= (char)(1 + next_random(rng) % 255);
        *accepted += !channels_match(x->plan[other], m, bytes, n, x->far[other]);
        ++*tried;
    }
    free(bytes);
    str_free(&list);
}

static void
mistakes(struct rille_session *s, uint64_t first)
{
    int tried = 0, accepted = 0;
    struct planted n = {0};
    for (uint64_t seed = first; seed < first + 300; seed++) {
        struct parts x;
        uint64_t rng = seed;
        int kind = (int)(seed % KINDS);
        const char *text = NULL;
        if (!parts_random(&x, s, &rng, seed % 3 == 2, &cut[seed / KINDS % countof(cut)])) continue;
        int m = (int)(seed / 3 % (uint64_t)x.n);
        spoil_list(&x, m, &rng, &tried, &accepted);
        if (x.plan[m]->nchannel) text = plant(x.plan[m], kind, (int32_t)(next_random(&rng) % 1000));
        if (text) planted_add(&n, kind, text, is_found(&x, m), seed);
        parts_close(&x);
    }
    ok(accepted < tried / 4, "a damaged list of channels is rejected (all but %d of %d)", accepted, tried);
    planted_report(&n, KINDS);
}

/* Finds the first channel, from task `at` on, that passes through host memory. Sets *end to its send or receive
 * task, and *transfer to its transfer task. Returns false if no channel passes through host memory. */
static bool
find_halfway(struct plan *p, int32_t at, bool sends, struct task **end, struct task **transfer)
{
    for (int32_t k = 0; k < p->nchannel; k++) {
        const struct channel *c = &p->channel[(at + k) % p->nchannel];
        int32_t other = sends ? c->task - 1 : c->task + 1;
        if (c->sends != sends || c->name.from_side == SIDE_GATE || other < 0 || other >= p->ntask || !c->bytes)
            continue;
        *end = &p->task[c->task];
        *transfer = &p->task[other];
        bool goes = (*transfer)->kind == &kind_transfer && (*transfer)->move.of == (*end)->move.of;
        if (goes && (sends ? (*end)->in[0].task == other : (*transfer)->in[0].task == c->task)) return true;
    }
    return false;
}

enum { HALVES = 16 };
/* Puts a mistake into the send or receive task, or the transfer task, of a channel through host memory. Returns the
 * mistake's name. */
static const char *
plant_halfway(struct plan *p, int kind, int32_t at)
{
    struct task *end, *t;
    bool sends = kind % 2 == 0;
    if (!find_halfway(p, at, sends, &end, &t)) return NULL;
    struct task *reader = sends ? end : t;
    struct box_move *step = t->move.step;
    switch (kind) {
    case 0: return reader->in[0].token = SYNC_ENQUEUED, "a SEND that starts when its bytes are enqueued";
    case 1: return reader->in[0].token = SYNC_EVENT, "a stream that waits for host code by an event";
    case 2:
    case 3:
        return reader->arg[0].skip += 4,
               sends ? "a SEND of other bytes" : "a transfer from host memory that reads other bytes";
    case 4:
    case 5:
        return step->skip += 4,
               sends ? "a transfer to another place in host memory" : "a transfer from host memory to another place";
    case 6:
    case 7:
        return step->from[0].skip += 4,
               sends ? "a transfer to host memory of another window" : "a transfer from host memory of another window";
    case 8:
    case 9:
        return t->move.nstep--,
               sends ? "a transfer to host memory that omits a slice" : "a transfer from host memory of nothing";
    case 10:
        return end->device = t->device, end->thread = t->thread,
               "a SEND from a device whose memory host code cannot read";
    case 11:
        return end->device = t->device, end->thread = t->thread,
               "a RECV to a device whose memory host code cannot write";
    case 12:
    case 13:
        return t->pos++, sends ? "a transfer to host memory for another reader"
                               : "a transfer from host memory for another reader";
    case 14: return ((struct channel_slice *)p->channel[end->channel].slice)->skip += 4, "a SEND of another row";
    case 15: return t->kind = &kind_box, "a transfer from host memory that is another kind of task";
    default: return NULL;
    }
}

/* Puts mistakes into transfers to and from host memory. The verifier must find each mistake. */
static void
mistakes_halfway(struct rille_session *s, uint64_t first)
{
    struct planted n = {0};
    other_kind = DEV_ASYNC;
    for (uint64_t seed = first; seed < first + 400; seed++) {
        struct parts x;
        uint64_t rng = seed;
        int kind = (int)(seed % HALVES);
        if (!parts_random(&x, s, &rng, seed % 3 == 2, &cut[seed / HALVES % countof(cut)])) continue;
        for (int m = 0; m < x.n; m++) {
            const char *text =
                x.plan[m]->nchannel ? plant_halfway(x.plan[m], kind, (int32_t)(next_random(&rng) % 1000)) : NULL;
            if (text) planted_add(&n, kind, text, plan_verify(x.plan[m]), seed);
        }
        parts_close(&x);
    }
    other_kind = DEV_CPU;
    planted_report(&n, HALVES);
}

/* Checks that a worker without cpu devices cannot send from a device if host code cannot read the device's memory. */
static void
no_host(struct rille_session *s)
{
    struct parts x = {0};
    struct str bytes = {0};
    struct plan *p = plan_moves_of(s, 6, row_layout(s, DEV_ASYNC, "S(0)"), 1,
                                   (const struct layout *[]){row_layout(s, DEV_ASYNC, "B")});
    assert(p);
    program_write(p->program, &bytes);
    other_kind = DEV_ASYNC;
    parts_map(&x, &cut[0]);
    for (int m = 0; m < x.n; m++) x.map[m].range += x.n, x.map[m].nrange -= x.n;
    ok(parts_compile(&x, &bytes, s->atlas) == E_PLACE &&
           strstr(err_text(), "async:0: data for other hosts passes through a cpu device of the same worker"),
       "the error names the device of a host without cpu devices: %s", err_text());
    other_kind = DEV_CPU;
    parts_close(&x);
    plan_free(&p);
    str_free(&bytes);
}

/* Makes partition 0 read a leaf in the memory of partition 1. The read must fault. */
static void
locks(struct rille_session *s)
{
    int tried = 0, died = 0;
    for (uint64_t seed = 1; tried < 10; seed++) {
        uint64_t rng = seed;
        struct parts x;
        if (!parts_random(&x, s, &rng, false, &cut[0])) continue;
        if (!parts_connect(&x) && !parts_open(&x, seed) && x.plan[0]->nleaf_part && x.plan[1]->nleaf_part &&
            x.bench[1].run.leaf[0]) {
            pid_t child = fork();
            if (!child) {
                if (!freopen("/dev/null", "w", stderr)) _exit(0);
                for (int32_t i = 0; i < x.plan[0]->nleaf_part; i++) x.bench[0].run.leaf[i] = x.bench[1].run.leaf[0];
                parts_run(&x);
                _exit(0);
            }
            int how = 0;
            assert(waitpid(child, &how, 0) == child);
            tried++;
            died += how != 0;
        }
        parts_close(&x);
    }
    ok(died >= tried - 2, "access to another host's memory faults (%d of %d; the rest read no leaf)", died, tried);
}

/* Runs random programs with devices of another kind, such as "cuda:0x4", on each host. */
static int
on_devices(const char *text)
{
    char devices[64];
    struct rille_options o = {.devices = devices, .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    snprintf(devices, sizeof devices, "cpu:4,%s", text);
    alarm(HANG);
    if (rille_open(&o, &s)) {
        printf("Bail out! %s\n", rille_error());
        return 1;
    }
    char kind[32] = "";
    sscanf(text, "%31[^:]", kind);
    random_programs(s, seed_of(1), device_kind_parse(kind), 60);
    rille_close(&s);
    return done();
}

int
main(int argc, char **argv)
{
    struct rille_options o = {.devices = "cpu:4,async:4", .threads = 1, .bus = "zmq"};
    struct rille_session *s;
    int most = getenv("RILLE_LONG") ? 20000 : 3000;
    if (argc > 1) return on_devices(argv[1]);
    alarm(HANG);
    if (rille_open(&o, &s)) return 1;
    found_once(s);
    waits_for_all(s);
    random_programs(s, seed_of(1), DEV_CPU, most);
    random_programs(s, seed_of(1), DEV_ASYNC, most);
    every_move(s, DEV_CPU, DEV_CPU);
    every_move(s, DEV_CPU, DEV_ASYNC);
    every_move(s, DEV_ASYNC, DEV_CPU);
    every_move(s, DEV_ASYNC, DEV_ASYNC);
    failures(s, seed_of(1), DEV_CPU);
    failures(s, seed_of(1), DEV_ASYNC);
    mistakes(s, seed_of(1));
    mistakes_halfway(s, seed_of(1));
    no_host(s);
    locks(s);
    rille_close(&s);
    return done();
}
