/* coordinator_epoch.c - forms an epoch: makes memories, and assigns slots (device threads) to workers. After a loss,
 * gathers the next epoch. */
#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/coordinator/coordinator_inner.h"
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/coordinator/coordinator_admit.h"

#include "runtime/data/arena.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

/* Returns the rank that runs a slot (device thread): the slot's owner if that worker is present, otherwise a present
 * worker of the same host. The slots of absent owners are divided round-robin among the present workers. */
static uint32_t
heir(const struct coordinator *c, const struct slot *s, int slot)
{
    int nin = 0;
    if (is_in(&c->member[s->owner])) return s->owner;
    for (int r = 0; r < c->options.world; r++)
        nin += is_in(&c->member[r]) && c->member[r].info.memory == (int)s->memory;
    assert(nin > 0);
    for (int r = 0, k = slot % nin; r < c->options.world; r++)
        if (is_in(&c->member[r]) && c->member[r].info.memory == (int)s->memory && k-- == 0) return (uint32_t)r;
    return s->owner;
}

/* Returns the lowest rank that has the memory mapped. Without such a rank, returns the memory's lowest rank, which
 * must make the memory; -1: the memory has no members. */
int
coordinate_keeper(const struct coordinator *c, int memory)
{
    int first = -1;
    for (int r = c->options.world - 1; r >= 0; r--) {
        const struct member *m = &c->member[r];
        if (!is_in(m) || m->info.memory != memory) continue;
        if (first < 0 || m->holds || !c->member[first].holds) first = r;
    }
    return first;
}

/* Selects, for each memory of another host, the rank that makes the memory ready, by the rule of
 * coordinate_keeper(). */
static void
find_memory_keepers(struct coordinator *c)
{
    for (int m = 0; m < c->nmemory; m++) c->memory[m].info.keeper = -1;
    for (int r = c->options.world - 1; r >= 0; r--) {
        const struct member *m = &c->member[r];
        if (!is_in(m) || c->memory[m->info.memory].info.own) continue;
        int *first = &c->memory[m->info.memory].info.keeper;
        if (*first < 0 || m->holds || !c->member[*first].holds) *first = r;
    }
}

bool
coordinator_inhabited(const struct coordinator *c, int memory)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && c->member[r].info.memory == memory) return true;
    return false;
}

int
coordinator_absent(const struct coordinator *c, struct str *out)
{
    enum { RANGES = 16 };
    int nrange = 0;
    for (int r = 0, end; r < c->options.world; r = end + 1) {
        for (end = r; end < c->options.world && c->member[end].info.state == MEMBER_ABSENT;) end++;
        if (end == r || nrange++ >= RANGES) continue;
        str_addf(out, nrange > 1 ? ", %d" : "%d", r);
        if (end > r + 1) str_addf(out, "-%d", end - 1);
    }
    if (nrange > RANGES) str_add(out, ", ...");
    return nrange;
}

/* ---- heartbeats ---- */

/* Links the members of each memory (host) in a list, in order of rank. The first member of the list becomes the
 * speaker, which relays the heartbeats of the others. */
static void
line_up_members(struct coordinator *c)
{
    /* number of speakers (relays of heartbeats) beyond which heartbeats become less frequent */
    enum { SPEAKERS = 4096 };
    int nin = 0, nspeaker = 0;
    for (int m = 0; m < c->nmemory; m++) c->memory[m].first = -1;
    for (int r = c->options.world - 1; r >= 0; r--) {
        if (!is_in(&c->member[r])) continue;
        int *first = &c->memory[c->member[r].info.memory].first;
        nspeaker += *first < 0;
        c->member[r].next = *first;
        *first = r;
        nin++;
    }
    c->speaks = nin > c->options.direct;
    c->every = c->speaks ? 1 + (uint32_t)(nspeaker / SPEAKERS) : 1;
}

bool
coordinate_speaks(const struct coordinator *c)
{
    return c->speaks && c->phase >= CLUSTER_IDLE && c->phase != CLUSTER_BROKEN;
}

bool
coordinate_is_spoken(const struct coordinator *c, int rank)
{
    return coordinate_speaks(c) && c->memory[c->member[rank].info.memory].first != rank;
}

/* Writes the ranks whose heartbeats a worker relays. */
static void
send_spoken(const struct coordinator *c, int rank, struct str *out)
{
    str_clear(out);
    if (!c->speaks || c->memory[c->member[rank].info.memory].first != rank) return;
    for (int r = c->member[rank].next; r >= 0; r = c->member[r].next) str_addn(out, &r, sizeof r);
}

/* ---- FORM ---- */

/* Appends the addresses of the workers of a memory. */
static void
add_ports(const struct coordinator *c, int memory, struct str *out)
{
    for (int r = c->memory[memory].first; r >= 0; r = c->member[r].next)
        if (c->member[r].port && *c->member[r].port) str_addf(out, "%d %s\n", r, c->member[r].port);
}

/* Appends the addresses that the workers of a memory (host) need. These are the addresses of workers on neighbouring
 * hosts, because snapshots are copied there, and on hosts whose addresses were requested before. */
static void
known_ports(const struct coordinator *c, int memory, struct str *out)
{
    const struct memory *at = &c->memory[memory];
    int n = c->nmemory, next = (memory + 1) % n, last = (memory + n - 1) % n;
    if (next != memory) add_ports(c, next, out);
    if (last != next) add_ports(c, last, out);
    for (int i = 0; i < at->nmeet; i++)
        if ((int)at->meets[i] != next && (int)at->meets[i] != last) add_ports(c, (int)at->meets[i], out);
}

/* Records that workers of a memory know the addresses of another memory's workers. Returns false if that was
 * recorded before. */
static bool
remember_meeting(struct memory *at, uint32_t memory)
{
    for (int i = 0; i < at->nmeet; i++)
        if (at->meets[i] == memory) return false;
    GROW(at->meets, at->nmeet + 1, at->meet_capacity);
    at->meets[at->nmeet++] = memory;
    return true;
}

static void
send_ports(struct coordinator *c, int rank, const struct str *ports)
{
    coordinate_send(c, rank,
                    (struct packet){.kind = PACKET_PORTS, .ports = {(const void *)ports->text, (uint32_t)ports->len}});
}

/* Sends the addresses of one memory's workers to the workers of memory `to`. The worker that asked gets the
 * addresses in the answer instead. */
static void
introduce(struct coordinator *c, int memory, int to, int asker)
{
    struct str ports = {0};
    add_ports(c, memory, &ports);
    for (int r = c->memory[to].first; r >= 0; r = c->member[r].next)
        if (r != asker) send_ports(c, r, &ports);
    str_free(&ports);
}

/* Answers a request for the addresses of the workers of other memories (hosts). If two memories communicate for the
 * first time, the other workers of both get the addresses of the other memory, too, because a reply needs an
 * address. */
void
coordinate_meet(struct coordinator *c, int rank, const struct packet *p)
{
    struct str ports = {0};
    int own = c->member[rank].info.memory;
    if (c->phase < CLUSTER_FORM || c->phase == CLUSTER_BROKEN) return;
    for (uint32_t i = 0; i < p->memories.n; i += 4) {
        uint32_t memory;
        memcpy(&memory, p->memories.bytes + i, sizeof memory);
        if (memory >= (uint32_t)c->nmemory || (int)memory == own) continue;
        if (remember_meeting(&c->memory[own], memory)) {
            remember_meeting(&c->memory[memory], (uint32_t)own);
            introduce(c, own, (int)memory, rank);
            introduce(c, (int)memory, own, rank);
        }
        add_ports(c, (int)memory, &ports);
    }
    send_ports(c, rank, &ports);
    str_free(&ports);
}

static int32_t
lacks_mpi(const struct coordinator *c)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && !c->member[r].mpi) return r;
    return -1;
}

/* Returns the bytes that several FORM packets contain: the ranges, the slots, and for each memory the addresses that
 * its workers need. Sets ports[m] to the position of the addresses for memory m, and ports[nmemory] to their end. */
static struct shared_bytes *
form_bytes(const struct coordinator *c, size_t *ports)
{
    struct str all = {0};
    str_addn(&all, c->form.range, sizeof *c->form.range * (size_t)c->form.nrange);
    str_addn(&all, c->slot, sizeof *c->slot * (size_t)c->nslot);
    for (int i = 0; i < c->nmemory; i++) {
        ports[i] = all.len;
        known_ports(c, i, &all);
    }
    ports[c->nmemory] = all.len;
    struct shared_bytes *s = shared_bytes_new(all.text, all.len);
    str_free(&all);
    return s;
}

/* Sends FORM to all members, when all memories and ports are made. */
static void
send_form(struct coordinator *c)
{
    const struct form *f = &c->form;
    struct str spoken = {0};
    size_t *ports = must_alloc(sizeof *ports * ((size_t)c->nmemory + 1));
    struct shared_bytes *shared = form_bytes(c, ports);
    uint32_t nrange = (uint32_t)(sizeof *f->range * (size_t)f->nrange);
    int32_t lacks = lacks_mpi(c);
    c->phase = CLUSTER_FORM;
    c->awaited = 0;
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (!is_in(m)) continue;
        c->awaited++;
        int home = m->info.memory;
        const struct memory *at = &c->memory[home];
        m->info.state = MEMBER_PRESENT;
        send_spoken(c, r, &spoken);
        coordinate_send(
            c, r,
            (struct packet){.kind = PACKET_FORM,
                            .threads = f->threads,
                            .isa = c->isa,
                            .abilities = f->abilities,
                            .shared = shared,
                            .ranges = {shared->bytes, nrange},
                            .slots = {shared->bytes + nrange, (uint32_t)(sizeof *c->slot * (size_t)c->nslot)},
                            .home = (uint32_t)home,
                            .segment = span_text(at->info.own ? f->segment : at->segment),
                            .made = at->info.made_epoch,
                            .memory = f->bytes[home],
                            .bus = span_text(at->info.own ? f->bus : at->bus),
                            .ports = {shared->bytes + ports[home], (uint32_t)(ports[home + 1] - ports[home])},
                            .lacks = lacks,
                            .speaker = c->speaks ? at->first : r,
                            .spoken = {(const void *)spoken.text, (uint32_t)spoken.len},
                            .every = c->every});
    }
    shared_bytes_drop(shared);
    free(ports);
    str_free(&spoken);
}

/* Returns the MAKE_ flags for a member: what it must make. If no member has reported that it mapped the host's
 * memory, the memory is made again, even if some members have begun to map the old one. */
static uint32_t
make_what(struct coordinator *c, int rank)
{
    struct memory_info *at = &c->memory[c->member[rank].info.memory].info;
    uint32_t what = c->nmemory > 1 ? MAKE_PORT : 0;
    if (at->keeper != rank) return what;
    if (c->member[rank].holds) return what | MAKE_MEMORY;
    at->made_epoch = c->epoch;
    return what | MAKE_MEMORY | MAKE_FRESH;
}

/* Sets the instruction sets that all processes have in common, for the whole job: a process cannot change its
 * instruction sets after its first matrix product. */
static void
settle_isa(struct coordinator *c)
{
    if (c->isa_is_set) return;
    c->isa_is_set = true;
    c->isa = c->options.isa;
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r])) c->isa &= c->member[r].info.isa;
}

uint32_t
coordinator_isa(const struct coordinator *c)
{
    return c->isa;
}

/* Sends MAKE to the members that must make something. A member is BUSY until it answers. */
void
coordinator_form(struct coordinator *c, const struct form *f)
{
    assert(c->phase == CLUSTER_GATHER && coordinate_all_in(c) && f->nslot <= CLUSTER_SLOTS);
    if (c->form.table != f->table) coordinate_drop_programs(c);
    c->form = *f;
    settle_isa(c);
    c->phase = CLUSTER_MAKE;
    c->nslot = f->nslot;
    for (int m = 0; m < c->nmemory; m++) c->memory[m].ngpu = 0;
    for (int i = 0; i < f->nrange; i++)
        if (f->range[i].kind == DEV_CUDA) c->memory[f->range[i].memory].ngpu += (int)f->range[i].n;
    for (int s = 0; s < f->nslot; s++) c->slot[s] = (struct slot){f->slot[s].memory, heir(c, &f->slot[s], s)};
    find_memory_keepers(c);
    line_up_members(c);
    for (int m = 0; m < c->nmemory; m++) /* the bytes of a memory without members are lost */
        if (c->memory[m].first < 0) c->memory[m].info.made_epoch = c->epoch;
    uint32_t *nslots = must_alloc(sizeof *nslots * (size_t)c->nmemory);
    for (int s = 0; s < f->nslot; s++) nslots[f->slot[s].memory]++;
    c->awaited = 0;
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (!is_in(m)) continue;
        uint32_t flags = make_what(c, r);
        if (!flags) continue;
        c->awaited++;
        m->info.state = MEMBER_BUSY;
        const struct memory *at = &c->memory[m->info.memory];
        struct span lost = {(const void *)at->lost,
                            /* pids of lost processes of the member's host. A worker that stayed kills them, because
                             * they could still write to the host's memory. A new worker gets no pids: if a worker
                             * stayed on its host, that one kills the processes. If none stayed, the memory is made
                             * again, and no lost process maps the new memory */
                            m->info.stayed ? (uint32_t)(4 * at->nlost) : 0};
        coordinate_send(c, r,
                        (struct packet){.kind = PACKET_MAKE,
                                        .flags = flags,
                                        .memory = f->bytes[m->info.memory],
                                        .nslot = nslots[m->info.memory],
                                        .lost = lost});
    }
    free(nslots);
    if (c->awaited == 0) send_form(c);
}

static void
keep_text(char **at, struct span text)
{
    free(*at);
    *at = coordinate_text(text);
}

void
coordinate_made(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    if (!coordinate_accepts(c, rank, c->phase == CLUSTER_MAKE && m->info.state == MEMBER_BUSY)) return;
    if (p->status) {
        coordinate_lose_for(c, rank, p->text);
        return;
    }
    m->info.state = MEMBER_PRESENT;
    keep_text(&m->port, p->port);
    m->mpi = p->flags & MADE_MPI;
    struct memory *at = &c->memory[m->info.memory];
    if (at->info.keeper == rank) {
        keep_text(&at->segment, p->segment);
        keep_text(&at->bus, p->bus);
    }
    if (coordinate_last(c)) send_form(c);
}

void
coordinate_ready(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    if (!coordinate_accepts(c, rank, c->phase == CLUSTER_FORM && m->info.state == MEMBER_PRESENT)) return;
    if (p->status) {
        coordinate_lose_for(c, rank, p->text);
        return;
    }
    m->info.state = MEMBER_READY;
    m->holds = true;
    if (!coordinate_last(c)) return;
    for (int i = 0; i < c->nmemory; i++) c->memory[i].nlost = 0;
    c->phase = CLUSTER_IDLE;
    c->grows = false;
    coordinate_tell(c, (struct notice){.kind = NOTICE_FORMED});
}

/* ---- the next epoch ---- */

/* Returns true if the rank has no worker and can get one: it is lost, or had not joined when the epoch ended, or is
 * retired in an elastic job. */
static bool
is_out(const struct coordinator *c, const struct member *m)
{
    enum member_state s = m->info.state;
    return s == MEMBER_LOST || s == MEMBER_ABSENT || (s == MEMBER_RETIRED && c->options.least);
}

bool
coordinate_joins_own(const struct coordinator *c, int memory, const char *machine)
{
    return machine && c->memory[memory].info.own && !strcmp(c->memory[memory].info.machine, machine);
}

/* Returns true if an elastic job can continue without the memory. The job needs the memory of the coordinator's host if
 * no worker holds another memory, because the coordinator then has the only copy of the values. */
static bool
is_dispensable(const struct coordinator *c, int memory)
{
    bool settled = !c->memory[memory].info.own;
    for (int r = 0; r < c->options.world && !settled; r++) settled = is_in(&c->member[r]) && !c->member[r].machine;
    return c->options.least && !c->memory[memory].ngpu && settled;
}

int
coordinate_first_gone(const struct coordinator *c, int memory)
{
    int gone = -1;
    if (is_dispensable(c, memory)) return -1;
    for (int r = c->options.world - 1; r >= 0; r--) {
        const struct member *m = &c->member[r];
        bool joins = c->options.least && coordinate_joins_own(c, memory, m->machine);
        if (is_in(m) && (m->info.memory == memory || joins)) return -1;
        if (m->info.memory == memory && is_out(c, m)) gone = r;
    }
    return gone;
}

static void
reopen_rank(struct member *m)
{
    m->info.state = MEMBER_ABSENT;
    m->info.beats = m->info.progress = 0;
    m->info.missed = m->info.still = 0;
}

/* Reopens ranks for new workers, until the epoch has `workers` members: first the lowest rank of each memory (host)
 * without a member, then the lowest other ranks without a worker. Retires the remaining ranks. */
static void
open_ranks(struct coordinator *c, int workers)
{
    int alive = 0;
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        m->info.stayed = is_in(m);
        alive += m->info.stayed;
        if (m->info.stayed) m->info.state = MEMBER_PRESENT;
        if (is_out(c, m)) m->info.state = MEMBER_LOST;
    }
    for (int m = 0; m < c->nmemory; m++) {
        int r = coordinate_first_gone(c, m);
        if (r < 0) continue;
        reopen_rank(&c->member[r]);
        alive++;
    }
    for (int r = 0; r < c->options.world; r++) {
        struct member *m = &c->member[r];
        if (m->info.state != MEMBER_LOST) continue;
        if (alive++ < workers)
            reopen_rank(m);
        else
            m->info.state = MEMBER_RETIRED;
    }
    c->first_out = 0;
}

int
coordinator_recover(struct coordinator *c, int workers)
{
    int alive = 0, lost = 0, least = 0;
    assert(c->phase == CLUSTER_BROKEN || (c->phase == CLUSTER_IDLE && c->options.least));
    for (int r = 0; r < c->options.world; r++) {
        alive += is_in(&c->member[r]);
        lost += is_out(c, &c->member[r]);
    }
    least = alive;
    for (int m = 0; m < c->nmemory; m++) least += coordinate_first_gone(c, m) >= 0;
    least = MAX(least, c->options.least);
    /* before every rank was present once, no rank has slots that other ranks could take over */
    if (!c->nmemory) least = alive + lost;
    if (workers < MAX(least, 1) || workers > alive + lost)
        return fail(E_ARG,
                    "recover: workers = %d is out of range: %d are left and %d were lost, so it must be from %d to %d",
                    workers, alive, lost, MAX(least, 1), alive + lost);
    c->grows = c->phase == CLUSTER_IDLE;
    if (c->grows) coordinate_break(c);
    c->epoch++;
    c->phase = CLUSTER_GATHER;
    open_ranks(c, workers);
    coordinate_seat(c);
    coordinate_complete(c, -1);
    return 0;
}
