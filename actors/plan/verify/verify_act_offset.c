/* verify_act_offset.c - proves that no two uses that may be live at the same time share bytes, on devices with
 * per-act offsets ("berths").
 *
 * A use is the result of one act, until all its readers have read it. The proof covers every use on such a device.
 * The proof starts from one possible order of all acts, which traverses the task list once per micro-batch. In this
 * order the uses of a section of the arena follow one another. The proof shows that in every possible order of acts,
 * a use begins only after the previous use of the section has ended.
 *
 * An act waits for two kinds of earlier acts. Over an edge, it waits for the producer's act for the same
 * micro-batch. To write one of n registers, it waits for the readers' acts n micro-batches before. A search goes
 * back over edges and registers, and finds for each earlier task the fewest micro-batches to go back. A task that
 * acts once waits for the last act of its producers, and comes before the first act of its readers. Edges with other
 * rates are ignored, so the proof may fail for a correct plan but never accepts a wrong one. */
#include "actors/plan/verify/verify_act_offset.h"
#include "actors/plan/model/deadlock.h"

#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>

enum { ALIGN = 64, NEVER = INT32_MAX / 2 };

struct use {
    int64_t lo, hi;
    int32_t task, out;
    int32_t act, piece; /* act: number of the act that writes the register; piece: micro-batch of the act */
    bool again;         /* true: the result is written for each micro-batch; false: once per run */
};

/* A claim that the proof must confirm: before act `act` of task `task` begins, all readers of use `from` have ended.
 * The act overwrites the bytes of that use. */
struct claim {
    int32_t task, act;
    int32_t from;
};

struct act_offset_proof {
    struct proof *v;
    bool *late; /* by task: true if the task acts once, after tasks that act per micro-batch */
    /* waits: for each task, the earlier acts for which its acts wait. The act for micro-batch i waits for the act of
     * step.task for micro-batch i - step.lag. first_waits[task]: index in `waits` of the task's first entry */
    int32_t *first_waits;
    struct step {
        int32_t task, lag;
    } * waits;
    /* by task: smallest lag found from the search's first task to this task. A lag is a number of micro-batches: the
     * sum of step.lag along a path of waits. NEVER: no path found */
    int32_t *lag;
    int32_t *queue;
    bool *queued;
    int32_t *met, nmet; /* tasks that the current search has reached */
    /* wanted[task]: largest lag with which the order of acts proves all claims about this reader; NEVER: no claim.
     * nwanted: number of readers whose claims are not proved yet */
    int32_t *wanted, nwanted;
    struct use *use;
    int32_t nuse;
    struct claim *claim;
    int32_t nclaim, capacity;
};

/* ---- waits between acts ---- */

static bool
by_piece(const struct plan *p, int32_t task)
{
    return p->task[task].nact == p->pieces;
}

/* Returns true if the proof may use the order of an edge: each act of the reader must wait for the producer's act
 * for the same micro-batch, or for the producer's only act. A reader that acts once must wait for all acts of the
 * producer. out: index of the producer's out-port. */
static bool
counts(const struct proof *v, int32_t reader, const struct in_port *in, int64_t out)
{
    int32_t pieces = v->plan->pieces;
    if (v->nact[in->task] == 1) return true;
    if (v->nact[in->task] != pieces) return false;
    if (v->nact[reader] == pieces) return in->hold == 1 && in->need == 1 && v->made[out] == pieces;
    return v->nact[reader] == 1 && (v->nreg[out] ? v->made[out] == 1 : in->need == pieces);
}

/* Returns true if the producer waits for this reader's act on a register before it writes the register again. */
static bool
gives_back(const struct proof *v, int32_t reader, const struct in_port *in, int64_t out)
{
    int32_t pieces = v->plan->pieces;
    bool again = v->nreg[out] > 0 && v->made[out] > v->nreg[out];
    return again && in->hold == 1 && v->made[out] == pieces && v->nact[in->task] == pieces && v->nact[reader] == pieces;
}

static void
list_steps(struct act_offset_proof *b)
{
    const struct plan *p = b->v->plan;
    struct arena *a = &b->v->tmp;
    int32_t *next = ARENA_ARRAY(a, int32_t, p->ntask + 2), n = 0;
    for (int fill = 0; fill < 2; fill++) {
        for (int32_t i = 0; i < p->ntask; i++)
            for (int32_t k = 0; k < p->task[i].nin; k++) {
                const struct in_port *in = &p->task[i].in[k];
                int64_t out = b->v->first_out[in->task] + in->out;
                if (counts(b->v, i, in, out)) {
                    if (fill) b->waits[next[i]] = (struct step){in->task, 0};
                    next[i]++;
                }
                if (gives_back(b->v, i, in, out)) {
                    if (fill) b->waits[next[in->task]] = (struct step){i, b->v->nreg[out]};
                    next[in->task]++;
                }
            }
        if (fill) break;
        b->first_waits = ARENA_ARRAY(a, int32_t, p->ntask + 2);
        for (int32_t i = 0; i < p->ntask; i++) {
            b->first_waits[i] = n;
            n += next[i];
            next[i] = b->first_waits[i];
        }
        b->first_waits[p->ntask] = n;
        b->waits = ARENA_ARRAY(a, struct step, n + 1);
    }
}

/* Stores a smaller lag (micro-batches to go back) of a task. Decrements nwanted if the new lag proves all claims
 * about the task and the old lag did not. */
static void
note_lag(struct act_offset_proof *b, int32_t task, int32_t lag)
{
    if (b->lag[task] == NEVER) b->met[b->nmet++] = task;
    b->nwanted -= b->lag[task] > b->wanted[task] && lag <= b->wanted[task];
    b->lag[task] = lag;
}

/* Searches back from `task`, and sets the lag (micro-batches to go back) of each task that it waits for, directly or
 * through other tasks. Stops when all claims are proved. The lag along any path is valid, even if another path has a
 * smaller lag. */
static void
walk_back(struct act_offset_proof *b, int32_t task)
{
    const struct plan *p = b->v->plan;
    int32_t first = 0, n = 0, most = p->ntask + 1;
    b->queue[n++] = task;
    for (bool begun = false; first != n; begun = true) {
        int32_t x = b->queue[first], at = begun ? b->lag[x] : 0;
        first = (first + 1) % most;
        b->queued[x] = false;
        for (int32_t k = b->first_waits[x]; k < b->first_waits[x + 1] && b->nwanted > 0; k++) {
            const struct step *s = &b->waits[k];
            if (at + s->lag >= MIN(p->pieces, b->lag[s->task])) continue;
            note_lag(b, s->task, at + s->lag);
            if (b->queued[s->task]) continue;
            b->queued[s->task] = true;
            b->queue[n] = s->task;
            n = (n + 1) % most;
        }
    }
}

/* ---- claims ---- */

static int
not_proved(const struct act_offset_proof *b, const struct claim *c, int32_t reader)
{
    const struct use *u = &b->use[c->from];
    struct str name = {0};
    task_print(b->v->plan, u->task, &name);
    if (reader != u->task) {
        str_add(&name, ", which is read by ");
        task_print(b->v->plan, reader, &name);
    }
    int status = proof_fail(
        b->v, c->task,
        "act %d overwrites the result of act %d in result %d of %s, and does not wait until that result has been read",
        (int)c->act, (int)u->act, (int)u->out, str_text(&name));
    str_free(&name);
    return status;
}

/* Returns the largest lag, in micro-batches from the claim's act back to the reader, that proves the claim. With a
 * larger lag, the claim's act may begin before the reader's last act on the use has ended. Negative: no lag proves
 * the claim. */
static int32_t
lag_wanted(const struct act_offset_proof *b, const struct claim *c, int32_t reader, const struct in_port *in)
{
    const struct plan *p = b->v->plan;
    const struct use *u = &b->use[c->from];
    int32_t last = p->pieces - 1, at = p->task[c->task].nact == 1 ? last : c->act;
    if (u->again && (!by_piece(p, reader) || in->hold != 1)) return -1;
    return at - (u->again ? u->act : p->task[reader].nact == 1 ? 0 : last);
}

typedef int reader_fn(struct act_offset_proof *b, const struct claim *c, int32_t reader, const struct in_port *in);

static int
visit_readers(struct act_offset_proof *b, const struct claim *c, reader_fn *visit)
{
    const struct plan *p = b->v->plan;
    const struct out_port *o = &p->task[b->use[c->from].task].out[b->use[c->from].out];
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            const struct reader *to = &o->fan[f].reader[r];
            TRY(visit(b, c, to->task, &p->task[to->task].in[to->port]));
        }
    return 0;
}

static int
claim_want(struct act_offset_proof *b, const struct claim *c, int32_t reader, const struct in_port *in)
{
    b->nwanted += b->wanted[reader] == NEVER;
    b->wanted[reader] = MIN(b->wanted[reader], lag_wanted(b, c, reader, in));
    return 0;
}

static int
want_no_more(struct act_offset_proof *b, const struct claim *c, int32_t reader, const struct in_port *in)
{
    (void)c, (void)in;
    b->wanted[reader] = NEVER;
    return 0;
}

static int
has_ended(struct act_offset_proof *b, const struct claim *c, int32_t reader, const struct in_port *in)
{
    return b->lag[reader] <= lag_wanted(b, c, reader, in) ? 0 : not_proved(b, c, reader);
}

/* Checks the n claims about one task with a single search. No two of the claims are equal. */
static int
check_claims_of(struct act_offset_proof *b, const struct claim *c, int32_t n)
{
    const struct plan *p = b->v->plan;
    b->nwanted = b->nmet = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct use *u = &b->use[c[i].from];
        if (p->task[u->task].out[u->out].nfan == 0) return not_proved(b, &c[i], u->task);
        TRY(visit_readers(b, &c[i], claim_want));
    }
    walk_back(b, c->task);
    int status = 0;
    for (int32_t i = 0; i < n && !status; i++) status = visit_readers(b, &c[i], has_ended);
    for (int32_t i = 0; i < n; i++) TRY(visit_readers(b, &c[i], want_no_more));
    while (b->nmet > 0) b->lag[b->met[--b->nmet]] = NEVER;
    return status;
}

static int
compare_use_tasks(const void *x, const void *y)
{
    const struct claim *a = x, *b = y;
    if (a->task != b->task) return (a->task > b->task) - (a->task < b->task);
    return a->act != b->act ? (a->act > b->act) - (a->act < b->act) : (a->from > b->from) - (a->from < b->from);
}

static int
check_claims(struct act_offset_proof *b)
{
    int32_t n = 0;
    if (b->nclaim) qsort(b->claim, (size_t)b->nclaim, sizeof *b->claim, compare_use_tasks);
    for (int32_t i = 0; i < b->nclaim; i++)
        if (n == 0 || compare_use_tasks(&b->claim[n - 1], &b->claim[i]) != 0) b->claim[n++] = b->claim[i];
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && b->claim[end].task == b->claim[i].task;) end++;
        TRY(check_claims_of(b, b->claim + i, end - i));
    }
    return 0;
}

/* ---- uses ---- */

static void
verify_find_late(struct act_offset_proof *b)
{
    const struct plan *p = b->v->plan;
    b->late = ARENA_ARRAY(&b->v->tmp, bool, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin && p->task[i].nact == 1; k++) {
            int32_t x = p->task[i].in[k].task;
            b->late[i] = b->late[i] || b->late[x] || p->task[x].nact > 1;
        }
}

static void
add_uses(struct act_offset_proof *b, int32_t task, int32_t out)
{
    const struct plan *p = b->v->plan;
    const struct out_port *o = &p->task[task].out[out];
    const struct where *w = &o->where;
    int64_t bytes = (o->bytes + ALIGN - 1) & ~(int64_t)(ALIGN - 1);
    bool again = by_piece(p, task) && o->every == 1;
    for (int32_t act = 0; act < (again ? p->pieces : 1); act++) {
        int64_t lo = w->nact_offset ? w->berth[act % w->nact_offset] : w->offset + act % o->nreg * w->stride;
        int32_t piece = b->late[task] ? p->pieces - 1 : act;
        b->use[b->nuse++] = (struct use){lo, lo + bytes, task, out, act, piece, again};
    }
}

/* A result that is stored in an arena. Lists of such results are sorted by device. */
struct lying {
    int32_t task, out;
};
struct lyings {
    struct lying *of;
    int32_t *first; /* by device: index of its first result */
    int64_t *nuse;  /* by device: upper bound of the number of uses */
};

static bool
is_in_arena(const struct out_port *o)
{
    return o->where.kind == IN_ARENA && o->bytes > 0;
}

static void
list_lying(struct act_offset_proof *b, struct lyings *l, bool *has)
{
    const struct plan *p = b->v->plan;
    struct arena *a = &b->v->tmp;
    int32_t *next = ARENA_ARRAY(a, int32_t, p->ndevice + 2);
    l->first = ARENA_ARRAY(a, int32_t, p->ndevice + 2);
    l->nuse = ARENA_ARRAY(a, int64_t, p->ndevice + 1);
    for (int fill = 0; fill < 2; fill++) {
        for (int32_t i = 0; i < p->ntask; i++)
            for (int32_t k = 0; k < p->task[i].nresult; k++) {
                const struct out_port *o = &p->task[i].out[k];
                if (!is_in_arena(o)) continue;
                if (fill) l->of[next[o->where.index]] = (struct lying){i, k};
                next[o->where.index]++;
                if (fill) continue;
                l->nuse[o->where.index] += p->task[i].nact;
                has[o->where.index] = has[o->where.index] || o->where.nact_offset > 0;
            }
        if (fill) break;
        for (int32_t d = 0; d < p->ndevice; d++) {
            l->first[d + 1] = l->first[d] + next[d];
            next[d] = l->first[d];
        }
        l->of = ARENA_ARRAY(a, struct lying, l->first[p->ndevice] + 1);
    }
}

static int
by_order(const void *x, const void *y)
{
    const struct use *a = x, *b = y;
    if (a->piece != b->piece) return (a->piece > b->piece) - (a->piece < b->piece);
    return a->task != b->task ? (a->task > b->task) - (a->task < b->task) : a->out - b->out;
}

/* Adds a claim: use `now` gets bytes of use `was`, so it must begin only after all readers of `was` have ended. */
static void
claim_use(struct act_offset_proof *b, int32_t was, int32_t now)
{
    GROW(b->claim, b->nclaim + 1, b->capacity);
    b->claim[b->nclaim++] = (struct claim){b->use[now].task, b->use[now].act, was};
}

static int
check_uses(struct act_offset_proof *b, int64_t *cut, int32_t *owner)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->nuse; i++) {
        cut[n++] = b->use[i].lo;
        cut[n++] = b->use[i].hi;
    }
    n = sorted_once64(cut, n);
    for (int32_t k = 0; k < n; k++) owner[k] = -1;
    qsort(b->use, (size_t)b->nuse, sizeof *b->use, by_order);
    for (int32_t i = 0; i < b->nuse; i++) {
        int32_t was = -1;
        for (int32_t k = sorted_last64(cut, n, b->use[i].lo); cut[k] < b->use[i].hi; k++) {
            if (owner[k] >= 0 && owner[k] != was) claim_use(b, owner[k], i);
            was = owner[k];
            owner[k] = i;
        }
    }
    return check_claims(b);
}

static int
check_device_uses(struct act_offset_proof *b, const struct lyings *l, int32_t device)
{
    int64_t n = l->nuse[device];
    if (n > INT32_MAX / 2) return fail(E_PLAN, "plan: device %d: too many uses of registers to prove", (int)device);
    int64_t *cut = must_alloc(sizeof *cut * (size_t)(2 * n + 1));
    int32_t *owner = must_alloc(sizeof *owner * (size_t)(2 * n + 1));
    b->use = must_alloc(sizeof *b->use * (size_t)(n + 1));
    b->nuse = b->nclaim = 0;
    for (int32_t i = l->first[device]; i < l->first[device + 1]; i++) add_uses(b, l->of[i].task, l->of[i].out);
    int status = check_uses(b, cut, owner);
    free(cut);
    free(owner);
    free(b->use);
    return status;
}

static void
make_proof_tables(struct act_offset_proof *b)
{
    struct arena *a = &b->v->tmp;
    int32_t n = b->v->plan->ntask + 1;
    b->lag = ARENA_ARRAY(a, int32_t, n);
    b->wanted = ARENA_ARRAY(a, int32_t, n);
    b->met = ARENA_ARRAY(a, int32_t, n);
    b->queue = ARENA_ARRAY(a, int32_t, n);
    b->queued = ARENA_ARRAY(a, bool, n);
    for (int32_t i = 0; i < n; i++) b->lag[i] = b->wanted[i] = NEVER;
    verify_find_late(b);
    list_steps(b);
}

int
prove_act_offsets(struct proof *v, bool *has)
{
    const struct plan *p = v->plan;
    struct act_offset_proof b = {.v = v};
    struct lyings l;
    int status = 0;
    list_lying(&b, &l, has);
    for (int32_t d = 0; d < p->ndevice && !status; d++) {
        if (!has[d]) continue;
        if (!b.lag) make_proof_tables(&b);
        status = check_device_uses(&b, &l, d);
    }
    free(b.claim);
    return status;
}
