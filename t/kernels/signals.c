/* signals.c - tests that signals do no harm to kernels that they interrupt.
 *
 * oneDNN's AVX-512 products keep values below the end of the stack. A signal handler would overwrite these values
 * with its frame, and the product would then corrupt the heap. So Rille blocks signals during products and delivers
 * them between products. */
#include "rille.h"
#include "t/lib/tap.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { EVERY_US = 200 };

static volatile sig_atomic_t seen;

static void
on_alarm(int number)
{
    volatile char frame[2048];
    memset((char *)frame, number, sizeof frame);
    seen++;
}

static struct rille_tensor *
call(struct rille_session *s, const char *op, int n, struct rille_tensor *a, struct rille_tensor *b)
{
    struct rille_tensor *y;
    struct rille_arg arg[] = {{.kind = RILLE_ARG_TENSOR, .tensor = a}, {.kind = RILLE_ARG_TENSOR, .tensor = b}};
    return rille_call(s, rille_op_find(op), n, arg, 0, NULL, &y) ? NULL : y;
}

static struct rille_tensor *
ones(struct rille_session *s, int rows, int columns)
{
    struct rille_tensor *x;
    int64_t shape[] = {rows, columns};
    return rille_create(s, rille_op_find("ones"), 0, NULL, 2, shape, NULL, NULL, &x) ? NULL : x;
}

static void
alarms(bool on)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval each = {{0, on ? EVERY_US : 0}, {0, on ? EVERY_US : 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
}

/* Multiplies matrices of ones, {m, k} times {k, n}: once without signals, then several times while signals arrive.
 * Returns 0 if all results are right. */
static int
products(const char *devices, int rounds, int m, int k, int n)
{
    struct rille_session *s;
    double first = 0;
    if (rille_open(&(struct rille_options){.devices = devices}, &s)) return 2;
    struct rille_tensor *x = ones(s, m, k), *w = ones(s, k, n);
    for (int i = 0; i < rounds; i++) {
        struct rille_tensor *y = call(s, "matmul", 2, x, w), *sum = y ? call(s, "sum", 1, y, NULL) : NULL;
        double value = 0;
        int64_t whole;
        bool is_int;
        if (!sum || rille_tensor_item(sum, &value, &whole, &is_int)) return 4;
        if (i == 0) first = value;
        if (value != first) return 5;
        rille_tensor_free(&y);
        rille_tensor_free(&sum);
        if (i == 0) alarms(true);
    }
    alarms(false);
    rille_tensor_free(&x);
    rille_tensor_free(&w);
    if (rille_close(&s)) return 6;
    sigset_t held;
    pthread_sigmask(SIG_BLOCK, NULL, &held);
    if (sigismember(&held, SIGALRM)) return 8;
    return seen > 0 ? 0 : 7;
}

int
main(void)
{
    static const struct {
        const char *devices;
        int rounds, m, k, n;
    } trial[] = {{"cpu:1", 40, 375, 1500, 1500},
                 {"cpu:1", 3000, 64, 64, 64},
                 {"cpu:1", 60, 333, 777, 555},
                 {"cpu:4", 40, 375, 1500, 1500}};
    for (size_t i = 0; i < sizeof trial / sizeof *trial; i++) {
        int how = 0;
        pid_t child = fork();
        if (!child) _exit(products(trial[i].devices, trial[i].rounds, trial[i].m, trial[i].k, trial[i].n));
        waitpid(child, &how, 0);
        ok(how == 0, "%s, products {%d, %d} x {%d, %d} with signals are right (status %d)", trial[i].devices,
           trial[i].m, trial[i].k, trial[i].k, trial[i].n, how);
    }
    return done();
}
