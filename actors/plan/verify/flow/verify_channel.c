/* verify_channel.c - proves that the partitions of all hosts, although proved separately, run to their end together.
 *
 * The proof constructs one order of the acts of all partitions in which no act waits. If one order reaches the end,
 * every order does, because an act never takes a token or register for which another actor waits (verify_run.c). To
 * get the order, the task lists of all partitions are merged, with every SEND before its RECV. There is one round
 * per micro-batch: a round traverses the merged list, and each task with an act in this round acts. No act waits,
 * because
 *
 *   - edges point forward in the lists, so the input of an act was made earlier in its round, or in a round before;
 *   - a register, and a credit of a channel, filled in a round was returned in that round;
 *   - a RECV finds the bytes that its SEND sent earlier in the round;
 *   - a SEND by a library finds its RECV ready: the RECV waits only for tasks before its hop, and for registers
 *     returned in the round before. Channels of hops have one order in all partitions, so tasks before a hop in any
 *     partition need nothing of the hop;
 *   - the tasks of a collective, of all partitions, are adjacent and act together.
 *
 * The proof reads a single partition, and its time is independent of the number of partitions. The lists can be
 * merged, because all partitions list channels and library collectives in the order of a key. The key is derived
 * from a channel's name and puts every SEND before its RECV. For each act there is a round in which the act's input
 * exists. The ends of a channel state this round in channel.late, the ranks of a collective in plan_move.late. When
 * partitions connect, they compare these rounds and digests of the contents (channels_match, comm_ranks_match). */
#include "actors/plan/verify/flow/verify_channel.h"
#include "actors/plan/outline/gates.h"
#include "actors/plan/outline/comm_ranks.h"
#include "actors/plan/verify/flow/verify_run.h"

#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- comparing places in the task lists, so that the lists of all hosts can be merged ---- */

/* Compares the places of two channels in the list. Channels of a hop have the order of redistribute_turn(), which
 * the proof of each end derives. Channels of gates go up a tree of hosts and down again (update_order.c): on the
 * way up, hosts deep in the tree send first; on the way down, they receive last. */
static int
compare_keys(const struct channel *a, const struct channel *b)
{
    const int32_t x[] = {a->name.step, a->name.operand, a->name.hop, a->turn};
    const int32_t y[] = {b->name.step, b->name.operand, b->name.hop, b->turn};
    for (size_t i = 0; i < countof(x); i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

__attribute__((format(printf, 2, 3))) static int
channel_fail(const struct channel *c, const char *fmt, ...)
{
    char text[200];
    struct str name = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    channel_print(&c->name, &name);
    int status = fail(E_PLAN, "plan: channel %s: %s", str_text(&name), text);
    str_free(&name);
    return status;
}

/* Returns the sort key of a collective's task. The key is an invented channel of the collective's hop, because
 * the hop of a collective has no channels. */
static struct channel
channel_key(const struct plan_move *m)
{
    return (struct channel){.name = {.step = m->step, .operand = m->operand, .hop = m->hop}};
}

static int
check_channel_order(const struct proof *v)
{
    const struct plan *p = v->plan;
    struct channel last = {0};
    bool any = false;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool collects = t->kind->flags & KIND_COLLECTS;
        if (t->channel < 0 && !collects) continue;
        struct channel c = collects ? channel_key(t->move.of) : p->channel[t->channel];
        bool before = any && compare_keys(&last, &c) > 0;
        if (before && !collects) return channel_fail(&c, "its task must come earlier in the list of tasks");
        if (before)
            return proof_fail(v, i,
                              "must come earlier in the list, because its collective has ranks in several partitions");
        last = c;
        any = true;
    }
    return 0;
}

/* ---- facts that a channel must state ---- */

static int
check_channel(const struct proof *v, int32_t k)
{
    const struct plan *p = v->plan;
    const struct channel *c = &p->channel[k];
    if (k && channel_compare(&c[-1].name, &c->name) >= 0)
        return channel_fail(c, "it must sort after the previous channel");
    if (c->task < 0 || c->task >= p->ntask) return channel_fail(c, "its task %d does not exist", (int)c->task);
    if (p->task[c->task].channel != k)
        return channel_fail(c, "its task %d belongs to channel %d", (int)c->task, (int)p->task[c->task].channel);
    const struct task *t = &p->task[c->task];
    if (c->peer == p->memory) return channel_fail(c, "both ends are on this host");
    TRY(proof_same(v, c->task, "number of acts of its channel", c->nact, t->nact));
    TRY(proof_same(v, c->task, "number of registers of its channel", c->nreg, MIN(2, t->nact)));
    if (c->sends != !!(t->kind->flags & KIND_SENDS) && t->nresult + t->narg > 0)
        return channel_fail(c, "its task sends where it must receive, or the reverse");
    return 0;
}

/* ---- gates ---- */

static bool
same_end(const struct channel *a, const struct channel *b)
{
    return channel_compare(&a->name, &b->name) == 0 && a->sends == b->sends && a->peer == b->peer &&
           a->turn == b->turn && a->late == b->late && a->bytes == 0;
}

/* Proves that the gate before a node has exactly the channel ends of gate_ends(). *c: index of the first channel
 * of the node's step; on return, index of the first channel after that step. */
static int
check_gate(const struct plan *p, int32_t node, const struct channel *end, int n, int32_t *c)
{
    int32_t found = 0, first = *c;
    for (; *c < p->nchannel && p->channel[*c].name.step == node; ++*c)
        found += p->channel[*c].name.from_side == SIDE_GATE;
    for (int k = 0; k < n; k++) {
        int32_t at = first;
        while (at < *c && !same_end(&p->channel[at], &end[k])) at++;
        if (at == *c) return channel_fail(&end[k], "the gate lacks this end of the channel");
    }
    return found == n ? 0
                      : fail(E_PLAN, "plan: the gate before node %d has %d channel ends, must have %d", (int)node,
                             (int)found, n);
}

/* Proves the channel ends of all gates. verify_memory.c proves that updates wait for gates. */
static int
check_gates(struct proof *v)
{
    const struct plan *p = v->plan;
    const bool *gate = gates_find(p->program, &v->tmp);
    int32_t me = 0, c = 0;
    while (me < p->nmemory && p->memories[me] != p->memory) me++;
    if (me == p->nmemory) return 0; /* no device of the program is on this host */
    for (int32_t i = 0; i < p->program->nnode; i++) {
        struct channel end[GATE_ENDS];
        int n = gate[i] ? gate_ends(i, p->memories, p->nmemory, me, p->pieces, end) : 0;
        while (c < p->nchannel && p->channel[c].name.step < i) c++;
        TRY(check_gate(p, i, end, n, &c));
    }
    return 0;
}

/* ---- rounds ---- */

/* Proves that the task at a channel's end acts in the round stated by the channel. */
static int
check_round(const struct proof *v, const struct channel *c)
{
    bool late = v->late[c->task];
    if (c->late && v->plan->task[c->task].nact > 1)
        return proof_fail(v, c->task, "runs for each micro-batch, but its channel once");
    if (c->sends && late && !c->late)
        return proof_fail(v, c->task, "must run after the last micro-batch exactly if its channel says so");
    return 0;
}

/* Proves that a RECV by a library is ready when its hop begins, in each round: the RECV waits only for tasks
 * before the hop and for registers returned earlier. */
static int
check_ready(const struct proof *v, const struct channel *c)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[c->task];
    int32_t hop = c->task;
    while (hop > 0 && task_hop(&p->task[hop - 1]) == t->move.of) hop--;
    for (int32_t k = 0; k < t->nin; k++)
        if (t->in[k].task >= hop)
            return proof_fail(
                v, c->task,
                "receives by a library, but waits for tasks of its own hop, so it is not ready when the hop begins");
    return 0;
}

/* Proves the place and the round of a task of a collective that has partners in other partitions. The place must
 * allow the same order of collectives as on other hosts. The round must be the one that the collective states. */
static int
check_channel_member(const struct proof *v, int32_t i)
{
    const struct task *t = &v->plan->task[i];
    if (!(t->kind->flags & KIND_COLLECTS) || !comm_ranks_abroad(v->plan, i)) return 0;
    if (v->late[i] && !t->move.of->late)
        return proof_fail(v, i, "must run after the last micro-batch exactly if its collective says so");
    return proof_comm_rank_keeps_order(v, i)
               ? 0
               : proof_fail(v, i, "must come in the same order among the collectives as on the other hosts");
}

int
prove_channels(struct proof *v)
{
    const struct plan *p = v->plan;
    if (!proof_fits(p->nchannel, sizeof *p->channel, &p->arena))
        return fail(E_PLAN, "plan: the number of channels must not be %d", (int)p->nchannel);
    for (int32_t c = 0; c < p->nchannel; c++) TRY(check_channel(v, c));
    /* with a single partition, the proof of verify_run.c suffices */
    if (p->nchannel == 0 && p->nmemory == 1) return 0;
    TRY(check_channel_order(v));
    TRY(check_gates(v));
    for (int32_t c = 0; c < p->nchannel; c++) TRY(check_round(v, &p->channel[c]));
    for (int32_t c = 0; c < p->nchannel; c++)
        if (p->channel[c].direct && !p->channel[c].sends) TRY(check_ready(v, &p->channel[c]));
    for (int32_t i = 0; i < p->ntask; i++) TRY(check_channel_member(v, i));
    return v->no_round < 0
               ? 0
               : proof_fail(v, v->no_round, "runs for each micro-batch, but waits for the last micro-batch");
}
