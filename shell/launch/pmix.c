/* pmix.c - asks a launcher's PMIx server for the number of processes.
 *
 * PRRTE (prterun, prun) writes a process's rank and the job's name into its environment; libpmix asks for everything
 * else. A child process loads libpmix, asks and ends, so this process keeps no threads, descriptors or memory of the
 * library. The child loads the library that the launcher itself uses: it finds the path in the memory maps of its
 * ancestors, because launchers of Python packages are in no folder that the loader searches. The types below are those
 * of the PMIx standard, versions 2 to 5. */
#include "shell/launch/pmix.h"
#include "runtime/base/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMESPACE = 256, UINT32 = 14, ANCESTORS = 16, ANSWER_SECONDS = 60 };
#define WHOLE_JOB (UINT32_MAX - 1) /* rank that stands for all ranks of a job */

struct pmix_proc {
    char namespace[NAMESPACE];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        uint32_t number;
        void *pointer[2];
    } data;
};

struct pmix_answer {
    int size, local;
    char why[FRONT_TEXT]; /* "": the numbers are known */
};

struct pmix_library {
    int (*init)(struct pmix_proc *own, void *info, size_t ninfo);
    int (*get)(const struct pmix_proc *of, const char *key, const void *info, size_t ninfo, struct pmix_value **out);
    int (*finalize)(const void *info, size_t ninfo);
    const char *(*error)(int status);
};

/* Writes the path of the libpmix that the process has loaded. */
static bool
library_of_process(long pid, char path[PATH_MAX])
{
    char name[64], line[PATH_MAX + 128];
    const char *found = NULL;
    snprintf(name, sizeof name, "/proc/%ld/maps", pid);
    FILE *f = fopen(name, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, "/libpmix.so")) found = strchr(line, '/');
    }
    if (found) snprintf(path, PATH_MAX, "%s", found);
    if (f) fclose(f);
    return found;
}

/* Returns the parent of the process; 0: unknown. */
static long
parent_process(long pid)
{
    char name[64], line[512];
    long parent = 0;
    snprintf(name, sizeof name, "/proc/%ld/stat", pid);
    FILE *f = fopen(name, "re");
    const char *after = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (!after || sscanf(after, ") %*c %ld", &parent) != 1) parent = 0;
    if (f) fclose(f);
    return parent;
}

static void *
open_pmix(void)
{
    char path[PATH_MAX];
    long pid = getppid();
    for (int i = 0; i < ANCESTORS && pid > 0; i++, pid = parent_process(pid)) {
        void *file = library_of_process(pid, path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (file) return file;
    }
    return dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
}

static bool
load_pmix(struct pmix_library *p)
{
    void *file = open_pmix();
    if (!file) return false;
    *(void **)&p->init = dlsym(file, "PMIx_Init");
    *(void **)&p->get = dlsym(file, "PMIx_Get");
    *(void **)&p->finalize = dlsym(file, "PMIx_Finalize");
    *(void **)&p->error = dlsym(file, "PMIx_Error_string");
    return p->init && p->get && p->finalize && p->error;
}

static int
get_number(const struct pmix_library *p, const struct pmix_proc *own, const char *key, int *out)
{
    struct pmix_proc job = *own;
    struct pmix_value *value = NULL;
    job.rank = WHOLE_JOB;
    int status = p->get(&job, key, NULL, 0, &value);
    if (status) return status;
    *out = value->type == UINT32 && value->data.number <= INT32_MAX ? (int)value->data.number : 0;
    free(value);
    return 0;
}

/* Asks the server; runs in the child process. */
static void
ask_server(struct pmix_answer *a)
{
    struct pmix_library p;
    struct pmix_proc own;
    if (!load_pmix(&p)) {
        snprintf(a->why, sizeof a->why,
                 "expected libpmix, which reports the number of processes of a launcher with PMIx; "
                 "add the folder of libpmix.so.2 to LD_LIBRARY_PATH: %.100s",
                 dlerror());
        return;
    }
    int status = p.init(&own, NULL, 0);
    if (!status) {
        status = get_number(&p, &own, "pmix.job.size", &a->size);
        if (!status) status = get_number(&p, &own, "pmix.local.size", &a->local);
        p.finalize(NULL, 0);
    }
    if (status || a->size < 1)
        snprintf(a->why, sizeof a->why, "the launcher's PMIx server does not report the number of processes: %.100s",
                 status ? p.error(status) : "no number");
}

/* Runs ask_server() in a child process, and reads the answer. The child ends after ANSWER_SECONDS without an answer. */
static void
ask_in_child(struct pmix_answer *a)
{
    int fd[2];
    pid_t child = system_pipe(fd, false) ? -1 : fork();
    if (child == 0) {
        alarm(ANSWER_SECONDS);
        ask_server(a);
        _exit(write(fd[1], a, sizeof *a) != sizeof *a);
    }
    if (child < 0) {
        snprintf(a->why, sizeof a->why, "PMIx: a process that asks the launcher cannot be started: %s",
                 strerror(errno));
        return;
    }
    close(fd[1]);
    ssize_t n = read(fd[0], a, sizeof *a);
    close(fd[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    if (n != sizeof *a)
        snprintf(a->why, sizeof a->why, "the launcher's PMIx server (PMIX_NAMESPACE is '%.60s') does not answer",
                 getenv("PMIX_NAMESPACE"));
}

int
pmix_sizes(int *size, int *local, char why[FRONT_TEXT])
{
    static struct pmix_answer answer;
    if (!answer.size && !answer.why[0]) ask_in_child(&answer);
    snprintf(why, FRONT_TEXT, "%s", answer.why);
    *size = answer.size;
    *local = answer.local;
    return answer.why[0] ? -1 : 0;
}
