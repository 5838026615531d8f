/* Tests of actors/cluster/wire/machine.c: waiting for the end of a killed process, and the name of the host. */
#include "runtime/base/system.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* 1: simulates a killed process that the kernel never removes */
static int pending;
static bool
ends_in_time(const struct system_process *p, int ms)
{
    return !pending && system_process_ended(p, ms);
}
/* Simulates a host whose name has 64 bytes, the most of Linux. The call fails if the buffer is too short, as in glibc.
 */
static int
long_name(char *out, size_t size)
{
    if (size < 65) return -1;
    memset(out, 'h', 64);
    out[64] = '\0';
    return 0;
}
#define system_process_ended ends_in_time
#define gethostname          long_name
#include "actors/cluster/wire/machine.c"
#undef system_process_ended
#undef gethostname
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
    char host[64];
    machine_host(NULL, host);
    ok(strlen(host) == 63 && strspn(host, "h") == 63, "the longest name of a host is cut to 63 bytes");
    machine_host("a", host);
    is_str(host, "a", "--host replaces the name");
    return done();
}
