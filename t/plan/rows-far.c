/* rows-far.c - tests that pipelines over two processes run their acts in the order of one process.
 *
 * Tries all schedules, with two processes on one host and on two. Schedule rows are computed for the complete plan
 * from given times, and sent to the workers of each partition. Losses must have the same bits. Damaged rows must be
 * rejected, or be valid rows whose run ends. */
#include "actors/session/run/cluster_view.h"
#include "actors/session/step/compiled.h"
#include "actors/session/step/rows.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "t/lib/plan/net.h"
#include "t/lib/tap.h"

#include <sys/wait.h>

enum { DEVICES = 4, PIECES = 8, WIDTH = 8, RUNS = 4 };

static const int64_t FOR_EVER = 1000000000000000000;

/* ---- workers ---- */

/* Runs as a worker process if the arguments are: worker ADDRESS RANK DEVICES HOST. The secret is on stdin. */
static int
serve(char **argv)
{
    struct rille_worker_options o = {.join = argv[2],
                                     .rank = atoi(argv[3]),
                                     .devices = argv[4],
                                     .host = *argv[5] ? argv[5] : NULL,
                                     .wait_seconds = 60};
    if (read(0, o.secret, sizeof o.secret) != sizeof o.secret || rille_worker(&o)) {
        fprintf(stderr, "# worker: %s\n", rille_error());
        return 1;
    }
    return 0;
}

static const char HALF[] = "cpu:2";

static int
start(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid)
{
    const int *hosts = arg;
    int end[2];
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    if (pipe(end) || write(end[1], secret, RILLE_SECRET) != RILLE_SECRET) return -1;
    *pid = fork();
    if (*pid == 0) {
        dup2(end[0], 0);
        execl("/proc/self/exe", "rows", "rows-far", "worker", address, text, HALF, rank && *hosts > 1 ? "another" : "",
              (char *)NULL);
        _exit(1);
    }
    close(end[0]);
    close(end[1]);
    return *pid < 0;
}

/* Traces a training step. hosts: number of hosts of the two workers; 0: no workers, this process runs the step
 * alone. */

static struct rille_graph *
begin(struct net *n, const struct dealt *how, int hosts)
{
    struct rille_workers w = {
        .workers = 2, .start = start, .started = 2, .devices = HALF, .silence_seconds = 30, .arg = &hosts};
    struct rille_options o = {.devices = hosts ? NULL : "cpu:4", .threads = DEVICES, .cluster = hosts ? &w : NULL};
    *n = (struct net){0};
    must(rille_open(&o, &n->s), "open");
    return net_stages(n, how->schedule, how->nstage, how->stage, PIECES, WIDTH);
}

/* ---- computing schedule rows ---- */

/* Returns the cost of a task, equal in all processes: a hash of the task; small for moves. */
static int64_t
cost_of(const struct task *t)
{
    if (t->kind->flags & KIND_MOVE) return 1000;
    uint64_t h = hash_number(hash_number(hash_number(12, (uint64_t)t->node), (uint64_t)t->phase), (uint64_t)t->stage);
    return 100000 * (1 + (int64_t)(h % 5));
}

/* Computes schedule rows (the order in which a lane begins its acts) from the costs of cost_of(), and sends each lane
 * its row. A lane then waits without a time limit for the next act of its row, even if another act is ready. */
static void
give_rows(struct rille_graph *g, struct arena *a, struct whole *w)
{
    must(cluster_view_whole(g->s, g->runner, NULL, 0, true, a, w), "the whole plan");
    struct plan_sim_options how = {.share = PLAN_SIM_THREADS, .jitter = {0.3, 5}};
    int64_t *cost = ARENA_ARRAY(a, int64_t, w->plan->ntask);
    for (int32_t i = 0; i < w->plan->ntask; i++) cost[i] = cost_of(&w->plan->task[i]);
    must(plan_sim_rows(w->plan, cost, &how, &g->arena, &g->times.rows), "rows");
    g->times.rows.nlane = g->times.rows.first_lane[w->plan->nthread];
    for (int32_t i = 0; i < w->plan->ntask; i++)
        if (g->times.rows.patience[i]) g->times.rows.patience[i] = FOR_EVER;
    rows_give(g, &g->times.rows, w);
}

static int
by_begin(const void *x, const void *y)
{
    const struct act_time *a = x, *b = y;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->end != b->end ? (a->end > b->end) - (a->end < b->end) : a->task - b->task;
}

/* Appends the acts in schedule rows, except moves, per device and in time order. Returns the number of acts. */
static int
tell_order(struct rille_graph *g, struct str *out)
{
    struct arena a = {0};
    struct whole w;
    int n = 0;
    must(cluster_view_whole(g->s, g->runner, g->times.act, g->times.nact, true, &a, &w), "acts");
    struct act_time *act = ARENA_ARRAY(&a, struct act_time, w.nact);
    memcpy(act, w.act, sizeof *act * (size_t)w.nact);
    qsort(act, (size_t)w.nact, sizeof *act, by_begin);
    for (int rank = 0; rank < DEVICES; rank++) {
        str_addf(out, "\n%d:", rank);
        for (int64_t i = 0; i < w.nact; i++) {
            const struct task *t = &w.plan->task[act[i].task];
            if (w.plan->device[t->device].rank != rank || g->times.rows.patience[act[i].task] == 0) continue;
            str_addf(out, " %d/%d.%d", (int)t->node, (int)t->phase, (int)act[i].piece);
            n++;
        }
    }
    arena_fini(&a);
    return n;
}

/* ---- tests ---- */

struct seen {
    struct str order;
    double loss[RUNS];
    int acts, lanes, parts;
};

/* Replaces the times of the last timed run by the costs of cost_of(). */
static void
set_times(struct rille_graph *g)
{
    struct cluster_view x;
    for (int i = 0; i < cluster_view_count(g->runner); i++) {
        must(cluster_view_part(g->s, g->runner, i, &x), "a part");
        struct act_time *act = i ? (struct act_time *)(uintptr_t)x.act : g->times.act;
        for (int64_t k = 0; k < (i ? x.nact : g->times.nact); k++)
            act[k].end = act[k].begin + cost_of(&x.plan->task[act[k].task]);
    }
}

/* Records the losses of three kinds of runs: first without schedule rows; then with rows that the step computes,
 * from the costs of cost_of() in place of measured times; last with the rows of give_rows(). */
static void
look(const struct dealt *how, int hosts, struct seen *out)
{
    struct net n;
    struct arena a = {0};
    struct whole w;
    struct rille_graph *g = begin(&n, how, hosts);
    *out = (struct seen){0};
    g->times.watched = true;
    for (int i = 0; i < RUNS - 2; i++) out->loss[i] = net_loss(&n, g);
    set_times(g);
    g->times.rows.nlane = 0;
    rows_make(g);
    out->lanes = g->times.rows.nlane;
    out->loss[RUNS - 2] = net_loss(&n, g);
    give_rows(g, &a, &w);
    out->parts = w.npart;
    out->loss[RUNS - 1] = net_loss(&n, g);
    out->acts = tell_order(g, &out->order);
    rille_graph_free(&g);
    net_close(&n);
    arena_fini(&a);
}

/* Returns 1 if a single process computes schedule rows from its own times. */
static int
test_order(const struct dealt *how)
{
    struct seen here, there;
    look(how, 0, &here);
    ok(here.acts >= 3 * how->nstage * PIECES, "%s: rows have %d acts", how->schedule, here.acts);
    for (int hosts = 1; hosts <= 2; hosts++) {
        look(how, hosts, &there);
        is_int(there.parts, hosts, hosts > 1 ? "two processes, of two hosts" : "two processes, of one host");
        is_int(there.lanes, here.lanes, "the first calls make rows if those of one process do");
        is_str(str_text(&there.order), str_text(&here.order), "the acts run in the order of one process");
        ok(!memcmp(here.loss, there.loss, sizeof here.loss), "the losses are those of one process");
        str_free(&there.order);
    }
    str_free(&here.order);
    return here.lanes > 0;
}

/* Checks that serialised rows are read back unchanged. Damaged rows must be rejected, or be valid rows. */
static void
test_bytes(const struct dealt *how)
{
    struct net n;
    struct arena a = {0};
    struct whole w;
    struct lane_rows r;
    struct str s = {0};
    struct rille_graph *g = begin(&n, how, 0);
    give_rows(g, &a, &w);
    plan_sim_rows_write(&g->times.rows, w.plan, 0, &s);
    must(plan_sim_rows_read(w.plan, s.text, s.len, &a, &r), "rows that travel");
    bool same = r.nlane == g->times.rows.nlane &&
                !memcmp(r.first, g->times.rows.first, sizeof *r.first * (size_t)(r.nlane + 1));
    same = same && !memcmp(r.act, g->times.rows.act, sizeof *r.act * (size_t)r.first[r.nlane]);
    for (int32_t k = 0; k < r.nlane; k++) same = same && r.max_ready[k] == g->times.rows.max_ready[k];
    ok(same, "rows that are written and read are equal");
    int refused = 0, kept = 0;
    for (size_t cut = 0; cut < s.len; cut++) refused += plan_sim_rows_read(w.plan, s.text, cut, &a, &r) == E_BUS;
    is_int(refused, (int64_t)s.len, "truncated rows are refused");
    for (size_t i = 0; i < s.len; i += 3) {
        struct arena tmp = {0};
        s.text[i] ^= 0x80;
        int status = plan_sim_rows_read(w.plan, s.text, s.len, &tmp, &r);
        kept += !status && r.first[r.nlane] <= r.first_act[w.plan->ntask];
        refused += status == E_BUS;
        s.text[i] ^= 0x80;
        arena_fini(&tmp);
    }
    is_int(refused + kept, (int64_t)(s.len + (s.len + 2) / 3), "rows with a changed byte are refused or are rows");
    ok(kept > 0 && refused > (int)s.len, "changed rows: some are refused, some are rows");
    str_free(&s);
    rille_graph_free(&g);
    net_close(&n);
    arena_fini(&a);
}

int
main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "worker")) return serve(argv);
    alarm(HANG);
    int made = 0;
    for (size_t i = 0; i < countof(net_schedules); i++) made += test_order(&net_schedules[i]);
    ok(made > 0, "%d schedules have rows after their first calls", made);
    test_bytes(&net_schedules[6]);
    return done();
}
