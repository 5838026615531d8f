/* recovery.c - begins the next epoch of a cluster: after a loss, or to admit waiting workers to an elastic job. */
#include "actors/cluster/controller/recovery.h"
#include "actors/cluster/controller/controller_inner.h"

#include "runtime/base/error.h"
#include "actors/cluster/coordinator/coordinator_admit.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"

bool
cluster_lost(struct cluster *c, int i, struct cluster_loss *out)
{
    pthread_mutex_lock(&c->lock);
    bool there = i < c->epoch.nloss;
    if (there) *out = c->epoch.loss[i];
    pthread_mutex_unlock(&c->lock);
    return there;
}

static bool
cluster_is_ready(const struct cluster *c)
{
    enum coordinator_phase phase = coordinator_phase(c->c);
    return phase >= CLUSTER_IDLE && phase != CLUSTER_BROKEN;
}

bool
cluster_stands(struct cluster *c)
{
    pthread_mutex_lock(&c->lock);
    bool does = cluster_is_ready(c);
    pthread_mutex_unlock(&c->lock);
    return does;
}

/* Fails if more workers were lost within a time than the options permit (restarts within restarts_s). */
static int
check_restarts(const struct cluster *c)
{
    int most = c->options.restarts;
    int64_t ns = loss_times_span(&c->epoch.lost, most);
    if (c->options.restarts_s <= 0 || ns < 0 || (double)ns * 1e-9 > c->options.restarts_s) return 0;
    const struct cluster_loss *l = &c->epoch.loss[MAX(c->epoch.nloss - 1, 0)];
    return fail(
        E_STATE,
        "recover: expected at most %d losses of workers in %g s (--restarts %d:%g), found %d in %.1f s; the last: "
        "worker %d (%s, pid %d) %s",
        most, c->options.restarts_s, most, c->options.restarts_s, most + 1, (double)ns * 1e-9, l->rank, l->host, l->pid,
        l->how);
}

/* Begins to gather the next epoch, and starts a process for each rank of the epoch that has no worker. */
static int
begin_next_epoch(struct cluster *c, int workers)
{
    int there = 0;
    for (int r = 0; r < c->options.world; r++)
        there += c->options.least || coordinator_member(c->c, r)->state != MEMBER_RETIRED;
    /* if a started worker was lost before it joined, an elastic job continues without it */
    coordinator_await(c->c, c->epoch.vain ? 0 : c->options.started);
    TRY(coordinator_recover(c->c, workers ? workers : there));
    c->epoch.nloss = c->epoch.nmet = 0;
    c->epoch.vain = false;
    return c->options.start ? control_start_absent(c) : 0;
}

static int
controller_recover(struct cluster *c, int workers)
{
    if (cluster_is_ready(c)) return fail(E_STATE, "recover: no worker is lost, so there is nothing to recover");
    atomic_store(&c->wait.interrupted, 0);
    if (coordinator_phase(c->c) == CLUSTER_BROKEN) {
        TRY(check_restarts(c));
        TRY(begin_next_epoch(c, workers));
    }
    return control_gather(c);
}

int
cluster_recover(struct cluster *c, int workers)
{
    pthread_mutex_lock(&c->lock);
    int status = controller_recover(c, workers);
    pthread_mutex_unlock(&c->lock);
    return status;
}

bool
cluster_can_grow(struct cluster *c)
{
    pthread_mutex_lock(&c->lock);
    control_look(c);
    bool can = coordinator_can_grow(c->c);
    pthread_mutex_unlock(&c->lock);
    return can;
}

int
cluster_grow(struct cluster *c, bool *grew)
{
    int status = 0;
    pthread_mutex_lock(&c->lock);
    *grew = coordinator_can_grow(c->c);
    if (*grew) atomic_store(&c->wait.interrupted, 0);
    if (*grew) status = begin_next_epoch(c, 0);
    if (*grew && !status) status = control_gather(c);
    pthread_mutex_unlock(&c->lock);
    return status;
}
