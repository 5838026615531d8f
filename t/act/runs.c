/* Tests of actors/act/run/engine.c: run numbers may wrap around, and sockets are opened only for threads that are
 * used. */
#include "actors/act/run/engine.c"
#include "actors/session/core/session.h"
#include "t/lib/tap.h"

#include <dirent.h>

static const struct rille_layout *
layout(struct rille_session *s, const char *sbp)
{
    int32_t size = 2, rank[] = {0, 1};
    const struct rille_place *p;
    const struct rille_layout *l;
    return rille_place(s, "cpu", 1, &size, rank, &p) || rille_layout(s, p, 1, &sbp, NULL, 1, &l) ? NULL : l;
}

/* Gathers a tensor that is split over two threads and returns the tensor's last element. */
static float
gather(struct rille_session *s)
{
    float x[] = {1, 2, 3, 4}, y[4] = {0};
    int64_t n = 4;
    struct rille_tensor *t, *u;
    if (rille_tensor_from_host(s, "f32", 1, &n, x, layout(s, "S(0)"), &t)) return -1;
    if (rille_tensor_to_global(t, layout(s, "B"), &u) || rille_tensor_read(u, y)) return -2;
    rille_tensor_free(&t);
    rille_tensor_free(&u);
    return y[3];
}

static void
test_wrap(void)
{
    struct rille_session *s;
    struct rille_options o = {.devices = "cpu:2", .threads = 2, .bus = "zmq"};
    int good = 0;
    if (rille_open(&o, &s)) return;
    good += gather(s) == 4;
    s->engine->run_id = UINT32_MAX - 2; /* the run number after 2^32 - 3 runs; the next runs wrap around */
    for (int t = 0; t < 2; t++) s->engine->worker[t].run_id = UINT32_MAX - 2;
    for (int i = 0; i < 6; i++) good += gather(s) == 4;
    is_int(good, 7, "runs continue when run numbers wrap around to 0");
    rille_close(&s);
    ok(run_after(0, UINT32_MAX) && run_after(5, 4) && !run_after(4, 4) && !run_after(UINT32_MAX, 0),
       "run_after compares run numbers across the wrap-around");
}

static int
open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void
test_sockets(void)
{
    struct rille_session *s;
    struct rille_options o = {.devices = "cpu:64", .threads = 64, .bus = "zmq"};
    int before = open_files();
    if (rille_open(&o, &s)) return;
    ok(open_files() - before < 20, "a session of 64 threads opens no sockets for unused threads");
    is_int((int)gather(s), 4, "a gather uses two of the threads");
    ok(open_files() - before < 40, "the two threads have opened a few sockets");
    diag("%d files more", open_files() - before);
    rille_close(&s);
}

int
main(void)
{
    alarm(HANG);
    test_wrap();
    test_sockets();
    return done();
}
