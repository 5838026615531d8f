/* fail.c - tests every way in which a run can fail: the error, the state of the variables after it, and the next
 * step.
 *
 * Every act of a training step is made to fail in turn; memory is denied at every size; a label is invalid; the user
 * interrupts. Each time the run stops on all devices, and the error names a source line. A variable keeps its old
 * value, or cannot be read until it is set again. The next step gives the same bits as in a session without a
 * failure. */
#include "actors/session/core/session.h"
#include "t/lib/plan/train.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

/* ---- checking the state after a failure ---- */

static bool
says(const char *text)
{
    return strstr(rille_error(), text) != NULL;
}

/* Returns true if the variable has its old value, or if it cannot be read because it was partly written; the error
 * must then say so and name the variable. Sets *half_written to true in the second case. */
static bool
old_or_refused(struct rille_tensor *w, const float *old, int n, bool *half_written)
{
    float now[WIDTH * HIDDEN];
    if (rille_tensor_read(w, now)) {
        *half_written = true;
        return rille_error_code() == E_STATE && says("only partly written") && says(rille_tensor_name(w));
    }
    return !memcmp(now, old, sizeof *now * (size_t)n);
}

static bool
weights_left(struct train *t, const struct train_state *start, bool *half_written)
{
    *half_written = false;
    bool one = old_or_refused(t->w1, start->w1, WIDTH * HIDDEN, half_written);
    bool two = old_or_refused(t->w2, start->w2, HIDDEN * CLASSES, half_written);
    return one && two;
}

static int
set_again(struct train *t)
{
    struct rille_tensor *w1 = train_tensor(t, WIDTH, HIDDEN, 0, "B", 2);
    struct rille_tensor *w2 = train_tensor(t, HIDDEN, CLASSES, 1, "S(0)", 3);
    int status = rille_tensor_assign(t->w1, w1);
    if (!status) status = rille_tensor_assign(t->w2, w2);
    rille_tensor_free(&w1);
    rille_tensor_free(&w2);
    /* evaluates the weights, so that their old values are freed and the step can update the variables in place */
    if (!status) status = rille_eval(t->s, 2, (struct rille_tensor *[]){t->w1, t->w2});
    if (!status) status = rille_tensor_set_grad(t->w1, NULL);
    return status ? status : rille_tensor_set_grad(t->w2, NULL);
}

/* Sets the weights again and checks that a step gives the same bits as before any failure. */
static bool
goes_on(struct train *t, const struct train_state *want)
{
    struct train_state got;
    int status = set_again(t);
    if (!status) status = train_run(t, 1, &got);
    if (status) diag("afterwards: %s", rille_error());
    return !status && !memcmp(&got, want, sizeof got);
}

/* Records two states: in *start the weights before the first step (with loss 0), in *want the weights and the loss
 * after it. */
static void
expect(struct train *t, struct train_state *start, struct train_state *want)
{
    *start = (struct train_state){0};
    must(rille_tensor_read(t->w1, start->w1), "w1");
    must(rille_tensor_read(t->w2, start->w2), "w2");
    must(train_run(t, 1, want), "a step");
    must(set_again(t), "set again");
}

/* ---- failures of every act ---- */

struct counts {
    int acts, unnamed, silent, changed, broken, half_written;
};

static void
fail_act(struct train *t, int k, const struct train_state *start, const struct train_state *want, struct counts *c)
{
    struct rille_tensor *loss;
    bool half_written;
    rille_fail_act(t->s, k);
    int status = train_step(t, &loss);
    rille_fail_act(t->s, 0);
    if (status != E_KERNEL || !says("made to fail"))
        c->silent++;
    else if (strncmp(rille_error(), "train.lua:", 10) && c->unnamed++ == 0)
        diag("act %d: %s", k, rille_error());
    rille_tensor_free(&loss);
    if (!weights_left(t, start, &half_written) && c->changed++ == 0) diag("act %d: weights: %s", k, rille_error());
    c->half_written += half_written;
    if (!goes_on(t, want) && c->broken++ == 0) diag("act %d: does not go on", k);
    must(set_again(t), "set again");
}

static void
every_act(const struct train_options *o)
{
    struct train t;
    struct train_state start, want;
    struct counts c = {0};
    struct rille_counters before, after;
    train_open(&t, o);
    expect(&t, &start, &want);
    rille_count(t.s, &before);
    must(train_run(&t, 1, &(struct train_state){0}), "a step");
    rille_count(t.s, &after);
    must(set_again(&t), "set again");
    c.acts = (int)(after.acts - before.acts);
    for (int k = 1; k <= c.acts; k++) fail_act(&t, k, &start, &want, &c);
    char name[100];
    snprintf(name, sizeof name, "%s, %s, %s", o->bus, train_kinds(o), o->schedule ? o->schedule : "plain");
    ok(c.acts > 20 && c.silent == 0, "%s: if any of %d acts fails, the run reports the failure", name, c.acts);
    ok(c.unnamed == 0, "%s: each error names the source line", name);
    ok(c.changed == 0, "%s: a variable keeps its value, or reading it fails with its name", name);
    ok(covered(c.half_written > 0), "%s: some failures leave a variable only partly written", name);
    diag("%d of %d failures left one only partly written", c.half_written, c.acts);
    ok(c.broken == 0, "%s: with the weights set again, the next step gives the right bits", name);
    train_close(&t);
}

/* Assigns a value to a variable after its update in the same step, so that the update's result is not used. Then
 * makes the step fail. The variable must keep its value from before the update. */
static void
replaced_update(void)
{
    struct train t;
    /* pending: the value assigned to w1. The step computes this value, so it cannot update w1 in place. */
    struct rille_tensor *loss, *other, *pending;
    struct train_state start = {0}, want;
    bool half_written;
    train_open(&t, &(struct train_options){.bus = "zmq"});
    expect(&t, &start, &want);
    must(train_loss(&t, t.x, t.y, &loss), "loss");
    must(rille_tensor_backward(loss), "backward");
    must(train_update(&t, t.w1, 6), "update");
    other = train_tensor(&t, WIDTH, HIDDEN, 0, "B", 5);
    must(train_call(&t, "relu", 1, other, NULL, &pending), "relu");
    must(rille_tensor_assign(t.w1, pending), "assign");
    rille_tensor_free(&other);
    rille_tensor_free(&pending);
    rille_tensor_free(&loss); /* frees the last other reader of the bytes of w1's old value */
    must(rille_tensor_set_grad(t.w1, NULL), "grad");
    must(rille_tensor_set_grad(t.w2, NULL), "grad");
    rille_fail_act(t.s, 1);
    ok(rille_step(t.s) == E_KERNEL, "a step fails after its update's result was replaced");
    rille_fail_act(t.s, 0);
    ok(weights_left(&t, &start, &half_written) && !half_written, "the variable keeps its value from before the update");
    ok(goes_on(&t, &want), "the next step gives the right bits");
    train_close(&t);
}

/* Checks that errors of a plan from the cache name source lines of the current call, not those of the first call. */
static void
lines_of_the_call(void)
{
    struct train t;
    struct rille_tensor *y, *z;
    float v[ROWS * WIDTH];
    train_open(&t, &(struct train_options){.bus = "zmq"});
    must(train_call(&t, "relu", 10, t.x, NULL, &y), "relu");
    must(rille_tensor_read(y, v), "read");
    must(train_call(&t, "relu", 20, t.x, NULL, &z), "relu");
    rille_fail_act(t.s, 1);
    ok(rille_tensor_read(z, v) == E_KERNEL && !strncmp(rille_error(), "train.lua:20: ", 14),
       "an error of a cached plan names the line of the current call");
    struct rille_counters c;
    rille_count(t.s, &c);
    ok(c.cache_hits > 0, "the plan was found in the cache");
    rille_tensor_free(&y);
    rille_tensor_free(&z);
    train_close(&t);
}

/* ---- invalid data ---- */

/* Makes one label invalid. After the error, no rank may have updated any variable. */
static void
bad_labels(const struct train_options *o, const char *name, int seeds)
{
    int changed = 0, silent = 0, broken = 0;
    for (int seed = 0; seed < seeds; seed++) {
        struct train t;
        struct train_options with = *o;
        struct train_state start, want;
        struct rille_tensor *loss, *good;
        char bus[40];
        bool half_written;
        int64_t label[ROWS] = {0}, shape[1] = {ROWS};
        snprintf(bus, sizeof bus, seeds > 1 ? "sim:%d" : "zmq", seed);
        with.bus = bus;
        train_open(&t, &with);
        expect(&t, &start, &want);
        good = t.y;
        label[seed * 5 % ROWS] = CLASSES;
        must(rille_tensor_from_host(t.s, "i64", 1, shape, label, train_layout(&t, 1, "S(0)"), &t.y), "labels");
        int status = train_step(&t, &loss);
        if (status != E_VALUE || strncmp(rille_error(), "train.lua:4:", 12)) {
            if (silent++ == 0) diag("%s: %d, %s", bus, status, rille_error());
        }
        rille_tensor_free(&loss);
        changed += !weights_left(&t, &start, &half_written) || half_written;
        rille_tensor_free(&t.y);
        t.y = good;
        broken += !goes_on(&t, &want);
        train_close(&t);
    }
    ok(silent == 0, "%s: an invalid label fails the step, and the error names the line of the loss", name);
    ok(changed == 0, "%s: after the failure no rank has updated a variable", name);
    ok(broken == 0, "%s: with valid labels the next step gives the right bits", name);
}

/* ---- devices without free memory ---- */

static void
limit_pools(struct rille_session *s, size_t spare)
{
    for (int kind = 0; kind < NDEVICE_KIND; kind++)
        for (int32_t i = 0; i < s->devices.npool[kind]; i++) {
            struct pool *p = s->devices.pool[kind][i];
            if (p) pool_limit(p, spare ? pool_count(p).live_bytes + pool_count(p).arena_bytes + spare : 0);
        }
}

/* Tries a step with little memory. At the start of the step, each device has `spare` free bytes: 64 in the first
 * try, more in each later one. */
static void
no_memory(const struct train_options *o)
{
    int denied = 0, given = 0, wrong = 0, broken = 0;
    for (size_t spare = 64; spare < 16384 && given < 3; spare += 192) {
        struct train t;
        struct train_state start, want, got;
        bool half_written;
        train_open(&t, o);
        struct rille_tensor *w1 = rille_tensor_hold(t.w1), *loss;
        must(train_once(&t.options, 1, &want), "elsewhere");
        start = (struct train_state){0};
        must(rille_tensor_read(t.w1, start.w1), "w1");
        must(rille_tensor_read(t.w2, start.w2), "w2");
        limit_pools(t.s, spare);
        int status = train_step(&t, &loss);
        if (status) {
            denied++;
            if (status != E_MEMORY || (!says("cpu:") && !says("async:")))
                wrong++, diag("%zu: %d, %s", spare, status, rille_error());
            wrong += !weights_left(&t, &start, &half_written) || half_written;
        } else {
            given++;
            wrong += train_state(&t, loss, &got) || memcmp(&got, &want, sizeof got);
        }
        rille_tensor_free(&loss);
        limit_pools(t.s, 0);
        broken += !goes_on(&t, &want);
        rille_tensor_free(&w1);
        train_close(&t);
    }
    char name[100];
    snprintf(name, sizeof name, "%s, %s", train_kinds(o), o->schedule ? o->schedule : "plain");
    ok(denied > 3 && given > 0, "%s: the step fails with little memory (%d sizes) and runs with more (%d)", name,
       denied, given);
    ok(wrong == 0, "%s: the error is E_MEMORY and names the device, and the weights are unchanged", name);
    ok(broken == 0, "%s: without the limit the next step gives the right bits", name);
}

/* ---- interrupts ---- */

static struct rille_session *interrupted;

static void *
interrupt_later(void *arg)
{
    const struct timespec t = {0, 40000000};
    (void)arg;
    nanosleep(&t, NULL);
    rille_interrupt(interrupted);
    rille_interrupt(interrupted);
    return NULL;
}

static void
on_alarm(int number)
{
    (void)number;
    rille_interrupt(interrupted);
}

static int64_t
acts(struct train *t)
{
    struct rille_counters c;
    rille_count(t->s, &c);
    return c.acts;
}

static int
interrupt_by_thread(struct train *t, struct rille_tensor **loss)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, interrupt_later, NULL), "a thread");
    int status = train_step(t, loss);
    pthread_join(thread, NULL);
    return status;
}

static int
interrupt_by_signal(struct train *t, struct rille_tensor **loss)
{
    struct sigaction on = {.sa_handler = on_alarm}, before;
    struct itimerval soon = {.it_value.tv_usec = 40000};
    sigaction(SIGALRM, &on, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    int status = train_step(t, loss);
    sigaction(SIGALRM, &before, NULL);
    return status;
}

static void
interrupt(const struct train_options *o, bool by_signal)
{
    struct train t;
    struct train_state start, want;
    struct rille_tensor *loss;
    bool half_written;
    char name[100];
    snprintf(name, sizeof name, "%s, %d threads, interrupted by a %s", o->bus, o->threads,
             by_signal ? "signal" : "thread");
    train_open(&t, o);
    expect(&t, &start, &want);
    int64_t all = acts(&t);
    must(train_run(&t, 1, &want), "a step");
    all = acts(&t) - all;
    must(set_again(&t), "set again");
    interrupted = t.s;
    rille_slow_op(t.s, "gelu", 0.1);
    int64_t begin = acts(&t);
    int status = by_signal ? interrupt_by_signal(&t, &loss) : interrupt_by_thread(&t, &loss);
    int64_t did = acts(&t) - begin;
    rille_slow_op(t.s, "gelu", 0);
    if (!ok(status == E_CANCEL && says("interrupted"), "%s: the run reports the interrupt", name))
        diag("%d: %s", status, rille_error());
    rille_tensor_free(&loss);
    if (!ok(did < all / 2, "%s: the run ends within half of its acts", name))
        diag("after %d of %d acts", (int)did, (int)all);
    ok(weights_left(&t, &start, &half_written) && !half_written, "%s: no variable is updated", name);
    ok(goes_on(&t, &want), "%s: the next step gives the right bits", name);
    rille_interrupt(t.s);
    ok(goes_on(&t, &want), "%s: an interrupt between runs has no effect", name);
    train_close(&t);
}

int
main(void)
{
    static const char *const bus[] = {"zmq", "sim:1"};
    static const struct {
        const char *first, *second;
    } kind[] = {{"cpu", NULL}, {"async", NULL}, {"cpu", "async"}, {"async", "cpu"}};
    static const char *const schedule[] = {NULL, "1f1b", "gpipe"};
    for (int i = 0; i < 16; i++) {
        struct train_options o = {.bus = bus[i % 2], .schedule = schedule[i / 8]};
        o.kind = kind[i / 2 % 4].first;
        o.second = kind[i / 2 % 4].second;
        if (share_next()) every_act(&o);
    }
    replaced_update();
    lines_of_the_call();
    for (int i = 0; i < 12; i++) {
        struct train_options o = {.kind = kind[i % 4].first, .second = kind[i % 4].second, .schedule = schedule[i / 4]};
        char name[100];
        if (!share_next()) continue;
        snprintf(name, sizeof name, "%s, %s", train_kinds(&o), o.schedule ? o.schedule : "plain");
        bad_labels(&o, name, 1);
        strcat(name, ", simulated");
        bad_labels(&o, name, 20);
    }
    for (int i = 0; i < 9; i++)
        no_memory(&(struct train_options){.bus = "zmq",
                                          .kind = kind[i % 3 ? i % 3 + 1 : 0].first,
                                          .second = kind[i % 3 ? i % 3 + 1 : 0].second,
                                          .schedule = schedule[i / 3]});
    for (int i = 0; i < 4; i++)
        interrupt(&(struct train_options){.bus = "zmq", .threads = i % 2 ? 4 : 1, .schedule = "1f1b"}, i / 2);
    interrupt(&(struct train_options){.bus = "sim:1", .threads = 4, .schedule = "1f1b"}, true);
    return done();
}
