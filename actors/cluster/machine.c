/* machine.c - boot id, user, namespace of processes; the program behind a pid. */
#include "actors/cluster/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
add_boot(struct str *out)
{
    char id[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, sizeof id) : 0;
    if (fd >= 0) close(fd);
    for (ssize_t i = 0; i < n && id[i] > ' '; i++) str_addn(out, &id[i], 1);
}

void
machine_text(struct str *out)
{
    struct stat st;
    add_boot(out);
    str_addf(out, " %ld", (long)geteuid());
    if (!stat("/proc/self/ns/pid", &st)) str_addf(out, " %lu", (unsigned long)st.st_ino);
}

void
machine_host(char out[64])
{
    if (gethostname(out, 64)) snprintf(out, 64, "unknown");
    out[63] = '\0';
}

bool
machine_runs_us(int pid)
{
    char path[64];
    struct stat us, it, owner;
    if (pid <= 1 || pid == (int)getpid()) return false;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &owner) || owner.st_uid != geteuid()) return false;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    if (stat(path, &it) || stat("/proc/self/exe", &us)) return false;
    return it.st_dev == us.st_dev && it.st_ino == us.st_ino;
}
