/* promela.c - checks models of small random plans, of pipelines, and of the bus's doorbells with the model checker
 * spin, in every order of events.
 *
 * No register may be overwritten too early, every run must end, every register must be released, and an interrupt
 * must stop all updates or none. Mistakes that are put into models must be found. The test is skipped if spin is not
 * installed. */
#include "actors/plan/compile.h"
#include "t/lib/plan/plans.h"

#include "t/oracles/promela.h"
#include "actors/session/step/compiled.h"
#include "t/lib/plan/net.h"

#include <sys/stat.h>

static char dir[] = "/tmp/rille-promela-XXXXXX";

/* Runs spin on a model. Returns 0: no error in any order of events; 1: an error; -1: the search was incomplete; -2:
 * the model is invalid. */
static int
check(const char *model)
{
    char path[64], command[512], line[512];
    int errors = -2;
    bool whole = true;
    snprintf(path, sizeof path, "%s/plan.pml", dir);
    FILE *f = fopen(path, "w");
    fputs(model, f);
    fclose(f);
    snprintf(command, sizeof command,
             "cd %s && spin -a plan.pml >log 2>&1 && cc -w -O1 -DSAFETY -DCOLLAPSE -DVECTORSZ=8192 -DMEMLIM=600 -o pan "
             "pan.c && "
             "timeout 60 ./pan -m200000 -w20 2>&1",
             dir);
    FILE *p = popen(command, "r");
    while (p && fgets(line, sizeof line, p)) {
        const char *at = strstr(line, "errors: ");
        if (at) errors = atoi(at + 8) > 0;
        if (strstr(line, "max search depth too small") || strstr(line, "Search not completed") ||
            strstr(line, "memory limit"))
            whole = false;
    }
    if (p) pclose(p);
    return errors == 0 && !whole ? -1 : errors;
}

static bool
crosses(const struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++)
            if (p->task[p->task[i].in[k].task].thread != p->task[i].thread) return true;
    return false;
}

static int64_t
acts_of(const struct plan *p)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->ntask; i++) n += p->task[i].nact;
    return n;
}

/* Returns the text with every `what` replaced by `by`. The caller frees the result. */
static char *
replaced(const char *text, const char *what, const char *by)
{
    struct str s = {0};
    for (const char *at; (at = strstr(text, what)); text = at + strlen(what)) {
        str_addn(&s, text, (size_t)(at - text));
        str_add(&s, by);
    }
    str_add(&s, text);
    return s.text;
}

struct count {
    int models, right, whole, updates, pieces, planted, eager, lost;
};

static void
try_plan(struct plan *p, struct count *c)
{
    struct str s = {0};
    plan_promela(p, &s);
    int got = check(str_text(&s));
    c->models++;
    c->right += got == 0 || got == -1;
    c->whole += got == 0;
    if (got == 1 || got == -2) diag("plan of %d tasks, %d micro-batches: %d", (int)p->ntask, (int)p->pieces, got);
    for (int32_t i = 0; i < p->ntask; i++)
        if (p->task[i].updates) {
            c->updates++;
            break;
        }
    c->pieces += p->pieces > 1;
    str_free(&s);
}

/* Returns true if the plan depends on credits: a task fills a register again that a reader on another thread must
 * first release. */
static bool
has_credits(const struct plan *p)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            for (int32_t f = 0; f < o->nfan && !o->control && !o->once; f++)
                if (o->fan[f].thread != p->task[i].thread && o->nreg < p->task[i].nact / o->every) return true;
        }
    return false;
}

/* Puts two mistakes into a model. First, a writer does not wait for credits. Second, another thread never releases
 * a register. */
static void
plant(struct plan *p, struct count *c)
{
    struct str s = {0};
    plan_promela(p, &s);
    char *eager = replaced(str_text(&s), " && fans[", " && 0 <= fans["),
         *lost = replaced(str_text(&s), "]--; f = 0", "] = fans[f + r]; f = 0");
    c->planted++;
    c->eager += check(eager) == 1;
    c->lost += check(lost) == 1;
    free(eager);
    free(lost);
    str_free(&s);
}

/* ---- pipelines of named schedules ---- */

/* Checks pipelines with one thread per stage. The user may interrupt at any moment. */
static void
pipelines(void)
{
    static const struct pipelined {
        const char *schedule;
        int stages, pieces;
    } list[] = {{"1f1b", 2, 2}, {"1f1b", 2, 4}, {"1f1b", 3, 2}, {"gpipe", 2, 3}, {"zb-h1", 2, 3}, {"zb-h2", 2, 3}};
    for (size_t k = 0; k < countof(list); k++) {
        static const int on[] = {0, 1, 2, 3};
        struct rille_options o = {.devices = "cpu:4", .threads = list[k].stages, .bus = "zmq"};
        struct net n = {0};
        struct str text = {0};
        must(rille_open(&o, &n.s), "open");
        struct rille_graph *g = net_stages(&n, list[k].schedule, list[k].stages, on, list[k].pieces, 2);
        const struct plan *plan = g->runner->plan;
        plan_promela(plan, &text);
        ok(check(str_text(&text)) == 0 && plan->nthread == list[k].stages,
           "%s, %d stages, %d micro-batches: a step that is interrupted at any moment updates all or nothing, and ends",
           list[k].schedule, list[k].stages, list[k].pieces);
        char *open = replaced(str_text(&text), "gate = 1; ", "");
        if (k == 0) is_int(check(open), 1, "spin finds an update that does not close the gate to interrupts");
        free(open);
        str_free(&text);
        rille_graph_free(&g);
        net_close(&n);
    }
}

/* Checks the model t/oracles/doorbell.pml. */
static void
doorbells(void)
{
    struct str s = {0};
    char line[512];
    FILE *f = fopen("t/oracles/doorbell.pml", "r");
    while (f && fgets(line, sizeof line, f)) str_add(&s, line);
    if (f) fclose(f);
    is_int(check(str_text(&s)), 0,
           "doorbells lose no message and wake every sleeper, in every order of loads and stores");
    char *hasty = replaced(str_text(&s), "bell[s] > taken[s] -> rang = true", "false -> rang = true");
    is_int(check(hasty), 1, "without the second check of the doorbells a thread never wakes up");
    free(hasty);
    str_free(&s);
}

int
main(void)
{
    uint64_t seed = seed_of(2);
    struct rille_options o = {.devices = "cpu:4", .threads = 2, .bus = "zmq"};
    struct rille_session *s;
    struct count c = {0};
    int want = getenv("RILLE_LONG") ? 60 : 3, most = getenv("RILLE_LONG") ? 16 : 12;
    if (system("command -v spin >/dev/null 2>&1") || system("command -v cc >/dev/null 2>&1") || !mkdtemp(dir)) {
        printf("1..0 # SKIP there is no spin\n");
        return 0;
    }
    alarm(3000);
    struct engine *e = simulator(seed);
    if (rille_open(&o, &s)) return 1;
    doorbells();
    pipelines();
    for (int i = 0; i < 20000 && (c.models < want || c.pieces == 0); i++) {
        struct plan *p = random_plan(s, &seed, i % 2);
        if (!p) continue;
        bool small = p->ntask >= 3 && acts_of(p) <= (p->pieces > 1 ? 20 : most) && (p->pieces > 1 || c.models < want) &&
                     p->nthread > 1 && crosses(p);
        if (small && outcome(e, p)) try_plan(p, &c);
        plan_free(&p);
    }
    for (int i = 0; i < 20000 && c.planted < 2; i++) {
        struct plan *p = random_plan(s, &seed, true);
        if (!p) continue;
        if (acts_of(p) <= 20 && p->nthread > 1 && has_credits(p)) plant(p, &c);
        plan_free(&p);
    }
    diag("%d models, %d of them in all orders, %d with updates, %d with micro-batches", c.models, c.whole, c.updates,
         c.pieces);
    ok(c.models >= want && c.pieces > 0, "there are small plans on several threads, also with micro-batches");
    is_int(c.right, c.models,
           "in every order of events each plan ends, and no register is overwritten before it is read");
    ok(c.whole > c.models / 2, "all orders were tried for most plans");
    is_int(c.lost, 2, "a register that is not given back is found");
    ok(c.eager > 0, "a writer that does not wait for credits is found");
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    if (system(command)) diag("%s is left", dir);
    engine_free(&e);
    rille_close(&s);
    return done();
}
