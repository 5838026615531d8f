/* pipeline_sim.c - tests that the plan simulator (tasks) and the pipeline simulator (stages) report the same time of
 * a schedule.
 *
 * Tries all schedules; p = 2 to 8 devices; v = 1, 2, 4 stages per device, placed round robin or V-shaped; 2 to 29
 * micro-batches. Each stage has two backward tasks, and the first stage has two weight-gradient tasks. Acts of other
 * stages become ready between the tasks. */
#include "actors/plan/sim/schedule_search.h"
#include "actors/session/step/compiled.h"
#include "t/lib/plan/net.h"
#include "t/lib/tap.h"

enum { WIDTH = 4, MOST_STAGES = 32 };

static void
deal(int *dealt, int p, int v, bool back)
{
    for (int q = 0; q < p * v; q++) dealt[q] = back && q / p % 2 ? p - 1 - q % p : q % p;
}

struct count {
    int tried, same;
};

/* Compares the times of one schedule in both simulators. */
static void
compare(struct net *n, int p, int v, bool back, const struct rille_graph_options *g, struct count *c)
{
    static const struct rille_chart_costs costs = {.forward = 1, .backward = 1, .weight = 1};
    static const struct schedule_search_costs in_ns = {.forward = 1e9, .backward = 1e9, .weight = 1e9};
    struct rille_chart *chart;
    struct schedule_search_result d;
    int dealt[MOST_STAGES];
    deal(dealt, p, v, back);
    struct rille_graph *graph = net_stages_of(n, g, p * v, dealt, WIDTH);
    must(rille_graph_chart(graph, &costs, &chart), "chart");
    bool known = schedule_search_read(graph->runner->plan->program, &in_ns, &d);
    bool same = known && fabs(chart->planned.time - 1e-9 * d.time) < 0.01;
    c->tried++;
    c->same += same;
    if (!same)
        diag("%s %g, %d devices, %d stages on each, %d micro-batches: %.3f in the pipeline simulator, %.3f in the plan "
             "simulator",
             g->schedule ? g->schedule : "memory", g->memory, p, v, g->micro_batches, known ? 1e-9 * d.time : 0.0,
             chart->planned.time);
    rille_chart_free(&chart);
    rille_graph_free(&graph);
}

static bool
is_round(const char *schedule)
{
    return schedule && !strcmp(schedule, "interleaved");
}

/* Tries several numbers of micro-batches on p devices. Returns two counts: schedules tried, and schedules whose
 * times differ. */
static struct count
compare_pieces(const char *schedule, double memory, int v, bool back, int p)
{
    struct count c = {0};
    const int pieces[] = {2, p, p + 5, 2 * p, 2 * p + 1, 29};
    struct rille_chart_costs costs = {.forward = 1, .backward = 1, .weight = 1};
    struct rille_options o = {.devices = "cpu:8", .threads = 2, .bus = "zmq"};
    for (size_t i = 0; i < countof(pieces); i++) {
        if (!share_next()) continue;
        struct net n = {0};
        int m = is_round(schedule) ? pieces[i] / p * p + p : pieces[i];
        struct rille_graph_options g = {.micro_batches = m, .schedule = schedule, .memory = memory};
        if (memory > 0) g.costs = &costs;
        must(rille_open(&o, &n.s), "open");
        compare(&n, p, v, back, &g, &c);
        net_close(&n);
    }
    return c;
}

int
main(void)
{
    static const struct {
        const char *schedule;
        double memory;
        int v;
        bool back;
    } how[] = {
        {"1f1b", 0, 1, false},        {"gpipe", 0, 1, false},       {"zb-h1", 0, 1, false}, {"zb-h2", 0, 1, false},
        {"interleaved", 0, 2, false}, {"interleaved", 0, 4, false}, {"1f1b", 0, 2, true},   {"zb-v", 0, 2, true},
        {"v-half", 0, 2, true},       {"v-min", 0, 2, true},        {NULL, 1, 1, false},    {NULL, 1.5, 1, false},
        {NULL, 1, 2, true},           {NULL, 1.2, 2, false},        {NULL, 1, 4, true},     {NULL, 1.2, 4, true}};
    int tried = 0;
    alarm(HANG);
    /* Schedules with several stages per device are compared on 3 devices or more. "interleaved" is also compared on 2.
     * The other schedules place neighbouring stages on one device; with 2 devices this would hold for every inner
     * stage, and the search and the plan would count such stages differently. */
    for (size_t i = 0; i < countof(how); i++) {
        struct count all = {0};
        for (int p = how[i].v > 1 && !is_round(how[i].schedule) ? 3 : 2; p <= 8; p += p == 3 ? 2 : 1) {
            struct count c = compare_pieces(how[i].schedule, how[i].memory, how[i].v, how[i].back, p);
            all.tried += c.tried;
            all.same += c.same;
        }
        tried += all.tried;
        ok(all.same == all.tried, "%s %g, %d stages per device%s: %d plans take the same time in both simulators",
           how[i].schedule ? how[i].schedule : "memory", how[i].memory, how[i].v, how[i].back ? ", there and back" : "",
           all.tried);
    }
    ok(tried > 0, "%d plans were made", tried);
    return done();
}
