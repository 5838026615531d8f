/* Tests of actors/cluster/wire/machine.c: waiting for the end of a killed process. */
#include "runtime/base/system.h"
#include <sys/wait.h>
/* 1: simulates a killed process that the kernel never removes */
static int pending;
static bool
ends_in_time(const struct system_process *p, int ms)
{
    return !pending && system_process_ended(p, ms);
}
#define system_process_ended ends_in_time
#include "actors/cluster/wire/machine.c"
#undef system_process_ended
#include "t/lib/tap.h"

/* Starts a copy of this process that runs until it is killed. Returns the copy's pid. */
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
    is_int(machine_end(pid), 0, "a process that ends at once is reported as ended");
    ok(WIFSIGNALED((waitpid(pid, &pending, 0), pending)), "the process was killed");
    pid = new_process();
    pending = 1;
    char expected[128];
    snprintf(expected, sizeof expected, "process %d was killed and has not ended within 20 s", pid);
    is_int(machine_end(pid), E_BUS, "a process that does not end is an error");
    is_str(err_text(), expected, "the error names the process");
    waitpid(pid, NULL, 0);
    is_int(machine_end(pid), 0, "a process that has ended before is reported as ended");
    is_int(machine_end(1), 0, "a process of another program is not killed");
    return done();
}
