/* coordinator_run.c - sends programs to workers and runs them. */
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/coordinator/coordinator_inner.h"
#include "actors/cluster/coordinator/coordinator_admit.h"

#include "actors/plan/outline/comm_ranks.h"
#include "runtime/data/arena.h"
#include "runtime/device/communicator.h"
#include "runtime/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finds workers that are slower than other workers with the same work.
 *
 * An END packet reports the acts of a worker and the busy time of the worker's devices. After every WINDOW
 * successful runs, workers with equal numbers of acts are compared: replicas have equal numbers, pipeline stages do
 * not. A worker is reported if its busy time is more than twice the median of the other workers, and exceeds the
 * median by more than chance explains (excess_ns). A worker is reported only once. Waiting is not busy time, so a
 * worker that waits for a slow worker does not appear slow. */

enum { WINDOW = 16, TIMES = 2 };
static const uint64_t excess_ns = 200000000;

static int
by_acts_and_busy(const void *a, const void *b)
{
    const struct pace *x = *(struct pace *const *)a, *y = *(struct pace *const *)b;
    if (x->acts != y->acts) return x->acts < y->acts ? -1 : 1;
    return x->busy_ns < y->busy_ns ? -1 : x->busy_ns > y->busy_ns;
}

static void
report_pace(struct coordinator *c, struct pace *p)
{
    char text[128];
    if (p->told) return;
    p->told = true;
    snprintf(text, sizeof text, "its tasks take %.1f times as long as the same tasks on other workers", p->times);
    coordinate_tell(c, (struct notice){.kind = NOTICE_SLOW, .rank = p->rank, .text = text});
}

/* Reports slow workers among n workers with equal numbers of acts, sorted by busy time. The median of all workers
 * except worker i is at `middle`, or directly after it if i <= middle. */
static void
compare_paces(struct coordinator *c, struct pace **p, int n)
{
    int middle = (n - 2) / 2;
    for (int i = 0; i < n && n > 1; i++) {
        uint64_t others = p[i <= middle ? middle + 1 : middle]->busy_ns;
        bool slow = p[i]->busy_ns > TIMES * others && p[i]->busy_ns - others > excess_ns;
        p[i]->times = slow ? (double)p[i]->busy_ns / (double)MAX(others, 1) : 0;
        if (slow) report_pace(c, p[i]);
    }
}

/* Compares workers after a successful run. */
static void
coordinate_pace(struct coordinator *c)
{
    if (++c->npaced % WINDOW) return;
    struct pace **p = must_alloc(sizeof *p * (size_t)c->options.world);
    int n = 0;
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r])) (p[n++] = &c->member[r].pace)->rank = r;
    qsort(p, (size_t)n, sizeof(struct pace *), by_acts_and_busy);
    for (int first = 0, i = 1; i <= n; i++) {
        if (i < n && p[i]->acts == p[first]->acts) continue;
        compare_paces(c, p + first, i - first);
        first = i;
    }
    for (int i = 0; i < n; i++) p[i]->acts = p[i]->busy_ns = 0;
    free(p);
}

/* Records an END packet. */
static void
coordinate_worked(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    uint64_t busy = 0;
    for (uint32_t i = 0; i + 16 <= p->busy.n; i += 16) {
        uint64_t pair[2];
        memcpy(pair, p->busy.bytes + i, sizeof pair);
        busy += pair[1];
    }
    m->pace.acts += p->count;
    m->pace.busy_ns += busy;
    m->info.acts += p->count;
    m->info.busy_ns += busy;
}

/* ---- programs ---- */

static struct shipped *
known(const struct coordinator *c, uint64_t id)
{
    for (int i = 0; i < c->nshipped; i++)
        if (c->shipped[i].id == id) return &c->shipped[i];
    return NULL;
}

/* Gives the record of a program an unknown partition for each memory that was added since the record was made. A
 * worker of a new host adds a memory, and can be lost before any device moves there; then the program stays. */
static void
add_parts(struct shipped *s, int nmemory)
{
    if (nmemory <= s->nmemory) return;
    s->memory = must_realloc(s->memory, sizeof *s->memory * (size_t)nmemory);
    while (s->nmemory < nmemory) s->memory[s->nmemory++] = (struct part){.known = false};
}

/* Returns the plan partition of a memory. */
static struct part *
part_of(const struct shipped *s, int memory)
{
    assert(memory >= 0 && memory < s->nmemory);
    return &s->memory[memory];
}

/* Returns the record of a program, and adds an unknown program. */
static struct shipped *
find_shipped(struct coordinator *c, uint64_t id)
{
    struct shipped *s = known(c, id);
    if (!s) {
        GROW(c->shipped, c->nshipped + 1, c->shipped_capacity);
        s = &c->shipped[c->nshipped++];
        *s = (struct shipped){.id = id,
                              .has = must_alloc((size_t)c->options.world),
                              .rows = must_alloc(sizeof *s->rows * (size_t)c->options.world)};
    }
    add_parts(s, c->nmemory);
    return s;
}

/* Removes an entry from the list of programs; the later entries keep their order. */
static struct shipped
remove_shipped(struct coordinator *c, struct shipped *s)
{
    struct shipped out = *s;
    memmove(s, s + 1, sizeof *s * (size_t)(&c->shipped[--c->nshipped] - s));
    return out;
}

static void
drop_shipped(struct coordinator *c, struct shipped *s)
{
    struct shipped out = remove_shipped(c, s);
    for (int r = 0; r < c->options.world; r++)
        if (out.has[r] && is_in(&c->member[r]))
            coordinate_send(c, r, (struct packet){.kind = PACKET_FORGET, .program = out.id});
    shipped_free(&out);
}

void
coordinate_drop_programs(struct coordinator *c)
{
    while (c->nshipped) drop_shipped(c, &c->shipped[c->nshipped - 1]);
}

/* Marks a program as unused and moves it to the end of the list, so the first unused entry has been unused longest.
 * If there are more than COORDINATOR_IDLE unused programs, drops the first of them. */
void
coordinator_forget(struct coordinator *c, uint64_t program)
{
    struct shipped *s = known(c, program), *oldest = NULL;
    int nidle = 0;
    if (!s) return;
    struct shipped last = remove_shipped(c, s);
    last.idle = true;
    c->shipped[c->nshipped++] = last;
    for (int i = c->nshipped - 1; i >= 0; i--) {
        if (!c->shipped[i].idle) continue;
        oldest = &c->shipped[i];
        nidle++;
    }
    if (nidle > COORDINATOR_IDLE) drop_shipped(c, oldest);
}

/* Sends a program, or its schedule rows, in parts of at most WIRE_PIECE bytes. */
static void
send_shipped_pieces(struct coordinator *c, int rank, struct packet p, struct shared_bytes *of)
{
    size_t at = 0;
    p.shared = of;
    do {
        size_t n = MIN(of->n - at, (size_t)WIRE_PIECE);
        p.offset = at;
        p.total = of->n;
        p.bytes = (struct span){of->bytes + at, (uint32_t)n};
        coordinate_send(c, rank, p);
        at += n;
    } while (at < of->n);
}

/* Sends the program to the members that lack it. */
static void
ship(struct coordinator *c, const struct shipped *to, const struct start *s)
{
    struct shared_bytes *program = shared_bytes_new(s->bytes, s->nbyte);
    for (int r = 0; r < c->options.world; r++) {
        if (!is_in(&c->member[r]) || to->has[r]) continue;
        send_shipped_pieces(c, r, (struct packet){.kind = PACKET_PROGRAM, .program = s->program}, program);
        c->member[r].info.state = MEMBER_BUSY;
    }
    shared_bytes_drop(program);
}

/* A copy of the schedule rows of one memory (host). Successive ranks of that memory share it. */
struct rows_copy {
    int memory;
    struct shared_bytes *bytes; /* the copy; NULL: none was made yet */
};

/* Sends the program's schedule rows (planned order of acts) to a member that has another version of the rows, or
 * none. */
static void
ship_rows(struct coordinator *c, int rank, const struct start *s, struct rows_copy *rows)
{
    int memory = c->member[rank].info.memory;
    uint32_t *has = &find_shipped(c, s->program)->rows[rank];
    if (!s->rows || *has == s->rows_number) return;
    if (!rows->bytes || rows->memory != memory) {
        shared_bytes_drop(rows->bytes);
        *rows = (struct rows_copy){memory, shared_bytes_new(s->rows[memory].text, s->rows[memory].len)};
    }
    send_shipped_pieces(c, rank, (struct packet){.kind = PACKET_ROWS, .program = s->program}, rows->bytes);
    *has = s->rows_number;
}

/* ---- runs ---- */

static void
end_run(struct coordinator *c, const struct packet *p)
{
    if (c->phase == CLUSTER_RUN && c->status) c->anew = c->start.run;
    c->phase = CLUSTER_IDLE;
    for (int r = 0; r < c->options.world; r++)
        if (c->member[r].info.state == MEMBER_BUSY) c->member[r].info.state = MEMBER_READY;
    coordinate_tell(c, (struct notice){.kind = NOTICE_ENDED,
                                       .run = c->start.run,
                                       .status = c->status,
                                       .rank = c->blame,
                                       .node = c->node,
                                       .text = c->text,
                                       .packet = p});
}

/* Records a failure of the run. Returns true if it is the first one. The first failure is kept, with one exception:
 * a failure with another code replaces E_CANCEL, because a worker that was stopped after another worker's failure
 * may report E_CANCEL first. */
static bool
blame(struct coordinator *c, int rank, int status, int node, struct span text)
{
    struct str s = {0};
    bool first = !c->status;
    if (!status || (!first && (c->status != E_CANCEL || status == E_CANCEL))) return false;
    c->status = status;
    c->blame = rank;
    c->node = node;
    for (uint32_t i = 0; i < text.n; i++) /* line ends are kept, and other control characters are escaped */
        str_addf(&s, text.bytes[i] == '\n' || text.bytes[i] >= ' ' ? "%c" : "\\x%02x", text.bytes[i]);
    snprintf(c->text, sizeof c->text, "%s", str_text(&s));
    str_free(&s);
    return first;
}

static void
begin_run(struct coordinator *c)
{
    const struct start *s = &c->start;
    struct rows_copy rows = {0};
    c->phase = CLUSTER_RUN;
    c->awaited = 0;
    for (int r = 0; r < c->options.world; r++) {
        c->member[r].ended = false;
        if (!is_in(&c->member[r])) continue;
        c->member[r].info.state = MEMBER_BUSY;
        /* keeps the count of completed work, and clears the program node, which belongs to an earlier run */
        c->member[r].info.progress &= ~(uint64_t)UINT32_MAX;
        c->awaited++;
    }
    for (int r = 0; r < c->options.world; r++) {
        if (!is_in(&c->member[r])) continue;
        const struct places *places = &s->places[c->member[r].info.memory];
        ship_rows(c, r, s, &rows);
        coordinate_send(c, r,
                        (struct packet){.kind = PACKET_START,
                                        .run = s->run,
                                        .program = s->program,
                                        .flags = s->flags,
                                        .anew = c->anew,
                                        .places = {(const void *)places->at, (uint32_t)(8 * places->n)},
                                        .numbers = {(const void *)s->numbers, (uint32_t)(8 * s->nnumber)}});
    }
    shared_bytes_drop(rows.bytes);
}

/* Checks that the partitions agree on their collectives. The coordinator must check, because a worker verifies only
 * the partition of its memory. */
static bool
parts_agree(struct coordinator *c, struct shipped *s)
{
    struct comm_ranks_list *list = must_alloc(sizeof *list * (size_t)(c->nmemory + 1));
    for (int m = 0; m < c->nmemory; m++) {
        const struct str *ranks = &part_of(s, m)->comm_ranks;
        list[m] = (struct comm_ranks_list){m, str_text(ranks), ranks->len};
    }
    s->agreed = s->agreed || !comm_ranks_match(c->nmemory, list);
    free(list);
    if (s->agreed) return true;
    blame(c, -1, E_PLAN, -1, span_text(err_text()));
    err_clear();
    return false;
}

/* Called when every member has the program: begins the run. If only sending the program was requested (START_SHIPS),
 * ends. */
static void
continue_shipping(struct coordinator *c)
{
    if (!c->status) parts_agree(c, find_shipped(c, c->start.program));
    if (c->status || c->start.flags & START_SHIPS)
        end_run(c, NULL);
    else
        begin_run(c);
}

static bool
all_have(const struct coordinator *c, const struct shipped *s)
{
    for (int r = 0; r < c->options.world; r++)
        if (is_in(&c->member[r]) && !s->has[r]) return false;
    return true;
}

/* Sends NOTICE_HAVE again for each partition of a program, because members that have the program do not report it
 * again. */
static void
retell(struct coordinator *c, const struct shipped *s)
{
    for (int m = 0; m < c->nmemory; m++) {
        const struct part *part = part_of(s, m);
        int rank = coordinate_keeper(c, m);
        if (!part->known || rank < 0) continue;
        struct packet p = {.kind = PACKET_HAVE,
                           .program = s->id,
                           .arenas = {(const void *)part->arenas.text, (uint32_t)part->arenas.len},
                           .replaces = {(const void *)part->replaces.text, (uint32_t)part->replaces.len}};
        coordinate_tell(c, (struct notice){.kind = NOTICE_HAVE, .rank = rank, .packet = &p});
    }
}

void
coordinator_start(struct coordinator *c, const struct start *s)
{
    assert(c->phase == CLUSTER_IDLE);
    c->start = *s;
    c->status = 0;
    c->blame = c->node = -1;
    c->text[0] = '\0';
    struct shipped *p = find_shipped(c, s->program);
    p->idle = false;
    if (s->flags & START_SHIPS) retell(c, p);
    if (all_have(c, p)) {
        continue_shipping(c);
        return;
    }
    c->phase = CLUSTER_SHIP;
    c->awaited = 0;
    for (int r = 0; r < c->options.world; r++) c->awaited += is_in(&c->member[r]) && !p->has[r];
    ship(c, p, s);
}

/* Checks a compiled plan. Compares its outline with the controller's outline, and the partition with the partitions
 * of other workers of the same memory. Returns the name of what differs; NULL: nothing. */
static const char *
objection_to(struct coordinator *c, int rank, const struct packet *p)
{
    int memory = c->member[rank].info.memory;
    unsigned char *part = part_of(find_shipped(c, p->program), memory)->digest;
    if (!coordinate_same(p->outline, c->start.outline) || p->digest.n != CLUSTER_ID)
        return "the worker's plan of this program differs from the controller's";
    if (memory == c->start.memory) memcpy(part, c->start.digest, CLUSTER_ID);
    if (coordinate_zero(part)) memcpy(part, p->digest.bytes, CLUSTER_ID);
    return coordinate_same(p->digest, part)
               ? NULL
               : "the worker's plan of this program differs from that of other workers of its host";
}

static void
keep_shipped_part(struct shipped *s, int memory, const struct packet *p)
{
    struct part *part = part_of(s, memory);
    s->agreed = false;
    str_clear(&part->comm_ranks);
    str_addn(&part->comm_ranks, p->comm_ranks.bytes, p->comm_ranks.n);
    if (part->known) return;
    part->known = true;
    str_addn(&part->arenas, p->arenas.bytes, p->arenas.n);
    str_addn(&part->replaces, p->replaces.bytes, p->replaces.n);
}

/* Handles a HAVE packet, the result of compiling a program. If some workers reject the program, the others keep
 * it. */
void
coordinate_have(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    bool expected = c->phase == CLUSTER_SHIP && p->program == c->start.program && m->info.state == MEMBER_BUSY;
    if (!coordinate_accepts(c, rank, expected)) return;
    m->info.state = MEMBER_READY;
    const char *no = p->status ? NULL : objection_to(c, rank, p);
    if (p->status) {
        blame(c, rank, (int)p->status, -1, p->text);
    } else if (no) {
        blame(c, rank, E_PLAN, -1, span_text(no));
    } else {
        struct shipped *s = find_shipped(c, p->program);
        s->has[rank] = 1;
        keep_shipped_part(s, m->info.memory, p);
        coordinate_tell(c, (struct notice){.kind = NOTICE_HAVE, .rank = rank, .packet = p});
    }
    if (coordinate_last(c)) continue_shipping(c);
}

void
coordinate_end(struct coordinator *c, int rank, const struct packet *p)
{
    struct member *m = &c->member[rank];
    bool expected = c->phase == CLUSTER_RUN && p->run == c->start.run && !m->ended;
    if (!coordinate_accepts(c, rank, expected)) return;
    m->ended = true;
    m->info.state = MEMBER_READY;
    if (blame(c, rank, (int)p->status, p->node, p->text)) coordinate_stop(c, STOP_FAILED);
    coordinate_worked(c, rank, p);
    coordinate_tell(c, (struct notice){.kind = NOTICE_ACTS, .rank = rank, .run = p->run, .packet = p});
    if (!coordinate_last(c)) return;
    if (!c->status) coordinate_pace(c);
    end_run(c, p);
}

void
coordinate_acts(struct coordinator *c, int rank, const struct packet *p)
{
    if (c->phase == CLUSTER_RUN && p->run == c->start.run && !c->member[rank].ended)
        coordinate_tell(c, (struct notice){.kind = NOTICE_ACTS, .rank = rank, .run = p->run, .packet = p});
}

/* ---- communicators ---- */

/* Forwards the id of a communicator, from the worker of its first rank to the workers of the other ranks. The
 * packet's list of memories must be in ascending order. */
void
coordinate_unite(struct coordinator *c, int rank, const struct packet *p)
{
    int64_t last = -1;
    if (c->phase != CLUSTER_RUN || p->run != c->start.run || p->bytes.n != COMMUNICATOR_ID) return;
    for (uint32_t i = 0; i + 4 <= p->memories.n; i += 4) {
        uint32_t memory;
        memcpy(&memory, p->memories.bytes + i, sizeof memory);
        bool next = memory > last;
        last = memory;
        for (int r = 0; next && r < c->options.world; r++)
            if (r != rank && is_in(&c->member[r]) && (uint32_t)c->member[r].info.memory == memory)
                coordinate_send(
                    c, r, (struct packet){.kind = PACKET_UNITE, .run = p->run, .count = p->count, .bytes = p->bytes});
    }
}

/* ---- files ---- */

bool
coordinator_file(struct coordinator *c, int rank, const struct packet *p)
{
    if (c->phase < CLUSTER_IDLE || c->phase > CLUSTER_RUN || !is_in(&c->member[rank])) return false;
    coordinate_send(c, rank, *p);
    c->member[rank].files += p->kind != PACKET_CANCEL;
    return true;
}

void
coordinate_filed(struct coordinator *c, int rank, const struct packet *p)
{
    int *files = &c->member[rank].files;
    if (!coordinate_accepts(c, rank, *files > 0)) return;
    if (!(p->flags & FILED_MORE)) --*files;
    coordinate_tell(c, (struct notice){.kind = NOTICE_FILED, .rank = rank, .packet = p});
}

void
coordinator_stop(struct coordinator *c)
{
    if (c->phase == CLUSTER_RUN) coordinate_stop(c, STOP_ASKED);
}

void
shipped_free(struct shipped *s)
{
    for (int m = 0; m < s->nmemory; m++) {
        str_free(&s->memory[m].arenas);
        str_free(&s->memory[m].replaces);
        str_free(&s->memory[m].comm_ranks);
    }
    free(s->memory);
    free(s->has);
    free(s->rows);
}
