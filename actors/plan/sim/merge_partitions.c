/* merge_partitions.c - joins the partitions of a plan into one plan with copied and renumbered tasks; aligns the
 * clocks of the partitions. */
#include "actors/plan/sim/merge_partitions.h"

#include "actors/plan/sim/plan_sim.h"

#include <string.h>

struct joiner {
    const struct plan *const *part;
    int n;
    bool as_one;
    struct arena *arena;
    const int32_t *first; /* by partition: index of its first task in the joined plan */
    /* by partition, in the joined plan: first_device: index of the partition's first device; thread: index of its
     * first thread */
    int32_t *first_device, *thread;
};

/* Returns the other end of a channel, as its partition describes it; NULL: no joined partition has this end. *part:
 * index of the partition that has it. */
static const struct channel *
other_end(const struct joiner *j, const struct channel *c, int *part)
{
    for (*part = 0; *part < j->n && j->part[*part]->memory != c->peer;) ++*part;
    if (*part == j->n) return NULL;
    const struct plan *p = j->part[*part];
    for (int32_t lo = 0, hi = p->nchannel; lo < hi;) {
        int32_t mid = lo + (hi - lo) / 2;
        int order = channel_compare(&p->channel[mid].name, &c->name);
        if (order == 0) return &p->channel[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* Returns the sending end of the channel through which an in-port gets its data; NULL: the producer is on the same
 * host. *far: index of the sender's partition. */
static const struct channel *
received_channel(const struct joiner *j, int part, const struct in_port *in, int *far)
{
    const struct plan *p = j->part[part];
    int32_t channel = in->out == 0 ? p->task[in->task].channel : -1;
    const struct channel *c = channel >= 0 && !p->channel[channel].sends ? &p->channel[channel] : NULL;
    return c ? other_end(j, c, far) : NULL;
}

/* Returns the index of the in-port by which a reader of received data returns registers to the sender (add_room). A
 * task has such an in-port for each of its in-ports that read received data. They follow the other in-ports, in the
 * same order. */
static int32_t
port_to_sender(const struct joiner *j, int part, int32_t task, int32_t port)
{
    const struct task *t = &j->part[part]->task[task];
    int32_t n = t->nin;
    for (int32_t k = 0, far; k < port; k++) n += received_channel(j, part, &t->in[k], &far) != NULL;
    return n;
}

/* Adds a credit output to the sender, with as many registers as the receiver has. The readers of the received data
 * return these registers, so the sender waits until the data has been read. */
static void
add_room(const struct joiner *j, int far, int32_t receives, struct task *t)
{
    const struct out_port *got = &j->part[far]->task[receives].out[0];
    struct out_port room = {
        .nreg = got->nreg, .every = got->every, .once = got->once, .nfan = got->nfan, .where = {.kind = NOWHERE}};
    room.fan = arena_dup(j->arena, got->fan, sizeof *got->fan * (size_t)got->nfan);
    for (int32_t f = 0; f < got->nfan; f++) {
        struct fan *fan = &room.fan[f];
        struct reader *reader = arena_dup(j->arena, fan->reader, sizeof *reader * (size_t)fan->nreader);
        for (int32_t r = 0; r < fan->nreader; r++)
            reader[r] =
                (struct reader){j->first[far] + reader[r].task, port_to_sender(j, far, reader[r].task, reader[r].port)};
        fan->reader = reader;
    }
    t->out[t->nout++] = room;
}

static void
take_room(const struct joiner *j, int part, int32_t task, struct task *t)
{
    const struct task *was = &j->part[part]->task[task];
    for (int32_t k = 0, far; k < was->nin; k++) {
        const struct channel *end = received_channel(j, part, &was->in[k], &far);
        if (!end) continue;
        t->in[t->nin] = was->in[k];
        t->in[t->nin].task = j->first[far] + end->task;
        t->in[t->nin++].out = j->part[far]->task[end->task].nout + 1;
    }
}

/* Adds the edge that replaces a channel, after the existing ports of both tasks. */
static void
add_edge(const struct joiner *j, const struct channel *c, struct task *t)
{
    int far;
    const struct channel *end = other_end(j, c, &far);
    if (!end) return;
    const struct task *there = &j->part[far]->task[end->task];
    if (!c->sends) {
        t->in[t->nin++] = (struct in_port){.task = j->first[far] + end->task, .out = there->nout, .hold = 1, .need = 1};
        return;
    }
    struct reader reader = {j->first[far] + end->task, there->nin};
    struct fan fan = {.thread = j->thread[far] + there->thread, .nreader = 1};
    fan.reader = arena_dup(j->arena, &reader, sizeof reader);
    t->out[t->nout++] = (struct out_port){.nreg = c->nreg, .every = 1, .nfan = 1, .where = {.kind = NOWHERE}};
    t->out[t->nout - 1].fan = arena_dup(j->arena, &fan, sizeof fan);
    if (!j->as_one) return;
    add_room(j, far, end->task, t);
    t->device = j->first_device[far] + there->device;
    t->thread = j->thread[far] + there->thread;
    t->stream = there->stream;
    t->turn = there->turn;
    t->lead = there->lead;
    t->priority = there->priority;
}

static void
copy_out(const struct joiner *j, int part, struct out_port *out)
{
    out->fan = arena_dup(j->arena, out->fan, sizeof *out->fan * (size_t)out->nfan);
    for (int32_t f = 0; f < out->nfan; f++) {
        struct fan *fan = &out->fan[f];
        struct reader *reader = arena_dup(j->arena, fan->reader, sizeof *reader * (size_t)fan->nreader);
        for (int32_t r = 0; r < fan->nreader; r++) reader[r].task += j->first[part];
        fan->thread += j->thread[part];
        fan->reader = reader;
    }
    if (out->where.kind == IN_ARENA) out->where.index += j->first_device[part];
    if (out->where.kind == IN_TASK) out->where.index += j->first[part];
}

static void
copy_task(const struct joiner *j, int part, int32_t i, struct task *t)
{
    const struct plan *p = j->part[part];
    *t = p->task[i];
    t->device += j->first_device[part];
    t->thread += j->thread[part];
    t->in = ARENA_ARRAY(j->arena, struct in_port, 2 * t->nin + 1);
    t->out = ARENA_ARRAY(j->arena, struct out_port, t->nout + 2);
    for (int32_t k = 0; k < t->nin; k++) {
        t->in[k] = p->task[i].in[k];
        t->in[k].task += j->first[part];
    }
    for (int32_t k = 0; k < t->nout; k++) {
        t->out[k] = p->task[i].out[k];
        copy_out(j, part, &t->out[k]);
    }
    if (j->as_one) take_room(j, part, i, t);
    if (t->channel >= 0) add_edge(j, &p->channel[t->channel], t);
    t->channel = -1;
}

static void
copy_devices(const struct joiner *j, int part, struct plan_device *device)
{
    const struct plan *p = j->part[part];
    memcpy(device, p->device, sizeof *device * (size_t)p->ndevice);
    for (int32_t d = 0; d < p->ndevice; d++) device[d].thread += j->thread[part];
}

const struct plan *
plan_merge_partitions(const struct plan *const *part, int n, bool as_one, struct arena *a, int32_t *first)
{
    struct joiner j = {part, n, as_one, a, first, ARENA_ARRAY(a, int32_t, n + 1), ARENA_ARRAY(a, int32_t, n + 1)};
    struct plan *all = ARENA_NEW(a, struct plan);
    *all = (struct plan){.program = part[0]->program,
                         .pieces = part[0]->pieces,
                         .group = part[0]->group,
                         .round = part[0]->round,
                         .nshare = part[0]->nshare};
    for (int i = 0; i < n; i++) {
        first[i] = all->ntask;
        j.first_device[i] = all->ndevice;
        j.thread[i] = all->nthread;
        all->ntask += part[i]->ntask;
        all->ndevice += part[i]->ndevice;
        all->nthread += part[i]->nthread;
    }
    all->task = ARENA_ARRAY(a, struct task, all->ntask + 1);
    all->device = ARENA_ARRAY(a, struct plan_device, all->ndevice + 1);
    for (int i = 0; i < n; i++) {
        copy_devices(&j, i, all->device + j.first_device[i]);
        for (int32_t k = 0; k < part[i]->ntask; k++) copy_task(&j, i, k, &all->task[first[i] + k]);
    }
    return all;
}

/* ---- clocks ---- */

/* Acts of the tasks that are channel ends, with their times. The acts of a task start at at[first[task]]. */
struct ends {
    int32_t *first;
    const struct act_time **at;
};

static void
find_act_ends(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a, struct ends *e)
{
    e->first = ARENA_ARRAY(a, int32_t, p->ntask + 2);
    for (int64_t i = 0; i < nact; i++)
        if (p->task[act[i].task].channel >= 0) e->first[act[i].task + 2]++;
    for (int32_t i = 2; i <= p->ntask + 1; i++) e->first[i] += e->first[i - 1];
    e->at = ARENA_ARRAY(a, const struct act_time *, e->first[p->ntask + 1] + 1);
    for (int64_t i = 0; i < nact; i++)
        if (p->task[act[i].task].channel >= 0) e->at[e->first[act[i].task + 1]++] = &act[i];
}

/* Returns the least number of ns to add to the receiver's times so that no message is received before it was sent. */
static int64_t
lag_of(const struct ends *from, int32_t sends, const struct ends *to, int32_t receives)
{
    int64_t lag = INT64_MIN;
    int32_t n = MIN(from->first[sends + 1] - from->first[sends], to->first[receives + 1] - to->first[receives]);
    for (int32_t k = 0; k < n; k++) {
        const struct act_time *out = from->at[from->first[sends] + k], *in = to->at[to->first[receives] + k];
        lag = MAX(lag, MAX(out->begin - in->begin, out->end - in->end));
    }
    return lag;
}

/* Finds the least shifts of all clocks as longest paths (Bellman-Ford). n - 1 rounds suffice: among n clocks of
 * equal speed, a path has at most n - 1 edges. */
void
plan_clocks(const struct plan *const *part, int n, const struct act_time *const *act, const int64_t *nact,
            int64_t *later)
{
    struct arena a = {0};
    const struct joiner j = {.part = part, .n = n};
    struct ends *ends = ARENA_ARRAY(&a, struct ends, n);
    int64_t *lag = ARENA_ARRAY(&a, int64_t, n * n);
    for (int i = 0; i < n * n; i++) lag[i] = INT64_MIN;
    for (int i = 0; i < n; i++) find_act_ends(part[i], act[i], nact[i], &a, &ends[i]);
    for (int i = 0, far; i < n; i++)
        for (int32_t k = 0; k < part[i]->nchannel; k++) {
            const struct channel *c = &part[i]->channel[k], *end = c->sends ? other_end(&j, c, &far) : NULL;
            if (end) lag[i * n + far] = MAX(lag[i * n + far], lag_of(&ends[i], c->task, &ends[far], end->task));
        }
    memset(later, 0, sizeof *later * (size_t)n);
    for (int round = 1; round < n; round++)
        for (int i = 0; i < n * n; i++)
            if (lag[i] > INT64_MIN) later[i % n] = MAX(later[i % n], later[i / n] + lag[i]);
    for (int i = n - 1; i >= 0; i--) later[i] -= later[0];
    arena_fini(&a);
}
