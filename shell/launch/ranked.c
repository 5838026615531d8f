/* ranked.c - reads the rank, the number of processes and rank 0's address from the variables that launchers set.
 *
 * The table has one row per launcher; the first match wins. Slurm matches only inside a job step, because a shell
 * started by salloc has most of Slurm's variables, too. (Variables as set by torchrun 2.x, Slurm 22.05, Open MPI 4.1
 * and 5.0, MPICH 4.0, PRRTE 3.0, Kubernetes' indexed jobs; as documented in the manuals of Flux, MVAPICH2, LSF's jsrun
 * and LeaderWorkerSet.) */
#include "shell/launch/ranked.h"
#include "shell/launch/pmix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TORCHRUN }; /* index of the row of torchrun, whose agent may have a store at MASTER_PORT */
/* maximum length of the path of the socket folder, characters; the path of a socket must be shorter than 108 */
enum { BASE_MOST = 60 };

static const struct row {
    const char *launcher, *rank;
    const char *size;   /* variable with the number of processes; NULL: libpmix reports it */
    const char *also;   /* name of a second variable that must be set for the row to match; NULL: none */
    const char *local;  /* variable with the number of processes on this host; NULL: none */
    const char *hosts;  /* variable with the number of hosts; NULL: none */
    const char *mpi;    /* variable that is set if the launcher starts MPI programs */
    const char *job[2]; /* variables that identify the job; socket and port are derived from their values */
    const char *leader; /* variable with the address of rank 0's host, used without MASTER_ADDR; NULL: none */
} rows[] = {
    [TORCHRUN] = {"torchrun",
                  "RANK",
                  "WORLD_SIZE",
                  "MASTER_PORT",
                  "LOCAL_WORLD_SIZE",
                  NULL,
                  NULL,
                  {"TORCHELASTIC_RUN_ID"},
                  NULL},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_STEP_ID",
     NULL,
     "SLURM_STEP_NUM_NODES",
     "PMIX_RANK",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     NULL},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     NULL,
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     "PMIX_RANK",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     NULL},
    /* Flux stands before MPICH, because Flux also sets PMI's variables. */
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL, NULL, "FLUX_JOB_NNODES", NULL, {"FLUX_JOB_ID"}, NULL},
    {"MPICH", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALNRANKS", NULL, "PMI_FD", {NULL}, NULL},
    {"MVAPICH2",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     NULL,
     "MV2_COMM_WORLD_LOCAL_SIZE",
     NULL,
     NULL,
     {NULL},
     NULL},
    {"jsrun",
     "JSM_NAMESPACE_RANK",
     "JSM_NAMESPACE_SIZE",
     NULL,
     "JSM_NAMESPACE_LOCAL_SIZE",
     NULL,
     "PMIX_RANK",
     {"LSB_JOBID"},
     NULL},
    /* PRRTE and its like. This row stands after the launchers that also set PMIx's variables. */
    {"PMIx", "PMIX_RANK", NULL, "PMIX_NAMESPACE", NULL, NULL, NULL, {"PMIX_NAMESPACE"}, NULL},
    /* In Kubernetes each pod counts as a host. */
    {"Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "MASTER_PORT", NULL, "WORLD_SIZE", NULL, {NULL}, NULL},
    {"LeaderWorkerSet",
     "LWS_WORKER_INDEX",
     "LWS_GROUP_SIZE",
     NULL,
     NULL,
     "LWS_GROUP_SIZE",
     NULL,
     {"LWS_LEADER_ADDRESS"},
     "LWS_LEADER_ADDRESS"},
};

static int
environment_integer(const char *name, int *out)
{
    const char *text = getenv(name);
    char *end;
    long n = text ? strtol(text, &end, 10) : -1;
    if (!text || !*text || *end || n < 0 || n > 1 << 20) return -1;
    *out = (int)n;
    return 0;
}

/* Returns a hash (FNV-1a) of the launcher and the variables that identify the job. */
static uint64_t
hash_job(const struct row *row)
{
    uint64_t h = 14695981039346656037u;
    char parent[32];
    /* the parent process tells jobs apart: all processes of a job on one host have the same parent */
    snprintf(parent, sizeof parent, "%ld", (long)getppid());
    const char *text[] = {row->launcher, row->job[0] ? getenv(row->job[0]) : NULL,
                          row->job[1] ? getenv(row->job[1]) : NULL};
    if (!text[1]) text[1] = parent;
    for (int i = 0; i < 3; i++) {
        for (const char *c = text[i] ? text[i] : ""; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
        h = (h ^ 0xff) * 1099511628211u; /* separates the texts in the hash */
    }
    return h;
}

/* Writes the name of the job, equal in all its processes: the launcher, and the variables that identify the job. */
static void
print_launched_job(const struct row *row, char out[FRONT_TEXT])
{
    const char *first = row->job[0] ? getenv(row->job[0]) : NULL, *second = row->job[1] ? getenv(row->job[1]) : NULL;
    if (!first && !second) return;
    snprintf(out, FRONT_TEXT, "%s %s%s%s", row->launcher, first ? first : "", second ? "." : "", second ? second : "");
}

/* Returns a port derived from the job: above the ports of services, and below the ephemeral ports of systems. */
static int
port_of(const struct row *row)
{
    return 20000 + (int)(hash_job(row) % 12000);
}

/* Returns true if the path is a folder in which only this user can make files. */
static bool
is_private(const char *path)
{
    struct stat st;
    return path && path[0] == '/' && strlen(path) <= BASE_MOST && !stat(path, &st) && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* Writes the address of a socket for processes on one host. The name of the socket's folder identifies the job. A
 * folder to which other users can write is rejected. */
static int
find_socket(const struct row *row, struct ranked *r, char why[FRONT_TEXT])
{
    char own[32];
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (!is_private(base)) base = getenv("TMPDIR");
    if (!is_private(base)) {
        snprintf(own, sizeof own, "/tmp/rille.%ld", (long)geteuid());
        mkdir(own, 0700);
        base = own;
    }
    if (!is_private(base)) {
        snprintf(why, FRONT_TEXT,
                 "%s must be a folder of this user that others cannot write to; remove it, or set "
                 "XDG_RUNTIME_DIR to such a folder",
                 base);
        return -1;
    }
    snprintf(r->address, sizeof r->address, "ipc://%s/rille-%016llx/control", base, (unsigned long long)hash_job(row));
    return 0;
}

static const char *
leader_of(const struct row *row)
{
    const char *host = getenv("MASTER_ADDR");
    return !host && row->leader ? getenv(row->leader) : host;
}

static int
find_address(const struct row *row, struct ranked *r, char why[FRONT_TEXT])
{
    const char *host = leader_of(row);
    int port = 0;
    if (!host && !getenv("MASTER_PORT") && !r->spread) return find_socket(row, r, why);
    if (!host || !*host || !strcmp(host, "localhost")) host = "127.0.0.1";
    if (!getenv("MASTER_PORT")) {
        port = port_of(row);
    } else if (environment_integer("MASTER_PORT", &port) || port < 1 || port > 65535) {
        snprintf(why, FRONT_TEXT, "MASTER_PORT must be a port from 1 to 65535, found '%.60s'", getenv("MASTER_PORT"));
        return -1;
    }
    bool six = strchr(host, ':') && host[0] != '['; /* true for an IPv6 address without brackets */
    int n = snprintf(r->address, sizeof r->address, six ? "tcp://[%s]:%d" : "tcp://%s:%d", host, port);
    if (n < (int)sizeof r->address) return 0;
    snprintf(why, FRONT_TEXT, "MASTER_ADDR must have at most %d characters, found more", FRONT_TEXT - 32);
    return -1;
}

static bool
is_spread(const struct row *row, const struct ranked *r)
{
    int n;
    if (row->local && !environment_integer(row->local, &n)) return n != r->size;
    return row->hosts && !environment_integer(row->hosts, &n) && n > 1;
}

/* Returns true and sets `why` if the processes are on two or more hosts and an address cannot be found: the
 * address of rank 0's host is missing, or there is neither MASTER_PORT nor a variable from which a port can be
 * derived. */
static bool
misses(const struct row *row, char why[FRONT_TEXT])
{
    const char *wanted = !leader_of(row) ? "MASTER_ADDR is missing: set it to the address of rank 0"
                         : !row->job[0] && !getenv("MASTER_PORT")
                             ? "MASTER_PORT is missing: set it to a free port of rank 0's host"
                             : NULL;
    if (wanted) snprintf(why, FRONT_TEXT, "%s started processes on several hosts: %s", row->launcher, wanted);
    return wanted;
}

/* Sets `why` to an error: the name of the wrong variable, the expected value, and the value found. */
static void
wrong_ranks(const struct row *row, char why[FRONT_TEXT])
{
    int rank, size;
    if (!row->size)
        snprintf(why, FRONT_TEXT, "%s (of %s) must be a rank of the job, found '%.60s'", row->rank, row->launcher,
                 getenv(row->rank));
    else if (environment_integer(row->size, &size) || size < 1)
        snprintf(why, FRONT_TEXT, "%s (of %s) must be an integer of at least 1, the number of processes, found '%.60s'",
                 row->size, row->launcher, getenv(row->size));
    else if (environment_integer(row->rank, &rank) || rank >= size)
        snprintf(why, FRONT_TEXT, "%s (of %s) must be an integer from 0 to %d, because %s is %d, found '%.60s'",
                 row->rank, row->launcher, size - 1, row->size, size, getenv(row->rank));
}

int
ranked_read(struct ranked *r, char why[FRONT_TEXT])
{
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    int local; /* number of processes on this host, from libpmix */
    *r = (struct ranked){0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (!getenv(row->rank) || (row->size && !getenv(row->size)) || (row->also && !getenv(row->also))) continue;
        if (!row->size && pmix_sizes(&r->size, &local, why)) return -1;
        if (environment_integer(row->rank, &r->rank) || (row->size && environment_integer(row->size, &r->size)) ||
            r->size < 1 || r->rank >= r->size) {
            wrong_ranks(row, why);
            return -1;
        }
        r->spread = row->size ? is_spread(row, r) : local != r->size;
        if (r->spread && misses(row, why)) return -1;
        /* torchrun can go on with one process after a loss, and the script then expects a worker as before */
        if (r->size == 1 && row != &rows[TORCHRUN]) return 0;
        r->launcher = row->launcher;
        print_launched_job(row, r->job);
        r->store = row == &rows[TORCHRUN] && !strcmp(store ? store : "", "True");
        r->mpi = row->mpi && getenv(row->mpi);
        return find_address(row, r, why);
    }
    return 0;
}
