/* adopt.c - tests that threads hand a session over to each other. Each thread computes, reads and runs a compiled
 * step while it owns the session. At that time the calls of all other threads must be refused. ThreadSanitizer
 * reports data that two threads use without a hand-over between the uses. */
#include "rille.h"
#include "t/lib/tap.h"

#include <pthread.h>

enum { THREADS = 3, TURNS = 12 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t passed;
    int turn; /* number of hand-overs so far; thread turn % THREADS owns the session */
    struct rille_session *s;
    struct rille_tensor *x; /* tensor, which is doubled in each turn */
    struct rille_graph *g;
    int refused, failed;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .passed = PTHREAD_COND_INITIALIZER};

static struct rille_arg
tensor(struct rille_tensor *t)
{
    return (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t};
}

static int
trace_double(void)
{
    struct rille_tensor *piece, *twice;
    if (rille_trace_begin(shared.s, &(struct rille_graph_options){0}, 1, &shared.x, &piece)) return 1;
    const struct rille_arg args[] = {tensor(piece), tensor(piece)};
    int status = rille_call(shared.s, rille_op_find("add"), 2, args, 0, NULL, &twice);
    shared.failed += rille_adopt(shared.s) == 0; /* a session cannot be handed over during a trace */
    status = status || rille_trace_end(shared.s, 1, &twice, &shared.g);
    rille_tensor_free(&piece);
    rille_tensor_free(&twice);
    return status;
}

/* Doubles x: by an operator if `turn` is even, by the compiled step if it is odd. */
static int
double_x(int turn)
{
    struct rille_tensor *next = NULL;
    const struct rille_arg args[] = {tensor(shared.x), tensor(shared.x)};
    float value[64];
    int status = turn % 2 ? rille_graph_run(shared.g, 1, &shared.x, &next)
                          : rille_call(shared.s, rille_op_find("add"), 2, args, 0, NULL, &next);
    if (status || rille_tensor_read(next, value)) return 1;
    rille_tensor_free(&shared.x);
    shared.x = next;
    return value[0] != (float)(2 << turn) || value[63] != value[0];
}

static void *
take_turns(void *arg)
{
    int me = (int)(intptr_t)arg;
    pthread_mutex_lock(&shared.lock);
    while (shared.turn < TURNS) {
        if (shared.turn % THREADS == me) {
            shared.refused += rille_wait(shared.s) != 0;
            shared.failed += rille_adopt(shared.s) || double_x(shared.turn);
            shared.turn++;
            pthread_cond_broadcast(&shared.passed);
        } else
            pthread_cond_wait(&shared.passed, &shared.lock);
    }
    pthread_mutex_unlock(&shared.lock);
    return NULL;
}

static void
test_threads(const char *bus, int threads)
{
    const struct rille_place *p;
    const struct rille_layout *l;
    pthread_t thread[THREADS];
    shared.turn = shared.refused = shared.failed = 0;
    if (rille_open(&(struct rille_options){.devices = "cpu:2", .threads = threads, .bus = bus}, &shared.s)) exit(1);
    rille_place(shared.s, "cpu", 1, (int32_t[]){2}, (int32_t[]){0, 1}, &p);
    rille_layout(shared.s, p, 1, (const char *[]){"S(0)"}, NULL, -1, &l);
    rille_create(shared.s, rille_op_find("ones"), 0, NULL, 1, (int64_t[]){64}, NULL, l, &shared.x);
    if (trace_double()) exit(1);
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, take_turns, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    is_int(shared.failed, 0, "each thread that has adopted the session computes and runs the compiled step");
    is_int(shared.refused, TURNS, "before, it is refused");
    ok(rille_adopt(shared.s) == 0, "the first thread adopts the session again");
    rille_graph_free(&shared.g);
    rille_tensor_free(&shared.x);
    ok(rille_close(&shared.s) == 0, "%s, %d threads: the session closes", bus, threads);
}

int
main(void)
{
    alarm(HANG);
    for (int threads = 1; threads <= 2; threads++) {
        test_threads("zmq", threads);
        test_threads("sim:1", threads);
    }
    return done();
}
