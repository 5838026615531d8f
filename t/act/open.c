/* open.c - tests runs that return while their work is still on streams (open runs). Later runs and reads must see
 * the same values as if the session had waited for the end of each run.
 *
 * Two training steps on one async test device alternate over the same weights. Each call has other rows, random
 * numbers and another learning rate. The losses of all steps are read at the end. The two plans use different
 * streams, so the order of work within a stream does not order the steps. All bits must equal those of steps that
 * are waited for. Steps run on threads, and on the simulator with many seeds (the simulator delays async work).
 *
 * The test must find each injected mistake: a stream that does not wait for the previous run, numbers written too
 * early, host code that reads or writes too early, memory freed too early.
 *
 * Further tests: failures that are reported later, interrupts during a wait, the task that rille_doing reports, and
 * closing a session with an open run. */
#include "actors/session/core/session.h"
#include "actors/session/step/compiled.h"
#include "t/lib/plan/faults.h"
#include "t/lib/plan/train.h"

#include "runtime/device/device.c"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { CALLS = 14, SEEDS = 24, FEW = 8 /* number of rows of the smaller step */ };

struct trial {
    const char *bus;
    int threads;
    size_t memory_limit;
    bool waits; /* true: waits after each step */
};
struct result {
    float loss[CALLS], w1[WIDTH * HIDDEN], w2[HIDDEN * CLASSES];
};

/* ---- two steps ---- */

struct steps {
    struct train t;
    struct rille_graph *graph[2]; /* steps with FEW rows and with ROWS rows */
    /* done: number of steps so far; opened: number of steps that returned before their work was done */
    int done, opened;
};

static int
rate_of(void *of, double *out)
{
    const struct steps *x = of;
    *out = 0.3 / (1 + x->done);
    return 0;
}

/* Returns the loss of the classifier on data with noise (dropout). */
static int
body(struct steps *x, struct rille_tensor *data, struct rille_tensor *labels, struct rille_tensor **loss)
{
    struct train *t = &x->t;
    struct rille_tensor *noisy = NULL;
    int status = train_call(t, "dropout", 8, data, NULL, &noisy);
    if (!status) status = train_loss(t, noisy, labels, loss);
    if (!status) status = train_descend(t, *loss);
    rille_tensor_free(&noisy);
    return status;
}

static void
batch(struct steps *x, int rows, struct rille_tensor *in[2])
{
    int64_t label[ROWS], shape[1] = {rows};
    in[0] = train_tensor(&x->t, rows, WIDTH, 0, "B", 100 + (uint64_t)x->done);
    for (int i = 0; i < rows; i++) label[i] = (i * 7 + x->done) % CLASSES;
    must(rille_tensor_from_host(x->t.s, "i64", 1, shape, label, train_layout(&x->t, 0, "B"), &in[1]), "labels");
}

static void
trace(struct steps *x, int rows, struct rille_graph **g)
{
    struct rille_graph_options o = {0};
    struct rille_tensor *in[2], *piece[2], *loss = NULL;
    batch(x, rows, in);
    must(rille_trace_begin(x->t.s, &o, 2, in, piece), "trace");
    must(body(x, piece[0], piece[1], &loss), "the step");
    must(rille_trace_end(x->t.s, 1, &loss, g), "the end of a trace");
    rille_tensor_free(&loss);
    for (int i = 0; i < 2; i++) {
        rille_tensor_free(&in[i]);
        rille_tensor_free(&piece[i]);
    }
}

/* Moves all work of the plan to the stream for moves. The two steps then use different streams. The plan's
 * synchronisation stays valid. */
static void
move_to_other_stream(struct rille_graph *g)
{
    struct plan *p = g->runner->plan;
    for (int32_t i = 0; i < p->ntask; i++) p->task[i].stream = STREAM_MOVE;
    g->runner->actors->roles[0] = 1 << STREAM_MOVE;
}

static void
steps_open(struct steps *x, const struct trial *how)
{
    *x = (struct steps){0};
    struct train_options o = {
        .bus = how->bus, .kind = "async", .threads = how->threads, .single = true, .memory_limit = how->memory_limit};
    train_open(&x->t, &o);
    /* switches off the poisoning of unused registers, because the session would then wait for every run */
    x->t.s->runs.poison = false;
    must(rille_live_new(x->t.s, rate_of, NULL, x, &x->t.rate), "a live number");
    trace(x, FEW, &x->graph[0]);
    trace(x, ROWS, &x->graph[1]);
    move_to_other_stream(x->graph[1]);
}

static void
steps_close(struct steps *x)
{
    rille_graph_free(&x->graph[0]);
    rille_graph_free(&x->graph[1]);
    rille_live_free(&x->t.rate);
    train_close(&x->t);
}

static bool
is_open_now(const struct steps *x)
{
    return engine_done(x->t.s->engine) < engine_last(x->t.s->engine);
}

/* Calls one of the two steps. The first five calls all use few rows. The session waits for the first runs of a
 * step, because it times them; and the arena must grow later, while other runs are open. */
static int
step(struct steps *x, struct rille_tensor **loss)
{
    struct rille_tensor *in[2];
    int all = x->done >= 5 && x->done % 2;
    batch(x, all ? ROWS : FEW, in);
    int status = rille_graph_run(x->graph[all], 2, in, loss);
    x->done++;
    x->opened += is_open_now(x);
    rille_tensor_free(&in[0]);
    rille_tensor_free(&in[1]);
    return status;
}

/* Reads a loss of an earlier step. Then computes the negative of the last loss, outside of steps, and reads it. */
static int
look_between(struct steps *x, struct rille_tensor *const *loss)
{
    float value[2];
    struct rille_tensor *negative = NULL;
    int status = rille_tensor_read(loss[6], &value[0]);
    if (!status) status = train_call(&x->t, "neg", 9, loss[8], NULL, &negative);
    if (!status) status = rille_tensor_read(negative, &value[0]);
    if (!status) status = rille_tensor_read(loss[8], &value[1]);
    rille_tensor_free(&negative);
    return status ? status : value[0] == -value[1] ? 0 : E_STATE;
}

/* Computes a larger product, so that the arena grows while a run is open. */
static int
compute_more(struct steps *x)
{
    enum { MANY = 64 };
    struct rille_tensor *one, *product = NULL, *all = NULL;
    int64_t shape[2] = {MANY, MANY};
    float sum = 0;
    int status =
        rille_create(x->t.s, rille_op_find("ones"), 0, NULL, 2, shape, NULL, train_layout(&x->t, 0, "B"), &one);
    if (!status) status = train_call(&x->t, "matmul", 10, one, one, &product);
    if (!status) status = train_call(&x->t, "sum", 11, product, NULL, &all);
    rille_tensor_free(&product);
    if (!status) status = rille_tensor_read(all, &sum);
    rille_tensor_free(&one);
    rille_tensor_free(&all);
    return status ? status : sum == MANY * MANY * MANY ? 0 : E_STATE;
}

static int
run(struct steps *x, bool waits, struct result *out)
{
    struct rille_tensor *loss[CALLS] = {0};
    int status = 0;
    for (int i = 0; i < CALLS && !status; i++) {
        status = step(x, &loss[i]);
        if (!status && waits) status = rille_wait(x->t.s);
        if (!status && x->done == 9) status = look_between(x, loss);
        if (!status && x->done == 12 && !x->t.options.memory_limit) status = compute_more(x);
    }
    for (int i = 0; i < CALLS && !status; i++) status = rille_tensor_read(loss[i], &out->loss[i]);
    if (!status) status = rille_tensor_read(x->t.w1, out->w1);
    if (!status) status = rille_tensor_read(x->t.w2, out->w2);
    for (int i = 0; i < CALLS; i++) rille_tensor_free(&loss[i]);
    return status;
}

static int
try(const struct trial *how, struct result *out, int *opened)
{
    struct steps x;
    steps_open(&x, how);
    *out = (struct result){0};
    int status = run(&x, how->waits, out);
    *opened = x.opened;
    steps_close(&x);
    return status;
}

static bool
same(const struct result *a, const struct result *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* ---- steps on threads and on the simulator, compared with steps that are waited for ---- */

static struct result want;

static void
test_threads(void)
{
    struct result got;
    int opened;
    must(try(&(struct trial){.bus = "zmq", .threads = 1, .waits = true}, &want, &opened), "steps that are waited for");
    for (int threads = 1; threads <= 4; threads += 3) {
        bool good = true;
        int most = 0;
        for (int i = 0; i < 10 && good; i++) {
            int status = try(&(struct trial){.bus = "zmq", .threads = threads}, &got, &opened);
            good = !status && same(&got, &want);
            if (!good) diag("%s", status ? rille_error() : "other bits");
            most = MAX(most, opened);
        }
        ok(good, "on %d threads, steps give the same bits whether or not they are waited for", threads);
        ok(most > 0, "some steps return before their work is done");
    }
}

/* Returns the trial of a seed on the simulator. If the seed is odd, the device has little memory. */
static struct trial
of_seed(int seed, char bus[40])
{
    snprintf(bus, 40, "sim:%d", seed);
    return (struct trial){.bus = bus, .threads = 2 + seed % 3, .memory_limit = seed % 2 ? 24 << 10 : 0};
}

static void
test_seeds(void)
{
    bool good = true;
    int all = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        char bus[40];
        struct trial how = of_seed(seed, bus);
        struct result got;
        int opened, status = try(&how, &got, &opened);
        all += opened;
        if (!status && same(&got, &want)) continue;
        good = false;
        diag("RILLE_BUS=%s: %s", bus, status ? rille_error() : "other bits");
    }
    ok(good, "steps give the same bits in every simulated order of events");
    ok(all > SEEDS * CALLS / 4, "many simulated steps return before their work is done");
}

/* ---- mistakes that the test must find ---- */

/* Returns true if the seed's result is wrong. Runs in a child process, because the injected mistake may crash it. */
static bool
differs(int seed)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char bus[40];
        struct trial how = of_seed(seed, bus);
        struct result got;
        int opened;
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(2);
        _exit(try(&how, &got, &opened) || !same(&got, &want));
    }
    int status;
    return child < 0 || waitpid(child, &status, 0) != child || status;
}

static void
test_mistakes(void)
{
    static const struct {
        enum fault fault;
        const char *name;
    } mistake[] = {
        {NO_FAULT, "no error, without a mistake,"},
        {NO_ORDER, "a stream that does not wait for the previous run's streams"},
        {EARLY_NUMBERS, "numbers of a run written before the previous run has read its own"},
        {EARLY_LOOK, "a host read before the value is written"},
        {EARLY_WRITE, "a host write while the value is still read"},
        {EARLY_GIVE, "memory freed while stream work still uses it"},
    };
    for (size_t i = 0; i < countof(mistake); i++) {
        int caught = 0;
        fault = mistake[i].fault;
        for (int seed = 1; seed <= SEEDS; seed++) caught += differs(seed);
        fault = NO_FAULT;
        ok(i == 0 ? caught == 0 : caught > 0, "%s is caught", mistake[i].name);
        if (caught) diag("by %d of %d seeds", caught, SEEDS);
    }
}

/* ---- failures that are reported later, and interrupts ---- */

static int (*enqueue_late)(struct stream *s, const struct stream_work *w);
/* number of enqueues from now until one runs instead() in place of its work; 0: none does */
static int64_t countdown;
static int (*instead)(const struct stream_work *w, const struct stream *s);
/* session whose current activity the next enqueue writes to `begun`; NULL: none */
static struct rille_session *begins;
static char begun[40];

static int
enqueue(struct stream *s, const struct stream_work *w)
{
    struct stream_work other = *w;
    if (begins) rille_doing(begins, begun, sizeof begun);
    begins = NULL;
    if (countdown > 0 && --countdown == 0) other.run = instead;
    return enqueue_late(s, &other);
}

static int
refuse_work(const struct stream_work *w, const struct stream *s)
{
    UNUSED(w);
    UNUSED(s);
    return fail(E_KERNEL, "work fails");
}

static _Atomic bool released;

/* Blocks until the test sets `released`; runs as the work of a stream. */
static int
linger(const struct stream_work *w, const struct stream *s)
{
    UNUSED(w);
    UNUSED(s);
    while (!atomic_load(&released)) usleep(1000);
    return 0;
}

/* Returns how many times a step of few rows enqueues work on a stream. */
static int64_t
work_of_a_step(struct steps *x)
{
    struct rille_tensor *loss;
    countdown = 1 << 20;
    must(step(x, &loss), "a step");
    must(rille_wait(x->t.s), "its end");
    rille_tensor_free(&loss);
    return (1 << 20) - countdown;
}

static void
warm(struct steps *x)
{
    struct rille_tensor *loss;
    while (x->done < 4) {
        must(step(x, &loss), "a step");
        rille_tensor_free(&loss);
    }
    must(rille_wait(x->t.s), "their end");
}

static bool
says(const char *text)
{
    bool found = strstr(rille_error(), text);
    if (!found) diag("%s", rille_error());
    return found;
}

static bool
set_again(struct steps *x)
{
    struct rille_tensor *w1 = train_tensor(&x->t, WIDTH, HIDDEN, 0, "B", 2);
    struct rille_tensor *w2 = train_tensor(&x->t, HIDDEN, CLASSES, 0, "B", 3);
    bool good = !rille_tensor_assign(x->t.w1, w1) && !rille_tensor_assign(x->t.w2, w2);
    rille_tensor_free(&w1);
    rille_tensor_free(&w2);
    return good;
}

/* Returns true if the next step gives the same bits as a session without failures. */
static bool
goes_on(struct steps *x)
{
    struct rille_tensor *loss[2];
    float got, expected;
    struct steps y;
    steps_open(&y, &(struct trial){.bus = "zmq", .threads = 1});
    uint64_t seed, count;
    rille_random_state(x->t.s, &seed, &count);
    rille_random_restore(y.t.s, seed, count);
    y.done = x->done;
    bool good = !step(x, &loss[0]) && !rille_tensor_read(loss[0], &got);
    good = good && !step(&y, &loss[1]) && !rille_tensor_read(loss[1], &expected) && got == expected;
    if (!good) diag("%s: %g, %g", rille_error(), (double)got, (double)expected);
    rille_tensor_free(&loss[0]);
    rille_tensor_free(&loss[1]);
    steps_close(&y);
    return good;
}

/* Makes the work of the last update fail. Either the next step (next_step) or the read of a result must report the
 * failure. */
static void
fails_later(bool next_step)
{
    struct steps x;
    struct rille_tensor *loss, *next = NULL;
    float value[WIDTH * HIDDEN];
    steps_open(&x, &(struct trial){.bus = "zmq", .threads = 1});
    x.done = 0;
    must(step(&x, &loss), "a step");
    rille_tensor_free(&loss);
    warm(&x);
    int64_t n = work_of_a_step(&x);
    x.done = 0;
    countdown = n;
    instead = refuse_work;
    bool returned = !step(&x, &loss);
    ok(returned, "a step returns before its last work fails");
    if (next_step)
        ok(step(&x, &next) == E_KERNEL && says("train.lua:") && says("work fails"),
           "the next step reports the failure with its line");
    else
        ok(rille_tensor_read(loss, value) == E_KERNEL && says("train.lua:") && says("work fails"),
           "reading a result reports the failure with its line");
    ok(rille_tensor_read(loss, value) == E_STATE && says("failed"), "reading the failed result fails again");
    ok(rille_tensor_read(x.t.w2, value) == E_STATE && says("only partly written") && says("w2"),
       "reading a variable fails as only partly written");
    ok(!rille_wait(x.t.s), "the failure is reported once");
    rille_tensor_free(&loss);
    rille_tensor_free(&next);
    ok(set_again(&x) && goes_on(&x), "with the weights set again, the next step gives the right bits");
    steps_close(&x);
}

static void *
interrupt(void *of)
{
    const struct steps *x = of;
    while (!atomic_load(&released)) {
        rille_interrupt(x->t.s);
        usleep(5000);
    }
    return NULL;
}

static void
test_interrupt(void)
{
    struct steps x;
    struct rille_tensor *loss, *before, *none = NULL;
    pthread_t thread;
    float value, weights[WIDTH * HIDDEN];
    steps_open(&x, &(struct trial){.bus = "zmq", .threads = 1});
    warm(&x);
    int64_t n = work_of_a_step(&x);
    must(step(&x, &before), "a step");
    x.done = 0;
    countdown = n;
    instead = linger;
    atomic_store(&released, false);
    must(step(&x, &loss), "a step");
    ok(is_open_now(&x), "a step returns while its last work still runs");
    ok(!rille_tensor_read(before, &value), "a value of the previous step can be read meanwhile");
    rille_tensor_free(&before);
    before = train_tensor(&x.t, FEW, WIDTH, 0, "B", 1);
    ok(before && is_open_now(&x), "a tensor can be created from host data meanwhile");
    rille_tensor_free(&before);
    must(pthread_create(&thread, NULL, interrupt, &x), "a thread");
    ok(rille_tensor_read(loss, &value) == E_CANCEL, "an interrupt ends reading a value of the open run");
    ok(rille_wait(x.t.s) == E_CANCEL && is_open_now(&x), "an interrupt ends rille_wait, and the work continues");
    x.graph[0]->times.watched = true; /* a timed run waits for earlier runs before it begins */
    ok(step(&x, &none) == E_CANCEL && !none, "an interrupt ends a run that waits for the open run");
    x.graph[0]->times.watched = false;
    atomic_store(&released, true);
    pthread_join(thread, NULL);
    ok(!rille_tensor_read(loss, &value), "after the work is done, the loss can be read");
    ok(!rille_tensor_read(x.t.w1, weights),
       "the variables can be read: the interrupted run has not begun to write them");
    rille_tensor_free(&loss);
    countdown = n;
    atomic_store(&released, false);
    must(step(&x, &loss), "a step");
    rille_tensor_free(&loss);
    atomic_store(&released, true);
    steps_close(&x);
    ok(true, "a session closes while a run is open");
}

/* ---- the work that the session reports while it waits ---- */

static struct {
    struct rille_session *s;
    pthread_t waits; /* the thread that waits: the session's thread */
    const char *want;
    char text[200];
    _Atomic bool reported;
} asked;

static void
ask_doing(int number)
{
    UNUSED(number);
    if (atomic_load(&asked.reported)) return;
    rille_doing(asked.s, asked.text, sizeof asked.text);
    if (!strcmp(asked.text, asked.want)) atomic_store(&asked.reported, true);
}

/* Interrupts the waiting thread again and again, until its signal handler sees the expected activity. (Other work
 * may run first.) Then lets the blocked work end. */
static void *
ask(void *of)
{
    UNUSED(of);
    for (int i = 0; i < 20000 && !atomic_load(&asked.reported); i++) {
        pthread_kill(asked.waits, SIGUSR1);
        usleep(1000);
    }
    atomic_store(&released, true);
    return NULL;
}

static pthread_t
begin_asking(struct rille_session *s, const char *name)
{
    pthread_t thread;
    asked.s = s;
    asked.want = name;
    asked.waits = pthread_self();
    *asked.text = '\0';
    atomic_store(&asked.reported, false);
    must(pthread_create(&thread, NULL, ask, NULL), "a thread");
    return thread;
}

static void
read_loss(struct steps *x, struct rille_tensor *loss)
{
    float value;
    must(rille_tensor_read(loss, &value), "a value");
    UNUSED(x);
}

static void
wait_for_all(struct steps *x, struct rille_tensor *loss)
{
    must(rille_wait(x->t.s), "the end of all work");
    UNUSED(loss);
}

static void
begin_timed(struct steps *x, struct rille_tensor *loss)
{
    struct rille_tensor *next;
    x->graph[0]->times.watched = true;
    must(step(x, &next), "a step that is timed");
    rille_tensor_free(&next);
    UNUSED(loss);
}

static void
free_plan(struct steps *x, struct rille_tensor *loss)
{
    rille_graph_free(&x->graph[0]);
    UNUSED(loss);
}

/* Makes the updates, the last work of a step, take long. While any call waits after the step has returned,
 * rille_doing must report this work. */
static void
test_doing(void)
{
    static const struct {
        const char *who;
        void (*wait)(struct steps *x, struct rille_tensor *loss);
    } row[] = {
        {"reading a value", read_loss},
        {"rille_wait", wait_for_all},
        {"a timed run", begin_timed},
        {"freeing a plan", free_plan},
    };
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = ask_doing}, NULL);
    for (size_t i = 0; i < countof(row); i++) {
        struct steps x;
        struct rille_tensor *loss;
        char text[sizeof asked.text];
        steps_open(&x, &(struct trial){.bus = "zmq", .threads = 1});
        warm(&x);
        countdown = work_of_a_step(&x);
        x.done = 0;
        instead = linger;
        atomic_store(&released, false);
        begins = x.t.s;
        must(step(&x, &loss), "a step");
        is_str(begun, "a run", "rille_doing reports \"a run\" before any task runs");
        rille_doing(x.t.s, text, sizeof text);
        is_str(text, "", "rille_doing reports nothing while no thread waits");
        pthread_t thread = begin_asking(x.t.s, "sgd x 2 (train.lua:6) on async:0");
        row[i].wait(&x, loss);
        pthread_join(thread, NULL);
        ok(atomic_load(&asked.reported), "%s waits for %s", row[i].who, asked.text);
        rille_doing(x.t.s, text, sizeof text);
        is_str(text, "", "rille_doing reports nothing after the wait");
        rille_tensor_free(&loss);
        steps_close(&x);
    }
}

static int
linger_on_second(struct stream *s, const struct stream_work *w)
{
    struct stream_work other = *w;
    if (s->device == 1) other.run = linger;
    return enqueue_late(s, &other);
}

/* Checks that rille_doing reports work on the second of two devices while a read waits for this work. */
static void
test_doing_in_run(void)
{
    struct train t = {0};
    struct train_options o = {.bus = "zmq", .kind = "async", .threads = 2};
    struct rille_tensor *x, *y;
    float value[ROWS * WIDTH];
    train_open(&t, &o);
    x = train_tensor(&t, ROWS, WIDTH, 0, "S(0)", 1);
    must(train_call(&t, "relu", 8, x, NULL, &y), "a call");
    device_late.enqueue = linger_on_second;
    atomic_store(&released, false);
    pthread_t thread = begin_asking(t.s, "relu (train.lua:8) on async:1");
    must(rille_tensor_read(y, value), "a value");
    pthread_join(thread, NULL);
    device_late.enqueue = enqueue;
    ok(atomic_load(&asked.reported), "rille_doing reports the work that a run waits for: %s", asked.text);
    rille_tensor_free(&x);
    rille_tensor_free(&y);
    train_close(&t);
}

int
main(void)
{
    alarm(HANG);
    test_threads();
    test_seeds();
    test_mistakes();
    enqueue_late = device_late.enqueue;
    device_late.enqueue = enqueue;
    fails_later(false);
    fails_later(true);
    test_interrupt();
    test_doing();
    test_doing_in_run();
    device_late.enqueue = enqueue_late;
    return done();
}
