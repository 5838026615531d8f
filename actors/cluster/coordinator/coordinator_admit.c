/* coordinator_admit.c - admits workers, and assigns their devices to memories. */
#include "actors/cluster/coordinator/coordinator_admit.h"
#include "actors/cluster/coordinator/coordinator_inner.h"

#include "actors/cluster/wire/devices.h"
#include "actors/cluster/wire/gpus.h"
#include "kernels/exec/identity.h"
#include "runtime/data/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 100 }; /* maximum number of characters of a worker's text in messages */

bool
coordinate_zero(const unsigned char p[CLUSTER_ID])
{
    for (int i = 0; i < CLUSTER_ID; i++)
        if (p[i]) return false;
    return true;
}

bool
coordinate_same(struct span said, const unsigned char want[CLUSTER_ID])
{
    unsigned char differ = 0;
    if (said.n != CLUSTER_ID) return false;
    for (int i = 0; i < CLUSTER_ID; i++) differ |= (unsigned char)(said.bytes[i] ^ want[i]);
    return differ == 0;
}

/* Returns true if a worker on this machine may have the rank. All devices of a memory must be on one host, so the
 * rank's memory must be there. A memory without members may move to another host, except for the memory of the
 * coordinator's host. */
static bool
fits_memory(const struct coordinator *c, int rank, struct span machine)
{
    int at = c->member[rank].info.memory;
    if (at < 0 || c->grows || span_is(machine, span_text(c->memory[at].info.machine))) return true;
    return !coordinator_inhabited(c, at) && !c->memory[at].info.own;
}

/* Returns true if the worker has the secret of the rank, or the rank has none. */
static bool
has_secret(const struct coordinator *c, int rank, const struct packet *p)
{
    const unsigned char *want = c->options.secret ? c->options.secret[rank] : NULL;
    return !want || coordinate_zero(want) || coordinate_same(p->secret, want);
}

static bool
may_have(const struct coordinator *c, int rank, const struct packet *p)
{
    return c->member[rank].info.state == MEMBER_ABSENT && fits_memory(c, rank, p->machine) && has_secret(c, rank, p);
}

/* Returns the rank for a new worker: the rank that it requests, else the rank of its key, else the lowest free rank.
 * -1: the worker cannot have that rank, or no rank is free. */
static int
rank_for(const struct coordinator *c, int key, const struct packet *p)
{
    int want = p->rank >= 0 ? p->rank : key;
    if (key >= 0 && want != key) return -1;
    if (want >= 0) return want < c->options.world && may_have(c, want, p) ? want : -1;
    for (int r = c->first_out; r < c->options.world; r++)
        if (may_have(c, r, p)) return r;
    return -1;
}

/* Checks the GPUs of a worker that replaces another worker, because plans were made for the GPUs of the former
 * worker. */
static int
check_gpus(const struct coordinator *c, int rank, const struct packet *p, int n)
{
    int memory = c->member[rank].info.memory;
    if (memory < 0 || c->form.nrange == 0) return 0;
    if (n != c->memory[memory].ngpu)
        return fail(E_PLACE, "rank %d has %d devices of kind cuda, but the worker has %d", rank, c->memory[memory].ngpu,
                    n);
    if (n && c->form.abilities & ~p->abilities)
        return fail(E_PLACE, "the worker's GPUs lack a compiler or a library that those of rank %d had", rank);
    return 0;
}

/* Checks that no member uses a GPU of the new worker, because a collective library permits only one rank per GPU. */
static int
check_hello_ranks(const struct coordinator *c, const struct packet *p, const char *gpus)
{
    for (int r = 0; r < c->options.world && p->abilities & COLLECTS; r++) {
        const struct member *m = &c->member[r];
        if (!is_in(m) || !(m->info.abilities & COLLECTS) || !gpus_share(gpus, m->info.gpus)) continue;
        return fail(E_PLACE, "NCCL needs one device per GPU, but a GPU of the worker is also used by rank %d", r);
    }
    return 0;
}

/* Writes to `why` what is wrong with the worker's devices. A worker whose devices the session cannot use is rejected
 * here, because such a worker would make the whole job fail. */
static void
object_to_devices(const struct coordinator *c, int rank, const struct packet *p, struct str *why)
{
    struct device_counts d;
    char *text = coordinate_text(p->devices), *gpus = coordinate_text(p->gpus);
    int status = device_counts_of_worker(text, false, &d);
    if (!status && d.gpus.all) status = fail(E_PLACE, "the worker did not report its number of GPUs");
    if (!status) status = gpus_check(gpus, d.n[DEV_CUDA]);
    if (!status) status = check_gpus(c, rank, p, d.n[DEV_CUDA]);
    if (!status) status = check_hello_ranks(c, p, gpus);
    if (status) {
        str_add(why, err_text());
        err_clear();
    }
    free(text);
    free(gpus);
}

/* Returns true if the worker belongs to this job: either the coordinator started the worker and gave it a secret, or
 * the worker has the name of the job. */
static bool
is_of_job(const struct coordinator *c, const struct packet *p)
{
    for (int r = 0; c->options.secret && r < c->options.world; r++)
        if (!coordinate_zero(c->options.secret[r]) && coordinate_same(p->secret, c->options.secret[r])) return true;
    return span_is(p->name, span_text(c->options.name));
}

static void
print_job(struct span name, struct str *out)
{
    str_add(out, name.n ? "job '" : "a job without a name");
    span_print((struct span){name.bytes, MIN(name.n, (uint32_t)SHOWN)}, out);
    if (name.n) str_add(out, "'");
}

static void
object_to_job(const struct coordinator *c, const struct packet *p, struct str *why)
{
    str_add(why, "expected a worker of ");
    print_job(span_text(c->options.name), why);
    str_add(why, ", found one of ");
    print_job(p->name, why);
    str_add(why, "; each job needs an address of its own, and all its processes the same RILLE_JOB");
}

/* Writes to `why` what is wrong with the worker's cpu kernels. The kernels of all workers must compute results with
 * the same bits. */
static void
object_to_kernels(const struct coordinator *c, const struct packet *p, struct str *why)
{
    if (!span_is(p->kernels, span_text(c->options.kernels))) {
        str_addf(why, "its results can differ in their last bits: expected %s, found ", c->options.kernels);
        span_print((struct span){p->kernels.bytes, MIN(p->kernels.n, (uint32_t)SHOWN)}, why);
        str_add(why, "; install the same version of Rille and of its libraries on all hosts");
    } else if (c->isa_is_set && (p->isa & c->isa) != c->isa && !*kernels_isa_name(p->isa & c->isa)) {
        str_addf(
            why,
            "its processor has no instruction set in common with the other hosts: masks %#x and %#x; use hosts of one "
            "architecture",
            p->isa, c->isa);
    } else if (c->isa_is_set && (p->isa & c->isa) != c->isa) {
        str_addf(why,
                 "its processor has the instruction set %s, but the job computes with %s; start the job with "
                 "--isa %s",
                 kernels_isa_name(p->isa), kernels_isa_name(c->isa), kernels_isa_name(p->isa & c->isa));
    }
}

static bool
has_lost_rank(const struct coordinator *c)
{
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.state == MEMBER_LOST) return true;
    return false;
}

/* Returns true if a worker without a rank may get a rank later: a lost rank, when the owner recovers; the rank of a
 * member whose loss is not noticed yet; any rank of an elastic job. want: rank that the worker requests; -1: any. */
static bool
may_get_rank(const struct coordinator *c, int want, const struct packet *p)
{
    if (want < 0) return c->options.least || has_lost_rank(c);
    if (want >= c->options.world || !has_secret(c, want, p)) return false;
    switch (c->member[want].info.state) {
    case MEMBER_ABSENT: return c->options.least && !fits_memory(c, want, p->machine);
    case MEMBER_RETIRED: return c->options.least;
    default: return true;
    }
}

/* Writes to `why` why a worker gets no rank. */
static void
object_to_rank(const struct coordinator *c, const struct packet *p, int want, struct str *why)
{
    const char *s = c->options.world == 1 ? "" : "s";
    if (want >= c->options.world) {
        str_addf(why, "rank %d is out of range: the job has %d worker%s, and ranks count from 0", want,
                 c->options.world, s);
    } else if (want >= 0 && c->member[want].info.state == MEMBER_ABSENT && !fits_memory(c, want, p->machine)) {
        str_addf(why, "the devices of rank %d are on another host than the worker (", want);
        span_print(p->host, why);
        str_add(why, ")");
    } else if (want >= 0 && c->member[want].info.state == MEMBER_RETIRED) {
        str_addf(why, "the job continues without rank %d; start the worker before the job recovers from the loss",
                 want);
    } else if (want >= 0) {
        str_addf(why,
                 "rank %d is already taken by another worker; start the worker with a free rank, or without --rank",
                 want);
    } else {
        str_addf(why, "the job already has its %d worker%s; a coordinator with a larger --world accepts more",
                 c->options.world, s);
    }
}

/* Writes to `why` the reason for rejecting a worker. Returns false if the worker is accepted, or, without a rank, may
 * wait for one. */
static bool
objection(const struct coordinator *c, int key, const struct packet *p, int rank, struct str *why)
{
    int want = p->rank >= 0 ? p->rank : key;
    if (p->protocol != WIRE_VERSION || !span_is(p->version, span_text(c->options.version))) {
        str_addf(why, "the coordinator is rille %s, the worker is rille ", c->options.version);
        span_print(p->version, why);
    } else if (!is_of_job(c, p)) {
        object_to_job(c, p, why);
    } else if (key >= 0 && want != key) {
        str_addf(why, "the worker has the key of rank %d, but asks for rank %d", key, want);
    } else if (rank < 0 && (c->nwaiting >= c->options.world || !may_get_rank(c, want, p))) {
        object_to_rank(c, p, want, why);
    } else {
        object_to_kernels(c, p, why);
        if (!why->len && rank >= 0) object_to_devices(c, rank, p, why);
    }
    return why->len > 0;
}

/* Rejects the worker on a link, and sends NOTICE_REFUSED to the owner. ack: number of the last packet that the worker
 * has received. who: text for the notice, " (host, pid 4711)" or "". */
static void
refuse_peer(struct coordinator *c, int peer, uint32_t ack, const char *who, const char *why)
{
    struct packet no = {.kind = PACKET_REFUSE, .epoch = c->epoch, .seq = ack + 1, .text = span_text(why)};
    struct str text = {0};
    c->env.send(c->env.arg, peer, &no);
    coordinate_cut(c, peer);
    str_addf(&text, "a worker%s was refused: %s", who, why);
    coordinate_tell(c, (struct notice){.kind = NOTICE_REFUSED, .rank = -1, .text = str_text(&text)});
    str_free(&text);
}

void
coordinator_foreign(struct coordinator *c, int peer, int protocol)
{
    char why[128];
    coordinate_know(c, peer);
    if (coordinate_peer(c, peer)->out || coordinate_peer(c, peer)->rank >= 0) return;
    snprintf(why, sizeof why, "it uses protocol %d, but the coordinator (rille %.32s) uses protocol %d", protocol,
             c->options.version, WIRE_VERSION);
    refuse_peer(c, peer, 0, "", why);
}

/* Rejects a worker that sent this HELLO. */
static void
refuse_worker(struct coordinator *c, int peer, const struct packet *p, const char *why)
{
    struct str who = {0};
    str_add(&who, " (");
    span_print(p->host, &who);
    str_addf(&who, ", pid %u)", p->pid);
    refuse_peer(c, peer, p->ack, str_text(&who), why);
    str_free(&who);
}

bool
coordinate_all_in(struct coordinator *c)
{
    int r = c->first_out;
    while (r < c->options.world && (!is_wanted(&c->member[r]) || is_in(&c->member[r]))) r++;
    c->first_out = r;
    return r == c->options.world;
}

/* Returns true if a member has this memory: a member on the memory's host that was assigned to it before. */
static bool
has_settled_member(const struct coordinator *c, int memory)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && c->member[r].info.memory == memory && !c->member[r].machine) return true;
    return false;
}

static bool
is_memory_of(const struct coordinator *c, int memory, const char *machine)
{
    return memory >= 0 && !strcmp(c->memory[memory].info.machine, machine);
}

/* Returns true if the memory belonged to a lost host, and may move to another machine. */
static bool
is_vacant(const struct coordinator *c, int memory)
{
    return memory >= 0 && !c->memory[memory].info.own && !has_settled_member(c, memory);
}

static uint64_t
hash_of_machine(const char *machine)
{
    return hash_bytes(0, machine, strlen(machine));
}

/* Adds a memory to `known`, a hash table from machines to the numbers of their memories. */
static void
add_machine(const struct coordinator *c, struct hash_table *known, int memory)
{
    hash_add(known, hash_of_machine(c->memory[memory].info.machine), hash_index(memory));
}

/* Returns the last memory of a machine; -1: none. */
static int
find_machine(const struct coordinator *c, const struct hash_table *known, const char *machine)
{
    uint32_t at = 0;
    int last = -1;
    for (const void *item; (item = hash_next(known, hash_of_machine(machine), &at));)
        if (is_memory_of(c, hash_index_of(item), machine)) last = MAX(last, hash_index_of(item));
    return last;
}

/* Returns the memory (one per host) for a worker that was admitted as a rank. After a loss, if the rank's memory
 * belonged to a lost host, this memory moves to the worker's machine. Otherwise the worker gets the memory of its
 * machine. In an elastic job, a worker on the coordinator's host gets the memory of that host, because this memory
 * never moves. A machine without a memory gets the memory of a lost host, if the rank had it or there are as many
 * memories as ranks; otherwise a new memory. */
static int
memory_of_machine(struct coordinator *c, struct hash_table *known, int rank, const char *machine)
{
    int own = c->member[rank].info.memory, spare = is_vacant(c, own) ? own : -1;
    bool free_to_choose = c->options.least && (own < 0 || !c->memory[own].ngpu);
    for (int m = 0; free_to_choose && m < c->nmemory; m++)
        if (coordinate_joins_own(c, m, machine)) return m;
    if (is_memory_of(c, own, machine)) return own;
    int found = c->grows || spare < 0 ? find_machine(c, known, machine) : -1;
    if (found >= 0) return found;
    for (int m = 0; m < c->nmemory && spare < 0 && c->nmemory == c->options.world; m++)
        if (is_vacant(c, m)) spare = m;
    if (spare >= 0) {
        free(c->memory[spare].info.machine);
        c->memory[spare].info.machine = coordinate_text(span_text(machine));
        add_machine(c, known, spare);
        return spare;
    }
    c->memory = must_realloc(c->memory, sizeof *c->memory * (size_t)(c->nmemory + 1));
    c->memory[c->nmemory] = (struct memory){.info = {.machine = coordinate_text(span_text(machine)),
                                                     .own = !strcmp(machine, c->options.machine),
                                                     .keeper = -1,
                                                     .made_epoch = c->epoch}};
    add_machine(c, known, c->nmemory);
    return c->nmemory++;
}

/* Assigns a memory to every rank; called when all ranks are present. If a host was lost, its memory moves to the
 * host of the new workers. */
static void
assign_memories(struct coordinator *c)
{
    struct hash_table known = {0};
    for (int m = 0; m < c->nmemory; m++) add_machine(c, &known, m);
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (!m->machine) continue;
        m->info.memory = memory_of_machine(c, &known, r, m->machine);
        free(m->machine);
        m->machine = NULL;
    }
    hash_free(&known);
}

/* Returns the HELLO packet of a worker that waits for a rank. */
static struct packet
hello_of(const struct waiting *w)
{
    struct packet p;
    int malformed = packet_read(w->hello.text, w->hello.len, &p);
    assert(!malformed); /* the packet was decoded when it arrived, so it is well-formed */
    UNUSED(malformed);
    p.ack = w->said;
    return p;
}

/* Returns the rank that an admission can assign to a waiting worker; -1: none. taken: by rank, 1: another worker gets
 * the rank. */
static int
rank_by_admission(const struct coordinator *c, const struct waiting *w, const uint8_t *taken)
{
    struct packet p = hello_of(w);
    int key = coordinate_peer(c, w->peer)->key, want = p.rank >= 0 ? p.rank : key;
    for (int r = 0; r < c->options.world; r++) {
        enum member_state state = c->member[r].info.state;
        if ((state != MEMBER_RETIRED && state != MEMBER_ABSENT) || taken[r]) continue;
        if ((want < 0 || want == r) && has_secret(c, r, &p)) return r;
    }
    return -1;
}

/* Returns the number of waiting workers that an admission can give ranks. */
static int
coordinate_candidates(const struct coordinator *c)
{
    int n = 0;
    uint8_t *taken = must_alloc((size_t)c->options.world);
    for (int i = 0; i < c->nwaiting; i++) {
        int rank = rank_by_admission(c, &c->waiting[i], taken);
        if (rank < 0) continue;
        taken[rank] = 1;
        n++;
    }
    free(taken);
    return n;
}

static int
count_members(const struct coordinator *c)
{
    int n = 0;
    for (int r = 0; r < c->options.world; r++) n += is_in(&c->member[r]);
    return n;
}

/* Retires the absent ranks of an elastic job whose workers nobody starts, if enough workers are present. Ranks
 * stay open if the job needs a worker for their memory (coordinate_first_gone). After a loss, waiting workers count as
 * present. In the next epoch an admission, which can move devices, assigns ranks to waiting workers on other hosts than
 * the lost workers'. */
static void
retire_unexpected(struct coordinator *c)
{
    if (!c->options.least || c->started == c->options.world) return;
    int n = count_members(c);
    if (n == 0 || n + (c->grows ? 0 : coordinate_candidates(c)) < c->options.least) return;
    for (int r = c->started; r < c->options.world; r++) {
        struct member_info *m = &c->member[r].info;
        if (m->state != MEMBER_ABSENT || (m->memory >= 0 && coordinate_first_gone(c, m->memory) >= 0)) continue;
        m->state = MEMBER_RETIRED;
    }
}

void
coordinate_complete(struct coordinator *c, int rank)
{
    if (c->phase != CLUSTER_GATHER) return;
    retire_unexpected(c);
    if (!coordinate_all_in(c)) return;
    assign_memories(c);
    coordinate_tell(c, (struct notice){.kind = NOTICE_FULL, .rank = rank});
}

void
coordinator_await(struct coordinator *c, int started)
{
    c->started = started;
}

static void
admit(struct coordinator *c, int peer, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    int memory = m->info.memory;
    member_forget(m);
    *m = (struct member){.info = {.state = MEMBER_PRESENT,
                                  .peer = peer,
                                  .memory = memory,
                                  .host = coordinate_text(p->host),
                                  .devices = coordinate_text(p->devices),
                                  .gpus = coordinate_text(p->gpus),
                                  .pid = p->pid,
                                  .cores = p->cores,
                                  .abilities = p->abilities,
                                  .isa = p->isa,
                                  .link_ms = p->link_ms,
                                  .orphan_ms = p->orphan_ms,
                                  .hello = (uint8_t)p->flags,
                                  .bytes = p->memory},
                         .machine = coordinate_text(p->machine),
                         .seen = p->seq};
    if (p->link.n) memcpy(m->link, p->link.bytes, CLUSTER_ID);
    m->window.last = p->ack;
    m->connection = p->count;
    coordinate_peer(c, peer)->rank = rank;
    coordinate_send(c, rank,
                    (struct packet){.kind = PACKET_WELCOME,
                                    .job = {c->options.job, CLUSTER_ID},
                                    .rank = rank,
                                    .world = (uint32_t)c->options.world,
                                    .beat = span_text(c->options.beat),
                                    .bulk = span_text(c->options.bulk)});
}

void
coordinator_kept_dropped(struct coordinator *c)
{
    for (int r = 0; r < c->options.world; r++) c->member[r].info.hello &= (uint8_t)~HELLO_KEPT;
}

/* ---- keep workers that wait for a rank ---- */

void
coordinate_tell_waiting(struct coordinator *c, struct waiting *w, struct packet p)
{
    p.epoch = c->epoch;
    p.seq = ++w->said;
    p.job = (struct span){c->options.job, CLUSTER_ID};
    c->env.send(c->env.arg, w->peer, &p);
}

void
coordinate_forget_waiting(struct coordinator *c, int i)
{
    str_free(&c->waiting[i].hello);
    c->nwaiting--;
    memmove(&c->waiting[i], &c->waiting[i + 1], sizeof *c->waiting * (size_t)(c->nwaiting - i));
}

/* Returns the index of the waiting worker whose link a HELLO names; -1: none. */
static int
find_waiting(const struct coordinator *c, const struct packet *p)
{
    for (int i = 0; i < c->nwaiting; i++)
        if (p->link.n && span_is(p->link, hello_of(&c->waiting[i]).link)) return i;
    return -1;
}

/* Lets a worker wait for a rank. If the worker waits already and has connected again, replaces the worker's entry. A
 * HELLO over the same connection only shows that the worker still waits. */
static void
keep_waiting(struct coordinator *c, int peer, const struct packet *p)
{
    int known = find_waiting(c, p);
    if (known >= 0 && c->waiting[known].peer == peer) {
        c->waiting[known].missed = 0;
        return;
    }
    if (known >= 0 && p->count <= hello_of(&c->waiting[known]).count) {
        coordinate_cut(c, peer); /* a former connection */
        return;
    }
    if (known >= 0) {
        coordinate_cut(c, c->waiting[known].peer);
        coordinate_forget_waiting(c, known);
    }
    GROW(c->waiting, c->nwaiting + 1, c->waiting_capacity);
    struct waiting *w = &c->waiting[c->nwaiting++];
    *w = (struct waiting){.peer = peer, .said = p->ack, .beats = UINT64_MAX};
    packet_write(p, &w->hello);
    coordinate_tell_waiting(c, w, (struct packet){.kind = PACKET_WELCOME, .rank = -1});
    coordinate_complete(c, -1);
}

/* Returns true if a waiting worker cannot get a rank: the member with the requested rank has sent two heartbeats since
 * the worker arrived, or the job has a fixed size and no lost rank any more. */
static bool
waits_in_vain(const struct coordinator *c, struct waiting *w)
{
    struct packet p = hello_of(w);
    int key = coordinate_peer(c, w->peer)->key, want = p.rank >= 0 ? p.rank : key;
    if (!may_get_rank(c, want, &p)) return true;
    if (want < 0 || !is_in(&c->member[want])) return false;
    w->beats = MIN(w->beats, c->member[want].info.beats);
    return c->member[want].info.beats >= w->beats + 2;
}

static void
dismiss_waiting(struct coordinator *c, int i, bool in_vain)
{
    struct waiting w = c->waiting[i];
    struct str why = {0};
    struct packet p = hello_of(&w);
    int key = coordinate_peer(c, w.peer)->key;
    if (in_vain)
        object_to_rank(c, &p, p.rank >= 0 ? p.rank : key, &why);
    else
        str_add(&why, "it stopped responding while it waited for a rank");
    refuse_worker(c, w.peer, &p, str_text(&why));
    coordinate_forget_waiting(c, i);
    str_free(&why);
}

void
coordinate_tick_waiting(struct coordinator *c)
{
    int limit = WAIT_TICKS + c->options.silence * SILENCE_GROWTH;
    for (int i = 0; i < c->nwaiting; i++) {
        struct waiting *w = &c->waiting[i];
        bool in_vain = waits_in_vain(c, w);
        if (in_vain || ++w->missed > limit)
            dismiss_waiting(c, i--, in_vain);
        else if (c->ticks % WAIT_TICKS == 0)
            coordinate_tell_waiting(c, w, (struct packet){.kind = PACKET_WELCOME, .rank = -1});
    }
}

void
coordinate_seat(struct coordinator *c)
{
    for (int i = 0; i < c->nwaiting; i++) {
        struct waiting w = c->waiting[i];
        struct packet p = hello_of(&w);
        struct str why = {0};
        int key = coordinate_peer(c, w.peer)->key, rank = rank_for(c, key, &p);
        if (rank < 0) continue;
        if (objection(c, key, &p, rank, &why))
            refuse_worker(c, w.peer, &p, str_text(&why));
        else
            admit(c, w.peer, rank, &p);
        str_free(&why);
        coordinate_forget_waiting(c, i--);
    }
}

bool
coordinator_can_grow(const struct coordinator *c)
{
    if (c->phase != CLUSTER_IDLE || !c->options.least) return false;
    return coordinate_candidates(c) > 0 || count_members(c) < c->options.least;
}

static bool
has_link(const struct member *m, struct span link)
{
    return is_in(m) && !coordinate_zero(m->link) && coordinate_same(link, m->link);
}

/* Returns the member whose link a HELLO names; -1: no member. A HELLO names the worker's rank. It names no rank if
 * the worker asks for any rank and has not received its WELCOME; then searches all members. */
static int
rank_of_link(const struct coordinator *c, const struct packet *p)
{
    if (p->rank >= 0) return p->rank < c->options.world && has_link(&c->member[p->rank], p->link) ? p->rank : -1;
    for (int r = 0; r < c->options.world; r++)
        if (has_link(&c->member[r], p->link)) return r;
    return -1;
}

/* Continues a member's link over a new connection, `peer`: sends the packets again that the member has not received.
 * Ignores the connection if the member has made a later one. */
static void
resume_link(struct coordinator *c, int peer, int rank, const struct packet *hello)
{
    struct member *m = &c->member[rank];
    struct packet p;
    coordinate_peer(c, peer)->out = hello->count <= m->connection;
    if (coordinate_peer(c, peer)->out) return;
    int former = m->info.peer;
    m->connection = hello->count;
    m->info.peer = peer;
    coordinate_peer(c, peer)->rank = rank;
    coordinate_peer(c, former)->rank = -1;
    coordinate_cut(c, former);
    m->info.missed = 0;
    window_acknowledge(&m->window, hello->ack);
    for (size_t at = 0; window_next(&m->window, &at, &p);) {
        p.ack = m->seen;
        c->env.send(c->env.arg, peer, &p);
    }
}

/* Answers a HELLO of a worker that is no member now, and was a member of this job or of another job. */
static void
refuse_former(struct coordinator *c, int peer, const struct packet *p)
{
    struct packet no = {.kind = PACKET_REFUSE,
                        .epoch = p->epoch,
                        .seq = p->ack + 1,
                        .flags = REFUSE_LOST,
                        .text = span_text("the coordinator counts this worker as lost")};
    c->env.send(c->env.arg, peer, &no);
    coordinate_peer(c, peer)->out = true;
}

void
coordinate_hello(struct coordinator *c, int peer, const struct packet *p)
{
    struct str why = {0};
    int key = coordinate_peer(c, peer)->key, former = rank_of_link(c, p), rank = rank_for(c, key, p);
    int waiting = find_waiting(c, p);
    if (former >= 0 && (key < 0 || key == former)) {
        resume_link(c, peer, former, p);
    } else if (p->job.n) {
        refuse_former(c, peer, p);
    } else if ((waiting < 0 || rank >= 0) && objection(c, key, p, rank, &why)) {
        refuse_worker(c, peer, p, str_text(&why));
    } else if (rank < 0) {
        keep_waiting(c, peer, p);
    } else {
        if (waiting >= 0) coordinate_forget_waiting(c, waiting);
        admit(c, peer, rank, p);
        coordinate_complete(c, rank);
    }
    str_free(&why);
}
