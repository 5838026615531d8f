/* verify_run.c - proves that the plan runs to its end: by rounds, or by a greedy simulation of tokens that moves no
 * bytes.
 *
 * An actor acts when every in-port has enough tokens and every result has a free register; an actor is blocked by
 * missing tokens or registers only. An act never takes a token or register for which another actor waits, because a
 * token has one reader and a register has one writer. So if one order of events reaches the end of the run, every
 * order does, and testing one order suffices. The tasks of a collective act together, because their work waits for
 * the work of all ranks. At the end every register must have been returned, so that the next run starts in the same
 * state.
 *
 * One order that reaches the end is by rounds. Each round traverses the task list, and every task with an act in
 * this round acts; there is one round per micro-batch. A task that acts per micro-batch has an act in every round. A
 * task that acts once acts in the first round; if its input is complete only in the last round, it acts in the last
 * round and is called late. In the order by rounds no task waits, if only tasks that act once read results of late
 * tasks. The reason is that edges point forward in the list, and producers put on as many tokens as readers take
 * (verify.c). So an edge between two tasks that act per micro-batch carries one token per round. A task that acts
 * once, in the first round, produces a single token. The reader uses this token at once or keeps it to the end. A
 * late task finds the tokens of all n rounds when it acts. No register is filled twice in a round, and a register
 * filled per micro-batch is returned in the same round, because all its readers act in this round. The last act of
 * each task uses the last token and returns the last register. The time of this proof is linear in the number of
 * edges and does not depend on the number of micro-batches. Plans for which this proof fails are simulated.
 *
 * References: marked graphs, in which no act takes the tokens of another (Commoner et al. 1971); one run proves all
 * runs at given rates (Ghamarian et al. 2006). */
#include "actors/plan/verify/flow/verify_run.h"
#include "actors/plan/model/deadlock.h"
#include "actors/plan/outline/comm_ranks.h"

#include "runtime/base/error.h"

/* ---- rounds ---- */

/* Returns true if the tokens for the reader's first act are complete only in the last round. */
static bool
comes_late(const struct proof *v, const struct in_port *in)
{
    int64_t o = v->first_out[in->task] + in->out;
    if (v->nact[in->task] == 1) return v->late[in->task];
    return v->nreg[o] == 0 ? in->need > 1 : v->made[o] < v->nact[in->task];
}

static void
find_rounds(struct proof *v)
{
    const struct plan *p = v->plan;
    v->no_round = -1;
    v->late = ARENA_ARRAY(&v->tmp, bool, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool late =
            (t->channel >= 0 && p->channel[t->channel].late) || (t->kind->flags & KIND_COLLECTS && t->move.of->late);
        for (int32_t k = 0; k < t->nin && !late; k++) late = comes_late(v, &t->in[k]);
        v->late[i] = late;
        if (late && t->nact > 1 && v->no_round < 0) v->no_round = i;
    }
}

/* Returns a partner of a collective's task, that is, the task of another rank. Looks at the ranks `rank`, rank +
 * step, and so on (step: 1 or -1), and returns the first that has a task in this partition. */
static int32_t
first_partner(const struct plan *p, int32_t task, int32_t comm_rank, int32_t step)
{
    int32_t at;
    while ((at = comm_ranks_partner(p, task, comm_rank)) < 0) comm_rank += step;
    return at;
}

bool
proof_comm_rank_keeps_order(const struct proof *v, int32_t i)
{
    const struct plan *p = v->plan;
    const struct task *t = &p->task[i];
    int32_t one = first_partner(p, i, 0, 1), last = first_partner(p, i, t->move.of->by->size - 1, -1);
    if (p->task[one].nact != t->nact || v->late[one] != v->late[i]) return false;
    for (int32_t k = 0; k < t->nout; k++)
        for (int32_t f = 0; f < t->out[k].nfan; f++)
            for (int32_t r = 0; r < t->out[k].fan[f].nreader; r++)
                if (t->out[k].fan[f].reader[r].task <= last) return false;
    return true;
}

static bool
runs_by_rounds(struct proof *v)
{
    const struct plan *p = v->plan;
    find_rounds(v);
    bool all = v->no_round < 0;
    for (int32_t i = 0; i < p->ntask && all; i++)
        if (p->task[i].kind->flags & KIND_COLLECTS) all = proof_comm_rank_keeps_order(v, i);
    return all;
}

/* ---- tokens ---- */

/* State of the simulated ports, in arrays by port number. */
struct tokens {
    struct proof *v;
    /* token[in-port]: number of tokens that the in-port holds; used[in-port]: number of acts that have used the
     * current register; give[in-port]: index of the register to return next */
    int32_t *token, *used, *give;
    /* write[out-port]: index of the register to fill next; left[out-port][register]: number of readers that have not
     * returned the register */
    int32_t *write, **left;
    int32_t *begun;         /* by task: number of acts begun */
    int32_t *queue, nqueue; /* stack of tasks that may be able to act */
    bool *queued;
};

static int32_t
begun(const void *state, int32_t task)
{
    const struct tokens *s = state;
    return s->begun[task];
}

static bool
out_waits(const void *state, int32_t task, int32_t k)
{
    const struct tokens *s = state;
    const struct task *t = &s->v->plan->task[task];
    int64_t o = s->v->first_out[task] + k;
    return !t->out[k].control && (s->begun[task] + 1) % t->out[k].every == 0 && s->left[o][s->write[o]] > 0;
}

static bool
in_waits(const void *state, int32_t task, int32_t k)
{
    const struct tokens *s = state;
    return s->token[s->v->first_in[task] + k] < s->v->plan->task[task].in[k].need;
}

static bool
can_act(const struct tokens *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    if (s->begun[task] == t->nact) return false;
    for (int32_t k = 0; k < t->nin; k++)
        if (in_waits(s, task, k)) return false;
    for (int32_t k = 0; k < t->nout; k++)
        if (out_waits(s, task, k)) return false;
    return true;
}

static void
visit_task(struct tokens *s, int32_t task)
{
    if (s->queued[task]) return;
    s->queued[task] = true;
    s->queue[s->nqueue++] = task;
}

static void
publish_token(struct tokens *s, int32_t task, int32_t k)
{
    const struct out_port *out = &s->v->plan->task[task].out[k];
    int64_t o = s->v->first_out[task] + k;
    for (int32_t f = 0; f < out->nfan; f++)
        for (int32_t r = 0; r < out->fan[f].nreader; r++) {
            const struct reader *to = &out->fan[f].reader[r];
            s->token[s->v->first_in[to->task] + to->port]++;
            if (!out->control) s->left[o][s->write[o]]++;
            visit_task(s, to->task);
        }
    if (!out->control) s->write[o] = (s->write[o] + 1) % out->nreg;
}

static void
take_token(struct tokens *s, int32_t task, int32_t k)
{
    const struct in_port *in = &s->v->plan->task[task].in[k];
    const struct out_port *out = &s->v->plan->task[in->task].out[in->out];
    int64_t i = s->v->first_in[task] + k, o = s->v->first_out[in->task] + in->out;
    if (++s->used[i] < in->hold) return;
    s->used[i] = 0;
    s->token[i] -= in->need;
    if (out->control) return;
    if (--s->left[o][s->give[i]] == 0) visit_task(s, in->task);
    s->give[i] = (s->give[i] + 1) % out->nreg;
}

static void
act(struct tokens *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    s->begun[task]++;
    for (int32_t k = 0; k < t->nin; k++) take_token(s, task, k);
    for (int32_t k = 0; k < t->nout; k++)
        if (t->out[k].control || s->begun[task] % t->out[k].every == 0) publish_token(s, task, k);
}

/* The partners of a task are the tasks of its collective, which act together. npartner() returns the number of a
 * task's partners, the task included. partner() returns partner i; -1: that partner is in another partition, which
 * lets it act at the same time (verify_channel.c). */
static int32_t
npartner(const struct task *t)
{
    return t->kind->flags & KIND_COLLECTS ? t->move.of->by->size : 1;
}

static int32_t
partner_task(const struct tokens *s, int32_t task, int32_t i)
{
    const struct task *t = &s->v->plan->task[task];
    return t->kind->flags & KIND_COLLECTS ? comm_ranks_partner(s->v->plan, task, i) : task;
}

/* Lets the tasks of a collective in this partition act together, and returns true. If any of them cannot act, none
 * acts, and the function returns false. */
static bool
act_together(struct tokens *s, int32_t task)
{
    int32_t n = npartner(&s->v->plan->task[task]), at;
    for (int32_t i = 0; i < n; i++)
        if ((at = partner_task(s, task, i)) >= 0 && !can_act(s, at)) return false;
    for (int32_t i = 0; i < n; i++)
        if ((at = partner_task(s, task, i)) >= 0) act(s, at);
    return true;
}

static void
tokens_init(struct tokens *s, struct proof *v)
{
    const struct plan *p = v->plan;
    struct arena *a = &v->tmp;
    int64_t nin = v->first_in[p->ntask] + 1, nout = v->first_out[p->ntask] + 1;
    *s = (struct tokens){.v = v,
                         .token = ARENA_ARRAY(a, int32_t, nin),
                         .used = ARENA_ARRAY(a, int32_t, nin),
                         .give = ARENA_ARRAY(a, int32_t, nin),
                         .write = ARENA_ARRAY(a, int32_t, nout),
                         .left = ARENA_ARRAY(a, int32_t *, nout),
                         .begun = ARENA_ARRAY(a, int32_t, p->ntask + 1),
                         .queue = ARENA_ARRAY(a, int32_t, p->ntask + 1),
                         .queued = ARENA_ARRAY(a, bool, p->ntask + 1)};
    int64_t nreg = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) nreg += p->task[i].out[k].nreg;
    int32_t *left = ARENA_ARRAY(a, int32_t, nreg + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            s->left[v->first_out[i] + k] = left;
            left += p->task[i].out[k].nreg;
        }
}

static int
prove_deadlock(const struct tokens *s)
{
    struct deadlock who = {
        .plan = s->v->plan, .state = s, .begun = begun, .in_waits = in_waits, .out_waits = out_waits};
    struct str text = {0};
    deadlock_print(&who, &text);
    int status = fail(E_PLAN, "plan cannot finish: %s", str_text(&text));
    str_free(&text);
    return status;
}

static int
check_run_finished(const struct tokens *s)
{
    for (int32_t i = 0; i < s->v->plan->ntask; i++)
        if (s->begun[i] < s->v->plan->task[i].nact) return prove_deadlock(s);
    return 0;
}

/* Checks that the simulated run left the task's ports in their initial state. */
static int
check_rest(const struct tokens *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    for (int32_t k = 0; k < t->nin; k++)
        if (s->token[s->v->first_in[task] + k])
            return proof_fail(s->v, task, "tokens are left at in-port %d after a run", (int)k);
    for (int32_t k = 0; k < t->nout; k++)
        for (int32_t r = 0; r < t->out[k].nreg; r++)
            if (s->left[s->v->first_out[task] + k][r])
                return proof_fail(s->v, task, "a register of result %d is not returned after a run", (int)k);
    return 0;
}

int
proof_run_greedily(struct proof *v)
{
    struct tokens s;
    tokens_init(&s, v);
    /* Pushes the tasks in reverse order, so that the tasks at the front of the list are popped first. */
    for (int32_t i = v->plan->ntask - 1; i >= 0; i--) visit_task(&s, i);
    while (s.nqueue > 0) {
        int32_t task = s.queue[--s.nqueue];
        s.queued[task] = false;
        while (act_together(&s, task)) continue;
    }
    TRY(check_run_finished(&s));
    for (int32_t i = 0; i < v->plan->ntask; i++) TRY(check_rest(&s, i));
    return 0;
}

int
prove_run(struct proof *v)
{
    return runs_by_rounds(v) ? 0 : proof_run_greedily(v);
}
