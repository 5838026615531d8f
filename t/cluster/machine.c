/* Tests of actors/cluster/wire/machine.c: whether a process that was killed has ended. */
#include <poll.h>
#include <sys/wait.h>
static int pending; /* a killed process that the kernel does not free: its descriptor stays silent */
static int
poll_end(struct pollfd *fd, nfds_t n, int ms)
{
    return pending ? 0 : poll(fd, n, ms);
}
#define poll poll_end
#include "actors/cluster/wire/machine.c"
#undef poll
#include "t/lib/tap.h"

/* Returns a process that runs this program and never ends by itself. */
static int
new_process(void)
{
    int pid = fork();
    while (pid == 0) pause();
    return pid;
}

int
main(void)
{
    int pid = new_process();
    is_int(machine_end(pid), 0, "a process that ends at once is no error");
    ok(WIFSIGNALED((waitpid(pid, &pending, 0), pending)), "it was killed");
    pid = new_process();
    pending = 1;
    char expected[128];
    snprintf(expected, sizeof expected, "process %d was killed and has not ended within 20 s", pid);
    is_int(machine_end(pid), E_BUS, "a process that stays is an error");
    is_str(err_text(), expected, "that names it");
    waitpid(pid, NULL, 0);
    is_int(machine_end(pid), 0, "a process that is gone is no error");
    is_int(machine_end(1), 0, "another program is left alone");
    return done();
}
