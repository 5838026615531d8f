/* limits.c - reads the limits of cores and memory from affinity, control groups and environment. */
#include "runtime/base/limits.h"
#include "runtime/base/system.h"

#include "runtime/base/error.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- finding the control groups of this process ---- */

/* A control group and its ancestors. */
struct group {
    char folder[PATH_MAX];
    /* number of bytes at the start of `folder` that are the path of the root folder, and of the mount point */
    size_t root, top;
    bool unified; /* true: the hierarchy is of control groups version 2 */
};

/* Returns true if a list like "cpu,cpuacct" has the word. */
static bool
has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == n && !strncmp(list, word, n)) return true;
    return false;
}

/* Finds this process's path in the controller's hierarchy of version 1, else of version 2. */
static bool
find_path(const char *root, const char *controller, char path[PATH_MAX], bool *unified)
{
    char name[PATH_MAX], line[PATH_MAX];
    bool found = false;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *f = fopen(name, "r");
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;
        if (!at) continue;
        *at++ = 0;
        bool two = !strncmp(line, "0:", 2) && !list[1];
        if (two ? found : !has_word(list + 1, controller)) continue;
        at[strcspn(at, "\n")] = 0;
        snprintf(path, PATH_MAX, "%s", at);
        *unified = two;
        found = true;
    }
    if (f) fclose(f);
    return found;
}

/* Reads a line of mountinfo. Returns true if the mount shows the controller's hierarchy. */
static bool
is_mount(const char *line, const char *controller, bool unified, char within[PATH_MAX], char point[PATH_MAX])
{
    char type[32], options[512];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", within, point) != 2) return false;
    if (sscanf(rest, " - %31s %*s %511s", type, options) != 2) return false;
    return unified ? !strcmp(type, "cgroup2") : !strcmp(type, "cgroup") && has_word(options, controller);
}

/* Sets `folder` from a mount. The mount at path `point` shows the hierarchy from group `within` down. A container
 * may see only the process's group, at the mount point. */
static void
set_folder(struct group *g, const char *root, const char *within, const char *point, const char *path)
{
    size_t n = strcmp(within, "/") ? strlen(within) : 0;
    bool inside = !strncmp(path, within, n) && (path[n] == '/' || !path[n]) && !strstr(path, "/..");
    g->root = strlen(root);
    g->top = g->root + strlen(point);
    snprintf(g->folder, sizeof g->folder, "%s%s%s", root, point, inside && strcmp(path + n, "/") ? path + n : "");
}

static bool
find_group(const char *root, const char *controller, struct group *g)
{
    static const size_t size = 4 * PATH_MAX;
    char path[PATH_MAX], within[PATH_MAX], point[PATH_MAX];
    if (!find_path(root, controller, path, &g->unified)) return false;
    char *line = malloc(size);
    bool found = false;
    snprintf(point, sizeof point, "%s/proc/self/mountinfo", root);
    FILE *f = line ? fopen(point, "r") : NULL;
    while (f && !found && fgets(line, (int)size, f)) {
        found = is_mount(line, controller, g->unified, within, point);
        if (found) set_folder(g, root, within, point, path);
    }
    if (f) fclose(f);
    free(line);
    return found;
}

/* Shortens `folder` to the folder of the parent group. Returns false at the mount point. */
static bool
leave_group(struct group *g)
{
    char *slash = strrchr(g->folder, '/');
    if (strlen(g->folder) <= g->top || !slash) return false;
    *slash = 0;
    return true;
}

/* Reads the first line of a file of the group. */
static bool
read_line(const struct group *g, const char *name, char line[64])
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", g->folder, name);
    FILE *f = fopen(path, "r");
    bool read = f && fgets(line, 64, f);
    if (f) fclose(f);
    return read;
}

/* Reads a number from a file of the group. Returns SIZE_MAX for "max" and for a missing file. */
static size_t
read_number(const struct group *g, const char *name)
{
    char line[64], *end;
    if (!read_line(g, name, line)) return SIZE_MAX;
    unsigned long long n = strtoull(line, &end, 10);
    return end == line || n > SIZE_MAX ? SIZE_MAX : (size_t)n;
}

static const char *
limit_file(const struct group *g)
{
    return g->unified ? "memory.max" : "memory.limit_in_bytes";
}

/* ---- reading the limits of the groups ---- */

static void
name_file(const struct group *g, const char *name, char text[LIMIT_TEXT])
{
    snprintf(text, LIMIT_TEXT, "%.250s/%s", g->folder + g->root, name);
}

static void
lower_memory(const char *root, struct limits *l)
{
    struct group g;
    if (!find_group(root, "memory", &g)) return;
    do {
        size_t most = read_number(&g, limit_file(&g));
        if (most >= l->memory) continue;
        l->memory = most;
        name_file(&g, limit_file(&g), l->memory_from);
    } while (leave_group(&g));
}

static void
lower_cores(struct limits *l, int64_t cores)
{
    l->cores = (int)MAX(cores, 1);
}

/* Returns the quota of a group in cores, rounded up; 0: none. */
static int64_t
quota_of(const struct group *g)
{
    char line[64];
    long long quota = 0, period = 100000;
    if (g->unified) {
        if (!read_line(g, "cpu.max", line) || sscanf(line, "%lld %lld", &quota, &period) < 1) return 0;
    } else {
        if (!read_line(g, "cpu.cfs_quota_us", line) || sscanf(line, "%lld", &quota) < 1) return 0;
        if (read_line(g, "cpu.cfs_period_us", line)) sscanf(line, "%lld", &period);
    }
    return quota > 0 && period > 0 ? (quota - 1) / period + 1 : 0;
}

static void
lower_by_quota(const char *root, struct limits *l)
{
    struct group g;
    if (!find_group(root, "cpu", &g)) return;
    do {
        int64_t cores = quota_of(&g);
        if (!cores || cores >= l->cores) continue;
        lower_cores(l, cores);
        name_file(&g, g.unified ? "cpu.max" : "cpu.cfs_quota_us", l->cores_from);
    } while (leave_group(&g));
}

void
limits_lower(const char *root, struct limits *l)
{
    const char *text = getenv("OMP_NUM_THREADS");
    long threads = text ? strtol(text, NULL, 10) : 0;
    lower_memory(root, l);
    lower_by_quota(root, l);
    if (threads <= 0 || threads >= l->cores) return;
    lower_cores(l, threads);
    snprintf(l->cores_from, sizeof l->cores_from, "OMP_NUM_THREADS");
}

struct limits
limits_now(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_NPROCESSORS_ONLN);
    struct limits l = {.memory = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : (size_t)1 << 34};
    int own = system_cores();
    lower_cores(&l, all);
    if (own > 0 && own < l.cores) {
        lower_cores(&l, own);
        snprintf(l.cores_from, sizeof l.cores_from, "affinity");
    }
    limits_lower("", &l);
    return l;
}

/* ---- memory that a group can still use ---- */

/* Returns the bytes of cached file contents of a group. Shared memory is left out, because the kernel cannot drop
 * it and read it again. */
static size_t
cached_bytes(const struct group *g)
{
    char path[PATH_MAX + 64], key[64];
    unsigned long long n, files = 0, shared = 0;
    snprintf(path, sizeof path, "%s/memory.stat", g->folder);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%63s %llu", key, &n) == 2) {
        if (!strcmp(key, g->unified ? "file" : "total_cache")) files = n;
        if (!strcmp(key, g->unified ? "shmem" : "total_shmem")) shared = n;
    }
    if (f) fclose(f);
    return files > shared ? (size_t)(files - shared) : 0;
}

size_t
limits_room(const char *root)
{
    struct group g;
    size_t room = SIZE_MAX;
    if (!find_group(root, "memory", &g)) return room;
    do {
        size_t most = read_number(&g, limit_file(&g));
        if (most > SIZE_MAX / 4) continue; /* version 1 states a large number if there is no limit */
        size_t used = read_number(&g, g.unified ? "memory.current" : "memory.usage_in_bytes");
        if (used == SIZE_MAX) continue;
        used -= MIN(used, cached_bytes(&g));
        room = MIN(room, most - MIN(most, used));
    } while (leave_group(&g));
    return room;
}

/* State of limits_fits(), which compares allocations with the last result of limits_room(). A call of
 * limits_room() takes some 50 us, so limits_fits() calls it only when 1/ROOM_AGES of that result has been
 * allocated. Other processes of the group allocate, too, so an older result would be wrong. */
enum { ROOM_AGES = 16, KEPT_SHARE = 8, KEPT_MOST = 64 << 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool known;
static size_t limit; /* bytes of the lowest limit of a group; SIZE_MAX: no limit is below the machine's memory */
static size_t kept;  /* bytes of the limit kept free for small allocations: 1 / KEPT_SHARE, at most KEPT_MOST */
static _Thread_local bool refused; /* true: the last call of limits_fits() on this thread returned false */
static size_t spare;               /* bytes that can be allocated before limits_fits() calls limits_room() again */

static void
learn_limit(void)
{
    struct limits l = limits_now();
    limit = *l.memory_from ? l.memory : SIZE_MAX;
    kept = MIN(limit / KEPT_SHARE, (size_t)KEPT_MOST);
    known = true;
}

static bool
fits_in_room(size_t bytes)
{
    if (bytes > spare) {
        size_t room = limits_room("");
        if (room < kept || bytes > room - kept) return false;
        spare = (room - kept - bytes) / ROOM_AGES + bytes;
    }
    spare -= bytes;
    return true;
}

bool
limits_fits(size_t promised, size_t bytes)
{
    pthread_mutex_lock(&lock);
    if (!known) learn_limit();
    size_t most = limit - kept;
    bool fits = limit == SIZE_MAX || (promised <= most && bytes <= most - promised && fits_in_room(bytes));
    pthread_mutex_unlock(&lock);
    refused = !fits;
    return fits;
}

/* ---- limits of address space, of the size of files and of open files ---- */

static size_t
resource_limit(int resource)
{
    struct rlimit r;
    return !getrlimit(resource, &r) && r.rlim_cur != RLIM_INFINITY ? (size_t)r.rlim_cur : SIZE_MAX;
}

int
limits_open_files(size_t files)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) || now.rlim_cur >= files) return 0;
    now.rlim_cur = MIN((rlim_t)files, now.rlim_max);
    if (now.rlim_max >= files && !setrlimit(RLIMIT_NOFILE, &now)) return 0;
    return fail(E_ARG, "expected a limit of at least %zu open files, found %zu; raise the hard limit (ulimit -Hn)",
                files, (size_t)now.rlim_max);
}

size_t
limits_address_space(size_t parts)
{
    size_t most = resource_limit(RLIMIT_AS), pages = 0;
    if (most == SIZE_MAX) return most;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%zu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    size_t mapped = pages * (size_t)sysconf(_SC_PAGESIZE);
    return (most - MIN(most, mapped)) / parts;
}

static atomic_bool file_decides; /* true: limits_shared_memory() returned the limit of a file's size */

size_t
limits_shared_memory(void)
{
    size_t most = MIN(limits_now().memory, limits_address_space(2)), file = resource_limit(RLIMIT_FSIZE);
    atomic_store(&file_decides, file < most);
    return MIN(file, most);
}

/* ---- reasons ---- */

const char *
limits_refusal(char text[LIMIT_REASON])
{
    struct limits l = limits_now();
    bool by_file = atomic_load(&file_decides);
    size_t most = resource_limit(by_file ? RLIMIT_FSIZE : RLIMIT_AS);
    if (*l.memory_from && (refused || most == SIZE_MAX))
        snprintf(text, LIMIT_REASON, "memory limit of %.1f MB (%s) allows", (double)l.memory / 1e6, l.memory_from);
    else if (most != SIZE_MAX)
        snprintf(text, LIMIT_REASON, "%s of %.1f MB (ulimit -%c) allows",
                 by_file ? "file size limit" : "address space limit", (double)most / 1e6, by_file ? 'f' : 'v');
    else
        snprintf(text, LIMIT_REASON, "host has free");
    return text;
}
