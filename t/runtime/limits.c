/* limits.c - tests of the limits of cores and memory that the system sets; a folder replaces /proc and /sys. */
#include "runtime/base/limits.h"
#include "t/lib/tap.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>

enum { MB = 1 << 20, LEVELS = 3, CHOICES = 3, CASES = CHOICES * CHOICES * CHOICES };

static char root[64];

/* Writes a file into the folder that replaces the system's root, and makes the folders on the file's path. */
static void __attribute__((format(printf, 2, 3))) write_file(const char *name, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *at = strchr(path + strlen(root) + 1, '/'); at; *at = '/', at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    if (!f) abort();
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    fclose(f);
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    UNUSED(st), UNUSED(kind), UNUSED(at);
    return remove(path);
}

static void
begin_tree(void)
{
    snprintf(root, sizeof root, "/tmp/limits-XXXXXX");
    if (!mkdtemp(root)) abort();
}

static void
end_tree(void)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A simulated machine. two: true: control groups have version 2; false: version 1. whole: true: the mount shows
 * all groups, as on a host; false: it shows only /pod and the groups inside, as in a container. */
struct machine {
    bool two, whole;
};

static const char *
point_of(const struct machine *m, const char *controller)
{
    static char text[64];
    snprintf(text, sizeof text, m->two ? "/sys/fs/cgroup" : "/sys/fs/cgroup/%s", controller);
    return text;
}

/* Writes the lists of groups and mounts for a process in /pod/job. */
static void
write_lists(const struct machine *m)
{
    const char *within = m->whole ? "/" : "/pod";
    if (m->two) {
        write_file("/proc/self/cgroup", "0::/pod/job\n");
        write_file(
            "/proc/self/mountinfo",
            "20 1 0:1 / / rw - ext4 /dev/sda rw\n31 23 0:30 %s /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup rw\n",
            within);
        return;
    }
    write_file("/proc/self/cgroup", "5:cpuset:/else\n4:memory:/pod/job\n1:cpuacct,cpu:/pod/job\n0::/user\n");
    write_file("/proc/self/mountinfo",
               "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
               "33 31 0:30 %s /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpuacct,cpu\n"
               "34 31 0:31 %s /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
               "35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
               within, within);
}

/* Returns the path of the control group at a level (0: the top, 2: /pod/job), as the mount shows it; NULL: the
 * mount does not show it. */
static const char *
group_at(const struct machine *m, int level)
{
    static const char *const all[] = {"", "/pod", "/pod/job"}, *const inside[] = {NULL, "", "/job"};
    return (m->whole ? all : inside)[level];
}

static void
write_memory(const struct machine *m, const char *group, size_t limit)
{
    const char *point = point_of(m, "memory");
    char name[PATH_MAX], text[32];
    snprintf(text, sizeof text, "%zu", limit);
    snprintf(name, sizeof name, "%s%s/%s", point, group, m->two ? "memory.max" : "memory.limit_in_bytes");
    write_file(name, "%s\n", limit != SIZE_MAX ? text : m->two ? "max" : "9223372036854771712");
    snprintf(name, sizeof name, "%s%s/%s", point, group, m->two ? "memory.current" : "memory.usage_in_bytes");
    write_file(name, "%d\n", 30 * MB);
    snprintf(name, sizeof name, "%s%s/memory.stat", point, group);
    write_file(name, "anon %d\n%s %d\n%s %d\n", 9 * MB, m->two ? "file" : "total_cache", 15 * MB,
               m->two ? "shmem" : "total_shmem", 5 * MB);
}

/* Writes the CPU quota of a group. tenths: quota in tenths of a core; 0: none */
static void
write_quota(const struct machine *m, const char *group, int tenths)
{
    const char *point = point_of(m, "cpu");
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s%s/%s", point, group, m->two ? "cpu.max" : "cpu.cfs_quota_us");
    if (m->two)
        write_file(name, tenths ? "%d 50000\n" : "max 50000\n", tenths * 5000);
    else
        write_file(name, "%d\n", tenths ? tenths * 5000 : -1);
    snprintf(name, sizeof name, "%s%s/cpu.cfs_period_us", point, group);
    if (!m->two) write_file(name, "50000\n");
}

/* Sets a memory limit and a CPU quota for the group of each level, chosen by the digits of `number`. The detected
 * limits must be the least of those that the mount shows. */
static bool
limits_hold(const struct machine *m, int number)
{
    static const size_t memory[CHOICES] = {SIZE_MAX, 100 * MB, 60 * MB};
    static const int tenths[CHOICES] = {0, 40, 15};
    struct limits l = {.cores = 64, .memory = (size_t)1 << 40};
    size_t least = SIZE_MAX;
    int cores = 64;
    begin_tree();
    write_lists(m);
    for (int level = 0; level < LEVELS; level++, number /= CHOICES) {
        const char *group = group_at(m, level);
        int k = number % CHOICES;
        if (!group) continue;
        write_memory(m, group, memory[k]);
        write_quota(m, group, tenths[k]);
        least = MIN(least, memory[k]);
        if (tenths[k]) cores = MIN(cores, (tenths[k] + 9) / 10);
    }
    limits_lower(root, &l);
    size_t room = limits_room(root);
    end_tree();
    return l.cores == cores && l.memory == MIN(least, (size_t)1 << 40) && !*l.cores_from == (cores == 64) &&
           !*l.memory_from == (least == SIZE_MAX) && room == (least == SIZE_MAX ? SIZE_MAX : least - 20 * MB);
}

static void
test_groups(void)
{
    static const struct machine machine[] = {{false, false}, {false, true}, {true, false}, {true, true}};
    for (size_t i = 0; i < countof(machine); i++) {
        int wrong = 0;
        for (int number = 0; number < CASES; number++) wrong += !limits_hold(&machine[i], number);
        is_int(wrong, 0,
               machine[i].two ? machine[i].whole ? "version 2: the least limit of all groups around the process holds"
                                                 : "version 2 in a container: the container's limits hold"
               : machine[i].whole ? "version 1: the least limit of all groups around the process holds"
                                  : "version 1 in a container: the container's limits hold");
    }
}

static void
test_names(void)
{
    struct machine m = {true, true};
    struct limits l = {.cores = 8, .memory = 200 * MB};
    begin_tree();
    write_lists(&m);
    write_memory(&m, "/pod", 100 * MB);
    write_quota(&m, "/pod/job", 20);
    limits_lower(root, &l);
    is_str(l.memory_from, "/sys/fs/cgroup/pod/memory.max", "the file that limits the memory is named");
    is_str(l.cores_from, "/sys/fs/cgroup/pod/job/cpu.max", "the file that limits the cores is named");
    setenv("OMP_NUM_THREADS", "3,2", 1);
    limits_lower(root, &l);
    is_int(l.cores, 2, "OMP_NUM_THREADS above the quota changes nothing");
    setenv("OMP_NUM_THREADS", "1", 1);
    limits_lower(root, &l);
    ok(l.cores == 1 && !strcmp(l.cores_from, "OMP_NUM_THREADS"), "OMP_NUM_THREADS below the quota holds, and is named");
    unsetenv("OMP_NUM_THREADS");
    end_tree();
    l = (struct limits){.cores = 8, .memory = 200 * MB};
    limits_lower("/nowhere", &l);
    ok(l.cores == 8 && l.memory == 200 * MB && !*l.memory_from && limits_room("/nowhere") == SIZE_MAX,
       "without groups the machine's cores and memory hold");
}

int
main(void)
{
    unsetenv("OMP_NUM_THREADS");
    test_groups();
    test_names();
    struct limits l = limits_now();
    ok(l.cores >= 1 && l.memory >= MB && limits_fits(0, MB), "this process has a core, and memory");
    return done();
}
