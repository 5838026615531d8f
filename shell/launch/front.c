/* front.c - command lines that use several processes.
 *
 *   rille launch -n N [options] [script]              a controller here, which starts N workers
 *   rille launch -H a:4,b:4 [options] [script]        the same with workers on other hosts, by ssh
 *   rille coordinator --bind A --world N [...]        a controller here; workers are started separately
 *   rille worker --join A                             one of those workers
 *   rille keys                                        a key file, to stdout
 *   rille keys --world N FOLDER                       a key file for the coordinator and each worker
 *   rille attach [NAME]                               a prompt on a running controller
 *   rille [options] script, under a launcher          rank 0: a controller, and the parent of worker 0; others: workers
 *
 * Options that do not concern the cluster stay in the arguments, from which main.c reads these options. */
#include "shell/launch/front.h"
#include "shell/launch/spawn.h"
#include "shell/launch/ranked.h"
#include "shell/launch/munge.h"
#include "shell/launch/front_keys.h"
#include "shell/launch/front_workers.h"
#include "shell/launch/agent_store.h"

#include "shell/launch/ending.h"
#include "shell/bind/base/environment.h"
#include "shell/bind/base/names.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/module/lua_stopping.h"
#include "shell/run/run.h"
#include "shell/run/journal.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USAGE = 2, WORKERS_MOST = FRONT_CHILDREN, WORLD_MOST = 1024, WAIT_STARTED = 30, WAIT_JOINED = 300 };

static const char help[] =
    "usage: rille launch -n N [options] [script.lua [args]]   N worker processes on this host\n"
    "       rille launch -H a:4,b:4 [options] [script.lua [args]]   on other hosts, by ssh\n"
    "       rille coordinator --bind tcp://HOST:PORT --world N [options] [script.lua [args]]\n"
    "       rille worker --join tcp://HOST:PORT [options]\n"
    "       rille keys > FILE                   a key for the coordinator and all workers\n"
    "       rille keys --world N FOLDER         one key for each of them\n"
    "       rille attach [NAME]                 a prompt on a program that runs on this host\n"
    "       rille status [NAME]                 what the workers of a job do, also during a run\n\n"
    "  -n N               number of workers to start. MIN:MAX: the job continues with MIN workers if\n"
    "                     others cannot be replaced, and admits more, up to MAX, later\n"
    "  -H, --hosts LIST   hosts, and workers on each: a:4,b:4; node[01-16]:2; user@a; ssh://a:2222\n"
    "      --hostfile F   list of hosts in a file, one per line, with slots=N; # begins a comment\n"
    "  -d, --devices LIST devices of each worker, as in rille --help\n"
    "      --collectives HOW  'nccl': between GPUs of all workers by NCCL; or 'own'\n"
    "      --bind ADDRESS address at which workers join; needs a key to be reached from other hosts\n"
    "      --world N      number of workers of the job; MIN:MAX as for -n\n"
    "      --restarts N:SECONDS  a job with more than N losses of workers in this time ends\n"
    "      --join ADDRESS address of the coordinator\n"
    "      --rank R       rank of this worker (default: any free rank)\n"
    "      --host NAME    host name that this worker reports, for tests\n"
    "      --wait SECONDS time to wait for the coordinator (default 300)\n"
    "      --keep SECONDS time that workers outlive their controller, to join the next one at the\n"
    "                     same address\n"
    "      --silence SECONDS  a worker without a heartbeat for this time is lost (0.8; RILLE_SILENCE)\n"
    "      --hang SECONDS     a worker without progress for this time is lost (600; RILLE_HANG)\n"
    "      --link SECONDS     a worker without a connection for this time is lost (3; RILLE_LINK)\n"
    "      --orphan SECONDS   a worker without a heartbeat of its controller for this time abandons\n"
    "                         it (4.5; RILLE_ORPHAN)\n"
    "      --isa SET      largest instruction set of matrix products, such as avx2 (default: the largest\n"
    "                     set that the processors of all workers have)\n"
    "      --root DIRS    folders (A:B) shared by all hosts, or URLs, in which workers store checkpoints\n"
    "      --store PROGRAM  helper program that stores checkpoints at URLs (RILLE_STORE)\n"
    "      --key-file F   key file, readable by its owner only, or a folder of keys; 'munge:' or\n"
    "                     'munge:PORT': a new key, which workers of this user fetch through munge\n\n"
    "launch and coordinator also accept the options of rille --help.\n";

/* ---- reading arguments ---- */

struct words { /* values of the cluster options; NULL: not given */
    const char *n, *bind, *world, *join, *rank, *wait, *key_file, *hosts, *hostfile, *keep, *devices, *host, *root;
    const char *collectives, *silence, *hang, *link, *orphan, *store, *restarts, *isa;
    bool help, from_stdin;
    const char *rest;  /* first argument after the options; NULL: none */
    const char *other; /* first option in the arguments that belongs to main.c; NULL: none */
};

static const struct cluster_option {
    const char *name;
    size_t at;
    bool kept; /* true if the option also stays in the arguments, because main.c reads it, too */
} cluster_options[] = {
    {"-n", offsetof(struct words, n), false},
    {"--bind", offsetof(struct words, bind), false},
    {"--world", offsetof(struct words, world), false},
    {"--join", offsetof(struct words, join), false},
    {"--rank", offsetof(struct words, rank), false},
    {"--wait", offsetof(struct words, wait), false},
    {"--key-file", offsetof(struct words, key_file), false},
    {"--host", offsetof(struct words, host), false},
    {"-H", offsetof(struct words, hosts), false},
    {"--hosts", offsetof(struct words, hosts), false},
    {"--hostfile", offsetof(struct words, hostfile), false},
    {"--keep", offsetof(struct words, keep), false},
    {"--root", offsetof(struct words, root), false},
    {"--silence", offsetof(struct words, silence), false},
    {"--hang", offsetof(struct words, hang), false},
    {"--link", offsetof(struct words, link), false},
    {"--orphan", offsetof(struct words, orphan), false},
    {"--restarts", offsetof(struct words, restarts), false},
    {"--isa", offsetof(struct words, isa), false},
    {"--store", offsetof(struct words, store), true},
    {"-d", offsetof(struct words, devices), true},
    {"--devices", offsetof(struct words, devices), true},
    {"--collectives", offsetof(struct words, collectives), true},
};
static int
front_refused(const char *what)
{
    tell_line(what);
    return USAGE;
}

int
front_usage(const char *fmt, const char *what)
{
    char text[1000];
    snprintf(text, sizeof text, fmt, what);
    front_refused(text);
    fputs("rille launch --help lists the options\n", stderr);
    return USAGE;
}

/* Returns the cluster option that an argument names; NULL: not a cluster option. Sets *value if the argument
 * contains the value ("--bind=A", "-n4"). */
static const struct cluster_option *
match_option(const char *arg, const char **value)
{
    *value = NULL;
    for (size_t i = 0; i < sizeof cluster_options / sizeof *cluster_options; i++) {
        size_t n = strlen(cluster_options[i].name);
        if (strncmp(arg, cluster_options[i].name, n)) continue;
        bool is_long = cluster_options[i].name[1] == '-';
        if (arg[n] && (!is_long || arg[n] != '=')) {
            if (is_long) continue;
            *value = arg + n;
        } else if (arg[n]) {
            *value = arg + n + 1;
        }
        return &cluster_options[i];
    }
    return NULL;
}

/* Returns true if the argument is an option of main.c, possibly abbreviated. Sets *valued if the next argument is
 * the option's value, which must not be mistaken for the script. */
static bool
match_other(const char *arg, const struct option *others, bool *valued)
{
    size_t n = strcspn(arg, "=");
    *valued = strchr("eEl", arg[1]) && !arg[2];
    if (arg[1] != '-') return strchr("eEli", arg[1]);
    for (; others->name; others++) {
        if (strncmp(arg + 2, others->name, n - 2)) continue;
        *valued = others->has_arg && !arg[n];
        return true;
    }
    return false;
}

static int
refuse_option(const char *arg, const struct option *others)
{
    char text[FRONT_TEXT];
    struct nearest best = {0};
    size_t skip = strspn(arg, "-");
    for (size_t i = 0; i < sizeof cluster_options / sizeof *cluster_options; i++)
        if (cluster_options[i].name[1] == '-') nearest_add(&best, arg + skip, cluster_options[i].name + 2);
    for (; others->name; others++) nearest_add(&best, arg + skip, others->name);
    nearest_option_print(&best, arg, text, sizeof text);
    return front_usage("%s", text);
}

/* Removes the cluster options from argv[first...], up to the script, and stores their values in w. */
static int
take_words(int *argc, char **argv, int first, const struct option *others, struct words *w)
{
    int from = first, to = first;
    while (from < *argc && argv[from][0] == '-' && argv[from][1] && strcmp(argv[from], "--")) {
        const char *value;
        bool valued = false, from_stdin = !strcmp(argv[from], "--stdin");
        const struct cluster_option *o = match_option(argv[from], &value);
        if (!strcmp(argv[from], "--help")) w->help = true;
        if (from_stdin) w->from_stdin = true;
        if (!o && !from_stdin && !match_other(argv[from], others, &valued)) return refuse_option(argv[from], others);
        if (o && !value && from + 1 == *argc) return front_usage("%s needs an argument", argv[from]);
        if (!o && !from_stdin && !w->other) w->other = argv[from];
        int more = (o && !value) || (valued && from + 1 < *argc);
        if (o) *(const char **)(void *)((char *)w + o->at) = value ? value : argv[from + 1];
        for (int i = 0; i <= more; i++, from++)
            if (!o || o->kept) argv[to++] = argv[from];
    }
    w->rest = from < *argc ? argv[from] : NULL;
    while (from < *argc) argv[to++] = argv[from++];
    *argc = to;
    argv[to] = NULL;
    if (w->isa && rille_limit_isa(w->isa)) return front_usage("--isa: %s", rille_error());
    return w->store ? setenv("RILLE_STORE", w->store, 1) : 0;
}

/* Reads --keep SECONDS; 0: workers end with their controller. */
static int
read_keep(const struct words *w, int *seconds)
{
    *seconds = 0;
    if (w->keep && munge_is_named(w->key_file))
        return front_usage("--keep needs a key in a file, because the next controller must have the same key; found "
                           "--key-file %s",
                           w->key_file);
    if (!w->keep || !front_integer(w->keep, 1, 1 << 24, seconds)) return 0;
    return front_usage("--keep must be a number of seconds from 1 to 16777216, found '%s'", w->keep);
}

/* Reads a time in seconds from the option, else from the environment variable. Neither is set: *seconds stays 0. */
static int
read_seconds(const char *given, const char *option, const char *variable, double *seconds)
{
    const char *set = getenv(variable), *text = given ? given : set && *set ? set : NULL;
    char what[FRONT_TEXT], *end;
    *seconds = text ? strtod(text, &end) : 0;
    if (!text || (*text && !*end && *seconds >= 0.2 && *seconds <= 1e6)) return 0;
    snprintf(what, sizeof what, "%s must be a number of seconds from 0.2 to 1000000, found '%s'",
             given ? option : variable, text);
    return front_usage("%s", what);
}

/* Reads the options for time limits. --silence, --hang and --link are used by the controller. --link and --orphan are
 * passed to the workers that the controller starts. */
static int
read_times(const struct words *w, struct front *f)
{
    int code = read_seconds(w->silence, "--silence", "RILLE_SILENCE", &f->cluster.silence_seconds);
    if (!code) code = read_seconds(w->hang, "--hang", "RILLE_HANG", &f->cluster.hang_seconds);
    if (!code) code = read_seconds(w->link, "--link", "RILLE_LINK", &f->link);
    f->cluster.link_seconds = f->link;
    return code ? code : read_seconds(w->orphan, "--orphan", "RILLE_ORPHAN", &f->orphan);
}

static int
read_worker_times(const struct words *w, struct rille_worker_options *o)
{
    int code = read_seconds(w->link, "--link", "RILLE_LINK", &o->link_seconds);
    return code ? code : read_seconds(w->orphan, "--orphan", "RILLE_ORPHAN", &o->orphan_seconds);
}

/* Returns the name of the job: the value of RILLE_JOB, else the launcher's name for it; NULL: the job has no name. */
static const char *
job_name(const struct ranked *r)
{
    const char *set = getenv("RILLE_JOB");
    return set && *set ? set : r && *r->job ? r->job : NULL;
}

static int
only(const struct words *w, const char *word, const char *allowed)
{
    for (size_t i = 0; i < sizeof cluster_options / sizeof *cluster_options; i++) {
        const char *value = *(const char *const *)(const void *)((const char *)w + cluster_options[i].at);
        char text[FRONT_TEXT];
        if (!value || cluster_options[i].kept || strstr(allowed, cluster_options[i].name)) continue;
        snprintf(text, sizeof text, "%s: expected one of the options %s, found %s", word, allowed,
                 cluster_options[i].name);
        return front_usage("%s", text);
    }
    return 0;
}

/* ---- preparing to run as a controller ---- */

/* Returns the simulated host of a rank, for tests: RILLE_HOSTS=2 divides the workers among 2 simulated hosts. NULL:
 * the rank is on the first host, which keeps its real name. */
static const char *
pretended_host(const struct front *f, int rank, char text[32])
{
    int n;
    const char *hosts = getenv("RILLE_HOSTS");
    if (!hosts || front_integer(hosts, 1, WORKERS_MOST, &n) || rank * n / f->cluster.workers == 0) return NULL;
    snprintf(text, 32, "host%d", rank * n / f->cluster.workers);
    return text;
}

/* Returns true if the host is the local one, which needs no ssh. */
static bool
is_here(const struct host *h)
{
    char own[HOST_NAME] = "";
    gethostname(own, sizeof own - 1);
    return !*h->user && !h->port && (!strcmp(h->name, "localhost") || !strcmp(h->name, own));
}

/* Returns the host of a rank; ranks fill the hosts in order. NULL: the local host. */
static const struct host *
remote_host(const struct front *f, int rank)
{
    const struct host *h = f->hosts.host;
    if (f->hosts.n == 0) return NULL;
    while (rank >= h->slots) rank -= h++->slots;
    return is_here(h) ? NULL : h;
}

static const char *
host_name(void *arg, int rank)
{
    const struct host *h = remote_host(arg, rank);
    return h ? h->name : NULL;
}

static int
start_local_worker(void *arg, int rank, const char *address, const unsigned char secret[RILLE_SECRET], int *pid)
{
    const struct front *f = arg;
    char host[32], key[FRONT_TEXT];
    if (rank == 0 && f->by.store && agent_store_put(&f->by, address)) return -1;
    struct spawned w = {.rank = rank,
                        .address = address,
                        .devices = f->devices,
                        .collectives = f->collectives,
                        .key_file = key_of_worker(f, rank, key),
                        .keep = f->keep,
                        .link = f->link,
                        .orphan = f->orphan,
                        .root = f->cluster.root,
                        .host = pretended_host(f, rank, host),
                        .over_ssh = remote_host(f, rank),
                        .secret = secret};
    return spawn_worker(&w, pid);
}

static void
front_say(void *arg, const char *text)
{
    (void)arg;
    tell_line(text);
}

/* Chooses the address to which workers of other hosts connect: the local address that the route to the first
 * non-loopback host uses. */
static int
choose_bind(struct front *f)
{
    char own[64] = "127.0.0.1";
    for (const struct host *h = f->hosts.host; h < f->hosts.host + f->hosts.n && !strncmp(own, "127.", 4); h++) {
        if (is_here(h) || !rille_own_address(h->name, own)) continue;
        fprintf(stderr, "rille: launch: %s, or give --bind tcp://ADDRESS:PORT, at which workers find the coordinator\n",
                rille_error());
        return USAGE;
    }
    snprintf(f->bind, sizeof f->bind, "tcp://%s:*", own);
    f->cluster.bind = f->bind;
    return 0;
}

/* Completes the settings of rille launch if workers run on other hosts: reads the hosts, and chooses the number of
 * workers, the address and the keys. */
static int
launch_over(const struct words *w, struct front *f)
{
    if (w->hosts && w->hostfile) return front_usage("launch: expected -H HOSTS or --hostfile FILE, found both%s", "");
    int code = hosts_read(w->hosts, w->hostfile, &f->hosts);
    if (code) return USAGE;
    if (!w->n) f->cluster.workers = f->hosts.slots;
    if (f->cluster.workers > WORKERS_MOST)
        return front_refused("launch: a job that this command starts can have at most 256 workers, found more; -n N "
                             "uses the first N slots");
    if (f->cluster.workers > f->hosts.slots) {
        fprintf(stderr, "rille: launch: -n must be at most %d, the slots of the hosts, found %d; write HOST:SLOTS\n",
                f->hosts.slots, f->cluster.workers);
        return USAGE;
    }
    f->cluster.host = host_name;
    if (!w->bind && (code = choose_bind(f))) return code;
    return w->key_file || !keys_of_job(f) ? 0 : USAGE;
}

/* Checks that a later controller can take over the workers. For this the address and the key must be given
 * explicitly, because the next controller needs both. */
static int
launch_kept(const struct words *w, bool over)
{
    if (!w->bind || rille_address(w->bind))
        return front_usage("launch: --keep needs --bind tcp://HOST:PORT, at which workers find the next controller%s",
                           "");
    if (over && !w->key_file)
        return front_usage("launch: --keep needs --key-file FILE, because the next controller must have the same key%s",
                           "");
    return 0;
}

/* Refuses --bind with a socket: another user could replace a socket in a folder that ranked.c has not checked. */
static int
check_bind(const struct words *w)
{
    if (!w->bind || !strncmp(w->bind, "tcp://", strlen("tcp://"))) return 0;
    return front_usage("--bind: \"%s\" cannot be bound: expected tcp://HOST:PORT", w->bind);
}

static int
launch_workers(const struct words *w, struct front *f)
{
    int code = only(w, "launch",
                    "-n -d --collectives --bind --key-file -H --hosts --hostfile --keep --root --isa --store --silence "
                    "--hang --link --orphan --restarts");
    if (code) return code;
    if ((code = check_bind(w))) return code;
    if (munge_is_named(w->key_file))
        return front_usage("launch: --key-file must be a file, found %s; launch needs no munge, because it makes keys",
                           w->key_file);
    bool over = w->hosts || w->hostfile;
    if (!w->n && !over)
        return front_usage("launch: expected -n N (number of workers) or -H HOSTS, found neither%s", "");
    if (w->n && (code = front_workers("launch: -n", w->n, WORKERS_MOST, &f->cluster))) return code;
    if ((code = front_restarts(w->restarts, &f->cluster))) return code;
    f->cluster.start = start_local_worker;
    f->cluster.bind = w->bind;
    f->cluster.key_file = w->key_file;
    f->cluster.root = w->root;
    f->collectives = w->collectives;
    if (read_keep(w, &f->keep) || (f->keep && (code = launch_kept(w, over)))) return USAGE;
    f->cluster.takes_over = f->leaves = f->keep;
    if ((code = read_times(w, f))) return code;
    if (over && (code = launch_over(w, f))) return code;
    f->cluster.started = f->cluster.workers;
    f->on = true;
    return -1;
}

static int
coordinator(const struct words *w, struct front *f)
{
    int code =
        only(w, "coordinator",
             "-d --collectives --bind --world --key-file --root --isa --store --silence --hang --link --restarts");
    if (code) return code;
    if (!w->bind) return front_usage("coordinator: --bind ADDRESS is missing: the address at which workers join%s", "");
    if (rille_address(w->bind)) return front_usage("coordinator: --bind: %s", rille_error());
    if ((code = check_bind(w))) return code;
    if (!w->world) return front_usage("coordinator: --world N is missing: the number of workers%s", "");
    if ((code = front_workers("coordinator: --world", w->world, WORLD_MOST, &f->cluster))) return code;
    if ((code = front_restarts(w->restarts, &f->cluster))) return code;
    if ((code = read_times(w, f))) return code;
    if ((code = munge_serve(w->key_file, w->bind, &f->cluster.key_file))) return code;
    f->cluster.bind = w->bind;
    f->cluster.root = w->root;
    /* the workers are started by other programs, perhaps with --keep, and must be able to wait for the next
     * controller */
    f->leaves = true;
    f->on = true;
    return -1;
}

/* ---- running as a worker ---- */

static void
say_news(const char *text)
{
    front_say(NULL, text);
}

/* Ignores Ctrl-C, because the controller handles the interrupts of the terminal. */
static void
ignore_interrupts(void)
{
    signal(SIGINT, SIG_IGN);
}

/* Chooses MPI as the transport if an MPI launcher started this process, unless RILLE_TRANSPORT names a transport. */
static int
choose_transport(const struct environment *e, enum rille_mpi *out)
{
    struct ranked r;
    const char *library;
    char why[FRONT_TEXT];
    bool must = e->transport && !strcmp(e->transport, "mpi");
    *out = RILLE_TCP;
    if (ranked_read(&r, why) || (e->transport && !must)) return 0;
    if (must && !r.mpi)
        return front_refused("RILLE_TRANSPORT=mpi: no launcher of MPI (mpirun, srun) started this process; start it by "
                             "one, or unset the variable");
    if (must && rille_mpi_library(&library)) return front_usage("RILLE_TRANSPORT=mpi: %s", rille_error());
    if (r.mpi) *out = must ? RILLE_MPI : RILLE_MPI_IF_ALL;
    return 0;
}

/* Ends a worker whose kernel does not return. Called when the kernel's time limit is over. */
static void
end_worker(int status)
{
    if (status && stopping_noted()) stopping_now(stopping_noted());
    _exit(status);
}

/* Makes the kernel's out-of-memory killer choose this worker rather than the controller, because the controller
 * recovers from the loss of a worker. If the file cannot be written, nothing changes. */
static void
offer_to_kernel(void)
{
    enum { OFFER = 300, MOST = 1000 };
    int now = 0;
    FILE *f = fopen("/proc/self/oom_score_adj", "r+");
    if (!f) return;
    if (fscanf(f, "%d", &now) == 1) {
        rewind(f);
        fprintf(f, "%d\n", now + OFFER < MOST ? now + OFFER : MOST);
    }
    fclose(f);
}

/* Opens the log file that the controller's --log names; without --log does nothing. */
static void
log_as_worker(int rank)
{
    const char *path = getenv("RILLE_LOG"), *job = getenv("RILLE_JOB");
    if (!path || !*path) return;
    journal_job(job ? job : "worker");
    journal_rank(rank);
    journal_open("warning: RILLE_LOG", path);
}

static int
worker_serve(struct rille_worker_options *o)
{
    struct environment e;
    char when[ENDING_WHEN];
    ending_begin();
    if (environment_read(&e)) return front_refused(e.error);
    int job_code = 0, code = choose_transport(&e, &o->mpi);
    if (code) return code;
    o->code = &job_code;
    if (o->keep_seconds) o->mpi = RILLE_TCP; /* uses TCP, because MPI cannot be initialised twice */
    log_as_worker(o->rank);
    o->say = say_news;
    o->check_ref = e.options.check_ref;
    if (!o->joined) ignore_interrupts();
    offer_to_kernel();
    signal(SIGPIPE, SIG_IGN);
    o->die = end_worker;
    o->signal = stopping_noted;
    stopping_catch(stopping_note, SA_RESTART);
    bool done = !rille_worker(o);
    ending_when(when);
    /* workers that were not started by hand print nothing, because the controller's process does */
    if (done && job_code && o->joined)
        fprintf(stderr, "rille: worker %s: the job ended with exit code %d\n", when, job_code);
    if (done) return job_code;
    int signal_number = stopping_noted();
    if (signal_number)
        stopping_tell(signal_number);
    else
        fprintf(stderr, "rille: worker: %s\n", rille_error());
    code = signal_number ? 128 + signal_number : 1;
    fprintf(stderr, "rille: worker %s, exit code %d\n", when, code);
    return code;
}

static const char *
own_worker_devices(const char *given)
{
    static char text[32];
    const char *environment = getenv("RILLE_DEVICES");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (given) return given;
    if (environment && *environment) return environment;
    snprintf(text, sizeof text, "cpu:%ld", cores > 8 ? cores : 8);
    return text;
}

static int
worker(const struct words *w)
{
    struct rille_worker_options o = {.size = sizeof o,
                                     .join = w->join,
                                     .root = w->root,
                                     .devices = own_worker_devices(w->devices),
                                     .collectives = w->collectives,
                                     .host = w->host,
                                     .job = job_name(NULL),
                                     .rank = -1,
                                     .wait_seconds = w->from_stdin ? WAIT_STARTED : WAIT_JOINED,
                                     .joined = w->from_stdin ? NULL : ignore_interrupts};
    int code =
        only(w, "worker",
             "-d --collectives --join --rank --key-file --wait --host --isa --keep --root --store --link --orphan");
    if (code) return code;
    if (read_keep(w, &o.keep_seconds) || read_worker_times(w, &o)) return USAGE;
    if (w->rest) return front_usage("worker: expected only options, found %s; workers run no script", w->rest);
    if (w->other) return front_usage("worker: expected only options of rille launch --help, found %s", w->other);
    if (!w->join) return front_usage("worker: --join ADDRESS is missing: the address of the coordinator%s", "");
    if (rille_address(w->join)) return front_usage("worker: --join: %s", rille_error());
    if (rille_devices(o.devices, true))
        return front_usage(w->devices ? "worker: %s" : "worker: RILLE_DEVICES: %s", rille_error());
    if (w->rank && front_integer(w->rank, 0, WORLD_MOST - 1, &o.rank))
        return front_usage("worker: --rank must be a number from 0 to 1023, found '%s'", w->rank);
    if (w->wait && front_integer(w->wait, 1, 1 << 24, &o.wait_seconds))
        return front_usage("worker: --wait must be a number of seconds from 1 to 16777216, found '%s'", w->wait);
    if ((code = munge_fetch(w->key_file, w->join, o.wait_seconds, &o.key_file))) return code;
    const char *why = w->from_stdin ? spawned_read(o.secret, &o.key_file, o.join, o.keep_seconds) : NULL;
    if (why) return front_refused(why);
    return worker_serve(&o);
}

/* ---- keys ---- */

static int
front_keys_run(int argc, char **argv, const struct option *others)
{
    struct words w = {0};
    int workers, code = take_words(&argc, argv, 2, others, &w);
    if (w.help) return fputs(help, stdout), 0;
    if (!code) code = only(&w, "keys", "--world");
    if (code) return code;
    if (!w.world && argc == 2) return keys_one();
    if (!w.world || argc != 3) return front_usage("keys: expected --world N FOLDER, or no argument%s", "");
    if (front_integer(w.world, 1, WORLD_MOST, &workers))
        return front_usage("keys: --world must be a number of workers from 1 to 1024, found '%s'", w.world);
    return keys_folder(argv[2], workers);
}

/* ---- running as a rank that a launcher started ---- */

static volatile sig_atomic_t serving; /* process id of the worker that serve_as_child() started */

static void
pass_to_child(int number)
{
    kill((pid_t)serving, number);
}

/* Serves as a worker in a child process, and passes signals on to it. Returns the exit code of the worker, or
 * EXIT_LOST if a signal kills the worker; mpirun passes this code on. The worker is killed if this process dies. */
static int
serve_as_child(struct rille_worker_options *o)
{
    int status = 0;
    pid_t child = fork();
    if (child < 0) return front_refused(strerror(errno));
    if (child == 0) {
        system_end_with_parent();
        return worker_serve(o);
    }
    serving = child;
    stopping_catch(pass_to_child, SA_RESTART);
    ignore_interrupts();
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_LOST;
}

/* Under torchrun with a store: rank 0 chooses the address to bind. If all ranks are on one host, the address is "",
 * which stands for sockets in a private folder. The other ranks wait for rank 0's address. Returns an exit code. */
static int
store_address(const struct ranked *r, const char *key_file, char address[FRONT_TEXT])
{
    char host[FRONT_TEXT], own[64];
    const char *text = r->address + strlen("tcp://"), *colon = strrchr(text, ':');
    if (r->spread && !key_file)
        return front_usage("%s: processes on several hosts need a key: make one with rille keys > FILE, and give "
                           "--key-file FILE",
                           r->launcher);
    if (r->rank > 0) return agent_store_get(r, WAIT_JOINED, address) ? USAGE : 0;
    *address = '\0';
    if (!r->spread) return 0;
    bool six = text[0] == '[';
    snprintf(host, sizeof host, "%.*s", (int)(colon - text) - 2 * six, text + six);
    if (rille_own_address(host, own)) return front_usage("MASTER_ADDR: %s", rille_error());
    snprintf(address, FRONT_TEXT, "tcp://%s:*", own);
    return 0;
}

static int
ranked(int *argc, char **argv, const struct option *others, struct front *f)
{
    struct words w = {0};
    struct ranked r;
    char why[FRONT_TEXT];
    static char address[FRONT_TEXT];
    if (ranked_read(&r, why)) return front_refused(why);
    if (!r.launcher) return -1;
    int code = take_words(argc, argv, 1, others, &w);
    if (code) return code;
    code = only(
        &w, r.launcher,
        "-d --collectives --key-file --host --keep --root --isa --store --silence --hang --link --orphan --restarts");
    if (code) return code;
    if ((code = front_restarts(w.restarts, &f->cluster))) return code;
    f->by = r;
    snprintf(address, sizeof address, "%s", r.address);
    if (r.store && (code = store_address(&r, w.key_file, address))) return code;
    if (r.rank > 0) {
        struct rille_worker_options o = {.size = sizeof o,
                                         .join = address,
                                         .root = w.root,
                                         .devices = own_worker_devices(w.devices),
                                         .collectives = w.collectives,
                                         .host = w.host,
                                         .job = job_name(&r),
                                         .rank = r.rank,
                                         .wait_seconds = WAIT_JOINED};
        if (read_keep(&w, &o.keep_seconds) || read_worker_times(&w, &o)) return USAGE;
        if (rille_devices(o.devices, true)) return front_usage(w.devices ? "%s" : "RILLE_DEVICES: %s", rille_error());
        if ((code = munge_fetch(w.key_file, address, WAIT_JOINED, &o.key_file))) return code;
        return r.mpi ? serve_as_child(&o) : worker_serve(&o);
    }
    struct environment e;
    enum rille_mpi mpi;
    if (environment_read(&e)) return front_refused(e.error);
    if ((code = choose_transport(&e, &mpi))) return code;
    f->on = true;
    if ((code = read_times(&w, f))) return code;
    f->cluster.workers = r.size;
    f->cluster.job = job_name(&f->by);
    f->cluster.bind = *address ? address : NULL;
    if ((code = munge_serve(w.key_file, address, &f->cluster.key_file))) return code;
    f->cluster.root = w.root;
    f->leaves = w.keep;
    f->collectives = w.collectives;
    f->cluster.start = start_local_worker;
    f->cluster.started = 1;
    return -1;
}

/* ---- reading the command line, and choosing what this process runs ---- */

static int
by_word(const char *word, const struct words *w, struct front *f)
{
    if (!strcmp(word, "launch")) return launch_workers(w, f);
    if (!strcmp(word, "coordinator")) return coordinator(w, f);
    return worker(w);
}

/* Runs `rille attach [NAME]` or `rille status [NAME]`, which accept no other arguments. */
static int
front_attach(int argc, char **argv, struct front *f)
{
    char what[FRONT_TEXT];
    if (argc > 2 && !strcmp(argv[2], "--help")) return fputs(help, stdout), 0;
    snprintf(what, sizeof what, "%s: expected no option, found %s", argv[1], argc > 2 ? argv[2] : "");
    if (argc > 2 && argv[2][0] == '-') return front_usage("%s", what);
    snprintf(what, sizeof what, "%s: expected one NAME, found %s as well", argv[1], argc > 3 ? argv[3] : "");
    if (argc > 3) return front_usage("%s", what);
    if (!strcmp(argv[1], "status")) return attach_status(argc > 2 ? argv[2] : NULL);
    int code = attach_open(argc > 2 ? argv[2] : NULL, &f->attach);
    f->attached = !code;
    return code ? code : -1;
}

int
front_read(int *argc, char **argv, const struct option *others, struct front *f)
{
    static const char *const word[] = {"launch", "coordinator", "worker"};
    struct words w = {0};
    *f = (struct front){0};
    f->cluster.say = front_say;
    f->cluster.arg = f;
    f->cluster.job = job_name(NULL);
    if (*argc > 1 && !strcmp(argv[1], "keys")) return front_keys_run(*argc, argv, others);
    if (*argc > 1 && (!strcmp(argv[1], "attach") || !strcmp(argv[1], "status"))) return front_attach(*argc, argv, f);
    for (size_t i = 0; *argc > 1 && i < sizeof word / sizeof *word; i++) {
        if (strcmp(argv[1], word[i])) continue;
        int code = take_words(argc, argv, 2, others, &w);
        if (code) return code;
        if (w.help) return fputs(help, stdout), 0;
        memmove(argv + 1, argv + 2, sizeof *argv * (size_t)(*argc - 1));
        --*argc;
        return by_word(word[i], &w, f);
    }
    return ranked(argc, argv, others, f);
}

int
front_options(struct front *f, const char *devices, struct rille_options *o)
{
    if (!f->on) return 0;
    bool here = f->cluster.start && !f->hosts.n; /* the first worker runs here, so this host's GPUs are asked, too */
    if (devices && rille_devices(devices, here)) return -1;
    f->devices = f->cluster.devices = devices;
    f->cluster.size = sizeof f->cluster;
    o->cluster = &f->cluster;
    return 0;
}

void
front_close(struct front *f)
{
    if (f->on) spawn_close();
    if (f->on && f->by.store) agent_store_remove(&f->by);
    free(f->key);
    f->key = NULL;
}
