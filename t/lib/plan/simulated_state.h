/* simulated_state.h - the state of a simulated cluster, and its memory segments, for t/lib/plan/simulated.h. */
#ifndef RILLE_T_SIMULATED_STATE_H
#define RILLE_T_SIMULATED_STATE_H

#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/loss_times.h"
#include "actors/cluster/coordinator/member.h"
#include "actors/cluster/memory/kept.h"
#include "actors/cluster/wire/peers.h"
#include "runtime/data/arena.h"
#include "runtime/device/communicator.h"
#include "runtime/base/error.h"
#include "t/lib/plan/queue.h"
#include "t/lib/tap.h"

/* RUNS: number of steps of the training; a snapshot follows the last step, too */
enum { WORLD = 5, RUNS = 8, SILENCE = 8, STILL = 100, FAULTS = 6, STEPS = 400000 };
enum { WORKERS = (4 * FAULTS + 2) * WORLD, MEMORIES = WORKERS + FAULTS + 1, EPOCHS = 128, LOST = 32, HISTORY = 64 };

struct trial {
    int world, hosts, faults; /* world: number of workers; hosts: 1 to 3; faults: number of faults to inject */
    bool fewer;               /* recovery may continue with fewer workers */
    int least;                /* smallest number of workers of an elastic job; 0: the job is not elastic */
    bool elsewhere;           /* newcomers of an elastic job are on a host of their own */
    int spares;               /* number of spare workers at the beginning */
    /* the job ends at more than `restarts` losses within restarts_ticks; restarts_ticks 0: no limit */
    int restarts_most, restarts_ticks;
    bool may_fail;         /* runs may fail */
    bool restarts;         /* the coordinator may be killed */
    bool keep;             /* workers of a killed coordinator join the next one */
    bool speaks;           /* one worker of each host relays the heartbeats of the others */
    bool files;            /* workers save and load files */
    bool unites;           /* runs need a communicator */
    bool hangs;            /* workers may hang */
    int flaps;             /* number of connections that end and are replaced by a new one */
    bool mutes;            /* some of the connections carry nothing instead of ending, and neither end notices this */
    bool mutes_again;      /* a connection that replaces one that carried nothing may carry nothing, too */
    bool only_flaps;       /* no connection is down for longer than a tick */
    int ticks;             /* simulated time of a training without a last step; 0: RUNS steps */
    int hangs_at, hanging; /* hanging: the worker that hangs; hangs_at: the step at which it does, 0: none hangs */
};

/* Returns the options of trial n in a series of trials. */
static struct trial
trial_of(int world, int hosts, uint64_t n)
{
    return (struct trial){.world = world,
                          .hosts = hosts,
                          .faults = FAULTS,
                          .fewer = n % 2,
                          .may_fail = n % 3 == 0,
                          .restarts = n % 4 == 0,
                          .keep = n % 8 < 4,
                          .speaks = n % 5 < 3,
                          .files = n % 7 < 3,
                          .unites = n % 11 < 5,
                          .hangs = n % 13 < 8,
                          .flaps = n % 17 < 9 ? 2 * FAULTS : 0,
                          .mutes = n % 19 < 10,
                          .mutes_again = n % 23 < 8};
}

/* Returns the options of an elastic job: each policy is drawn from the seed. */
static inline struct trial
elastic_trial(uint64_t seed)
{
    uint64_t random = seed;
    struct trial t =
        trial_of(1 + (int)(next_random(&random) % WORLD), 1 + (int)(next_random(&random) % 3), next_random(&random));
    t.least = 1 + (int)(next_random(&random) % (uint64_t)t.world);
    t.elsewhere = next_random(&random) % 3 == 0;
    t.spares = (int)(next_random(&random) % 4);
    t.restarts_most = (int)(next_random(&random) % 4);
    t.restarts_ticks = next_random(&random) % 2 ? (int)(next_random(&random) % 400) : 0;
    return t;
}

struct outcome {
    int lost;         /* number of workers that were lost */
    int restarts;     /* number of coordinator restarts */
    int taken;        /* number of workers that a later coordinator took over */
    int filed;        /* number of saves and loads that all workers completed */
    int given_up;     /* number of saves and loads that the simulated user interrupted */
    int united;       /* number of communicators made */
    int resumed;      /* number of links that continued over a new connection */
    int muted;        /* number of connections that began to carry nothing */
    int muted_again;  /* number of muted connections made in place of a muted one */
    int grown;        /* number of times that an elastic job admitted newcomers without a loss */
    int interrupted;  /* number of losses during these admissions */
    bool ended;       /* the job was ended by its limit of losses */
    int elsewhere;    /* number of epochs that began with too few workers, because spares made up the number */
    int moved;        /* number of epochs in which devices moved to another host */
    int deserted;     /* number of these epochs in which devices left the coordinator's host */
    int fewest, most; /* fewest, most: smallest and largest number of workers of an epoch */
    int hung;         /* number of workers that were lost because they hung */
    int hung_in[CLUSTER_BROKEN]; /* by phase of the coordinator: number of workers that were lost because they hung */
    int found;                   /* number of kept snapshots that a later coordinator found */
    int steps;                   /* length of the trial */
    int ticks;                   /* simulated time, ticks */
    const char *why;
};

struct job { /* a job of an executor */
    enum work_kind kind;
    uint32_t epoch, run, flags;
    struct slot slot[WORLD]; /* owner of each slot; only of job FORM */
    uint32_t lost[LOST];     /* lost peers on the worker's host, which the worker must kill; only of job MAKE */
    int nlost;
    uint64_t program;
    int memory; /* number of the memory segment; only of job FORM */
    int bus;    /* number of the bus; only of job FORM */
    uint32_t made, anew;
};

struct file_job { /* a job of a file thread */
    uint32_t epoch;
    uint64_t count, part[2]; /* count: number of files; part: {the worker's rank, the number of this rank} */
    bool loads, cancelled;
};

struct sim_worker {
    bool alive, silent, hung, waits; /* waits: the worker waits for the id of a communicator */
    uint32_t done;                   /* progress: number of ticks in which the worker completed work */
    bool cut;                        /* the worker is lost but runs, on a host where it cannot be killed */
    struct cluster *of;
    /* index: index of the worker; rank: rank for which it was started; life: number of its coordinator */
    int index, rank, life;
    int pid;        /* 1 + number of workers started before */
    int connection; /* number of its connections so far */
    int ended;      /* tick at which the process ended */
    int host;       /* number of the worker's host; 0: the coordinator's host */
    /* broken: the worker has no connection at present; lasts: until the worker is connected again, it also sends
     * no heartbeats */
    bool broken, lasts;
    /* mute_up, mute_down: the connection carries no packets to the coordinator, or from the coordinator, and
     * neither end has noticed this; reconnects: the worker must replace its connection */
    bool mute_up, mute_down, reconnects;
    int muted;          /* tick at which the worker's connection last began to carry nothing */
    struct queue stale; /* packets of the former connection, which may arrive later than packets of the present one */
    unsigned char link[CLUSTER_ID];
    unsigned char secret[CLUSTER_ID];
    struct worker_member *member;
    struct queue up, down;
    struct job job[QUEUE];
    int njob;
    struct file_job file[QUEUE];
    int nfile;
    uint32_t over;         /* last epoch that ended because a worker was lost */
    uint32_t stop;         /* number of the run that must stop */
    uint32_t anew;         /* the field `anew` of the last START packet */
    uint32_t reported_run; /* last run for which a communicator id arrived */
    /* told_id: communicator id that arrived for run `reported_run`; id: id of the communicator that the worker
     * has; 0: none */
    uint64_t told_id, id;
    struct slot slot[WORLD];
    bool left, kept;
    int memory;   /* index of the mapped segment; -1: no segment */
    int keeps[2]; /* 1 + index of the segments kept from earlier coordinators, the latest first; 0: none */
    int bus;      /* number of the bus of the worker's epoch; -1: bus not ready */
    uint32_t made;
    int status;
};

/* The text of a note: a snapshot. */
struct sim_state {
    int64_t step;
    uint64_t value[WORLD];
};
/* Slots and notes of a segment. */
struct sim_head {
    struct kept_slot slot[KEPT_SLOTS];
    _Alignas(8) char note[KEPT_SLOTS][sizeof(struct sim_state) + 64];
};

struct cluster {
    struct trial trial;
    uint64_t random;
    struct coordinator *c;
    struct peers peers; /* numbers of connections, as in a link */
    int ticks;          /* simulated time */
    int life;           /* number of coordinators so far */
    /* isa: instruction sets in the last FORM packet; isa_life: number of the coordinator that sent this packet */
    uint32_t isa;
    int isa_life;
    unsigned char secret[WORLD][CLUSTER_ID];
    int started[WORLD]; /* by rank: worker that this coordinator started last; -1: none */
    bool takes_over;    /* true: the coordinator still waits for workers of the previous coordinator */
    struct sim_worker worker[WORKERS];
    int nstart;   /* number of workers started so far */
    int newcomer; /* tick at which a newcomer was last considered */
    int nworker, world, faults, flaps, resumed, muted, muted_again, lost, taken, wrong;
    uint32_t run;                     /* number of the last run started */
    int step, saved_step;             /* next step of the training loop, now and in the snapshot */
    uint64_t memory[MEMORIES][WORLD]; /* by segment and rank: the numbers that runs change */
    /* nmemory: number of segments; own: index of the segment of the coordinator's host */
    int nmemory, own;
    char segment[3];                                  /* name of the segment `own` */
    _Atomic uint64_t word[EPOCHS][WORLD][NBEAT_WORD]; /* heartbeat words by epoch (number of its bus) and rank */
    int nbus;
    int host[EPOCHS][WORLD]; /* by epoch (number of its bus) and rank: the host of the rank's worker; -1: no worker */
    struct slot slot[WORLD]; /* by rank: memory of the rank's device; table: version of these memories */
    uint32_t table;
    struct sim_head head[MEMORIES]; /* by segment */
    struct {                        /* the snapshot that is being written to the memories of all hosts */
        bool on, looked;            /* looked: this coordinator's program has searched for kept snapshots */
        int next, turn;             /* number of the next write; slot */
        uint64_t number;
        int64_t complete; /* step of the last snapshot that was written completely */
    } keeping;
    uint64_t history[HISTORY][WORLD]; /* by step, modulo HISTORY: the numbers in the snapshot of this step */
    uint64_t model[WORLD];            /* the numbers after `modelled` steps without faults */
    int modelled;
    int found;             /* number of kept snapshots to which the program went back */
    uint64_t saved[WORLD]; /* by rank: the numbers in the snapshot, which is also the checkpoint */
    struct {               /* the files being saved or loaded, one per rank */
        bool on, loads, cancelled, torn, done[WORLD];
        uint64_t first, part[WORLD][2];
        int owner[WORLD]; /* by rank: worker that owns the rank's slot */
    } filing;
    uint64_t nfile;
    uint64_t nid, run_id; /* nid: number of ids so far; run_id: id of the last run that has one */
    uint32_t united_run;
    int united;
    bool slow_disk;
    int filed, given_up, hung, grown, interrupted, moved, deserted, elsewhere, fewest, most;
    bool grows;                  /* an elastic job admits newcomers, and their epoch is not formed yet */
    int hung_in[CLUSTER_BROKEN]; /* by phase: number of workers that were lost in this phase because they hung */
    struct loss_times losses;    /* times of losses that this coordinator counted, ticks */
    int64_t loss_at[HISTORY];    /* times of losses that the simulation counted, ticks */
    int nloss;
    bool ended; /* the job was ended by its limit of losses */
    bool formed, running, restore, failing;
    const char *why;
};

static uint64_t
pick(struct cluster *s, uint64_t n)
{
    return next_random(&s->random) % n;
}

static void
wrong(struct cluster *s, const char *why)
{
    if (!s->wrong++) s->why = why;
}

/* ---- connections ---- */

/* The routing id of a connection. */
struct sim_id {
    int32_t index, pid, connection;
};

/* Returns the number of a worker's connection. */
static int
peer_of(struct cluster *s, const struct sim_worker *w, int connection)
{
    const struct sim_id id = {w->index, w->pid, connection};
    return peers_number(&s->peers, &id, sizeof id);
}

static struct sim_id
id_of(struct cluster *s, int peer)
{
    struct sim_id id = {.index = -1};
    const struct peers_entry *e = peers_entry_of(&s->peers, peer);
    if (e)
        memcpy(&id, e->id, sizeof id);
    else
        wrong(s, "the number of a connection that is in use names another connection");
    return id;
}

/* Returns the worker of a connection. */
static struct sim_worker *
worker_of(struct cluster *s, int peer)
{
    return &s->worker[MAX(id_of(s, peer).index, 0)];
}

/* Returns true if a connection is the former one of a worker that has connected again. */
static bool
is_replaced(struct cluster *s, int peer)
{
    for (int r = 0; r < s->world; r++)
        if (coordinator_member(s->c, r)->peer == peer) return false;
    return id_of(s, peer).connection != worker_of(s, peer)->connection;
}

/* Returns a rank's number after a step of the training. */
static uint64_t
after_step(uint64_t value, int step, int rank)
{
    return value * 6364136223846793005ull + (uint64_t)(step + rank + 1);
}

/* ---- instruction sets ---- */

/* Returns the instruction sets of the processor of the worker that was started after `nth` others. Workers of the first
 * coordinator differ. Later workers have all sets, because the coordinator refuses a newcomer with fewer sets than the
 * job. */
static uint32_t
isa_of(const struct cluster *s, int nth)
{
    return nth < s->world && nth % 3 == s->world % 3 ? 7 : 0xe7;
}

/* Checks that all workers compute with the same instruction sets for the whole job, and that every worker has these
 * sets. */
static void
check_isa(struct cluster *s, const struct sim_worker *w, uint32_t isa)
{
    if (w->life != s->life) return; /* drops a packet of a coordinator that was killed */
    if (isa & ~isa_of(s, w->pid - 1)) wrong(s, "a worker lacks an instruction set of the job");
    if (s->isa_life == s->life && s->isa != isa) wrong(s, "the job's instruction sets change");
    s->isa = isa;
    s->isa_life = s->life;
}

/* ---- worker processes ---- */

static void
worker_kill(struct sim_worker *w)
{
    if (w->alive) w->ended = w->of->ticks;
    w->alive = false;
    w->njob = w->nfile = 0;
    queue_clear(&w->up);
    queue_clear(&w->stale);
    queue_clear(&w->down);
}

static void
kill_pid(struct cluster *s, uint32_t pid)
{
    for (int i = 0; i < s->nworker; i++)
        if (s->worker[i].pid == (int)pid) worker_kill(&s->worker[i]);
}

/* Returns true if the state of worker i can be used for another worker: its process ended many ticks ago, and the
 * coordinator has forgotten it. */
static bool
is_reusable(struct cluster *s, int i)
{
    enum { AGE = 20 };
    const struct sim_worker *w = &s->worker[i];
    if (!s->trial.ticks || w->alive || s->ticks < w->ended + AGE) return false;
    for (int r = 0; r < s->world; r++) {
        int peer = coordinator_member(s->c, r)->peer;
        if (s->started[r] == i || (peer >= 0 && worker_of(s, peer) == w)) return false;
    }
    return true;
}

/* Returns true if n more workers can be started. */
static bool
has_room(struct cluster *s, int n)
{
    int room = WORKERS - s->nworker;
    for (int i = 0; room < n && i < s->nworker; i++) room += is_reusable(s, i);
    return room >= n;
}

/* Returns the state for a new worker, which has no connection yet; NULL: there are too many workers. */
static struct sim_worker *
new_worker(struct cluster *s)
{
    int i = 0;
    while (i < s->nworker && !is_reusable(s, i)) i++;
    if (i == WORKERS) {
        wrong(s, "workers without end");
        return NULL;
    }
    struct sim_worker *w = &s->worker[i], old = *w;
    member_free(&w->member);
    *w = (struct sim_worker){
        .of = s, .index = i, .pid = ++s->nstart, .up = old.up, .down = old.down, .stale = old.stale};
    s->nworker += i == s->nworker;
    return w;
}

/* ---- ranks ---- */

static int
count_ready(const struct cluster *s)
{
    int n = 0;
    for (int r = 0; r < s->world; r++) n += coordinator_member(s->c, r)->state == MEMBER_READY;
    return n;
}

static bool
all_here(const struct cluster *s)
{
    for (int r = 0; r < s->world; r++) {
        enum member_state state = coordinator_member(s->c, r)->state;
        if (state == MEMBER_ABSENT || state == MEMBER_LOST) return false;
    }
    return true;
}

/* Returns true if a worker was started for the rank and its end has not been reported yet. */
static bool
on_its_way(const struct cluster *s, int rank)
{
    const struct sim_worker *w = &s->worker[MAX(s->started[rank], 0)];
    return s->started[rank] >= 0 && w->alive && !w->cut;
}

/* Returns the host of a worker that no rank was assigned to. The coordinator's host must always have a worker that is a
 * member, or accepts any rank. */
static int
any_host(struct cluster *s)
{
    bool first = false;
    for (int i = 0; i < s->nworker; i++) {
        const struct sim_worker *w = &s->worker[i];
        bool here = w->alive && !w->cut && !w->silent && w->life == s->life && w->host == 0;
        first |= here && (w->rank < 0 || member_rank(w->member) >= 0);
    }
    if (s->trial.elsewhere && s->nstart >= s->world) return first ? s->trial.hosts : 0;
    return s->trial.hosts > 1 ? (int)pick(s, (uint64_t)s->trial.hosts) : 0;
}

/* Records a loss of a worker. */
static void
note_loss(struct cluster *s)
{
    loss_times_add(&s->losses, s->ticks);
    s->loss_at[s->nloss++ % HISTORY] = s->ticks;
}

/* Returns true if more workers were lost than the trial permits. Checks the decision by counting the losses within the
 * time that ends with the last loss. */
static bool
exceeds_losses(struct cluster *s)
{
    int n = 0, most = s->trial.restarts_most, ticks = s->trial.restarts_ticks;
    if (!ticks) return false;
    int64_t span = loss_times_span(&s->losses, most);
    bool exceeds = span >= 0 && span <= ticks;
    for (int i = MAX(0, s->nloss - HISTORY); i < s->nloss; i++)
        n += s->loss_at[(s->nloss - 1) % HISTORY] - s->loss_at[i % HISTORY] <= ticks;
    if (exceeds != (n > most)) wrong(s, "the limit of losses counts other losses than those of its time");
    return exceeds;
}

/* ---- memory segments ---- */

/* Returns the machine of a host, as workers report it. */
static const char *
machine_of(int host)
{
    static const char *const machine[] = {"m", "other", "third", "fourth"};
    return machine[host];
}

/* Returns the address of a rank's number in the memory of its device. */
static uint64_t *
value_of(struct cluster *s, int rank)
{
    int memory = (int)s->slot[rank].memory;
    if (coordinator_memory(s->c, memory)->own) return &s->memory[s->own][rank];
    int keeper = coordinator_keeper(s->c, memory);
    return &s->memory[worker_of(s, coordinator_member(s->c, keeper)->peer)->memory][rank];
}

static void
read_values(struct cluster *s, uint64_t value[WORLD])
{
    for (int r = 0; r < s->world; r++) value[r] = *value_of(s, r);
}

/* Writes the name of a segment: two letters. */
static void
name_memory(int memory, char name[3])
{
    name[0] = (char)('a' + memory / 16);
    name[1] = (char)('a' + memory % 16);
    name[2] = 0;
}

/* Returns the index of the segment with a name. */
static int
memory_of(const char *name)
{
    return 16 * (name[0] - 'a') + name[1] - 'a';
}

static bool
memory_is_used(const struct cluster *s, int memory)
{
    bool used = s->c && s->own == memory;
    for (int i = 0; i < s->nworker; i++) {
        const struct sim_worker *w = &s->worker[i];
        bool has = w->memory == memory || w->keeps[0] == memory + 1 || w->keeps[1] == memory + 1;
        for (int k = 0; k < w->njob; k++) has |= w->job[k].memory == memory;
        used |= w->alive && has;
    }
    return used;
}

/* Returns the index of a fresh segment. A training without a last step uses segments again that nobody maps. */
static int
make_memory(struct cluster *s)
{
    while (s->trial.ticks && memory_is_used(s, s->nmemory % MEMORIES)) s->nmemory++;
    int memory = s->nmemory++ % MEMORIES;
    memset(s->memory[memory], 0xff, sizeof *s->memory); /* fills a fresh segment with garbage */
    memset(&s->head[memory], 0, sizeof *s->head);
    return memory;
}

/* Maps the segment that a job names. A worker that already maps a segment of the same epoch must get the same
 * segment. */
static void
map_memory(struct cluster *s, struct sim_worker *w, const struct job *j)
{
    if (w->memory >= 0 && w->made == j->made && w->memory != j->memory) wrong(s, "two memories are of one epoch");
    w->memory = j->memory;
    w->made = j->made;
}

/* ---- epochs ---- */

/* Returns the memory for a rank's device: that of the rank's host, or another host's if no worker is on this host. */
static int
home_of_rank(const struct cluster *s, int rank)
{
    int memory = coordinator_member(s->c, rank)->memory, m = 0;
    if (memory >= 0 && coordinator_inhabited(s->c, memory)) return memory;
    while (!coordinator_inhabited(s->c, m)) m++;
    return m;
}

/* Assigns the devices to memories. If a device moves to another memory, its bytes are lost, so the program goes back
 * to the snapshot. */
static void
assign_devices(struct cluster *s)
{
    bool moves = false, deserts = false;
    for (int r = 0; r < s->world; r++) {
        uint32_t memory = (uint32_t)home_of_rank(s, r);
        bool moved = s->table && s->slot[r].memory != memory;
        moves |= moved;
        deserts |= moved && coordinator_memory(s->c, (int)s->slot[r].memory)->own;
        s->slot[r] = (struct slot){memory, (uint32_t)r};
    }
    s->table += moves || !s->table;
    s->moved += moves;
    s->deserted += deserts;
    s->restore |= moves;
}

static void
begin_epoch(struct cluster *s)
{
    static const struct range range[] = {{0, 0, WORLD, 0, WORLD, 0}};
    static const uint64_t bytes[WORLD] = {4096, 4096, 4096, 4096, 4096};
    name_memory(s->own, s->segment);
    assign_devices(s);
    for (int r = 0; r < s->world; r++) {
        int peer = coordinator_member(s->c, r)->peer;
        s->host[s->nbus % EPOCHS][r] = peer < 0 ? -1 : worker_of(s, peer)->host;
    }
    struct form f = {.threads = (uint32_t)s->nbus, /* number of the bus of the epoch */
                     .segment = s->segment,
                     .bus = "bus",
                     .table = s->table,
                     .nrange = 1,
                     .nslot = s->world,
                     .range = range,
                     .slot = s->slot,
                     .bytes = bytes};
    memset(s->word[s->nbus % EPOCHS], 0, sizeof *s->word);
    if (++s->nbus == EPOCHS && !s->trial.ticks) wrong(s, "epochs without end");
    coordinator_form(s->c, &f);
}

#endif
