/* team.c - runs loops that are divided among the threads of a kernel.
 *
 * A loop is divided into ranges of iterations (shares), one per thread. Helper threads start at the first loop
 * that needs them, and stay. The owner is the thread that runs the loop. It assigns share i to helper i - 1 and
 * runs share 0. Then it takes back the shares that no helper has started, and runs these, too. So a loop never
 * waits for a helper that gets no core. A thread that waits polls for SPIN_NS, and then sleeps. */
#include "kernels/cpu/base/team.h"

#include "runtime/base/clock.h"
#include "runtime/base/denormal.h"
#include "runtime/base/signals.h"
#include "runtime/base/stop.h"
#include "runtime/base/waker.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- dividing a loop into shares: one range of iterations per thread ---- */

/* Returns the length of a piece: the number of iterations between two checks for a stop. A grain is the minimum
 * work per thread; 64 grains take some milliseconds. If grain is 1, a single iteration may be long, so the loop
 * checks after each one. */
static int64_t
piece_of_grain(int64_t grain)
{
    return grain > 1 ? 64 * grain : 1;
}

struct share {
    void (*part)(void *arg, int64_t lo, int64_t hi);
    void *arg;
    int64_t lo, hi, piece;
    struct stop stop; /* stop check of the thread that called team_run() */
};

/* Returns share i of a loop that is divided into nteam shares (ranges of iterations). */
static struct share
share_of(const struct share *all, int64_t i, int64_t nteam)
{
    struct share s = *all;
    s.lo = all->hi * i / nteam;
    s.hi = all->hi * (i + 1) / nteam;
    return s;
}

static void
run_pieces(const struct share *s)
{
    for (int64_t lo = s->lo; lo < s->hi && (lo == s->lo || !stop_now()); lo += s->piece)
        s->part(s->arg, lo, MIN(lo + s->piece, s->hi));
}

static void *
run_share(void *arg)
{
    const struct share *s = arg;
    denormals_flush();
    struct stop own = stop_asked();
    stop_ask(s->stop.wanted, s->stop.arg);
    run_pieces(s);
    stop_ask(own.wanted, own.arg);
    return NULL;
}

/* ---- helper threads ---- */

enum { SPIN_NS = 30000, SPIN_BATCH = 16 };

/* States of a helper. The owner (the thread that runs the loop) sets ASSIGNED, AWAITED and ENDING, and also sets
 * IDLE if it takes a share back. */
enum {
    IDLE,     /* the helper polls */
    ASLEEP,   /* the helper sleeps */
    ASSIGNED, /* the helper has a share (a range of iterations) that no thread has started */
    RUNNING,  /* the helper runs the share */
    AWAITED,  /* the helper runs the share, and the owner sleeps until the helper is done */
    ENDING,   /* the helper ends */
};

struct helper {
    alignas(64) _Atomic uint32_t state;
    /* range of iterations that the helper runs; written by the owner in state IDLE or ASLEEP, read by the helper
     * in state RUNNING */
    struct share share;
    pthread_t thread;
};

/* The helper threads that this thread owns. */
static _Thread_local struct team {
    struct helper *helper;
    int wanted, n; /* wanted: number of helpers requested; n: number of helpers that could be started */
    bool polls;    /* helpers may poll: the thread has run a loop since team_rest() */
    bool inside;   /* the thread runs a share of a loop, so loops within the share run on this thread alone */
} team;

static pthread_key_t key; /* its destructor ends a thread's helpers when the thread ends */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Waits until *state is no longer `was`. Polls at first; before it sleeps, sets *state to `asleep`. Returns the
 * new state. */
static uint32_t
await_change(_Atomic uint32_t *state, uint32_t was, uint32_t asleep)
{
    uint32_t now = atomic_load(state);
    for (int64_t until = now == was ? now_ns() + SPIN_NS : 0; now == was && now_ns() < until;)
        for (int i = 0; i < SPIN_BATCH && (now = atomic_load(state)) == was; i++) relax();
    if (now == was) atomic_compare_exchange_strong(state, &now, asleep);
    if (now != was && now != asleep) return now;
    while ((now = atomic_load(state)) == asleep) system_sleep(state, asleep, 0, false);
    return now;
}

static void *
help_owner(void *arg)
{
    struct helper *h = arg;
    team.inside = true;
    for (;;) {
        uint32_t now = await_change(&h->state, IDLE, ASLEEP);
        if (now == ENDING) return NULL;
        if (now != ASSIGNED || !atomic_compare_exchange_strong(&h->state, &now, RUNNING)) continue;
        run_share(&h->share);
        if (atomic_exchange(&h->state, IDLE) == AWAITED) system_wake(&h->state);
    }
}

/* Sets the state of a helper that runs no share, and wakes the helper if it sleeps. */
static void
set_helper(struct helper *h, uint32_t state)
{
    if (atomic_exchange(&h->state, state) == ASLEEP) system_wake(&h->state);
}

void
team_rest(void)
{
    for (int i = 0; i < team.n && team.polls; i++) {
        uint32_t state = IDLE;
        atomic_compare_exchange_strong(&team.helper[i].state, &state, ASLEEP);
    }
    team.polls = false;
}

static void
end_helpers(void *arg)
{
    struct team *t = arg;
    for (int i = 0; i < t->n; i++) set_helper(&t->helper[i], ENDING);
    for (int i = 0; i < t->n; i++) pthread_join(t->helper[i].thread, NULL);
    free(t->helper);
    *t = (struct team){.inside = t->inside};
}

void
team_release(void)
{
    end_helpers(&team);
}

static void
make_key(void)
{
    int status = pthread_key_create(&key, end_helpers);
    assert(!status);
}

/* Starts n helpers for this thread, or as many as the system allows. */
static void
start_helpers(int n)
{
    team_release();
    team.wanted = n;
    team.helper = aligned_alloc(alignof(struct helper), (size_t)n * sizeof *team.helper);
    if (!team.helper) return;
    pthread_once(&key_once, make_key);
    if (pthread_setspecific(key, &team)) return;
    signals_hold(); /* helpers receive no signals */
    for (; team.n < n; team.n++) {
        struct helper *h = &team.helper[team.n];
        atomic_init(&h->state, IDLE);
        if (pthread_create(&h->thread, NULL, help_owner, h)) break;
    }
}

/* Runs share 0, and then the shares that no helper has started. */
static void
run_own_shares(const struct share *all, int64_t nteam, int64_t nhelper)
{
    struct share share = share_of(all, 0, nteam);
    run_share(&share);
    for (int64_t i = nteam - 1; i > 0; i--) {
        uint32_t state = ASSIGNED;
        if (i <= nhelper && !atomic_compare_exchange_strong(&team.helper[i - 1].state, &state, IDLE)) continue;
        share = share_of(all, i, nteam);
        run_share(&share);
    }
}

void
team_run(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t lo, int64_t hi), void *arg)
{
    int64_t nteam = MIN((int64_t)threads, n / MAX(grain, 1));
    const struct share all = {part, arg, 0, n, piece_of_grain(grain), stop_asked()};
    if (nteam <= 1) {
        run_pieces(&all);
        return;
    }
    bool inside = team.inside;
    if (!inside && team.wanted < threads - 1) start_helpers(threads - 1);
    int64_t nhelper = inside ? 0 : MIN(nteam - 1, (int64_t)team.n);
    for (int64_t i = 0; i < nhelper; i++) {
        team.helper[i].share = share_of(&all, i + 1, nteam);
        set_helper(&team.helper[i], ASSIGNED);
    }
    team.inside = team.polls = true;
    run_own_shares(&all, nteam, nhelper);
    team.inside = inside;
    for (int64_t i = 0; i < nhelper; i++) await_change(&team.helper[i].state, RUNNING, AWAITED);
    signals_pass_in_time();
}

struct shares {
    void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi);
    void *arg;
    int64_t n, count, piece;
};

static void
run_shares(void *arg, int64_t first, int64_t end)
{
    const struct shares *s = arg;
    for (int64_t i = first; i < end; i++) {
        int64_t lo = s->n * i / s->count, hi = s->n * (i + 1) / s->count;
        for (; lo < hi && !stop_now(); lo += s->piece) s->part(s->arg, i, lo, MIN(lo + s->piece, hi));
    }
}

void
team_shares(int threads, int64_t n, int64_t grain, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
            void *arg)
{
    grain = MAX(grain, 1);
    struct shares s = {part, arg, n, MAX(MIN((int64_t)threads, n / grain), 1), piece_of_grain(grain)};
    if (n > 0) team_run((int)s.count, s.count, 1, run_shares, &s);
}

/* ---- work stealing between shares ---- */

/* The iterations (turns) of a share that no thread has taken yet: from `first` to `end`, packed into one word for
 * atomic exchange. */
struct left {
    alignas(64) _Atomic uint64_t range;
};

static uint64_t
pack_range(int64_t first, int64_t end)
{
    return (uint64_t)first << 32 | (uint64_t)end;
}

/* Takes up to n iterations (turns) from a share, and returns their range in *lo and *hi. front: true for the
 * share's own thread, which takes from the front; other threads take from the back. Other threads leave the last
 * piece, because the share's own thread is about to process it. Returns false if nothing may be taken. */
static bool
take_turns(struct left *left, int64_t n, bool front, int64_t *lo, int64_t *hi)
{
    uint64_t range = atomic_load_explicit(&left->range, memory_order_relaxed), rest;
    do {
        int64_t first = (int64_t)(range >> 32), end = (int64_t)(range & UINT32_MAX), some = MIN(n, end - first);
        if (some <= 0 || (!front && some == end - first)) return false;
        *lo = front ? first : end - some;
        *hi = *lo + some;
        rest = front ? pack_range(*hi, end) : pack_range(first, *lo);
    } while (
        !atomic_compare_exchange_weak_explicit(&left->range, &range, rest, memory_order_relaxed, memory_order_relaxed));
    return true;
}

struct level {
    void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi);
    void *arg;
    struct left *left;
    int64_t shares, piece;
};

static void
run_level(void *arg, int64_t first, int64_t end)
{
    const struct level *l = arg;
    for (int64_t own = first, lo, hi; own < end; own++)
        for (int64_t i = 0; i < l->shares; i++) {
            int64_t share = (own + i) % l->shares;
            while (!stop_now() && take_turns(&l->left[share], l->piece, i == 0, &lo, &hi))
                l->part(l->arg, share, lo, hi);
        }
}

void
team_level(int shares, int64_t turns, int64_t piece, void (*part)(void *arg, int64_t share, int64_t lo, int64_t hi),
           void *arg)
{
    struct left left[LEVEL_MOST];
    assert(shares <= LEVEL_MOST && turns <= INT32_MAX);
    for (int i = 0; i < shares; i++) atomic_init(&left[i].range, pack_range(0, turns));
    struct level l = {part, arg, left, shares, MAX(piece, 1)};
    if (turns > 0) team_run(shares, shares, 1, run_level, &l);
}
