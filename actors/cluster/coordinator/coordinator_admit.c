/* coordinator_admit.c - admits workers, and assigns their devices to memories. */
#include "actors/cluster/coordinator/coordinator_inner.h"

#include "actors/cluster/wire/devices.h"
#include "actors/cluster/wire/gpus.h"
#include "kernels/exec/identity.h"
#include "runtime/base/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

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

/* Returns true if a worker on this machine may have the rank, because the devices of a memory must be on one host. A
 * memory without members may move to another host, except for the memory of the coordinator's host. */
static bool
fits_memory(const struct coordinator *c, int rank, struct span machine)
{
    int at = c->member[rank].info.memory;
    if (at < 0 || span_is(machine, span_text(c->memory[at].info.machine))) return true;
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.memory == at && is_in(&c->member[r])) return false;
    return !c->memory[at].info.own;
}

static bool
may_have(const struct coordinator *c, int rank, const struct packet *p)
{
    if (c->member[rank].info.state != MEMBER_ABSENT || !fits_memory(c, rank, p->machine)) return false;
    const unsigned char *want = c->options.secret ? c->options.secret[rank] : NULL;
    return !want || coordinate_zero(want) || coordinate_same(p->secret, want);
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
                 "DNNL_MAX_CPU_ISA=%s",
                 kernels_isa_name(p->isa), kernels_isa_name(c->isa), kernels_isa_name(p->isa & c->isa));
    }
}

/* Writes to `why` the reason for rejecting a worker. Returns false if the worker is accepted. */
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
    } else if (rank < 0 && want >= c->options.world) {
        str_addf(why, "rank %d is out of range: the job has %d worker%s, and ranks count from 0", want,
                 c->options.world, c->options.world == 1 ? "" : "s");
    } else if (rank < 0 && want >= 0 && c->member[want].info.state == MEMBER_ABSENT &&
               !fits_memory(c, want, p->machine)) {
        str_addf(why, "the devices of rank %d are on another host than the worker (", want);
        span_print(p->host, why);
        str_add(why, ")");
    } else if (rank < 0 && want >= 0) {
        str_addf(why,
                 "rank %d is already taken by another worker; start the worker with a free rank, or without --rank",
                 want);
    } else if (rank < 0) {
        str_addf(why, "the job already has its %d worker%s; a coordinator with a larger --world accepts more",
                 c->options.world, c->options.world == 1 ? "" : "s");
    } else {
        object_to_kernels(c, p, why);
        if (!why->len) object_to_devices(c, rank, p, why);
    }
    return why->len > 0;
}

/* Rejects the worker on a link, and sends NOTICE_REFUSED to the owner. who: text for the notice, " (host, pid 4711)"
 * or "". */
static void
refuse_peer(struct coordinator *c, int peer, const char *who, const char *why)
{
    struct packet no = {.kind = PACKET_REFUSE, .epoch = c->epoch, .seq = 1, .text = span_text(why)};
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
    if (c->peer[peer].out || c->peer[peer].rank >= 0) return;
    snprintf(why, sizeof why, "it uses protocol %d, but the coordinator (rille %.32s) uses protocol %d", protocol,
             c->options.version, WIRE_VERSION);
    refuse_peer(c, peer, "", why);
}

bool
coordinate_all_in(struct coordinator *c)
{
    int r = c->first_out;
    while (r < c->options.world && (!is_wanted(&c->member[r]) || is_in(&c->member[r]))) r++;
    c->first_out = r;
    return r == c->options.world;
}

/* Returns the memory of a machine. A machine that is not known yet gets the next number. */
static int
memory_of_machine(struct coordinator *c, const char *machine)
{
    for (int m = c->nmemory - 1; m >= 0; m--)
        if (!strcmp(c->memory[m].info.machine, machine)) return m;
    c->memory = must_realloc(c->memory, sizeof *c->memory * (size_t)(c->nmemory + 1));
    c->memory[c->nmemory] = (struct memory){.info = {.machine = coordinate_text(span_text(machine)),
                                                     .own = !strcmp(machine, c->options.machine),
                                                     .keeper = -1,
                                                     .made_epoch = c->epoch}};
    return c->nmemory++;
}

/* Assigns a memory to every rank; called when all ranks are present. If a host was lost, its memory moves to the
 * host of the new workers. */
void
coordinate_full(struct coordinator *c, int rank)
{
    bool first = c->nmemory == 0;
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (!m->machine) continue;
        if (first) m->info.memory = memory_of_machine(c, m->machine);
        struct memory_info *at = &c->memory[m->info.memory].info;
        if (strcmp(at->machine, m->machine)) {
            free(at->machine);
            at->machine = m->machine;
        } else {
            free(m->machine);
        }
        m->machine = NULL;
    }
    coordinate_tell(c, (struct notice){.kind = NOTICE_FULL, .rank = rank});
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
                                  .bytes = p->memory},
                         .machine = coordinate_text(p->machine),
                         .seen = p->seq};
    if (p->link.n) memcpy(m->link, p->link.bytes, CLUSTER_ID);
    m->connection = p->count;
    c->peer[peer].rank = rank;
    coordinate_send(c, rank,
                    (struct packet){.kind = PACKET_WELCOME,
                                    .job = {c->options.job, CLUSTER_ID},
                                    .rank = rank,
                                    .world = (uint32_t)c->options.world,
                                    .beat = span_text(c->options.beat),
                                    .bulk = span_text(c->options.bulk)});
    if (c->phase == CLUSTER_GATHER && coordinate_all_in(c)) coordinate_full(c, rank);
}

static bool
has_link(const struct member *m, struct span link)
{
    return is_in(m) && !coordinate_zero(m->link) && coordinate_same(link, m->link);
}

/* Returns the member whose link a HELLO names; -1: no member. A HELLO names the worker's rank, unless the worker asks
 * for any rank and has not received its WELCOME. */
static int
rank_of_link(const struct coordinator *c, const struct packet *p)
{
    if (p->rank >= 0) return p->rank < c->options.world && has_link(&c->member[p->rank], p->link) ? p->rank : -1;
    for (int r = 0; r < c->options.world; r++)
        if (has_link(&c->member[r], p->link)) return r;
    return -1;
}

/* Continues a member's link over a new connection, `peer`. Ignores the connection if a later one has overtaken it. */
static void
resume_link(struct coordinator *c, int peer, int rank, const struct packet *hello)
{
    struct member *m = &c->member[rank];
    struct packet p;
    c->peer[peer].out = hello->count <= m->connection;
    if (c->peer[peer].out) return;
    m->connection = hello->count;
    c->peer[m->info.peer].rank = -1;
    c->peer[m->info.peer].out = true;
    c->peer[peer].rank = rank;
    m->info.peer = peer;
    m->info.missed = 0;
    window_acknowledge(&m->window, hello->ack);
    for (int32_t i = 0; i < m->window.n; i++) {
        window_get(&m->window, i, &p);
        p.ack = m->seen;
        c->env.send(c->env.arg, peer, &p);
    }
}

/* Answers a HELLO of a worker that was a member of this job or of another one, and is not a member now. */
static void
refuse_former(struct coordinator *c, int peer, const struct packet *p)
{
    struct packet no = {.kind = PACKET_REFUSE,
                        .epoch = p->epoch,
                        .seq = p->ack + 1,
                        .flags = REFUSE_LOST,
                        .text = span_text("the coordinator counts this worker as lost")};
    c->env.send(c->env.arg, peer, &no);
    c->peer[peer].out = true;
}

void
coordinate_hello(struct coordinator *c, int peer, const struct packet *p)
{
    struct str why = {0};
    int key = c->peer[peer].key, former = rank_of_link(c, p), rank = rank_for(c, key, p);
    if (former >= 0 && (key < 0 || key == former)) {
        resume_link(c, peer, former, p);
    } else if (p->job.n) {
        refuse_former(c, peer, p);
    } else if (objection(c, key, p, rank, &why)) {
        struct str who = {0};
        str_add(&who, " (");
        span_print(p->host, &who);
        str_addf(&who, ", pid %u)", p->pid);
        refuse_peer(c, peer, str_text(&who), str_text(&why));
        str_free(&who);
    } else {
        admit(c, peer, rank, p);
    }
    str_free(&why);
}
