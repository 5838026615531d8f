/* verify_berth.c - where acts have berths, no two uses that may be live together share bytes.
 *
 * A use is what one act writes, until all who read it have read it. On a device
 * on which any result has berths, the proof goes over each use of each of its
 * results. Going through the list once for each piece is an order in which all
 * could run; in that order the uses of every cut of the arena follow each other,
 * and of each the next one must wait until it has ended, whatever else happens.
 *
 * What an act waits for: of an edge the producer's act for the same piece; of a
 * register, of which there are n, its readers' acts n pieces before. Searches go
 * back over these steps and note the fewest pieces to each task that they meet. A
 * task that acts once waits for the last act of those it reads, and comes before
 * the first act of those that read it. Edges that count otherwise are left out:
 * that proves less, never too much. */
#include "actors/plan/deadlock.h"
#include "actors/plan/verify.h"

#include "runtime/error.h"
#include "runtime/sorted.h"

#include <stdlib.h>

enum { ALIGN = 64, NEVER = INT32_MAX / 2 };

struct use {
    int64_t lo, hi;
    int32_t task, out;
    int32_t act, piece; /* the act that writes it; when, in the order above */
    bool again;         /* written for each piece */
};

/* All who read use `from` must have ended before act `act` of a task begins. */
struct claim {
    int32_t task, act;
    int32_t from;
};

struct berth_proof {
    struct proof *v;
    bool *late;                 /* by task: it acts once, behind some that act for each piece */
    int32_t *first_waits, *lag; /* by task: its steps back; the fewest pieces, NEVER */
    struct step {
        int32_t task, lag;
    } * waits;
    int32_t *queue;
    bool *queued;
    struct use *use;
    int32_t nuse;
    struct claim *claim;
    int32_t nclaim, capacity;
};

/* ---- steps back ---- */

static bool
by_piece(const struct plan *p, int32_t task)
{
    return p->task[task].nact == p->pieces;
}

/* Does the reader's act wait for the same act of the producer, or, of one of them once, for all, or the first? */
static bool
counts(const struct plan *p, int32_t reader, const struct in_port *in)
{
    const struct out_port *o = &p->task[in->task].out[in->out];
    if (p->task[in->task].nact == 1) return true;
    if (!by_piece(p, in->task)) return false;
    if (by_piece(p, reader)) return in->hold == 1 && in->need == 1 && (o->control || o->every == 1);
    return p->task[reader].nact == 1 && (o->control ? in->need : o->every) == p->pieces;
}

/* Does the act that takes the register again wait for this reader's act of that piece? */
static bool
gives_back(const struct plan *p, int32_t reader, const struct in_port *in)
{
    const struct out_port *o = &p->task[in->task].out[in->out];
    return !o->control && !o->once && o->every == 1 && in->hold == 1 && by_piece(p, reader) && by_piece(p, in->task);
}

static void
list_steps(struct berth_proof *b)
{
    const struct plan *p = b->v->plan;
    struct arena *a = &b->v->tmp;
    int32_t *next = ARENA_ARRAY(a, int32_t, p->ntask + 2), n = 0;
    for (int fill = 0; fill < 2; fill++) {
        for (int32_t i = 0; i < p->ntask; i++)
            for (int32_t k = 0; k < p->task[i].nin; k++) {
                const struct in_port *in = &p->task[i].in[k];
                const struct out_port *o = &p->task[in->task].out[in->out];
                if (counts(p, i, in)) {
                    if (fill) b->waits[next[i]] = (struct step){in->task, 0};
                    next[i]++;
                }
                if (gives_back(p, i, in)) {
                    if (fill) b->waits[next[in->task]] = (struct step){i, o->nreg};
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

/* The fewest pieces to every task from which this one is met. */
static void
go_back(struct berth_proof *b, int32_t task)
{
    const struct plan *p = b->v->plan;
    int32_t first = 0, n = 0, most = p->ntask + 1;
    for (int32_t i = 0; i < p->ntask; i++) b->lag[i] = NEVER;
    b->queue[n++] = task;
    for (bool begun = false; first != n; begun = true) {
        int32_t x = b->queue[first], at = begun ? b->lag[x] : 0;
        first = (first + 1) % most;
        b->queued[x] = false;
        for (int32_t k = b->first_waits[x]; k < b->first_waits[x + 1]; k++) {
            const struct step *s = &b->waits[k];
            if (at + s->lag >= MIN(p->pieces, b->lag[s->task])) continue;
            b->lag[s->task] = at + s->lag;
            if (b->queued[s->task]) continue;
            b->queued[s->task] = true;
            b->queue[n] = s->task;
            n = (n + 1) % most;
        }
    }
}

/* ---- claims ---- */

static int
not_proved(const struct berth_proof *b, const struct claim *c, int32_t reader)
{
    const struct use *u = &b->use[c->from];
    struct str name = {0};
    task_print(b->v->plan, u->task, &name);
    if (reader != u->task) {
        str_add(&name, ", which is read by ");
        task_print(b->v->plan, reader, &name);
    }
    int status =
        proof_fail(b->v, c->task, "act %d writes where act %d of result %d of %s lies, and does not wait for it",
                   (int)c->act, (int)u->act, (int)u->out, str_text(&name));
    str_free(&name);
    return status;
}

/* Has the last act of the reader that reads the use ended? Lags are those of the claim's task. */
static bool
has_ended(const struct berth_proof *b, const struct claim *c, int32_t reader, const struct in_port *in)
{
    const struct plan *p = b->v->plan;
    const struct use *u = &b->use[c->from];
    int32_t lag = b->lag[reader], last = p->pieces - 1;
    int32_t at = p->task[c->task].nact == 1 ? last : c->act;
    if (lag == NEVER || (u->again && (!by_piece(p, reader) || in->hold != 1))) return false;
    int32_t until = u->again ? u->act : p->task[reader].nact == 1 ? 0 : last;
    return until <= at - lag;
}

static int
check_claim(const struct berth_proof *b, const struct claim *c)
{
    const struct plan *p = b->v->plan;
    const struct use *u = &b->use[c->from];
    const struct out_port *o = &p->task[u->task].out[u->out];
    if (o->nfan == 0) return not_proved(b, c, u->task);
    for (int32_t f = 0; f < o->nfan; f++)
        for (int32_t r = 0; r < o->fan[f].nreader; r++) {
            const struct reader *to = &o->fan[f].reader[r];
            if (!has_ended(b, c, to->task, &p->task[to->task].in[to->port])) return not_proved(b, c, to->task);
        }
    return 0;
}

static int
by_task(const void *x, const void *y)
{
    const struct claim *a = x, *b = y;
    if (a->task != b->task) return (a->task > b->task) - (a->task < b->task);
    return a->act != b->act ? (a->act > b->act) - (a->act < b->act) : (a->from > b->from) - (a->from < b->from);
}

static int
check_claims(struct berth_proof *b)
{
    if (b->nclaim) qsort(b->claim, (size_t)b->nclaim, sizeof *b->claim, by_task);
    for (int32_t i = 0; i < b->nclaim; i++) {
        const struct claim *c = &b->claim[i];
        if (i > 0 && by_task(c, c - 1) == 0) continue;
        if (i == 0 || c->task != c[-1].task) go_back(b, c->task);
        TRY(check_claim(b, c));
    }
    return 0;
}

/* ---- uses ---- */

static void
find_late(struct berth_proof *b)
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
add_uses(struct berth_proof *b, int32_t task, int32_t out)
{
    const struct plan *p = b->v->plan;
    const struct out_port *o = &p->task[task].out[out];
    const struct where *w = &o->where;
    int64_t bytes = (o->bytes + ALIGN - 1) & ~(int64_t)(ALIGN - 1);
    bool again = by_piece(p, task) && o->every == 1;
    for (int32_t act = 0; act < (again ? p->pieces : 1); act++) {
        int64_t lo = w->nberth ? w->berth[act % w->nberth] : w->offset + act % o->nreg * w->stride;
        int32_t piece = b->late[task] ? p->pieces - 1 : act;
        b->use[b->nuse++] = (struct use){lo, lo + bytes, task, out, act, piece, again};
    }
}

static bool
lies_on(const struct out_port *o, int32_t device)
{
    return o->where.kind == IN_ARENA && o->where.index == device && o->bytes > 0;
}

/* Returns how many uses the device's results have. */
static int64_t
count_uses(const struct plan *p, int32_t device, bool *berths)
{
    int64_t n = 0;
    *berths = false;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++) {
            if (!lies_on(&p->task[i].out[k], device)) continue;
            n += p->task[i].nact;
            *berths = *berths || p->task[i].out[k].where.nberth > 0;
        }
    return n;
}

static int
by_order(const void *x, const void *y)
{
    const struct use *a = x, *b = y;
    if (a->piece != b->piece) return (a->piece > b->piece) - (a->piece < b->piece);
    return a->task != b->task ? (a->task > b->task) - (a->task < b->task) : a->out - b->out;
}

/* The next to have a cut follows the one that had it last. */
static void
follow(struct berth_proof *b, int32_t was, int32_t now)
{
    GROW(b->claim, b->nclaim + 1, b->capacity);
    b->claim[b->nclaim++] = (struct claim){b->use[now].task, b->use[now].act, was};
}

static int
check_uses(struct berth_proof *b, int64_t *cut, int32_t *owner)
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
            if (owner[k] >= 0 && owner[k] != was) follow(b, owner[k], i);
            was = owner[k];
            owner[k] = i;
        }
    }
    return check_claims(b);
}

static int
check_device(struct berth_proof *b, int32_t device, int64_t n)
{
    const struct plan *p = b->v->plan;
    int64_t *cut = must_alloc(sizeof *cut * (size_t)(2 * n + 1));
    int32_t *owner = must_alloc(sizeof *owner * (size_t)(2 * n + 1));
    b->use = must_alloc(sizeof *b->use * (size_t)(n + 1));
    b->nuse = b->nclaim = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nresult; k++)
            if (lies_on(&p->task[i].out[k], device)) add_uses(b, i, k);
    int status = check_uses(b, cut, owner);
    free(cut);
    free(owner);
    free(b->use);
    return status;
}

int
prove_berths(struct proof *v, int32_t device, bool *has)
{
    const struct plan *p = v->plan;
    struct berth_proof b = {.v = v};
    int64_t n = count_uses(p, device, has);
    if (!*has) return 0;
    if (n > INT32_MAX / 2) return fail(E_PLAN, "plan: device %d has too many uses of registers", (int)device);
    b.lag = ARENA_ARRAY(&v->tmp, int32_t, p->ntask + 1);
    b.queue = ARENA_ARRAY(&v->tmp, int32_t, p->ntask + 1);
    b.queued = ARENA_ARRAY(&v->tmp, bool, p->ntask + 1);
    find_late(&b);
    list_steps(&b);
    int status = check_device(&b, device, n);
    free(b.claim);
    return status;
}
