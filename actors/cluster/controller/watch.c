/* watch.c - reports of workers that hang, and the status of a job. */
#include "actors/cluster/controller/watch.h"

#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double
seconds_still(const struct member_info *m)
{
    return m->still * TICK_MS * 1e-3;
}

/* Appends a worker's rank, host and process id. */
static void
print_worker(const struct cluster *c, int rank, struct str *out)
{
    const struct member_info *m = coordinator_member(c->c, rank);
    str_addf(out, "worker %d (%s, pid %d)", rank, m->host ? m->host : "?", (int)m->pid);
}

/* Appends the operator and the source line of a node of the program that runs. Appends nothing if the node is not
 * known. */
static void
print_node(const struct cluster *c, int32_t node, bool name, struct str *out)
{
    if (c->run.job && c->run.job->node_text && node >= 0) c->run.job->node_text(c->run.job->arg, node, name, out);
}

/* ---- hangs ---- */

/* Appends one line of a worker's report. If the line names a program node, appends the node's source line, too. */
static void
print_report_line(struct cluster *c, const unsigned char *line, uint32_t n)
{
    uint32_t at = 0;
    int32_t node = n ? (int32_t)strtol((const char *)line, NULL, 10) : -1;
    while (at < n && line[at] != ' ') at++;
    str_add(&c->hang, "\n   ");
    span_print((struct span){line + at, n - at}, &c->hang);
    print_node(c, node, false, &c->hang);
}

void
control_report(struct cluster *c, const struct notice *n)
{
    struct str text = {0}; /* a copy that ends with a NUL */
    str_add(&c->hang, "\n  ");
    print_worker(c, n->rank, &c->hang);
    str_addf(&c->hang, ", no progress for %.1f s:", seconds_still(coordinator_member(c->c, n->rank)));
    str_addn(&text, n->packet->bytes.bytes, n->packet->bytes.n);
    for (const char *line = str_text(&text), *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        print_report_line(c, (const unsigned char *)line, (uint32_t)(end - line));
    str_free(&text);
}

/* Appends the time and the text to rille-hang-PID.txt in the current folder. Returns false if the file cannot be
 * written. */
static bool
write_hang_file(const char *path, const char *text)
{
    char date[40];
    time_t now = time(NULL);
    struct tm utc;
    FILE *file = fopen(path, "ae");
    if (!file) return false;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    fprintf(file, "%s: %s\n", date, text);
    return !fclose(file);
}

void
control_hang(struct cluster *c, const struct notice *n)
{
    struct str text = {0};
    char path[64];
    if (n->rank < 0) {
        str_clear(&c->hang);
        return;
    }
    print_worker(c, n->rank, &text);
    str_addf(&text, " hangs: no progress for %.1f s (--hang %g)%s", seconds_still(coordinator_member(c->c, n->rank)),
             c->options.hang_s, n->status ? ", and no report" : "");
    str_add(&text, str_text(&c->hang));
    snprintf(path, sizeof path, "rille-hang-%d.txt", (int)getpid());
    if (write_hang_file(path, str_text(&text))) str_addf(&text, "\n  this report is also in %s", path);
    if (c->options.say) c->options.say(c->options.arg, str_text(&text));
    str_free(&text);
    str_clear(&c->hang);
}

/* ---- status ---- */

static void
print_member(const struct cluster *c, int rank, struct str *out)
{
    const struct member_info *m = coordinator_member(c->c, rank);
    int32_t node = (int32_t)(uint32_t)m->progress - 1;
    print_worker(c, rank, out);
    str_addf(out, ": %s, last progress %.1f s ago", member_state_text(m->state), seconds_still(m));
    if (c->run.job && node >= 0) {
        str_add(out, ", runs ");
        print_node(c, node, true, out);
        print_node(c, node, false, out);
    }
    str_add(out, "\n");
}

void
cluster_status(struct cluster *c, struct str *out)
{
    pthread_mutex_lock(&c->lock);
    str_addf(out, "%s, epoch %u, run %u\n", coordinator_phase_text(coordinator_phase(c->c)), coordinator_epoch(c->c),
             c->run.id);
    for (int r = 0; r < c->options.world; r++)
        if (coordinator_member(c->c, r)->state != MEMBER_RETIRED) print_member(c, r, out);
    pthread_mutex_unlock(&c->lock);
}

void
cluster_totals(struct cluster *c, int64_t *losses, int64_t *recoveries)
{
    pthread_mutex_lock(&c->lock);
    *losses = c->epoch.lost.n;
    *recoveries = (int64_t)coordinator_epoch(c->c) - 1;
    pthread_mutex_unlock(&c->lock);
}

void
control_say_absent(struct cluster *c)
{
    struct str text = {0};
    if (!c->wait.remind_ns || now_ns() < c->wait.remind_ns) return;
    c->wait.remind_ns += c->wait.remind_after_ns;
    c->wait.remind_after_ns *= 2;
    str_addf(&text, "waiting for workers to join at %s, without a time limit (Ctrl-C ends the wait); missing: rank ",
             link_endpoint(c->link, LINK_CONTROL));
    if (coordinator_absent(c->c, &text) && c->options.say) c->options.say(c->options.arg, str_text(&text));
    str_free(&text);
}

int
control_say_lost(struct cluster *c)
{
    const struct cluster_loss *l = &c->epoch.loss[0];
    c->epoch.nmet = c->epoch.nloss;
    return fail(E_LOST, "worker %d (%s, pid %d) %s", l->rank, l->host, l->pid, l->how);
}

void
control_say_unmet(struct cluster *c)
{
    struct str text = {0};
    if (c->epoch.nmet == c->epoch.nloss || now_ns() < c->epoch.say_ns || atomic_load(&c->wait.attended)) return;
    if (coordinator_phase(c->c) != CLUSTER_BROKEN) return;
    for (; c->epoch.nmet < c->epoch.nloss; c->epoch.nmet++) {
        const struct cluster_loss *l = &c->epoch.loss[c->epoch.nmet];
        str_clear(&text);
        str_addf(&text, "worker %d (%s, pid %d) %s", l->rank, l->host, l->pid, l->how);
        if (c->options.say) c->options.say(c->options.arg, str_text(&text));
    }
    str_free(&text);
}

void
control_connect(void *of, int rank)
{
    struct cluster *c = of;
    pthread_mutex_lock(&c->lock);
    coordinator_connect_values(c->c, rank);
    pthread_mutex_unlock(&c->lock);
}

void
control_lose(void *of, int rank, const char *how)
{
    struct cluster *c = of;
    pthread_mutex_lock(&c->lock);
    int peer = coordinator_member(c->c, rank)->peer;
    if (peer >= 0) coordinator_cut(c->c, peer, how);
    pthread_mutex_unlock(&c->lock);
}

void
control_say_slow(struct cluster *c, const struct notice *n)
{
    const struct member_info *m = coordinator_member(c->c, n->rank);
    struct str text = {0};
    str_addf(&text, "worker %d (%s, pid %d) is slow: %s", n->rank, m->host, (int)m->pid, n->text);
    if (c->options.say) c->options.say(c->options.arg, str_text(&text));
    str_free(&text);
}
